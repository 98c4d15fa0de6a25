//! All native tests: one binary.

mod cpu;
mod gpu;
mod js;
mod shaders;
mod table;
