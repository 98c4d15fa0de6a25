//! All native tests: one binary.

mod gpu;
mod shaders;
mod table;
mod cpu;
