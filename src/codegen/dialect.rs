//! What compilers of WGSL differ in, and what a text needs of a device beyond WGSL's core.

use crate::kernel::Limits;

/// How a compiler of WGSL has what is no part of WGSL's core. A backend says which one it prints for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialect {
    /// What a text must begin with to use subgroups.
    pub enable_subgroups: &'static str,
    /// What it must begin with to use cooperative matrices, and the shader of the products that do; `None` where the
    /// compiler has none.
    pub cooperative_matrices: Option<(&'static str, &'static str)>,
}

impl Dialect {
    /// naga, which wgpu compiles with natively. It knows subgroups without being told, and not the line that tells.
    pub const NAGA: Dialect = Dialect {
        enable_subgroups: "",
        cooperative_matrices: Some((
            "enable wgpu_cooperative_matrix;\n",
            shader!("matmul_matrices"),
        )),
    };

    /// The browsers' compilers.
    pub const BROWSER: Dialect =
        Dialect { enable_subgroups: "enable subgroups;\n", cooperative_matrices: None };
}

/// What a kernel's text needs of a device beyond WGSL's core. The text enables it by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// The type `f16`.
    pub f16: bool,
    /// Subgroup functions.
    pub subgroups: bool,
    /// Cooperative matrices of 8 x 8.
    pub cooperative_matrices: bool,
}

impl Features {
    /// The first one that a device with these limits lacks.
    pub fn missing(&self, limits: &Limits) -> Option<&'static str> {
        match () {
            _ if self.f16 && !limits.f16 => Some("f16"),
            _ if self.subgroups && !limits.subgroups => Some("subgroups"),
            _ if self.cooperative_matrices && !limits.cooperative => Some("cooperative matrices"),
            _ => None,
        }
    }
}
