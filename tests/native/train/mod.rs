//! Tests training loops: batches, epochs, metrics, checkpoints.

mod anomaly;
mod checkpoint;
mod checkpointing;
mod data;
mod digits;
mod failing;
mod fit;
mod long;
mod metrics;
mod mixed_precision;
mod replay;

use crate::suite::{absent, Place};
use pollster::block_on;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::nn::{BatchNorm, Dropout, Generator, Linear, Module, Sequential};
use warpweft::tensor::Tensor;

/// Runs on the CPU and on a GPU, if there is one.
fn everywhere(what: &str, work: impl Fn(&Device) -> Result<()>) {
    for place in [Place::Cpu, Place::Wgpu] {
        match place.open() {
            Ok(device) => {
                work(&device).unwrap_or_else(|error| panic!("{what}, {}: {error}", place.name()))
            }
            Err(error) => absent(place, what, &error),
        }
    }
}

/// Returns pseudorandom numbers from -1 to 1.
pub fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12_345);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Returns a classifier of three numbers into two classes, with dropout and running statistics.
fn classifier(device: &Device, seed: u32) -> Result<Sequential> {
    let generator = Generator::new(device, seed);
    Ok(Sequential::new()
        .push(Linear::new(&generator, 3, 8)?)
        .push(BatchNorm::new(&generator, 8)?)
        .push(|x: &Tensor| Ok(x.tanh()))
        .push(Dropout::new(&generator, 0.3)?)
        .push(Linear::new(&generator, 8, 2)?))
}

/// Returns the bits of the whole state of a model.
fn bits(model: &impl Module) -> Vec<(String, Vec<u32>)> {
    let all = model.state_dict().into_iter();
    all.map(|(name, x)| {
        let values = block_on(x.read::<f32>()).expect("it can be read");
        (name, values.iter().map(|value| value.to_bits()).collect())
    })
    .collect()
}
