//! The trainer: Rust's own, whose batches and steps JavaScript's side brings and hears of.

pub mod core;
mod options;
mod told;
mod trainer;
