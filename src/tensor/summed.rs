//! Gradients that are summed over all ranks in the middle of a backward pass.

use super::Tensor;
use crate::device::Device;
use crate::error::Result;
use crate::graph::NodeId;

/// A gradient, and the tensor that stands for its sum over all ranks until [`PendingSum::provide`] has its data.
pub(crate) struct PendingSum {
    /// The gradient of this rank.
    pub gradient: Tensor,
    sum: NodeId,
}

impl Device {
    /// Takes the gradients to sum, in the order in which they must be summed: a later one may be computed from an earlier sum.
    pub(crate) fn take_pending_sums(&self) -> Vec<PendingSum> {
        let adopt = |(gradient, sum)| PendingSum { gradient: Tensor::adopt(self, gradient), sum };
        self.take_sums().into_iter().map(adopt).collect()
    }
}

impl PendingSum {
    /// Passes the sum.
    pub fn provide(&self, values: &[f32]) -> Result<()> {
        let device = self.gradient.device();
        let data = device.tensor(values, self.gradient.shape())?;
        device.share_data(data.node()?, self.sum)
    }
}

impl Drop for PendingSum {
    fn drop(&mut self) {
        self.gradient.device().release(self.sum);
    }
}

impl Tensor {
    /// Returns this tensor, an `f32` one. A gradient that passes the result is summed over all ranks.
    ///
    /// Gradients that depend on such a sum have no data until every [`PendingSum`] is provided. A trainer does that.
    pub(crate) fn with_summed_gradient(&self) -> Result<Tensor> {
        Ok(Tensor::adopt(&self.device, self.device.summed(self.node()?)?))
    }
}
