//! A convolutional network that classifies handwritten digits.

use super::{learnt, Options, Work};
use serde_json::json;
use warpweft_native::distributed::World;
use warpweft_native::nn::{
    Conv2d, CrossEntropyOptions, Generator, Layer, Linear, Module, Sequential,
};
use warpweft_native::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;
use warpweft_native::train::metrics::{Accuracy, Average, F1};
use warpweft_native::train::{Batches, DataLoader, Dataset, Trainer};
use warpweft_native::{files, io};

/// The default data. `native/data/README.md` describes them and names their source.
const DIGITS: &[u8] = include_bytes!("../../../data/digits.npz");

/// Trains the model.
pub fn run(device: &Device, options: &Options, world: &World) -> Result<()> {
    let arrays = match &options.data {
        Some(file) => files::load_npz(device, file)?,
        None => io::load_npz(device, DIGITS)?,
    };
    let array = |name: &str| {
        arrays
            .get(name)
            .ok_or_else(|| Error::format(format!("train: the data must have `{name}`, got none")))
    };
    let images = array("images")?.cast(DType::F32)?.div(16)?;
    if !matches!(images.shape(), [_, 8, 8]) {
        let shape = images.shape();
        return Err(Error::shape(format!(
            "train: images must have shape [count, 8, 8], got {shape:?}"
        )));
    }
    let data = Dataset::new(&images.unsqueeze(1)?, &array("labels")?.cast(DType::I32)?)?;
    let (test, train): (Vec<i32>, Vec<i32>) = (0..data.len() as i32).partition(|n| n % 5 == 0);
    let part = |numbers: &[i32]| data.select(&device.tensor(numbers, &[numbers.len()])?);

    let generator = Generator::new(device, options.seed);
    let same = ConvOptions { padding: 1.into(), ..ConvOptions::default() };
    let model = Sequential::new()
        .push(Conv2d::new(&generator, 1, 8, [3, 3], same)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Conv2d::new(&generator, 8, 16, [3, 3], same)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(|x: &Tensor| x.max_pool(PoolOptions::new([2, 2])))
        .push(|x: &Tensor| x.flatten(1..))
        .push(Linear::new(&generator, 256, 64)?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Linear::new(&generator, 64, 10)?);
    let optimizer = Optimizer::new(Adam::new(options.lr.unwrap_or(2e-3)), &model.parameters())?;
    let loader = DataLoader::new(&part(&train)?, 32)?.shuffle(options.seed);
    let steps = loader.steps().unwrap_or(0);
    let trainer = Trainer::new(model, optimizer, loader, |model, x, y| {
        let scores = model.forward(x)?;
        Ok((scores.cross_entropy(y, CrossEntropyOptions::default())?, scores))
    })?
    .validate_on(DataLoader::new(&part(&test)?, 500)?)
    .metric(Accuracy::new())
    .metric(F1::new(10, Average::Macro));
    let convolution = |name: &str, inputs: usize, outputs: usize| {
        let mut layer = learnt("conv2d", name, inputs, outputs);
        (layer["kernel_size"], layer["padding"]) = (3.into(), 1.into());
        layer
    };
    let architecture = json!({
        "net": "digits",
        "input": [1, 8, 8],
        "range": [0, 1],
        "layers": [
            convolution("0", 1, 8), { "layer": "relu" },
            convolution("2", 8, 16), { "layer": "relu" },
            { "layer": "max_pool", "kernel_size": 2 }, { "layer": "flatten" },
            learnt("linear", "6", 256, 64), { "layer": "relu" }, learnt("linear", "8", 64, 10),
        ],
        "output": "scores of the digits 0 to 9",
    });
    Work { trainer, options, world, architecture, epochs: 10, steps, batch: 32 }.run().map(drop)
}
