//! Language models from files: what predicts the next token.
//!
//! A family of models is a file of its own (`llama.rs`, `gemma3.rs`), close to its paper, and a row of a table in this one.
//! Weights stay as the file has them ([`PackedTensor`](crate::tensor::PackedTensor)).

mod cache;
mod config;
mod gemma3;
mod llama;
mod weights;

pub use config::ModelConfig;

use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::io::Gguf;
use crate::tensor::{DType, Tensor};
use cache::KvCache;
use std::io::{Read, Seek};
use weights::Weights;

/// Tokens of a prompt that are computed together.
const PROMPT: usize = 512;

/// What a family of models does.
trait Decoder {
    /// The vectors of some tokens after the last layer, `[tokens] -> [tokens, width]`. Their keys and values are in the cache
    /// then, behind those that are there; its length is still that before them.
    fn forward(&self, tokens: &Tensor, cache: &KvCache) -> Result<Tensor>;

    /// How likely each token of the vocabulary is to follow, as logits: `[tokens, width] -> [tokens, vocabulary]`.
    fn logits(&self, x: &Tensor) -> Result<Tensor>;
}

/// What may be chosen when a model is loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct LoadOptions {
    /// Tokens of the longest context; by default what the model was trained for, 4,096 at most.
    pub context: Option<usize>,
}

/// A decoder-only language model.
pub struct LanguageModel {
    device: Device,
    config: ModelConfig,
    decoder: Box<dyn Decoder>,
    context: usize,
}

impl LanguageModel {
    /// Loads a GGUF file: of the families `llama` (Llama 2 and 3, SmolLM2, Mistral) and `gemma3`.
    ///
    /// # Errors
    /// `Data` if the file is damaged, or something is missing in it; `Unsupported` for other families, and formats that are
    /// not packed; `Memory`.
    pub fn load(
        device: &Device,
        mut file: impl Read + Seek,
        options: LoadOptions,
    ) -> Result<LanguageModel> {
        let head = Gguf::read(&mut file)?;
        let config = ModelConfig::read(&head)?;
        let context = options.context.unwrap_or(config.context.min(4096)).max(1);
        let mut weights = Weights { head: &head, file, device };
        let decoder: Box<dyn Decoder> = match &config.architecture[..] {
            "llama" => Box::new(llama::Llama::load(&config, &mut weights, context)?),
            "gemma3" => Box::new(gemma3::Gemma3::load(&config, &mut weights, context)?),
            other => {
                let message =
                    format!("model: the family must be `llama` or `gemma3`, got {other:?}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        Ok(LanguageModel { device: device.clone(), config, decoder, context })
    }

    /// The extents and constants of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// Where the model is.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// An empty context, which tokens are added to.
    ///
    /// # Errors
    /// `Memory`.
    pub fn context(&self) -> Result<Context<'_>> {
        let cache = KvCache::new(&self.device, &self.config, self.context, DType::F32)?;
        Ok(Context { model: self, cache })
    }
}

/// The tokens that a model has seen, as keys and values.
pub struct Context<'a> {
    model: &'a LanguageModel,
    cache: KvCache,
}

impl Context<'_> {
    /// How many tokens it has seen.
    pub fn len(&self) -> usize {
        self.cache.length
    }

    /// Whether it has seen none.
    pub fn is_empty(&self) -> bool {
        self.cache.length == 0
    }

    /// Forgets all tokens but the first ones.
    pub fn truncate(&mut self, length: usize) {
        self.cache.length = self.cache.length.min(length);
    }

    /// Adds tokens: the logits of what follows the last one, `[vocabulary]`.
    ///
    /// # Errors
    /// `Data` for a token that is not in the vocabulary, or no token; `Limit` at the end of the context.
    pub fn add(&mut self, tokens: &[u32]) -> Result<Tensor> {
        let x = self
            .vectors(tokens)?
            .pop()
            .ok_or_else(|| Error::data("model: at least one token must be added, got none"))?;
        let last = x.slice(0, -1..)?;
        self.model.decoder.logits(&last)?.detach().squeeze(0)
    }

    /// Adds tokens: the logits of what follows each of them, `[tokens, vocabulary]`.
    ///
    /// # Errors
    /// As [`Context::add`].
    pub fn add_all(&mut self, tokens: &[u32]) -> Result<Tensor> {
        let parts = self.vectors(tokens)?;
        let x = match &parts[..] {
            [] => return Err(Error::data("model: at least one token must be added, got none")),
            [one] => one.clone(),
            several => Tensor::concat(several, 0)?,
        };
        Ok(self.model.decoder.logits(&x)?.detach())
    }

    fn vectors(&mut self, tokens: &[u32]) -> Result<Vec<Tensor>> {
        let model = self.model;
        if let Some(id) = tokens.iter().find(|&&id| id as usize >= model.config.vocabulary) {
            let count = model.config.vocabulary;
            return Err(Error::data(format!("model: tokens must be below {count}, got {id}")));
        }
        if tokens.len() > model.context - self.cache.length {
            let (most, there, more) = (model.context, self.cache.length, tokens.len());
            let message = format!(
                "model: the context must have at most {most} tokens, got {there} and {more} more"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let mut parts = Vec::new();
        for part in tokens.chunks(PROMPT) {
            let ids: Vec<i32> = part.iter().map(|&id| id as i32).collect();
            let ids = model.device.tensor(&ids, &[part.len()])?;
            parts.push(model.decoder.forward(&ids, &self.cache)?.detach());
            self.cache.length += part.len();
        }
        Ok(parts)
    }
}
