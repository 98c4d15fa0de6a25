//! The operations: one file for each group. A method of [`Tensor`](super::Tensor) is in the file of the group that NumPy's
//! and PyTorch's documentation lists it in.

mod attention;
mod conv;
mod create;
mod custom;
mod diagonal;
mod einsum;
mod fft;
mod grid_sample;
mod index;
mod join;
mod linalg;
mod matmul;
mod norm;
mod packed;
mod pad;
mod pointwise;
mod pool;
mod quantize;
mod random;
mod reduce;
mod resize;
mod scan;
mod scatter;
mod shape;
mod slice;
mod sort;
mod statistics;
mod topk;

pub use attention::AttentionOptions;
pub use conv::{Conv2dOptions, ConvOptions, ConvTransposeOptions, Padding};
pub use custom::{ElementFunction, Shader};
pub use fft::FftNorm;
pub use grid_sample::{SampleMode, SamplePadding};
pub use linalg::MatrixNorm;
pub use packed::{PackedBuilder, PackedTensor};
pub use pad::PadMode;
pub use pointwise::pointwise;
pub use pool::PoolOptions;
pub use resize::{Filter, Resize, Sampling};
pub use scatter::ScatterReduction;
