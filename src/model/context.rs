//! A context: the tokens that a model has seen, with their keys and values.
//!
//! The tokens are on the host. Keys and values, and the programs that compute with them, are on the device. They may be
//! evicted between two calls, or lost with the device. The next call then computes all tokens again.

use super::adapter::Adapter;
use super::cache::{CachedTokens, KvCache, Positions};
use super::pass::Pass;
use super::resident::Resident;
use super::{Decoder, LanguageModel, Loaded, PROMPT};
use crate::device::{Evictable, Rank};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Program, Tensor};
use std::sync::Arc;

/// The tokens that a model has seen, with their keys and values. A call that fails leaves the context as it was.
pub struct Context {
    model: LanguageModel,
    /// The tokens that the model has seen. The cache has the first of them, usually all.
    tokens: Vec<u32>,
    /// The part on the device. Empty after eviction, until the context is used again.
    cached: Arc<Evictable<Cached>>,
}

/// The part of a context that is on a device.
struct Cached {
    weights: Resident<dyn Decoder>,
    adapter: Option<Arc<Adapter>>,
    cache: CachedTokens,
    /// The program for a part of a prompt, from ids and slots to vectors.
    part: Program,
    /// The program for one token, from its id and slots to logits. It is compiled for the first single token.
    single: Option<Program>,
}

/// Computes the vectors of tokens after the last layer. The inputs are those of a program: the ids of the tokens and their
/// slots.
fn vectors(
    decoder: &dyn Decoder,
    keys: &KvCache,
    adapter: Option<&Adapter>,
    inputs: &[Tensor],
) -> Result<Tensor> {
    let at = Positions::new(&inputs[1], inputs[0].shape()[0])?;
    decoder.forward(&inputs[0], &Pass::cached(keys, &at, adapter))
}

impl Context {
    pub(super) fn new(model: &LanguageModel) -> Result<Context> {
        let model = model.clone();
        let context = Context { model, tokens: Vec::new(), cached: Evictable::new(|_| true) };
        match context.with(|_| Ok(())) {
            // Not an error, because a generation loads the weights again.
            Err(error) if error.kind() == ErrorKind::DeviceLost && context.can_move() => {}
            made => made?,
        }
        Ok(context)
    }

    /// Returns the model.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// Returns the tokens that the model has seen.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns the number of tokens that the model has seen.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether the model has seen no tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// Drops all tokens but the first `length`. A layer with a window may have dropped keys that the next token needs. The
    /// next call then computes all tokens again.
    pub fn truncate(&mut self, length: usize) {
        self.tokens.truncate(length);
        if let Some(cached) = &mut *self.cached.lock() {
            cached.cache.truncate(self.tokens.len());
        }
    }

    /// Replaces the tokens of the context. The common prefix of the old and the new tokens is kept, and only the rest is
    /// computed. Each turn of a conversation therefore computes only its new tokens. Returns the logits, as [`Context::add`]
    /// does.
    ///
    /// # Errors
    /// The errors of [`Context::add`].
    pub fn resume(&mut self, tokens: &[u32]) -> Result<Tensor> {
        self.last_logits(self.common(tokens), tokens)
    }

    /// Adds tokens. Returns the logits of the token after the last one, `[vocabulary]`.
    ///
    /// # Errors
    /// `InvalidArgument` for a token that is not in the vocabulary, or if there is no token. `Limit` if the context is full.
    pub fn add(&mut self, tokens: &[u32]) -> Result<Tensor> {
        self.last_logits(self.tokens.len(), &[&self.tokens, tokens].concat())
    }

    /// Adds tokens. Returns the logits of the next token after each of them, `[tokens, vocabulary]`.
    ///
    /// # Errors
    /// The errors of [`Context::add`].
    pub fn add_all(&mut self, tokens: &[u32]) -> Result<Tensor> {
        let seen = self.tokens.len();
        let all = [&self.tokens, tokens].concat();
        self.extend(seen, &all, |cached| {
            let mut parts = Vec::new();
            for part in all[cached.cache.len()..].chunks(PROMPT) {
                let known = seen.saturating_sub(cached.cache.len());
                let vectors = cached.vectors(part)?;
                if known < part.len() {
                    parts.push(vectors.slice(0, known as isize..)?);
                }
            }
            let vectors = match &parts[..] {
                [one] => one.clone(),
                several => Tensor::concat(several, 0)?,
            };
            Ok(cached.weights.network.logits(&vectors)?.detach())
        })
    }

