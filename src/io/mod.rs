//! Tensors in files: weights as [safetensors](https://huggingface.co/docs/safetensors), arrays as NumPy's `.npy` and `.npz`,
//! and language models as GGUF. [`Gguf`] is the head of a GGUF file, whose tensors can be read and decoded one by one.
//!
//! A file is bytes, or anything that implements `Read` and `Seek`, such as a `std::fs::File`. Models can also be read from a
//! [`Source`], which may have to wait for its bytes. Files are not trusted. A damaged file is a `Format` error that names the
//! problem and its position. Memory is never allocated for bytes that a file only claims to have.
//!
//! ```
//! # pollster::block_on(async {
//! # use warpweft::device::{Device, Preference};
//! use std::collections::BTreeMap;
//! use warpweft::io;
//!
//! let device = Device::with(Preference::Cpu).await?;
//! let weights = BTreeMap::from([("w".to_string(), device.ones(&[2, 3])?)]);
//! let file = io::save_safetensors(&weights, &BTreeMap::new()).await?;
//! let loaded = io::load_safetensors(&device, &file)?;
//! assert_eq!(loaded.tensors["w"].shape(), [2, 3]);
//! # Ok::<(), warpweft::error::Error>(()) }).unwrap();
//! ```

mod elements;
mod gguf;
mod header;
mod literal;
mod npy;
mod npz;
mod other;
mod part;
mod safetensors;
mod safetensors_index;
mod source;
mod zip;

pub use gguf::{BlockFormat, Gguf, GgufArray, GgufParts, GgufTensor, GgufValue};
pub use npy::{load_npy, save_npy};
pub use npz::{load_npz, save_npz};
pub use safetensors::{
    load_safetensors, load_safetensors_from, save_safetensors, Safetensors, Skipped,
};
pub use safetensors_index::SafetensorsIndex;
#[cfg(feature = "model")]
pub(crate) use source::at_once;
pub use source::Source;
