//! Programs that a single process runs, on several ranks: models whose gradients are equal, constant or missing, immediate
//! computation, running statistics, and long training.

use super::threads::run;
use super::{distance, joined, open, trainer, weights, Task};
use crate::suite::Place;
use pollster::block_on;
use std::time::Duration;
use warpweft::distributed::World;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::nn::{BatchNorm, Generator, Layer, LossReduction, Members, Module};
use warpweft::optim::{Optimizer, Sgd};
use warpweft::tensor::Variable;
use warpweft::train::{DataLoader, DataParallelOptions, Dataset, Trainer};

/// Parameters of which two have the same gradient, one has a constant gradient, and one has none.
struct Alike([Variable; 4]);

impl Module for Alike {
    fn members(&self, members: &mut Members) {
        for (n, variable) in self.0.iter().enumerate() {
            members.parameter(&format!("w{n}"), variable);
        }
    }
}

/// Takes five steps with gradients that were there before. One rank takes the joined batch of two. Returns the weights.
fn alike(eager: bool, examples: usize, world: &World) -> Result<Vec<f32>> {
    let device = open(Place::Cpu)?;
    device.run_eagerly(eager);
    let start = device.tensor(&[0.5, -0.25, 1.0], &[3, 1])?;
    let model = Alike([(); 4].map(|()| Variable::new(&start)));
    let x = device.uniform(&[2 * examples, 3], -1.0, 1.0, 1)?;
    let own = (2 * examples / world.size()) as isize;
    let begin = world.rank() as isize * own;
    let x = x.slice(0, begin..begin + own)?;
    let y = x.sum(1)?.unsqueeze(1)?;
    // A parameter without a gradient does not decay.
    let rule = Sgd { weight_decay: 0.01, ..Sgd::new(0.1) };
    let optimizer = Optimizer::new(rule, &model.parameters())?;
    let loader = DataLoader::new(&Dataset::new(&x, &y)?, 1)?;
    let mut trainer = Trainer::new(model, optimizer, loader, |model: &Alike, x, y| {
        let [a, b, c, _] = &model.0;
        let loss = x.matmul(&a.value().add(&b.value())?)?.mse_loss(y, LossReduction::Mean)?;
        loss.add(&c.value().sum(())?)
    })?
    .data_parallel_with(world, DataParallelOptions { bucket_bytes: 4 })?;
    for _ in 0..5 {
        let [a, b, ..] = trainer.model.0.clone();
        a.value().square().sum(())?.backward(&[&a])?;
        trainer.optimizer.accumulate(&b.value().sum(())?)?;
        block_on(trainer.step(&x, &y))?;
    }
    weights(&trainer.model)
}

/// Sums gradients that are one tensor, that are constant, that were there before, and those that were computed at once.
#[test]
fn all_kinds_of_gradients_are_summed() {
    for eager in [false, true] {
        // The weight of a batch of one example is 1.
        for examples in [1, 4] {
            let want = alike(eager, examples, &World::single()).expect("trained");
            for got in run(2, Duration::ZERO, |world| alike(eager, examples, &world)) {
                let got = got.expect("trained");
                assert!(
                    distance(&got, &want) < 1e-6,
                    "eager {eager}, {examples}: {got:?} {want:?}"
                );
            }
        }
    }
}

/// A rank without examples takes the step of the others, although the mean of nothing is NaN.
#[test]
fn a_rank_without_examples_takes_the_same_step() {
    let results = run(2, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let mut trainer = joined(&device, Task::default(), &world, 0)?;
        let before = weights(&trainer.model)?;
        let count = 4 * (1 - world.rank());
        let (x, y) = (device.ones(&[count, 6])?, device.zeros((&[count], DType::I32))?);
        block_on(trainer.step(&x, &y))?;
        let loss = block_on(trainer.end_epoch())?.loss;
        let after = weights(&trainer.model)?;
        assert!(loss.is_finite() && after != before && after.iter().all(|x| x.is_finite()));
        Ok(after)
    });
    let [first, second] = &results[..] else { panic!("two ranks") };
    assert_eq!(first.as_ref().expect("trained"), second.as_ref().expect("trained"));
}

/// All ranks begin with the optimizer's state of rank 0.
#[test]
fn the_state_of_the_optimizer_is_that_of_the_first_rank() {
    let results = run(2, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let mut alone = trainer(&device, Task::default(), 1, 0)?;
        // Rank 0 has taken steps, and rank 1 has not.
        for _ in 0..3 * (1 - world.rank()) {
            let (x, y) = (device.ones(&[4, 6])?, device.zeros((&[4], DType::I32))?);
            let loss = alone.model.forward(&x)?.cross_entropy(&y, Default::default())?;
            alone.optimizer.minimize(&loss)?;
        }
        let mut both = alone.data_parallel(&world)?;
        block_on(both.next_step())?;
        Ok((weights(&both.model)?, both.optimizer.steps()))
    });
    let [first, second] = &results[..] else { panic!("two ranks") };
    assert_eq!(first.as_ref().expect("trained"), second.as_ref().expect("trained"));
    assert_eq!(first.as_ref().expect("trained").1, 4);
}

/// Thousands of steps, epochs and validations on two ranks hold no more memory, plans and nodes than a few.
#[test]
fn long_training_keeps_its_memory() {
    let levels = run(2, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let mut trainer = joined(&device, Task::default(), &world, 0)?.epochs(10_000);
        let mut levels = Vec::new();
        for _ in 0..2 {
            for _ in 0..1200 {
                block_on(trainer.next_step())?;
            }
            block_on(device.synchronize())?;
            let stats = device.stats();
            levels.push((stats.nodes, stats.used_bytes, stats.plans));
        }
        Ok(levels)
    });
    for levels in levels {
        let levels = levels.expect("trained");
        assert_eq!(levels[0], levels[1]);
    }
}

/// Batch norm's running statistics are those of rank 0 once an epoch ends, and rank 0's do not depend on the other ranks.
#[test]
fn running_statistics_are_those_of_the_first_rank() {
    let statistics = |ranks: usize| {
        let all = run(ranks, Duration::ZERO, |world| {
            let device = open(Place::Cpu)?;
            let model = BatchNorm::new(&Generator::new(&device, 0), 3)?;
            // Each epoch is one step, in which each rank has one batch of four.
            let x = device.uniform(&[8, 3], -1.0, 1.0, 1)?.slice(0, ..4 * ranks as isize)?;
            let optimizer = Optimizer::new(Sgd::new(0.0), &model.parameters())?;
            let loader = DataLoader::new(&Dataset::new(&x, &x)?, 4)?;
            let mut trainer = Trainer::new(model, optimizer, loader, |model: &BatchNorm, x, y| {
                model.forward(x)?.mse_loss(y, LossReduction::Mean)
            })?
            .epochs(2)
            .data_parallel(&world)?;
            block_on(trainer.fit())?;
            weights(&trainer.model)
        });
        all.into_iter().map(|one| one.expect("trained")).collect::<Vec<_>>()
    };
    let (alone, ranks) = (statistics(1), statistics(2));
    assert_eq!(ranks, [alone[0].clone(), alone[0].clone()]);
}