    /// Returns the number of tokens at the beginning that the context already has. The last one does not count, because its
    /// logits are needed.
    fn common(&self, tokens: &[u32]) -> usize {
        let same = self.tokens.iter().zip(tokens).take_while(|(a, b)| a == b).count();
        same.min(tokens.len().saturating_sub(1))
    }

    /// Replaces the tokens of the context. New tokens are computed by [`Context::next_logits`].
    ///
    /// # Errors
    /// The errors of [`Context::add`].
    pub(super) fn set_tokens(&mut self, tokens: &[u32]) -> Result<()> {
        let kept = self.common(tokens);
        self.check(kept, &tokens[kept..])?;
        self.truncate(kept);
        self.tokens.extend_from_slice(&tokens[kept..]);
        Ok(())
    }

    /// Adds a token of the vocabulary. The context must have room. The token is computed by [`Context::next_logits`].
    pub(super) fn push(&mut self, token: u32) {
        self.tokens.push(token);
    }

    /// Returns the logits of the token after the last one, `[vocabulary]`.
    pub(super) fn next_logits(&mut self) -> Result<Tensor> {
        let tokens = self.tokens.clone();
        self.last_logits(self.common(&tokens), &tokens)
    }

    fn last_logits(&mut self, kept: usize, tokens: &[u32]) -> Result<Tensor> {
        self.extend(kept, tokens, |cached| {
            let mut parts = tokens[cached.cache.len()..].chunks(PROMPT);
            let last = parts.next_back().unwrap_or_default();
            for part in parts {
                cached.vectors(part)?;
            }
            if let &[token] = last {
                return cached.logits(token);
            }
            let vector = cached.vectors(last)?.slice(0, -1..)?;
            cached.weights.network.logits(&vector)?.detach().squeeze(0)
        })
    }

    /// Replaces the tokens of the context, which has the first `kept` already. `compute` computes the tokens that are not in
    /// the cache.
    fn extend(
        &mut self,
        kept: usize,
        tokens: &[u32],
        compute: impl FnOnce(&mut Cached) -> Result<Tensor>,
    ) -> Result<Tensor> {
        self.check(kept, &tokens[kept..])?;
        let computed = self.with(|cached| {
            cached.cache.truncate(kept);
            let computed = compute(cached);
            if computed.is_err() {
                // The next call computes the tokens after the first `kept` again.
                cached.cache.truncate(kept);
            }
            computed
        })?;
        self.tokens.truncate(kept);
        self.tokens.extend_from_slice(&tokens[kept..]);
        Ok(computed)
    }

    /// Calls `work` with the part on the device. That part is created if it was evicted, or if the weights have moved from a
    /// lost device to another one. A context with an adapter stays on the lost device, because the adapter does.
    fn with<T>(&self, work: impl FnOnce(&mut Cached) -> Result<T>) -> Result<T> {
        let mut slot = self.cached.lock();
        if self.model.adapter.is_none() {
            let device = self.model.device();
            slot.take_if(|cached| !device.is_same(&cached.weights.device));
        }
        let cached = match &mut *slot {
            Some(cached) => cached,
            empty => {
                let cached = Cached::new(&self.model, self.model.loaded.weights.get_now()?)?;
                self.cached.register(&cached.weights.device, Rank::Cache);
                empty.insert(cached)
            }
        };
        work(cached)
    }

