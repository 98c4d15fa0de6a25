//! Gradient rules: the gradient of each operation by each operand, and expansions of operations without a rule.

use super::{Contribution, Tape};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::expand;
use crate::expr::{Expr, Node};
use crate::graph::NodeId;
use crate::op::{Element, Op, Pointwise, Reduction, Routine};

impl Tape<'_> {
    /// Expands an operation without a rule into ordinary operations on the same operands. `None` if the operation has a rule.
    pub(super) fn meaning(&mut self, op: &Op, inputs: &[NodeId]) -> Result<Option<NodeId>> {
        match op {
            Op::Routine(Routine::Attention(attention)) => {
                let mut types = Vec::with_capacity(inputs.len());
                for &input in inputs {
                    types.push((self.shape(input), self.dtype(input)));
                }
                let trace = expand::attention(attention, &types)?;
                let mut moved = inputs.to_vec();
                for node in &trace.nodes[inputs.len()..] {
                    let mut operands = Vec::with_capacity(node.inputs.len());
                    for &input in &node.inputs {
                        operands.push(moved[input]);
                    }
                    let at = self.push(node.op.clone(), &operands)?;
                    // The softmax weights do not depend on the maximum that is subtracted.
                    if matches!(node.op, Op::Reduce { op: Reduction::Max, .. }) {
                        self.graph.detach(at);
                    }
                    moved.push(at);
                }
                Ok(trace.outputs.first().map(|&result| moved[result]))
            }
            Op::Reduce { op: Reduction::Prod, axes } => self.product(inputs[0], axes).map(Some),
            Op::Reduce { op: Reduction::Sum | Reduction::Max | Reduction::Min, .. }
            | Op::Reduce { op: Reduction::Any | Reduction::All, .. }
            | Op::Routine(
                Routine::Matmul
                | Routine::Conv2d(_)
                | Routine::PackedMatmul { .. }
                | Routine::Unpack { .. },
            ) => Ok(None),
            Op::Source | Op::Scalar | Op::Fill { .. } | Op::Iota { .. } => Ok(None),
            Op::DerivativeLimit { .. } => Ok(None),
            Op::Pointwise(_) | Op::Derivative { .. } | Op::Element(_) => Ok(None),
            Op::Cast(_) | Op::Bitcast(_) | Op::Reshape(_) => Ok(None),
            Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Unfold(_) | Op::Pad(_) => Ok(None),
            Op::Gather { .. } | Op::Concat { .. } | Op::Shader(_) | Op::Output(..) => Ok(None),
            Op::Order { .. } => Ok(None),
        }
    }

    /// Records a product as a tree of pairwise products. The tree has no division, so zeros are no problem.
    fn product(&mut self, x: NodeId, axes: &[usize]) -> Result<NodeId> {
        let from = self.shape(x);
        // The reduced axes last.
        let (mut order, mut result) = (Vec::with_capacity(from.rank()), from);
        for axis in 0..from.rank() {
            match axes.contains(&axis) {
                true => result = result.with(axis, 1),
                false => order.push(axis),
            }
        }
        order.extend_from_slice(axes);
        let rows = result.numel();
        let mut left = from.numel() / rows.max(1);
        let mut at = self.permute(x, &order)?;
        at = self.reshape(at, &[rows, left])?;
        while left > 1 {
            let half = left / 2;
            let (a, b) = (self.part(at, 1, 0, half)?, self.part(at, 1, half, half)?);
            let pairs = self.row(Pointwise::mul, &[a, b])?;
            at = match left % 2 {
                0 => pairs,
                _ => {
                    let odd = self.part(at, 1, left - 1, 1)?;
                    self.push(Op::Concat { axis: 1 }, &[pairs, odd])?
                }
            };
            left = left.div_ceil(2);
        }
        self.reshape(at, &result)
    }

    /// Returns the contribution of `node`'s gradient `g` to the gradient of the `n`-th operand. `None` if it is 0.
    pub(super) fn pull(
        &mut self,
        op: &Op,
        node: NodeId,
        inputs: &[NodeId],
        g: NodeId,
        n: usize,
    ) -> Result<Option<Contribution>> {
        let x = inputs[n];
        let from = self.shape(x);
        let pulled = match op {
            Op::Source | Op::Scalar | Op::Fill { .. } | Op::Iota { .. } => return Ok(None),
            Op::Bitcast(_) | Op::Order { .. } => return Ok(None),
            // `flow` handles these operations.
            Op::Shader(_) | Op::Output(..) | Op::Concat { .. } => return Ok(None),
            Op::DerivativeLimit { routine, most, order } if n == 0 => {
                if order == most {
                    let got = order + 1;
                    let message =
                        format!("{routine}: derivatives of {routine} must be of order {most} or less, got {got}");
                    return Err(Error::new(ErrorKind::Unsupported, message));
                }
                let weight = match inputs.get(1) {
                    Some(&weight) => self.row(Pointwise::mul, &[g, weight])?,
                    None => g,
                };
                let next = Op::DerivativeLimit { routine, most: *most, order: order + 1 };
                self.push(next, &[x, weight])?
            }
            Op::DerivativeLimit { .. } => self.push(op.clone(), &[inputs[0], g])?,
            Op::Pointwise(row) => {
                let pulled = self.pull_row(*row, None, node, inputs, g, n)?;
                return Ok(pulled.map(Contribution::Whole));
            }
            Op::Derivative { row, formula } => {
                let pulled = self.pull_row(*row, Some(*formula), node, inputs, g, n)?;
                return Ok(pulled.map(Contribution::Whole));
            }
            Op::Element(element) => {
                let pulled = self.pull_element(element, node, inputs, g, n)?;
                return Ok(pulled.map(Contribution::Whole));
            }
            Op::Cast(_) => self.cast(g, self.dtype(x))?,
            Op::Reshape(_) => self.reshape(g, &from)?,
            Op::Permute(order) => {
                let mut back = order.clone();
                for (to, &axis) in order.iter().enumerate() {
                    back[axis] = to;
                }
                self.permute(g, &back)?
            }
            Op::Expand(_) => self.shrink(g, &from)?,
            Op::Slice(spans) => return self.unslice(g, &from, spans, &inputs[1..]).map(Some),
            Op::Unfold(windows) => self.fold(g, &from, windows)?,
            Op::Pad(margins) if n == 0 => self.unpad(g, &from, margins, &inputs[2..])?,
            Op::Pad(margins) => self.border(g, (inputs[0], from), margins, &inputs[2..])?,
            Op::Reduce { op: Reduction::Sum, .. } => self.push(Op::Expand(from), &[g])?,
            Op::Reduce { op: Reduction::Max | Reduction::Min, axes } => {
                self.share(g, x, node, axes)?
            }
            Op::Reduce { op: Reduction::Prod | Reduction::Any | Reduction::All, .. } => {
                return Ok(None)
            }
            Op::Gather { axis, paired } => self.scatter(g, &from, (*axis, *paired), inputs[1])?,
            Op::Routine(Routine::Matmul) => return self.pull_matmul(node, inputs, g, n).map(Some),
            Op::Routine(Routine::Conv2d(conv)) if n == 0 => self.conv_input(conv, g, inputs)?,
            Op::Routine(Routine::Conv2d(conv)) => self.conv_weight(conv, g, inputs)?,
            Op::Routine(Routine::PackedMatmul { format, .. }) if n == 0 => {
                let unpack = Routine::Unpack { format: *format, columns: from[1] };
                let matrix = self.push(Op::Routine(unpack), &inputs[1..])?;
                self.push(Op::Routine(Routine::Matmul), &[g, matrix])?
            }
            // The words of packed matrices are integers.
            Op::Routine(Routine::PackedMatmul { .. } | Routine::Unpack { .. }) => return Ok(None),
            Op::Routine(Routine::Attention(_)) => return Ok(None),
        };
        Ok(Some(Contribution::Whole(pulled)))
    }

    /// Returns the gradient of a pointwise row or of its `derivative`: `g` times the derivative by argument `n`.
    fn pull_row(
        &mut self,
        row: Pointwise,
        slope: Option<Expr>,
        node: NodeId,
        inputs: &[NodeId],
        g: NodeId,
        n: usize,
    ) -> Result<Option<NodeId>> {
        let from = self.shape(inputs[n]);
        let pulled = match (row, slope, n) {
            // A selection instead of a product, so that the discarded values may be infinite.
            (Pointwise::where_cond, None, 1) => {
                let zero = self.number(g, 0.0)?;
                self.row(Pointwise::where_cond, &[inputs[0], g, zero])?
            }
            (Pointwise::where_cond, None, _) => {
                let zero = self.number(g, 0.0)?;
                self.row(Pointwise::where_cond, &[inputs[0], zero, g])?
            }
            (Pointwise::div, None, 0) => self.row(Pointwise::div, &[g, inputs[1]])?,
            (Pointwise::exp, ..) => self.row(Pointwise::mul, &[g, node])?,
            // The slope of the result equals the slope of the operand. The result is needed anyway, so the operand need not be
            // kept.
            (Pointwise::relu, None, _) => {
                let slope = Op::Derivative { row, formula: row.row().derivative(0) };
                let slope = self.push(slope, &[node])?;
                self.row(Pointwise::mul, &[g, slope])?
            }
            // These also use only their results: `y (1 - y)` and `1 - y^2`.
            (Pointwise::sigmoid, None, _) => {
                let one = self.number(g, 1.0)?;
                let rest = self.row(Pointwise::sub, &[one, node])?;
                let factor = self.row(Pointwise::mul, &[node, rest])?;
                self.row(Pointwise::mul, &[g, factor])?
            }
            (Pointwise::tanh, None, _) => {
                let square = self.row(Pointwise::square, &[node])?;
                let one = self.number(g, 1.0)?;
                let factor = self.row(Pointwise::sub, &[one, square])?;
                self.row(Pointwise::mul, &[g, factor])?
            }
            _ => {
                let formula = match slope {
                    None => row.row().derivative(n),
                    Some(slope) => slope.derivative(n),
                };
                let factor = match *formula.node() {
                    Node::Lit(0.0) => return Ok(None),
                    Node::Lit(1.0) => return self.shrink(g, &from).map(Some),
                    Node::Lit(-1.0) => {
                        let minus = self.row(Pointwise::neg, &[g])?;
                        return self.shrink(minus, &from).map(Some);
                    }
                    Node::Lit(value) => self.number(g, value)?,
                    Node::Arg(k) => inputs[k],
                    _ => self.push(Op::Derivative { row, formula }, inputs)?,
                };
                self.row(Pointwise::mul, &[g, factor])?
            }
        };
        self.shrink(pulled, &from).map(Some)
    }

    /// Returns the gradient of a custom function: `g` times the custom derivative.
    fn pull_element(
        &mut self,
        element: &Element,
        node: NodeId,
        inputs: &[NodeId],
        g: NodeId,
        n: usize,
    ) -> Result<Option<NodeId>> {
        let Some(gradient) = element.gradients.get(n) else {
            let message = format!(
                "element_function: `{}` must have gradients, got none; give it some, or detach its result",
                element.name
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let mut operands = inputs.to_vec();
        if gradient.parameters.len() > inputs.len() {
            operands.push(node);
        }
        let factor = self.push(Op::Element(gradient.clone()), &operands)?;
        let factor = self.cast(factor, self.dtype(g))?;
        let pulled = self.row(Pointwise::mul, &[g, factor])?;
        self.shrink(pulled, &self.shape(inputs[n])).map(Some)
    }

    /// Returns the gradient of a maximum or minimum. Equal elements share it.
    fn share(&mut self, g: NodeId, x: NodeId, best: NodeId, axes: &[usize]) -> Result<NodeId> {
        let found = self.row(Pointwise::eq, &[x, best])?;
        let one = self.cast(found, DType::F32)?;
        let count = self.sum(one, axes.to_vec())?;
        let count = self.cast(count, self.dtype(g))?;
        let share = self.row(Pointwise::div, &[g, count])?;
        let zero = self.number(g, 0.0)?;
        // The comparison is recorded again for this use. One comparison for both uses would be materialized.
        let found = self.row(Pointwise::eq, &[x, best])?;
        self.row(Pointwise::where_cond, &[found, share, zero])
    }
}
