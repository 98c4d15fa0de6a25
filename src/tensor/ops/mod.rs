//! The operations, which are methods of [`Tensor`](super::Tensor) and [`Device`](crate::device::Device).
//!
//! | file | operations |
//! | --- | --- |
//! | `create`, `random` | tensors from data, from one value, from ranges, from random numbers |
//! | `pointwise` | one operation for each row of the table in `src/op`, `cast`, `clamp`, activations |
//! | `shape` | `reshape`, `permute`, `expand`, `squeeze`, `flip` and other views |
//! | `slice`, `pad`, `join` | `slice`, `select`, `narrow`, `unfold`; `pad`; `concat`, `stack`, `split`, `tile`, `roll` |
//! | `index`, `scatter` | `gather`, `index_select`, `masked_select`, `one_hot`; `scatter`, `scatter_reduce`, `index_add` |
//! | `diagonal` | `diag`, `diagonal`, `trace`, `tril`, `triu` |
//! | `reduce`, `scan` | `sum`, `mean`, `var`, `argmax`, norms; `cumsum`, `cumprod`, `logcumsumexp`, `diff` |
//! | `sort`, `topk`, `statistics` | `sort`, `searchsorted`; `topk`, `kthvalue`; `quantile`, `median`, `bincount`, `cov` |
//! | `matmul`, `einsum`, `linalg` | products and distances; `einsum`, `tensordot`; `solve`, `inv`, `qr`, `eigh` |
//! | `conv`, `pool`, `resize`, `grid_sample` | operations on images and signals |
//! | `norm`, `attention` | `softmax`, `layer_norm`, `batch_norm`; `attention`, `rotary` |
//! | `fft` | Fourier transforms |
//! | `quantize`, `packed` | weights of few bits |
//! | `custom` | functions of elements and compute shaders that users write in WGSL |

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
pub use fft::{FftNorm, FftOptions};
pub use grid_sample::{GridSampleOptions, SampleMode, SamplePadding};
pub use linalg::MatrixNorm;
pub use norm::{NormOptions, RmsNormOptions};
pub use packed::{PackedBuilder, PackedTensor};
pub use pad::PadMode;
pub use pointwise::pointwise;
pub use pool::PoolOptions;
pub use quantize::DequantizeOptions;
pub use resize::{Filter, Resize, Sampling};
pub use scatter::{ScatterNdOptions, ScatterReduction};
