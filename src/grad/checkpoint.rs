//! Gradients of parts that are computed again.

use super::{Part, Path, Tape};
use crate::error::Result;
use crate::graph::{NodeId, Rematerialized};

impl Tape<'_> {
    /// Carries the gradient of a checkpoint to what it was made of, by recording it again.
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
        let parts = self.flow_apart(&[(result, g)], &ends)?;
        for end in ends {
            let part = parts.place(end).and_then(|place| parts.gradients[place]);
            self.add_to(path, end, part.map(Part::Whole))?;
        }
        Ok(())
    }
}
