//! Learning rate schedules, with the names, formulas and defaults of `torch.optim.lr_scheduler`.
//!
//! A [`Schedule`] is a function from a step to a rate, without state. A resumed training run therefore needs only its step.
//! The caller counts the steps, which may be updates or epochs, from 0. [`ReduceLrOnPlateau`] is different, because it
//! depends on a metric.

mod cycles;
mod plateau;

pub use cycles::{
    Anneal, CosineAnnealingLr, CosineAnnealingWarmRestarts, OneCycleLr, OneCycleOptions,
    WarmRestartsOptions,
};
pub use plateau::{PlateauMode, PlateauOptions, ReduceLrOnPlateau, ThresholdMode};

use crate::error::{Error, Result};
use crate::sorted;
use std::fmt::Debug;

/// A learning rate for each step. An `f64` is a constant schedule.
///
/// ```
/// use warpweft::optim::{CosineAnnealingLr, LinearLr, LinearLrOptions, Schedule, SequentialLr};
///
/// # fn main() -> warpweft::error::Result<()> {
/// // Ten steps of linear warm-up, then half a cosine down to 0.
/// let options = LinearLrOptions { start_factor: 0.1, total_iters: 10, ..Default::default() };
/// let warm_up = LinearLr::new(0.1, options)?;
/// let decay = CosineAnnealingLr::new(0.1, 90, 0.0)?;
/// let schedule = SequentialLr::new(vec![Box::new(warm_up), Box::new(decay)], vec![10])?;
/// assert!((schedule.lr(0) - 0.01).abs() < 1e-12);
/// assert_eq!(schedule.lr(10), 0.1);
/// assert_eq!(schedule.lr(100), 0.0);
/// assert_eq!(0.3.lr(7), 0.3);
/// # Ok(()) }
/// ```
pub trait Schedule: Debug + Send + Sync {
    /// Returns the learning rate of this step. The first step is 0.
    fn lr(&self, step: u64) -> f64;
}

impl Schedule for f64 {
    fn lr(&self, _step: u64) -> f64 {
        *self
    }
}

/// Rejects numbers that are infinite, NaN or below 0.
fn need_numbers(name: &str, numbers: &[(&str, f64)]) -> Result<()> {
    match numbers.iter().find(|(_, number)| !number.is_finite() || *number < 0.0) {
        Some((what, number)) => Err(Error::argument(format!(
            "{name}: {what} must be finite and at least 0, got {number}"
        ))),
        None => Ok(()),
    }
}

/// Rejects a count of 0.
fn need_steps(name: &str, what: &str, steps: u64) -> Result<()> {
    if steps == 0 {
        return Err(Error::argument(format!("{name}: {what} must be at least 1, got 0")));
    }
    Ok(())
}

/// The rate `lr * factor` before step `total_iters`, and `lr` afterwards. (`ConstantLR` of PyTorch, whose defaults are a
/// factor of 1/3 and 5 steps.)
///
/// ```
/// use warpweft::optim::{ConstantLr, Schedule};
/// let schedule = ConstantLr::new(0.8, 0.5, 2)?;
/// assert_eq!([0, 1, 2].map(|step| schedule.lr(step)), [0.4, 0.4, 0.8]);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ConstantLr {
    lr: f64,
    factor: f64,
    total_iters: u64,
}

impl ConstantLr {
    /// Creates a schedule from the rate, its initial factor, and the number of steps with that factor.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0.
    pub fn new(lr: f64, factor: f64, total_iters: u64) -> Result<ConstantLr> {
        need_numbers("ConstantLr", &[("lr", lr), ("factor", factor)])?;
        Ok(ConstantLr { lr, factor, total_iters })
    }
}

impl Schedule for ConstantLr {
    fn lr(&self, step: u64) -> f64 {
        if step < self.total_iters {
            self.lr * self.factor
        } else {
            self.lr
        }
    }
}

