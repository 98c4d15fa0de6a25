//! Tests what the ranks report when they differ, or when one fails.

use super::threads::run;
use super::{joined, open, Classifier, Task};
use crate::suite::Place;
use pollster::block_on;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use std::time::Duration;
use warpweft::device::Device;
use warpweft::distributed::World;
use warpweft::dtype::DType;
use warpweft::error::{Error, Result};
use warpweft::nn::{Generator, Layer, Linear, LossReduction, Module, Sequential};
use warpweft::optim::{Optimizer, Sgd};
use warpweft::tensor::Tensor;
use warpweft::train::metrics::Accuracy;
use warpweft::train::{DataLoader, Dataset, Trainer};

/// Runs `work` on two ranks, which must both fail, and returns their messages.
fn messages(work: impl Fn(&Device, World) -> Result<()> + Sync) -> [String; 2] {
    let results = run(2, Duration::ZERO, |world| work(&open(Place::Cpu)?, world));
    let messages = results.into_iter().map(|result| match result {
        Ok(()) => "no error".to_string(),
        Err(error) => error.message().to_string(),
    });
    messages.collect::<Vec<_>>().try_into().expect("two ranks")
}

fn default_trainer(device: &Device, world: &World) -> Result<Classifier> {
    joined(device, Task { batch: 8, examples: 24, ..Task::default() }, world, 0)
}

#[test]
fn different_models_are_refused() {
    let got = messages(|device, world| {
        let width = 4 + world.rank();
        let x = device.ones(&[8, 2])?;
        let data = Dataset::new(&x, &x)?;
        let generator = Generator::new(device, 0);
        let model = Sequential::new()
            .push(Linear::new(&generator, 2, width)?)
            .push(Linear::new(&generator, width, 2)?);
        let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
        let forward =
            |model: &Sequential, x: &_, y: &_| model.forward(x)?.mse_loss(y, LossReduction::Mean);
        let trainer = Trainer::new(model, optimizer, DataLoader::new(&data, 2)?, forward)?;
        trainer.data_parallel(&world).map(drop)
    });
    let want = "data_parallel: all ranks must be alike, got ``0.bias`: f32 [4]` on rank 0 and ``0.bias`: f32 [5]` on rank 1";
    assert_eq!(got, [want, want]);
}

#[test]
fn different_data_is_refused() {
    let got = messages(|device, world| {
        let task = Task { examples: 24 + world.rank(), ..Task::default() };
        joined(device, task, &world, 0).map(drop)
    });
    let want = "data_parallel: all ranks must be alike, \
                got `data: 24 examples in batches of 8, by seed 5, Some(3) batches` on rank 0 \
                and `data: 25 examples in batches of 8, by seed 5, Some(4) batches` on rank 1";
    assert_eq!(got, [want, want]);
}

/// Data whose length is not known in advance: one rank ends its epoch earlier.
#[test]
fn an_early_end_of_the_data_is_refused() {
    let got = messages(|device, world| {
        let (device, steps) = (device.clone(), 4 + 2 * world.rank());
        let model = Linear::new(&Generator::new(&device, 0), 1, 1)?;
        let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
        let data = move |_| {
            let device = device.clone();
            (0..steps).map(move |_| Ok((device.ones(&[2, 1])?, device.ones(&[2, 1])?)))
        };
        let forward =
            |model: &Linear, x: &_, y: &_| model.forward(x)?.mse_loss(y, LossReduction::Mean);
        let mut trainer = Trainer::new(model, optimizer, data, forward)?.data_parallel(&world)?;
        block_on(trainer.fit()).map(drop)
    });
    let want =
        "train: all ranks must be alike, got `the end of epoch 0 after step 2` on rank 0 and \
                `step 2 of epoch 0` on rank 1";
    assert_eq!(got, [want, want]);
}

