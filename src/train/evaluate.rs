//! Evaluation: the loss and the metrics of a model on validation data.

use super::data::Batches;
use super::in_flight::InFlight;
use super::loss_mean::LossMean;
use super::metrics::Metric;
use super::parallel::Parallel;
use super::record::{ForwardOutput, Scores};
use super::rollback::RollbackGuard;
use super::share::{Share, Shared};
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
        let found = self.announcer().watch(self.meet_and_evaluate(data)).await?;
        guard.disarm();
        Ok(found)
    }

    async fn meet_and_evaluate(&mut self, data: &dyn Batches) -> Result<Scores> {
        self.meet(|| format!("an evaluation after step {}", self.steps)).await?;
        let (forward, metrics) = (&self.forward, &mut self.metrics);
        scores(&self.model, forward, metrics, data, (&self.device, self.parallel.as_ref())).await
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
    model: &M,
    forward: &Forward<M>,
    metrics: &mut [Box<dyn Metric>],
    data: &dyn Batches,
    (device, parallel): (&Device, Option<&Parallel>),
) -> Result<Scores> {
    model.eval();
    let _evaluating = Evaluating(model);
    metrics.iter_mut().for_each(|metric| metric.reset());
    let mut loss_mean = LossMean::new(device)?;
    let mut in_flight = InFlight::default();
    let place = parallel.map_or((0, 1), Parallel::place);
    for (n, shared) in Share::new(data.epoch(0)?, place).enumerate() {
        in_flight.wait().await?;
        let shared = shared?;
        let examples = shared.examples();
        let Shared { batch: (x, y), counts, .. } = shared;
        let mut own = None;
        if counts {
            let ForwardOutput { loss, prediction } = forward(model, &x, &y)?;
            loss_mean = loss_mean.with(&loss, n as u64, examples)?;
            if !metrics.is_empty() {
                let why = "train: the forward function must return a prediction for metrics, got a loss alone";
                own = Some((prediction.ok_or_else(|| Error::argument(why))?.detach(), y));
            }
        }
        let pairs = match parallel {
            Some(parallel) if !metrics.is_empty() => parallel.gather_pairs(device, own).await?,
            _ => own.into_iter().collect(),
        };
        for (prediction, y) in &pairs {
            metrics.iter_mut().try_for_each(|metric| metric.update(prediction, y))?;
        }
        drop(pairs);
        device.submit()?;
        in_flight.push(device);
    }
    let mut all = loss_mean.examples;
    let mut combined = None;
    if let Some(parallel) = parallel {
        let (mean, bad) = loss_mean.read().await?;
        let (mean, examples, _) = parallel.combine_means((mean, all, bad)).await?;
        (all, combined) = (examples, Some(mean));
    }
    if all == 0 {
        return Err(Error::argument("evaluate: the data must have a batch, got none"));
    }
    let mut values = vec![loss_mean.mean];
    for metric in &*metrics {
        values.push(metric.value()?.cast(DType::F32)?.reshape(&[1])?);
    }
    let read = device.read::<f32>(&values.iter().collect::<Vec<_>>()).await?;
    let mut numbers = read.into_iter().flatten().map(f64::from);
    let loss = numbers.next().unwrap_or(f64::NAN);
    let loss = combined.unwrap_or(loss);
    let names = metrics.iter().map(|metric| metric.name());
    Ok(Scores { loss, metrics: names.zip(numbers).collect() })
}
