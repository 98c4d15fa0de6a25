//! Low-rank adaptation of language models (LoRA, Hu et al. 2021). The weights stay packed, and narrow matrices next to them
//! are learned.
//!
//! [`LoraAdapter::loss`] runs the decoder on whole lists of tokens, padded to one length. Tokens attend only to themselves
//! and to earlier ones, so the padding at the end has no effect. Logits are computed only for rows whose next token is
//! learned.

use super::adapter::{Adapter, Projection, Site};
use super::pass::Pass;
use super::resident::Resident;
use super::{Decoder, LanguageModel, Loaded, ModelConfig};
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::nn::{init, CrossEntropyOptions, Generator, LossReduction, Members, Module};
use crate::tensor::Tensor;
use crate::text::{ChatOptions, Message};
use std::sync::Arc;

/// Lengths and numbers of rows are rounded up to a multiple of this, so that fewer plans are needed.
const ROUND: usize = 16;

/// The most rows whose logits are in memory at once.
const MAX_LOGIT_ROWS: usize = 256;

/// A target that the loss ignores.
const IGNORED: i32 = -100;

/// The options of a new adapter. The defaults are those of Hugging Face's `peft`.
#[derive(Clone, Debug, PartialEq)]
pub struct LoraOptions {
    /// Columns of B and rows of A. The default is 8.
    pub rank: usize,
    /// The numerator of the scale: the product of A and B is multiplied with `alpha / rank`. The default is 8.
    pub alpha: f64,
    /// The linear layers that are adapted, in each layer of the model. The default is queries and values.
    pub targets: Vec<Projection>,
    /// Whether the factor is `alpha / sqrt(rank)` instead (rsLoRA, Kalajdzievski 2023). The default is false.
    pub rank_stabilized: bool,
    /// The seed of A's random initial values.
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
    /// The number of first tokens that are only read and not learned.
    pub prompt: usize,
}

impl Example {
    /// Creates an example from a text. Every token except the first is learned.
    pub fn text(tokens: &[u32]) -> Example {
        Example { tokens: tokens.to_vec(), prompt: 0 }
    }

    /// Creates an example from a prompt and its completion. Only the completion is learned.
    pub fn completion(prompt: &[u32], completion: &[u32]) -> Example {
        Example { tokens: [prompt, completion].concat(), prompt: prompt.len() }
    }

    /// Returns the first token that is learned. Token 0 has no token before, so it is never learned.
    fn first(&self) -> usize {
        self.prompt.max(1)
    }
}

/// Trainable narrow matrices next to the packed weights of a [`LanguageModel`]. A linear layer with weights `W` then computes
/// `x W^T + scale x A^T B^T`. B begins as zeros, so the model begins unchanged.
///
/// The adapter is a [`Module`]. Its parameters are A `[rank, inputs]` and B `[outputs, rank]`. Names and the order of rows
/// are those of Hugging Face's `peft`. Copies share the parameters.
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
    /// The weights of the model. They stay in memory, on the device of the adapter, as long as the adapter exists.
    weights: Resident<dyn Decoder>,
    pub(super) adapter: Arc<Adapter>,
    pub(super) rank: usize,
    pub(super) alpha: f64,
    pub(super) rank_stabilized: bool,
}

