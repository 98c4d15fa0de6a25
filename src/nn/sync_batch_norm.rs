//! Batch normalization with the statistics of all ranks.

use super::{BatchNorm, Generator, Layer, Members, Module};
use crate::distributed::World;
use crate::dtype::FLOATS;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// [`BatchNorm`] whose statistics in training are those of the batches of all ranks together (`SyncBatchNorm` of PyTorch). So
/// ranks with small batches train as one process with a large one.
///
/// In training, `forward` waits for all ranks, and every rank must call it as often. Train the model with
/// [`Trainer::data_parallel`](crate::train::Trainer::data_parallel), which also sums the gradients of the statistics. Gradients
/// that are taken without a trainer have no value. It cannot be used inside a compiled program.
///
/// With one rank, it is the same as [`BatchNorm`].
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, distributed::World};
/// # use warpweft::nn::{Generator, Layer, SyncBatchNorm};
/// # let device = Device::with(Preference::Cpu).await?;
/// let layer = SyncBatchNorm::new(&Generator::new(&device, 0), 2, &World::single())?;
/// let x = device.tensor(&[1.0f32, 10.0, 3.0, 30.0], &[2, 2])?;
/// let y: Vec<f32> = layer.forward(&x)?.read().await?;
/// assert!((y[0] + 1.0).abs() < 1e-4 && (y[3] - 1.0).abs() < 1e-4);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct SyncBatchNorm {
    /// The weights, running statistics and options.
    pub norm: BatchNorm,
    world: World,
}

impl SyncBatchNorm {
    /// Creates a layer with an `eps` of 1e-5 and a momentum of 0.1.
    ///
    /// # Errors
    /// `Limit`.
    pub fn new(generator: &Generator, channels: usize, world: &World) -> Result<SyncBatchNorm> {
        Ok(SyncBatchNorm { norm: BatchNorm::new(generator, channels)?, world: world.clone() })
    }

    /// Returns the mean and the variance of each channel of the joined batch, and how many numbers a channel has.
    fn statistics(&self, x: &Tensor) -> Result<(Tensor, Tensor, f64)> {
        let (rank, ranks) = (self.world.rank(), self.world.size());
        let channels = x.shape()[1];
        let axes: Vec<isize> = (0..x.rank() as isize).filter(|&axis| axis != 1).collect();
        let own = match x.numel() {
            // A mean of nothing is NaN.
            0 => Tensor::stack(&[x.sum(&axes)?, x.sum(&axes)?], 0)?,
            _ => Tensor::stack(&[x.mean(&axes)?, x.var(&axes, 0.0)?], 0)?,
        };
        let count = match self.world.is_idle() {
            true => 0.0,
            false => (x.numel() / channels.max(1)) as f32,
        };
        // `x` is computed together with its statistics, because the rest of the network needs it.
        let mut batch = x.device().batch();
        batch.add(x)?.add(&own)?;
        batch.run()?;
        let gathered = pollster::block_on(async {
            let mut values: Vec<f32> = own.read().await?;
            values.push(count);
            let bytes = values.iter().flat_map(|value| value.to_le_bytes()).collect();
            self.world.all_gather(bytes).await
        })?;
        let (mut values, mut counts) = (Vec::new(), Vec::new());
        for (other, bytes) in gathered.iter().enumerate() {
            if bytes.len() != (2 * channels + 1) * 4 {
                let got = (bytes.len() / 4).saturating_sub(1) / 2;
                return Err(Error::shape(format!(
                    "sync_batch_norm: all ranks must have as many channels, got {channels} on rank {rank} and {got} on \
                     rank {other}"
                )));
            }
            let numbers = bytes.chunks_exact(4);
            values.extend(
                numbers.map(|word| f32::from_le_bytes(word.try_into().unwrap_or_default())),
            );
            counts.extend(values.pop());
        }
        let all = x.device().tensor(&values, &[ranks, 2, channels])?;
        // The value is that of `all`. The gradient of this rank's row reaches `own`.
        let through = own.sub(&own.detach())?.unsqueeze(0)?;
        let through = through.pad(&[(rank, ranks - 1 - rank), (0, 0), (0, 0)], 0.0)?;
        let all = all.add(&through)?.with_summed_gradient()?;
        let total: f64 = counts.iter().map(|&count| f64::from(count)).sum();
        let shares: Vec<f32> = counts.iter().map(|count| count / total as f32).collect();
        let shares = x.device().tensor(&shares, &[ranks, 1])?;
        let (means, variances) = (all.select(1, 0)?, all.select(1, 1)?);
        let mean = means.mul(&shares)?.sum(0)?;
        let apart = means.sub(&mean)?.square();
        let variance = variances.add(&apart)?.mul(&shares)?.sum(0)?;
        Ok((mean, variance, total))
    }
}

impl Module for SyncBatchNorm {
    fn members(&self, members: &mut Members) {
        self.norm.members(members);
    }
}

impl Layer for SyncBatchNorm {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        if self.world.size() == 1 || !self.norm.is_training() {
            return self.norm.forward(x);
        }
        if !x.dtype().is_float() {
            return Err(Error::wrong_dtype("sync_batch_norm", FLOATS, x.dtype()));
        }
        if x.rank() < 2 {
            let must = "the input must have a batch and channels";
            return Err(Error::wrong_shape("sync_batch_norm", must, x.shape()));
        }
        let wide = x.cast(x.dtype().compute())?;
        let (mean, variance, count) = self.statistics(&wide)?;
        self.norm.normalize_by(&wide, &mean, &variance, count)?.cast(x.dtype())
    }
}
