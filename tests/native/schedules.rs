//! Tests learning rate schedules step by step against PyTorch in 64 bits. `tests/golden/schedules.py` writes the numbers.

use crate::shared::golden::arrays;
use std::collections::HashMap;
use warpweft::error::{ErrorKind, Result};
use warpweft::optim::{
    Anneal, ConstantLr, CosineAnnealingLr, CosineAnnealingWarmRestarts, ExponentialLr, LinearLr,
    LinearLrOptions, MultiStepLr, OneCycleLr, OneCycleOptions, PlateauMode, PlateauOptions,
    PolynomialLr, ReduceLrOnPlateau, Schedule, SequentialLr, StepLr, ThresholdMode,
    WarmRestartsOptions,
};

const FILE: &str = include_str!("../golden/schedules.txt");

/// The options in a case's name, `name key=value ...`.
struct Options<'a>(HashMap<&'a str, &'a str>);

impl Options<'_> {
    fn number(&self, key: &str) -> f64 {
        self.0[key].parse().unwrap_or_else(|_| panic!("{key} is no number"))
    }

    fn count(&self, key: &str) -> u64 {
        self.number(key) as u64
    }

    fn or(&self, key: &str, usual: f64) -> f64 {
        self.0.get(key).map_or(usual, |_| self.number(key))
    }

    fn is(&self, key: &str, value: &str) -> bool {
        self.0.get(key) == Some(&value)
    }
}

fn made(name: &str, options: &Options) -> Result<Box<dyn Schedule>> {
    let (number, count) = (|key| options.number(key), |key| options.count(key));
    Ok(match name {
        "ConstantLr" => {
            Box::new(ConstantLr::new(number("lr"), number("factor"), count("total_iters"))?)
        }
        "LinearLr" => {
            let (start, end) = (number("start_factor"), number("end_factor"));
            Box::new(LinearLr::new(
                number("lr"),
                LinearLrOptions {
                    start_factor: start,
                    end_factor: end,
                    total_iters: count("total_iters"),
                },
            )?)
        }
        "StepLr" => Box::new(StepLr::new(number("lr"), count("step_size"), number("gamma"))?),
        "MultiStepLr" => {
            let milestones = options.0["milestones"].split(',');
            let milestones: Vec<u64> = milestones.map(|m| m.parse().expect("a step")).collect();
            Box::new(MultiStepLr::new(number("lr"), milestones, number("gamma"))?)
        }
        "ExponentialLr" => Box::new(ExponentialLr::new(number("lr"), number("gamma"))?),
        "PolynomialLr" => {
            Box::new(PolynomialLr::new(number("lr"), count("total_iters"), number("power"))?)
        }
        "CosineAnnealingLr" => {
            Box::new(CosineAnnealingLr::new(number("lr"), count("t_max"), number("eta_min"))?)
        }
        "CosineAnnealingWarmRestarts" => {
            let (first, times, least) = (count("t_0"), count("t_mult"), number("eta_min"));
            Box::new(CosineAnnealingWarmRestarts::new(
                number("lr"),
                first,
                WarmRestartsOptions { t_mult: times, eta_min: least },
            )?)
        }
        "OneCycleLr" => {
            let linear = options.is("anneal_strategy", "linear");
            let options_of = OneCycleOptions {
                pct_start: options.or("pct_start", 0.3),
                anneal_strategy: if linear { Anneal::Linear } else { Anneal::Cos },
                div_factor: options.or("div_factor", 25.0),
                final_div_factor: options.or("final_div_factor", 1e4),
                three_phase: options.is("three_phase", "True"),
            };
            Box::new(OneCycleLr::new(number("max_lr"), count("total_steps"), options_of)?)
        }
        "SequentialLr" => {
            let warm_up = LinearLr::new(
                0.5,
                LinearLrOptions { start_factor: 0.1, total_iters: 10, ..Default::default() },
            )?;
            let decay = CosineAnnealingLr::new(0.5, 40, 0.01)?;
            let step = StepLr::new(0.5, 4, 0.5)?;
            let all: Vec<Box<dyn Schedule>> =
                vec![Box::new(warm_up), Box::new(decay), Box::new(step)];
            Box::new(SequentialLr::new(all, vec![10, 50])?)
        }
        other => panic!("no schedule {other}"),
    })
}

fn plateau(options: &Options) -> ReduceLrOnPlateau {
    let max = options.is("mode", "max");
    let absolute = options.is("threshold_mode", "abs");
    let options = PlateauOptions {
        mode: if max { PlateauMode::Max } else { PlateauMode::Min },
        factor: options.or("factor", 0.1),
        patience: options.or("patience", 10.0) as u64,
        threshold: options.or("threshold", 1e-4),
        threshold_mode: if absolute { ThresholdMode::Abs } else { ThresholdMode::Rel },
        cooldown: options.or("cooldown", 0.0) as u64,
        min_lr: options.or("min_lr", 0.0),
        eps: options.or("eps", 1e-8),
    };
    ReduceLrOnPlateau::new(0.5, options).expect("the options are good")
}

