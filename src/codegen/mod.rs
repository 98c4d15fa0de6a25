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
mod product;
mod program;
mod routine;
mod rows;
mod sizes;
mod slot;
mod source;

use crate::kernel::{Kernel, KernelConfig};
use crate::op::Function;
pub use sizes::Size;
pub use source::Source;

/// The head of every params uniform: 0, and what WGSL has no literal for: the bits of -Inf, +Inf and NaN.
pub const PARAMS_HEAD: [u32; 4] = [0, 0xff80_0000, 0x7f80_0000, 0x7fc0_0000];

/// The WGSL of `kernel`, of the variant that is asked for. Valid for browsers as it stands, if compiled for them. The
/// highest input that a program loads is the kernel's last one: an output's binding follows it.
pub fn wgsl(kernel: &Kernel, config: KernelConfig) -> Source {
    let own = |function: &Function| matches!(function, Function::Element(_));
    match &*kernel.inlined(&own) {
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
        Kernel::Shader { shader, workgroups } => Source {
            text: shader.source().to_string(),
            grid: Some(*workgroups),
            workgroups: workgroups.iter().map(|&count| u64::from(count)).product(),
            params: shader.params.len().div_ceil(4).max(1),
            head: false,
            f16: shader.f16,
            sizes: Vec::new(),
        },
    }
}
