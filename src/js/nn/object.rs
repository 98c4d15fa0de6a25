//! The value behind any object of the classes of models.

use super::models::{Average, Layer, Optimizer, Schedule};
use crate::device::Device;
use crate::js::train::core::Trainer;
use crate::nn::Generator;

/// The value behind an object of these classes.
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
    /// Returns the device of the object. A schedule has none, because it is only numbers.
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
