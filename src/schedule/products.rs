//! The schedule of matrix products and convolutions: tiles, registers and windows.

use super::strategy::{
    ProductExtents, ProductSchedule, ProductTile, Schedule, Strategy, WindowSchedule,
    REGISTER_COLUMNS, REGISTER_THREADS,
};
use super::vectors::Vector;
use crate::dtype::DType;
use crate::expr::{Binary, Unary};
use crate::kernel::{
    Convolution, F16Matmul, Inst, KernelConfig, Limits, Matmul, Operand, Program, Tile, ValueId,
};

/// Returns the index of a product in a list of tiles: 0 for small products, 1 for medium ones, 2 for large ones.
pub(super) fn class(extents: ProductExtents) -> usize {
    let ProductExtents { batch, m, n, .. } = extents;
    let tiles = |size: usize| batch * m.div_ceil(size) * n.div_ceil(size);
    match () {
        _ if m > 64 && n > 64 && tiles(128) >= 128 => 2,
        _ if tiles(64) >= 64 => 1,
        _ => 0,
    }
}

/// No operand and no result is read or written in vectors.
pub(super) const NO_VECTORS: [Option<Vector>; 3] = [const { None }; 3];

/// Whether an operand is transposed in tiles. Such an operand is contiguous along `axis`, and not along the next one.
pub fn is_transposed(operand: &Operand, axis: usize) -> bool {
    operand.is_contiguous_along(axis as u32) && !operand.is_contiguous_along(axis as u32 + 1)
}

pub(super) fn matmul(matmul: &Matmul, limits: &Limits, config: KernelConfig) -> Schedule {
    let extents = ProductExtents::of_matmul(matmul);
    let ProductExtents { batch, m, n, k } = extents;
    let (class, rank) = (class(extents), matmul.batch.len());
    let matrices = config.f16_matmul == F16Matmul::CooperativeMatrices && limits.cooperative;
    let tile = match config.matmul_tiles[class] {
        _ if matrices && takes_matrices(matmul) => {
            ProductTile::CooperativeMatrices { across: if class == 0 { 2 } else { 4 } }
        }
        Tile::Thread => {
            // The results of a thread are along the columns. If the columns are few, they are along the rows instead.
            let exchanged = n < REGISTER_COLUMNS && n < m;
            let rows = if exchanged { n } else { m };
            ProductTile::Registers { rows: share(rows, batch * m * n * k), exchanged }
        }
        tile => shared(tile, m, n),
    };
    let axis = rank as u32 + 1;
    let operand =
        |operand: &Operand, extent| vector(&operand.program, Some(operand.value), axis, extent);
    let results = || vector(&matmul.epilogue, None, axis, n);
    let (transposed, vectors) = match tile {
        ProductTile::Registers { exchanged: true, .. } => ([false; 2], NO_VECTORS),
        ProductTile::Registers { .. } => ([false; 2], [None, None, results()]),
        _ => (
            [is_transposed(&matmul.a, rank), is_transposed(&matmul.b, rank)],
            [operand(&matmul.a, k), operand(&matmul.b, n), results()],
        ),
    };
    product(ProductSchedule { extents, tile, transposed, vectors })
}

pub(super) fn conv2d(conv: &Convolution, config: KernelConfig) -> Schedule {
    let extents = ProductExtents::of_conv2d(conv);
    let ProductExtents { batch, m, n, k } = extents;
    let tile = match config.conv_tiles[class(extents)] {
        Tile::Thread if !windows_exceed_result(conv) => return window(conv, extents),
        Tile::Thread => {
            // The direction in which fewer results of a thread are out of range.
            let exchanged =
                m.next_multiple_of(REGISTER_COLUMNS) * n < n.next_multiple_of(REGISTER_COLUMNS) * m;
            let rows = if exchanged { n } else { m };
            ProductTile::Registers { rows: share(rows, batch * m * n * k), exchanged }
        }
        tile => shared(tile, m, n),
    };
    // Windows are gathered, so operands are neither transposed nor read in vectors.
    product(ProductSchedule { extents, tile, transposed: [false; 2], vectors: NO_VECTORS })
}

/// Whether windows are larger than the result, as in a gradient by weights, and its rows are short. A thread would use at
/// most half of its results in such a row.
pub(super) fn windows_exceed_result(conv: &Convolution) -> bool {
    let [height, width] = conv.kernel;
    let short = 2 * conv.out_width <= REGISTER_COLUMNS;
    short && height * width > conv.out_height * conv.out_width
}

