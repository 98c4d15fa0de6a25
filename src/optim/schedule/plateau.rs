//! `ReduceLrOnPlateau`: reduces the learning rate when a metric stops improving.

use super::need_numbers;
use crate::error::{Error, Result};

/// Whether smaller or larger metrics are better.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlateauMode {
    /// Smaller metrics are better, such as losses.
    #[default]
    Min,
    /// Larger metrics are better, such as accuracies.
    Max,
}

/// The unit of the threshold.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThresholdMode {
    /// A fraction of the best metric.
    #[default]
    Rel,
    /// The unit of the metric.
    Abs,
}

/// Options of a schedule that reduces the learning rate on plateaus.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlateauOptions {
    /// Whether smaller or larger metrics are better. The default is smaller.
    pub mode: PlateauMode,
    /// The factor by which the rate is reduced, less than 1. The default is 0.1.
    pub factor: f64,
    /// The number of steps without improvement after which the rate still stays the same. The default is 10.
    pub patience: u64,
    /// The minimum improvement that counts. The default is 1e-4.
    pub threshold: f64,
    /// The unit of the threshold. The default is a fraction of the best metric.
    pub threshold_mode: ThresholdMode,
    /// The number of steps after a reduction in which no step counts as bad. The default is 0.
    pub cooldown: u64,
    /// The smallest rate. The default is 0.
    pub min_lr: f64,
    /// The minimum change of the rate. A smaller or equal change is not made. The default is 1e-8.
    pub eps: f64,
}

impl Default for PlateauOptions {
    fn default() -> PlateauOptions {
        PlateauOptions {
            mode: PlateauMode::Min,
            factor: 0.1,
            patience: 10,
            threshold: 1e-4,
            threshold_mode: ThresholdMode::Rel,
            cooldown: 0,
            min_lr: 0.0,
            eps: 1e-8,
        }
    }
}

/// A rate that is multiplied by a factor when a metric has not improved for some steps. Call [`ReduceLrOnPlateau::step`] with
/// the metric after each step. A metric of NaN counts as no improvement. (`ReduceLROnPlateau` of PyTorch.)
///
/// ```
/// use warpweft::optim::{PlateauOptions, ReduceLrOnPlateau};
/// let options = PlateauOptions { factor: 0.5, patience: 1, ..Default::default() };
/// let mut schedule = ReduceLrOnPlateau::new(0.8, options)?;
/// let rates = [3.0, 2.0, 2.0, 2.0, 1.0].map(|loss| schedule.step(loss));
/// assert_eq!(rates, [0.8, 0.8, 0.8, 0.4, 0.4]);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct ReduceLrOnPlateau {
    options: PlateauOptions,
    lr: f64,
    best: f64,
    bad_steps: u64,
    cooldown: u64,
}

impl ReduceLrOnPlateau {
    /// Creates a schedule with the initial rate.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0, and the factor is less than 1.
    pub fn new(lr: f64, options: PlateauOptions) -> Result<ReduceLrOnPlateau> {
        let PlateauOptions { factor, threshold, min_lr, eps, .. } = options;
        let name = "ReduceLrOnPlateau";
        need_numbers(name, &[("lr", lr), ("factor", factor), ("threshold", threshold)])?;
        need_numbers(name, &[("min_lr", min_lr), ("eps", eps)])?;
        if factor >= 1.0 {
            return Err(Error::argument(format!(
                "{name}: factor must be less than 1, got {factor}"
            )));
        }
        let best = match options.mode {
            PlateauMode::Min => f64::INFINITY,
            PlateauMode::Max => f64::NEG_INFINITY,
        };
        Ok(ReduceLrOnPlateau { options, lr, best, bad_steps: 0, cooldown: 0 })
    }

    /// Returns the current rate.
    pub fn lr(&self) -> f64 {
        self.lr
    }

    /// Returns the state: the rate, the best metric, the number of bad steps in a row, and the rest of the cooldown.
    #[cfg(feature = "io")]
    pub(crate) fn state(&self) -> (f64, f64, u64, u64) {
        (self.lr, self.best, self.bad_steps, self.cooldown)
    }

    /// Sets the state that [`ReduceLrOnPlateau::state`] returned.
    #[cfg(feature = "io")]
    pub(crate) fn set_state(&mut self, state: (f64, f64, u64, u64)) {
        (self.lr, self.best, self.bad_steps, self.cooldown) = state;
    }

    /// Updates the schedule with the metric of a step, and returns the rate of the next step.
    pub fn step(&mut self, metric: f64) -> f64 {
        if self.better(metric) {
            self.best = metric;
            self.bad_steps = 0;
        } else {
            self.bad_steps = self.bad_steps.saturating_add(1);
        }
        if self.cooldown > 0 {
            self.cooldown -= 1;
            self.bad_steps = 0;
        }
        if self.bad_steps > self.options.patience {
            let lower = (self.lr * self.options.factor).max(self.options.min_lr);
            if self.lr - lower > self.options.eps {
                self.lr = lower;
            }
            self.cooldown = self.options.cooldown;
            self.bad_steps = 0;
        }
        self.lr
    }

    fn better(&self, metric: f64) -> bool {
        let PlateauOptions { mode, threshold, threshold_mode, .. } = self.options;
        match (mode, threshold_mode) {
            (PlateauMode::Min, ThresholdMode::Rel) => metric < self.best * (1.0 - threshold),
            (PlateauMode::Min, ThresholdMode::Abs) => metric < self.best - threshold,
            (PlateauMode::Max, ThresholdMode::Rel) => metric > self.best * (1.0 + threshold),
            (PlateauMode::Max, ThresholdMode::Abs) => metric > self.best + threshold,
        }
    }
}
