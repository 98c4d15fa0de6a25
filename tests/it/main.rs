//! All native tests: one binary.
mod shaders;
