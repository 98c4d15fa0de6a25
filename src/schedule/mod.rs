//! Scheduling: the decision how a machine runs a kernel. It depends on the kernel, the limits of the machine and the
//! preferred kernels, and is made only in this module. A [`Schedule`] is plain data. `codegen` prints it, the CPU uses the
//! parts that it shares with GPUs, and backends of other crates can read it.

mod access;
mod attention;
mod direct;
mod maps;
mod packed;
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
    AttentionSchedule, MapSchedule, PackedSchedule, ProductExtents, ProductSchedule, ProductTile,
    RowSchedule, Schedule, Strategy, TransposeSchedule, WindowSchedule, PACKED_UNIT,
    REGISTER_COLUMNS, REGISTER_THREADS, TRANSPOSE_TILE,
};
pub use vectors::{is_whole_vector, Vector, VECTOR};

use crate::kernel::{Kernel, KernelConfig, Limits};
use crate::op::Function;
use std::borrow::Cow;

/// Schedules `kernel` on a machine with `limits`, where `config` has the preferred kernels. Features that the limits do not
/// allow, such as subgroups and cooperative matrices, are not chosen. Calls of functions are inlined, except functions in
/// WGSL.
pub fn schedule(kernel: &Kernel, limits: &Limits, config: KernelConfig) -> Schedule {
    let own = |function: &Function| matches!(function, Function::Element(_));
    match kernel.inlined(&own) {
        Cow::Borrowed(kernel) => plain(kernel, limits, config),
        Cow::Owned(kernel) => lower(kernel, limits, config),
    }
}

/// Schedules a kernel without calls.
fn plain(kernel: &Kernel, limits: &Limits, config: KernelConfig) -> Schedule {
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
        Kernel::PackedMatmul(packed) => packed::schedule(packed, config),
        Kernel::Order(order) => Schedule {
            lowered: None,
            workgroup_size: 1,
            workgroups: order.rows as u64,
            strategy: Strategy::Order,
        },
        Kernel::Shader { workgroups, .. } => Schedule {
            lowered: None,
            workgroup_size: 0,
            workgroups: workgroups.iter().map(|&count| u64::from(count)).product(),
            strategy: Strategy::Shader,
        },
    }
}

/// Schedules a lowered kernel, which may be lowered further.
fn lower(kernel: Kernel, limits: &Limits, config: KernelConfig) -> Schedule {
    let schedule = plain(&kernel, limits, config);
    match schedule.lowered {
        Some(_) => schedule,
        None => Schedule { lowered: Some(Box::new(kernel)), ..schedule },
    }
}
