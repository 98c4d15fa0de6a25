//! Models for JavaScript: layers, modules, optimizers, schedules, and the trainer's class.

mod generator;
mod layer;
pub mod members;
pub mod models;
pub mod object;
mod optimizer;
mod schedule;

use super::objects::{shells, unusable, Object as Any, Slot};
use super::train::core::Trainer;
use super::Shell;
use crate::error::Result;
use crate::nn::Generator;
use models::{Average, Layer, Optimizer, Schedule};
pub use object::Object;
use wasm_bindgen::prelude::*;

/// The hand-written TypeScript types of models.
#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("types.d.ts");

impl Object {
    /// Makes a slot for the object.
    pub fn into_slot(self) -> Slot {
        Slot::new(Any::Nn(self))
    }
}

shells! {
    /// A device and a stream of random seeds for models on it: for initial parameters and for dropout. The same seed gives the
    /// same numbers on every device.
    "Generator" JsGenerator => Generator, Any::Nn(Object::Generator(generator)) => generator;

    /// A layer of a model: a module with one computation. The static methods make layers.
    ///
    /// @example
    /// ```ts
    /// const generator = new Generator(device, 0);
    /// const model = new Sequential(
    ///   Layer.linear(generator, 2, 16), (x) => x.tanh(), Layer.linear(generator, 16, 1));
    /// const y = model.forward(device.ones([8, 2]));
    /// ```
    "Layer" JsLayer => Layer, Any::Nn(Object::Layer(layer)) => layer;

    /// Updates parameters by their gradients. Parameters and the optimizer's state are stored in a few flat tensors, so an
    /// update is one kernel for any number of parameters. The static methods make optimizers.
    ///
    /// @example
    /// ```ts
    /// const optimizer = Optimizer.adam(model, { lr: 0.01 });
    /// for (let step = 0; step < 100; step++) {
    ///   optimizer.minimize(model.forward(x).mseLoss(y)); // one submission
    /// }
    /// ```
    "Optimizer" JsOptimizer => Optimizer, Any::Nn(Object::Optimizer(optimizer)) => optimizer;

    /// An exponential moving average of an optimizer's parameters. {@link Optimizer.average} makes it.
    "WeightAverage" JsWeightAverage => Average, Any::Nn(Object::WeightAverage(average)) => average;

    /// A learning rate that changes with the steps. The static methods make schedules.
    ///
    /// @example
    /// ```ts
    /// const schedule = Schedule.oneCycle(0.02, 1000);
    /// optimizer.lr = schedule.lr(optimizer.steps);
    /// ```
    "Schedule" JsSchedule => Schedule, Any::Nn(Object::Schedule(schedule)) => schedule;

    /// Trains a model: batches, epochs, validation, metrics, learning rates, early stopping, and checkpoints that continue with
    /// the same bits. An interrupted training loses nothing, and the next call continues it.
    ///
    /// @example
    /// ```ts
    /// const trainer = new Trainer(model, Optimizer.adam(model), [x, y], (x, y) => model.forward(x).mseLoss(y), {
    ///   batchSize: 32,
    ///   shuffle: 1,
    ///   epochs: 10,
    /// });
    /// for await (const { step, ended } of trainer) {
    ///   if (ended) console.log(`epoch ${ended.epoch}, step ${step}: ${ended.loss}`);
    /// }
    /// ```
    "Trainer" JsTrainer => Trainer, Any::Nn(Object::Trainer(trainer)) => trainer;
}