#[test]
fn rates_are_those_of_pytorch() {
    let mut seen = 0;
    let mut titles: Vec<&str> = FILE.lines().filter_map(|line| line.split('|').next()).collect();
    titles.dedup();
    for title in titles {
        let mut words = title.split(' ');
        let name = words.next().expect("a name");
        let options = Options(words.filter_map(|word| word.split_once('=')).collect());
        let arrays = arrays(FILE, title);
        let want = &arrays["lr"].data;
        let got: Vec<f64> = match arrays.get("metric") {
            Some(metrics) => {
                let mut schedule = plateau(&options);
                metrics.data.iter().map(|&metric| schedule.step(metric)).collect()
            }
            None => {
                let schedule = made(name, &options).expect("the options are good");
                (0..want.len() as u64).map(|step| schedule.lr(step)).collect()
            }
        };
        assert!(want.len() > 50, "{title}: few steps");
        for (step, (got, want)) in got.iter().zip(want).enumerate() {
            let near = (got - want).abs() <= 1e-12 * want.abs();
            assert!(near, "{title}: {got:e} instead of {want:e} at step {step}");
        }
        seen += 1;
    }
    assert!(seen > 30, "only {seen} cases");
}

#[test]
fn a_number_is_a_schedule() {
    let schedule: Box<dyn Schedule> = Box::new(0.25);
    assert_eq!((schedule.lr(0), schedule.lr(u64::MAX)), (0.25, 0.25));
}

/// Tests steps beyond the end of all schedules.
#[test]
fn far_steps_have_rates() {
    let all: Vec<Box<dyn Schedule>> = vec![
        Box::new(CosineAnnealingLr::new(0.5, u64::MAX, 0.0).expect("it is good")),
        Box::new(
            CosineAnnealingWarmRestarts::new(0.5, 1, WarmRestartsOptions::default())
                .expect("it is good"),
        ),
        Box::new(
            CosineAnnealingWarmRestarts::new(
                0.5,
                3,
                WarmRestartsOptions { t_mult: u64::MAX, ..Default::default() },
            )
            .expect("it is good"),
        ),
        Box::new(OneCycleLr::new(0.5, 1, OneCycleOptions::default()).expect("it is good")),
        Box::new(OneCycleLr::new(0.5, u64::MAX, OneCycleOptions::default()).expect("it is good")),
        Box::new(PolynomialLr::new(0.5, u64::MAX, 0.0).expect("it is good")),
        Box::new(StepLr::new(0.5, 1, 0.5).expect("it is good")),
    ];
    for schedule in all {
        for step in [0, 1, u64::MAX - 1, u64::MAX] {
            let lr = schedule.lr(step);
            assert!((0.0..=0.5).contains(&lr), "{schedule:?}: {lr} at step {step}");
        }
    }
}

#[test]
fn odd_options_are_refused() {
    let one_cycle = |options| OneCycleLr::new(0.5, 10, options).map(drop);
    let usual = OneCycleOptions::default();
    let plateau = |options| ReduceLrOnPlateau::new(0.5, options).map(drop);
    let slow = PlateauOptions::default();
    let two = || -> Vec<Box<dyn Schedule>> { vec![Box::new(0.1), Box::new(0.2)] };
    let refused = [
        ("ConstantLr", ConstantLr::new(f64::NAN, 0.5, 1).map(drop)),
        (
            "LinearLr",
            LinearLr::new(
                0.5,
                LinearLrOptions { start_factor: 0.1, total_iters: 0, ..Default::default() },
            )
            .map(drop),
        ),
        (
            "LinearLr",
            LinearLr::new(
                0.5,
                LinearLrOptions {
                    start_factor: f64::INFINITY,
                    total_iters: 1,
                    ..Default::default()
                },
            )
            .map(drop),
        ),
        ("StepLr", StepLr::new(0.5, 0, 0.1).map(drop)),
        ("MultiStepLr", MultiStepLr::new(-0.5, [1], 0.1).map(drop)),
        ("ExponentialLr", ExponentialLr::new(0.5, -0.1).map(drop)),
        ("PolynomialLr", PolynomialLr::new(0.5, 0, 1.0).map(drop)),
        ("CosineAnnealingLr", CosineAnnealingLr::new(0.5, 0, 0.0).map(drop)),
        (
            "CosineAnnealingWarmRestarts",
            CosineAnnealingWarmRestarts::new(0.5, 0, WarmRestartsOptions::default()).map(drop),
        ),
        (
            "CosineAnnealingWarmRestarts",
            CosineAnnealingWarmRestarts::new(
                0.5,
                1,
                WarmRestartsOptions { t_mult: 0, ..Default::default() },
            )
            .map(drop),
        ),
        ("OneCycleLr", OneCycleLr::new(0.5, 0, usual).map(drop)),
        ("OneCycleLr", one_cycle(OneCycleOptions { pct_start: 1.5, ..usual })),
        ("OneCycleLr", one_cycle(OneCycleOptions { div_factor: 0.0, ..usual })),
        ("SequentialLr", SequentialLr::new(two(), vec![]).map(drop)),
        ("SequentialLr", SequentialLr::new(Vec::new(), vec![]).map(drop)),
        ("ReduceLrOnPlateau", plateau(PlateauOptions { factor: 1.0, ..slow })),
        ("ReduceLrOnPlateau", plateau(PlateauOptions { min_lr: f64::NAN, ..slow })),
    ];
    for (n, (name, result)) in refused.into_iter().enumerate() {
        let error = result.err().unwrap_or_else(|| panic!("the {n}-th, {name}, is not refused"));
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().starts_with(&format!("{name}: ")), "{error}");
    }
}
