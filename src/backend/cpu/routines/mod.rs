//! Kernels with ways of their own: products, convolutions, attention.

pub mod attention;
pub mod conv;
mod epilogue;
mod gemm;
pub mod matmul;
mod operand;
mod skinny;
