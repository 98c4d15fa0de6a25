//! Runs plans of loops: blocks of values through registers, tasks over threads.

mod access;
pub mod engine;
pub mod inputs;
pub mod memory;
pub mod output;
pub mod parallel;
mod reduce;
mod worker;
