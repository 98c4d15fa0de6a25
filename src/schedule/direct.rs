//! Routines that run faster as a loop kernel: matrix times vector, long dot products, depthwise and narrow convolutions, and
//! tiny products. Their operands and epilogue are inlined into one program.

use super::products::{class, windows_exceed_result};
use super::strategy::ProductExtents;
use crate::dtype::DType;
use crate::expr::Binary;
use crate::kernel::{
    Atom, Builder, Convolution, Index, Inst, Kernel, KernelConfig, Matmul, Program, Space, Store,
    Tile, ValueId,
};
use crate::op::Reduction;

/// Returns the loop for a product with one row or column, with few results and a long sum, or with little work. If threads
/// work alone, a product is a loop only if both extents of its results are at most four.
pub fn matmul(matmul: &Matmul, config: KernelConfig) -> Option<Kernel> {
    let extents = ProductExtents::of_matmul(matmul);
    let ProductExtents { batch, m, n, k } = extents;
    let results = batch * m * n;
    let (thin, tiny) = (m == 1 || n == 1, results * k <= 4096);
    let worth = match config.matmul_tiles[class(extents)] {
        Tile::Thread => m.max(n) <= 4,
        _ => thin || k >= 512 && results <= 4096,
    };
    if !tiny && !worth {
        return None;
    }
    let rank = matmul.batch.len();
    let mut dims = matmul.batch.clone();
    dims.extend([m, n, k]);
    // The coordinates of the batch, and two of m, n and k.
    let at = |x: usize, y: usize| {
        let mut all = Index::coordinates(rank);
        all.push(Index::coordinate(rank + x));
        all.push(Index::coordinate(rank + y));
        all
    };
    let mut builder = Builder::default();
    let a = inline(&mut builder, &matmul.a.program, &at(0, 2), None)[matmul.a.value as usize];
    let b = inline(&mut builder, &matmul.b.program, &at(2, 1), None)[matmul.b.value as usize];
    let product = builder.push(Inst::Binary(Binary::Mul, a, b));
    let sum = builder.push(Inst::Reduce(Reduction::Sum, product));
    inline(&mut builder, &matmul.epilogue, &at(0, 1), Some(sum));
    let space = Space { dims, outer: rank + 2 };
    Some(Kernel::Loop { space, program: builder.finish() })
}

/// Returns the loop for a convolution with few output channels per group or few products per result. Its space is
/// `[batch, group, out in group, y, x | channel in group, ky, kx]`. If threads work alone, a row of eight pixels is enough for
/// a routine. Many channels with large windows are enough, too.
pub fn conv2d(conv: &Convolution, config: KernelConfig) -> Option<Kernel> {
    let params = &conv.params;
    let extents = ProductExtents::of_conv2d(conv);
    let ProductExtents { m: out, n: pixels, k: taps, .. } = extents;
    let (channels, [kh, kw]) = (conv.channels / params.groups, conv.kernel);
    let many = out >= 8 && taps >= 16;
    let alone = config.conv_tiles[class(extents)] == Tile::Thread;
    let threads = pixels >= 16 && conv.out_width > 4 && taps > 0;
    if many && pixels >= 16 || alone && (threads || many && windows_exceed_result(conv)) {
        return None;
    }
    let dims =
        vec![conv.batch, params.groups, out, conv.out_height, conv.out_width, channels, kh, kw];
    let mut builder = Builder::default();
    let out_channel = affine(0, &[(1, out), (2, 1)]);
    let channel = affine(0, &[(1, channels), (5, 1)]);
    // The position of the window along a spatial axis. It is negative in the padding at the front.
    let position = |axis: usize| {
        let (stride, dilation) = (params.stride[axis], params.dilation[axis]);
        let before = params.padding[axis].0 as i64;
        affine(-before, &[(3 + axis as u32, stride), (6 + axis as u32, dilation)])
    };
    let at = [Index::coordinate(0), channel, position(0), position(1)];
    let mut x = inline(&mut builder, &conv.x.program, &at, None)[conv.x.value as usize];
    for (axis, extent) in [conv.height, conv.width].into_iter().enumerate() {
        if params.padding[axis] != (0, 0) {
            let position = builder.index(&at[2 + axis]);
            x = inside(&mut builder, x, position, extent);
        }
    }
    let w = [out_channel.clone(), Index::coordinate(5), Index::coordinate(6), Index::coordinate(7)];
    let w = inline(&mut builder, &conv.w.program, &w, None)[conv.w.value as usize];
    let product = builder.push(Inst::Binary(Binary::Mul, x, w));
    let sum = builder.push(Inst::Reduce(Reduction::Sum, product));
    let at = [Index::coordinate(0), out_channel, Index::coordinate(3), Index::coordinate(4)];
    inline(&mut builder, &conv.epilogue, &at, Some(sum));
    Some(Kernel::Loop { space: Space { dims, outer: 5 }, program: builder.finish() })
}

/// Returns `x` if `0 <= position < extent`, and 0 otherwise.
fn inside(builder: &mut Builder, x: ValueId, position: ValueId, extent: usize) -> ValueId {
    // Negative positions are large as unsigned numbers.
    let position = builder.push(Inst::Cast(DType::U32, position));
    let extent = builder.number(DType::U32, extent as f64);
    let inside = builder.push(Inst::Binary(Binary::Lt, position, extent));
    let zero = builder.number(DType::F32, 0.0);
    builder.push(Inst::Select(inside, x, zero))
}

/// Copies a program into another one, with `coordinates` for its coordinates and `accumulator` for its accumulator. Returns
/// the new value of each old one.
fn inline(
    builder: &mut Builder,
    program: &Program,
    coordinates: &[Index],
    accumulator: Option<ValueId>,
) -> Vec<ValueId> {
    let mut values: Vec<ValueId> = Vec::with_capacity(program.insts.len());
    for inst in &program.insts {
        let value = match inst {
            Inst::Coord(d) => builder.index(&coordinates[*d as usize]),
            Inst::Accumulator => accumulator.unwrap_or_else(|| builder.number(DType::F32, 0.0)),
            other => builder.push(other.substitute(Some(coordinates), &values)),
        };
        values.push(value);
    }
    for store in &program.stores {
        let index = store.index.substitute(Some(coordinates), &values);
        let value = values[store.value as usize];
        builder.store(Store { output: store.output, index, value, dtype: store.dtype });
    }
    values
}

fn affine(offset: i64, terms: &[(u32, usize)]) -> Index {
    let mut index = Index::constant(offset);
    for &(d, stride) in terms {
        index.terms.push((Atom::Coord(d), stride as i64));
    }
    index
}
