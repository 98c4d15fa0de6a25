//! Tests training on handwritten digits. The accuracy must match PyTorch's mean accuracy over many seeds, from
//! `tests/golden/digits.txt`. `WARPWEFT_SEEDS=5` compares the mean of five seeds, within half a percent.

use crate::suite::Place;
use pollster::block_on;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::io;
use warpweft::nn::*;
use warpweft::optim::{Adam, Optimizer};
use warpweft::tensor::{ConvOptions, PoolOptions, Tensor};
use warpweft::train::metrics::Accuracy;
use warpweft::train::{DataLoader, Dataset, Trainer};

const GOLDEN: &str = include_str!("../../golden/digits.txt");

/// Returns the training data and every fifth example as test data, as floats from 0 to 1.
fn digits(device: &Device) -> Result<(Dataset, Dataset)> {
    let file = io::load_npz(device, include_bytes!("../../../native/data/digits.npz"))?;
    let images = file["images"].cast(DType::F32)?.div(16)?.unsqueeze(1)?;
    let all = Dataset::new(&images, &file["labels"].cast(DType::I32)?)?;
    let numbers = 0..all.len() as i32;
    let (test, train): (Vec<i32>, Vec<i32>) = numbers.partition(|n| n % 5 == 0);
    let part = |numbers: &[i32]| all.select(&device.tensor(numbers, &[numbers.len()])?);
    Ok((part(&train)?, part(&test)?))
}

fn mlp(generator: &Generator) -> Result<Sequential> {
    Ok(Sequential::new()
        .push(|x: &Tensor| x.flatten(1..))
        .push(Linear::new(generator, 64, 64)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Linear::new(generator, 64, 10)?))
}

fn cnn(generator: &Generator) -> Result<Sequential> {
    let same = ConvOptions { padding: [1, 1].into(), ..ConvOptions::default() };
    Ok(Sequential::new()
        .push(Conv2d::new(generator, 1, 8, [3, 3], same)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Conv2d::new(generator, 8, 16, [3, 3], same)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(|x: &Tensor| x.max_pool(PoolOptions::new([2, 2])))
        .push(|x: &Tensor| x.flatten(1..))
        .push(Linear::new(generator, 256, 64)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Linear::new(generator, 64, 10)?))
}

/// Returns the test accuracy after `epochs` epochs.
fn accuracy(device: &Device, model: Sequential, epochs: u64, seed: u32) -> Result<f64> {
    let (train, test) = digits(device)?;
    let optimizer = Optimizer::new(Adam::new(2e-3), &model.parameters())?;
    let loader = DataLoader::new(&train, 32)?.shuffle(seed);
    let mut trainer = Trainer::new(model, optimizer, loader, |model, x, y| {
        let scores = model.forward(x)?;
        Ok((scores.cross_entropy(y, CrossEntropyOptions::default())?, scores))
    })?
    .metric(Accuracy::new())
    .epochs(epochs);
    block_on(trainer.fit())?;
    Ok(block_on(trainer.evaluate(&DataLoader::new(&test, 360)?))?.metrics[0].1)
}

/// Returns PyTorch's mean accuracy, and the standard deviation of a seed.
fn golden(net: &str) -> (f64, f64) {
    let line = GOLDEN.lines().find(|line| line.starts_with(net)).expect("the net is there");
    let mut numbers = line.split('|').skip(1).map(|word| word.parse().expect("a number"));
    (numbers.next().expect("a mean"), numbers.next().expect("a deviation"))
}

/// Checks that one seed is within three standard deviations of PyTorch's mean, or the mean of several within half a percent.
fn learns_digits(net: &str, make: fn(&Generator) -> Result<Sequential>, epochs: u64) {
    let device = Place::Cpu.open().expect("the CPU is there");
    let seeds = std::env::var("WARPWEFT_SEEDS").ok().and_then(|seeds| seeds.parse().ok());
    let seeds: u32 = seeds.unwrap_or(1);
    let of = |seed: u32| {
        let model = make(&Generator::new(&device, seed)).expect("a model");
        accuracy(&device, model, epochs, seed).expect("it trains")
    };
    let all: Vec<f64> = (1..=seeds).map(of).collect();
    let got = all.iter().sum::<f64>() / f64::from(seeds);
    let (mean, deviation) = golden(net);
    println!("{net}: {got:.5} of {all:.4?}; PyTorch's are {mean} +- {deviation}");
    let least = mean - if seeds < 5 { 3.0 * deviation } else { 0.005 };
    assert!(got > least, "{net}: {got}, PyTorch's are {mean} +- {deviation}");
}

#[test]
fn an_mlp_knows_digits() {
    learns_digits("mlp", mlp, 20);
}

#[test]
fn a_cnn_knows_digits() {
    learns_digits("cnn", cnn, 10);
}

#[test]
fn the_digits_are_there() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let (train, test) = digits(&device).expect("digits");
    assert_eq!((train.len(), test.len()), (1437, 360));
    // The first image is a 0, and its first row is 0 0 5 13 9 1 0 0 of 16.
    let first = block_on(test.features().read_range::<f32>(0, 8)).expect("read");
    assert_eq!(first, [0.0, 0.0, 5.0, 13.0, 9.0, 1.0, 0.0, 0.0].map(|x| x / 16.0));
    assert_eq!(block_on(test.targets().read_range::<i32>(0, 3)).expect("read"), [0, 5, 0]);
}
