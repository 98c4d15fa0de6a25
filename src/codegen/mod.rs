//! Code generation from kernels to WGSL. `wgsl` prints code that every wgpu backend and every browser compiles.

/// Appends to a text. Writing to a `String` cannot fail.
macro_rules! put {
    ($text:expr, $($argument:tt)*) => {{
        use std::fmt::Write;
        let _ = write!($text, $($argument)*);
    }};
}

/// Includes the text of a stored shader.
macro_rules! shader {
    ($name:literal) => {
        include_str!(concat!("../../shaders/", $name, ".wgsl"))
    };
}

mod analysis;
mod dialect;
mod helpers;
mod loops;
mod memory;
mod module;
mod packed;
mod program;
mod routine;
mod rows;
mod shader;
mod sizes;
mod slot;
mod source;
mod transpose;

use crate::kernel::Kernel;
use crate::schedule::{Schedule, Strategy};
pub use dialect::{Dialect, Features};
pub use sizes::Size;
pub use source::{fold, Source};

/// The first vector of every params uniform: 0, and the bits of -Inf, +Inf and NaN, for which WGSL has no literal.
pub const PARAMS_HEAD: [u32; 4] = [0, 0xff80_0000, 0x7f80_0000, 0x7fc0_0000];

/// Prints `kernel` as scheduled, for a compiler. The bindings of outputs follow the highest input that a program loads.
///
/// # Panics
/// If the schedule belongs to another kernel, or needs cooperative matrices that the dialect does not have.
pub fn wgsl(kernel: &Kernel, schedule: &Schedule, dialect: Dialect) -> Source {
    match (schedule.kernel(kernel), &schedule.strategy) {
        (Kernel::Loop { space, program }, Strategy::Map(map)) => {
            loops::wgsl((&space.dims, program), map, schedule, dialect)
        }
        (Kernel::Loop { space, program }, Strategy::Transpose(transpose)) => {
            transpose::wgsl((&space.dims, program), transpose, schedule, dialect)
        }
        (Kernel::Loop { space, program }, Strategy::Rows(rows)) => {
            rows::wgsl((space, program), rows, schedule, dialect)
        }
        (Kernel::Matmul(matmul), Strategy::Product(product)) => {
            routine::matmul(matmul, product, schedule, dialect)
        }
        (Kernel::Conv2d(conv), Strategy::Product(product)) => {
            routine::product_of_windows(conv, product, schedule, dialect)
        }
        (Kernel::Conv2d(conv), Strategy::Window(window)) => {
            routine::windows(conv, *window, schedule, dialect)
        }
        (Kernel::PackedMatmul(packed), Strategy::Packed(units)) => {
            packed::units(packed, units, schedule, dialect)
        }
        (Kernel::PackedMatmul(packed), Strategy::Product(product)) => {
            packed::tiles(packed, product, schedule, dialect)
        }
        (Kernel::Attention(attend), Strategy::Attention(attention)) => {
            routine::attention(attend, attention, schedule, dialect)
        }
        (Kernel::Shader { shader, workgroups }, Strategy::Shader) => Source {
            text: shader.source().to_string(),
            grid: Some(*workgroups),
            workgroups: schedule.workgroups,
            params: shader.params.len().div_ceil(4).max(1),
            head: false,
            features: Features { f16: shader.f16, ..Features::default() },
            sizes: Vec::new(),
        },
        (kernel, strategy) => panic!("{strategy:?} is not how a {} is run", kernel.kind()),
    }
}
