//! Tests of data-parallel training, on the CPU and on a software GPU.

use crate::network::{Link, Network};
use crate::ranks::{arguments, child, run, Started};
use pollster::block_on;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use warpweft_native::files;
use warpweft_native::nn::*;
use warpweft_native::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;
use warpweft_native::train::metrics::Accuracy;
use warpweft_native::train::{DataLoader, DataParallelOptions, Dataset, Trainer};

/// The environment variable with the folder of a test's files.
const FOLDER: &str = "WARPWEFT_TEST_FOLDER";

/// Performs a task of these tests: its name and the device.
pub fn perform(world: &World, task: &str) -> Result<()> {
    let mut words = task.split(' ').skip(1);
    let mut next = || words.next().unwrap_or_default();
    let (name, device) = (next(), next());
    let device = Device::with_blocking(device.parse().expect("a preference"))?;
    match name {
        "weights" => println!("weights: {}", hex(&weights(&device, world, 100)?)),
        "die" => die(&device, world),
        "time" => time(&device, world, next().parse().expect("a number of examples"))?,
        "overlap" => overlap(),
        _ => panic!("no task {task}"),
    }
    Ok(())
}

fn classifier(device: &Device, world: &World, batch: usize) -> Result<Trainer<Sequential>> {
    let x = device.uniform(&[90, 6], -1.0, 1.0, 3)?;
    let data = Dataset::new(&x, &x.slice(1, ..3)?.argmax(1)?)?;
    // The ranks begin with different weights. Those of rank 0 count.
    let generator = Generator::new(device, world.rank() as u32);
    let model = Sequential::new()
        .push(Linear::new(&generator, 6, 32)?)
        .push(|x: &Tensor| Ok(x.tanh()))
        .push(Linear::new(&generator, 32, 3)?);
    let optimizer = Optimizer::new(Adam::new(0.01), &model.parameters())?.clip_norm(1.0);
    let loader = DataLoader::new(&data, batch / world.size())?.shuffle(5);
    let validation = DataLoader::new(&data, 7)?;
    Trainer::new(model, optimizer, loader, |model, x, y| {
        let scores = model.forward(x)?;
        Ok((scores.cross_entropy(y, CrossEntropyOptions::default())?, scores))
    })?
    .validate_on(validation)
    .metric(Accuracy::new())
    .epochs(1000)
    .data_parallel_with(world, DataParallelOptions { bucket_bytes: 300 })
}

fn values(model: &Sequential) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    for value in model.state_dict().values() {
        all.extend(value.read_blocking::<f32>()?);
    }
    Ok(all)
}

/// Trains for some steps, and returns the weights and the last epoch's numbers.
fn weights(device: &Device, world: &World, steps: usize) -> Result<Vec<f32>> {
    let mut trainer = classifier(device, world, 16)?;
    for _ in 0..steps {
        trainer.next_step_blocking()?;
    }
    let mut all = values(&trainer.model)?;
    let epoch = trainer.history().last().expect("epochs");
    let scores = epoch.validation.as_ref().expect("validated");
    all.extend([epoch.loss, scores.loss, scores.metrics[0].1].map(|number| number as f32));
    Ok(all)
}

fn hex(values: &[f32]) -> String {
    values.iter().map(|value| format!("{:08x}", value.to_bits())).collect()
}

fn unhex(text: &str) -> Vec<f32> {
    let word = |at: usize| u32::from_str_radix(&text[at..at + 8], 16).expect("hexadecimal");
    (0..text.len()).step_by(8).map(|at| f32::from_bits(word(at))).collect()
}

/// Saves a checkpoint after each epoch, until rank 1 is killed.
fn die(device: &Device, world: &World) {
    let file = PathBuf::from(std::env::var_os(FOLDER).expect("a folder")).join("checkpoint");
    let mut trainer = classifier(device, world, 16).expect("a trainer");
    loop {
        match trainer.next_step_blocking() {
            Ok(Some(step)) if step.ended.is_some() => {
                files::save_checkpoint(&file, &trainer, &BTreeMap::new()).expect("saved");
                if step.epoch == 3 && world.rank() == 1 {
                    // SAFETY: it ends this process.
                    unsafe { libc::kill(std::process::id() as libc::pid_t, libc::SIGKILL) };
                }
            }
            Ok(_) => {}
            Err(error) => {
                eprintln!("error: {error}");
                std::process::exit(1);
            }
        }
    }
}

#[test]
fn processes_train_as_one_process_on_the_joined_batch() {
    for name in ["cpu", "software"] {
        let device = match Device::with_blocking(name.parse().expect("a preference")) {
            Ok(device) => device,
            Err(error) => {
                let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
                assert!(name == "cpu" || !required.contains("wgpu"), "{name}: {error}");
                println!("SKIPPED: no {name} device: {error}");
                continue;
            }
        };
        let want = weights(&device, &World::single(), 100).expect("trained");
        // A software GPU takes seconds for each process.
        for size in if name == "cpu" { vec![2, 4] } else { vec![2] } {
            let ran = run(size, &format!("trainer weights {name}"), 60.0).succeeds();
            let lines: Vec<String> = (0..size).map(|rank| ran.line(rank, "weights: ")).collect();
            assert!(lines.iter().all(|line| *line == lines[0]), "{name}, {size}: ranks differ");
            let got = unhex(&lines[0]);
            let square = |x: f32| f64::from(x) * f64::from(x);
            let apart: f64 = got.iter().zip(&want).map(|(a, b)| square(a - b)).sum();
            let length: f64 = want.iter().map(|x| square(*x)).sum();
            assert!(got.len() == want.len() && (apart / length).sqrt() < 1e-5, "{apart} {length}");
            if size == 4 {
                let again = run(size, &format!("trainer weights {name}"), 60.0).succeeds();
                assert_eq!(again.line(0, "weights: "), lines[0], "{name}");
            }
        }
    }
}

