//! All native tests: one binary.

mod gpu;
mod js;
mod shaders;
mod table;
mod cpu;
