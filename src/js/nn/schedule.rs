//! Learning rates: one class with a static method for each schedule.

use super::models::Schedule;
use super::Object;
use crate::error::{Error, Result};
use crate::js::{IntoJs, JsSchedule};
use crate::optim::{self, LinearLrOptions, OneCycleOptions, PlateauOptions};
use crate::optim::{ReduceLrOnPlateau, WarmRestartsOptions};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

fn steps(schedule: impl optim::Schedule + 'static) -> Schedule {
    Schedule::Steps(Arc::new(schedule))
}

#[warpweft_macros::js]
impl Schedule {
    /// Makes a schedule of `lr * factor` before step `totalIters`, and `lr` from then on.
    ///
    /// # Errors
    /// `InvalidArgument` for numbers that are negative or not finite.
    #[js(options(factor = 1.0 / 3.0, total_iters = 5))]
    pub fn constant(lr: f64, factor: f64, total_iters: u64) -> Result<Schedule> {
        Ok(steps(optim::ConstantLr::new(lr, factor, total_iters)?))
    }

    /// Makes a warm-up: linear from `lr * startFactor` to `lr * endFactor` in `totalIters` steps.
    ///
    /// # Errors
    /// Errors of `constant`.
    #[js(spread(options))]
    pub fn linear(lr: f64, options: LinearLrOptions) -> Result<Schedule> {
        Ok(steps(optim::LinearLr::new(lr, options)?))
    }

    /// Makes a schedule that multiplies the rate by `gamma` after each `stepSize` steps.
    ///
    /// # Errors
    /// Errors of `constant`; `InvalidArgument` if `stepSize` is 0.
    #[js(default(gamma = 0.1))]
    pub fn step_lr(lr: f64, step_size: u64, gamma: f64) -> Result<Schedule> {
        Ok(steps(optim::StepLr::new(lr, step_size, gamma)?))
    }

    /// Makes a schedule that multiplies the rate by `gamma` at each of these steps.
    ///
    /// # Errors
    /// Errors of `constant`.
    #[js(default(gamma = 0.1))]
    pub fn multi_step(lr: f64, milestones: &[u64], gamma: f64) -> Result<Schedule> {
        Ok(steps(optim::MultiStepLr::new(lr, milestones, gamma)?))
    }

    /// Makes a schedule that multiplies the rate by `gamma` at each step.
    ///
    /// # Errors
    /// Errors of `constant`.
    pub fn exponential(lr: f64, gamma: f64) -> Result<Schedule> {
        Ok(steps(optim::ExponentialLr::new(lr, gamma)?))
    }

    /// Makes a polynomial schedule, `lr (1 - step / totalIters)^power`.
    ///
    /// # Errors
    /// Errors of `constant`; `InvalidArgument` if `totalIters` is 0.
    #[js(default(power = 1.0))]
    pub fn polynomial(lr: f64, total_iters: u64, power: f64) -> Result<Schedule> {
        Ok(steps(optim::PolynomialLr::new(lr, total_iters, power)?))
    }

    /// Makes a cosine schedule: half a cosine wave from `lr` to `etaMin` in `tMax` steps.
    ///
    /// # Errors
    /// Errors of `constant`; `InvalidArgument` if `tMax` is 0.
    #[js(default(eta_min = 0.0))]
    pub fn cosine_annealing(lr: f64, t_max: u64, eta_min: f64) -> Result<Schedule> {
        Ok(steps(optim::CosineAnnealingLr::new(lr, t_max, eta_min)?))
    }

    /// Makes a cosine schedule with warm restarts. The first half wave takes `t0` steps, and each next one is `tMult` times as
    /// long.
    ///
    /// # Errors
    /// Errors of `constant`; `InvalidArgument` for zero steps.
    #[js(spread(options))]
    pub fn cosine_annealing_warm_restarts(
        lr: f64,
        t0: u64,
        options: WarmRestartsOptions,
    ) -> Result<Schedule> {
        Ok(steps(optim::CosineAnnealingWarmRestarts::new(lr, t0, options)?))
    }

    /// Makes a one-cycle schedule of `totalSteps` steps: from a small rate to `maxLr`, then down to a smaller one (Smith and
    /// Topin 2017).
    ///
    /// # Errors
    /// Errors of `constant`; `InvalidArgument` for factors of 0, a fraction outside `[0, 1]`, or zero steps.
    #[js(spread(options))]
    pub fn one_cycle(max_lr: f64, total_steps: u64, options: OneCycleOptions) -> Result<Schedule> {
        Ok(steps(optim::OneCycleLr::new(max_lr, total_steps, options)?))
    }

    /// Makes a schedule that multiplies the rate by a factor when a metric has not improved for some steps. Pass the metric to
    /// `step(metric)`.
    ///
    /// # Errors
    /// Errors of `constant`; `InvalidArgument` unless the factor is less than 1.
    #[js(spread(options))]
    pub fn reduce_on_plateau(lr: f64, options: PlateauOptions) -> Result<Schedule> {
        let schedule = ReduceLrOnPlateau::new(lr, options)?;
        Ok(Schedule::Plateau(Rc::new(RefCell::new(schedule))))
    }

    /// Returns the learning rate of a step. The first step is 0.
    pub fn lr(&self, step: u64) -> f64 {
        match self {
            Schedule::Steps(schedule) => schedule.lr(step),
            Schedule::Plateau(schedule) => schedule.borrow().lr(),
        }
    }

    /// Takes the metric of a step, and returns the rate of the next step.
    ///
    /// # Errors
    /// `InvalidState` unless `reduceOnPlateau` made the schedule.
    pub fn step(&self, metric: f64) -> Result<f64> {
        match self {
            Schedule::Plateau(schedule) => Ok(schedule.borrow_mut().step(metric)),
            Schedule::Steps(_) => Err(Error::state(
                "step: the schedule must be reduceOnPlateau, got one of steps; call `lr(step)`"
                    .to_string(),
            )),
        }
    }
}

impl IntoJs for Schedule {
    type Js = JsSchedule;
    fn into_js(self) -> Result<JsSchedule> {
        Ok(JsSchedule(Object::Schedule(self).into_slot()))
    }
}
