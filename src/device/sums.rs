//! Gradients that are summed over all ranks.

use super::Device;
use crate::error::{Error, Result};
use crate::graph::{GradientSum, NodeId};
use crate::op::Op;

impl Device {
    /// Records a node with the value of `node`, where gradients are summed over all ranks.
    pub(crate) fn summed(&self, node: NodeId) -> Result<NodeId> {
        let shape = self.state().graph.shape(node);
        let summed = self.record(Op::Reshape(shape), &[node])?;
        self.state().graph.set_summed(summed);
        Ok(summed)
    }

    /// Takes the gradients to sum, each with the source of its sum. The caller holds both.
    pub(crate) fn take_sums(&self) -> Vec<(NodeId, NodeId)> {
        let sums = std::mem::take(&mut self.state().graph.sums);
        sums.into_iter().map(|GradientSum { gradient, sum }| (gradient, sum)).collect()
    }

    /// Gives the source `to` the memory of the source `from`.
    pub(crate) fn share_data(&self, from: NodeId, to: NodeId) -> Result<()> {
        let mut state = self.state();
        let held = state.buffers.get(&from).cloned();
        let held = held.ok_or_else(|| Error::state("tensor: its memory must be there"))?;
        state.buffers.insert(to, held);
        Ok(())
    }
}
