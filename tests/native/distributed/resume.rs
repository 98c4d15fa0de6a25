//! Tests that checkpoints continue on other numbers of ranks.

use super::threads::run;
use super::{
    adam, alone, assert_near, finished, joined, loader, open, sgd, trainer, Task, Trained,
};
use crate::suite::Place;
use pollster::block_on;
use std::collections::BTreeMap;
use std::time::Duration;
use warpweft::error::Result;
use warpweft::nn::Sequential;
use warpweft::optim::Optimizer;
use warpweft::tensor::Tensor;
use warpweft::train::Batches;

/// Trains for `steps` on `ranks` ranks from a checkpoint, if there is one. Returns the new checkpoint of rank 0, and the state.
fn go_on(task: Task, ranks: usize, from: Option<&[u8]>, steps: usize) -> (Vec<u8>, Trained) {
    let results = run(ranks, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let mut trainer = joined(&device, task, &world, world.rank() as u32)?.epochs(1000);
        if let Some(file) = from {
            block_on(trainer.load(file))?;
        }
        for _ in 0..steps {
            block_on(trainer.next_step())?;
        }
        Ok((block_on(trainer.save(&BTreeMap::new()))?, finished(&trainer)?))
    });
    let mut all: Vec<(Vec<u8>, Trained)> =
        results.into_iter().collect::<Result<_>>().unwrap_or_else(|error| panic!("{error}"));
    for (file, _) in &all[1..] {
        assert!(*file == all[0].0, "the files of the ranks differ");
    }
    all.swap_remove(0)
}

/// A checkpoint from the middle of an epoch continues on other numbers of ranks, at the next example.
#[test]
fn checkpoints_continue_on_other_numbers_of_ranks() {
    // The batch size of a rank stays 4, so an epoch has 24 batches.
    let of = |ranks| Task { batch: 4 * ranks, ..Task::default() };
    for plan in [[(4, 3), (2, 4), (1, 4)], [(1, 5), (4, 4), (3, 1)], [(2, 6), (3, 2), (2, 3)]] {
        let mut file = None;
        let mut got = None;
        for (ranks, steps) in plan {
            let (saved, state) = go_on(of(ranks), ranks, file.as_deref(), steps);
            (file, got) = (Some(saved), Some(state));
        }
        let want = by_hand(of(1), &plan).expect("trained");
        assert_near(&format!("{plan:?}"), &got.expect("trained"), &want);
    }
}

/// Trains one epoch in one process, on joined batches. `plan` has numbers of ranks and steps.
fn by_hand(task: Task, plan: &[(usize, usize)]) -> Result<Trained> {
    let device = open(Place::Cpu)?;
    let mut trainer = trainer(&device, task, 1, 0)?;
    let mut batches = loader(&device, task)?.epoch(0)?;
    for &(ranks, steps) in plan {
        for _ in 0..steps {
            let group: Vec<(Tensor, Tensor)> =
                batches.by_ref().take(ranks).collect::<Result<_>>()?;
            let (x, y): (Vec<Tensor>, Vec<Tensor>) = group.into_iter().unzip();
            block_on(trainer.step(&Tensor::concat(&x, 0)?, &Tensor::concat(&y, 0)?))?;
        }
    }
    assert!(batches.next().is_none(), "the plan must be of one epoch");
    block_on(trainer.end_epoch())?;
    finished(&trainer)
}

/// Random numbers of ranks, batches, buckets and examples, with a checkpoint wherever the number of ranks changes.
#[test]
fn random_plans_train_as_one_process() {
    let mut state = 1u32;
    let mut below = |most: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize % most
    };
    for _ in 0..12 {
        let (examples, batch) = (1 + below(60), 1 + below(9));
        let bucket = 4 << below(10);
        let optimizer: fn(&Sequential) -> Result<Optimizer> =
            if below(2) == 0 { adam } else { sgd };
        let of = |ranks: usize| Task {
            examples,
            batch: batch * ranks,
            bucket,
            optimizer,
            ..Task::default()
        };
        let (mut plan, mut left) = (Vec::new(), examples.div_ceil(batch));
        while left > 0 {
            let ranks = 1 + below(4);
            let steps = 1 + below(left.div_ceil(ranks));
            left = left.saturating_sub(ranks * steps);
            plan.push((ranks, steps));
        }
        let what = format!("{examples} examples, batches of {batch}, {bucket} bytes, {plan:?}");
        let (mut file, mut got) = (None, None);
        for &(ranks, steps) in &plan {
            let (saved, state) = go_on(of(ranks), ranks, file.as_deref(), steps);
            (file, got) = (Some(saved), Some(state));
        }
        let want = by_hand(of(1), &plan).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_near(&what, &got.expect("trained"), &want);
    }
}

/// A checkpoint from the end of an epoch also continues with batches of another size.
#[test]
fn epochs_continue_with_the_same_joined_batch() {
    let task = Task::default();
    let want = alone(Place::Cpu, task, 18).expect("trained");
    for ranks in [[4, 2, 1], [1, 4, 2], [2, 2, 4]] {
        let (first, _) = go_on(task, ranks[0], None, 6);
        let (second, _) = go_on(task, ranks[1], Some(&first), 6);
        let (_, got) = go_on(task, ranks[2], Some(&second), 6);
        assert_near(&format!("{ranks:?}"), &got, &want);
    }
}

/// Ranks that load different files are refused.
#[test]
fn different_checkpoints_are_refused() {
    let (one, _) = go_on(Task::default(), 1, None, 3);
    let (other, _) = go_on(Task::default(), 1, None, 4);
    let results = run(2, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let mut trainer = joined(&device, Task::default(), &world, 0)?;
        let file = if world.rank() == 0 { &one } else { &other };
        Ok(block_on(trainer.load(file)).expect_err("they differ").message().to_string())
    });
    for message in results {
        let message = message.expect("a message");
        assert!(
            message.starts_with("train: all ranks must be alike, got `a checkpoint of "),
            "{message}"
        );
    }
}
