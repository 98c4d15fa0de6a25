//! What models are made of, for JavaScript: layers, modules of both languages, optimisers, schedules; and the trainer's class.

mod generator;
mod layer;
pub mod members;
pub mod models;
pub mod object;
mod optimizer;
mod schedule;

use super::objects::{gone, shells, Object as Any, Place};
use super::train::core::Trainer;
use super::Shell;
use crate::error::Result;
use crate::nn::Generator;
use models::{Average, Layer, Optimizer, Schedule};
pub use object::Object;
use wasm_bindgen::prelude::*;

/// What TypeScript is told of them beside the classes.
#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("types.d.ts");

impl Object {
    /// A place for it.
    pub fn placed(self) -> Place {
        Place::new(Any::Nn(self))
    }
}

shells! {
    /// A device, and random seeds for what is made on it: the first values of parameters, and what dropout drops. The same seed
    /// gives the same numbers on every device.
    "Generator" JsGenerator => Generator, Any::Nn(Object::Generator(generator)) => generator;

    /// A part of a model: its parameters, and what it makes of tensors. Its static methods make the layers there are.
    ///
    /// @example
    /// ```ts
    /// const generator = new Generator(device, 0);
    /// const model = new Sequential(
    ///   Layer.linear(generator, 2, 16), (x) => x.tanh(), Layer.linear(generator, 16, 1));
    /// const y = model.forward(device.ones([8, 2]));
    /// ```
    "Layer" JsLayer => Layer, Any::Nn(Object::Layer(layer)) => layer;

    /// Changes parameters by their gradients. What it remembers of them lies in a few flat tensors, and so do they: an
    /// update is one kernel, however many parameters there are. Its static methods make those there are.
    ///
    /// @example
    /// ```ts
    /// const optimizer = Optimizer.adam(model, { lr: 0.01 });
    /// for (let step = 0; step < 100; step++) {
    ///   optimizer.minimize(model.forward(x).mseLoss(y)); // one submission
    /// }
    /// ```
    "Optimizer" JsOptimizer => Optimizer, Any::Nn(Object::Optimizer(optimizer)) => optimizer;

    /// An exponential moving average of an optimiser's parameters: {@link Optimizer.average} makes it.
    "WeightAverage" JsWeightAverage => Average, Any::Nn(Object::WeightAverage(average)) => average;

    /// A learning rate that changes with the steps. Its static methods make the schedules there are.
    ///
    /// @example
    /// ```ts
    /// const schedule = Schedule.oneCycle(0.02, 1000);
    /// optimizer.lr = schedule.lr(optimizer.steps);
    /// ```
    "Schedule" JsSchedule => Schedule, Any::Nn(Object::Schedule(schedule)) => schedule;

    /// Trains a model: batches, epochs, validation, metrics, learning rates, early stopping, and checkpoints that go on to the
    /// same bits. It is Rust's own trainer. Whatever ends a training loses nothing: the next call goes on.
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
