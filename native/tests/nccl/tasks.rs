//! The tasks of child processes, whose ranks call the mock of NCCL.

use crate::threads;
use pollster::block_on;
use std::time::{Duration, Instant};
use warpweft_native::distributed::{nccl_with_timeout, World};
use warpweft_native::error::Result;

/// The environment variable with the name of a file for the errors of the ranks, one line for each.
pub const ERRORS: &str = "WARPWEFT_TEST_ERRORS";
/// The bytes of a piece.
const PIECE: usize = 32 << 20;
/// The time for which ranks wait. Failures must be noticed long before.
const TIMEOUT: Duration = Duration::from_secs(40);

/// Runs a task, which is a name and a number of ranks, and writes the errors of the ranks.
pub fn run(task: &str) {
    let (name, size) = task.split_once(' ').expect("a name and a number");
    let size = size.parse().expect("a number");
    let (work, timeout): (fn(&World) -> Result<()>, _) = match name {
        "values" => (values, TIMEOUT),
        "pieces" => (pieces, TIMEOUT),
        "empty" => (empty, TIMEOUT),
        "all" => (all, TIMEOUT),
        "reduce" => (reduce, TIMEOUT),
        "fail" => (fail, TIMEOUT),
        "early" => (early, TIMEOUT),
        "lengths" => (lengths, TIMEOUT),
        "short" => (reduce, Duration::from_secs(1)),
        "late" => (late, Duration::from_secs(1)),
        task => panic!("there is no task {task}"),
    };
    let start = Instant::now();
    let results = threads::run(size, Duration::ZERO, |below| {
        let world = nccl_with_timeout(&below, below.rank(), timeout)?;
        let engine = if size == 1 { "single" } else { "nccl" };
        assert_eq!((world.engine(), world.size()), (engine, size));
        assert_eq!(world.rank(), below.rank());
        let result = work(&world);
        if result.is_err() {
            assert_eq!(block_on(world.barrier()), result, "later calls return the first error");
        }
        result
    });
    assert!(start.elapsed() < TIMEOUT / 2, "a failure is noticed before the timeout");
    let error = |result: &Result<()>| match result {
        Ok(()) => "\n".to_string(),
        Err(error) => format!("{error:?}\n"),
    };
    let path = std::env::var_os(ERRORS).expect("the name of a file");
    std::fs::write(path, results.iter().map(error).collect::<String>()).expect("written");
}

/// Returns a small whole number, so that sums are exact.
fn value(rank: usize, n: usize) -> f32 {
    ((n * 7 + rank * 3 + n / 1000) % 11) as f32 - 4.0
}

fn floats(rank: usize, len: usize) -> Vec<f32> {
    (0..len).map(|n| value(rank, n)).collect()
}

fn sums(size: usize, len: usize) -> Vec<f32> {
    (0..len).map(|n| (0..size).map(|rank| value(rank, n)).sum()).collect()
}

fn bytes(rank: usize, len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 5 + n / 256 + rank * 31) as u8).collect()
}

/// Compares without printing all values.
fn same<T: PartialEq>(got: &[T], want: &[T], what: &str) {
    let first = got.iter().zip(want).position(|(got, want)| got != want);
    assert_eq!((got.len(), first), (want.len(), None), "{what}");
}

/// Calls each collective, with this many bytes of the rank, or a multiple of floats.
fn collectives(world: &World, len: usize) -> Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let count = len.div_ceil(4);
    let got = block_on(world.all_reduce(floats(rank, count)))?;
    same(&got, &sums(size, count), "all_reduce");
    let root = size - 1;
    let got = block_on(world.broadcast(root, bytes(rank, len)))?;
    same(&got, &bytes(root, len), "broadcast");
    // Each rank passes one byte less than the rank before it. The parts of a piece are smaller than a piece.
    let len = len / size + 3;
    let got = block_on(world.all_gather(bytes(rank, len.saturating_sub(rank))))?;
    for (rank, got) in got.iter().enumerate() {
        same(got, &bytes(rank, len.saturating_sub(rank)), "all_gather");
    }
    let part = len.div_ceil(4);
    let got = block_on(world.reduce_scatter(floats(rank, part * size)))?;
    same(&got, &sums(size, part * size)[rank * part..][..part], "reduce_scatter");
    block_on(world.barrier())
}

fn values(world: &World) -> Result<()> {
    [1, 100, 5003].iter().try_for_each(|&len| collectives(world, len))
}

fn pieces(world: &World) -> Result<()> {
    let (rank, size) = (world.rank(), world.size());
    let count = PIECE / 4 + 5;
    let got = block_on(world.all_reduce(floats(rank, count)))?;
    same(&got, &sums(size, count), "all_reduce");
    let got = block_on(world.broadcast(1, bytes(rank, PIECE + 3)))?;
    same(&got, &bytes(1, PIECE + 3), "broadcast");
    let len = PIECE / size + 7;
    let got = block_on(world.all_gather(bytes(rank, len)))?;
    for (rank, got) in got.iter().enumerate() {
        same(got, &bytes(rank, len), "all_gather");
    }
    let part = PIECE / 4 / size + 3;
    let got = block_on(world.reduce_scatter(floats(rank, part * size)))?;
    same(&got, &sums(size, part * size)[rank * part..][..part], "reduce_scatter");
    Ok(())
}

fn empty(world: &World) -> Result<()> {
    assert_eq!(block_on(world.all_reduce(Vec::new()))?, [0.0; 0]);
    assert_eq!(block_on(world.broadcast(0, Vec::new()))?, [0; 0]);
    assert_eq!(block_on(world.all_gather(Vec::new()))?, vec![Vec::<u8>::new(); world.size()]);
    assert_eq!(block_on(world.reduce_scatter(Vec::new()))?, [0.0; 0]);
    Ok(())
}

/// Calls each collective several times.
fn all(world: &World) -> Result<()> {
    (0..3).try_for_each(|_| collectives(world, 100))
}

fn reduce(world: &World) -> Result<()> {
    (0..5).try_for_each(|_| block_on(world.all_reduce(vec![1.0; 9])).map(drop))
}

/// Makes the second call of rank 1 after the timeout of rank 0.
fn late(world: &World) -> Result<()> {
    block_on(world.barrier())?;
    if world.rank() == 1 {
        std::thread::sleep(Duration::from_secs(2));
    }
    block_on(world.all_reduce(vec![1.0; 9])).map(drop)
}

/// Fails on rank 1, while rank 0 waits in a call.
fn fail(world: &World) -> Result<()> {
    block_on(world.barrier())?;
    if world.rank() == 1 {
        std::thread::sleep(Duration::from_millis(300));
        world.fail("the data are missing");
    }
    block_on(world.all_reduce(vec![1.0; 9])).map(drop)
}

/// Makes one call less on rank 1.
fn early(world: &World) -> Result<()> {
    block_on(world.barrier())?;
    match world.rank() {
        1 => Ok(()),
        _ => block_on(world.barrier()),
    }
}

fn lengths(world: &World) -> Result<()> {
    let len = 4 + world.rank();
    block_on(world.all_reduce(vec![1.0; len])).map(drop)
}
