//! Tests programs that run again with other sizes. After a few sizes, almost no kernel is compiled, and the results have the
//! same bits.

use crate::suite::{absent, gpu, Place};
use pollster::block_on;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;
use warpweft::device::{Device, KernelConfig};
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::nn::{Generator, Layer, Lstm, Module, RecurrentOptions};
use warpweft::optim::{Adam, Optimizer};
use warpweft::tensor::{AttentionOptions, Dim, NormOptions, Tensor};

const D: usize = 32;
const HEADS: usize = 4;
const LAYERS: usize = 2;

/// Returns the weights of an encoder.
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

/// Returns the mean of an encoder's output for a text of `length` words.
fn encoder(device: &Device, weights: &[Tensor], length: usize) -> Result<Tensor> {
    let values: Vec<f32> = (0..length * D).map(|i| (i * 29 % 97) as f32 * 0.02 - 1.0).collect();
    let mut x = device.tensor(&values, &[length, D])?;
    for layer in weights.chunks(4) {
        let h = x.layer_norm(-1, NormOptions::default())?;
        let qkv = h.matmul(&layer[0])?.reshape(&[1, length, 3 * HEADS, D / HEADS])?;
        let qkv = qkv.permute(&[0, 2, 1, 3])?;
        let part = |n: usize| qkv.slice(1, (n * HEADS) as isize..((n + 1) * HEADS) as isize);
        let mixed = part(0)?.attention(&part(1)?, &part(2)?, AttentionOptions::default())?;
        let mixed = mixed.permute(&[0, 2, 1, 3])?.reshape(&[length, D])?;
        x = x.add(&mixed.matmul(&layer[1])?)?;
        let h = x.layer_norm(-1, NormOptions::default())?;
        x = x.add(&h.matmul(&layer[2])?.gelu().matmul(&layer[3])?)?;
    }
    x.mean(0)
}

/// Runs the encoder on each length in turn. Returns the results and the number of compiled kernels.
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
    for (config, name) in [(KernelConfig::GPU, "together"), (KernelConfig::EMULATED, "alone")] {
        let open = || gpu(config).map(|gpu| Device::from_backend(Box::new(gpu), None));
        let Ok(device) = open() else {
            return absent(Place::Wgpu, "programs of many lengths", "there is no GPU");
        };
        let lengths: Vec<usize> = (0..30).map(|step| 100 + step * 37 % 64).collect();
        let all = run(&device, &lengths).expect("an encoder");
        let compiled: Vec<u64> = all.iter().map(|one| one.1).collect();
        // The first two lengths compile constants, and the third compiles kernels for all lengths. A few more are compiled when
        // the number of steps, or divisibility by four, changes.
        assert!(compiled[0] > 3, "{name}: {compiled:?}");
        assert!(compiled[3..].iter().sum::<u64>() <= compiled[0] + 2, "{name}: {compiled:?}");
        assert!(compiled[20..].iter().sum::<u64>() <= 2, "{name}: {compiled:?}");
        // The same results as on a device that has seen no other length.
        for n in [2, 3, 17, 29] {
            let wanted = run(&open().expect("a GPU"), &lengths[n..=n]).expect("an encoder");
            assert!(wanted[0].1 > 3, "{name}: {} compiled", wanted[0].1);
            assert_eq!(all[n].0, wanted[0].0, "{name}: {}", lengths[n]);
        }
    }
}

