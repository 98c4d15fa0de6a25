//! What tensors were made of.

use super::Device;
use crate::graph::{NodeId, Recorded};
use rustc_hash::FxHashSet;

impl Device {
    /// All that a node was made of, operands first; `None` if that is more than `most`.
    pub(crate) fn history(
        &self,
        of: NodeId,
        most: usize,
        leaves: &FxHashSet<NodeId>,
    ) -> Option<Vec<Recorded>> {
        self.state().graph.history(of, most, leaves)
    }

    /// How many nodes were recorded so far.
    pub(crate) fn recorded(&self) -> u64 {
        self.state().graph.count
    }

    /// Gradients pass a node by recording it again, out of what was recorded before the `since`-th.
    pub(crate) fn set_checkpoint(&self, node: NodeId, since: u64) {
        self.state().graph.set_checkpoint(node, since);
    }
}
