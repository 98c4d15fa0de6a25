//! Splits large operations of the trace into several.
//!
//! Problem: one workgroup per long row would leave the device idle, and drivers end dispatches that run too long.
//!
//! Idea: a reduction of few, long rows becomes two reductions. The first one reduces chunks, and the second one the partial
//! results. Matrix products and convolutions of few results are split along their sums in the same way (split-K). Attention
//! becomes two products and a softmax if those are faster. On devices without a kernel for packed matrices, ordinary operations
//! unpack them.
//!
//! Example: a product `[40,4096]x[4096,128]` becomes eight products of 512 terms each, and a sum over the eight parts.

use crate::dtype::DType;
use crate::error::Result;
use crate::expand::{self, rewrite};
use crate::graph::{Trace, TraceNode};
use crate::kernel::{KernelConfig, Limits, Rows};
use crate::op::{Attention, Const, Conv2d, Op, PadAmount, Reduction, Routine};
use crate::shape::{Shape, MAX_RANK};

/// The fewest elements of a row that is split.
const MIN_SPLIT_ELEMENTS: usize = 1 << 16;
/// The most rows of a reduction that is split.
const MAX_SPLIT_ROWS: usize = 64;
/// The fewest elements of a chunk.
const MIN_CHUNK_ELEMENTS: usize = 1 << 11;
/// The most chunks of a row.
const MAX_CHUNKS_PER_ROW: usize = 1 << 10;

/// The number of workgroups, with 64 x 64 results each, that a split matrix product has at most.
const GROUPS: usize = 64;
/// The fewest products in one part of a split sum.
const DEPTH: usize = 1 << 9;
/// The fewest results per weight of a convolution that is split. The split copies the weights.
const RESULTS: usize = 8;

/// The most elements of a row, or products of a sum, that one thread processes alone. Some software GPUs (lavapipe) silently
/// end a thread's loops after 65,535 steps in total. A kernel makes a few passes over a row at four elements per step, or takes
/// one step per product.
const STEPS: usize = 1 << 15;

/// The most bytes of attention scores in memory.
const SCORES: u64 = 1 << 27;

/// The most keys of attention that is split although only some of the keys count.
const MAX_KEYS: usize = 2048;

/// Splits long sums and attention, and unpacks packed matrices.
pub fn split(trace: &Trace, limits: &Limits) -> Result<Trace> {
    let apart = rewrite(trace, &|out, node, inputs| match &node.op {
        Op::Routine(Routine::Attention(attention)) if is_apart(out, attention, inputs, limits) => {
            expand::attend(out, attention, inputs).map(Some)
        }
        Op::Routine(Routine::PackedMatmul { .. }) if limits.packed => Ok(None),
        Op::Routine(routine) => expand::unpack(out, routine, inputs),
        _ => Ok(None),
    })?;
    rewrite(&apart, &|out, node, inputs| {
        let made = match &node.op {
            Op::Reduce { op, axes } if is_long(out, inputs[0], axes, &node.shape, limits) => {
                cut(out, inputs[0], *op, axes, node.shape).map(Some)
            }
            Op::Routine(Routine::Matmul) => cut_product(out, inputs, &node.shape, &limits.config),
            Op::Routine(Routine::Conv2d(conv)) => {
                cut_convolution(out, conv, inputs, &node.shape, &limits.config)
            }
            _ => Ok(None),
        };
        // A part may be too large even if the whole is not.
        made.map_err(|error| error.within(node.op.name()))
    })
}

/// Whether each thread computes whole rows or results of products alone.
fn is_alone(config: &KernelConfig) -> bool {
    config.rows == Rows::Thread
}

fn is_long(trace: &Trace, input: usize, axes: &[usize], result: &Shape, limits: &Limits) -> bool {
    let from = trace.nodes[input].shape;
    let mut row = 1;
    for &axis in axes {
        row *= from[axis];
    }
    row >= MIN_SPLIT_ELEMENTS && result.numel() <= MAX_SPLIT_ROWS
        || row > STEPS && is_alone(&limits.config)
}

