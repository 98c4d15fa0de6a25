//! Functions of numbers, and loops of them over blocks of values.

pub mod elementary;
pub mod function;
pub mod fused;
#[cfg_attr(target_arch = "wasm32", allow(dead_code))]
// Packed rows are read by ordinary operations there.
pub mod lanes;
pub mod number;
pub mod simd;
