//! Tests the costs of a training step: one submission, nothing new from the third step on, and an update of few kernels for any
//! number of parameters.

use crate::suite::{absent, Place};
use warpweft::device::{Device, Stats};
use warpweft::error::Result;
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::Tensor;

/// Returns a classifier with dropout, a norm and running statistics.
fn model(generator: &Generator) -> Result<Sequential> {
    Ok(Sequential::new()
        .push(Linear::new(generator, 20, 33)?)
        .push(BatchNorm::new(generator, 33)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Dropout::new(generator, 0.2)?)
        .push(Residual::new(Linear::new(generator, 33, 33)?))
        .push(LayerNorm::new(generator, &[33])?)
        .push(Linear::new(generator, 33, 4)?))
}

/// Returns the differences of the counters.
fn grown(after: Stats, before: Stats) -> [u64; 5] {
    [
        after.submits - before.submits,
        after.plans - before.plans,
        after.pipelines - before.pipelines,
        after.buffers - before.buffers,
        after.kernels - before.kernels,
    ]
}

fn learns(place: Place, steps: usize) {
    let device = match place.open() {
        Ok(device) => device,
        Err(error) => return absent(place, "a step of training", &error),
    };
    let run = || -> Result<(f32, f32)> {
        let generator = Generator::new(&device, 1);
        let model = model(&generator)?;
        let mut optimizer = Optimizer::new(AdamW::new(0.0), &model.parameters())?.clip_norm(1.0);
        let rate = OneCycleLr::new(0.02, steps as u64, OneCycleOptions::default())?;
        let average = WeightAverage::new(&optimizer, 0.9)?;
        let x = device.normal(&[64, 20], 0.0, 1.0, 5)?;
        // The target is the index of the largest of its first four numbers.
        let y = x.slice(1, 0..4)?.argmax(1)?.detach();
        let mut losses = (0.0, 0.0);
        let mut kernels = None;
        for n in 0..steps {
            let before = device.stats();
            optimizer.set_lr(rate.lr(n as u64));
            average.update()?;
            let loss = model.forward(&x)?.cross_entropy(&y, CrossEntropyOptions::default())?;
            optimizer.minimize(&loss)?;
            let read = n % 10 == 0 || n + 1 == steps;
            if read {
                let value = pollster::block_on(loss.item::<f32>())?;
                losses = if n == 0 { (value, value) } else { (losses.0, value) };
            }
            drop(loss);
            if n >= 12 && !read && (n - 1) % 10 != 0 {
                let [submits, plans, pipelines, buffers, count] = grown(device.stats(), before);
                assert_eq!([submits, plans, pipelines, buffers], [1, 0, 0, 0], "step {n}");
                assert_eq!(*kernels.get_or_insert(count), count, "kernels of step {n}");
            }
        }
        println!("{}: {} kernels a step", place.name(), kernels.unwrap_or(0));
        Ok(losses)
    };
    let (first, last) = run().expect("it trains");
    assert!(first > 1.2 && last < 0.5, "the loss went from {first} to {last}");
}

#[test]
fn a_step_is_one_submission_and_nothing_new_on_the_cpu() {
    learns(Place::Cpu, 150);
}

#[test]
fn a_step_is_one_submission_and_nothing_new_on_a_gpu() {
    learns(Place::Wgpu, 150);
}

/// Returns the number of kernels of an update with existing gradients.
fn update_kernels(device: &Device, layers: usize, rule: impl Rule + 'static) -> Result<u64> {
    let generator = Generator::new(device, 2);
    let options = TransformerOptions { dim_feedforward: 32, ..TransformerOptions::default() };
    let blocks: Result<Vec<TransformerEncoderLayer>> =
        (0..layers).map(|_| TransformerEncoderLayer::new(&generator, 16, 2, options)).collect();
    let parameters: Vec<_> = blocks?.iter().flat_map(|block| block.parameters()).collect();
    let mut optimizer = Optimizer::new(rule, &parameters)?;
    assert_eq!(parameters.len(), 12 * layers);
    let mut count = 0;
    for _ in 0..2 {
        // The loss is the sum of all parameters, so their gradients are ones.
        let mut loss = device.zeros(&[])?;
        for parameter in &parameters {
            loss = loss.add(parameter.value().sum(())?)?;
        }
        optimizer.accumulate(&loss)?;
        drop(loss);
        let before = device.stats();
        optimizer.step()?;
        count = device.stats().kernels - before.kernels;
    }
    Ok(count)
}

#[test]
fn the_update_of_a_deep_transformer_is_one_kernel() {
    for place in [Place::Cpu, Place::Wgpu] {
        let device = match place.open() {
            Ok(device) => device,
            Err(error) => return absent(place, "updates of many parameters", &error),
        };
        let count = |layers| update_kernels(&device, layers, AdamW::new(1e-3)).expect("it steps");
        assert_eq!([count(1), count(48)], [1, 1], "{}", place.name());
    }
}

#[test]
fn a_step_of_some_parameters_is_planned_once() {
    for place in [Place::Cpu, Place::Wgpu] {
        let device = match place.open() {
            Ok(device) => device,
            Err(error) => return absent(place, "steps of some parameters", &error),
        };
        let run = || -> Result<()> {
            let generator = Generator::new(&device, 3);
            let model = model(&generator)?;
            let mut optimizer = Optimizer::new(AdamW::new(1e-3), &model.parameters())?;
            let parameters = model.parameters();
            let mut count = None;
            for n in 0..6 {
                let before = device.stats();
                let mut loss = device.zeros(&[])?;
                for parameter in parameters.iter().step_by(2) {
                    loss = loss.add(parameter.value().square().sum(())?)?;
                }
                optimizer.minimize(&loss)?;
                drop(loss);
                let [submits, plans, pipelines, buffers, kernels] = grown(device.stats(), before);
                if n >= 2 {
                    assert_eq!([submits, plans, pipelines, buffers], [1, 0, 0, 0], "step {n}");
                    assert_eq!(*count.get_or_insert(kernels), kernels, "kernels of step {n}");
                }
            }
            println!("{}: {} kernels a step of some", place.name(), count.unwrap_or(0));
            Ok(())
        };
        run().expect("it steps");
    }
}
