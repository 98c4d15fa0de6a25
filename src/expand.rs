//! Expansion of routines to ordinary operations, which define their meaning. Tests compare hand-written kernels with the
//! expansion, and a backend without such a kernel can run it instead.

mod packed;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{Trace, TraceNode};
use crate::op::{Attention, Const, Conv2d, Op, PadAmount, Pointwise, Reduction, Routine, Span};
use crate::shape::{pick, Shape};
use smallvec::SmallVec;

/// The most queries of short attention, as in decoding, which has special kernels.
pub const MAX_SHORT_ATTENTION_QUERIES: usize = 4;

/// Replaces all routines of a trace by ordinary operations.
///
/// # Errors
/// `Shape` or `Limit` if an intermediate of the expansion is too large or has too many axes.
pub fn expand(trace: &Trace) -> Result<Trace> {
    rewrite(trace, &|out, node, inputs| {
        let Op::Routine(routine) = &node.op else { return Ok(None) };
        let mut writer = Writer { trace: out, product: |writer, a, b| writer.matmul(a, b) };
        let inputs = writer.widened(inputs)?;
        let result = match routine {
            Routine::Matmul => writer.matmul(inputs[0], inputs[1]),
            Routine::Conv2d(conv) => writer.conv2d(conv, inputs[0], inputs[1]),
            Routine::Attention(attention) => writer.attention(attention, &inputs),
            Routine::PackedMatmul { format, .. } => {
                writer.packed_matmul(*format, inputs[0], inputs[1])
            }
            Routine::Unpack { format, columns } => writer.unpack(*format, *columns, inputs[0]),
        }?;
        writer.cast(result, node.dtype).map(Some)
    })
}

/// A function that replaces a node by other operations, with a result of the same shape and type. It receives the new numbers
/// of the node's inputs. It returns `None` for a node that stays.
pub type Rule<'a> = &'a dyn Fn(&mut Trace, &TraceNode, &[usize]) -> Result<Option<usize>>;

/// Replaces operations of a trace by a rule.
///
/// # Errors
/// The errors of the rule.
pub fn rewrite(trace: &Trace, rule: Rule) -> Result<Trace> {
    let mut out = Trace::default();
    let mut moved: Vec<usize> = Vec::with_capacity(trace.nodes.len());
    for node in &trace.nodes {
        let inputs = node.inputs.iter().map(|&input| moved[input]).collect::<SmallVec<_>>();
        let at = match rule(&mut out, node, &inputs)? {
            Some(at) => at,
            // The new inputs have the shapes and types of the old ones.
            None => {
                out.nodes.push(TraceNode { op: node.op.clone(), inputs, ..*node });
                out.nodes.len() - 1
            }
        };
        debug_assert_eq!((out.nodes[at].shape, out.nodes[at].dtype), (node.shape, node.dtype));
        moved.push(at);
    }
    out.outputs = pick(&moved, &trace.outputs);
    out.donated = trace.donated.iter().map(|&(n, data)| (moved[n], moved[data])).collect();
    Ok(out)
}

/// Returns the expansion of attention as a trace with its operands as sources and one result. Matrix products stay routines.
///
/// # Errors
/// As [`expand`].
pub fn attention(attention: &Attention, operands: &[(Shape, DType)]) -> Result<Trace> {
    let mut trace = Trace::default();
    let mut inputs = Vec::with_capacity(operands.len());
    for &(shape, dtype) in operands {
        inputs.push(trace.leaf(Op::Source, shape, dtype));
    }
    if attention.length {
        // The gradient of a query is a sum over all keys, and keys beyond the length may be NaN.
        let mut writer = Writer { trace: &mut trace, product: |writer, a, b| writer.routine(a, b) };
        inputs[1] = writer.first(inputs[1], inputs[inputs.len() - 1])?;
    }
    let result = attend(&mut trace, attention, &inputs)?;
    trace.outputs.push(result);
    Ok(trace)
}