#[test]
fn an_error_of_one_rank_reaches_the_other() {
    let got = messages(|device, world| {
        let mut trainer = default_trainer(device, &world)?;
        block_on(trainer.next_step())?;
        let x = match world.rank() {
            0 => device.ones(&[4, 6])?,
            _ => device.ones(&[4, 5])?,
        };
        let y = device.zeros((&[4], DType::I32))?;
        block_on(trainer.step(&x, &y)).map(drop)
    });
    assert!(got[1].starts_with("linear:") || got[1].starts_with("matmul:"), "{got:?}");
    assert_eq!(got[0], format!("world: all ranks must answer, but rank 1 failed: {}", got[1]));
}

#[test]
fn a_panic_of_one_rank_reaches_the_other() {
    let got = messages(|device, world| {
        let mut trainer = default_trainer(device, &world)?;
        if world.rank() == 1 {
            let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                let (_trainer, _world) = (trainer, world);
                std::panic::resume_unwind(Box::new("a bug of this program"));
            }));
            assert!(panicked.is_err());
            return Err(Error::state("panicked"));
        }
        block_on(trainer.fit()).map(drop)
    });
    assert_eq!(got[0], "world: all ranks must answer, but rank 1 failed: it panicked");
}

#[test]
fn a_dropped_step_reaches_the_other() {
    let got = messages(|device, world| {
        let mut trainer = default_trainer(device, &world)?;
        if world.rank() == 1 {
            {
                let mut step = pin!(trainer.next_step());
                // The other rank is not there yet, so the step waits.
                let waits = step.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(waits.is_pending());
            }
            return block_on(trainer.next_step()).map(drop);
        }
        std::thread::sleep(Duration::from_millis(200));
        block_on(trainer.next_step()).map(drop)
    });
    assert_eq!(got, [DROPPED, DROPPED]);
}

/// The error of all ranks after rank 1 dropped a call.
const DROPPED: &str = "world: all ranks must answer, but rank 1 failed: a call of its trainer was dropped before it was \
                       complete";

/// The end of an epoch cannot be dropped and called again, because the other rank has answered the first call.
#[test]
fn a_dropped_end_of_an_epoch_reaches_the_other() {
    let got = messages(|device, world| {
        let mut trainer = default_trainer(device, &world)?;
        let (x, y) = (device.ones(&[4, 6])?, device.zeros((&[4], DType::I32))?);
        block_on(trainer.step(&x, &y))?;
        if world.rank() == 1 {
            {
                let mut end = pin!(trainer.end_epoch());
                let waits = end.as_mut().poll(&mut Context::from_waker(Waker::noop()));
                assert!(waits.is_pending());
            }
            return block_on(trainer.end_epoch()).map(drop);
        }
        std::thread::sleep(Duration::from_millis(200));
        block_on(trainer.end_epoch()).map(drop)
    });
    assert_eq!(got, [DROPPED, DROPPED]);
}

/// An error in the gradients has its own text on the other rank.
#[test]
fn an_error_of_the_gradients_reaches_the_other() {
    let got = messages(|device, world| {
        let model = Linear::new(&Generator::new(device, 0), 1, 1)?;
        let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
        let x = device.ones(&[4, 1])?;
        let data = DataLoader::new(&Dataset::new(&x, &x)?, 1)?;
        let rank = world.rank();
        let forward = move |model: &Linear, x: &Tensor, y: &Tensor| match rank {
            0 => model.forward(x)?.mse_loss(y, LossReduction::Mean),
            _ => x.mse_loss(y, LossReduction::Mean),
        };
        let mut trainer = Trainer::new(model, optimizer, data, forward)?.data_parallel(&world)?;
        block_on(trainer.next_step()).map(drop)
    });
    assert!(got[1].contains("parameter"), "{got:?}");
    assert_eq!(got[0], format!("world: all ranks must answer, but rank 1 failed: {}", got[1]));
}

