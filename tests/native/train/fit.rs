//! Tests the training loop: it does the same as a loop by hand at the same cost, and adds epochs, validation and early
//! stopping.

use super::{bits, classifier, everywhere, noise};
use crate::suite::Place;
use pollster::block_on;
use std::future::Future;
use std::ops::ControlFlow;
use std::pin::pin;
use std::task::{Context, Waker};
use warpweft::device::Device;
use warpweft::error::{ErrorKind, Result};
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::{Tensor, Variable};
use warpweft::train::metrics::{Accuracy, MeanSquaredError};
use warpweft::train::*;

const COUNT: usize = 45;

/// Returns three numbers per example, and whether their sum is above 0.
fn data(device: &Device, seed: u32) -> Result<Dataset> {
    let x = noise(COUNT * 3, seed);
    let y: Vec<i32> = x.chunks(3).map(|row| i32::from(row.iter().sum::<f32>() > 0.0)).collect();
    Dataset::new(&device.tensor(&x, &[COUNT, 3])?, &device.tensor(&y, &[COUNT])?)
}

fn loss(model: &Sequential, x: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
    let scores = model.forward(x)?;
    Ok((scores.cross_entropy(y, CrossEntropyOptions::default())?, scores))
}

fn trainer(device: &Device) -> Result<Trainer<Sequential>> {
    let model = classifier(device, 1)?;
    let optimizer = Optimizer::new(Adam::new(0.02), &model.parameters())?;
    Trainer::new(model, optimizer, DataLoader::new(&data(device, 3)?, 6)?.shuffle(5), loss)
}

#[test]
fn it_does_what_a_loop_does() {
    everywhere("a loop by hand", |device| {
        let mut trained = trainer(device)?.epochs(3);
        let history = block_on(trained.fit())?.to_vec();
        assert_eq!((trained.steps(), history.len()), (24, 3));

        let model = classifier(device, 1)?;
        let mut optimizer = Optimizer::new(Adam::new(0.02), &model.parameters())?;
        let loader = DataLoader::new(&data(device, 3)?, 6)?.shuffle(5);
        for epoch in 0..3 {
            let (mut sum, mut examples) = (0.0, 0.0);
            for batch in loader.epoch(epoch)? {
                let (x, y) = batch?;
                let (loss, _) = loss(&model, &x, &y)?;
                optimizer.minimize(&loss)?;
                let count = x.shape()[0] as f64;
                sum += f64::from(block_on(loss.item::<f32>())?) * count;
                examples += count;
            }
            let (got, want) = (history[epoch as usize].loss, sum / examples);
            assert!((got - want).abs() < 1e-6, "epoch {epoch}: {got}, not {want}");
            assert_eq!(examples, COUNT as f64);
        }
        assert_eq!(bits(&trained.model), bits(&model));
        Ok(())
    });
}

/// Returns the submissions, plans, pipelines and kernels of one step, long after the first.
fn costs(device: &Device, mut step: impl FnMut() -> Result<()>) -> Result<[u64; 4]> {
    let mut grown = [0; 4];
    for _ in 0..20 {
        let before = device.stats();
        step()?;
        let after = device.stats();
        grown = [
            after.submits - before.submits,
            after.plans - before.plans,
            after.pipelines - before.pipelines,
            after.kernels - before.kernels,
        ];
    }
    Ok(grown)
}

#[test]
fn a_step_costs_one_kernel_more_than_by_hand() {
    everywhere("the cost of a step", |device| {
        let data = data(device, 3)?;
        let (x, y) = (data.features().clone(), data.targets().clone());
        let model = classifier(device, 1)?;
        let mut optimizer = Optimizer::new(Adam::new(0.02), &model.parameters())?;
        let by_hand = costs(device, || optimizer.minimize(&loss(&model, &x, &y)?.0))?;
        let mut trainer = trainer(device)?;
        let trained = costs(device, || block_on(trainer.step(&x, &y)).map(drop))?;
        assert_eq!((by_hand[..3].to_vec(), trained[..3].to_vec()), (vec![1, 0, 0], vec![1, 0, 0]));
        assert!(trained[3] <= by_hand[3] + 1, "{trained:?} and {by_hand:?}");
        // The loss was computed with the step, so reading it runs nothing.
        let step = block_on(trainer.step(&x, &y))?;
        let before = device.stats().kernels;
        assert!(block_on(step.loss.item::<f32>())? > 0.0);
        assert_eq!(device.stats().kernels, before);
        Ok(())
    });
}