/// Whether attention becomes two products with a softmax between them. A thread that works alone can hold a tile of a product's
/// results, but not a query and its values. Attention of few queries has few workgroups.
fn is_apart(trace: &Trace, attention: &Attention, inputs: &[usize], limits: &Limits) -> bool {
    let (q, k) = (trace.nodes[inputs[0]].shape, trace.nodes[inputs[1]].shape);
    let mut bytes = 4 * k[2] as u64;
    for &extent in &q[..3] {
        bytes = bytes.saturating_mul(extent as u64);
    }
    // The kernel reads only the keys that count, but the products read all of them.
    let is_long = attention.length && k[2] > MAX_KEYS;
    let whole = is_long
        || match q[2] > expand::MAX_SHORT_ATTENTION_QUERIES {
            true => limits.config.fuse_long_attention,
            false => limits.config.fuse_short_attention,
        };
    !whole && bytes <= limits.binding_bytes.min(SCORES)
}

fn cast(out: &mut Trace, node: usize, to: DType) -> Result<usize> {
    match out.nodes[node].dtype == to {
        true => Ok(node),
        false => out.push(Op::Cast(to), &[node]),
    }
}

/// Returns the number of parts of a product's sum. Less than two means no split. `splits` enables splitting of products with
/// few results.
fn parts([batch, m, n, k]: [usize; 4], splits: bool, config: &KernelConfig) -> usize {
    let tiles = batch * m.div_ceil(64) * n.div_ceil(64);
    let few = if splits { GROUPS.checked_div(tiles).unwrap_or(0).min(k / DEPTH) } else { 0 };
    let long = if is_alone(config) { k.div_ceil(STEPS) } else { 0 };
    few.max(long)
}

/// Splits a product of few results and a long sum into products of parts, which are added. One product would have too few
/// workgroups to keep the machine busy. `None` for all other products.
fn cut_product(
    out: &mut Trace,
    inputs: &[usize],
    result: &Shape,
    config: &KernelConfig,
) -> Result<Option<usize>> {
    let (rank, dtype) = (result.rank(), out.nodes[inputs[0]].dtype);
    let (m, n) = (result[rank - 2], result[rank - 1]);
    let batch = result[..rank - 2].iter().product::<usize>();
    let k = out.nodes[inputs[1]].shape;
    let k = k[k.rank() - 2];
    let chunks = parts([batch, m, n, k], config.split_k_matmul, config);
    if chunks < 2 || rank == MAX_RANK {
        return Ok(None);
    }
    // A multiple of four, for vector loads.
    let length = k.div_ceil(chunks).next_multiple_of(4);
    let chunks = k.div_ceil(length);
    let mut parts = Vec::with_capacity(2);
    for (side, &input) in inputs.iter().enumerate() {
        let at = cast(out, input, DType::F32)?;
        let shape = out.nodes[at].shape;
        let axis = shape.rank() - 1 - side;
        let at = lengthen(out, at, Reduction::Sum, axis, chunks * length)?;
        let mut dims = shape.to_vec();
        dims[axis] = chunks;
        dims.insert(axis + 1, length);
        let at = out.push(Op::Reshape(Shape::new("matmul", &dims)?), &[at])?;
        let mut order: Vec<usize> = (0..dims.len()).collect();
        // The parts are an axis before rows and columns.
        if side == 0 {
            order.swap(axis - 1, axis);
        }
        parts.push(out.push(Op::Permute(order), &[at])?);
    }
    let at = out.push(Op::Routine(Routine::Matmul), &parts)?;
    let at = out.push(Op::Reduce { op: Reduction::Sum, axes: vec![rank - 2] }, &[at])?;
    let at = out.push(Op::Reshape(*result), &[at])?;
    cast(out, at, dtype).map(Some)
}

