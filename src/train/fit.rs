//! The training loop: steps, epochs, and the end of training.

use super::evaluate::scores;
use super::loss_mean::LossMean;
use super::parallel::Parallel;
use super::record::{Epoch, Step};
use super::rollback::RollbackGuard;
use super::share::{examples, Share, Shared};
use super::{OptimizerHandle, Per, Trainer};
use crate::error::{Error, Result};
use crate::nn::Module;
use crate::sorted;
use crate::tensor::{NonFinite, Tensor, Variable};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use web_time::Instant;

impl<M: Module, O: OptimizerHandle> Trainer<M, O> {
    /// Trains until the last epoch or until early stopping. Returns the result of each epoch.
    ///
    /// # Errors
    /// Same as [`Trainer::next_step`].
    pub async fn fit(&mut self) -> Result<&[Epoch]> {
        self.fit_with(|_| ControlFlow::Continue(())).await
    }

    /// Trains as [`Trainer::fit`], and calls `each` after every step. `Break` ends the loop. The next call then continues,
    /// and no step is lost.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// # use warpweft::nn::{Generator, Layer, Linear, LossReduction, Module};
    /// # use warpweft::optim::{Optimizer, Sgd};
    /// # use warpweft::train::{DataLoader, Dataset, Trainer};
    /// # use std::ops::ControlFlow;
    /// # let device = Device::with(Preference::Cpu).await?;
    /// # let x = device.uniform(&[64, 1], -1.0, 1.0, 1)?;
    /// # let data = Dataset::new(&x, &x.mul(3)?)?;
    /// # let model = Linear::new(&Generator::new(&device, 0), 1, 1)?;
    /// # let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
    /// # let forward = |model: &Linear, x: &_, y: &_| model.forward(x)?.mse_loss(y, LossReduction::Mean);
    /// let mut trainer = Trainer::new(model, optimizer, DataLoader::new(&data, 16)?, forward)?.epochs(5);
    /// let done = trainer.fit_with(|step| match &step.ended {
    ///     Some(epoch) if epoch.loss < 0.5 => ControlFlow::Break(()),
    ///     _ => ControlFlow::Continue(()),
    /// });
    /// assert!(done.await?.len() <= 5);
    /// trainer.fit().await?; // the epochs that are left
    /// assert_eq!(trainer.history().len(), 5);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// Same as [`Trainer::next_step`].
    pub async fn fit_with(
        &mut self,
        mut each: impl FnMut(&Step) -> ControlFlow<()>,
    ) -> Result<&[Epoch]> {
        while let Some(step) = self.next_step().await? {
            if each(&step).is_break() {
                break;
            }
        }
        Ok(&self.history)
    }

    /// Takes the next step. After the last step of an epoch, it also ends the epoch ([`Step::ended`]). Returns `None` when
    /// the training is over. Between two steps the caller may do other work, such as saving.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// # use warpweft::nn::{Generator, Layer, Linear, LossReduction, Module};
    /// # use warpweft::optim::{Optimizer, Sgd};
    /// # use warpweft::train::{DataLoader, Dataset, Trainer};
    /// # let device = Device::with(Preference::Cpu).await?;
    /// # let x = device.uniform(&[64, 1], -1.0, 1.0, 1)?;
    /// # let data = Dataset::new(&x, &x.mul(3)?)?;
    /// # let model = Linear::new(&Generator::new(&device, 0), 1, 1)?;
    /// # let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
    /// # let forward = |model: &Linear, x: &_, y: &_| model.forward(x)?.mse_loss(y, LossReduction::Mean);
    /// # let mut trainer = Trainer::new(model, optimizer, DataLoader::new(&data, 16)?, forward)?.epochs(5);
    /// while let Some(step) = trainer.next_step().await? {
    ///     if let Some(epoch) = &step.ended {
    ///         println!("epoch {}: {:.3}", epoch.epoch, epoch.loss);
    ///     }
    /// }
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of the data, of [`Trainer::step`] and of [`Trainer::end_epoch`]. `InvalidArgument` if an epoch has no
    /// batches, or if early stopping monitors a number that does not exist.
    ///
    /// A failed step changes nothing, and the next call retries it on the same batch. If the step was taken, but its report
    /// or the end of its epoch failed, the next call continues there.
    pub async fn next_step(&mut self) -> Result<Option<Step>> {
        self.announcer().watch(self.advance()).await
    }