#[test]
fn running_ahead_does_no_more_than_awaiting_each_step() {
    everywhere("running ahead", |device| {
        let (x, y) = (device.normal(&[256, 3], 0.0, 1.0, 1)?, device.zeros(&[256])?);
        let y = y.cast(warpweft::dtype::DType::I32)?;
        let mut trainer = trainer(device)?;
        // The kernels, submissions, plans and bytes of forty steps.
        let mut run = |awaits: bool| -> Result<[u64; 4]> {
            let before = device.stats();
            for _ in 0..40 {
                let step = block_on(trainer.step(&x, &y))?;
                if awaits {
                    block_on(step.loss.item::<f32>())?;
                }
            }
            block_on(device.synchronize())?;
            let after = device.stats();
            let submits = after.submits - before.submits;
            Ok([after.kernels - before.kernels, submits, after.plans - before.plans, after.bytes])
        };
        run(false)?;
        let (awaiting, ahead) = (run(true)?, run(false)?);
        let no_more = ahead.iter().zip(&awaiting).all(|(a, b)| a <= b);
        assert!(no_more, "{ahead:?} ahead, {awaiting:?} awaiting each step");
        Ok(())
    });
}

#[test]
fn it_is_ended_and_goes_on() {
    everywhere("an end and going on", |device| {
        let mut whole = trainer(device)?.epochs(3);
        block_on(whole.fit())?;
        let mut parts = trainer(device)?.epochs(3);
        for end in [1, 7, 8, 19] {
            let till = |step: &Step| match step.step + 1 == end {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            };
            block_on(parts.fit_with(till))?;
            assert_eq!((parts.steps(), parts.history().len()), (end, end as usize / 8));
        }
        block_on(parts.fit())?;
        assert!(parts.is_over() && block_on(parts.next_step())?.is_none());
        assert_eq!(bits(&parts.model), bits(&whole.model));
        let losses = |trainer: &Trainer<Sequential>| {
            trainer.history().iter().map(|epoch| epoch.loss).collect::<Vec<_>>()
        };
        assert_eq!(losses(&parts), losses(&whole));
        let mut more = parts.epochs(4);
        block_on(more.fit())?;
        assert_eq!((more.steps(), more.history().len()), (32, 4));
        Ok(())
    });
}

#[test]
fn futures_that_are_dropped_lose_nothing() {
    everywhere("dropped futures", |device| {
        let of = |trainer: Trainer<Sequential>| -> Result<_> {
            let other = DataLoader::new(&data(device, 4)?, 10)?;
            Ok(trainer.epochs(3).report_every(3).validate_on(other).metric(Accuracy::new()))
        };
        let mut whole = of(trainer(device)?)?;
        block_on(whole.fit())?;
        let mut dropped = of(trainer(device)?)?;
        let (mut steps, mut ended, mut reports, mut waits) = (Vec::new(), 0, 0, 0);
        loop {
            // Polls the step once, and drops it if it has to wait. Awaits every third step to its end.
            let step = match waits % 3 {
                2 => block_on(dropped.next_step())?,
                _ => {
                    let polled =
                        pin!(dropped.next_step()).poll(&mut Context::from_waker(Waker::noop()));
                    match polled {
                        std::task::Poll::Ready(step) => step?,
                        std::task::Poll::Pending => {
                            waits += 1;
                            continue;
                        }
                    }
                }
            };
            waits += 1;
            let Some(step) = step else { break };
            steps.push(step.step);
            ended += usize::from(step.ended.is_some());
            reports += usize::from(step.mean_loss.is_some());
        }
        assert_eq!(steps, (0..24).collect::<Vec<_>>());
        assert_eq!((ended, reports), (3, 8));
        assert_eq!(bits(&dropped.model), bits(&whole.model));
        for (a, b) in dropped.history().iter().zip(whole.history()) {
            assert_eq!((a.loss, &a.validation, a.steps), (b.loss, &b.validation, b.steps));
        }
        Ok(())
    });
}

/// A trained number. The loss is its squared distance from the target.
struct Number(Variable);

impl Module for Number {
    fn members(&self, members: &mut Members) {
        members.parameter("value", &self.0);
    }
}

