//! Programs that come again with other sizes: soon hardly a kernel is compiled for them any more, and what they compute are
//! the same bits.

use crate::suite::{absent, gpu, Place};
use pollster::block_on;
use warpweft::device::{Device, Variants};
use warpweft::error::Result;
use warpweft::tensor::{AttentionOptions, Tensor};

const D: usize = 32;
const HEADS: usize = 4;
const LAYERS: usize = 2;

/// An encoder's weights.
fn weights(device: &Device) -> Result<Vec<Tensor>> {
    let shapes = [[D, 3 * D], [D, D], [D, 4 * D], [4 * D, D]];
    let mut all = Vec::new();
    for n in 0..LAYERS * shapes.len() {
        let values: Vec<f32> =
            (0..4 * D * D).map(|i| ((i * 37 + n * 11) % 101) as f32 * 0.004 - 0.2).collect();
        let shape = shapes[n % 4];
        all.push(device.tensor(&values[..shape[0] * shape[1]], &shape)?);
    }
    Ok(all)
}

/// The mean of a text of so many words behind an encoder.
fn encoder(device: &Device, weights: &[Tensor], length: usize) -> Result<Tensor> {
    let values: Vec<f32> = (0..length * D).map(|i| (i * 29 % 97) as f32 * 0.02 - 1.0).collect();
    let mut x = device.tensor(&values, &[length, D])?;
    for layer in weights.chunks(4) {
        let h = x.layer_norm(-1, None, None, 1e-5)?;
        let qkv = h.matmul(&layer[0])?.reshape(&[1, length, 3 * HEADS, D / HEADS])?;
        let qkv = qkv.permute(&[0, 2, 1, 3])?;
        let part = |n: usize| qkv.slice(1, (n * HEADS) as isize..((n + 1) * HEADS) as isize);
        let mixed = part(0)?.attention(&part(1)?, &part(2)?, AttentionOptions::default())?;
        let mixed = mixed.permute(&[0, 2, 1, 3])?.reshape(&[length, D])?;
        x = x.add(&mixed.matmul(&layer[1])?)?;
        let h = x.layer_norm(-1, None, None, 1e-5)?;
        x = x.add(&h.matmul(&layer[2])?.gelu().matmul(&layer[3])?)?;
    }
    x.mean(0)
}

/// Every length as it comes, then again: what it computes, and how many kernels are compiled for it.
fn run(device: &Device, lengths: &[usize]) -> Result<Vec<(Vec<u32>, u64)>> {
    let weights = weights(device)?;
    let mut all = Vec::new();
    for &length in lengths {
        let before = device.stats().pipelines;
        let values = block_on(encoder(device, &weights, length)?.read::<f32>())?;
        let compiled = device.stats().pipelines - before;
        all.push((values.iter().map(|value| value.to_bits()).collect(), compiled));
    }
    Ok(all)
}

#[test]
fn new_lengths_compile_next_to_nothing_and_compute_the_same() {
    for (variants, name) in [(Variants::TOGETHER, "together"), (Variants::ALONE, "alone")] {
        let open = || gpu(variants).map(|gpu| Device::from_backend(Box::new(gpu), None));
        let Ok(device) = open() else {
            return absent(Place::Wgpu, "programs of many lengths", "there is no GPU");
        };
        let lengths: Vec<usize> = (0..30).map(|step| 100 + step * 37 % 64).collect();
        let all = run(&device, &lengths).expect("an encoder");
        let compiled: Vec<u64> = all.iter().map(|one| one.1).collect();
        // Two with their sizes as constants, then one for all; and few that other numbers of steps bring, or of fours.
        assert!(compiled[0] > 3, "{name}: {compiled:?}");
        assert!(compiled[3..].iter().sum::<u64>() <= compiled[0] + 2, "{name}: {compiled:?}");
        assert!(compiled[20..].iter().sum::<u64>() <= 2, "{name}: {compiled:?}");
        // As a device computes them that has seen no other length.
        for n in [2, 3, 17, 29] {
            let wanted = run(&open().expect("a GPU"), &lengths[n..=n]).expect("an encoder");
            assert!(wanted[0].1 > 3, "{name}: {} compiled", wanted[0].1);
            assert_eq!(all[n].0, wanted[0].0, "{name}: {}", lengths[n]);
        }
    }
}
