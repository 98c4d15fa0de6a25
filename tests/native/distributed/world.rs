//! Tests the calls of a world.

use super::threads::run;
use pollster::block_on;
use std::time::Duration;
use warpweft::distributed::World;
use warpweft::error::Result;

/// The results of all calls on one rank.
type Answers = (Vec<f32>, Vec<u8>, Vec<Vec<u8>>, Vec<f32>);

fn answers(world: &World) -> Result<Answers> {
    let rank = world.rank();
    // All calls begin before the first result is awaited.
    let sums = world.all_reduce(vec![rank as f32, 1.0]);
    let first = world.broadcast(world.size() - 1, vec![rank as u8; 3]);
    let all = world.all_gather(vec![7; rank]);
    let part = world.reduce_scatter((0..world.size()).map(|n| (n * 10) as f32).collect());
    let barrier = world.barrier();
    block_on(async { Ok((sums.await?, first.await?, all.await?, part.await?, barrier.await?)) })
        .map(|(sums, first, all, part, ())| (sums, first, all, part))
}

#[test]
fn every_call_answers_on_every_rank() {
    for size in 1..=4 {
        let sum = (0..size).sum::<usize>() as f32;
        for (rank, got) in
            run(size, Duration::ZERO, |world| answers(&world)).into_iter().enumerate()
        {
            let want: Answers = (
                vec![sum, size as f32],
                vec![size as u8 - 1; 3],
                (0..size).map(|rank| vec![7; rank]).collect(),
                vec![(size * rank * 10) as f32],
            );
            assert_eq!(got.expect("answers"), want, "rank {rank} of {size}");
        }
    }
}

#[test]
fn a_failure_reaches_all_ranks_and_stays() {
    let errors = run(3, Duration::ZERO, |world| {
        block_on(world.barrier())?;
        if world.rank() == 1 {
            world.fail("the disk is full");
        }
        let first = block_on(world.all_reduce(vec![1.0])).expect_err("a rank failed");
        let second = block_on(world.barrier()).expect_err("it stays failed");
        assert_eq!(first, second);
        Ok(first.message().to_string())
    });
    for error in errors {
        let want = "world: all ranks must answer, but rank 1 failed: the disk is full";
        assert_eq!(error.expect("an error"), want);
    }
}

#[test]
fn wrong_arguments_are_refused() {
    let world = World::single();
    assert_eq!((world.rank(), world.size(), world.engine()), (0, 1, "single"));
    let error = block_on(world.broadcast(1, vec![1])).expect_err("no such rank");
    assert_eq!(error.message(), "broadcast: the rank must be less than 1, got 1");
    let errors = run(2, Duration::ZERO, |world| {
        let error = block_on(world.reduce_scatter(vec![1.0; 3])).expect_err("odd");
        Ok(error.message().to_string())
    });
    for error in errors {
        assert_eq!(error.expect("text"), "reduce_scatter: 2 ranks must divide the values, got 3");
    }
}