/// Options of a schedule that changes the learning rate linearly.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LinearLrOptions {
    /// The factor of the first step. The default is 1/3.
    pub start_factor: f64,
    /// The factor from step `total_iters` on. The default is 1.
    pub end_factor: f64,
    /// The number of steps in which the factor changes. The default is 5.
    pub total_iters: u64,
}

impl Default for LinearLrOptions {
    fn default() -> LinearLrOptions {
        LinearLrOptions { start_factor: 1.0 / 3.0, end_factor: 1.0, total_iters: 5 }
    }
}

/// The rate `lr` times a factor that changes linearly from `start_factor` to `end_factor` in `total_iters` steps. Use it as a
/// warm-up. (`LinearLR` of PyTorch.)
///
/// ```
/// use warpweft::optim::{LinearLr, LinearLrOptions, Schedule};
/// let options = LinearLrOptions { start_factor: 0.0, total_iters: 2, ..Default::default() };
/// let schedule = LinearLr::new(0.5, options)?;
/// assert_eq!([0, 1, 2, 3].map(|step| schedule.lr(step)), [0.0, 0.25, 0.5, 0.5]);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct LinearLr {
    lr: f64,
    options: LinearLrOptions,
}

impl LinearLr {
    /// Creates a schedule from the rate after the warm-up and the options.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0, and there is at least one step.
    pub fn new(lr: f64, options: LinearLrOptions) -> Result<LinearLr> {
        let LinearLrOptions { start_factor, end_factor, total_iters } = options;
        let numbers = [("lr", lr), ("start_factor", start_factor), ("end_factor", end_factor)];
        need_numbers("LinearLr", &numbers)?;
        need_steps("LinearLr", "total_iters", total_iters)?;
        Ok(LinearLr { lr, options })
    }
}

impl Schedule for LinearLr {
    fn lr(&self, step: u64) -> f64 {
        let LinearLrOptions { start_factor, end_factor, total_iters } = self.options;
        let part = step.min(total_iters) as f64 / total_iters as f64;
        self.lr * (start_factor + (end_factor - start_factor) * part)
    }
}

/// The rate `lr`, multiplied by `gamma` after every `step_size` steps. (`StepLR` of PyTorch, whose default gamma is 0.1.)
///
/// ```
/// use warpweft::optim::{Schedule, StepLr};
/// let schedule = StepLr::new(0.8, 30, 0.5)?;
/// assert_eq!([0, 29, 30, 60].map(|step| schedule.lr(step)), [0.8, 0.8, 0.4, 0.2]);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct StepLr {
    lr: f64,
    step_size: u64,
    gamma: f64,
}

impl StepLr {
    /// Creates a schedule from the rate, the number of steps between changes, and the factor of each change.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0, and the step size is at least 1.
    pub fn new(lr: f64, step_size: u64, gamma: f64) -> Result<StepLr> {
        need_numbers("StepLr", &[("lr", lr), ("gamma", gamma)])?;
        need_steps("StepLr", "step_size", step_size)?;
        Ok(StepLr { lr, step_size, gamma })
    }
}

impl Schedule for StepLr {
    fn lr(&self, step: u64) -> f64 {
        self.lr * self.gamma.powf((step / self.step_size) as f64)
    }
}

/// The rate `lr`, multiplied by `gamma` at each milestone. A milestone that is listed twice counts twice. (`MultiStepLR` of
/// PyTorch, whose default gamma is 0.1.)
///
/// ```
/// use warpweft::optim::{MultiStepLr, Schedule};
/// let schedule = MultiStepLr::new(0.8, [30, 80], 0.5)?;
/// assert_eq!([29, 30, 80].map(|step| schedule.lr(step)), [0.8, 0.4, 0.2]);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct MultiStepLr {
    lr: f64,
    milestones: Vec<u64>,
    gamma: f64,
}

