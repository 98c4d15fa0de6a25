//! The mean loss of an epoch, computed on the device.

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// The mean of the losses so far, and the first batch whose loss is not finite. Both stay on the device and are read rarely.
#[derive(Clone, Debug)]
pub(super) struct LossMean {
    /// The mean over examples, `f32` of `[1]`.
    pub mean: Tensor,
    /// The index, in the epoch, of the first batch whose loss is not finite, or -1. `i32` of `[1]`.
    pub first_non_finite: Tensor,
    /// The number of examples.
    pub examples: u64,
}

impl LossMean {
    /// Creates the mean of no losses.
    pub fn new(device: &Device) -> Result<LossMean> {
        // Uploaded as data, so that the first step has the same structure as the others.
        let mean = device.tensor(&[0f32], &[1])?;
        let first_non_finite = device.tensor(&[-1i32], &[1])?;
        Ok(LossMean { mean, first_non_finite, examples: 0 })
    }

    /// Adds the loss of a batch with this number of examples. Without examples, the loss may be NaN, and is ignored.
    pub fn with(&self, loss: &Tensor, batch: u64, examples: u64) -> Result<LossMean> {
        if loss.numel() != 1 {
            let shape = loss.shape();
            return Err(Error::shape(format!(
                "train: the loss must be one number, got shape {shape:?}"
            )));
        }
        if examples == 0 {
            return Ok(self.clone());
        }
        let loss = loss.detach().cast(DType::F32)?.reshape(&[1])?;
        let all = self.examples + examples;
        let share = examples as f64 / all.max(1) as f64;
        let mean = self.mean.add(&loss.sub(&self.mean)?.mul(share)?)?;
        // From batch 2^31 of an epoch on, the index is the largest `i32`.
        let number = i32::try_from(batch).unwrap_or(i32::MAX);
        let first = self.first_non_finite.lt(0)?.logical_and(loss.is_finite().logical_not())?;
        let first = first.where_cond(number, &self.first_non_finite)?;
        Ok(LossMean { mean: mean.detach(), first_non_finite: first.detach(), examples: all })
    }

    /// Reads the mean, and the index of the first batch whose loss is not finite, if there is one.
    pub async fn read(&self) -> Result<(f64, Option<u64>)> {
        let read = self.mean.device().read_bytes(&[&self.mean, &self.first_non_finite]).await?;
        let word = |bytes: &[u8]| <[u8; 4]>::try_from(bytes).unwrap_or_default();
        let [mean, bad] = &read[..] else {
            return Err(Error::state("train: the device must return a value, got none"));
        };
        let bad = u64::try_from(i32::from_le_bytes(word(bad))).ok();
        Ok((f64::from(f32::from_le_bytes(word(mean))), bad))
    }
}
