//! Cosine annealing, warm restarts, and the one-cycle schedule.

use super::{need_numbers, need_steps, Schedule};
use crate::error::{Error, Result};
use std::f64::consts::PI;

/// Returns the value of half a cosine wave from `start` to `end`, at `part` from 0 to 1.
fn half_wave(start: f64, end: f64, part: f64) -> f64 {
    end + (start - end) * (1.0 + (PI * part).cos()) / 2.0
}

/// A cosine wave from `lr` to `eta_min` in `t_max` steps, then back, and so on (Loshchilov and Hutter 2016).
/// (`CosineAnnealingLR` of PyTorch, whose default `eta_min` is 0.)
///
/// ```
/// use warpweft::optim::{CosineAnnealingLr, Schedule};
/// let schedule = CosineAnnealingLr::new(0.5, 100, 0.1)?;
/// assert_eq!([0, 100, 200].map(|step| schedule.lr(step)), [0.5, 0.1, 0.5]);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CosineAnnealingLr {
    lr: f64,
    t_max: u64,
    eta_min: f64,
}

impl CosineAnnealingLr {
    /// Creates a schedule from the initial rate, the number of steps until the smallest rate, and the smallest rate.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0, and there is at least one step.
    pub fn new(lr: f64, t_max: u64, eta_min: f64) -> Result<CosineAnnealingLr> {
        need_numbers("CosineAnnealingLr", &[("lr", lr), ("eta_min", eta_min)])?;
        need_steps("CosineAnnealingLr", "t_max", t_max)?;
        Ok(CosineAnnealingLr { lr, t_max, eta_min })
    }
}

impl Schedule for CosineAnnealingLr {
    fn lr(&self, step: u64) -> f64 {
        // Reduced to one wave, because the cosine of a large argument is less accurate.
        let step = step % self.t_max.saturating_mul(2);
        half_wave(self.lr, self.eta_min, step as f64 / self.t_max as f64)
    }
}

/// Options of a schedule that restarts a cosine.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WarmRestartsOptions {
    /// The factor of the number of steps from one wave to the next. The default is 1.
    pub t_mult: u64,
    /// The smallest rate. The default is 0.
    pub eta_min: f64,
}

impl Default for WarmRestartsOptions {
    fn default() -> WarmRestartsOptions {
        WarmRestartsOptions { t_mult: 1, eta_min: 0.0 }
    }
}

/// Half a cosine wave from `lr` towards `eta_min` in `t_0` steps, which then restarts at `lr`. Each further wave is `t_mult`
/// times as long as the previous one (Loshchilov and Hutter 2016). (`CosineAnnealingWarmRestarts` of PyTorch.)
///
/// ```
/// use warpweft::optim::{CosineAnnealingWarmRestarts, Schedule, WarmRestartsOptions};
/// let options = WarmRestartsOptions { t_mult: 2, ..Default::default() };
/// let schedule = CosineAnnealingWarmRestarts::new(0.5, 10, options)?;
/// assert_eq!([0, 10, 30].map(|step| schedule.lr(step)), [0.5; 3]);
/// assert!(schedule.lr(29) < 0.01);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CosineAnnealingWarmRestarts {
    lr: f64,
    t_0: u64,
    options: WarmRestartsOptions,
}

impl CosineAnnealingWarmRestarts {
    /// Creates a schedule from the rate at each restart, the number of steps of the first wave, and the options.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0, and `t_0` and `t_mult` are at least 1.
    pub fn new(
        lr: f64,
        t_0: u64,
        options: WarmRestartsOptions,
    ) -> Result<CosineAnnealingWarmRestarts> {
        let WarmRestartsOptions { t_mult, eta_min } = options;
        let name = "CosineAnnealingWarmRestarts";
        need_numbers(name, &[("lr", lr), ("eta_min", eta_min)])?;
        need_steps(name, "t_0", t_0)?;
        need_steps(name, "t_mult", t_mult)?;
        Ok(CosineAnnealingWarmRestarts { lr, t_0, options })
    }
}

impl Schedule for CosineAnnealingWarmRestarts {
    fn lr(&self, step: u64) -> f64 {
        let WarmRestartsOptions { t_mult, eta_min } = self.options;
        let (mut since, mut length) = (step, self.t_0);
        if t_mult == 1 {
            since %= length;
        }
        while since >= length {
            since -= length;
            length = length.saturating_mul(t_mult);
        }
        half_wave(self.lr, eta_min, since as f64 / length as f64)
    }
}

