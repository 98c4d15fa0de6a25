//! Kernels with ways of their own: products, convolutions, attention, sorting.

pub mod attention;
pub mod conv;
mod epilogue;
mod gemm;
pub mod matmul;
mod operand;
pub mod order;
#[cfg(not(target_arch = "wasm32"))]
pub mod packed;
mod skinny;
