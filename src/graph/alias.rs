//! Aliases: nodes with the value of another node, in the same memory.
//!
//! Problem: a variable's value must be a separate node, so that its gradient belongs to that variable alone. Two variables can
//! be made from one tensor, and can exchange their values. Copying would cost a kernel and memory.
//!
//! Idea: an alias is a `Reshape` to the same shape that no kernel computes. A trace contains the input of an alias instead of
//! the alias ([`Graph::computed_by`]). When the input is computed, the alias is data in the same buffer, whose users
//! `device/state.rs` counts. A detached tensor is an alias as well.
//!
//! Gradients pass an alias as they pass a `Reshape`. While an alias has its history, it keeps the history of its input, as a
//! tensor that holds the input would.

use super::{Graph, NodeId};
use crate::error::Result;
use crate::op::Op;
use smallvec::smallvec;

impl Graph {
    /// Records an alias. A node that depends on a placeholder has no data, so its alias is an ordinary `Reshape`.
    ///
    /// # Errors
    /// `Limit` if the graph is full.
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

    /// Returns the node whose computation gives the value of this one. That is the node itself, unless it is an alias of an
    /// uncomputed node.
    pub fn computed_by(&self, mut id: NodeId) -> NodeId {
        loop {
            let node = self.node(id);
            match (node.alias.is_some() && !node.is_materialized, &node.inputs[..]) {
                (true, &[input, ..]) => id = input,
                _ => return id,
            }
        }
    }

    /// Returns the uncomputed aliases of a node, and the aliases of those.
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
