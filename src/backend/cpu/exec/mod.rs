//! Execution of loop plans. Blocks of values pass through registers, and tasks are distributed over threads.

mod access;
pub mod engine;
pub mod inputs;
pub mod memory;
pub mod output;
pub mod parallel;
mod reduce;
mod worker;
