//! What models are made of, for JavaScript: layers, modules of both languages, optimisers, schedules.

mod generator;
mod layer;
mod members;
mod optimizer;
mod schedule;

pub use layer::Layer;
pub use optimizer::{Average, Optimizer};
pub use schedule::Schedule;
