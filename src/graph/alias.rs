//! Aliases: nodes with the value of another node, in the same memory.
//!
//! A variable's value must be a node of its own, so that its gradient belongs to that variable alone: two variables can be
//! made from one tensor, and exchange their values. Copying would cost a kernel and memory. An alias is a `Reshape` to the
//! same shape that no kernel computes: a trace has its input in its place ([`Graph::computed_by`]), and when the input is
//! computed, the alias is data too, in the same buffer (`device/state.rs` counts who shares a buffer). A detached tensor is
//! an alias as well.
//!
//! Gradients pass an alias as they pass a `Reshape`. While an alias remembers how it was made, it keeps its input's history
//! as a tensor that holds the input would.

use super::{Graph, NodeId};
use crate::error::Result;
use crate::op::Op;
use smallvec::smallvec;

impl Graph {
    /// Records an alias. Of what has no data outside of a program that is being compiled it is an ordinary `Reshape`.
    ///
    /// # Errors
    /// `Limit` where there is no room for it.
    pub fn alias(&mut self, of: NodeId) -> Result<NodeId> {
        self.check_room("reshape")?;
        let node = self.node(of);
        let (shape, dtype, is_materialized, is_eager) =
            (node.shape, node.dtype, node.is_materialized, node.is_eager);
        let (from_placeholder, name) = (node.depends_on_placeholder, self.operation_name(of));
        let id = self.insert(Op::Reshape(shape), smallvec![of], shape, dtype, 0);
        if from_placeholder {
            return Ok(id);
        }
        let node = self.node_mut(id);
        (node.alias, node.is_materialized, node.is_eager) = (Some(name), is_materialized, is_eager);
        self.notify_changed(&[id]);
        Ok(id)
    }

    /// The node whose computation gives the value of this one: itself, unless it is an alias of what is to be computed.
    pub fn computed_by(&self, mut id: NodeId) -> NodeId {
        loop {
            let node = self.node(id);
            match (node.alias.is_some() && !node.is_materialized, &node.inputs[..]) {
                (true, &[input, ..]) => id = input,
                _ => return id,
            }
        }
    }

    /// The aliases of a node, and the aliases of those, that wait for its value.
    pub fn waiting_aliases(&self, id: NodeId) -> Vec<NodeId> {
        let (mut found, mut stack) = (Vec::new(), vec![id]);
        while let Some(id) = stack.pop() {
            for &index in &self.node(id).users {
                if let (seq, Some(user)) = &self.nodes[index as usize] {
                    if user.alias.is_some() && !user.is_materialized {
                        let id = NodeId { index, seq: *seq };
                        found.push(id);
                        stack.push(id);
                    }
                }
            }
        }
        found
    }
}
