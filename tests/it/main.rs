//! All native tests: one binary.

mod cases;
mod cpu;
mod gpu;
mod paper;
mod plan;
mod shaders;
mod table;
mod tidy;
