//! Low-rank adaptation of language models (Hu et al. 2021): the weights stay as they are packed, and narrow matrices next to
//! them are learned.
//!
//! [`LoraAdapter::loss`] runs the decoder on whole lists of tokens, padded to one length. Tokens attend only to those before,
//! so the padding at the end changes nothing. Rows whose next token is not learned have no logits computed.

use super::adapter::{Adapter, Projection, Site};
use super::pass::Pass;
use super::resident::Resident;
use super::{LanguageModel, Loaded, ModelConfig};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::nn::{init, CrossEntropyOptions, Generator, LossReduction, Members, Module};
use crate::tensor::Tensor;
use crate::text::{ChatOptions, Message};
use std::sync::Arc;

/// Lengths and numbers of rows are rounded up to a multiple of this, so that fewer programs are planned.
const ROUND: usize = 16;

/// Rows whose logits are in memory together.
const MAX_LOGIT_ROWS: usize = 256;

/// A target that counts for nothing.
const IGNORED: i32 = -100;

/// The options of a new adapter. The defaults are those of Hugging Face's `peft`.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraOptions {
    /// Columns of B and rows of A. The default is 8.
    pub rank: usize,
    /// The product of A and B is multiplied with `alpha / rank`. The default is 8.
    pub alpha: f64,
    /// The linear layers that are adapted, in each layer of the model. By default queries and values.
    pub targets: Vec<Projection>,
    /// Multiply with `alpha / sqrt(rank)` instead (rsLoRA, Kalajdzievski 2023). The default is no.
    pub rank_stabilized: bool,
    /// The seed of the random values that A begins with.
    pub seed: u32,
}

impl Default for LoraOptions {
    fn default() -> LoraOptions {
        let targets = vec![Projection::Query, Projection::Value];
        LoraOptions { rank: 8, alpha: 8.0, targets, rank_stabilized: false, seed: 0 }
    }
}

/// A list of tokens to learn from.
///
/// ```
/// use warpweft::model::Example;
///
/// let example = Example::completion(&[1, 2, 3], &[4, 5]);
/// assert_eq!(example, Example { tokens: vec![1, 2, 3, 4, 5], prompt: 3 });
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Example {
    /// All tokens.
    pub tokens: Vec<u32>,
    /// How many of them, from the first on, are only read and not learned.
    pub prompt: usize,
}

impl Example {
    /// A text of which each token but the first is learned.
    pub fn text(tokens: &[u32]) -> Example {
        Example { tokens: tokens.to_vec(), prompt: 0 }
    }

    /// A prompt and what is to follow it, of which only the latter is learned.
    pub fn completion(prompt: &[u32], completion: &[u32]) -> Example {
        Example { tokens: [prompt, completion].concat(), prompt: prompt.len() }
    }

    /// The first token that is learned. Nothing comes before token 0.
    fn first(&self) -> usize {
        self.prompt.max(1)
    }
}

/// Narrow matrices next to the packed weights of a [`LanguageModel`], which can be trained. A linear layer with weights `W`
/// then computes `x W^T + scale x A^T B^T`. B begins as zeros, so the model begins as it was.
///
/// The adapter is a [`Module`]. Its parameters are A `[rank, inputs]` and B `[outputs, rank]`, with the names and the order of
/// rows that Hugging Face's `peft` has. Copies share them.
///
/// ```no_run
/// # async fn run(model: warpweft::model::LanguageModel) -> warpweft::error::Result<()> {
/// use warpweft::model::{Example, LoraAdapter, LoraOptions, Projection};
/// use warpweft::{nn::Module, optim::{Adam, Optimizer}};
///
/// let options = LoraOptions { rank: 8, alpha: 16.0, targets: Projection::ALL.to_vec(), ..LoraOptions::default() };
/// let adapter = LoraAdapter::new(&model, &options)?;
/// let mut optimizer = Optimizer::new(Adam::new(1e-3), &adapter.parameters())?;
/// let tokens = model.tokenizer().encode_with_ends("Warp and weft make a fabric.", true)?;
/// for _ in 0..10 {
///     optimizer.minimize(&adapter.loss(&[Example::text(&tokens)])?)?;
/// }
/// let mut context = model.with_adapter(&adapter)?.context()?;
/// let files = adapter.save().await?;
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct LoraAdapter {
    /// The model without an adapter.
    pub(super) model: LanguageModel,
    /// They stay in memory as long as the adapter is there, which is on their device.
    weights: Resident,
    pub(super) adapter: Arc<Adapter>,
    pub(super) rank: usize,
    pub(super) alpha: f64,
    pub(super) rank_stabilized: bool,
}

