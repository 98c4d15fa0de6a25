//! What tensors were made of.

use super::Device;
use crate::graph::{NodeId, Recorded};
use rustc_hash::FxHashSet;

impl Device {
    /// All that a node was made of, operands first, where those that `wanted` picks are held: under one lock, since what is
    /// not held may be gone a moment later.
    pub(crate) fn held_history(
        &self,
        of: NodeId,
        wanted: impl Fn(&Recorded) -> bool,
    ) -> Vec<(Recorded, Option<NodeId>)> {
        let mut state = self.state();
        let all = state.graph.history(of, usize::MAX, &FxHashSet::default()).unwrap_or_default();
        let held: Vec<NodeId> = all.iter().filter(|one| wanted(one)).map(|one| one.id).collect();
        state.graph.retain_all(&held);
        state.reclaim(&*self.inner.backend);
        all.into_iter()
            .map(|one| (wanted(&one).then_some(one.id), one))
            .map(|(id, one)| (one, id))
            .collect()
    }

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
