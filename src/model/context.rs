//! A context: tokens that a model has seen, and what it keeps of them.

use super::cache::KvCache;
use super::LanguageModel;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{DType, Tensor};

/// Tokens of a prompt that are computed together.
pub(super) const PROMPT: usize = 512;

/// The tokens that a model has seen, as keys and values.
pub struct Context<'a> {
    model: &'a LanguageModel,
    cache: KvCache,
    /// The tokens that are in the cache.
    tokens: Vec<u32>,
}

impl<'a> Context<'a> {
    pub(super) fn new(model: &'a LanguageModel) -> Result<Context<'a>> {
        let cache = KvCache::new(&model.device, &model.config, model.context, DType::F32)?;
        Ok(Context { model, cache, tokens: Vec::new() })
    }

    /// The model.
    pub fn model(&self) -> &'a LanguageModel {
        self.model
    }

    /// The tokens that it has seen.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

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
        self.tokens.truncate(length);
        self.cache.length = self.tokens.len();
    }

    /// Makes it the context of these tokens: those at the beginning that it has seen already are kept, all others are
    /// forgotten, and the rest is added. So each turn of a conversation computes what is new. The result is as of
    /// [`Context::add`].
    ///
    /// # Errors
    /// As [`Context::add`].
    pub fn resume(&mut self, tokens: &[u32]) -> Result<Tensor> {
        let same = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        // Of the last token the logits are wanted.
        self.truncate(same.min(tokens.len().saturating_sub(1)));
        self.add(&tokens[self.tokens.len()..])
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
            let x = model.device.together(|| model.decoder.forward(&ids, &self.cache))?;
            parts.push(x.detach());
            self.tokens.extend_from_slice(part);
            self.cache.length = self.tokens.len();
        }
        Ok(parts)
    }
}
