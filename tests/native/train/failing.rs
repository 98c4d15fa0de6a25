//! Tests steps that fail: which of them are taken, and the state after those that are not.

use super::{bits, classifier, everywhere, noise};
use pollster::block_on;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::{Tensor, Variable};
use warpweft::train::*;

const COUNT: usize = 24;

/// Returns three numbers per example, and whether their sum is above 0.
fn data(device: &Device, x: &[f32]) -> Result<Dataset> {
    let y: Vec<i32> = x.chunks(3).map(|row| i32::from(row.iter().sum::<f32>() > 0.0)).collect();
    Dataset::new(&device.tensor(x, &[COUNT, 3])?, &device.tensor(&y, &[COUNT])?)
}

fn loss(model: &Sequential, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    model.forward(x)?.cross_entropy(y, CrossEntropyOptions::default())
}

type Forward = fn(&Sequential, &Tensor, &Tensor) -> Result<Tensor>;

/// Returns a trainer with dropout and running statistics, and four batches per epoch.
fn trainer<F>(device: &Device, x: &[f32], forward: F) -> Result<Trainer<Sequential>>
where
    F: Fn(&Sequential, &Tensor, &Tensor) -> Result<Tensor> + 'static,
{
    let model = classifier(device, 1)?;
    let optimizer = Optimizer::new(Adam::new(0.02), &model.parameters())?;
    Trainer::new(model, optimizer, DataLoader::new(&data(device, x)?, 6)?, forward)
}

fn losses<M: Module>(trainer: &Trainer<M>) -> Vec<f64> {
    trainer.history().iter().map(|epoch| epoch.loss).collect()
}

/// Sums the squares of a trained matrix times each batch. It needs much more memory than its inputs.
struct Wide(Variable);

impl Module for Wide {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.0);
    }
}

fn wide(device: &Device) -> Result<Trainer<Wide>> {
    let model = Wide(Variable::new(&device.tensor(&noise(64 * 256, 1), &[64, 256])?));
    let optimizer = Optimizer::new(Sgd::new(0.05), &model.parameters())?;
    let data = Dataset::new(
        &device.tensor(&noise(4 * 96 * 64, 2), &[4 * 96, 64])?,
        &device.zeros(&[4 * 96])?,
    )?;
    let forward = |model: &Wide, x: &Tensor, _: &Tensor| {
        x.matmul(&model.0.value())?.tanh().square().sum(1)?.sqrt().mean(())
    };
    Ok(Trainer::new(model, optimizer, DataLoader::new(&data, 96)?, forward)?.epochs(2))
}

#[test]
fn a_step_whose_submission_fails_was_not_taken() {
    everywhere("a step without memory", |device| {
        let mut whole = wide(device)?;
        block_on(whole.fit())?;
        // The second step of an epoch, and the last one.
        for failing in [1, 3] {
            let mut trainer = wide(device)?.schedule(ConstantLr::new(0.05, 1.0, 1)?);
            for _ in 0..failing {
                block_on(trainer.next_step())?;
            }
            trainer.optimizer.set_lr(0.7);
            block_on(device.synchronize())?;
            let before = bits(&trainer.model);
            for _ in 0..2 {
                device.set_memory_limit(Some(device.stats().used_bytes + 1_000));
                let error = block_on(trainer.next_step()).map(drop);
                device.set_memory_limit(None);
                assert_eq!(error.expect_err("there is no memory").kind(), ErrorKind::Memory);
                assert_eq!((trainer.steps(), trainer.optimizer.steps()), (failing, failing));
                assert_eq!((trainer.batch(), trainer.position()), (failing, failing));
                assert_eq!((bits(&trainer.model), trainer.optimizer.lr()), (before.clone(), 0.7));
            }
            block_on(trainer.fit())?;
            assert_eq!((trainer.steps(), trainer.optimizer.steps()), (8, 8));
            assert_eq!(losses(&trainer), losses(&whole), "step {failing} failed");
            assert_eq!(bits(&trainer.model), bits(&whole.model), "step {failing} failed");
        }
        Ok(())
    });
}

