//! Execution of blocks.

mod access;
mod matrix;
pub mod state;
mod step;
pub mod sync;