    /// Implements [`Trainer::next_step`].
    async fn advance(&mut self) -> Result<Option<Step>> {
        // A step is stored in `last` until its report and the end of its epoch are complete, even if the future is dropped.
        while self.last.is_none() {
            if self.is_over() {
                self.restore_best()?;
                return Ok(None);
            }
            self.check_stopping()?;
            self.in_flight.wait().await?;
            match self.next_batch()? {
                Some(shared) => {
                    let (examples, taken) = (shared.examples(), shared.taken);
                    let (x, y) = shared.batch;
                    // If this fails or is dropped, the batch is still the next one.
                    let step = self.take_step(&x, &y, examples).await?;
                    let batch = self.position / self.ranks() as u64;
                    self.last = Some(Step { batch, ..step });
                    self.position += taken;
                    self.left.iter_mut().for_each(|left| drop(left.next()));
                }
                None if self.position == 0 => {
                    // The next call asks for the batches again.
                    self.left = None;
                    return Err(Error::argument(format!(
                        "train: an epoch must have a batch, got none in epoch {}",
                        self.epoch
                    )));
                }
                // A checkpoint from the end of an epoch.
                None => drop(self.finish_epoch().await?),
            }
        }
        // After `end_epoch`, the losses of the epoch are gone.
        let has_ended = self.last.as_ref().is_some_and(|step| step.ended.is_some());
        if !has_ended && self.report_every > 0 && self.steps.is_multiple_of(self.report_every) {
            let mean = self.mean_loss().await?;
            self.last.iter_mut().for_each(|step| step.mean_loss = Some(mean));
        }
        if !has_ended && self.left.as_mut().is_none_or(|left| left.peek().is_none()) {
            self.finish_epoch().await?;
        }
        Ok(self.last.take())
    }

    /// Whether the training is complete, so that no further step is taken.
    pub fn is_over(&self) -> bool {
        let stopped = self.stopping.as_ref().is_some_and(|rule| self.patience.is_out(rule));
        stopped || self.epoch >= self.epochs
    }

    /// Whether a step was taken that has not been returned yet.
    #[cfg(feature = "js-nn")]
    pub(crate) fn has_unreported_step(&self) -> bool {
        self.last.is_some()
    }

    /// Drops the open iterator of batches. The next step reopens the data at the current position.
    #[cfg(feature = "js-nn")]
    pub(crate) fn reopen(&mut self) {
        self.left = None;
    }

    /// Returns the next batch of the epoch. The batch remains the next one until its step is taken.
    fn next_batch(&mut self) -> Result<Option<Shared>> {
        // Loading a checkpoint does not change the model's mode, so each step of the loop sets it.
        self.model.train();
        if self.left.is_none() {
            let mut left = self.data.epoch(self.epoch)?;
            if let Some(before) = self.position.checked_sub(1) {
                left.nth(usize::try_from(before).unwrap_or(usize::MAX)).transpose()?;
            }
            let place = self.parallel.as_ref().map_or((0, 1), Parallel::place);
            self.left = Some(Share::new(left, place).peekable());
        }
        let Some(left) = &mut self.left else { return Ok(None) };
        if let Some(failed) = left.next_if(Result::is_err) {
            self.left = None;
            return failed.map(Some);
        }
        left.peek().cloned().transpose()
    }

    /// Takes a step on a batch: records the loss, gradients and new parameters, and submits them. It waits only if too many
    /// steps are in flight. Use it in custom loops, and end their epochs with [`Trainer::end_epoch`].
    ///
    /// The step counts as a step of the epoch, and does not move the position in the trainer's data.
    ///
    /// # Errors
    /// The errors of the forward function, of [`Optimizer::minimize`](crate::optim::Optimizer::minimize), and of earlier
    /// steps on the device. `Shape` if the loss is not a single number. After an error nothing has changed, including running
    /// statistics, generators, learning rates and counters.
    pub async fn step(&mut self, x: &Tensor, y: &Tensor) -> Result<Step> {
        self.announcer().watch(self.take_step(x, y, examples(x))).await
    }