#[test]
fn a_minimize_whose_submission_fails_was_not_made() {
    everywhere("a minimize without memory", |device| {
        let run = |fails: bool| -> Result<Vec<f32>> {
            let weight = Variable::new(&device.tensor(&noise(64 * 256, 1), &[64, 256])?);
            let mut optimizer = Optimizer::new(Sgd::new(0.1), std::slice::from_ref(&weight))?;
            let x = device.tensor(&noise(96 * 64, 2), &[96, 64])?;
            block_on(x.read::<f32>())?;
            let loss = x.matmul(&weight.value())?.tanh().square().mean(())?;
            if fails {
                device.set_memory_limit(Some(device.stats().used_bytes + 1_000));
                let done = optimizer.minimize(&loss);
                device.set_memory_limit(None);
                assert_eq!((done.is_err(), optimizer.steps()), (true, 0));
            }
            optimizer.minimize(&loss)?;
            assert_eq!(optimizer.steps(), 1);
            block_on(weight.value().read::<f32>())
        };
        assert_eq!(run(true)?, run(false)?);
        Ok(())
    });
}

#[test]
fn a_step_that_fails_leaves_the_data_where_they_were() {
    everywhere("data of one pass", |device| {
        // A stream that cannot be opened again, so each batch is created once.
        let made = Rc::new(Cell::new(0u32));
        let (counted, on) = (made.clone(), device.clone());
        let stream = move |_: u64| {
            let (counted, on) = (counted.clone(), on.clone());
            (0..6).map(move |_| {
                counted.set(counted.get() + 1);
                let x = on.full(&[2, 3], f64::from(counted.get()), DType::F32)?;
                Ok((x, on.zeros((&[2], DType::I32))?))
            })
        };
        let model = classifier(device, 1)?;
        let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
        let calls = Cell::new(0);
        let forward = move |model: &Sequential, x: &Tensor, _: &Tensor| {
            calls.set(calls.get() + 1);
            match calls.get() % 3 {
                0 => Err(Error::state("not now")),
                _ => model.forward(x)?.mul(0)?.mean(())?.add(&x.mean(())?),
            }
        };
        let rate = ExponentialLr::new(0.1, 0.5)?;
        let mut trainer = Trainer::new(model, optimizer, stream, forward)?.epochs(1).schedule(rate);
        let (mut seen, mut errors) = (Vec::new(), 0);
        while !trainer.is_over() {
            let lr = trainer.optimizer.lr();
            match block_on(trainer.next_step()) {
                Ok(step) => seen.push(block_on(step.expect("it is not over").loss.item::<f32>())?),
                Err(_) => {
                    errors += 1;
                    assert_eq!(trainer.optimizer.lr(), lr, "the schedule's rate");
                }
            }
        }
        assert_eq!((seen, errors), (vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 2));
        assert_eq!(made.get(), 6);
        Ok(())
    });
}

#[test]
fn an_evaluation_that_fails_changes_nothing() {
    everywhere("an evaluation that fails", |device| {
        let generator = Generator::new(device, 5);
        let (drawn, calls) = (generator.clone(), Rc::new(Cell::new(0)));
        let fails = calls.clone();
        let forward = move |model: &Sequential, x: &Tensor, y: &Tensor| {
            let x = x.add(&x.device().uniform(x.shape(), -0.1, 0.1, drawn.draw())?)?;
            match fails.replace(fails.get() - 1) {
                1 => Err(Error::state("not now")),
                _ => loss(model, &x, y),
            }
        };
        let x = noise(COUNT * 3, 3);
        let loader = DataLoader::new(&data(device, &x)?, 8)?;
        let mut trainer =
            trainer(device, &x, forward)?.generator(&generator).validate_on(loader.clone());
        for _ in 0..3 {
            block_on(trainer.next_step())?;
        }
        let before = (generator.drawn(), bits(&trainer.model));
        calls.set(2);
        assert!(block_on(trainer.evaluate(&loader)).is_err());
        calls.set(3);
        assert!(block_on(trainer.end_epoch()).is_err());
        assert_eq!((generator.drawn(), bits(&trainer.model)), before);
        assert_eq!((trainer.batch(), trainer.epoch()), (3, 0));
        block_on(trainer.end_epoch())?;
        assert_eq!(generator.drawn(), before.0 + 3);
        Ok(())
    });
}

