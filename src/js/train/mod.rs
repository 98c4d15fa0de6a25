//! The trainer's class. It wraps the Rust trainer; the JavaScript side provides batches and receives steps.

pub mod core;
mod options;
mod results;
mod trainer;

use wasm_bindgen::prelude::*;

/// The hand-written TypeScript types of the trainer.
#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("types.d.ts");