impl MultiStepLr {
    /// Creates a schedule from the rate, the steps at which it changes, in any order, and the factor of each change.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0.
    pub fn new(lr: f64, milestones: impl Into<Vec<u64>>, gamma: f64) -> Result<MultiStepLr> {
        need_numbers("MultiStepLr", &[("lr", lr), ("gamma", gamma)])?;
        let mut milestones = milestones.into();
        sorted::sort(&mut milestones);
        Ok(MultiStepLr { lr, milestones, gamma })
    }
}

impl Schedule for MultiStepLr {
    fn lr(&self, step: u64) -> f64 {
        let passed = self.milestones.partition_point(|&milestone| milestone <= step);
        self.lr * self.gamma.powf(passed as f64)
    }
}

/// The rate `lr * gamma^step`. (`ExponentialLR` of PyTorch.)
///
/// ```
/// use warpweft::optim::{ExponentialLr, Schedule};
/// assert_eq!(ExponentialLr::new(0.8, 0.5)?.lr(3), 0.1);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ExponentialLr {
    lr: f64,
    gamma: f64,
}

impl ExponentialLr {
    /// Creates a schedule from the rate and the factor of each step.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0.
    pub fn new(lr: f64, gamma: f64) -> Result<ExponentialLr> {
        need_numbers("ExponentialLr", &[("lr", lr), ("gamma", gamma)])?;
        Ok(ExponentialLr { lr, gamma })
    }
}

impl Schedule for ExponentialLr {
    fn lr(&self, step: u64) -> f64 {
        self.lr * self.gamma.powf(step as f64)
    }
}

/// The rate `lr * (1 - step / total_iters)^power`, and 0 from step `total_iters` on. (`PolynomialLR` of PyTorch, whose
/// defaults are 5 steps and a power of 1.)
///
/// ```
/// use warpweft::optim::{PolynomialLr, Schedule};
/// let schedule = PolynomialLr::new(0.8, 4, 2.0)?;
/// assert_eq!([0, 2, 4, 5].map(|step| schedule.lr(step)), [0.8, 0.2, 0.0, 0.0]);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PolynomialLr {
    lr: f64,
    total_iters: u64,
    power: f64,
}

impl PolynomialLr {
    /// Creates a schedule from the rate, the number of steps until it is 0, and the power.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0, and there is at least one step.
    pub fn new(lr: f64, total_iters: u64, power: f64) -> Result<PolynomialLr> {
        need_numbers("PolynomialLr", &[("lr", lr), ("power", power)])?;
        need_steps("PolynomialLr", "total_iters", total_iters)?;
        Ok(PolynomialLr { lr, total_iters, power })
    }
}

impl Schedule for PolynomialLr {
    fn lr(&self, step: u64) -> f64 {
        let left = self.total_iters.saturating_sub(step) as f64 / self.total_iters as f64;
        self.lr * left.powf(self.power)
    }
}

/// A sequence of schedules. At each milestone the next schedule begins, with its step 0. (`SequentialLR` of PyTorch.)
#[derive(Debug)]
pub struct SequentialLr {
    schedules: Vec<Box<dyn Schedule>>,
    milestones: Vec<u64>,
}

impl SequentialLr {
    /// Creates a sequence from the schedules and the steps at which all but the first begin.
    ///
    /// # Errors
    /// `InvalidArgument` unless there is one milestone for each schedule after the first, and the milestones increase.
    pub fn new(schedules: Vec<Box<dyn Schedule>>, milestones: Vec<u64>) -> Result<SequentialLr> {
        let rises = milestones.windows(2).all(|pair| pair[0] < pair[1]);
        if milestones.len() + 1 != schedules.len() || !rises {
            let message = format!(
                "SequentialLr: milestones must increase, one between each two of {} schedules, got {milestones:?}",
                schedules.len()
            );
            return Err(Error::argument(message));
        }
        Ok(SequentialLr { schedules, milestones })
    }
}

impl Schedule for SequentialLr {
    fn lr(&self, step: u64) -> f64 {
        let at = self.milestones.partition_point(|&milestone| milestone <= step);
        let begin = if at == 0 { 0 } else { self.milestones[at - 1] };
        self.schedules[at].lr(step - begin)
    }
}