#[test]
fn steps_of_the_trainer_are_in_training() {
    everywhere("a model in evaluation", |device| {
        let x = noise(COUNT * 3, 3);
        let mut whole = trainer(device, &x, loss as Forward)?;
        block_on(whole.fit())?;
        // Code that uses the model between steps may leave it in evaluation mode. A checkpoint does not contain the mode.
        let mut looked_at = trainer(device, &x, loss as Forward)?;
        while !looked_at.is_over() {
            block_on(looked_at.next_step())?;
            looked_at.model.eval();
        }
        assert_eq!(bits(&looked_at.model), bits(&whole.model));
        Ok(())
    });
}

#[test]
fn a_step_whose_function_fails_changes_nothing() {
    everywhere("a function that fails", |device| {
        let x = noise(COUNT * 3, 3);
        let mut whole = trainer(device, &x, loss as Forward)?.epochs(2);
        block_on(whole.fit())?;
        let calls = Rc::new(Cell::new(0));
        let counted = calls.clone();
        let failing = move |model: &Sequential, x: &Tensor, y: &Tensor| {
            // The model runs, so it draws random numbers and updates statistics.
            let loss = loss(model, x, y)?;
            counted.set(counted.get() + 1);
            match counted.get() {
                2 | 3 | 7 => Err(Error::state("not now")),
                // Not a single number.
                5 => Ok(x.clone()),
                _ => Ok(loss),
            }
        };
        let mut trainer = trainer(device, &x, failing)?.epochs(2);
        let mut errors = 0;
        while !trainer.is_over() {
            let before = bits(&trainer.model);
            match block_on(trainer.next_step()) {
                Ok(_) => (),
                Err(_) => {
                    errors += 1;
                    assert_eq!(bits(&trainer.model), before);
                }
            }
        }
        assert_eq!((errors, calls.get(), trainer.steps()), (4, 12, 8));
        assert_eq!(losses(&trainer), losses(&whole));
        assert_eq!(bits(&trainer.model), bits(&whole.model));
        Ok(())
    });
}

/// A model that counts its calls in a variable, which is a parameter like any other.
struct Counting {
    weight: Variable,
    count: Variable,
}

impl Module for Counting {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.weight);
        members.parameter("count", &self.count);
    }
}

#[test]
fn variables_that_a_failing_function_assigned_are_restored() {
    everywhere("variables of a function that fails", |device| {
        for in_optimizer in [false, true] {
            let model = Counting {
                weight: Variable::new(&device.tensor(&[0.5f32, -1.0, 2.0], &[3, 1])?),
                count: Variable::new(&device.tensor(&[0.0f32], &[])?),
            };
            let all = [model.weight.clone(), model.count.clone()];
            let parameters = if in_optimizer { &all[..] } else { &all[..1] };
            let optimizer = Optimizer::new(Sgd::new(0.1), parameters)?;
            let calls = Cell::new(0);
            let forward = move |model: &Counting, x: &Tensor, _: &Tensor| {
                let count = model.count.value().add(1.0)?;
                model.count.assign(&count.detach())?;
                calls.set(calls.get() + 1);
                match calls.get() {
                    2 => Err(Error::state("not now")),
                    4 => Ok(x.clone()),
                    _ => x.matmul(&model.weight.value())?.square().mean(()),
                }
            };
            let x = noise(COUNT * 3, 3);
            let loader = DataLoader::new(&data(device, &x)?, 6)?;
            let mut trainer = Trainer::new(model, optimizer, loader, forward)?;
            let mut expected = 0.0;
            for works in [true, false, true, false, true] {
                let before = bits(&trainer.model);
                let step = block_on(trainer.next_step());
                assert_eq!(step.is_ok(), works);
                expected += f32::from(u8::from(works));
                let count = block_on(trainer.model.count.value().item::<f32>())?;
                assert_eq!(count, expected, "in the optimizer: {in_optimizer}");
                assert_eq!(bits(&trainer.model) == before, !works);
            }
        }
        Ok(())
    });
}

#[test]
fn a_step_that_the_optimizer_refuses_changes_nothing() {
    everywhere("a rate that is none", |device| {
        let mut trainer = trainer(device, &noise(COUNT * 3, 3), loss as Forward)?;
        block_on(trainer.next_step())?;
        let before = bits(&trainer.model);
        trainer.optimizer.set_lr(-1.0);
        let error = block_on(trainer.next_step()).map(drop).expect_err("no such rate");
        assert!(error.message().starts_with("minimize: lr must be at least 0, got -1"), "{error}");
        assert_eq!((bits(&trainer.model), trainer.steps()), (before, 1));
        Ok(())
    });
}