/// A checkpoint that one rank cannot save is an error of both.
#[test]
fn an_error_of_a_checkpoint_reaches_the_other() {
    let got = messages(|device, world| {
        let trainer = default_trainer(device, &world)?;
        let mut notes = BTreeMap::new();
        if world.rank() == 1 {
            notes.insert("trainer".to_string(), String::new());
        }
        block_on(trainer.save(&notes)).map(drop)
    });
    assert!(got[1].starts_with("save: names of parameters and notes"), "{got:?}");
    assert_eq!(got[0], format!("world: all ranks must answer, but rank 1 failed: {}", got[1]));
}

/// A call of the world does not answer a call of a trainer.
#[test]
fn a_call_of_the_world_is_no_step() {
    let got = messages(|device, world| {
        let mut trainer = default_trainer(device, &world)?;
        match world.rank() {
            0 => block_on(trainer.next_step()).map(drop),
            _ => block_on(world.all_gather(vec![1, 2, 3])).map(drop),
        }
    });
    assert!(got.iter().all(|text| text.contains("the ranks must make one call")), "{got:?}");
}

#[test]
fn different_reports_and_validations_are_refused() {
    let got = messages(|device, world| {
        let trainer = default_trainer(device, &world)?;
        let mut trainer = trainer.report_every(world.rank() as u64);
        block_on(trainer.next_step()).map(drop)
    });
    let want = "train: all ranks must be alike, got `reports every 0 steps` on rank 0 and \
                `reports every 1 steps` on rank 1";
    assert_eq!(got, [want, want]);
    let got = messages(|device, world| {
        let mut trainer = default_trainer(device, &world)?;
        if world.rank() == 1 {
            trainer = trainer.metric(Accuracy::new());
        }
        block_on(trainer.fit()).map(drop)
    });
    assert!(got[0].contains("metrics [") && got[0] == got[1], "{got:?}");
}

#[test]
fn calls_in_another_order_are_refused() {
    let got = messages(|device, world| {
        let mut trainer = default_trainer(device, &world)?;
        match world.rank() {
            0 => block_on(trainer.next_step()).map(drop),
            _ => block_on(trainer.save(&Default::default())).map(drop),
        }
    });
    let want = "train: all ranks must be alike, got `step 0 of epoch 0` on rank 0 and \
                `saving a checkpoint after step 0` on rank 1";
    assert_eq!(got, [want, want]);
}

#[test]
fn different_learning_rates_are_refused() {
    let got = messages(|device, world| {
        let mut trainer = default_trainer(device, &world)?;
        trainer.optimizer.set_lr(0.1 * (1 + world.rank()) as f64);
        block_on(trainer.next_step()).map(drop)
    });
    let want = "train: all ranks must be alike, got `learning rates [[0.1, 0.1]]` on rank 0 and \
                `learning rates [[0.2, 0.2]]` on rank 1";
    assert_eq!(got, [want, want]);
}

#[test]
fn a_bucket_of_no_bytes_is_refused() {
    let got = messages(|device, world| {
        joined(device, Task { bucket: 3, ..Task::default() }, &world, 0).map(drop)
    });
    assert!(got[0].ends_with("data_parallel: a bucket must have 4 bytes, got 3"), "{got:?}");
}

/// A loss that is not finite on one rank is an error of all, when the epoch ends.
#[test]
fn a_loss_that_is_not_finite_reaches_all_ranks() {
    let results = run(3, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let mut trainer = joined(&device, Task { batch: 24, ..Task::default() }, &world, 0)?;
        let value = if world.rank() == 1 { f64::NAN } else { 1.0 };
        let (x, y) = (device.full(&[4, 6], value, DType::F32)?, device.zeros((&[4], DType::I32))?);
        block_on(trainer.step(&x, &y))?;
        Ok(block_on(trainer.end_epoch()).expect_err("it is not finite").message().to_string())
    });
    for message in results {
        let message = message.expect("a message");
        let want = "train: the loss of step 0 (epoch 0, batch 0) must be finite, got NaN";
        assert!(message.starts_with(want), "{message}");
    }
}
