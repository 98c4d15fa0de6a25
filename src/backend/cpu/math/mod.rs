//! Functions of numbers, and loops of them over blocks of values.

pub mod elementary;
pub mod function;
pub mod fused;
#[cfg(not(target_arch = "wasm32"))]
pub mod lanes;
pub mod number;
pub mod simd;
