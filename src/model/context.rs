//! A context: tokens that a model has seen, and what it keeps of them.

use super::cache::{CachedTokens, KvCache, Positions};
use super::pass::Pass;
use super::{LanguageModel, Loaded, PROMPT};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{Program, Tensor};

/// The tokens that a model has seen, as keys and values. A call that fails leaves it as it was.
pub struct Context {
    model: LanguageModel,
    cache: CachedTokens,
    /// The tokens that it has seen. The first of them are in the cache, all but after [`Context::truncate`].
    tokens: Vec<u32>,
    /// The program for a part of a prompt: from ids and slots to vectors.
    part: Program,
    /// The program for one token: from its id and slots to logits. It is compiled when the first single token comes.
    single: Option<Program>,
}

/// The vectors of tokens after the last layer, by the inputs of a program: the ids of the tokens, and their slots.
fn vectors(model: &LanguageModel, keys: &KvCache, inputs: &[Tensor]) -> Result<Tensor> {
    let at = Positions::new(&inputs[1], inputs[0].shape()[0])?;
    model.loaded.decoder.forward(&inputs[0], &Pass::cached(keys, &at, model.adapter.as_deref()))
}

impl Context {
    pub(super) fn new(model: &LanguageModel) -> Result<Context> {
        let Loaded { device, config, context, cache, .. } = &*model.loaded;
        let cache = CachedTokens::new(device, config, *context, *cache)?;
        let (decoder, keys) = (model.clone(), cache.cache.clone());
        let vectors = move |inputs: &[Tensor]| Ok(vec![vectors(&decoder, &keys, inputs)?.detach()]);
        let inputs = [(&["tokens".into()][..], DType::I32), (&[4.into()][..], DType::I32)];
        let part = device.compile_dynamic(&inputs, vectors)?;
        let model = model.clone();
        Ok(Context { model, cache, tokens: Vec::new(), part, single: None })
    }

    /// The model.
    pub fn model(&self) -> &LanguageModel {
        &self.model
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
        let all = [&self.tokens, tokens].concat();
        self.extend(seen, &all, |context| {
            let mut parts = Vec::new();
            for part in all[context.cache.len()..].chunks(PROMPT) {
                let known = seen.saturating_sub(context.cache.len());
                let vectors = context.vectors(part)?;
                if known < part.len() {
                    parts.push(vectors.slice(0, known as isize..)?);
                }
            }
            let vectors = match &parts[..] {
                [one] => one.clone(),
                several => Tensor::concat(several, 0)?,
            };
            Ok(context.model.loaded.decoder.logits(&vectors)?.detach())
        })
    }

    fn last_logits(&mut self, kept: usize, tokens: &[u32]) -> Result<Tensor> {
        self.extend(kept, tokens, |context| {
            let mut parts = tokens[context.cache.len()..].chunks(PROMPT);
            let last = parts.next_back().unwrap_or_default();
            for part in parts {
                context.vectors(part)?;
            }
            if let &[token] = last {
                return context.logits(token);
            }
            let vector = context.vectors(last)?.slice(0, -1..)?;
            context.model.loaded.decoder.logits(&vector)?.detach().squeeze(0)
        })
    }

    /// Makes these its tokens, of which the first `kept` are its own already, after `compute` has computed those that are
    /// not in the cache.
    fn extend(
        &mut self,
        kept: usize,
        tokens: &[u32],
        compute: impl FnOnce(&mut Self) -> Result<Tensor>,
    ) -> Result<Tensor> {
        self.check(kept, &tokens[kept..])?;
        self.cache.truncate(kept);
        let computed = compute(self);
        match &computed {
            Ok(_) => {
                self.tokens.truncate(kept);
                self.tokens.extend_from_slice(&tokens[kept..]);
            }
            // Its own tokens behind those that were kept are computed again by the next call.
            Err(_) => self.cache.truncate(kept),
        }
        computed
    }

    fn check(&self, there: usize, new: &[u32]) -> Result<()> {
        let Loaded { config, context, .. } = &*self.model.loaded;
        if new.is_empty() {
            return Err(Error::data("model: at least one token must be added, got none"));
        }
        if let Some(id) = new.iter().find(|&&id| id as usize >= config.vocabulary) {
            let count = config.vocabulary;
            return Err(Error::data(format!("model: tokens must be below {count}, got {id}")));
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

    /// The vectors of the next tokens, which are in the cache afterwards.
    fn vectors(&mut self, part: &[u32]) -> Result<Tensor> {
        let inputs = self.inputs(part)?;
        let vectors = self.part.run(&[&inputs[0], &inputs[1]])?.remove(0);
        self.cache.extend(part.len());
        Ok(vectors)
    }

    /// The logits of what follows the next token, which is in the cache afterwards.
    fn logits(&mut self, token: u32) -> Result<Tensor> {
        let inputs = self.inputs(&[token])?;
        let program = match &self.single {
            Some(program) => program,
            None => {
                let (model, keys) = (&self.model, &self.cache.cache);
                let logits = |inputs: &[Tensor]| {
                    let vector = vectors(model, keys, inputs)?;
                    Ok(vec![model.loaded.decoder.logits(&vector)?.squeeze(0)?.detach()])
                };
                let kinds = [(&[1][..], DType::I32), (&[4][..], DType::I32)];
                self.single.insert(self.model.device().compile(&kinds, logits)?)
            }
        };
        let logits = program.run(&[&inputs[0], &inputs[1]])?.remove(0);
        self.cache.extend(1);
        Ok(logits)
    }

    /// The inputs of both programs: the ids of the next tokens, and their slots in the cache. Makes room in the cache first.
    fn inputs(&mut self, part: &[u32]) -> Result<[Tensor; 2]> {
        self.cache.make_room(part.len())?;
        let (device, slots) = (self.model.device(), self.cache.slots(part.len()));
        let ids: Vec<i32> = part.iter().map(|&id| id as i32).collect();
        Ok([device.tensor(&ids, &[part.len()])?, device.tensor(&slots, &[4])?])
    }
}
