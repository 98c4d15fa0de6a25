//! Programs that come again with other sizes: soon no kernel is compiled for them any more, and what they compute are the
//! same bits.

use crate::shaders::kernels;
use crate::suite::{gpu, say};
use pollster::block_on;
use std::time::Instant;
use warpweft::device::{Device, Variants};
use warpweft::error::Result;
use warpweft::tensor::{AttentionOptions, Tensor};

const D: usize = 32;
const HEADS: usize = 4;
const LAYERS: usize = 6;

/// An encoder's weights.
fn weights(device: &Device) -> Result<Vec<Tensor>> {
    let shapes = [[D, 3 * D], [D, D], [D, 4 * D], [4 * D, D]];
    let mut all = Vec::new();
    for n in 0..LAYERS * shapes.len() {
        let values: Vec<f32> = (0..4 * D * D).map(|i| ((i * 37 + n * 11) % 101) as f32 * 0.004 - 0.2).collect();
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

fn open(variants: Variants) -> Device {
    Device::from_backend(Box::new(gpu(variants).expect("a GPU")), None)
}

#[test]
fn explore() {
    for variants in kernels::variants() {
        let device = open(variants);
        let weights = weights(&device).expect("weights");
        for step in 0..60 {
            let length = 33 + step * 61 % 160;
            let before = device.stats();
            let start = Instant::now();
            let y = encoder(&device, &weights, length).expect("encoder");
            let recorded = start.elapsed();
            let bits = block_on(y.read::<f32>()).expect("read");
            let time = start.elapsed();
            let after = device.stats();
            let start = Instant::now();
            let y = encoder(&device, &weights, length).expect("encoder");
            let again = block_on(y.read::<f32>()).expect("read");
            let known = start.elapsed();
            assert_eq!(bits, again);
            let fresh = open(variants);
            let w = self::weights(&fresh).expect("weights");
            let y = encoder(&fresh, &w, length).expect("encoder");
            let bits2 = block_on(y.read::<f32>()).expect("read");
            say(&format!(
                "same {length}: {:?} {recorded:?} {time:?}, known {known:?}: {} plans, {} pipelines, {} buffers, {} dispatches same {}",
                variants.products[0], after.plans - before.plans, after.pipelines - before.pipelines,
                after.buffers - before.buffers, after.kernels - before.kernels, bits == bits2
            ));
        }
    }
}
