//! What is recorded and still to be computed.

use super::{Graph, Node, NodeId};
use crate::sorted;

impl Graph {
    /// The node is a variable's value: a result even where others use it, as long as a tensor holds it.
    pub fn keep(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.kept = true;
        node.variables += 1;
        self.kept.push(id);
        if self.kept.len() > Graph::SLACK + 2 * self.live {
            self.kept();
        }
    }

    /// Values of variables that are to be computed, as recorded.
    pub fn kept(&mut self) -> Vec<NodeId> {
        let mut kept = std::mem::take(&mut self.kept);
        kept.retain(|&id| self.get(id).is_some_and(|node| node.handles > 0 && node.is_open()));
        sorted::by_key(&mut kept, |id| id.born);
        kept.dedup();
        self.kept.clone_from(&kept);
        kept
    }

    /// Nodes that are needed and not computed, of those recorded after the first `since`, in that order.
    pub fn waiting(&self, since: u64) -> Vec<NodeId> {
        let mut waiting = Vec::new();
        for id in self.recent.iter().filter(|id| id.born >= since) {
            if self.get(*id).is_some_and(|node| node.is_needed() && !node.data && !node.is_shader())
            {
                waiting.push(*id);
            }
        }
        waiting
    }

    /// Nodes to compute that a tensor of the user's holds and nothing uses, of those recorded since this was asked last,
    /// and values of variables.
    pub fn sinks(&mut self) -> Vec<NodeId> {
        let mut sinks = std::mem::take(&mut self.recent);
        sinks.retain(|&id| {
            // A variable's value is there by its own right (`kept`), or is a part of another one.
            let is_sink = |node: &Node| {
                node.is_held() && node.uses == 0 && node.is_open() && node.value_of.is_none()
            };
            self.get(id).is_some_and(is_sink)
        });
        sinks.extend(self.kept());
        // As recorded, wherever there was room: the same step has the same trace.
        sorted::by_key(&mut sinks, |sink| sink.born);
        sinks.dedup();
        sinks
    }
}