/// Appends the expansion of attention, and returns the number of its result. Matrix products stay routines. Attention in
/// `f16` is computed in `f32`.
///
/// # Errors
/// As [`expand`].
pub fn attend(trace: &mut Trace, attention: &Attention, inputs: &[usize]) -> Result<usize> {
    let dtype = trace.nodes[inputs[0]].dtype;
    let mut writer = Writer { trace, product: |writer, a, b| writer.routine(a, b) };
    let inputs = writer.widened(inputs)?;
    let result = writer.attention(attention, &inputs)?;
    writer.cast(result, dtype)
}

/// Appends the expansion of a routine with a packed matrix, and returns the number of its result. Matrix products stay
/// routines. Returns `None` for other routines.
///
/// # Errors
/// As [`expand`].
pub fn unpack(trace: &mut Trace, routine: &Routine, inputs: &[usize]) -> Result<Option<usize>> {
    let mut writer = Writer { trace, product: |writer, a, b| writer.routine(a, b) };
    match routine {
        Routine::PackedMatmul { format, .. } => {
            let dtype = writer.trace.nodes[inputs[0]].dtype;
            let wide = writer.widened(&inputs[..1])?;
            let product = writer.packed_matmul(*format, wide[0], inputs[1])?;
            writer.cast(product, dtype).map(Some)
        }
        Routine::Unpack { format, columns } => {
            writer.unpack(*format, *columns, inputs[0]).map(Some)
        }
        _ => Ok(None),
    }
}

struct Writer<'a> {
    trace: &'a mut Trace,
    /// The function that appends a matrix product.
    product: fn(&mut Writer, usize, usize) -> Result<usize>,
}