fn distance(model: &Number, _: &Tensor, y: &Tensor) -> Result<(Tensor, Tensor)> {
    let value = model.0.value().expand(y.shape())?;
    Ok((value.mse_loss(y, LossReduction::Mean)?, value))
}

/// Returns a trainer that moves the number from 0 to 1 at this rate. The validation has another target.
fn number(device: &Device, lr: f64, validation: f32) -> Result<Trainer<Number>> {
    let model = Number(Variable::new(&device.zeros(&[1])?));
    let optimizer = Optimizer::new(Sgd::new(lr), &model.parameters())?;
    let of = |y: f32| {
        DataLoader::new(&Dataset::new(&device.ones(&[1])?, &device.tensor(&[y], &[1])?)?, 1)
    };
    Ok(Trainer::new(model, optimizer, of(1.0)?, distance)?.validate_on(of(validation)?))
}

#[test]
fn it_stops_when_validation_gets_worse_and_restores_the_best() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let run = |stopping: EarlyStopping| -> Result<(usize, f32)> {
        let mut trainer = number(&device, 0.05, 0.5)?.epochs(50).early_stopping(stopping);
        block_on(trainer.fit())?;
        Ok((trainer.history().len(), block_on(trainer.model.0.value().item::<f32>())?))
    };
    // In 64 bits: the value after each epoch, and its distance from 0.5.
    let values: Vec<f64> = (1..=50).map(|n| 1.0 - 0.9f64.powi(n)).collect();
    let (best, _) = values
        .iter()
        .enumerate()
        .min_by(|(_, a), (_, b)| (*a - 0.5).abs().total_cmp(&(*b - 0.5).abs()))
        .expect("fifty");
    for patience in [1, 4] {
        let stopping = EarlyStopping { patience, ..EarlyStopping::default() };
        let (epochs, value) = run(stopping.clone()).expect("it trains");
        assert_eq!(epochs, best + 1 + patience as usize);
        assert!((f64::from(value) - values[best]).abs() < 1e-6, "{value}, not {}", values[best]);
        let (_, value) = run(EarlyStopping { restore_best: false, ..stopping }).expect("it trains");
        assert!((f64::from(value) - values[epochs - 1]).abs() < 1e-6);
    }
    // The weights are restored when the last epoch ends, so a loop over `is_over` has them.
    let stopping = EarlyStopping { patience: 1, ..EarlyStopping::default() };
    let mut by_hand =
        number(&device, 0.05, 0.5).expect("a trainer").epochs(50).early_stopping(stopping);
    while !by_hand.is_over() {
        block_on(by_hand.next_step()).expect("a step");
    }
    let value = block_on(by_hand.model.0.value().item::<f32>()).expect("a value");
    assert!((f64::from(value) - values[best]).abs() < 1e-6, "{value}, not {}", values[best]);
    // Setting the number of epochs again continues the training, for as many epochs as the patience.
    let stopping = EarlyStopping { patience: 4, restore_best: false, ..EarlyStopping::default() };
    let mut stopped =
        number(&device, 0.05, 0.5).expect("a trainer").epochs(50).early_stopping(stopping);
    assert_eq!(block_on(stopped.fit()).expect("it trains").len(), best + 5);
    assert_eq!(block_on(stopped.fit()).expect("it is over").len(), best + 5);
    let mut stopped = stopped.epochs(60);
    assert_eq!(block_on(stopped.fit()).expect("it goes on").len(), best + 9);
    // Smaller improvements do not count. The first one is from 0.2025 to 0.1225.
    let squares: Vec<f64> = values.iter().map(|x| (x - 0.5) * (x - 0.5)).collect();
    let delta = 0.03;
    let (mut least, mut at) = (squares[0], 0);
    for (n, &square) in squares.iter().enumerate() {
        if square < least - delta {
            (least, at) = (square, n);
        }
    }
    let stopping = EarlyStopping { patience: 3, min_delta: delta, ..EarlyStopping::default() };
    let (epochs, _) = run(stopping).expect("it trains");
    assert!(epochs < 50);
    let mut worse = 0;
    let mut want = squares.len();
    let mut best = f64::INFINITY;
    for (n, &square) in squares.iter().enumerate() {
        (best, worse) = if square < best - delta { (square, 0) } else { (best, worse + 1) };
        if worse == 3 {
            want = n + 1;
            break;
        }
    }
    assert_eq!(epochs, want, "the best is epoch {at}");
    // A metric that should grow, and one that does not exist.
    let upward = EarlyStopping {
        monitor: "loss".into(),
        mode: PlateauMode::Max,
        patience: 2,
        ..EarlyStopping::default()
    };
    assert_eq!(run(upward).expect("it trains").0, 3);
    let unknown = EarlyStopping { monitor: "joy".into(), ..EarlyStopping::default() };
    let error = run(unknown).expect_err("no such metric");
    assert_eq!(
        error.message(),
        "early stopping: monitor must be a number of each epoch, got `joy`"
    );
}

