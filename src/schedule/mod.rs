//! How a machine runs a kernel: decided here and nowhere else, from the kernel, what the machine can do and which kernels are
//! preferred. A [`Schedule`] is plain data: `codegen` prints it, the CPU follows the parts that it shares with GPUs, and a
//! backend from outside reads it as they do.

mod access;
mod attention;
mod direct;
mod maps;
mod presets;
mod products;
mod rows;
mod strategy;
mod vectors;

pub use access::{traversal, varying, Traversal};
pub use maps::tiled_transpose;
pub use presets::{is_software, preset};
pub use products::is_transposed;
pub use strategy::{
    AttentionSchedule, MapSchedule, ProductExtents, ProductSchedule, ProductTile, RowSchedule,
    Schedule, Strategy, TransposeSchedule, WindowSchedule, REGISTER_COLUMNS, REGISTER_THREADS,
    TRANSPOSE_TILE,
};
pub use vectors::{is_whole_vector, Vector, VECTOR};

use crate::kernel::{Kernel, KernelConfig, Limits};

/// How a machine with these limits runs `kernel` where `config` is preferred. What the limits do not allow (subgroups,
/// cooperative matrices) is not chosen.
pub fn schedule(kernel: &Kernel, limits: &Limits, config: KernelConfig) -> Schedule {
    match kernel {
        Kernel::Loop { space, program } if space.outer < space.dims.len() => {
            rows::schedule(space, program, limits, config.rows)
        }
        Kernel::Loop { space, program } => maps::schedule(&space.dims, program, config.transpose),
        Kernel::Matmul(matmul) => match direct::matmul(matmul, config) {
            Some(direct) => lower(direct, limits, config),
            None => products::matmul(matmul, limits, config),
        },
        Kernel::Conv2d(conv) => match direct::conv2d(conv, config) {
            Some(direct) => lower(direct, limits, config),
            None => products::conv2d(conv, config),
        },
        Kernel::Attention(attend) => attention::schedule(attend),
    }
}

/// The schedule of what is lowered to `direct`.
fn lower(direct: Kernel, limits: &Limits, config: KernelConfig) -> Schedule {
    let schedule = schedule(&direct, limits, config);
    Schedule { lowered: Some(Box::new(direct)), ..schedule }
}
