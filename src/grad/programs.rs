//! Gradients of the results of compiled programs.

use super::{Contribution, Path, Tape};
use crate::error::Result;
use crate::graph::{NodeId, Recording};

impl Tape<'_> {
    /// Propagates the gradient of a program's result to its sources, by recording its operations again.
    pub(super) fn pull_result(
        &mut self,
        path: &mut Path,
        node: NodeId,
        g: NodeId,
        recording: &Recording,
        sources: &[NodeId],
    ) -> Result<()> {
        if self.shape(node).numel() == 0 {
            return Ok(());
        }
        let [results, recorded] = self.graph.play(recording, sources);
        self.recorded.extend(recorded);
        let mut ends: Vec<NodeId> = Vec::new();
        for &source in sources {
            if path.place(source).is_some() && !ends.contains(&source) {
                ends.push(source);
            }
        }
        let parts = self.flow_independent(&[(results[0], g)], &ends)?;
        for end in ends {
            let part = parts.place(end).and_then(|place| parts.gradients[place]);
            self.add_to(path, end, part.map(Contribution::Whole))?;
        }
        Ok(())
    }
}
