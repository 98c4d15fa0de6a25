//! Measures data-parallel training, and estimates how it scales to more ranks. The estimate is a simulation: it is computed
//! from the time of a step and the network between two ranks.
//!
//!     cargo build --release -p warpweft-native --features mpi --example scaling
//!     mpirun -n 2 target/release/examples/scaling
//!
//! A single process measures only the time of its steps.
//!
//! Options: `--latency SECONDS --bandwidth BYTES_PER_SECOND` set the network instead.

use pollster::block_on;
use std::time::Instant;
use warpweft_native::distributed::{World, WorldInit};
use warpweft_native::nn::*;
use warpweft_native::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;
use warpweft_native::train::{DataLoader, DataParallelOptions, Dataset, Trainer};

/// The share of a step during which gradients can be summed: the backward pass, which takes twice as long as the forward pass.
const BACKWARD: f64 = 2.0 / 3.0;

/// The gradients of a model, and the time of its steps in seconds.
struct Measured {
    name: &'static str,
    /// The bytes of all gradients.
    bytes: f64,
    /// The time of a step of a rank that trains alone, while the other ranks do the same.
    alone: f64,
    /// The time of a step of ranks that train together.
    together: f64,
}

/// The network between two ranks: the time of a message without content, and the bytes per second.
#[derive(Clone, Copy)]
struct Network {
    latency: f64,
    bandwidth: f64,
}

impl Network {
    /// Returns the time of an all-reduce along a ring: each rank sends `2 (p - 1)` parts of `bytes / p`.
    fn ring(self, ranks: f64, bytes: f64) -> f64 {
        2.0 * (ranks - 1.0) * (self.latency + bytes / ranks / self.bandwidth)
    }

    /// Returns the time of an all-reduce along a binary tree: up to the root and down again.
    fn tree(self, ranks: f64, bytes: f64) -> f64 {
        2.0 * ranks.log2().ceil() * (self.latency + bytes / self.bandwidth)
    }
}

fn main() -> Result<()> {
    let world = World::init()?;
    let device = Device::new_blocking()?;
    let network = match (option("--latency"), option("--bandwidth")) {
        (Some(latency), Some(bandwidth)) => Some(Network { latency, bandwidth }),
        _ => measure_network(&world)?,
    };
    let models = [mlp(&device, &world)?, cnn(&device, &world)?, transformer(&device, &world)?];
    if world.rank() > 0 {
        return Ok(());
    }
    let ranks = world.size();
    println!("Measured, {ranks} ranks on {} ({})\n", device.info().name, device.info().backend);
    println!("| model | gradients | step alone | step together | examples per second |");
    println!("| --- | --- | --- | --- | --- |");
    for Measured { name, bytes, alone, together } in &models {
        let (megabytes, ratio) = (bytes / 1e6, alone / together);
        let (alone, together) = (alone * 1e3, together * 1e3);
        println!("| {name} | {megabytes:.1} MB | {alone:.1} ms | {together:.1} ms | {ratio:.2} |");
    }
    let ethernet = Network { latency: 30e-6, bandwidth: 1.25e9 };
    if let Some(network) = network {
        print(&models, "the network between two ranks", network);
    }
    print(&models, "assumed: Ethernet of 10 Gb/s", ethernet);
    Ok(())
}

/// Returns the number after an option.
fn option(name: &str) -> Option<f64> {
    let mut arguments = std::env::args().skip_while(|argument| argument != name);
    arguments.nth(1)?.parse().ok()
}

/// Prints the efficiency of many ranks: the time of a step alone divided by the time of a step together. Every bucket but the
/// last is summed while the backward pass computes the next ones.
fn print(models: &[Measured], what: &str, network: Network) {
    let (latency, bandwidth) = (network.latency * 1e6, network.bandwidth / 1e9);
    println!("\nSimulation, {what}: latency {latency:.1} us, bandwidth {bandwidth:.2} GB/s\n");
    println!("| model | gradients | step | ranks | ring | tree | kept, ring | kept, tree |");
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for Measured { name, bytes, alone, .. } in models {
        let buckets = (bytes / DataParallelOptions::default().bucket_bytes as f64).ceil();
        let hiding = BACKWARD * alone * (buckets - 1.0) / buckets;
        for ranks in [8.0, 64.0, 512.0] {
            let bucket = bytes / buckets;
            let times = [network.ring(ranks, bucket), network.tree(ranks, bucket)];
            let times = times.map(|time| time * buckets);
            let kept = times.map(|time| {
                let visible = (time - hiding).max(time / buckets);
                100.0 * alone / (alone + visible)
            });
            println!(
                "| {name} | {:.1} MB | {:.1} ms | {ranks} | {:.1} ms | {:.1} ms | {:.0} % | {:.0} % |",
                bytes / 1e6,
                alone * 1e3,
                times[0] * 1e3,
                times[1] * 1e3,
                kept[0],
                kept[1]
            );
        }
    }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Measures sums between two ranks: of one number for the latency, and of 32 MB for the bandwidth.
fn measure_network(world: &World) -> Result<Option<Network>> {
    if world.size() != 2 {
        return Ok(None);
    }
    let time = |count: usize, repeats: usize| {
        let mut times = Vec::new();
        for _ in 0..repeats {
            block_on(world.barrier())?;
            let begun = Instant::now();
            block_on(world.all_reduce(vec![1.0; count]))?;
            times.push(begun.elapsed().as_secs_f64());
        }
        Ok::<f64, Error>(median(times))
    };
    // Two ranks send two messages each: `2 (p - 1)`.
    let latency = time(1, 200)? / 2.0;
    let bytes = (8 << 20) * 4;
    let bandwidth = bytes as f64 / (time(8 << 20, 20)? - 2.0 * latency);
    Ok(Some(Network { latency, bandwidth }))
}

/// Measures steps of a model with a batch: alone and together in turn, in blocks of `steps`.
fn measure<M: Module + 'static>(
    name: &'static str,
    world: &World,
    steps: usize,
    (x, y): (&Tensor, &Tensor),
    model: impl Fn() -> Result<M>,
    loss: fn(&M, &Tensor, &Tensor) -> Result<Tensor>,
) -> Result<Measured> {
    let trainer = |world: &World| {
        let model = model()?;
        let optimizer = Optimizer::new(Adam::new(1e-4), &model.parameters())?;
        let loader = DataLoader::new(&Dataset::new(x, y)?, x.shape()[0])?;
        Trainer::new(model, optimizer, loader, loss)?.data_parallel(world)
    };
    let mut trainers = [trainer(&World::single())?, trainer(world)?];
    let mut times = [Vec::new(), Vec::new()];
    for block in 0..6 {
        for (trainer, times) in trainers.iter_mut().zip(&mut times) {
            block_on(world.barrier())?;
            let begun = Instant::now();
            for _ in 0..steps {
                block_on(trainer.step(x, y))?;
            }
            x.device().synchronize_blocking()?;
            // The first block compiles kernels.
            if block > 0 {
                times.push(begun.elapsed().as_secs_f64() / steps as f64);
            }
        }
    }
    let bytes = trainers[0].model.parameter_count() as f64 * 4.0;
    let [alone, together] = times.map(median);
    Ok(Measured { name, bytes, alone, together })
}