impl LoraAdapter {
    /// A new adapter for a model. A has random values (Kaiming uniform) and B zeros, as in `peft`.
    ///
    /// # Errors
    /// `Data` if there are no targets, the rank is 0 or above the width of the model, or alpha is not finite; `Memory`.
    pub fn new(model: &LanguageModel, options: &LoraOptions) -> Result<LoraAdapter> {
        let &LoraOptions { rank, alpha, ref targets, rank_stabilized, seed } = options;
        let config = model.config();
        if targets.is_empty() {
            return Err(Error::data("lora: there must be at least one target, got none"));
        }
        if !(1..=config.width).contains(&rank) {
            let most = config.width;
            let must = format!("rank must be from 1 to {most}, the width of the model");
            return Err(Error::data(format!("lora: {must}, got {rank}")));
        }
        let generator = Generator::new(&model.device(), seed);
        let mut lora = LoraAdapter::empty(model, rank, alpha, rank_stabilized)?;
        let adapter = Arc::get_mut(&mut lora.adapter).expect("nothing shares it yet");
        for layer in 0..config.layers {
            for projection in Projection::ALL.into_iter().filter(|target| targets.contains(target))
            {
                let [outputs, inputs] = projection.shape(config);
                let gain = init::Gain::LeakyRelu(5f64.sqrt());
                let a = init::kaiming_uniform(&generator, &[rank, inputs], gain)?;
                let b = model.device().zeros(&[outputs, rank])?;
                adapter.add(config, Site { layer, projection }, &a, &b)?;
            }
        }
        Ok(lora)
    }

    /// An adapter that adapts no layer yet.
    pub(super) fn empty(
        model: &LanguageModel,
        rank: usize,
        alpha: f64,
        rank_stabilized: bool,
    ) -> Result<LoraAdapter> {
        if rank == 0 || !alpha.is_finite() {
            return Err(Error::data(format!(
                "lora: rank must be at least 1 and alpha finite, got rank {rank} and alpha {alpha}"
            )));
        }
        let scale = match rank_stabilized {
            true => alpha / (rank as f64).sqrt(),
            false => alpha / rank as f64,
        };
        let model = LanguageModel { adapter: None, ..model.clone() };
        let weights = model.loaded.weights.get_now()?;
        let adapter = Arc::new(Adapter::new(scale));
        Ok(LoraAdapter { model, weights, adapter, rank, alpha, rank_stabilized })
    }

    /// The model that it was made for, without an adapter.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// Where it is.
    pub fn device(&self) -> &Device {
        &self.weights.device
    }

    /// Columns of B and rows of A.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// The factor of what is learned: `alpha / rank`, or `alpha / sqrt(rank)` if it is rank-stabilized.
    pub fn scale(&self) -> f64 {
        self.adapter.scale
    }

    /// The mean cross-entropy of the tokens that are learned, in all examples together, as a tensor of rank 0. Gradients pass
    /// to A and B. It is recorded; nothing runs yet.
    ///
    /// The examples are computed as one batch, each padded to the length of the longest. So those of similar lengths are best
    /// computed together.
    ///
    /// # Errors
    /// `Data` for no example, one of which no token is learned, or a token that is not in the vocabulary; `Limit` for an
    /// example that is longer than the longest context.
    pub fn loss(&self, examples: &[Example]) -> Result<Tensor> {
        let Loaded { config, context, .. } = &*self.model.loaded;
        let Resident { device, decoder } = &self.weights;
        check(examples, config, *context)?;
        let longest = examples.iter().map(|example| example.tokens.len() - 1).max().unwrap_or(0);
        let length = longest.next_multiple_of(ROUND).min(*context);
        // The tokens that are read, the rows of the batch whose next tokens are learned, and these.
        let (mut read, mut rows, mut targets) = (Vec::new(), Vec::new(), Vec::new());
        for (n, example) in examples.iter().enumerate() {
            let tokens: Vec<i32> = example.tokens.iter().map(|&id| id as i32).collect();
            read.extend(&tokens[..tokens.len() - 1]);
            read.resize((n + 1) * length, 0);
            rows.extend((example.first() - 1..tokens.len() - 1).map(|at| (n * length + at) as i32));
            targets.extend(&tokens[example.first()..]);
        }
        let count = rows.len();
        rows.resize(count.next_multiple_of(ROUND), 0);
        targets.resize(rows.len(), IGNORED);
        let pass = Pass::whole(examples.len(), config, &self.adapter);
        let vectors = decoder.forward(&device.tensor(&read, &[read.len()])?, &pass)?;
        let mut sum: Option<Tensor> = None;
        for (rows, targets) in rows.chunks(MAX_LOGIT_ROWS).zip(targets.chunks(MAX_LOGIT_ROWS)) {
            let rows = vectors.index_select(0, &device.tensor(rows, &[rows.len()])?)?;
            let targets = device.tensor(targets, &[targets.len()])?;
            let reduction = LossReduction::Sum;
            let options =
                CrossEntropyOptions { ignore_index: IGNORED, reduction, ..Default::default() };
            // Logits are large, so they are computed again for gradients.
            let part = rows
                .checkpoint(|rows| decoder.logits(rows)?.cross_entropy(&targets, None, options))?;
            sum = Some(match sum {
                None => part,
                Some(sum) => sum.add(&part)?,
            });
        }
        sum.expect("at least one token is learned").div(count as f64)
    }
}

