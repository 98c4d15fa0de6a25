//! What the classes of models are one kind of.

use super::models::{Average, Layer, Optimizer, Schedule};
use crate::device::Device;
use crate::js::train::core::Trainer;
use crate::nn::Generator;

/// What an object of these classes stands for.
#[derive(Clone)]
pub enum Object {
    Generator(Generator),
    Layer(Layer),
    Optimizer(Optimizer),
    WeightAverage(Average),
    Schedule(Schedule),
    Trainer(Trainer),
}

impl Object {
    /// What it lives on; a schedule is numbers alone.
    pub fn device(&self) -> Option<&Device> {
        match self {
            Object::Generator(generator) => Some(generator.device()),
            Object::Layer(layer) => Some(&layer.device),
            Object::Optimizer(optimizer) => Some(&optimizer.device),
            Object::WeightAverage(average) => Some(&average.device),
            Object::Trainer(trainer) => Some(&trainer.device),
            Object::Schedule(_) => None,
        }
    }
}
