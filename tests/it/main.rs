//! All native tests: one binary.

mod cases;
mod cpu;
mod gpu;
mod paper;
mod shaders;
mod table;
