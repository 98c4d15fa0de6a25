//! What holds a node, for reports of memory; and what stands in for what is not there yet.

use super::{Graph, NodeId};
use crate::dtype::DType;
use crate::op::Op;
use crate::shape::Shape;

/// What holds a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A variable.
    Variable,
    /// A tensor of the program's.
    Tensor,
    /// A compiled program, and nothing else.
    Constant,
    /// Nothing: operations need it that are still to be computed.
    Pending,
}

impl Holder {
    /// The word for it.
    pub fn name(self) -> &'static str {
        match self {
            Holder::Tensor => "tensor",
            Holder::Variable => "variable",
            Holder::Constant => "constant",
            Holder::Pending => "pending",
        }
    }
}

impl Graph {
    /// Data that there is not yet: what stands for an input of a program.
    pub fn stand_in(&mut self, shape: Shape, dtype: DType) -> NodeId {
        let id = self.source(shape, dtype);
        self.node_mut(id).stands_in = true;
        id
    }

    /// Whether it stands for an input of a program, or is made of what does.
    pub fn stands_in(&self, id: NodeId) -> bool {
        self.node(id).stands_in
    }

    /// What holds a node.
    pub fn holder(&self, id: NodeId) -> Holder {
        let Some(node) = self.get(id) else { return Holder::Pending };
        match () {
            _ if node.variables > 0 => Holder::Variable,
            _ if node.handles > node.programs => Holder::Tensor,
            _ if node.programs > 0 => Holder::Constant,
            _ => Holder::Pending,
        }
    }

    /// Whether the program has a tensor or a variable for the node.
    pub fn is_held(&self, id: NodeId) -> bool {
        self.node(id).handles > 0
    }

    /// Whether something else than one handle needs the node, or gradients pass it to something that is held, or would if
    /// its history were not gone.
    pub fn is_used(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let remembers = node.data && !node.inputs.is_empty();
        node.handles > 1 || !node.users.is_empty() || remembers || node.past.cut.before > 0
    }

    /// Whether more than one handle holds the node, or something is computed from it, or remembers that it was.
    pub fn is_shared(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.handles > 1 || !node.users.is_empty()
    }

    /// The operation that a node is the result of.
    pub fn made_by(&self, id: NodeId) -> &'static str {
        let node = self.node(id);
        match (node.alias, &node.op) {
            (Some(name), _) => name,
            (None, Op::Source) => "data",
            (None, op) => op.name(),
        }
    }

    /// The node is no variable's value any more, or one variable's less.
    pub fn let_go(&mut self, id: NodeId) {
        if let Some(node) = self.get_mut(id) {
            node.variables = node.variables.saturating_sub(1);
        }
    }

    /// One of the handles of the node is a compiled program's, from now on or no more.
    pub fn set_constant(&mut self, id: NodeId, whether: bool) {
        let node = self.node_mut(id);
        node.programs = if whether { node.programs + 1 } else { node.programs.saturating_sub(1) };
    }
}
