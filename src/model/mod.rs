//! Language models from files: decoders, which predict the next token, and encoders, which turn texts into vectors.
//!
//! A family of decoders is one file (`llama.rs`, `gemma3.rs`), close to its paper, and one entry in the table of families
//! here. Weights stay packed as in the file ([`PackedTensor`](crate::tensor::PackedTensor)). Low-rank adapters are trained
//! next to them ([`LoraAdapter`]).

mod adapter;
mod bert;
mod cache;
mod config;
mod context;
mod embedder;
mod estimate;
mod files;
mod gemma3;
mod generate;
mod hugging_face;
mod llama;
mod lora;
mod pass;
mod peft;
mod pooling;
mod resident;
mod sampling;
mod weights;

pub use adapter::Projection;
pub use config::{ModelConfig, WeightLayout};
pub use context::Context;
pub use embedder::{EmbedOptions, Embedder};
pub use estimate::{estimate, Estimate};
pub use files::ModelFiles;
#[cfg(feature = "js-models")]
pub(crate) use generate::Continuation;
pub use generate::{Finish, GenerateOptions, Generated, Generation};
pub use lora::{Example, LoraAdapter, LoraOptions};
pub use peft::PeftFiles;
pub use sampling::SamplingOptions;

use crate::alloc::available_bytes;
use crate::backend::{DeviceKind, Pending, Shared};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{at_once, Gguf, Source};
use crate::op::PackedArithmetic;
use crate::tensor::Tensor;
use crate::text::{ChatOptions, ChatTemplate, Message, Tokenizer};
use adapter::Adapter;
use pass::Pass;
use resident::{Residency, Resident};
use std::io::{Read, Seek};
use std::sync::Arc;
use weights::Weights;

/// The default limit of a context, in tokens.
pub const DEFAULT_CONTEXT: usize = 4096;

/// The most tokens of a prompt that are computed in one run.
const PROMPT: usize = 512;

/// The decoder of a family of models.
trait Decoder: Shared {
    /// Computes the vectors of tokens after the last layer, `[tokens] -> [tokens, width]`.
    fn forward(&self, tokens: &Tensor, pass: &Pass) -> Result<Tensor>;

    /// Computes the logits of the next token, `[tokens, width] -> [tokens, vocabulary]`.
    fn logits(&self, x: &Tensor) -> Result<Tensor>;
}

/// Options for loading a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadOptions {
    /// The most tokens of a context, at least 1. The default is the length that the model was trained for, but at most 4,096.
    pub context: Option<usize>,
    /// The type of the key-value cache, `F16` or `F32`. The default is `F16` if the device has it. `F16` takes half of the
    /// memory, and changes logits by less than 0.1.
    pub cache: Option<DType>,
    /// The treatment of the other operand in products with the weights. The default is exact. `Int8` makes single tokens
    /// faster on a CPU.
    pub arithmetic: PackedArithmetic,
}

impl LoadOptions {
    /// Returns the most tokens of a context of a model.
    pub fn context_length(&self, config: &ModelConfig) -> usize {
        self.context.unwrap_or(config.context.min(DEFAULT_CONTEXT)).max(1)
    }

    /// Returns the type of the key-value cache on a device.
    ///
    /// # Errors
    /// `DType` if [`cache`](LoadOptions::cache) is neither `F16` nor `F32`.
    pub fn cache_dtype(&self, device: &Device) -> Result<DType> {
        let usual = if device.limits().f16 { DType::F16 } else { DType::F32 };
        match self.cache.unwrap_or(usual) {
            dtype @ (DType::F16 | DType::F32) => Ok(dtype),
            other => {
                let message = format!("model: the cache must be f16 or f32, got {other}");
                Err(Error::new(ErrorKind::DType, message))
            }
        }
    }
}

impl LoadOptions {
    /// Checks that a context has room for a token.
    fn check(&self) -> Result<()> {
        match self.context {
            Some(0) => Err(Error::argument("model: context must be at least 1, got 0")),
            _ => Ok(()),
        }
    }

    /// Estimates the memory of a model on a device if it is loaded with these options.
    ///
    /// # Errors
    /// The errors of [`estimate()`] and [`LoadOptions::cache_dtype`]. `InvalidArgument` for a context of 0 tokens.
    pub fn estimate(&self, device: &Device, head: &Gguf) -> Result<Estimate> {
        self.check()?;
        let context = self.context_length(&ModelConfig::read(head)?);
        estimate(head, context, PROMPT, self.cache_dtype(device)?)
    }
}

