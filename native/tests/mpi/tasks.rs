//! The tasks of the ranks.

use crate::{collectives, training};
use pollster::block_on;
use std::process::exit;
use std::thread::{park, sleep};
use std::time::{Duration, Instant};
use warpweft_native::error::Result;
use warpweft_native::prelude::{World, WorldInit};

/// Performs the task of a rank.
pub fn run(task: &str) {
    let world = World::init().expect("a world");
    let is_faulty = world.rank() == 1;
    match task {
        "size" => println!("is {} of {} by {}", world.rank(), world.size(), world.engine()),
        _ if task.starts_with("trainer ") => finish(world, |world| training::perform(world, task)),
        "twice" => {
            let error = World::init().err().map(|error| error.to_string());
            println!("again: {}", error.unwrap_or_else(|| "joined".into()));
        }
        "collectives" => collectives::check_all(&world),
        "queue" => collectives::check_queue(&world),
        "speed" => speed(&world),
        "slow leave" => {
            // Longer than the timeout, which is for calls.
            block_on(world.barrier()).expect("all ranks");
            sleep(Duration::from_secs(if is_faulty { 2 } else { 0 }));
        }
        "train" => finish(world, train),
        "lengths" => finish(world, |world| {
            let len = if world.rank() == 1 { 5 } else { 1_000_000 };
            block_on(world.all_reduce(vec![1.0; len])).map(drop)
        }),
        "kinds" => finish(world, |world| match world.rank() {
            1 => block_on(world.barrier()),
            _ => block_on(world.all_reduce(vec![1.0; 1_000_000])).map(drop),
        }),
        // The other ranks compute, and make no calls.
        "compute" => {
            if is_faulty {
                sleep(Duration::from_millis(500));
                exit(3);
            }
            sleep(Duration::from_secs(30));
        }
        fault if is_faulty => finish(world, |world| be_faulty(world, fault)),
        _ => finish(world, train),
    }
}

/// Prints an error, and exits as a program does whose `main` returns it.
fn finish(world: World, work: impl FnOnce(&World) -> Result<()>) {
    let start = Instant::now();
    let result = work(&world);
    drop(world);
    if let Err(error) = result {
        eprintln!("after {:.1} s", start.elapsed().as_secs_f64());
        eprintln!("error: {error}");
        exit(1);
    }
    println!("done");
}

/// Makes calls for 30 s, with large values as in training.
fn train(world: &World) -> Result<()> {
    let start = Instant::now();
    loop {
        let own = f32::from(u8::from(start.elapsed() > Duration::from_secs(30)));
        let sums = block_on(world.all_reduce(vec![own; 1_000_000]))?;
        if sums[0] > 0.0 {
            return Ok(());
        }
        sleep(Duration::from_millis(5));
    }
}

fn be_faulty(world: &World, fault: &str) -> Result<()> {
    for _ in 0..20 {
        block_on(world.all_reduce(vec![0.0; 1_000_000]))?;
    }
    match fault {
        "error" => {
            world.fail("the disk is full");
            block_on(world.barrier())
        }
        "panic" => panic!("a test panics"),
        "exit" => exit(3),
        // SAFETY: these end or stop this process.
        "kill" => unsafe { ok(libc::raise(libc::SIGKILL)) },
        // SAFETY: as above.
        "stop" => unsafe { ok(libc::raise(libc::SIGSTOP)) },
        "hang" => loop {
            park();
        },
        "leave" => Ok(()),
        other => panic!("there is no task {other}"),
    }
}

fn ok(_: libc::c_int) -> Result<()> {
    Ok(())
}

/// Measures the reduction of 25 MB, and that of one value.
fn speed(world: &World) {
    for (len, count) in [(6_250_000, 20), (1, 1000)] {
        let mut values = vec![1.0; len];
        let mut times = Vec::new();
        for _ in 0..5 {
            block_on(world.barrier()).expect("all ranks");
            let start = Instant::now();
            for _ in 0..count {
                values = block_on(world.all_reduce(values)).expect("sums");
            }
            times.push(start.elapsed().as_secs_f64() * 1e3 / f64::from(count));
        }
        println!("{len} values: {times:.3?} ms");
    }
}