/// Refuses examples that nothing can be learned from.
fn check(examples: &[Example], config: &ModelConfig, context: usize) -> Result<()> {
    if examples.is_empty() {
        return Err(Error::data("lora: the loss must have at least one example, got none"));
    }
    for (n, example) in examples.iter().enumerate() {
        let Example { tokens, .. } = example;
        if tokens.len() <= example.first() {
            let (first, length) = (example.first(), tokens.len());
            let must = format!("must have tokens after the first {first}");
            return Err(Error::data(format!("lora: example {n} {must}, got {length} tokens")));
        }
        if tokens.len() > context {
            let length = tokens.len();
            let must = format!("must have at most the {context} tokens of a context");
            let message = format!("lora: example {n} {must}, got {length}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        if let Some(id) = tokens.iter().find(|&&id| id as usize >= config.vocabulary) {
            let below = config.vocabulary;
            return Err(Error::data(format!(
                "lora: tokens of example {n} must be below {below}, got {id}"
            )));
        }
    }
    Ok(())
}

impl Module for LoraAdapter {
    fn members(&self, members: &mut Members) {
        for (site, pair) in &self.adapter.pairs {
            let name = |matrix: &str| format!("base_model.model.model.{site}.{matrix}.weight");
            members.parameter(&name("lora_A"), &pair.a).parameter(&name("lora_B"), &pair.b);
        }
    }
}

impl LanguageModel {
    /// A conversation to learn from: its last message, by the template of the model, and the end of that message are learned.
    ///
    /// # Errors
    /// `Data` if there is no message, or the template refuses them; `Unsupported` if the model has no template.
    pub fn chat_example(&self, messages: &[Message]) -> Result<Example> {
        let Some((_, before)) = messages.split_last() else {
            return Err(Error::data("lora: there must be at least one message, got none"));
        };
        let whole = ChatOptions { add_generation_prompt: false, ..ChatOptions::default() };
        let tokens = self.chat_prompt(messages, &whole)?;
        let asked = self.chat_prompt(before, &ChatOptions::default())?;
        let prompt = tokens.iter().zip(&asked).take_while(|(a, b)| a == b).count();
        Ok(Example { tokens, prompt })
    }

    /// The model with an adapter, which replaces one that it has. Both models share the weights. Contexts that were made
    /// before do not change.
    ///
    /// The values of the adapter are read whenever tokens are added to a context, so the model follows the training. A context
    /// keeps the keys and values of the tokens that it has seen already; truncate it to 0 tokens, or make a new one, to have
    /// them computed again.
    ///
    /// # Errors
    /// `Data` if the adapter was made for a model of other extents, or lives on another device.
    ///
    /// ```no_run
    /// # fn run(model: warpweft::model::LanguageModel) -> warpweft::error::Result<()> {
    /// use warpweft::model::{LoraAdapter, LoraOptions};
    ///
    /// let adapter = LoraAdapter::new(&model, &LoraOptions::default())?;
    /// let mut context = model.with_adapter(&adapter)?.context()?;
    /// # Ok(()) }
    /// ```
    pub fn with_adapter(&self, adapter: &LoraAdapter) -> Result<LanguageModel> {
        let theirs = &adapter.model;
        let extents = |model: &LanguageModel| {
            let config = model.config();
            let shapes = Projection::ALL.map(|projection| projection.shape(config));
            (config.architecture.clone(), config.layers, config.heads, shapes)
        };
        if extents(self) != extents(theirs) {
            let must = "the adapter must be for a model of the same family and extents";
            return Err(Error::data(format!("lora: {must}, got another")));
        }
        if !self.device().is_same(&theirs.device()) {
            return Err(Error::wrong_device("lora", "the adapter"));
        }
        let adapter = Some(adapter.adapter.clone());
        Ok(LanguageModel { adapter, ..self.clone() })
    }
}
