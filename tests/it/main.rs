//! All native tests: one binary.
#![cfg(not(target_arch = "wasm32"))]

mod cases;
mod cpu;
mod edges;
mod gpu;
mod js;
mod paper;
mod plan;
mod readme;
mod shaders;
mod table;
mod tidy;