#[test]
fn what_an_anomaly_did_to_running_statistics_is_undone() {
    everywhere("an anomaly and statistics", |device| {
        let mut x = noise(COUNT * 3, 3);
        // The third batch.
        x[3 * 13] = f32::NAN;
        let mut trainer = trainer(device, &x, loss as Forward)?.detect_anomaly(true);
        for _ in 0..2 {
            block_on(trainer.next_step())?;
        }
        let before = bits(&trainer.model);
        for _ in 0..2 {
            let error = block_on(trainer.next_step()).map(drop).expect_err("there is a NaN");
            assert!(
                error
                    .message()
                    .starts_with("train: the loss of step 2 must be finite, got one that is not: "),
                "{error}"
            );
            assert_eq!(bits(&trainer.model), before);
        }
        assert!(before.iter().flat_map(|(_, x)| x).all(|bits| f32::from_bits(*bits).is_finite()));
        Ok(())
    });
}

#[test]
fn a_look_for_anomalies_that_is_dropped_loses_no_batch() {
    everywhere("a look that is dropped", |device| {
        let x = noise(COUNT * 3, 3);
        let mut whole = trainer(device, &x, loss as Forward)?.epochs(2).detect_anomaly(true);
        block_on(whole.fit())?;
        let mut dropped = trainer(device, &x, loss as Forward)?.epochs(2).detect_anomaly(true);
        let (mut steps, mut waits) = (Vec::new(), 0);
        while !dropped.is_over() {
            let polled = pin!(dropped.next_step()).poll(&mut Context::from_waker(Waker::noop()));
            let step = match polled {
                Poll::Ready(step) => step?,
                Poll::Pending => {
                    waits += 1;
                    block_on(dropped.next_step())?
                }
            };
            steps.extend(step.map(|step| step.step));
        }
        assert_eq!(steps, (0..8).collect::<Vec<_>>(), "{waits} times it had to wait");
        assert_eq!(bits(&dropped.model), bits(&whole.model));
        Ok(())
    });
}

#[test]
fn an_epoch_without_steps_does_not_end() {
    everywhere("an epoch of nothing", |device| {
        let x = noise(COUNT * 3, 3);
        let mut trainer = trainer(device, &x, loss as Forward)?;
        let error = block_on(trainer.end_epoch()).expect_err("no step");
        assert_eq!(error.kind(), ErrorKind::InvalidState);
        assert_eq!(
            error.message(),
            "train: an epoch must have a step before it ends, got none in epoch 0"
        );
        block_on(trainer.fit())?;
        assert!(block_on(trainer.end_epoch()).is_err());
        assert_eq!((trainer.history().len(), trainer.epoch()), (1, 1));
        Ok(())
    });
}

#[test]
fn what_early_stopping_can_never_look_at_is_refused_before_a_step() {
    everywhere("early stopping by nothing", |device| {
        let x = noise(COUNT * 3, 3);
        for monitor in ["validation_loss", "accuracy"] {
            let rule = EarlyStopping { monitor: monitor.into(), ..EarlyStopping::default() };
            let mut trainer = trainer(device, &x, loss as Forward)?.early_stopping(rule);
            let error = block_on(trainer.fit()).map(drop).expect_err("it is never there");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            let want = format!(
                "early stopping: monitor must be a number of each epoch, got `{monitor}` without validation; \
                 call `validate_on`, or monitor `loss`"
            );
            assert_eq!((error.message(), trainer.steps()), (&want[..], 0));
        }
        let joy = EarlyStopping { monitor: "joy".into(), ..EarlyStopping::default() };
        let loader = DataLoader::new(&data(device, &x)?, 6)?;
        let mut trainer =
            trainer(device, &x, loss as Forward)?.validate_on(loader).early_stopping(joy);
        assert!(block_on(trainer.fit()).is_err());
        assert_eq!(trainer.steps(), 0);
        Ok(())
    });
}