#[test]
fn rates_follow_schedules() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let rates = |trainer: Trainer<Sequential>| -> Result<Vec<f64>> {
        let (mut trainer, mut all) = (trainer.epochs(3), Vec::new());
        while let Some(step) = block_on(trainer.next_step())? {
            assert_eq!(step.lr, trainer.optimizer.lr());
            all.push(step.lr);
        }
        assert_eq!(trainer.history()[2].lr, all[23]);
        Ok(all)
    };
    let all = |work: &dyn Fn(u64) -> f64| (0..24).map(work).collect::<Vec<f64>>();
    let make = || trainer(&device).expect("a trainer");
    assert_eq!(rates(make()).expect("it trains"), [0.02; 24]);
    let halving = || ExponentialLr::new(0.1, 0.5).expect("a schedule");
    let by_step = rates(make().schedule(halving())).expect("it trains");
    assert_eq!(by_step, all(&|n| 0.1 * 0.5f64.powi(n as i32)));
    let by_epoch = rates(make().schedule_by_epoch(halving())).expect("it trains");
    assert_eq!(by_epoch, all(&|n| 0.1 * 0.5f64.powi(n as i32 / 8)));
    // No epoch is better by this factor, so the rate falls after the second and the third.
    let options =
        PlateauOptions { factor: 0.5, patience: 0, threshold: 0.99, ..Default::default() };
    let plateau = ReduceLrOnPlateau::new(0.01, options).expect("a schedule");
    let fallen = rates(make().reduce_on_plateau(plateau)).expect("it trains");
    assert_eq!(fallen, all(&|n| if n < 16 { 0.01 } else { 0.005 }));
}

fn bits_of(x: &Tensor) -> Result<u32> {
    Ok(block_on(x.item::<f32>())?.to_bits())
}

#[test]
fn validation_is_in_evaluation_and_changes_nothing() {
    everywhere("validation", |device| {
        let mut plain = trainer(device)?.epochs(2);
        block_on(plain.fit())?;
        let other = data(device, 4)?;
        let loader = DataLoader::new(&other, 10)?;
        let mut validated =
            trainer(device)?.epochs(2).validate_on(loader.clone()).metric(Accuracy::new());
        block_on(validated.fit())?;
        assert_eq!(bits(&plain.model), bits(&validated.model));
        let last = validated.history()[1].clone();
        let scores = block_on(validated.evaluate(&loader))?;
        assert_eq!(last.validation.as_ref(), Some(&scores));
        assert_eq!(last.get("accuracy"), scores.metric("accuracy"));
        // The model is in training mode again, so dropout draws new numbers each time.
        let kept = validated.model.state_dict();
        let again = || bits_of(&loss(&validated.model, other.features(), other.targets())?.0);
        assert_ne!(again()?, again()?);
        // Undoes the running statistics of that.
        validated.model.load_state_dict(&kept)?;
        // By hand, for all examples at once.
        validated.model.eval();
        let (want, predicted) = loss(&validated.model, other.features(), other.targets())?;
        let right = predicted.argmax(1)?.eq(other.targets())?;
        let right = block_on(right.read::<bool>())?.iter().filter(|&&right| right).count();
        let want = f64::from(block_on(want.item::<f32>())?);
        assert!((scores.loss - want).abs() < 1e-6, "{scores:?}, not {want}");
        let accuracy = right as f64 / COUNT as f64;
        assert!((scores.metrics[0].1 - accuracy).abs() < 1e-6, "{scores:?}, not {accuracy}");
        Ok(())
    });
}

