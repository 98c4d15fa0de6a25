//! Routines of the CPU: products, convolutions, attention, and sorting.

pub mod attention;
pub mod conv;
mod dots;
mod epilogue;
mod gemm;
pub mod matmul;
mod operand;
pub mod order;
// Without language models, pages would download these kernels but not use them.
#[cfg(any(not(target_arch = "wasm32"), feature = "model"))]
pub mod packed;
mod skinny;
mod streams;