impl Writer<'_> {
    fn shape(&self, node: usize) -> Shape {
        self.trace.nodes[node].shape
    }

    /// Casts inputs to the types that they are computed in. Sums of `f16` are in `f32`.
    fn widened(&mut self, inputs: &[usize]) -> Result<Vec<usize>> {
        let mut wide = Vec::with_capacity(inputs.len());
        for &input in inputs {
            wide.push(self.cast(input, self.trace.nodes[input].dtype.compute())?);
        }
        Ok(wide)
    }

    fn cast(&mut self, node: usize, to: DType) -> Result<usize> {
        match self.trace.nodes[node].dtype == to {
            true => Ok(node),
            false => self.trace.push(Op::Cast(to), &[node]),
        }
    }

    fn pointwise(&mut self, row: Pointwise, inputs: &[usize]) -> Result<usize> {
        self.trace.push(Op::Pointwise(row), inputs)
    }

    fn reshape(&mut self, node: usize, dims: &[usize]) -> Result<usize> {
        let shape = Shape::new("expand", dims)?;
        self.trace.push(Op::Reshape(shape), &[node])
    }

    fn transpose(&mut self, node: usize) -> Result<usize> {
        let rank = self.shape(node).rank();
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        self.trace.push(Op::Permute(order), &[node])
    }

    fn constant(&mut self, dtype: DType, value: f64) -> Result<usize> {
        let value = Const { dtype, bits: dtype.bits(value) };
        self.trace.push(Op::Fill { shape: Shape::SCALAR, value }, &[])
    }

    fn reduce(&mut self, op: Reduction, node: usize, axis: usize) -> Result<usize> {
        self.trace.push(Op::Reduce { op, axes: vec![axis] }, &[node])
    }

    fn routine(&mut self, a: usize, b: usize) -> Result<usize> {
        self.trace.push(Op::Routine(Routine::Matmul), &[a, b])
    }

    /// Computes `a[.., m, 1, k] * b^T[.., 1, n, k]`, summed over k.
    fn matmul(&mut self, a: usize, b: usize) -> Result<usize> {
        let spread = |shape: &[usize], at: usize| {
            let mut dims = shape.to_vec();
            dims.insert(at, 1);
            dims
        };
        let rank = self.shape(a).rank();
        let a = self.reshape(a, &spread(&self.shape(a), rank - 1))?;
        let b = self.transpose(b)?;
        let rank = self.shape(b).rank();
        let b = self.reshape(b, &spread(&self.shape(b), rank - 2))?;
        let product = self.pointwise(Pointwise::mul, &[a, b])?;
        let last = self.shape(product).rank() - 1;
        let sum = self.reduce(Reduction::Sum, product, last)?;
        let dims = self.shape(sum)[..last].to_vec();
        self.reshape(sum, &dims)
    }

    /// Adds over all positions of the kernel. Each term is the input at the position times its weight, summed over the
    /// channels.
    fn conv2d(&mut self, conv: &Conv2d, x: usize, w: usize) -> Result<usize> {
        let (from, weight) = (self.shape(x), self.shape(w));
        let (batch, groups, out) = (from[0], conv.groups, weight[0]);
        let (channels, per_group) = (weight[1], out / groups);
        let extent = |i: usize| conv.extent(i, from[2 + i], weight[2 + i]).unwrap_or(0);
        let (height, width) = (extent(0), extent(1));
        let zero = self.constant(self.trace.nodes[x].dtype, 0.0)?;
        let [rows, columns] = conv.padding;
        let margins = PadAmount::all(&[(0, 0), (0, 0), rows, columns]);
        let padded = self.trace.push(Op::Pad(margins), &[x, zero])?;
        let mut sum: Option<usize> = None;
        for (ky, kx) in (0..weight[2]).flat_map(|ky| (0..weight[3]).map(move |kx| (ky, kx))) {
            let seen = |i: usize, at: usize, len| {
                Span::at(at * conv.dilation[i], len, conv.stride[i] as isize)
            };
            let (image, channel) = (Span::whole(batch), Span::whole(from[1]));
            let spans = vec![image, channel, seen(0, ky, height), seen(1, kx, width)];
            let seen = self.trace.push(Op::Slice(spans), &[padded])?;
            let seen = self.reshape(seen, &[batch, groups, 1, channels, height, width])?;
            let one = |start| Span::at(start, 1, 1);
            let spans = vec![Span::whole(out), Span::whole(channels), one(ky), one(kx)];
            let tap = self.trace.push(Op::Slice(spans), &[w])?;
            let tap = self.reshape(tap, &[1, groups, per_group, channels, 1, 1])?;
            let product = self.pointwise(Pointwise::mul, &[seen, tap])?;
            let product = self.reduce(Reduction::Sum, product, 3)?;
            sum = Some(match sum {
                Some(sum) => self.pointwise(Pointwise::add, &[sum, product])?,
                None => product,
            });
        }
        let dims = [batch, out, height, width];
        match sum {
            Some(sum) => self.reshape(sum, &dims),
            None => {
                let shape = Shape::new("conv2d", &dims)?;
                self.trace.push(Op::Expand(shape), &[zero])
            }
        }
    }

    /// Computes `softmax(q k^T * scale + mask) v`, with zeros for queries that attend to no key.
    #[inline(never)]
    fn attention(&mut self, attention: &Attention, inputs: &[usize]) -> Result<usize> {
        let (q, k) = (self.shape(inputs[0]), self.shape(inputs[1]));
        let dtype = self.trace.nodes[inputs[0]].dtype;
        let (queries, keys) = (q[2], k[2]);
        let length = attention.length.then(|| inputs[inputs.len() - 1]);
        // Scores of keys beyond the length are masked below. Values beyond it would be multiplied by 0, but they may be NaN.
        let v = match length {
            Some(length) => self.first(inputs[2], length)?,
            None => inputs[2],
        };
        let k = self.transpose(inputs[1])?;
        let mut scores = self.by_heads(inputs[0], k)?;
        scores = self.pointwise(Pointwise::mul, &[scores, inputs[3]])?;
        if attention.mask {
            scores = self.pointwise(Pointwise::add, &[scores, inputs[4]])?;
        }
        let hidden = self.constant(dtype, f64::NEG_INFINITY)?;
        let (causal, window) = (attention.causal, attention.window);
        let shape = Shape::new("attention", &[queries, keys])?;
        if let Some(length) = length {
            let column = self.trace.push(Op::Iota { shape, axis: 1 }, &[])?;
            let counts = self.pointwise(Pointwise::lt, &[column, length])?;
            scores = self.pointwise(Pointwise::where_cond, &[counts, scores, hidden])?;
        }
        if causal || window.is_some() {
            let row = self.trace.push(Op::Iota { shape, axis: 0 }, &[])?;
            let column = self.trace.push(Op::Iota { shape, axis: 1 }, &[])?;
            let shift = match length {
                Some(length) => {
                    let queries = self.constant(DType::I32, queries as f64)?;
                    self.pointwise(Pointwise::sub, &[length, queries])?
                }
                None => self.constant(DType::I32, keys as f64 - queries as f64)?,
            };
            let place = self.pointwise(Pointwise::add, &[row, shift])?;
            let ahead = self.pointwise(Pointwise::sub, &[column, place])?;
            let far = window.unwrap_or(usize::MAX).min(queries + keys) as f64;
            for (bound, row) in
                [(if causal { 1.0 } else { far }, Pointwise::lt), (-far, Pointwise::gt)]
            {
                let bound = self.constant(DType::I32, bound)?;
                let seen = self.pointwise(row, &[ahead, bound])?;
                scores = self.pointwise(Pointwise::where_cond, &[seen, scores, hidden])?;
            }
        }
        let max = self.reduce(Reduction::Max, scores, 3)?;
        // If all keys are masked, the maximum is replaced by 0. Every weight is then 0, and the sum is replaced by 1.
        let zero = self.constant(dtype, 0.0)?;
        let one = self.constant(dtype, 1.0)?;
        let nothing = self.pointwise(Pointwise::eq, &[max, hidden])?;
        let from = self.pointwise(Pointwise::where_cond, &[nothing, zero, max])?;
        let distance = self.pointwise(Pointwise::sub, &[scores, from])?;
        let weights = self.pointwise(Pointwise::exp, &[distance])?;
        let sum = self.reduce(Reduction::Sum, weights, 3)?;
        let sum = self.pointwise(Pointwise::where_cond, &[nothing, one, sum])?;
        let weights = self.pointwise(Pointwise::div, &[weights, sum])?;
        self.by_heads(weights, v)
    }

    /// Keeps the first `count` rows of matrices, and replaces the others by zeros.
    fn first(&mut self, matrices: usize, count: usize) -> Result<usize> {
        let shape = Shape::new("attention", &[self.shape(matrices)[2], 1])?;
        let row = self.trace.push(Op::Iota { shape, axis: 0 }, &[])?;
        let counts = self.pointwise(Pointwise::lt, &[row, count])?;
        let zero = self.constant(self.trace.nodes[matrices].dtype, 0.0)?;
        self.pointwise(Pointwise::where_cond, &[counts, matrices, zero])
    }

    /// Multiplies `a [batch, heads, ..]` with `b [batch, own, ..]`. Each head of b serves an equal number of a's heads.
    fn by_heads(&mut self, a: usize, b: usize) -> Result<usize> {
        let (left, right) = (self.shape(a), self.shape(b));
        let (batch, heads, own) = (left[0], left[1], right[1]);
        if heads == own {
            return (self.product)(self, a, b);
        }
        // Few queries of several heads become rows of one product, which reads b once.
        let (each, rows) = match left[2] {
            ..=MAX_SHORT_ATTENTION_QUERIES => (1, heads / own * left[2]),
            rows => (heads / own, rows),
        };
        let a = self.reshape(a, &[batch, own, each, rows, left[3]])?;
        let b = self.reshape(b, &[batch, own, 1, right[2], right[3]])?;
        let product = (self.product)(self, a, b)?;
        self.reshape(product, &[batch, heads, left[2], right[3]])
    }
}