#[test]
fn a_killed_rank_leaves_the_last_checkpoint() {
    let folder = std::env::temp_dir().join(format!("warpweft-die-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    // SAFETY: the other tests read no such variable.
    unsafe { std::env::set_var(FOLDER, &folder) };
    let ran = run(3, "trainer die cpu", 60.0);
    assert!(!ran.status.success() && ran.time < Duration::from_secs(15), "{}", ran.printed);
    let device = Device::with_blocking(Preference::Cpu).expect("a device");
    let mut trainer = classifier(&device, &World::single(), 5).expect("a trainer");
    files::load_checkpoint(folder.join("checkpoint"), &mut trainer).expect("a checkpoint");
    assert!(trainer.epoch() >= 3, "{}", trainer.epoch());
    trainer.next_step_blocking().expect("it trains on");
    assert_eq!(
        std::fs::read_dir(&folder).expect("a folder").count(),
        1,
        "no temporary file is left"
    );
    std::fs::remove_dir_all(&folder).expect("removed");
    println!("{}", ran.printed);
}

/// The width of the layers of the network that is timed.
const WIDTH: usize = 512;
/// The number of its layers. Each is a bucket.
const LAYERS: usize = 4;

/// Returns the median time of a step in milliseconds.
fn step_time(device: &Device, world: &World, examples: usize) -> Result<f64> {
    let generator = Generator::new(device, 0);
    let mut model = Sequential::new();
    for _ in 0..LAYERS {
        let layer = Linear::new(&generator, WIDTH, WIDTH)?;
        model = model.push(layer).push(|x: &Tensor| Ok(x.relu()));
    }
    let optimizer = Optimizer::new(Adam::new(1e-4), &model.parameters())?;
    let x = device.uniform(&[examples, WIDTH], -1.0, 1.0, 1)?;
    let data = Dataset::new(&x, &x)?;
    let forward =
        |model: &Sequential, x: &_, y: &_| model.forward(x)?.mse_loss(y, LossReduction::Mean);
    let loader = DataLoader::new(&data, examples)?;
    let options = DataParallelOptions { bucket_bytes: WIDTH * (WIDTH + 1) * 4 };
    let mut trainer = Trainer::new(model, optimizer, loader, forward)?
        .epochs(1000)
        .data_parallel_with(world, options)?;
    let mut times = Vec::new();
    for _ in 0..12 {
        let begun = Instant::now();
        block_on(trainer.step(&x, &x))?;
        device.synchronize_blocking()?;
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    Ok(median(times))
}

fn median(mut times: Vec<f64>) -> f64 {
    // The first steps compile kernels.
    times.drain(..3);
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

/// Prints the time of a step alone, of a step with the other ranks, and of the sums of a step without computing.
fn time(device: &Device, world: &World, examples: usize) -> Result<()> {
    let alone = step_time(device, &World::single(), examples)?;
    let together = step_time(device, world, examples)?;
    let mut times = Vec::new();
    for _ in 0..12 {
        block_on(world.barrier())?;
        let begun = Instant::now();
        block_on(world.all_gather(vec![0; 8]))?;
        for _ in 0..LAYERS {
            block_on(world.all_reduce(vec![1.0; WIDTH * (WIDTH + 1)]))?;
        }
        times.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    println!("time: {alone:.1} {together:.1} {:.1}", median(times));
    Ok(())
}

/// Prints how much of the time of the sums is hidden, between two processes and on a network with a delay of 20 ms. Sums can
/// only be hidden by a backward pass that takes as long. This is not a test. Run it with
/// `WARPWEFT_TEST_MPI="trainer overlap cpu"`, in a release build with `--exact child --nocapture`.
fn overlap() {
    let print = |what: &str, line: String| {
        let times: Vec<f64> = line.split(' ').map(|time| time.parse().expect("a time")).collect();
        let [alone, together, sums] = times[..] else { panic!("three times, got {line}") };
        let hidden = 100.0 * (1.0 - (together - alone) / sums).max(0.0);
        println!("| {what} | {alone} ms | {together} ms | {sums} ms | {hidden:.0} % |");
    };
    println!("| | step alone | step together | sums without computing | hidden |");
    for examples in [2048, 8192, 16384] {
        let task = format!("trainer time cpu {examples}");
        let near = run(2, &task, 60.0).succeeds();
        print(&format!("{examples} examples, shared memory"), near.line(0, "time: "));
        let link = Link { delay: Duration::from_millis(20), loss: 0 };
        let Some(network) = Network::or_skip(link) else { return };
        let started = Started::start(network.mpirun(&arguments(&task, 60.0), &child()));
        let far = started.end(2).succeeds();
        print(&format!("{examples} examples, a delay of 20 ms"), far.line(0, "time: "));
    }
}
