//! Pullbacks: the gradients of custom shaders, captured once and recorded again for each use.

use super::{Graph, NodeId, Trace};
use crate::op::Op;
use std::sync::Arc;

/// The gradients by a shader's inputs, as a trace of its inputs, its results, and the gradients of its results.
#[derive(Debug)]
pub struct Pullback {
    pub trace: Trace,
    /// The position among those operands of each source of the trace.
    pub sources: Vec<usize>,
    /// The scalars of the trace, in order of appearance.
    pub scalars: Vec<u32>,
    /// The positions of the gradients by the inputs, in order.
    pub results: Vec<usize>,
}

impl Graph {
    /// Sets the gradient of a shader.
    pub fn set_pullback(&mut self, id: NodeId, pullback: Arc<Pullback>) {
        self.node_mut(id).pullback = Some(pullback);
    }

    /// Returns the gradient of a shader, if it has one.
    pub fn pullback(&self, id: NodeId) -> Option<Arc<Pullback>> {
        self.node(id).pullback.clone()
    }

    /// Returns the n-th result of a shader, if something still needs it.
    pub fn output_of(&self, shader: NodeId, n: usize) -> Option<NodeId> {
        let is_it = |&&index: &&u32| {
            let (_, node) = &self.nodes[index as usize];
            node.as_ref().is_some_and(|node| matches!(node.op, Op::Output(_, at) if at == n))
        };
        let index = *self.node(shader).users.iter().find(is_it)?;
        Some(NodeId { index, seq: self.nodes[index as usize].0 })
    }
}
