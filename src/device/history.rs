//! What tensors were made of.

use super::Device;
use crate::graph::{NodeId, Recorded};
use rustc_hash::FxHashSet;

impl Device {
    /// All that a node was made of, operands first; `None` if that is more than `most`. The nodes that `wanted` picks are held,
    /// and the caller releases them. They are held under the same lock, because a node that nothing holds may be freed, or
    /// lose its past, at any later moment.
    pub(crate) fn history(
        &self,
        of: NodeId,
        most: usize,
        leaves: &FxHashSet<NodeId>,
        wanted: impl Fn(&Recorded) -> bool,
    ) -> Option<Vec<(Recorded, Option<NodeId>)>> {
        let mut state = self.state();
        let all = state.graph.history(of, most, leaves)?;
        let pick = |one: Recorded| {
            let held = wanted(&one).then_some(one.id);
            (one, held)
        };
        let all: Vec<(Recorded, Option<NodeId>)> = all.into_iter().map(pick).collect();
        let held: Vec<NodeId> = all.iter().filter_map(|(_, held)| *held).collect();
        state.graph.retain_all(&held);
        state.reclaim(&*self.inner.backend);
        Some(all)
    }

    /// Those of these nodes that are not computed yet.
    pub(crate) fn open(&self, nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
        let state = self.state();
        let open = nodes.filter(|&node| !state.graph.is_materialized(node));
        // Aliases are data as soon as what they stand for is.
        open.flat_map(|node| [vec![node], state.graph.waiting_aliases(node)].concat()).collect()
    }

    /// These nodes were computed to be looked at: they keep their history as if they were not computed yet.
    pub(crate) fn keep_open(&self, nodes: &[NodeId]) {
        let mut state = self.state();
        for &node in nodes {
            if !state.graph.is_freed(node) && state.graph.is_materialized(node) {
                state.graph.mark_eager(node);
            }
        }
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
