//! Tests batch norm with the statistics of all ranks.

use super::threads::run;
use super::{distance, everywhere, loader, open, weights, Task};
use crate::suite::Place;
use pollster::block_on;
use std::time::Duration;
use warpweft::device::Device;
use warpweft::distributed::World;
use warpweft::error::Result;
use warpweft::nn::{
    CrossEntropyOptions, Generator, Layer, Linear, Module, Sequential, SyncBatchNorm,
};
use warpweft::optim::{Optimizer, Sgd};
use warpweft::tensor::Tensor;
use warpweft::train::{DataLoader, Trainer};

/// Returns the weights and running statistics after some steps of a network with three layers of batch norm.
fn trained(device: &Device, world: &World, examples: usize) -> Result<(Vec<f32>, Vec<f64>)> {
    let generator = Generator::new(device, 1);
    let block = |inputs, outputs| {
        let linear = Linear::new(&generator, inputs, outputs)?;
        let norm = SyncBatchNorm::new(&generator, outputs, world)?;
        Ok(Sequential::new().push(linear).push(norm).push(|x: &Tensor| Ok(x.tanh())))
    };
    let model = Sequential::new()
        .push(block(6, 12)?)
        .push(block(12, 12)?)
        .push(block(12, 8)?)
        .push(Linear::new(&generator, 8, 3)?);
    let rule = Sgd { momentum: 0.9, ..Sgd::new(0.1) };
    let optimizer = Optimizer::new(rule, &model.parameters())?;
    let task = Task { examples, batch: 16 / world.size(), ..Task::default() };
    let loader: DataLoader = loader(device, task)?;
    let mut trainer = Trainer::new(model, optimizer, loader, move |model: &Sequential, x, y| {
        model.forward(x)?.cross_entropy(y, CrossEntropyOptions::default())
    })?
    .epochs(5)
    .detect_anomaly(examples == 64)
    .data_parallel(world)?;
    let losses = block_on(trainer.fit())?.iter().map(|epoch| epoch.loss).collect();
    Ok((weights(&trainer.model)?, losses))
}

/// Ranks with a quarter or half of the batch train as one process with all of it, through three layers.
#[test]
fn ranks_share_the_statistics_and_their_gradients() {
    everywhere("synchronized batch norm", |place| {
        // With 56 examples, some ranks have no batch in the last step of an epoch.
        for examples in [64, 56] {
            let device = open(place).expect("a device");
            let (want, losses) = trained(&device, &World::single(), examples).expect("trained");
            assert!(losses[4] < 0.8 * losses[0], "{losses:?}");
            for ranks in [2, 4] {
                let work = |world: World| trained(&open(place)?, &world, examples);
                for one in run(ranks, Duration::ZERO, work) {
                    let (got, others) = one.expect("trained");
                    let apart = distance(&got, &want);
                    let what = format!("{}, {ranks} ranks, {examples}", place.name());
                    assert!(apart < 1e-4, "{what}: {apart:e}");
                    for (got, want) in others.iter().zip(&losses) {
                        assert!((got - want).abs() < 1e-4, "{what}: {others:?} {losses:?}");
                    }
                }
            }
        }
    });
}

/// Ranks must have as many channels.
#[test]
fn different_channels_are_refused() {
    let errors = run(2, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let channels = 3 + world.rank();
        let layer = SyncBatchNorm::new(&Generator::new(&device, 0), channels, &world)?;
        let error = layer.forward(&device.ones(&[2, channels])?).expect_err("they differ");
        Ok(error.message().to_string())
    });
    let errors: Vec<String> = errors.into_iter().map(|error| error.expect("a message")).collect();
    let want = "sync_batch_norm: all ranks must have as many channels, got";
    assert_eq!(errors[0], format!("{want} 3 on rank 0 and 4 on rank 1"));
    assert_eq!(errors[1], format!("{want} 4 on rank 1 and 3 on rank 0"));
}

/// In evaluation, ranks do not wait for each other.
#[test]
fn evaluation_needs_no_other_rank() {
    let values = run(2, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let layer = SyncBatchNorm::new(&Generator::new(&device, 0), 2, &world)?;
        layer.eval();
        let x = device.tensor(&[4.0f32, 5.0], &[1, 2])?;
        match world.rank() {
            0 => block_on(layer.forward(&x)?.read::<f32>()),
            _ => Ok(Vec::new()),
        }
    });
    let got = values.into_iter().next().expect("rank 0").expect("values");
    assert!((got[0] - 4.0).abs() < 1e-4 && (got[1] - 5.0).abs() < 1e-4, "{got:?}");
}
