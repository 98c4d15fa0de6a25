//! A network of dense layers that classifies points of two moons.

use super::{learnt, Options, Work};
use serde_json::json;
use std::f64::consts::PI;
use warpweft_native::distributed::World;
use warpweft_native::files;
use warpweft_native::nn::{
    BinaryCrossEntropyWithLogitsOptions, Generator, Layer, Linear, LossReduction, Module,
    Sequential,
};
use warpweft_native::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;
use warpweft_native::train::metrics::Accuracy;
use warpweft_native::train::{Batches, DataLoader, Dataset, Trainer};

/// The number of points of each moon.
const POINTS: usize = 500;

/// Generates two interleaving half circles with noise (`make_moons` of scikit-learn).
fn moons(device: &Device) -> Result<Dataset> {
    let angles = device.linspace(0.0, PI, POINTS)?;
    let (x, y) = (angles.cos(), angles.sin());
    let upper = Tensor::stack(&[&x, &y], 1)?;
    let lower = Tensor::stack(&[x.neg().add(1.0)?, y.neg().add(0.5)?], 1)?;
    let points = Tensor::concat(&[upper, lower], 0)?;
    let noise = device.normal(&[2 * POINTS, 2], 0.0, 0.15, 1)?;
    let moon = device.iota(&[2 * POINTS], 0)?.ge(POINTS)?.cast(DType::I32)?;
    Dataset::new(&points.add(&noise)?, &moon)
}

/// Trains the model.
pub fn run(device: &Device, options: &Options, world: &World) -> Result<()> {
    let data = match &options.data {
        Some(file) => {
            let arrays = files::load_npz(device, file)?;
            let array = |name: &str| {
                let no = || {
                    Error::format(format!("train: {} must have `{name}`, got none", file.display()))
                };
                arrays.get(name).ok_or_else(no)
            };
            Dataset::new(&array("x")?.cast(DType::F32)?, &array("y")?.cast(DType::I32)?)?
        }
        None => moons(device)?,
    };
    let (train, validation) = data.split(0.2, options.seed)?;
    let generator = Generator::new(device, options.seed);
    let model = Sequential::new()
        .push(Linear::new(&generator, 2, 16)?)
        .push(|x: &Tensor| Ok(x.tanh()))
        .push(Linear::new(&generator, 16, 16)?)
        .push(|x: &Tensor| Ok(x.tanh()))
        .push(Linear::new(&generator, 16, 1)?);
    let optimizer = Optimizer::new(Adam::new(options.lr.unwrap_or(0.01)), &model.parameters())?;
    let loader = DataLoader::new(&train, 32)?.shuffle(options.seed);
    let steps = loader.steps().unwrap_or(0);
    let trainer = Trainer::new(model, optimizer, loader, |model, x, y| {
        let score = model.forward(x)?.squeeze(1)?;
        let target = y.cast(DType::F32)?;
        let mean = LossReduction::Mean;
        let loss = score.binary_cross_entropy_with_logits(
            &target,
            BinaryCrossEntropyWithLogitsOptions { reduction: mean, ..Default::default() },
        )?;
        Ok((loss, score.gt(0.0)?.cast(DType::I32)?))
    })?
    .validate_on(DataLoader::new(&validation, 1000)?)
    .metric(Accuracy::new());
    let architecture = json!({
        "net": "mlp",
        "input": [2],
        "layers": [
            learnt("linear", "0", 2, 16), { "layer": "tanh" },
            learnt("linear", "2", 16, 16), { "layer": "tanh" },
            learnt("linear", "4", 16, 1),
        ],
        "output": "the logit of class 1",
    });
    Work { trainer, options, world, architecture, epochs: 30, steps, batch: 32 }.run().map(drop)
}
