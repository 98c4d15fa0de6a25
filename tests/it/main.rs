//! All native tests: one binary.

mod cpu;
mod gpu;
mod shaders;
mod table;
