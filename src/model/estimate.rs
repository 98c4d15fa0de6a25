//! The memory that a model needs, estimated before it is loaded.

use super::cache::capacity;
use super::ModelConfig;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::io::Gguf;

/// The bytes that a model needs on a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Estimate {
    /// The packed weights, and tables of angles.
    pub weights: u64,
    /// Keys and values of a full context.
    pub cache: u64,
    /// The temporaries of a step, and its logits.
    pub temporaries: u64,
}

impl Estimate {
    /// Returns the sum of all bytes.
    pub fn total(&self) -> u64 {
        self.weights.saturating_add(self.cache).saturating_add(self.temporaries)
    }
}

/// Estimates the memory of a model with one context of `context` tokens. Keys and values have the type `cache`. Prompts are
/// computed in parts of at most `batch` tokens ([`LanguageModel`](super::LanguageModel) takes 512).
///
/// # Errors
/// `Format` if the file lacks metadata of the model, `Unsupported` for a tensor in a format that is not packed.
///
/// ```no_run
/// use warpweft::{dtype::DType, io::Gguf, model::estimate};
///
/// let mut file = std::io::BufReader::new(std::fs::File::open("model.gguf").expect("a file"));
/// let bytes = estimate(&Gguf::read(&mut file)?, 4096, 512, DType::F16)?.total();
/// println!("{} MB", bytes / 1_000_000);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
pub fn estimate(file: &Gguf, context: usize, batch: usize, cache: DType) -> Result<Estimate> {
    let config = ModelConfig::read(file)?;
    let product = |factors: &[usize]| factors.iter().fold(1u64, |n, &f| n.saturating_mul(f as u64));
    // The bytes of `f32` numbers.
    let floats = |factors: &[usize]| product(factors).saturating_mul(4);
    let mut weights = 0u64;
    for (name, tensor) in &file.tensors {
        let (rows, columns) = match tensor.shape[..] {
            [rows, columns] => (rows, columns),
            // Norms are stored as `f32`.
            _ => {
                weights = weights.saturating_add(floats(&tensor.shape));
                continue;
            }
        };
        let Some(format) = tensor.format.packed() else {
            let must = "must be in a format that is packed";
            let message = format!("model: {name:?} {must}, got {}", tensor.format);
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        weights = weights.saturating_add(floats(&[rows, format.row_words(columns)]));
    }
    // Windowed layers of Gemma 3 have separate angles.
    let tables = if config.architecture == "gemma3" { 4 } else { 2 };
    weights = weights.saturating_add(floats(&[context, config.head_size, tables]));
    let layers = (0..config.layers).map(|layer| capacity(context, config.layer_window(layer)));
    let slots = layers.fold(0u64, |n, layer| n.saturating_add(layer as u64));
    let slot = product(&[2, config.kv_heads, config.head_size, cache.size()]);
    let cache = slots.saturating_mul(slot);
    // The vectors of tokens, before and after a layer, and the widest values inside of it: gate, up, and their product.
    let tokens = batch.min(context);
    let wide = 2 * config.width + 3 * config.feed_forward;
    let temporaries = floats(&[tokens, wide]).saturating_add(floats(&[config.vocabulary]));
    Ok(Estimate { weights, cache, temporaries })
}