impl LoraAdapter {
    /// Creates an adapter for a model. A has random values (Kaiming uniform) and B has zeros, as in `peft`.
    ///
    /// # Errors
    /// `InvalidArgument` if `targets` is empty, the rank is 0 or above the width of the model, or alpha is not finite.
    /// `Memory`.
    pub fn new(model: &LanguageModel, options: &LoraOptions) -> Result<LoraAdapter> {
        let &LoraOptions { rank, alpha, ref targets, rank_stabilized, seed } = options;
        let config = model.config();
        if targets.is_empty() {
            return Err(Error::argument("lora: there must be at least one target, got none"));
        }
        if !(1..=config.width).contains(&rank) {
            let most = config.width;
            let must = format!("rank must be from 1 to {most}, the width of the model");
            return Err(Error::argument(format!("lora: {must}, got {rank}")));
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

    /// Creates an adapter without layers.
    pub(super) fn empty(
        model: &LanguageModel,
        rank: usize,
        alpha: f64,
        rank_stabilized: bool,
    ) -> Result<LoraAdapter> {
        if rank == 0 || !alpha.is_finite() {
            return Err(Error::argument(format!(
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

    /// Returns the model that the adapter was made for, without an adapter.
    pub fn model(&self) -> &LanguageModel {
        &self.model
    }

    /// Returns the device of the adapter.
    pub fn device(&self) -> &Device {
        &self.weights.device
    }

    /// Returns the columns of B, which are the rows of A.
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Returns the factor of the product of A and B: `alpha / rank`, or `alpha / sqrt(rank)` if the adapter is
    /// rank-stabilized.
    pub fn scale(&self) -> f64 {
        self.adapter.scale
    }

    /// Records the mean cross-entropy of the learned tokens in all examples, as a tensor of rank 0. Gradients reach A and B.
    ///
    /// The examples are computed as one batch, each padded to the longest length. So examples of similar lengths should be
    /// computed together.
    ///
    /// # Errors
    /// `InvalidArgument` without examples, for an example without learned tokens, or for a token that is not in the vocabulary.
    /// `Limit` for an example that is longer than the longest context.
    pub fn loss(&self, examples: &[Example]) -> Result<Tensor> {
        let Loaded { config, context, .. } = &*self.model.loaded;
        let Resident { device, network: decoder } = &self.weights;
        check(examples, config, *context)?;
        let longest = examples.iter().map(|example| example.tokens.len() - 1).max().unwrap_or(0);
        let length = longest.next_multiple_of(ROUND).min(*context);
        // The tokens to read, the rows of the batch whose next token is learned, and those next tokens.
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
            // Logits are large, so they are recomputed for gradients.
            let part =
                rows.checkpoint(|rows| decoder.logits(rows)?.cross_entropy(&targets, options))?;
            sum = Some(match sum {
                None => part,
                Some(sum) => sum.add(&part)?,
            });
        }
        sum.expect("at least one token is learned").div(count as f64)
    }
}

/// Rejects examples without learned tokens, and examples that do not fit the model.
fn check(examples: &[Example], config: &ModelConfig, context: usize) -> Result<()> {
    if examples.is_empty() {
        return Err(Error::argument("lora: the loss must have at least one example, got none"));
    }
    for (n, example) in examples.iter().enumerate() {
        let Example { tokens, .. } = example;
        if tokens.len() <= example.first() {
            let (first, length) = (example.first(), tokens.len());
            let must = format!("must have tokens after the first {first}");
            return Err(Error::argument(format!("lora: example {n} {must}, got {length} tokens")));
        }
        if tokens.len() > context {
            let length = tokens.len();
            let must = format!("must have at most the {context} tokens of a context");
            let message = format!("lora: example {n} {must}, got {length}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        if let Some(id) = tokens.iter().find(|&&id| id as usize >= config.vocabulary) {
            let below = config.vocabulary;
            return Err(Error::argument(format!(
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
    /// Creates an example from a conversation. The last message, formatted by the model's template, and the end of that
    /// message are learned.
    ///
    /// # Errors
    /// `InvalidArgument` if `messages` is empty or the template rejects them, `Unsupported` if the model has no template.
    pub fn chat_example(&self, messages: &[Message]) -> Result<Example> {
        let Some((_, before)) = messages.split_last() else {
            return Err(Error::argument("lora: there must be at least one message, got none"));
        };
        let whole = ChatOptions { add_generation_prompt: false, ..ChatOptions::default() };
        let tokens = self.chat_prompt(messages, &whole)?;
        let asked = self.chat_prompt(before, &ChatOptions::default())?;
        let prompt = tokens.iter().zip(&asked).take_while(|(a, b)| a == b).count();
        Ok(Example { tokens, prompt })
    }

    /// Returns the model with an adapter, which replaces an earlier adapter. Both models share the weights. Existing contexts
    /// do not change.
    ///
    /// A context reads the current values of the adapter for each added token, so the model follows the training. Keys and
    /// values of tokens in the context stay as they were computed. To recompute them, truncate the context to 0 tokens or
    /// create a new one.
    ///
    /// # Errors
    /// `InvalidArgument` if the adapter was made for a model of other sizes, or is on another device.
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
            return Err(Error::argument(format!("lora: {must}, got another")));
        }
        if !self.device().is_same(&theirs.device()) {
            return Err(Error::wrong_device("lora", "the adapter"));
        }
        let adapter = Some(adapter.adapter.clone());
        Ok(LanguageModel { adapter, ..self.clone() })
    }
}