#[test]
fn losses_that_are_not_finite_are_named() {
    everywhere("infinite losses", |device| {
        // 1e30 squared exceeds `f32`. The first step moves far away, so the second loss is infinite.
        let model = Number(Variable::new(&device.zeros(&[1])?));
        let optimizer = Optimizer::new(Sgd::new(1e30), &model.parameters())?;
        let ones = Dataset::new(&device.ones(&[4])?, &device.ones(&[4])?)?;
        let mut trainer =
            Trainer::new(model, optimizer, DataLoader::new(&ones, 1)?, distance)?.epochs(3);
        let error = block_on(trainer.fit()).expect_err("it is infinite");
        assert_eq!(error.kind(), ErrorKind::InvalidState);
        let begin = "train: the loss of step 1 (epoch 0, batch 1) must be finite";
        assert!(error.message().starts_with(begin), "{error}");

        let mut number = number(device, 1.0, 0.0)?.epochs(9);
        block_on(number.fit_with(|step| match step.epoch {
            4 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }))?;
        number.model.0.assign(&device.full(&[1], f64::NAN, warpweft::dtype::DType::F32)?)?;
        let error = block_on(number.fit()).expect_err("it is NaN");
        assert!(error.message().contains("step 5 (epoch 5, batch 0)"), "{error}");
        Ok(())
    });
}

#[test]
fn batches_come_from_iterators_too() {
    everywhere("iterators", |device| {
        let own = device.clone();
        let batches = move |epoch: u64| {
            let own = own.clone();
            (0..10u32).map(move |n| {
                let x = own.tensor(&noise(16, epoch as u32 * 10 + n), &[16, 1])?;
                let y = x.mul(2)?.add(1)?;
                Ok((x, y))
            })
        };
        let model = Linear::new(&Generator::new(device, 0), 1, 1)?;
        let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
        let forward = |model: &Linear, x: &Tensor, y: &Tensor| {
            model.forward(x)?.mse_loss(y, LossReduction::Mean)
        };
        let mut trainer = Trainer::new(model, optimizer, batches, forward)?.epochs(10);
        block_on(trainer.fit())?;
        let weight = block_on(trainer.model.weight.value().item::<f32>())?;
        assert!((weight - 2.0).abs() < 0.05, "{weight}");
        assert_eq!(trainer.steps(), 100);

        let mut trainer = trainer.metric(MeanSquaredError::new());
        let other = device.clone();
        let one = move |_| [other.ones(&[1, 1]).map(|x| (x.clone(), x))];
        let error = block_on(trainer.evaluate(&one)).expect_err("a loss alone");
        assert!(error.message().contains("must return a prediction for metrics"), "{error}");
        let none = |_| Vec::new();
        let error = block_on(trainer.evaluate(&none)).expect_err("nothing");
        assert_eq!(error.message(), "evaluate: the data must have a batch, got none");
        Ok(())
    });
}

#[test]
fn what_cannot_be_trained_is_refused() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let model = Number(Variable::new(&device.zeros(&[1]).expect("zeros")));
    let optimizer = || Optimizer::new(Sgd::new(0.1), &model.parameters()).expect("an optimiser");
    let none = |_: u64| Vec::<Result<Batch>>::new();
    let relu = |x: &Tensor| Ok(x.relu());
    let refused = Trainer::new(relu, optimizer(), none, |_, x, _| Ok(x.clone()));
    assert_eq!(
        refused.err().expect("no parameters").message(),
        "train: the model must have parameters, got none"
    );

    let own = Number(model.0.clone());
    let mut empty = Trainer::new(own, optimizer(), none, distance).expect("a trainer");
    let error = block_on(empty.fit()).expect_err("no batches");
    assert_eq!(error.message(), "train: an epoch must have a batch, got none in epoch 0");

    let two = device.ones(&[2]).expect("ones");
    let batches = move |_: u64| [Ok((two.clone(), two.clone()))];
    let wide = |model: &Number, _: &Tensor, y: &Tensor| model.0.value().mul(y);
    let own = Number(model.0.clone());
    let mut trainer = Trainer::new(own, optimizer(), batches, wide).expect("a trainer");
    for _ in 0..2 {
        // A failed step is not taken, and is repeated.
        let error = block_on(trainer.fit()).expect_err("two losses");
        assert_eq!(error.message(), "train: the loss must be one number, got shape [2]");
        assert_eq!(trainer.steps(), 0);
    }
}
