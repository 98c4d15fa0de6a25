//! Gradients of checkpoints, which are rematerialized.

use super::{Contribution, Path, Tape};
use crate::error::Result;
use crate::graph::{NodeId, Rematerialized};

impl Tape<'_> {
    /// Propagates the gradient of a checkpoint to its inputs, by recording the checkpointed part again.
    pub(super) fn pull_checkpoint(
        &mut self,
        path: &mut Path,
        node: NodeId,
        g: NodeId,
        ends: &[NodeId],
    ) -> Result<()> {
        let Rematerialized { result, recorded, ends } = self.graph.rematerialize(node, ends);
        self.recorded.extend(recorded);
        let active = |end: &NodeId| path.place(*end).is_some() && *end != node;
        let ends: Vec<NodeId> = ends.into_iter().filter(active).collect();
        let parts = self.flow_independent(&[(result, g)], &ends)?;
        for end in ends {
            let part = parts.place(end).and_then(|place| parts.gradients[place]);
            self.add_to(path, end, part.map(Contribution::Whole))?;
        }
        Ok(())
    }
}
