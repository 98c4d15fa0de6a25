//! The trainer: Rust's own, whose batches and steps JavaScript's side brings and hears of.

pub mod core;
mod options;
mod told;
mod trainer;

use wasm_bindgen::prelude::*;

/// What TypeScript is told of it beside the class.
#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("types.d.ts");
