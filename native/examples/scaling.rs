//! Estimates how data-parallel training scales to many ranks. This is a simulation: it measures the time of a step and the
//! network between two ranks, and computes the rest.
//!
//!     cargo run --release -p warpweft-native --example scaling
//!     mpirun -n 2 target/release/examples/scaling        # built with --features mpi, measures the network, too
//!
//! Options: `--latency SECONDS --bandwidth BYTES_PER_SECOND` set the network instead.

use pollster::block_on;
use std::time::Instant;
use warpweft_native::distributed::{World, WorldInit};
use warpweft_native::nn::*;
use warpweft_native::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;

/// The share of a step during which gradients can be summed: the backward pass, which takes twice as long as the forward pass.
const BACKWARD: f64 = 2.0 / 3.0;

/// The gradients and the time of a step of one rank alone.
struct Measured {
    name: &'static str,
    /// The bytes of all gradients.
    bytes: f64,
    seconds: f64,
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
    let models = [mlp(&device)?, cnn(&device)?, transformer(&device)?];
    if world.rank() > 0 {
        return Ok(());
    }
    println!("Steps on {} ({}).", device.info().name, device.info().backend);
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

/// Prints the efficiency of many ranks: the time of a step alone divided by the time of a step together.
fn print(models: &[Measured], what: &str, network: Network) {
    let (latency, bandwidth) = (network.latency * 1e6, network.bandwidth / 1e9);
    println!("\nSimulation, {what}: latency {latency:.1} us, bandwidth {bandwidth:.2} GB/s\n");
    println!(
        "| model | gradients | step | ranks | ring | tree | samples of one rank, ring | tree |"
    );
    println!("| --- | --- | --- | --- | --- | --- | --- | --- |");
    for Measured { name, bytes, seconds } in models {
        for ranks in [8.0, 64.0, 512.0] {
            let times = [network.ring(ranks, *bytes), network.tree(ranks, *bytes)];
            let kept = times.map(|time| {
                let visible = (time - BACKWARD * seconds).max(0.0);
                100.0 * seconds / (seconds + visible)
            });
            println!(
                "| {name} | {:.1} MB | {:.1} ms | {ranks} | {:.1} ms | {:.1} ms | {:.0} % | {:.0} % |",
                bytes / 1e6,
                seconds * 1e3,
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

/// Measures steps of a model.
fn measure(
    name: &'static str,
    device: &Device,
    parameters: &[Variable],
    loss: impl Fn() -> Result<Tensor>,
) -> Result<Measured> {
    let mut optimizer = Optimizer::new(Adam::new(1e-4), parameters)?;
    let mut times = Vec::new();
    for step in 0..13 {
        let begun = Instant::now();
        optimizer.minimize(&loss()?)?;
        device.synchronize_blocking()?;
        // The first steps compile kernels.
        if step > 2 {
            times.push(begun.elapsed().as_secs_f64());
        }
    }
    let count: usize = parameters.iter().map(|x| x.shape().iter().product::<usize>()).sum();
    Ok(Measured { name, bytes: count as f64 * 4.0, seconds: median(times) })
}

/// 784-512-512-10, 128 examples.
fn mlp(device: &Device) -> Result<Measured> {
    let generator = Generator::new(device, 0);
    let model = Sequential::new()
        .push(Linear::new(&generator, 784, 512)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Linear::new(&generator, 512, 512)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Linear::new(&generator, 512, 10)?);
    let x = device.uniform(&[128, 784], 0.0, 1.0, 1)?;
    let y = device.random_bits(&[128], 2)?.remainder(10)?.cast(DType::I32)?;
    x.run()?;
    measure("MLP", device, &model.parameters(), || {
        model.forward(&x)?.cross_entropy(&y, CrossEntropyOptions::default())
    })
}

/// Four convolutions of 3 x 3 on 32 images of 32 x 32.
fn cnn(device: &Device) -> Result<Measured> {
    let generator = Generator::new(device, 0);
    let same = ConvOptions { padding: 1.into(), ..ConvOptions::default() };
    let mut model = Sequential::new();
    for (inputs, outputs) in [(3, 32), (32, 64), (64, 128), (128, 128)] {
        model = model
            .push(Conv2d::new(&generator, inputs, outputs, [3, 3], same)?)
            .push(|x: &Tensor| Ok(x.relu()))
            .push(|x: &Tensor| x.max_pool(PoolOptions::new([2, 2])));
    }
    let model = model.push(|x: &Tensor| x.flatten(1..)).push(Linear::new(&generator, 512, 10)?);
    let x = device.uniform(&[32, 3, 32, 32], 0.0, 1.0, 1)?;
    let y = device.random_bits(&[32], 2)?.remainder(10)?.cast(DType::I32)?;
    x.run()?;
    measure("CNN", device, &model.parameters(), || {
        model.forward(&x)?.cross_entropy(&y, CrossEntropyOptions::default())
    })
}

/// Four layers of width 256 on 8 sequences of 128 tokens, of 1,024 kinds.
fn transformer(device: &Device) -> Result<Measured> {
    let generator = Generator::new(device, 0);
    let embedding = Embedding::new(&generator, 1024, 256)?;
    let options = TransformerOptions { dim_feedforward: 1024, ..TransformerOptions::default() };
    let layers: Vec<TransformerEncoderLayer> = (0..4)
        .map(|_| TransformerEncoderLayer::new(&generator, 256, 4, options))
        .collect::<Result<_>>()?;
    let head = Linear::new(&generator, 256, 1024)?;
    let mut parameters = [embedding.parameters(), head.parameters()].concat();
    layers.iter().for_each(|layer| parameters.extend(layer.parameters()));
    let x = device.random_bits(&[8, 128], 1)?.remainder(1024)?.cast(DType::I32)?;
    x.run()?;
    let causal = AttentionOptions { is_causal: true, ..AttentionOptions::default() };
    measure("transformer", device, &parameters, || {
        let mut hidden = embedding.forward(&x)?;
        for layer in &layers {
            hidden = layer.run(&hidden, causal)?;
        }
        let scores = head.forward(&hidden)?.permute(&[0, 2, 1])?;
        scores.cross_entropy(&x, CrossEntropyOptions::default())
    })
}