    /// Implements [`Trainer::step`] for a batch that counts as this many examples.
    async fn take_step(&mut self, x: &Tensor, y: &Tensor, examples: u64) -> Result<Step> {
        self.in_flight.wait().await?;
        let begun = Instant::now();
        let lr = match (&self.schedule, &self.plateau) {
            (Some((schedule, Per::Step)), _) => schedule.lr(self.steps),
            (Some((schedule, Per::Epoch)), _) => schedule.lr(self.epoch),
            (None, Some([_, plateau])) => plateau.lr(),
            (None, None) => self.optimizer.with(|own| Ok(own.lr()))?,
        };
        let mut guard = RollbackGuard::new(&self.model, &self.generators);
        self.set_idle(examples == 0);
        let loss = (self.forward)(&self.model, x, y)?.loss;
        self.set_idle(false);
        let past = match self.detect_anomaly {
            true => self.look_at(&loss, examples).await?,
            false => Vec::new(),
        };
        let loss_mean = self.loss_mean.with(&loss, self.batch, examples)?;
        let is_scheduled = self.schedule.is_some() || self.plateau.is_some();
        // The variable makes the loss a result of the step's batch. Otherwise only the mean that is computed from the loss
        // would be.
        let kept = Variable::new(&loss);
        let reduced = self.reduce(&loss, examples).await?;
        self.optimizer.with_mut(|own| {
            let rates = own.rates();
            if is_scheduled {
                own.schedule_lr(lr);
            }
            let reduced = reduced.map(|reduced| reduced.gradients(own)).transpose()?;
            let taken = own.minimize_after(&loss, reduced, || guard.downgrade());
            if taken.is_err() {
                own.set_rates(&rates);
            }
            taken
        })?;
        drop((kept, past));
        guard.disarm();
        let (step, epoch, batch) = (self.steps, self.epoch, self.batch);
        self.loss_mean = loss_mean;
        self.steps += 1;
        self.batch += 1;
        self.restored = false;
        self.begun.get_or_insert(begun);
        self.in_flight.push(&self.device);
        Ok(Step { step, epoch, batch, lr, loss, mean_loss: None, ended: None })
    }

    /// Returns an error if a loss or its gradients are not finite. Otherwise returns the tensors of the loss's history,
    /// because gradients pass through them a second time.
    async fn look_at(&self, loss: &Tensor, examples: u64) -> Result<Vec<Tensor>> {
        let past = loss.past()?;
        let wrong = |what: &str, found: NonFinite| {
            Error::state(format!(
                "train: {what} of step {} must be finite, got one that is not: {found}",
                self.steps
            ))
        };
        if let Some(found) = loss.find_non_finite().await? {
            return Err(wrong("the loss", found));
        }
        let (mut names, mut values) = (Vec::new(), Vec::new());
        let is_float = |(_, one): &(String, Variable)| one.dtype().is_float();
        for (name, parameter) in self.model.named_parameters().into_iter().filter(is_float) {
            names.push(name);
            values.push(parameter.value());
        }
        drop(self.device.take_pending_sums());
        let gradients = loss.grad(&values.iter().collect::<Vec<_>>())?;
        self.provide_sums(examples).await?;
        let mut finite = Vec::with_capacity(gradients.len());
        for gradient in &gradients {
            finite.push(gradient.is_finite().all(())?);
        }
        let read = self.device.read::<bool>(&finite.iter().collect::<Vec<_>>()).await?;
        for ((name, gradient), finite) in names.iter().zip(&gradients).zip(read) {
            if finite == [false] {
                if let Some(found) = gradient.find_non_finite().await? {
                    return Err(wrong(&format!("the gradient with respect to `{name}`"), found));
                }
            }
        }
        Ok(past)
    }

    /// Ends an epoch: reads its mean loss, validates, and begins the next epoch. [`Trainer::next_step`] does it
    /// automatically.
    ///
    /// # Errors
    /// `InvalidState` if the epoch has no step, or if a loss was not finite (with the number of the step). `InvalidArgument` if
    /// early stopping monitors a number that does not exist. Also the errors of [`Trainer::evaluate`]. After an error, nothing
    /// has changed.
    pub async fn end_epoch(&mut self) -> Result<Epoch> {
        self.announcer().watch(self.finish_epoch()).await
    }

