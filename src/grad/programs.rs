//! Gradients of the results of compiled programs.

use super::{Part, Path, Tape};
use crate::error::Result;
use crate::graph::{NodeId, Recording};

impl Tape<'_> {
    /// Carries the gradients of a run's results to what the program ran on, by recording its operations again.
    pub(super) fn pull_run(
        &mut self,
        path: &mut Path,
        run: NodeId,
        recording: &Recording,
        operands: &[NodeId],
    ) -> Result<()> {
        let [results, recorded] = self.graph.play(recording, operands);
        self.recorded.extend(recorded);
        let mut seeds = Vec::new();
        for (n, &result) in results.iter().enumerate() {
            seeds.extend(path.outputs.get(&(run, n)).map(|&seed| (result, seed)));
        }
        let mut ends: Vec<NodeId> = Vec::new();
        for &operand in operands {
            if path.place(operand).is_some() && !ends.contains(&operand) {
                ends.push(operand);
            }
        }
        let parts = self.flow_apart(&seeds, &ends)?;
        for end in ends {
            let part = parts.place(end).and_then(|place| parts.gradients[place]);
            self.add_to(path, end, part.map(Part::Whole))?;
        }
        Ok(())
    }
}
