//! Functions of numbers, and loops of them over blocks of values.

pub mod elementary;
pub mod function;
pub mod fused;
#[cfg_attr(target_arch = "wasm32", allow(dead_code))]
// In WebAssembly without language models, packed rows are read by ordinary operations.
pub mod lanes;
pub mod number;
pub mod simd;