#[test]
fn a_trainer_refuses_the_optimizer_of_another_model() {
    everywhere("another model's optimizer", |device| {
        let (model, other) = (classifier(device, 1)?, classifier(device, 2)?);
        let x = noise(COUNT * 3, 1);
        let data = |device| DataLoader::new(&data(device, &x)?, 6);
        let optimizer = Optimizer::new(Adam::new(0.02), &other.parameters())?;
        let error = Trainer::new(model, optimizer, data(device)?, loss).err().expect("refused");
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(
            error.message().starts_with("train: the optimizer must have parameters of the model"),
            "{error}"
        );
        // Some of the parameters are enough. The others do not change.
        let model = classifier(device, 1)?;
        let optimizer = Optimizer::new(Adam::new(0.02), &model.parameters()[..1])?;
        Trainer::new(model, optimizer, data(device)?, loss)?;
        Ok(())
    });
}

#[test]
fn a_step_is_returned_after_its_epoch_was_ended_by_hand() {
    everywhere("an epoch that ends by hand", |device| {
        let calls = Cell::new(0);
        let forward = move |model: &Sequential, x: &Tensor, y: &Tensor| match calls
            .replace(calls.get() + 1)
        {
            3 => Err(Error::state("not now")),
            _ => loss(model, x, y),
        };
        let x = noise(COUNT * 3, 3);
        let loader = DataLoader::new(&data(device, &x)?, 8)?;
        let model = classifier(device, 1)?;
        let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
        let mut trainer =
            Trainer::new(model, optimizer, loader.clone(), forward)?.epochs(2).validate_on(loader);
        let numbers = |step: Option<Step>| {
            step.map(|step| (step.step, step.epoch, step.ended.map(|epoch| epoch.epoch)))
        };
        for n in 0..2 {
            assert_eq!(numbers(block_on(trainer.next_step())?), Some((n, 0, None)));
        }
        // The last step of the epoch is taken, and its validation fails.
        assert!(block_on(trainer.next_step()).is_err());
        assert_eq!((trainer.steps(), trainer.epoch()), (3, 0));
        assert_eq!(block_on(trainer.end_epoch())?.epoch, 0);
        assert_eq!(numbers(block_on(trainer.next_step())?), Some((2, 0, Some(0))));
        assert_eq!(numbers(block_on(trainer.next_step())?), Some((3, 1, None)));
        Ok(())
    });
}

#[test]
fn a_program_that_fails_gives_its_draws_back() {
    everywhere("draws of a program that fails", |device| {
        let generator = Generator::new(device, 7);
        let layer = Dropout::new(&generator, 0.5)?;
        let build = move |x: &[Tensor]| Ok(vec![layer.forward(&layer.forward(&x[0])?)?]);
        let program = device.compile(&[(&[4096], DType::F32)], build)?;
        let x = device.ones(&[4096])?;
        let first = block_on(program.run(&[&x])?[0].read::<f32>())?;
        assert_eq!(generator.drawn(), 2);
        generator.set_drawn(0);
        device.trim();
        device.set_memory_limit(Some(device.stats().used_bytes + 1_000));
        let failed = program.run(&[&x]).map(drop);
        device.set_memory_limit(None);
        assert_eq!(failed.expect_err("there is no memory").kind(), ErrorKind::Memory);
        assert_eq!(generator.drawn(), 0);
        assert_eq!(block_on(program.run(&[&x])?[0].read::<f32>())?, first);
        Ok(())
    });
}

#[test]
fn an_assignment_whose_submission_fails_was_not_made() {
    everywhere("an assignment without memory", |device| {
        let variable = Variable::new(&device.ones(&[4096])?);
        block_on(variable.value().read::<f32>())?;
        let squares = variable.value().square().sum(())?;
        // More operations than an assignment leaves waiting.
        let mut x = device.tensor(&noise(4096, 1), &[4096])?;
        for _ in 0..2_100 {
            x = x.sin();
        }
        device.trim();
        device.set_memory_limit(Some(device.stats().used_bytes + 1_000));
        let assigned = variable.assign(&x);
        device.set_memory_limit(None);
        assert_eq!(assigned.expect_err("there is no memory").kind(), ErrorKind::Memory);
        assert_eq!(block_on(variable.value().read::<f32>())?, [1.0; 4096]);
        // The value was never replaced, so gradients by it still work.
        let gradient = squares.grad(&[&variable.value()])?.remove(0);
        assert_eq!(block_on(gradient.read::<f32>())?, [2.0; 4096]);
        Ok(())
    });
}