    /// Prepares another try after an error. Returns whether one is useful, because memory was freed, or the weights were
    /// loaded to a device that works.
    ///
    /// # Errors
    /// `DeviceLost` if no other device is available, or the weights could not be loaded to it.
    pub(super) async fn recover(&mut self, from: &Error) -> Result<bool> {
        match from.kind() {
            ErrorKind::Memory => {
                // The slot of this context is locked, so only other slots are evicted.
                let _own = self.cached.lock();
                Ok(self.model.device().evict_one())
            }
            ErrorKind::DeviceLost if self.can_move() => {
                let own = self.cached.lock().take().map(|cached| cached.weights.device);
                let lost = own.unwrap_or_else(|| self.model.device());
                self.model.loaded.weights.replace(&lost, from).await.map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// Whether the context can continue after its device was lost. An adapter is lost with its device.
    fn can_move(&self) -> bool {
        self.model.adapter.is_none() && self.model.loaded.weights.can_load()
    }

    fn check(&self, there: usize, new: &[u32]) -> Result<()> {
        let Loaded { config, context, .. } = &*self.model.loaded;
        if new.is_empty() {
            return Err(Error::argument("model: at least one token must be added, got none"));
        }
        if let Some(id) = new.iter().find(|&&id| id as usize >= config.vocabulary) {
            let count = config.vocabulary;
            return Err(Error::argument(format!("model: tokens must be below {count}, got {id}")));
        }
        if new.len() > context - there {
            let (most, more) = (context, new.len());
            let message = format!(
                "model: the context must have at most {most} tokens, got {there} and {more} more"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }
}

impl Cached {
    fn new(model: &LanguageModel, weights: Resident<dyn Decoder>) -> Result<Cached> {
        let Loaded { config, context, cache, .. } = &*model.loaded;
        let cache = CachedTokens::new(&weights.device, config, *context, *cache)?;
        let (decoder, keys) = (weights.network.clone(), cache.cache.clone());
        let adapter = model.adapter.clone();
        let vectors = move |inputs: &[Tensor]| {
            Ok(vec![vectors(&*decoder, &keys, adapter.as_deref(), inputs)?.detach()])
        };
        let inputs = [(&["tokens".into()][..], DType::I32), (&[4.into()][..], DType::I32)];
        let part = weights.device.compile_dynamic(&inputs, vectors)?;
        Ok(Cached { weights, adapter: model.adapter.clone(), cache, part, single: None })
    }

    /// Computes the vectors of the next tokens, and adds the tokens to the cache.
    fn vectors(&mut self, part: &[u32]) -> Result<Tensor> {
        let inputs = self.inputs(part)?;
        let vectors = self.part.run(&[&inputs[0], &inputs[1]])?.remove(0);
        self.cache.extend(part.len());
        Ok(vectors)
    }

    /// Computes the logits after the next token, and adds the token to the cache.
    fn logits(&mut self, token: u32) -> Result<Tensor> {
        let inputs = self.inputs(&[token])?;
        let program = match &self.single {
            Some(program) => program,
            None => {
                let Resident { device, network: decoder } = &self.weights;
                let (keys, adapter) = (&self.cache.cache, self.adapter.as_deref());
                let logits = |inputs: &[Tensor]| {
                    let vector = vectors(&**decoder, keys, adapter, inputs)?;
                    Ok(vec![decoder.logits(&vector)?.squeeze(0)?.detach()])
                };
                let kinds = [(&[1][..], DType::I32), (&[4][..], DType::I32)];
                self.single.insert(device.compile(&kinds, logits)?)
            }
        };
        let logits = program.run(&[&inputs[0], &inputs[1]])?.remove(0);
        self.cache.extend(1);
        Ok(logits)
    }

    /// Creates the inputs of both programs: the ids of the next tokens, and their slots in the cache. First makes room in the
    /// cache.
    fn inputs(&mut self, part: &[u32]) -> Result<[Tensor; 2]> {
        self.cache.make_room(part.len())?;
        let (device, slots) = (&self.weights.device, self.cache.slots(part.len()));
        let ids: Vec<i32> = part.iter().map(|&id| id as i32).collect();
        Ok([device.tensor(&ids, &[part.len()])?, device.tensor(&slots, &[4])?])
    }
}