/// A decoder-only language model.
///
/// ```no_run
/// # async fn run() -> warpweft::error::Result<()> {
/// use warpweft::{device::Device, model::{GenerateOptions, LanguageModel, LoadOptions}};
///
/// let file = std::io::BufReader::new(std::fs::File::open("model.gguf").expect("a file"));
/// let model = LanguageModel::load(&Device::new().await?, file, LoadOptions::default())?;
/// let mut context = model.context()?;
/// let prompt = model.tokenizer().encode_with_ends("The capital of France is", true)?;
/// let mut generation = context.generate(&prompt, GenerateOptions::default())?;
/// while let Some(token) = generation.next().await? {
///     print!("{}", token.text);
/// }
/// # Ok(()) }
/// ```
/// Copies share the weights.
#[derive(Clone)]
pub struct LanguageModel {
    loaded: Arc<Loaded>,
    adapter: Option<Arc<Adapter>>,
}

/// The parts of a loaded model, which its copies share.
struct Loaded {
    config: ModelConfig,
    tokenizer: Tokenizer,
    template: Option<ChatTemplate>,
    weights: Residency<dyn Decoder>,
    context: usize,
    cache: DType,
}

impl LanguageModel {
    /// Loads a GGUF file of the family `llama` (Llama 2 and 3, SmolLM2, Mistral) or `gemma3`.
    ///
    /// # Errors
    /// `Format` if the file is damaged or incomplete, `Memory`. `Unsupported` for other families, and for formats that are not
    /// packed. `InvalidArgument` for a context of 0 tokens.
    pub fn load(
        device: &Device,
        file: impl Read + Seek,
        options: LoadOptions,
    ) -> Result<LanguageModel> {
        LanguageModel::load_parts(device, vec![file], options)
    }

    /// Loads a model from several files (`-00001-of-00003.gguf` and so on), in order.
    ///
    /// # Errors
    /// The errors of [`LanguageModel::load`] and [`Gguf::read_parts`].
    pub fn load_parts(
        device: &Device,
        parts: Vec<impl Read + Seek>,
        options: LoadOptions,
    ) -> Result<LanguageModel> {
        at_once(LanguageModel::load_from(device, parts, options))
    }

    /// Loads a model as [`LanguageModel::load_parts`] does, from files that may have to wait for their bytes. Dropping the
    /// future cancels the loading.
    ///
    /// # Errors
    /// The errors of [`LanguageModel::load_parts`].
    pub async fn load_from(
        device: &Device,
        parts: Vec<impl Source>,
        options: LoadOptions,
    ) -> Result<LanguageModel> {
        LanguageModel::load_files(device, ModelFiles::gguf(parts).await?, options).await
    }

