//! All native tests: one binary.

#[cfg(feature = "gpu")]
mod gpu;