/// The shape of a one-cycle schedule between two rates.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Anneal {
    /// Half a cosine wave.
    #[default]
    Cos,
    /// A straight line.
    Linear,
}

/// Options of a one-cycle schedule.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OneCycleOptions {
    /// The part of the steps in which the rate rises, from 0 to 1. The default is 0.3.
    pub pct_start: f64,
    /// The shape of the schedule between two rates. The default is [`Anneal::Cos`].
    pub anneal_strategy: Anneal,
    /// The ratio of the largest to the first rate. The default is 25.
    pub div_factor: f64,
    /// The ratio of the first to the last rate. The default is 1e4.
    pub final_div_factor: f64,
    /// Whether the rate falls to the first rate in as many steps as it rose, and to the last rate in the remaining steps. The
    /// default is `false`, which means that the rate falls directly to the last rate.
    pub three_phase: bool,
}

impl Default for OneCycleOptions {
    fn default() -> OneCycleOptions {
        OneCycleOptions {
            pct_start: 0.3,
            anneal_strategy: Anneal::Cos,
            div_factor: 25.0,
            final_div_factor: 1e4,
            three_phase: false,
        }
    }
}

/// A rate that rises to `max_lr` and then falls below its first value (Smith and Topin 2017). After the last step it stays at
/// the last rate, where PyTorch raises an error. (`OneCycleLR` of PyTorch.)
///
/// ```
/// use warpweft::optim::{OneCycleLr, OneCycleOptions, Schedule};
/// let schedule = OneCycleLr::new(0.5, 100, OneCycleOptions::default())?;
/// assert!((schedule.lr(0) - 0.02).abs() < 1e-12);
/// assert_eq!(schedule.lr(29), 0.5);
/// assert!((schedule.lr(99) - 2e-6).abs() < 1e-12);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct OneCycleLr {
    max_lr: f64,
    total_steps: u64,
    options: OneCycleOptions,
}

impl OneCycleLr {
    /// Creates a schedule from the largest rate and the total number of steps.
    ///
    /// # Errors
    /// `InvalidArgument` unless the numbers are finite and at least 0, and the factors are above 0. `InvalidArgument` also
    /// unless `pct_start` is in `[0, 1]` and there is at least one step.
    pub fn new(max_lr: f64, total_steps: u64, options: OneCycleOptions) -> Result<OneCycleLr> {
        let name = "OneCycleLr";
        let OneCycleOptions { pct_start, div_factor, final_div_factor, .. } = options;
        let factors = [("div_factor", div_factor), ("final_div_factor", final_div_factor)];
        need_numbers(name, &[("max_lr", max_lr)])?;
        need_numbers(name, &factors)?;
        need_steps(name, "total_steps", total_steps)?;
        if let Some((what, _)) = factors.iter().find(|(_, factor)| *factor == 0.0) {
            return Err(Error::argument(format!("{name}: {what} must be above 0, got 0")));
        }
        if !(0.0..=1.0).contains(&pct_start) {
            let message = format!("{name}: pct_start must be in [0, 1], got {pct_start}");
            return Err(Error::argument(message));
        }
        Ok(OneCycleLr { max_lr, total_steps, options })
    }
}

impl Schedule for OneCycleLr {
    fn lr(&self, step: u64) -> f64 {
        let options = &self.options;
        let first = self.max_lr / options.div_factor;
        let last = first / options.final_div_factor;
        let steps = self.total_steps as f64;
        let rise = options.pct_start * steps - 1.0;
        let end = steps - 1.0;
        // The end of each phase and its rate. The formulas are PyTorch's, which may give fractions of steps.
        let phases = match options.three_phase {
            true => vec![
                (rise, self.max_lr),
                (2.0 * options.pct_start * steps - 2.0, first),
                (end, last),
            ],
            false => vec![(rise, self.max_lr), (end, last)],
        };
        let step = step.min(self.total_steps - 1) as f64;
        let (mut begin, mut from) = (0.0, first);
        for (until, to) in phases {
            if step <= until {
                // A phase without steps has its end value.
                let part = if until > begin { (step - begin) / (until - begin) } else { 1.0 };
                return match options.anneal_strategy {
                    Anneal::Cos => half_wave(from, to, part),
                    Anneal::Linear => from + (to - from) * part,
                };
            }
            (begin, from) = (until, to);
        }
        last
    }
}