/// Splits a convolution of few results and a long sum into groups of its channels, which are added. The main use is the
/// gradient by weights, whose channels are the images. `None` for all other convolutions.
fn cut_convolution(
    out: &mut Trace,
    conv: &Conv2d,
    inputs: &[usize],
    result: &Shape,
    config: &KernelConfig,
) -> Result<Option<usize>> {
    let (x, w) = (out.nodes[inputs[0]].shape, out.nodes[inputs[1]].shape);
    let (dtype, groups, channels) = (out.nodes[inputs[0]].dtype, conv.groups, w[1]);
    let (each, pixels) = (w[0] / groups, result[2] * result[3]);
    let places = x[0] * pixels;
    let taps = channels * w[2] * w[3];
    let chunks = parts([groups, each, places, taps], config.split_k_conv, config).min(channels);
    if chunks < 2 || places < RESULTS && taps <= STEPS {
        return Ok(None);
    }
    let length = channels.div_ceil(chunks);
    let chunks = channels.div_ceil(length);
    let reshape = |out: &mut Trace, node: usize, dims: &[usize]| {
        out.push(Op::Reshape(Shape::new("conv2d", dims)?), &[node])
    };
    let mut seen = cast(out, inputs[0], DType::F32)?;
    seen = reshape(out, seen, &[x[0], groups, channels, x[2], x[3]])?;
    seen = lengthen(out, seen, Reduction::Sum, 2, chunks * length)?;
    seen = reshape(out, seen, &[x[0], groups * chunks * length, x[2], x[3]])?;
    let mut weights = cast(out, inputs[1], DType::F32)?;
    weights = reshape(out, weights, &[groups, each, channels, w[2], w[3]])?;
    weights = lengthen(out, weights, Reduction::Sum, 2, chunks * length)?;
    weights = reshape(out, weights, &[groups, each, chunks, length, w[2], w[3]])?;
    weights = out.push(Op::Permute(vec![0, 2, 1, 3, 4, 5]), &[weights])?;
    weights = reshape(out, weights, &[groups * chunks * each, length, w[2], w[3]])?;
    let parts = Routine::Conv2d(Conv2d { groups: groups * chunks, ..*conv });
    let mut at = out.push(Op::Routine(parts), &[seen, weights])?;
    at = reshape(out, at, &[x[0], groups, chunks, each, pixels])?;
    at = out.push(Op::Reduce { op: Reduction::Sum, axes: vec![2] }, &[at])?;
    at = out.push(Op::Reshape(*result), &[at])?;
    cast(out, at, dtype).map(Some)
}

/// Pads an axis to an extent with the identity of the reduction that follows.
fn lengthen(
    out: &mut Trace,
    node: usize,
    op: Reduction,
    axis: usize,
    extent: usize,
) -> Result<usize> {
    let TraceNode { shape, dtype, .. } = out.nodes[node];
    if shape[axis] == extent {
        return Ok(node);
    }
    let identity = Const { dtype, bits: op.identity(dtype.compute()) };
    let fill = out.push(Op::Fill { shape: Shape::SCALAR, value: identity }, &[])?;
    let mut amounts = vec![(0, 0); shape.rank()];
    amounts[axis].1 = extent - shape[axis];
    out.push(Op::Pad(PadAmount::all(&amounts)), &[node, fill])
}

fn cut(
    out: &mut Trace,
    input: usize,
    op: Reduction,
    axes: &[usize],
    result: Shape,
) -> Result<usize> {
    let TraceNode { shape: from, dtype, .. } = out.nodes[input];
    // Partial results are stored, and `f16` would round them.
    let input = cast(out, input, dtype.compute())?;
    let mut order = Vec::with_capacity(from.rank());
    for axis in 0..from.rank() {
        if !axes.contains(&axis) {
            order.push(axis);
        }
    }
    order.extend_from_slice(axes);
    let rows = result.numel();
    let row = from.numel() / rows;
    let length = row.div_ceil(MAX_CHUNKS_PER_ROW).max(MIN_CHUNK_ELEMENTS);
    let chunks = row.div_ceil(length);
    let shape = |dims: &[usize]| Shape::new(op.name(), dims);
    let mut at = out.push(Op::Permute(order), &[input])?;
    at = out.push(Op::Reshape(shape(&[rows, row])?), &[at])?;
    at = lengthen(out, at, op, 1, chunks * length)?;
    at = out.push(Op::Reshape(shape(&[rows, chunks, length])?), &[at])?;
    at = out.push(Op::Reduce { op, axes: vec![2] }, &[at])?;
    at = out.push(Op::Reduce { op, axes: vec![1] }, &[at])?;
    at = out.push(Op::Reshape(result), &[at])?;
    cast(out, at, dtype)
}
