//! Cuts reductions of few, long rows into two: partial results of chunks, then the rest. One workgroup would leave the
//! machine idle, and a dispatch that runs too long is killed by drivers. Takes attention apart where the parts are faster.

use crate::dtype::DType;
use crate::error::Result;
use crate::expand;
use crate::graph::Trace;
use crate::kernel::Limits;
use crate::op::{Const, Op, Reduction, Routine};
use crate::shape::{pick, Shape};

/// Rows at least this long are cut.
const LONG: usize = 1 << 16;
/// Unless there are more rows than this.
const FEW: usize = 64;
/// Elements of a chunk, at least.
const CHUNK: usize = 1 << 11;
/// Chunks of a row, at most.
const CHUNKS: usize = 1 << 10;

/// Bytes that scores of attention may take, at most.
const SCORES: u64 = 1 << 27;

/// The same computation with long reductions cut, and attention taken apart.
pub fn split(trace: &Trace, limits: &Limits) -> Result<Trace> {
    let mut out = Trace::default();
    let mut moved = Vec::with_capacity(trace.nodes.len());
    for node in &trace.nodes {
        let inputs = pick(&moved, &node.inputs);
        let at = match &node.op {
            Op::Source | Op::Scalar => out.leaf(node.op.clone(), node.shape, node.dtype),
            Op::Reduce { op, axes } if is_long(&out, inputs[0], axes, &node.shape) => {
                cut(&mut out, inputs[0], *op, axes, node.shape)?
            }
            Op::Routine(Routine::Attention(attention)) if is_apart(&out, &inputs, limits) => {
                expand::attend(&mut out, attention, &inputs)?
            }
            op => out.push(op.clone(), &inputs)?,
        };
        moved.push(at);
    }
    out.outputs = pick(&moved, &trace.outputs);
    Ok(out)
}

fn is_long(trace: &Trace, input: usize, axes: &[usize], result: &Shape) -> bool {
    let from = trace.nodes[input].shape;
    let mut row = 1;
    for &axis in axes {
        row *= from[axis];
    }
    row >= LONG && result.numel() <= FEW
}

/// Whether attention is two products and a softmax between them: where a thread works alone, it can hold a tile of a
/// product's results, but not a query's and its values. Scores in halves would be less exact than the kernel's.
fn is_apart(trace: &Trace, inputs: &[usize], limits: &Limits) -> bool {
    let (q, k) = (&trace.nodes[inputs[0]], trace.nodes[inputs[1]].shape);
    let mut bytes = 4 * k[2] as u64;
    for &extent in &q.shape[..3] {
        bytes = bytes.saturating_mul(extent as u64);
    }
    !limits.variants.attention && q.dtype == DType::F32 && bytes <= limits.binding_bytes.min(SCORES)
}

fn cut(
    out: &mut Trace,
    input: usize,
    op: Reduction,
    axes: &[usize],
    result: Shape,
) -> Result<usize> {
    let (from, dtype) = (out.nodes[input].shape, out.nodes[input].dtype);
    let mut order = Vec::with_capacity(from.rank());
    for axis in 0..from.rank() {
        if !axes.contains(&axis) {
            order.push(axis);
        }
    }
    order.extend_from_slice(axes);
    let rows = result.numel();
    let row = from.numel() / rows;
    let length = row.div_ceil(CHUNKS).max(CHUNK);
    let chunks = row.div_ceil(length);
    let shape = |dims: &[usize]| Shape::new(op.name(), dims);
    let mut at = out.push(Op::Permute(order), &[input])?;
    at = out.push(Op::Reshape(shape(&[rows, row])?), &[at])?;
    if chunks * length != row {
        let identity = Const { dtype, bits: op.identity(dtype.compute()) };
        let fill = out.push(Op::Fill { shape: Shape::SCALAR, value: identity }, &[])?;
        at = out.push(Op::Pad(vec![(0, 0), (0, chunks * length - row)]), &[at, fill])?;
    }
    at = out.push(Op::Reshape(shape(&[rows, chunks, length])?), &[at])?;
    at = out.push(Op::Reduce { op, axes: vec![2] }, &[at])?;
    at = out.push(Op::Reduce { op, axes: vec![1] }, &[at])?;
    out.push(Op::Reshape(result), &[at])
}