/// Four layers of 512, 2,048 examples.
fn mlp(device: &Device, world: &World) -> Result<Measured> {
    let model = || {
        let generator = Generator::new(device, 0);
        let mut model = Sequential::new();
        for _ in 0..4 {
            model = model.push(Linear::new(&generator, 512, 512)?).push(|x: &Tensor| Ok(x.relu()));
        }
        Ok(model)
    };
    let x = device.uniform(&[2048, 512], 0.0, 1.0, 1)?;
    x.run()?;
    measure("MLP", world, 5, (&x, &x), model, |model, x, y| {
        model.forward(x)?.mse_loss(y, LossReduction::Mean)
    })
}

/// Four convolutions of 3 x 3 on 32 images of 32 x 32.
fn cnn(device: &Device, world: &World) -> Result<Measured> {
    let model = || {
        let generator = Generator::new(device, 0);
        let same = ConvOptions { padding: 1.into(), ..ConvOptions::default() };
        let mut model = Sequential::new();
        for (inputs, outputs) in [(3, 32), (32, 64), (64, 128), (128, 128)] {
            model = model
                .push(Conv2d::new(&generator, inputs, outputs, [3, 3], same)?)
                .push(|x: &Tensor| Ok(x.relu()))
                .push(|x: &Tensor| x.max_pool(PoolOptions::new([2, 2])));
        }
        Ok(model.push(|x: &Tensor| x.flatten(1..)).push(Linear::new(&generator, 512, 10)?))
    };
    let x = device.uniform(&[32, 3, 32, 32], 0.0, 1.0, 1)?;
    let y = device.random_bits(&[32], 2)?.remainder(10)?.cast(DType::I32)?;
    x.run()?;
    measure("CNN", world, 10, (&x, &y), model, |model, x, y| {
        model.forward(x)?.cross_entropy(y, CrossEntropyOptions::default())
    })
}

struct Transformer {
    embedding: Embedding,
    layers: Vec<TransformerEncoderLayer>,
    head: Linear,
}

impl Module for Transformer {
    fn members(&self, members: &mut Members) {
        members.child("embedding", &self.embedding).child("head", &self.head);
        for (n, layer) in self.layers.iter().enumerate() {
            members.child(&format!("layers.{n}"), layer);
        }
    }
}

/// Four layers of width 256 on 8 sequences of 128 tokens, of 1,024 kinds.
fn transformer(device: &Device, world: &World) -> Result<Measured> {
    let options = TransformerOptions { dim_feedforward: 1024, ..TransformerOptions::default() };
    let model = || {
        let generator = Generator::new(device, 0);
        Ok(Transformer {
            embedding: Embedding::new(&generator, 1024, 256)?,
            layers: (0..4)
                .map(|_| TransformerEncoderLayer::new(&generator, 256, 4, options))
                .collect::<Result<_>>()?,
            head: Linear::new(&generator, 256, 1024)?,
        })
    };
    let x = device.random_bits(&[8, 128], 1)?.remainder(1024)?.cast(DType::I32)?;
    x.run()?;
    measure("transformer", world, 5, (&x, &x), model, |model, x, y| {
        let causal = AttentionOptions { is_causal: true, ..AttentionOptions::default() };
        let mut hidden = model.embedding.forward(x)?;
        for layer in &model.layers {
            hidden = layer.run(&hidden, causal)?;
        }
        let scores = model.head.forward(&hidden)?.permute(&[0, 2, 1])?;
        scores.cross_entropy(y, CrossEntropyOptions::default())
    })
}
