//! The structure of what is to be computed, taken from the graph.

use super::{Graph, NodeId};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Op;
use crate::shape::Shape;

/// One operation of a [`Trace`]; its inputs are earlier positions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Traced {
    pub op: Op,
    pub inputs: Vec<usize>,
    pub shape: Shape,
    pub dtype: DType,
}

/// The structure of a computation, apart from any graph: operations in order, and which of them are results. Numbers
/// the user passed are not part of it, so two steps of a loop have equal traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trace {
    pub nodes: Vec<Traced>,
    pub outputs: Vec<usize>,
}

/// A trace with what it was taken from.
#[derive(Debug)]
pub struct Taken {
    pub trace: Trace,
    /// The graph's nodes behind the trace's sources, in order of appearance.
    pub sources: Vec<NodeId>,
    /// The bits behind the trace's scalars, in order of appearance.
    pub scalars: Vec<u32>,
}

impl Trace {
    /// Appends an operation; its shape and type follow from its inputs.
    pub fn push(&mut self, op: Op, inputs: &[usize]) -> Result<usize> {
        let mut types = Vec::with_capacity(inputs.len());
        for &input in inputs {
            types.push((self.nodes[input].shape, self.nodes[input].dtype));
        }
        let (shape, dtype) = op.infer(&types)?;
        self.nodes.push(Traced { op, inputs: inputs.to_vec(), shape, dtype });
        Ok(self.nodes.len() - 1)
    }

    /// Appends data or a number, which say their shape and type themselves.
    pub fn leaf(&mut self, op: Op, shape: Shape, dtype: DType) -> usize {
        self.nodes.push(Traced { op, inputs: Vec::new(), shape, dtype });
        self.nodes.len() - 1
    }
}

impl Graph {
    /// The structure of everything `outputs` need.
    pub fn trace(&self, outputs: &[NodeId]) -> Taken {
        let mut taken = Taken { trace: Trace::default(), sources: Vec::new(), scalars: Vec::new() };
        let mut position: Vec<Option<usize>> = vec![None; self.nodes.len()];
        // Depth first with a stack of our own: a chain may be longer than the thread's stack.
        let mut stack: Vec<(NodeId, usize)> = Vec::new();
        for &output in outputs {
            stack.push((output, 0));
            while let Some((id, next)) = stack.pop() {
                if position[id.index as usize].is_some() {
                    continue;
                }
                let node = self.node(id);
                let (op, inputs) =
                    if node.data { (&Op::Source, &[][..]) } else { (&node.op, &node.inputs[..]) };
                if let Some(&input) = inputs.get(next) {
                    stack.push((id, next + 1));
                    stack.push((input, 0));
                    continue;
                }
                match op {
                    Op::Source => taken.sources.push(id),
                    Op::Scalar => taken.scalars.push(node.scalar),
                    _ => {}
                }
                position[id.index as usize] = Some(taken.trace.nodes.len());
                taken.trace.nodes.push(Traced {
                    op: op.clone(),
                    inputs: places(inputs, &position),
                    shape: node.shape,
                    dtype: node.dtype,
                });
            }
        }
        taken.trace.outputs = places(outputs, &position);
        taken
    }
}

/// Where the nodes are in a trace that has them all.
fn places(nodes: &[NodeId], position: &[Option<usize>]) -> Vec<usize> {
    let mut places = Vec::with_capacity(nodes.len());
    for id in nodes {
        places.extend(position[id.index as usize]);
    }
    places
}