/// Tests the results of a program with named axes for each length, and the inputs that it rejects.
#[test]
fn programs_with_named_axes_take_every_length() {
    for place in [Place::Reference, Place::Cpu, Place::Wgpu] {
        let Ok(device) = place.open() else {
            absent(place, "programs with named axes", "there is no GPU");
            continue;
        };
        let w = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2]).expect("data");
        let rows: [Dim; 2] = ["n".into(), 2.into()];
        let columns: [Dim; 2] = [2.into(), "n".into()];
        let inputs: [(&[Dim], DType); 2] = [(&rows, DType::F32), (&columns, DType::F32)];
        let built = Arc::new(AtomicUsize::new(0));
        let count = built.clone();
        let program = device.compile_dynamic(&inputs, move |x| {
            count.fetch_add(1, Ordering::Relaxed);
            let n = x[0].shape()[0];
            // The build function may use the extent.
            let halves = x[0].matmul(&w)?.add(&x[1].transpose(0, 1)?)?.reshape(&[2, n])?;
            Ok(vec![halves.sum(&[])?, x[1].clone()])
        });
        let program = program.expect("nothing is compiled yet");
        assert_eq!(program.plan().expect_err("not planned").kind(), ErrorKind::InvalidState);
        let data = |shape: &[usize], first: usize| {
            let values: Vec<f32> =
                (first..).take(shape.iter().product()).map(|i| i as f32).collect();
            device.tensor(&values, shape).expect("data")
        };
        let mut pipelines = 0;
        for (step, n) in [103, 105, 109, 111, 103, 109, 113, 115, 117, 105].into_iter().enumerate()
        {
            let (x, y) = (data(&[n, 2], 1), data(&[2, n], 7));
            let results = program.run(&[&x, &y]).expect("it runs");
            let got = block_on(results[0].item::<f32>()).expect("a number");
            // (a, b) w = (a + 3 b, 2 a + 4 b). The result is the sum of all.
            let first: usize = (0..n).map(|i| 3 * (2 * i + 1) + 7 * (2 * i + 2)).sum();
            let second: usize = (7..7 + 2 * n).sum();
            assert_eq!(got, (first + second) as f32, "{place:?}: {n}");
            assert_eq!(results[1].shape()[..], [2, n]);
            if step == 5 {
                pipelines = device.stats().pipelines;
            }
        }
        assert_eq!(built.load(Ordering::Relaxed), 7, "{place:?}: as often as there are lengths");
        if place == Place::Wgpu {
            assert_eq!(device.stats().pipelines, pipelines, "after three lengths");
        }
        let refused = |inputs: &[&Tensor], kind, text: &str| {
            let error = program.run(inputs).expect_err("it does not fit");
            assert!(error.kind() == kind && error.to_string().contains(text), "{error}");
        };
        let (x, y) = (data(&[4, 2], 0), data(&[2, 5], 0));
        refused(
            &[&x, &y],
            ErrorKind::Shape,
            "input 1 must have the shape that was compiled, [2, n], got [2, 5] (n is 4)",
        );
        refused(
            &[&y, &y],
            ErrorKind::Shape,
            "input 0 must have the shape that was compiled, [n, 2], got [2, 5]",
        );
        refused(&[&x], ErrorKind::InvalidArgument, "there must be 2 inputs, got 1");
        let other = x.cast(DType::I32).expect("a cast");
        refused(&[&other, &y], ErrorKind::DType, "input 0 must be f32, got i32");
        // Building may fail for an extent. Other extents still work.
        let none = [data(&[0, 2], 0), data(&[2, 0], 0)];
        let empty = program.run(&[&none[0], &none[1]]).expect("nothing to add up");
        assert_eq!(block_on(empty[0].item::<f32>()).expect("a number"), 0.0);
        let odd = device.compile_dynamic(&[(&rows, DType::F32)], |x| {
            Ok(vec![x[0].reshape(&[x[0].shape()[0] / 2, 4])?])
        });
        let odd = odd.expect("nothing is compiled yet");
        let error = odd.run(&[&data(&[3, 2], 0)]).expect_err("3 is odd");
        assert!(error.kind() == ErrorKind::Shape, "{error}");
        assert_eq!(odd.run(&[&x]).expect("4 is not")[0].shape()[..], [2, 4]);
    }
}

/// Tests that only the sizes of one program count as sizes. The configurations that `tune` compares are other programs, so
/// their sizes stay constants.
#[test]
fn other_kernel_configs_are_no_other_sizes() {
    let device = Place::Reference.open().expect("it is there");
    let structure = |columns: usize, config| {
        device.set_kernel_config(config).expect("it has them");
        let x = device.ones(&[6, columns]).expect("recorded");
        let mut batch = device.batch();
        batch.add(&x.softmax(-1).expect("recorded")).expect("its own");
        batch.plan().expect("it fits").structure
    };
    let (one, other) = (KernelConfig::GPU, KernelConfig::EMULATED);
    assert_eq!(structure(40, one), structure(41, one));
    assert_ne!(structure(40, one), structure(40, other));
}

#[test]
fn sequences_of_other_lengths_compile_hardly_anything() {
    let place = Place::Wgpu;
    let device = match place.open() {
        Ok(device) => device,
        Err(error) => return absent(place, "dynamic shapes/sequences", &error),
    };
    let generator = Generator::new(&device, 1);
    let model = Lstm::new(&generator, 3, 4, RecurrentOptions::default()).expect("a model");
    let mut optimizer = Optimizer::new(Adam::new(0.01), &model.parameters()).expect("an optimiser");
    let mut step = |length: usize| -> Result<u64> {
        let before = device.stats().pipelines;
        let x = device.uniform(&[2, length, 3], -1.0, 1.0, 5)?;
        let loss = model.forward(&x)?.square().mean(())?;
        optimizer.minimize(&loss)?;
        block_on(loss.item::<f32>())?;
        Ok(device.stats().pipelines - before)
    };
    let compiled: Vec<u64> = (5..60).map(|length| step(length).expect("a step")).collect();
    // Later lengths compile less than one kernel each. A separate program for each length would compile about ten.
    let later = &compiled[20..];
    assert!(later.iter().sum::<u64>() < later.len() as u64, "{compiled:?}");
}
