//! Kernel to text. `wgsl` prints what every wgpu backend and every browser compiles.

/// Appends to a text. A `String` takes whatever is written to it.
macro_rules! put {
    ($text:expr, $($argument:tt)*) => {{
        use std::fmt::Write;
        let _ = write!($text, $($argument)*);
    }};
}

/// The text of a stored shader.
macro_rules! shader {
    ($name:literal) => {
        include_str!(concat!("../../shaders/", $name, ".wgsl"))
    };
}

mod analysis;
mod direct;
mod layout;
mod loops;
// Browsers have no such matrices.
#[cfg(not(target_arch = "wasm32"))]
mod matrices;
mod module;
mod moves;
mod program;
mod routine;
mod rows;
mod sizes;
mod slot;

use crate::kernel::{Kernel, KernelConfig};
pub use sizes::Size;

/// A kernel's text, ready to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The shader. Entry point `main`, all bindings in group 0: binding 0 is the params uniform
    /// (`array<vec4<u32>, n>`), then the inputs (`storage, read`), then the outputs (`storage, read_write`).
    pub text: String,
    /// Number of workgroups; where it exceeds what one dimension takes, the backend folds it into two, and the shader
    /// reads its number as `workgroup_id.x + workgroup_id.y * num_workgroups.x` and stops beyond the last.
    pub workgroups: u64,
    /// `vec4`s in the params uniform: a head of one, then the user's numbers four by four.
    pub params: usize,
    /// Whether the text needs `enable f16;` (it says so itself).
    pub f16: bool,
    /// The numbers in the text that follow from sizes, in order; the first one is the params' extent.
    pub sizes: Vec<Size>,
}

/// The head of every params uniform: 0, and what WGSL has no literal for: the bits of -Inf, +Inf and NaN.
pub const PARAMS_HEAD: [u32; 4] = [0, 0xff80_0000, 0x7f80_0000, 0x7fc0_0000];

/// The WGSL of `kernel`, of the variant that is asked for. Valid for browsers as it stands, if compiled for them. The
/// highest input that a program loads is the kernel's last one: an output's binding follows it.
pub fn wgsl(kernel: &Kernel, config: KernelConfig) -> Source {
    match kernel {
        Kernel::Loop { space, program } => loops::wgsl(space, program, config),
        Kernel::Matmul(matmul) => match direct::matmul(matmul, config) {
            Some((space, program)) => loops::wgsl(&space, &program, config),
            None => routine::matmul(matmul, config),
        },
        Kernel::Conv2d(conv) => match direct::conv2d(conv, config) {
            Some((space, program)) => loops::wgsl(&space, &program, config),
            None => routine::conv2d(conv, config),
        },
        Kernel::Attention(attend) => routine::attention(attend),
    }
}
