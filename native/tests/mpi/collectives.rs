//! Tests of calls that succeed, with values that are computed without a world.

use crate::ranks::{run, Run};
use pollster::block_on;
use std::process::Command;
use warpweft_native::prelude::World;

/// Lengths with rests, and of several chunks.
const LENGTHS: [usize; 9] = [0, 1, 2, 7, 1000, 1 << 18, (1 << 18) + 1, 100_003, 3_000_001];
/// Of sums of rounded values, in units of the largest term.
const TOLERANCE: f64 = 1e-6;

/// Returns value number `i` of a rank.
fn value(rank: usize, i: usize) -> f32 {
    ((i * 31 + rank * 17) % 1009) as f32 * 0.37 - 150.0
}

fn values(rank: usize, len: usize) -> Vec<f32> {
    (0..len).map(|i| value(rank, i)).collect()
}

/// Returns a hash of bits, FNV-1a.
fn hash(values: &[f32]) -> u64 {
    let step =
        |hash: u64, value: &f32| (hash ^ u64::from(value.to_bits())).wrapping_mul(0x100_0000_01b3);
    values.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

fn check_sums(found: &[f32], start: usize, size: usize) {
    for (i, found) in found.iter().enumerate() {
        let want: f64 = (0..size).map(|rank| f64::from(value(rank, start + i))).sum();
        let error = (f64::from(*found) - want).abs();
        assert!(error <= TOLERANCE * 250.0 * size as f64, "value {i}: {found}, not {want}");
    }
}

/// Makes every call with all lengths. Prints hashes of all sums.
pub fn check_all(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    for len in LENGTHS {
        let sums = block_on(world.all_reduce(values(rank, len))).expect("sums");
        assert_eq!(sums.len(), len);
        check_sums(&sums, 0, size);
        println!("sums {len}: {:x}", hash(&sums));

        let part = block_on(world.reduce_scatter(values(rank, len * size))).expect("a part");
        assert_eq!(part.len(), len);
        check_sums(&part, rank * len, size);
        println!("part {len}: {:x}", hash(&part));

        for root in 0..size {
            let bytes =
                |rank: usize| (0..len).map(|i| (i * 7 + rank * 3) as u8).collect::<Vec<_>>();
            let found = block_on(world.broadcast(root, bytes(rank))).expect("bytes");
            assert!(found == bytes(root), "{len} bytes of rank {root}");
        }

        // Each rank gathers another number of bytes.
        let bytes =
            |rank: usize| (0..len / (rank + 1)).map(|i| (i + rank) as u8).collect::<Vec<_>>();
        let found = block_on(world.all_gather(bytes(rank))).expect("bytes");
        assert!(found == (0..size).map(bytes).collect::<Vec<_>>(), "{len} gathered bytes");
        block_on(world.barrier()).expect("all ranks");
    }
    let gathered = block_on(world.all_gather(vec![7; rank])).expect("bytes");
    assert_eq!(gathered, (0..size).map(|rank| vec![7; rank]).collect::<Vec<_>>());
}

/// Queues many calls before it awaits the first, and awaits the last call first.
pub fn check_queue(world: &World) {
    let (rank, size) = (world.rank(), world.size());
    let sums: Vec<_> =
        (0..50).map(|n| world.all_reduce(vec![(n * rank) as f32; n * 100])).collect();
    let barrier = world.barrier();
    let bytes: Vec<_> =
        (0..50).map(|n| world.broadcast(n % size, vec![(n + rank) as u8])).collect();
    block_on(barrier).expect("all ranks");
    for (n, bytes) in bytes.into_iter().enumerate().rev() {
        assert_eq!(block_on(bytes).expect("bytes"), [(n + n % size) as u8]);
    }
    let ranks: usize = (0..size).sum();
    for (n, sums) in sums.into_iter().enumerate().rev() {
        assert_eq!(block_on(sums).expect("sums"), vec![(n * ranks) as f32; n * 100]);
    }
    // A dropped result does not stop the call.
    drop(world.all_reduce(vec![1.0; 1000]));
    assert_eq!(block_on(world.all_reduce(vec![1.0])).expect("sums"), [size as f32]);
}

/// Returns the hashes that a rank printed.
fn hashes(run: &Run, rank: usize, kind: &str) -> Vec<String> {
    run.lines(rank).into_iter().filter(|line| line.starts_with(kind)).collect()
}

#[test]
fn calls_have_the_right_values_and_equal_bits() {
    for size in 1..=4 {
        let [first, second] = [0, 1].map(|_| run(size, "collectives", 60.0).succeeds());
        for rank in 0..size {
            let sums = hashes(&first, rank, "sums");
            assert_eq!(sums.len(), LENGTHS.len(), "{}", first.printed);
            assert_eq!(sums, hashes(&first, 0, "sums"), "rank {rank} of {size}");
            assert_eq!(sums, hashes(&second, rank, "sums"), "rank {rank} of {size} again");
            let parts = hashes(&first, rank, "part");
            assert_eq!(parts, hashes(&second, rank, "part"), "rank {rank} of {size} again");
        }
    }
}

#[test]
fn calls_run_in_order() {
    for size in [2, 3] {
        run(size, "queue", 60.0).succeeds();
    }
}

#[test]
fn ranks_are_counted() {
    for size in [1, 2, 4] {
        let run = run(size, "size", 60.0).succeeds();
        for rank in 0..run.size {
            let engine = if size == 1 { "single" } else { "mpi" };
            assert_eq!(run.line(rank, "is "), format!("{rank} of {size} by {engine}"));
        }
    }
}

#[test]
fn a_program_without_mpirun_is_a_single_rank() {
    let child = crate::ranks::child();
    let mut command = Command::new(&child[0]);
    for name in ["OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"] {
        command.env_remove(name);
    }
    let run = command.args(&child[1..]).env(crate::ranks::TASK, "size").output().expect("a child");
    let printed = String::from_utf8_lossy(&run.stdout);
    assert!(printed.contains("is 0 of 1 by single"), "{printed}");
}

#[test]
fn wrong_options_are_errors() {
    let child = crate::ranks::child();
    let mut command = Command::new(&child[0]);
    command.args(&child[1..]).env(crate::ranks::TASK, "size");
    for text in ["", "0", "-1", "soon", "inf", "1e300"] {
        let run = command.env(crate::ranks::TIMEOUT, text).output().expect("a child");
        let printed = String::from_utf8_lossy(&run.stderr);
        let must = "world: WARPWEFT_WORLD_TIMEOUT must be a positive number of seconds, got";
        assert!(printed.contains(&format!("{must} `{text}`")), "{printed}");
    }
    let run = command.env_remove(crate::ranks::TIMEOUT).env("PMI_SIZE", "x").output();
    let run = run.expect("a child");
    let printed = String::from_utf8_lossy(&run.stderr);
    assert!(printed.contains("world: PMI_SIZE must be a number of ranks, got `x`"), "{printed}");
}

#[test]
fn a_second_join_is_an_error() {
    let run = run(2, "twice", 60.0).succeeds();
    let must = "world: a process must join its ranks once";
    for rank in 0..2 {
        let text = run.line(rank, "again: ");
        assert_eq!(text, format!("{must}, got a second time; clone the first world"));
    }
}
