//! A context: tokens that a model has seen, and what it keeps of them.

use super::cache::KvCache;
use super::{Decoder, LanguageModel, PROMPT};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;

/// The tokens that a model has seen, as keys and values. A call that fails leaves it as it was.
pub struct Context<'a> {
    model: &'a LanguageModel,
    cache: KvCache,
    /// The tokens that it has seen. The first of them are in the cache, all but after [`Context::truncate`].
    tokens: Vec<u32>,
}

impl<'a> Context<'a> {
    pub(super) fn new(model: &'a LanguageModel) -> Result<Context<'a>> {
        let cache = KvCache::new(&model.device, &model.config, model.context, model.cache)?;
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
        self.tokens.len()
    }

    /// Whether it has seen none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Forgets all tokens but the first `length`. Layers that see only a window of the tokens may have forgotten what the next
    /// token needs; the next call then computes all tokens again.
    pub fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
        self.cache.truncate(self.tokens.len());
    }

    /// Makes it the context of these tokens: it keeps the tokens at the beginning that it has seen already, forgets all others,
    /// and adds the rest. So each turn of a conversation computes only what is new. Returns what [`Context::add`] returns.
    ///
    /// # Errors
    /// As [`Context::add`].
    pub fn resume(&mut self, tokens: &[u32]) -> Result<Tensor> {
        let same = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        // The last token is computed in any case: its logits are asked for.
        self.last_logits(same.min(tokens.len().saturating_sub(1)), tokens)
    }

    /// Adds tokens: the logits of what follows the last one, `[vocabulary]`.
    ///
    /// # Errors
    /// `Data` for a token that is not in the vocabulary, or no token; `Limit` at the end of the context.
    pub fn add(&mut self, tokens: &[u32]) -> Result<Tensor> {
        self.last_logits(self.tokens.len(), &[&self.tokens, tokens].concat())
    }

    /// Adds tokens: the logits of what follows each of them, `[tokens, vocabulary]`.
    ///
    /// # Errors
    /// As [`Context::add`].
    pub fn add_all(&mut self, tokens: &[u32]) -> Result<Tensor> {
        let seen = self.tokens.len();
        self.extend(seen, &[&self.tokens, tokens].concat(), |decoder, parts| {
            let x = match parts {
                [one] => one.clone(),
                several => Tensor::concat(several, 0)?,
            };
            Ok(decoder.logits(&x)?.detach())
        })
    }

    fn last_logits(&mut self, kept: usize, tokens: &[u32]) -> Result<Tensor> {
        self.extend(kept, tokens, |decoder, parts| {
            let last = parts[parts.len() - 1].slice(0, -1..)?;
            decoder.logits(&last)?.detach().squeeze(0)
        })
    }

    /// Makes these its tokens, of which the first `kept` are its own already, and hands on the vectors of the others, in parts.
    fn extend(
        &mut self,
        kept: usize,
        tokens: &[u32],
        logits: impl FnOnce(&dyn Decoder, &[Tensor]) -> Result<Tensor>,
    ) -> Result<Tensor> {
        self.check(kept, &tokens[kept..])?;
        self.cache.truncate(kept);
        let done = self
            .vectors(kept, tokens)
            .and_then(|parts| logits(self.model.decoder.as_ref(), &parts));
        match done {
            Ok(logits) => {
                self.tokens.truncate(kept);
                self.tokens.extend_from_slice(&tokens[kept..]);
                Ok(logits)
            }
            // Its own tokens behind those that were kept are computed again by the next call.
            Err(error) => {
                self.cache.truncate(kept);
                Err(error)
            }
        }
    }

    fn check(&self, there: usize, new: &[u32]) -> Result<()> {
        let model = self.model;
        if new.is_empty() {
            return Err(Error::data("model: at least one token must be added, got none"));
        }
        if let Some(id) = new.iter().find(|&&id| id as usize >= model.config.vocabulary) {
            let count = model.config.vocabulary;
            return Err(Error::data(format!("model: tokens must be below {count}, got {id}")));
        }
        if new.len() > model.context - there {
            let (most, more) = (model.context, new.len());
            let message = format!(
                "model: the context must have at most {most} tokens, got {there} and {more} more"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    /// The vectors of the tokens from `first` on, in parts. It computes all tokens that are not in the cache.
    fn vectors(&mut self, first: usize, tokens: &[u32]) -> Result<Vec<Tensor>> {
        let model = self.model;
        let mut parts = Vec::new();
        for part in tokens[self.cache.len()..].chunks(PROMPT) {
            let ids: Vec<i32> = part.iter().map(|&id| id as i32).collect();
            let ids = model.device.tensor(&ids, &[part.len()])?;
            self.cache.make_room(part.len())?;
            let x = model.device.together(|| model.decoder.forward(&ids, &self.cache))?.detach();
            let known = first.saturating_sub(self.cache.len());
            if known < part.len() {
                parts.push(x.slice(0, known as isize..)?);
            }
            self.cache.extend(part.len());
        }
        Ok(parts)
    }
}
