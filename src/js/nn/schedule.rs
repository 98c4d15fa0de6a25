//! Learning rates: one class, whose static methods make the schedules.

use super::models::Schedule;
use super::Object;
use crate::error::{Error, Result};
use crate::js::{IntoJs, JsSchedule};
use crate::optim::{self, OneCycleOptions, PlateauOptions, ReduceLrOnPlateau};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

fn steps(schedule: impl optim::Schedule + 'static) -> Schedule {
    Schedule::Steps(Arc::new(schedule))
}

#[warpweft_macros::js]
impl Schedule {
    /// `lr * factor` before step `totalIters`, and `lr` from there on.
    ///
    /// # Errors
    /// `Data` for numbers that are not finite or below 0.
    #[js(options(factor = 1.0 / 3.0, total_iters = 5))]
    pub fn constant(lr: f64, factor: f64, total_iters: u64) -> Result<Schedule> {
        Ok(steps(optim::ConstantLr::new(lr, factor, total_iters)?))
    }

    /// From `lr * startFactor` to `lr * endFactor` in a straight line of `totalIters` steps: a warm-up.
    ///
    /// # Errors
    /// As `constant`.
    #[js(options(start_factor = 1.0 / 3.0, end_factor = 1.0, total_iters = 5))]
    pub fn linear(
        lr: f64,
        start_factor: f64,
        end_factor: f64,
        total_iters: u64,
    ) -> Result<Schedule> {
        Ok(steps(optim::LinearLr::new(lr, start_factor, end_factor, total_iters)?))
    }

    /// Times `gamma` after each `stepSize` steps.
    ///
    /// # Errors
    /// As `constant`; `Data` for no steps.
    #[js(default(gamma = 0.1))]
    pub fn step_lr(lr: f64, step_size: u64, gamma: f64) -> Result<Schedule> {
        Ok(steps(optim::StepLr::new(lr, step_size, gamma)?))
    }

    /// Times `gamma` at each of these steps.
    ///
    /// # Errors
    /// As `constant`.
    #[js(default(gamma = 0.1))]
    pub fn multi_step(lr: f64, milestones: &[u64], gamma: f64) -> Result<Schedule> {
        Ok(steps(optim::MultiStepLr::new(lr, milestones, gamma)?))
    }

    /// Times `gamma` at each step.
    ///
    /// # Errors
    /// As `constant`.
    pub fn exponential(lr: f64, gamma: f64) -> Result<Schedule> {
        Ok(steps(optim::ExponentialLr::new(lr, gamma)?))
    }

    /// `lr (1 - step / totalIters)^power`.
    ///
    /// # Errors
    /// As `constant`; `Data` for no steps.
    #[js(default(power = 1.0))]
    pub fn polynomial(lr: f64, total_iters: u64, power: f64) -> Result<Schedule> {
        Ok(steps(optim::PolynomialLr::new(lr, total_iters, power)?))
    }

    /// Half a wave of the cosine, from `lr` to `etaMin` in `tMax` steps.
    ///
    /// # Errors
    /// As `constant`; `Data` for no steps.
    #[js(default(eta_min = 0.0))]
    pub fn cosine_annealing(lr: f64, t_max: u64, eta_min: f64) -> Result<Schedule> {
        Ok(steps(optim::CosineAnnealingLr::new(lr, t_max, eta_min)?))
    }

    /// Half a wave of the cosine again and again, the first in `t0` steps, each next one `tMult` times as long.
    ///
    /// # Errors
    /// As `constant`; `Data` for no steps.
    #[js(default(t_mult = 1, eta_min = 0.0))]
    pub fn cosine_annealing_warm_restarts(
        lr: f64,
        t0: u64,
        t_mult: u64,
        eta_min: f64,
    ) -> Result<Schedule> {
        Ok(steps(optim::CosineAnnealingWarmRestarts::new(lr, t0, t_mult, eta_min)?))
    }

    /// From a small rate to `maxLr` and down to a smaller one (Smith and Topin 2017), in `totalSteps` steps.
    ///
    /// # Errors
    /// As `constant`; `Data` for factors of 0, a part that is not from 0 to 1, or no steps.
    #[js(spread(options))]
    pub fn one_cycle(max_lr: f64, total_steps: u64, options: OneCycleOptions) -> Result<Schedule> {
        Ok(steps(optim::OneCycleLr::new(max_lr, total_steps, options)?))
    }

    /// A rate that is multiplied by a factor when a metric has not become better for some steps: `step(metric)` tells it.
    ///
    /// # Errors
    /// As `constant`; `Data` unless the factor is less than 1.
    #[js(spread(options))]
    pub fn reduce_on_plateau(lr: f64, options: PlateauOptions) -> Result<Schedule> {
        let schedule = ReduceLrOnPlateau::new(lr, options)?;
        Ok(Schedule::Plateau(Rc::new(RefCell::new(schedule))))
    }

    /// The learning rate of a step, the first of which is 0.
    pub fn lr(&self, step: u64) -> f64 {
        match self {
            Schedule::Steps(schedule) => schedule.lr(step),
            Schedule::Plateau(schedule) => schedule.borrow().lr(),
        }
    }

    /// Takes the metric of a step, and gives the rate of the next.
    ///
    /// # Errors
    /// `Data` unless it is of `reduceOnPlateau`.
    pub fn step(&self, metric: f64) -> Result<f64> {
        match self {
            Schedule::Plateau(schedule) => Ok(schedule.borrow_mut().step(metric)),
            Schedule::Steps(_) => Err(Error::data(
                "step: the schedule must be reduceOnPlateau, got one of steps; call `lr(step)`"
                    .to_string(),
            )),
        }
    }
}

impl IntoJs for Schedule {
    type Js = JsSchedule;
    fn into_js(self) -> Result<JsSchedule> {
        Ok(JsSchedule(Object::Schedule(self).placed()))
    }
}
