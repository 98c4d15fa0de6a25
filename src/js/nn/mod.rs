//! What models are made of, for JavaScript: layers, modules of both languages, optimisers, schedules.

mod generator;
mod layer;
pub mod members;
pub mod models;
mod optimizer;
mod schedule;
