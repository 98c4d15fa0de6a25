//! Kernels with ways of their own: products, convolutions, attention, sorting.

pub mod attention;
pub mod conv;
mod dots;
mod epilogue;
mod gemm;
pub mod matmul;
mod operand;
pub mod order;
// Pages without language models would load these for nothing.
#[cfg(any(not(target_arch = "wasm32"), feature = "model"))]
pub mod packed;
mod skinny;
mod streams;
