//! A rate that falls where a metric stays.

use super::need_numbers;
use crate::error::{Error, Result};

/// Which metrics are better.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlateauMode {
    /// Smaller ones, as of losses.
    #[default]
    Min,
    /// Greater ones, as of accuracies.
    Max,
}

/// What the threshold of a plateau is counted in.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ThresholdMode {
    /// Parts of the best metric.
    #[default]
    Rel,
    /// The metric's own unit.
    Abs,
}

/// Parameters of a schedule that falls on plateaus.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PlateauOptions {
    /// Which metrics are better. The default is the smaller ones.
    pub mode: PlateauMode,
    /// What the rate is multiplied by, less than 1. The default is 0.1.
    pub factor: f64,
    /// For how many steps that are no better the rate stays. The default is 10.
    pub patience: u64,
    /// By how much a metric has to be better to count. The default is 1e-4.
    pub threshold: f64,
    /// What the threshold is counted in. The default is parts of the best metric.
    pub threshold_mode: ThresholdMode,
    /// For how many steps after a change no step counts as bad. The default is 0.
    pub cooldown: u64,
    /// The least rate. The default is 0.
    pub min_lr: f64,
    /// A change of no more than this is not made. The default is 1e-8.
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

/// A rate that is multiplied by a factor when a metric has not become better for some steps. It is fed with the metric after
/// each. A metric that is NaN is no better. (`ReduceLROnPlateau` of PyTorch.)
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
    /// The rate at the start.
    ///
    /// # Errors
    /// `Data` for numbers that are not finite or below 0, or unless the factor is less than 1.
    pub fn new(lr: f64, options: PlateauOptions) -> Result<ReduceLrOnPlateau> {
        let PlateauOptions { factor, threshold, min_lr, eps, .. } = options;
        let name = "ReduceLrOnPlateau";
        need_numbers(name, &[("lr", lr), ("factor", factor), ("threshold", threshold)])?;
        need_numbers(name, &[("min_lr", min_lr), ("eps", eps)])?;
        if factor >= 1.0 {
            return Err(Error::data(format!("{name}: factor must be less than 1, got {factor}")));
        }
        let best = match options.mode {
            PlateauMode::Min => f64::INFINITY,
            PlateauMode::Max => f64::NEG_INFINITY,
        };
        Ok(ReduceLrOnPlateau { options, lr, best, bad_steps: 0, cooldown: 0 })
    }

    /// The rate now.
    pub fn lr(&self) -> f64 {
        self.lr
    }

    /// What it remembers: the rate, the best metric, the bad steps in a row, and how much of the cooldown is left.
    #[cfg(feature = "io")]
    pub(crate) fn state(&self) -> (f64, f64, u64, u64) {
        (self.lr, self.best, self.bad_steps, self.cooldown)
    }

    /// Takes [`ReduceLrOnPlateau::state`].
    #[cfg(feature = "io")]
    pub(crate) fn set_state(&mut self, state: (f64, f64, u64, u64)) {
        (self.lr, self.best, self.bad_steps, self.cooldown) = state;
    }

    /// Takes the metric of a step, and returns the rate of the next.
    pub fn step(&mut self, metric: f64) -> f64 {
        if self.better(metric) {
            self.best = metric;
            self.bad_steps = 0;
        } else {
            self.bad_steps += 1;
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