    /// Loads a model from a GGUF file or from a folder with safetensors files ([`ModelFiles`]). Dropping the future cancels
    /// the loading.
    ///
    /// # Errors
    /// The errors of [`LanguageModel::load`].
    pub async fn load_files(
        device: &Device,
        files: ModelFiles<impl Source>,
        options: LoadOptions,
    ) -> Result<LanguageModel> {
        options.check()?;
        let config = ModelConfig::read(files.head())?;
        let tokenizer = files.tokenizer()?;
        let template = files.find_chat_template(&tokenizer)?;
        let context = options.context_length(&config);
        let cache = options.cache_dtype(device)?;
        refuse_too_large(device, &options.estimate(device, files.head())?)?;
        let (head, file) = files.into_parts();
        let arithmetic = options.arithmetic;
        let mut weights = Weights { head: &head, config: &config, file, device, arithmetic };
        let network: Arc<dyn Decoder> = match &config.architecture[..] {
            "llama" => Arc::new(llama::Llama::load(&config, &mut weights, context).await?),
            "gemma3" => Arc::new(gemma3::Gemma3::load(&config, &mut weights, context).await?),
            other => {
                let message =
                    format!("model: the family must be `llama` or `gemma3`, got {other:?}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        // Values derived from the weights are computed once here, not by each run.
        device.submit()?;
        let weights = Residency::new(Resident { device: device.clone(), network });
        let loaded = Loaded { config, tokenizer, template, weights, context, cache };
        Ok(LanguageModel { loaded: Arc::new(loaded), adapter: None })
    }

    /// Loads a model with a function that can also load it again, on any device. Unused weights may then be evicted if memory
    /// is short ([`Device::set_memory_limit`]). If the device is lost, a [`Generation`] continues on a new device, which is
    /// opened with the options of the old one.
    ///
    /// ```no_run
    /// # async fn run() -> warpweft::error::Result<()> {
    /// use std::fs::File;
    /// use warpweft::{device::Device, model::{LanguageModel, LoadOptions}};
    ///
    /// let load = |device: Device| {
    ///     let file = File::open("model.gguf").expect("a file");
    ///     LanguageModel::load(&device, file, LoadOptions::default())
    /// };
    /// let model = LanguageModel::reloadable(&Device::new().await?, move |device| {
    ///     Box::pin(async move { load(device) })
    /// }).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// The errors of `load`.
    pub async fn reloadable(
        device: &Device,
        load: impl Fn(Device) -> Pending<Result<LanguageModel>> + Shared + 'static,
    ) -> Result<LanguageModel> {
        let model = load(device.clone()).await?;
        model.set_reload(load);
        Ok(model)
    }

    /// Sets the function that loads the model again, unless the model has one.
    pub(crate) fn set_reload(
        &self,
        load: impl Fn(Device) -> Pending<Result<LanguageModel>> + Shared + 'static,
    ) {
        self.loaded.weights.set_load(move |device| {
            let loading = load(device);
            Box::pin(async move { loading.await?.loaded.weights.get_now() })
        });
    }

    /// Ensures that the weights are in memory, and loads them again if they were evicted. Generations do this automatically.
    /// Calls that do not wait, such as [`Context::add`], can load weights only from files that answer at once, such as files
    /// on a disk.
    ///
    /// # Errors
    /// The errors of loading.
    pub async fn ready(&self) -> Result<()> {
        self.loaded.weights.get().await.map(drop)
    }

    /// Returns the sizes and constants of the model.
    pub fn config(&self) -> &ModelConfig {
        &self.loaded.config
    }

    /// Returns the tokenizer of the model.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.loaded.tokenizer
    }

    /// Formats a conversation as a prompt. The chat template is the one in the file, or the built-in one that the special
    /// tokens were made for.
    ///
    /// # Errors
    /// `Unsupported` if neither template exists, `InvalidArgument` if the template rejects the messages.
    pub fn chat_prompt(&self, messages: &[Message], options: &ChatOptions) -> Result<Vec<u32>> {
        let template = self.loaded.template.as_ref().ok_or_else(files::no_chat_template)?;
        template.encode(&self.loaded.tokenizer, messages, options)
    }

    /// Returns the device of the model. After a loss the model may have been loaded on another device.
    pub fn device(&self) -> Device {
        self.loaded.weights.device()
    }

    /// Returns the most tokens of a context.
    pub fn context_length(&self) -> usize {
        self.loaded.context
    }

    /// Creates an empty context, which tokens are added to.
    ///
    /// # Errors
    /// `Memory`.
    pub fn context(&self) -> Result<Context> {
        Context::new(self)
    }
}

/// Rejects a model that does not fit into the free memory, if that is known, even after evictions.
fn refuse_too_large(device: &Device, need: &Estimate) -> Result<()> {
    device.evicting(|| {
        let free = match device.info().kind {
            // In a browser, at most the addresses.
            DeviceKind::Cpu => available_bytes().or(u32::try_from(usize::MAX).ok().map(u64::from)),
            _ => None,
        };
        let used = device.stats().used_bytes;
        let left = device.memory_limit().map(|limit| limit.saturating_sub(used));
        match free.into_iter().chain(left).min().filter(|&free| need.total() > free) {
            None => Ok(()),
            Some(free) => {
                let Estimate { weights, cache, temporaries } = need;
                let message = format!(
                    "model: the model must fit into the free memory of {free} bytes, got {weights} bytes of weights, {cache} \
                     of keys and values, and {temporaries} of temporaries; a shorter context needs less"
                );
                Err(Error::new(ErrorKind::Memory, message))
            }
        }
    })
}
