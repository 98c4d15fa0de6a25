//! Evaluation: the loss and the metrics of a model on validation data.

use super::data::Batches;
use super::in_flight::InFlight;
use super::loss_mean::LossMean;
use super::metrics::Metric;
use super::record::{ForwardOutput, Scores};
use super::rollback::RollbackGuard;
use super::{OptimizerHandle, Trainer};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::nn::Module;
use crate::tensor::Tensor;

/// A function that computes the loss of a batch, and optionally the model's prediction.
pub(super) type Forward<M> = Box<dyn Fn(&M, &Tensor, &Tensor) -> Result<ForwardOutput>>;

impl<M: Module, O: OptimizerHandle> Trainer<M, O> {
    /// Computes the mean loss and the metrics over these batches. The model is in evaluation mode meanwhile, and in training
    /// mode afterwards.
    ///
    /// # Errors
    /// The errors of the batches, the forward function and the metrics. `InvalidArgument` if there are no batches, or if
    /// metrics need a prediction and the forward function returns a loss alone. After an error, no buffer and no generator has
    /// changed.
    pub async fn evaluate(&mut self, data: &dyn Batches) -> Result<Scores> {
        let guard = RollbackGuard::new(&self.model, &self.generators);
        let found =
            scores(&self.device, &self.model, &self.forward, &mut self.metrics, data).await?;
        guard.disarm();
        Ok(found)
    }
}

/// A guard that sets the model to training mode when it is dropped.
struct Evaluating<'a, M: Module>(&'a M);

impl<M: Module> Drop for Evaluating<'_, M> {
    fn drop(&mut self) {
        self.0.train();
    }
}

/// Implements [`Trainer::evaluate`] on the parts of a trainer.
pub(super) async fn scores<M: Module>(
    device: &Device,
    model: &M,
    forward: &Forward<M>,
    metrics: &mut [Box<dyn Metric>],
    data: &dyn Batches,
) -> Result<Scores> {
    model.eval();
    let _evaluating = Evaluating(model);
    metrics.iter_mut().for_each(|metric| metric.reset());
    let mut loss_mean = LossMean::new(device)?;
    let mut in_flight = InFlight::default();
    for (n, batch) in data.epoch(0)?.enumerate() {
        in_flight.wait().await?;
        let (x, y) = batch?;
        let ForwardOutput { loss, prediction } = forward(model, &x, &y)?;
        let examples = x.shape().first().copied().unwrap_or(1);
        loss_mean = loss_mean.with(&loss, n as u64, examples)?;
        if !metrics.is_empty() {
            let why = "train: the forward function must return a prediction for metrics, got a loss alone";
            let prediction = prediction.ok_or_else(|| Error::argument(why))?.detach();
            metrics.iter_mut().try_for_each(|metric| metric.update(&prediction, &y))?;
        }
        drop(loss);
        device.submit()?;
        in_flight.push(device);
    }
    if loss_mean.examples == 0 {
        return Err(Error::argument("evaluate: the data must have a batch, got none"));
    }
    let mut values = vec![loss_mean.mean];
    for metric in &*metrics {
        values.push(metric.value()?.cast(DType::F32)?.reshape(&[1])?);
    }
    let read = device.read::<f32>(&values.iter().collect::<Vec<_>>()).await?;
    let mut numbers = read.into_iter().flatten().map(f64::from);
    let loss = numbers.next().unwrap_or(f64::NAN);
    let names = metrics.iter().map(|metric| metric.name());
    Ok(Scores { loss, metrics: names.zip(numbers).collect() })
}