pub(super) fn product(product: ProductSchedule) -> Schedule {
    let ProductExtents { batch, m, n, .. } = product.extents;
    let workgroups = match (product.tile, product.tile.size()) {
        (_, Some([rows, columns])) => batch * m.div_ceil(rows) * n.div_ceil(columns),
        (ProductTile::Registers { rows, exchanged }, _) => {
            let (m, n) = if exchanged { (n, m) } else { (m, n) };
            (batch * m.div_ceil(rows) * n.div_ceil(REGISTER_COLUMNS)).div_ceil(REGISTER_THREADS)
        }
        (_, None) => 0,
    };
    Schedule {
        lowered: None,
        workgroup_size: product.tile.workgroup_size(),
        workgroups: workgroups as u64,
        strategy: Strategy::Product(product),
    }
}

fn window(conv: &Convolution, extents: ProductExtents) -> Schedule {
    let ProductExtents { batch, m, n, k } = extents;
    let rows = share(m, batch * m * n * k);
    let strips = conv.out_width.div_ceil(REGISTER_COLUMNS) * conv.out_height;
    let threads = conv.batch * batch * m.div_ceil(rows) * strips;
    Schedule {
        lowered: None,
        workgroup_size: REGISTER_THREADS,
        workgroups: threads.div_ceil(REGISTER_THREADS) as u64,
        strategy: Strategy::Window(WindowSchedule { rows, unrolled: reach(conv, rows) }),
    }
}

/// Returns the rows that a thread has results for, divided evenly among threads. The limit is eight, or two for small
/// products, because compiling more code takes longer than it saves.
fn share(rows: usize, products: usize) -> usize {
    let most = if products <= 1 << 20 { 2 } else { 8 };
    rows.div_ceil(rows.div_ceil(most).max(1)).max(1)
}

/// Returns the number of neighbors that the results of a thread need from a line of the window. Returns `None` if unrolled
/// code would take longer to compile than it saves, or would save nothing.
fn reach(conv: &Convolution, rows: usize) -> Option<usize> {
    let (width, step, apart) = (conv.kernel[1], conv.params.stride[1], conv.params.dilation[1]);
    if width < 2 || rows * width > 24 {
        return None;
    }
    let results = step.checked_mul(REGISTER_COLUMNS - 1)?;
    let reach = results.checked_add(apart.checked_mul(width - 1)?)?;
    (reach <= 24).then_some(reach + 1)
}

/// Returns the tile in shared memory. Narrow products get narrow tiles.
pub(super) fn shared(tile: Tile, m: usize, n: usize) -> ProductTile {
    let threads = match (m, n) {
        (..=8, _) => [2, 32],
        (_, ..=8) => [32, 2],
        (..=16, _) => [4, 16],
        (_, ..=16) => [16, 4],
        _ if tile == Tile::Large => return ProductTile::SharedLarge,
        _ if tile == Tile::Medium => [16, 16],
        _ => [8, 8],
    };
    ProductTile::Shared { threads }
}

/// Returns the vector of a part of a routine along an axis, if four neighbors can be computed at a time.
pub(super) fn vector(
    program: &Program,
    root: Option<ValueId>,
    axis: u32,
    extent: usize,
) -> Option<Vector> {
    Vector::along(program, root, axis as usize, axis, extent)
}

/// Whether the operands of a product are `f16`, and the product is wide enough to fill most of a tile.
fn takes_matrices(matmul: &Matmul) -> bool {
    matmul.m > 16 && matmul.n > 16 && halves(&matmul.a) && halves(&matmul.b)
}

/// Whether all values of an operand are exact as `f16`, so that storing them as `f16` rounds nothing.
pub(super) fn halves(operand: &Operand) -> bool {
    let mut half: Vec<bool> = Vec::with_capacity(operand.program.insts.len());
    for inst in &operand.program.insts {
        let is = |value: u32| half[value as usize];
        let exact = match *inst {
            Inst::Load { dtype, .. } => dtype == DType::F16,
            Inst::Cast(to, _) => to == DType::F16,
            // The value outside of a padded operand.
            Inst::Const(value) => value.dtype == DType::F32 && value.bits == 0,
            Inst::Unary(Unary::Neg | Unary::Abs, x) => is(x),
            Inst::Binary(Binary::Min | Binary::Max, x, y) | Inst::Select(_, x, y) => is(x) && is(y),
            _ => false,
        };
        half.push(exact);
    }
    half[operand.value as usize]
}
