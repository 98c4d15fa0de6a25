//! Tests programs that end while a device still computes. Dropping the device waits, so they end without a crash.

use crate::suite::{absent, Place};
use pollster::block_on;
use std::env::{current_exe, var};
use std::process::{exit, Command};
use std::thread;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

/// The environment variable that tells a child process how to drop its device.
const HOW: &str = "WARPWEFT_TEST_EXIT";
/// The ways to drop the device.
const WAYS: [&str; 4] = ["device last", "a tensor last", "a read last", "in a thread"];
/// The number of child processes for each way.
const RUNS: usize = 50;

/// Submits kernels that are all different. A software GPU compiles one after the other on a separate thread.
fn work(device: &Device) -> Result<Tensor> {
    let mut x = device.uniform(&[64, 64], -0.1, 0.1, 1)?;
    for n in 0..2 {
        x = x.matmul(&x)?;
        for _ in 0..n {
            x = x.tanh().mul(&x)?.sin();
        }
        x.run()?;
    }
    Ok(x)
}

/// The child process that the test below starts.
#[test]
fn child() {
    let Ok(how) = var(HOW) else { return };
    let device = Place::Wgpu.open().expect("the parent found it");
    let x = work(&device).expect("it is submitted");
    match &how[..] {
        "device last" => drop((x, device)),
        "a tensor last" => {
            drop(device);
            drop(x);
        }
        // The read is submitted, but not awaited.
        "a read last" => {
            let read = x.read::<f32>();
            drop((x, device));
            drop(read);
        }
        // Another thread drops the last handle.
        "in a thread" => {
            let other = thread::spawn(move || drop((x, device)));
            other.join().expect("it does not panic");
        }
        how => panic!("{HOW}={how}"),
    }
    // Ends as a return from `main` does: the registered exit handlers run.
    exit(0);
}

/// Runs a child process. Returns its failure, if any.
fn failure(how: &str) -> Option<String> {
    let mut command = Command::new(current_exe().expect("a test knows where it is"));
    command.args(["--exact", "exit::child", "--nocapture", "--test-threads=1"]);
    let output = command.env(HOW, how).output().expect("it starts");
    let error = String::from_utf8_lossy(&output.stderr).trim().to_string();
    (!output.status.success()).then(|| format!("{}: {error}", output.status))
}

#[test]
fn a_program_that_drops_a_device_at_work_ends_well() {
    match Place::Wgpu.open() {
        Ok(device) => drop(block_on(device.synchronize())),
        Err(error) => return absent(Place::Wgpu, "programs that end", &error),
    }
    let fail = |how: &str| -> Vec<String> { (0..RUNS).filter_map(|_| failure(how)).collect() };
    thread::scope(|threads| {
        let ways = WAYS.map(|how| (how, threads.spawn(move || fail(how))));
        for (how, way) in ways {
            let failed = way.join().expect("it does not panic");
            println!("{how}: {} of {RUNS} failed", failed.len());
            assert!(failed.is_empty(), "{how}: {} of {RUNS} failed: {failed:?}", failed.len());
        }
    });
}
