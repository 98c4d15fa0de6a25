//! Differences between WGSL compilers, and the device features that a shader needs beyond core WGSL.

use crate::kernel::Limits;

/// The extensions of a WGSL compiler. A backend chooses the dialect that it prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// The directive at the beginning of a shader with subgroups.
    pub enable_subgroups: &'static str,
    /// The directive for cooperative matrices, and the shader of products that use them. `None` if the compiler does not
    /// support them.
    pub cooperative_matrices: Option<(&'static str, &'static str)>,
    /// The shader of attention with `f16` operands and tiles of queries. `None` if it is that of all other operands.
    pub f16_attention: Option<&'static str>,
}

impl Dialect {
    /// naga, the native compiler of wgpu. It supports subgroups without a directive, and rejects the directive.
    pub const NAGA: Dialect = Dialect {
        enable_subgroups: "",
        cooperative_matrices: Some((
            "enable wgpu_cooperative_matrix;\n",
            shader!("matmul_matrices"),
        )),
        f16_attention: None,
    };

    /// The compilers of browsers.
    pub const BROWSER: Dialect = Dialect {
        enable_subgroups: "enable subgroups;\n",
        cooperative_matrices: None,
        f16_attention: None,
    };
}

/// The features that a kernel needs beyond core WGSL. The shader enables them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The type `f16`.
    pub f16: bool,
    /// The subgroup functions.
    pub subgroups: bool,
    /// Cooperative matrices of 8 x 8 elements.
    pub cooperative_matrices: bool,
}

impl Features {
    /// Returns the first feature that a device with these limits lacks.
    pub fn missing(&self, limits: &Limits) -> Option<&'static str> {
        match () {
            _ if self.f16 && !limits.f16 => Some("f16"),
            _ if self.subgroups && !limits.subgroups => Some("subgroups"),
            _ if self.cooperative_matrices && !limits.cooperative => Some("cooperative matrices"),
            _ => None,
        }
    }
}
