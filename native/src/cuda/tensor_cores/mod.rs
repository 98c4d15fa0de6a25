//! Tensor cores: the kernels that use them, and the choice of their tiles.
//!
//! A product uses tensor cores if it would use cooperative matrices on other GPUs: the configuration asks for them
//! ([`F16Matmul::CooperativeMatrices`]), and all numbers of both operands are exact as `f16`. Attention uses them if queries,
//! keys and values are. Sums are `f32`, but PTX does not specify how tensor cores round them. Published measurements found
//! truncation, so long sums may be less accurate than those of other kernels. The interpreter of the tests rounds to nearest.
//! Operands of `f32` never use tensor cores.
//!
//! The shaders are `matmul.wgsl` and `attention.wgsl`, whose comments explain the algorithms. They are WGSL with a few
//! functions that stand for instructions of PTX, so operands, epilogues and bounds are those of all other kernels.

use super::ptx::{Bounds, Options};
use warpweft::codegen::{wgsl, Dialect, Source};
use warpweft::kernel::{Attention, F16Matmul, Kernel, KernelConfig, Limits};
use warpweft::schedule::{schedule, ProductExtents, ProductTile, Schedule, Strategy};

/// The first architecture with asynchronous copies, and with products of 16 x 8 x 16 `f16`.
const FIRST_SM: u32 = 80;
/// The least number of 128 x 128 tiles in a product that uses them. Fewer would leave multiprocessors idle.
const MIN_LARGE_TILES: usize = 128;

/// The rows of a workgroup of attention.
const ATTENTION_ROWS: usize = 64;
/// The most elements of a head that attention can hold in registers and shared memory.
const MAX_HEAD_SIZE: usize = 128;

/// The dialect of the translator. Products and attention of `f16` are on tensor cores.
const DIALECT: Dialect = Dialect {
    enable_subgroups: "",
    cooperative_matrices: Some(("", include_str!("matmul.wgsl"))),
    f16_attention: Some(include_str!("attention.wgsl")),
};

/// Adds the tensor cores of a device with the compute capability `sm` to limits.
pub(super) fn limits(limits: Limits, sm: u32) -> Limits {
    if sm < FIRST_SM {
        return limits;
    }
    let config = KernelConfig { f16_matmul: F16Matmul::CooperativeMatrices, ..limits.config };
    Limits { cooperative: true, config, ..limits }
}

/// Prints the kernel as WGSL for the translator, on a device with these limits.
pub fn source(kernel: &Kernel, limits: &Limits, config: KernelConfig) -> Source {
    source_with_tile(kernel, limits, config, None)
}

/// Like [`source`]. Products on tensor cores have tiles of `tile` x `tile` results: 32, 64 or 128.
pub fn source_with_tile(
    kernel: &Kernel,
    limits: &Limits,
    config: KernelConfig,
    tile: Option<usize>,
) -> Source {
    let mut schedule = schedule(kernel, limits, config);
    let has_matrices = limits.cooperative && config.f16_matmul == F16Matmul::CooperativeMatrices;
    match kernel {
        Kernel::Attention(attention) => set_rows(&mut schedule, attention, has_matrices),
        _ => set_tile(&mut schedule, tile),
    }
    wgsl(kernel, &schedule, DIALECT)
}

/// Whether a kernel of [`source`] uses tensor cores.
pub fn is_used(source: &Source) -> bool {
    source.features.cooperative_matrices
}

/// Returns the options that translate a kernel of [`source`] for the compute capability `sm`.
///
/// Accesses are checked, because the planner's kernels also load beyond buffers and do not use the value, as WGSL allows.
pub fn options(source: &Source, sm: u32) -> Options {
    let is_used = is_used(source);
    // 16 matrices along a tile of 128 x 128 results, which has 256 threads.
    let has_large_tile = is_used && source.text.contains("const ACROSS = 8u;");
    Options {
        sm,
        bounds: Bounds::Checked,
        // The assembler would otherwise spill registers of a few kernels, so that more threads fit into a multiprocessor. With
        // 128 registers, two workgroups of the largest tile fit, and one multiplies while the other waits.
        max_registers: Some(if has_large_tile { 128 } else { 255 }),
        has_intrinsics: is_used,
        // These kernels write shared memory before they read it.
        zero_workgroup_memory: !is_used,
        ..Options::default()
    }
}

/// Sets the tile of a product on tensor cores, or chooses it by the size: 128 x 128 results for large products. Otherwise it
/// keeps 64 x 64 or 32 x 32 results, which the planner has chosen.
fn set_tile(schedule: &mut Schedule, tile: Option<usize>) {
    let Strategy::Product(product) = &mut schedule.strategy else { return };
    let ProductTile::CooperativeMatrices { across } = &mut product.tile else { return };
    let ProductExtents { batch, m, n, .. } = product.extents;
    let tiles = |tile: usize| batch * m.div_ceil(tile) * n.div_ceil(tile);
    let chosen = 2 * *across * ProductTile::MATRIX;
    let is_large = m > 64 && n > 64 && tiles(128) >= MIN_LARGE_TILES;
    let tile = tile.unwrap_or(if is_large { 128 } else { chosen });
    *across = tile / (2 * ProductTile::MATRIX);
    schedule.workgroups = tiles(tile) as u64;
}

/// Chooses whether attention uses tensor cores, and then sets its rows.
fn set_rows(schedule: &mut Schedule, attention: &Attention, has_matrices: bool) {
    let Strategy::Attention(strategy) = &mut schedule.strategy else { return };
    let Attention { batch, heads, kv_heads, queries, head_size, value_size, .. } = *attention;
    let fits = |size: usize| (1..=MAX_HEAD_SIZE).contains(&size);
    strategy.matrices &= has_matrices && fits(head_size) && fits(value_size);
    if strategy.matrices {
        strategy.rows = ATTENTION_ROWS;
        let rows = heads / kv_heads.max(1) * queries;
        schedule.workgroups = (batch * kv_heads * rows.div_ceil(ATTENTION_ROWS)) as u64;
    }
}
