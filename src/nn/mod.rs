//! Neural network layers, losses and initial values, built on the public [`Tensor`] API. A layer only records operations.
//! They run when a tensor is read, or when an optimizer's step is submitted.
//!
//! Names, shapes and initial values are PyTorch's, so PyTorch weights load. A [`Linear`], for example, has a `weight` of
//! `[outputs, inputs]`. Losses are methods of [`Tensor`], such as [`Tensor::cross_entropy`]. The batch is always the first
//! axis (`batch_first=True`).

#[cfg(doc)]
use crate::tensor::Tensor;

mod attention;
mod container;
mod conv;
mod dropout;
mod generator;
pub mod init;
mod linear;
mod lora;
mod loss;
mod module;
mod norm;
mod recurrent;
#[cfg(feature = "distributed")]
mod sync_batch_norm;
mod transformer;

pub use attention::MultiheadAttention;
pub use container::{Checkpoint, Residual, Sequential};
pub use conv::{Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d};
pub use dropout::Dropout;
pub use generator::Generator;
pub use linear::{Bilinear, Embedding, Linear};
pub use lora::Lora;
pub use loss::{
    BinaryCrossEntropyOptions, BinaryCrossEntropyWithLogitsOptions, CrossEntropyOptions,
};
pub use loss::{
    GaussianNllOptions, LossReduction, NllOptions, PoissonNllOptions, TripletMarginOptions,
};
pub use module::{Layer, Member, Members, Mode, Module};
pub use norm::{BatchNorm, GroupNorm, InstanceNorm, LayerNorm, RmsNorm};
pub use recurrent::{Gru, Lstm, Nonlinearity, RecurrentOptions, Rnn};
#[cfg(feature = "distributed")]
pub use sync_batch_norm::SyncBatchNorm;
pub use transformer::{
    Activation, TransformerDecoderLayer, TransformerEncoderLayer, TransformerOptions,
};