    /// Implements [`Trainer::end_epoch`].
    async fn finish_epoch(&mut self) -> Result<Epoch> {
        if self.batch == 0 {
            let message = format!(
                "train: an epoch must have a step before it ends, got none in epoch {}",
                self.epoch
            );
            return Err(Error::state(message));
        }
        self.check_stopping()?;
        self.meet(|| {
            let (epoch, steps) = (self.epoch, self.steps);
            let validation = self.describe_validation();
            format!("the end of epoch {epoch} after step {steps}\n{validation}")
        })
        .await?;
        let loss = self.mean_loss().await?;
        let guard = RollbackGuard::new(&self.model, &self.generators);
        self.share_buffers().await?;
        let validation = match &self.validation {
            Some(data) => {
                let (forward, metrics) = (&self.forward, &mut self.metrics);
                let parallel = self.parallel.as_ref();
                Some(
                    scores(&self.model, forward, metrics, &**data, (&self.device, parallel))
                        .await?,
                )
            }
            None => None,
        };
        let seconds = self.begun.map_or(0.0, |begun| begun.elapsed().as_secs_f64());
        let (epoch, steps, lr) = (self.epoch, self.steps, self.optimizer.with(|own| Ok(own.lr()))?);
        let mut ended = Epoch { epoch, steps, loss, validation, lr, seconds };
        if let Some(parallel) = &self.parallel {
            parallel.agree_on(&mut ended).await?;
        }
        let loss_mean = LossMean::new(&self.device)?;
        if self.follow(&ended)? {
            self.best = Some(self.weights()?);
        }
        let is_stopped = self.stopping.as_ref().is_some_and(|rule| self.patience.is_out(rule));
        if is_stopped || epoch + 1 >= self.epochs {
            // Here, because a loop over `is_over` does not ask for another step.
            self.restore_best()?;
        }
        guard.disarm();
        self.history.push(ended.clone());
        self.loss_mean = loss_mean;
        (self.epoch, self.batch, self.position) = (epoch + 1, 0, 0);
        (self.left, self.begun) = (None, None);
        // A step whose report failed is returned by the next call.
        self.last.iter_mut().for_each(|step| step.ended = Some(ended.clone()));
        Ok(ended)
    }

    /// Rejects early stopping by a number that epochs do not have.
    fn check_stopping(&self) -> Result<()> {
        let Some(rule) = &self.stopping else { return Ok(()) };
        let metrics: Vec<String> = self.metrics.iter().map(|metric| metric.name()).collect();
        rule.check(self.validation.is_some(), &metrics)
    }

    /// Updates early stopping and the plateau schedule with an epoch. Returns whether the epoch's weights are to be stored.
    fn follow(&mut self, epoch: &Epoch) -> Result<bool> {
        let best = match &self.stopping {
            Some(rule) => self.patience.take(rule, epoch)? && rule.restore_best,
            None => false,
        };
        if let Some([_, plateau]) = &mut self.plateau {
            plateau.step(watched(epoch));
        }
        Ok(best)
    }

    /// Returns the current values of the model and of the optimizer's other parameters.
    fn weights(&self) -> Result<BTreeMap<String, Tensor>> {
        let copy = |(name, x): (String, Tensor)| (name, x.detach());
        Ok(sorted::map(self.values()?.into_iter().map(copy)))
    }

    /// Restores the best weights, once.
    fn restore_best(&mut self) -> Result<()> {
        if let Some(best) = self.best.as_ref().filter(|_| !self.restored) {
            self.set_values(best)?;
            self.restored = true;
        }
        Ok(())
    }

    /// Reads the mean loss of the epoch so far.
    async fn mean_loss(&self) -> Result<f64> {
        let (mut mean, mut bad) = self.loss_mean.read().await?;
        if let Some(parallel) = &self.parallel {
            let examples = self.loss_mean.examples;
            (mean, _, bad) = parallel.combine_means((mean, examples, bad)).await?;
        }
        let Some(batch) = bad else { return Ok(mean) };
        let (step, epoch) = (self.steps - self.batch + batch, self.epoch);
        let what = format!(
            "the loss of step {step} (epoch {epoch}, batch {batch}) must be finite, got NaN or an infinity"
        );
        let why = "`detect_anomaly` names the operation; a lower learning rate or clipped gradients may help";
        Err(Error::state(format!("train: {what}; {why}")))
    }
}

/// Returns the number for the plateau schedule: the validation loss, or without validation the training loss.
pub(super) fn watched(epoch: &Epoch) -> f64 {
    epoch.get("validation_loss").unwrap_or(epoch.loss)
}
