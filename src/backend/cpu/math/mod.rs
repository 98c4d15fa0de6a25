//! Functions of numbers, and loops of them over blocks of values.

pub mod elementary;
pub mod function;
pub mod fused;
pub mod lanes;
pub mod number;
pub mod simd;
