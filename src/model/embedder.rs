//! Embedders, which turn texts into vectors. Vectors of texts with similar meanings are near each other.

use super::bert::{Bert, BertConfig, Parameters};
use super::files::{about, read_settings};
use super::pooling::{dense_folders, Head};
use super::resident::{Residency, Resident};
use crate::backend::{Pending, Shared};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::io::{at_once, Safetensors, Source};
use crate::tensor::{Program, Tensor};
use crate::text::Tokenizer;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::sync::Arc;

/// The most texts in a batch.
const TEXTS: usize = 32;
/// The most tokens in a batch, with padding.
const TOKENS: usize = 4096;
/// Texts are padded to multiples of this number of tokens, so that few lengths need a plan.
const STEP: usize = 8;

/// An encoder that turns texts into vectors of one length. It reads the format of sentence-transformers, of the families BERT
/// (MiniLM, E5, BGE, Arctic) and XLM-RoBERTa.
///
/// ```no_run
/// # async fn run() -> warpweft::error::Result<()> {
/// use warpweft::{device::Device, model::{EmbedOptions, Embedder}};
///
/// let mut files = Vec::new();
/// for name in Embedder::FILES {
///     if let Ok(file) = std::fs::File::open(format!("all-MiniLM-L6-v2/{name}")) {
///         files.push((name.to_string(), file));
///     }
/// }
/// let embedder = Embedder::load(&Device::new().await?, files)?;
/// let vectors = embedder.embed(&["A cat sits.", "A kitten rests."], &EmbedOptions::default())?;
/// let similarity = vectors.matmul(&vectors.transpose(0, 1)?)?;
/// println!("{:?}", similarity.read::<f32>().await?);
/// # Ok(()) }
/// ```
///
/// Copies share the weights.
#[derive(Clone)]
pub struct Embedder {
    loaded: Arc<Loaded>,
}

struct Loaded {
    tokenizer: Tokenizer,
    config: BertConfig,
    dimensions: usize,
    max_tokens: usize,
    /// Whether texts become lower case before the tokenizer reads them.
    lowers: bool,
    prompts: Prompts,
    /// The program from ids and lengths to vectors, which has the weights.
    weights: Residency<Program>,
}

/// Options of [`Embedder::embed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EmbedOptions<'a> {
    /// A text in front of each text, such as `query: `.
    pub prompt: Option<&'a str>,
    /// The name of one of the model's prompts, such as `query`. If `prompt` and `prompt_name` are `None`, the model's default
    /// prompt is used, if it has one.
    pub prompt_name: Option<&'a str>,
}

/// A `config_sentence_transformers.json`.
#[derive(Default, Deserialize)]
struct Prompts {
    #[serde(default)]
    prompts: BTreeMap<String, String>,
    default_prompt_name: Option<String>,
}

/// A `sentence_bert_config.json`.
#[derive(Default, Deserialize)]
struct Limits {
    max_seq_length: Option<usize>,
    #[serde(default)]
    do_lower_case: bool,
}

/// A `tokenizer_config.json`.
#[derive(Default, Deserialize)]
struct TokenizerLimits {
    /// Some files have 1e30, which means no limit.
    model_max_length: Option<f64>,
}

/// Reads the settings in a file. A missing file has the default settings.
fn settings<'a, T: Default + Deserialize<'a>>(
    find: impl Fn(&str) -> Option<&'a [u8]>,
    name: &str,
) -> Result<T> {
    let Some(json) = find(name) else { return Ok(T::default()) };
    let wrong = |error| Error::format(format!("embedder: {name} must be valid, got {error}"));
    serde_json::from_slice(json).map_err(wrong)
}

impl Embedder {
    /// The files of a model, by their names in its folder. Only `config.json`, `tokenizer.json` and `model.safetensors` are
    /// required. Models with a dense layer have its folder, too.
    pub const FILES: [&'static str; 10] = [
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "modules.json",
        "sentence_bert_config.json",
        "config_sentence_transformers.json",
        "1_Pooling/config.json",
        "2_Dense/config.json",
        "2_Dense/model.safetensors",
        "model.safetensors",
    ];

    /// Loads a model from its files ([`Embedder::FILES`]). Other files are not read.
    ///
    /// # Errors
    /// `Format` if a file is missing or damaged, `Unsupported` for other families and modules, `Memory`.
    pub fn load(device: &Device, files: Vec<(String, impl Read + Seek)>) -> Result<Embedder> {
        at_once(Embedder::load_from(device, files))
    }

    /// Loads a model as [`Embedder::load`] does, from files that may have to wait for their bytes.
    ///
    /// # Errors
    /// The errors of [`Embedder::load`].
    pub async fn load_from(device: &Device, files: Vec<(String, impl Source)>) -> Result<Embedder> {
        let (mut small, mut weights) = (BTreeMap::new(), BTreeMap::new());
        for (name, mut file) in files {
            if name.ends_with(".safetensors") {
                weights.insert(name, file);
            } else if name.ends_with(".json") {
                let bytes = read_settings("embedder", &name, &mut file).await?;
                small.insert(name, bytes);
            }
        }
        let find = |name: &str| small.get(name).map(Vec::as_slice);
        let need = |name: &str| {
            let missing =
                || Error::format(format!("embedder: the file {name:?} must be given, got none"));
            find(name).ok_or_else(missing)
        };
        let config = BertConfig::read(need("config.json")?);
        let config = config.map_err(|error| error.within("embedder: config.json"))?;
        let tokenizer = Tokenizer::from_json(need("tokenizer.json")?);
        let tokenizer = tokenizer.map_err(|error| about("embedder", &error))?;
        if tokenizer.vocab_size() > config.vocabulary() {
            let (most, have) = (config.vocabulary(), tokenizer.vocab_size());
            let message =
                format!("embedder: the tokenizer must have at most {most} tokens, got {have}");
            return Err(Error::format(message));
        }
        let limits: Limits = settings(&find, "sentence_bert_config.json")?;
        let tokenizer_limits: TokenizerLimits = settings(&find, "tokenizer_config.json")?;
        let prompts: Prompts = settings(&find, "config_sentence_transformers.json")?;
        let mut dense = BTreeMap::new();
        for folder in dense_folders(find("modules.json"))? {
            let tensors = load_tensors(device, &mut weights, format!("{folder}/model.safetensors"));
            dense.insert(folder, tensors.await?);
        }
        let head = Head::read(config.width(), find, dense)?;
        let mut tensors =
            load_tensors(device, &mut weights, "model.safetensors".to_string()).await?;
        let bert = Bert::new(&config, &mut tensors)?;
        // Values derived from the weights are computed once here, not by each run.
        device.submit()?;
        let length = tokenizer_limits.model_max_length.unwrap_or(f64::MAX) as usize;
        let length = length.min(limits.max_seq_length.unwrap_or(usize::MAX));
        let max_tokens = length.min(config.max_tokens());
        let dimensions = head.dimensions;
        let network = Arc::new(program(device, bert, head)?);
        let weights = Residency::new(Resident { device: device.clone(), network });
        let lowers = limits.do_lower_case;
        let loaded = Loaded { tokenizer, config, dimensions, max_tokens, lowers, prompts, weights };
        Ok(Embedder { loaded: Arc::new(loaded) })
    }

    /// Loads a model with a function that can also load it again, on any device. The weights may then be evicted if memory is
    /// short ([`Device::set_memory_limit`]), and [`Embedder::ready`] loads them again, also after the device was lost.
    ///
    /// # Errors
    /// The errors of `load`.
    pub async fn reloadable(
        device: &Device,
        load: impl Fn(Device) -> Pending<Result<Embedder>> + Shared + 'static,
    ) -> Result<Embedder> {
        let model = load(device.clone()).await?;
        model.set_reload(load);
        Ok(model)
    }

    /// Sets the function that loads the model again, unless the model has one.
    pub(crate) fn set_reload(
        &self,
        load: impl Fn(Device) -> Pending<Result<Embedder>> + Shared + 'static,
    ) {
        self.loaded.weights.set_load(move |device| {
            let loading = load(device);
            Box::pin(async move { loading.await?.loaded.weights.get_now() })
        });
    }

    /// Ensures that the weights are in memory, on a device that works. Evicted weights are loaded again. If the device was
    /// lost, they are loaded on a new device, which is opened with the options of the old one. Vectors on a lost device stay
    /// lost.
    ///
    /// # Errors
    /// The errors of loading. `DeviceLost` if the device was lost, and no other device is available, or the model was not
    /// loaded with [`Embedder::reloadable`].
    pub async fn ready(&self) -> Result<()> {
        let weights = &self.loaded.weights;
        let device = weights.get().await?.device;
        // Only a read is certain to fail on a lost device.
        match device.zeros(&[1])?.read::<f32>().await {
            Err(lost) if lost.kind() == ErrorKind::DeviceLost && weights.can_load() => {
                weights.replace(&device, &lost).await
            }
            read => read.map(drop),
        }
    }

    /// Returns the device of the model. After a loss the model may have been loaded on another device.
    pub fn device(&self) -> Device {
        self.loaded.weights.device()
    }

    /// Returns the tokenizer of the model.
    pub fn tokenizer(&self) -> &Tokenizer {
        &self.loaded.tokenizer
    }

    /// Returns the number of elements of a vector.
    pub fn dimensions(&self) -> usize {
        self.loaded.dimensions
    }

    /// Returns the most tokens of a text. Longer texts are truncated.
    pub fn max_tokens(&self) -> usize {
        self.loaded.max_tokens
    }

    /// Returns the prompts of the model, by name.
    pub fn prompts(&self) -> &BTreeMap<String, String> {
        &self.loaded.prompts.prompts
    }

    /// Computes the vectors of texts, `[texts, dimensions]`. Texts of similar length are computed in one batch. A vector does
    /// not depend on the other texts. White space at both ends of a text is left out. Names of special tokens in a text are
    /// plain text.
    ///
    /// # Errors
    /// `InvalidArgument` if the model has no prompt with the name, `Memory`. `InvalidState` if the weights were evicted, and
    /// their files have to wait for bytes ([`Embedder::ready`]).
    pub fn embed(&self, texts: &[impl AsRef<str>], options: &EmbedOptions) -> Result<Tensor> {
        let prompt = self.prompt(options)?;
        let mut ids = Vec::with_capacity(texts.len());
        for text in texts {
            let text = [prompt, text.as_ref()].concat();
            let lower = self.loaded.lowers.then(|| text.to_lowercase());
            let text = lower.as_deref().unwrap_or(&text).trim();
            ids.push(self.loaded.tokenizer.encode_truncated(text, self.loaded.max_tokens)?);
        }
        self.embed_tokens(&ids)
    }

    /// Computes the vectors of texts that were tokenized already, including the special tokens at both ends.
    ///
    /// # Errors
    /// `InvalidArgument` if a text is empty, or has a token that is not in the vocabulary. `Limit` if a text is too long.
    /// `Memory` and `InvalidState` as in [`Embedder::embed`].
    pub fn embed_tokens(&self, texts: &[impl AsRef<[u32]>]) -> Result<Tensor> {
        let loaded = &*self.loaded;
        for text in texts {
            self.check(text.as_ref())?;
        }
        let weights = loaded.weights.get_now().map_err(|error| error.within("embed"))?;
        if texts.is_empty() {
            return weights.device.zeros(&[0, loaded.dimensions]);
        }
        let length = |n: usize| texts[n].as_ref().len();
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|&n| length(n));
        let mut parts = Vec::new();
        for part in batches(&order, length) {
            let part: Vec<&[u32]> = part.iter().map(|&n| texts[n].as_ref()).collect();
            parts.push(self.batch(&weights, &part)?);
        }
        let sorted = match &parts[..] {
            [one] => one.clone(),
            several => Tensor::concat(&several.iter().collect::<Vec<_>>(), 0)?,
        };
        if order.is_sorted() {
            return Ok(sorted);
        }
        let mut places = vec![0i32; order.len()];
        for (place, &n) in order.iter().enumerate() {
            places[n] = place as i32;
        }
        sorted.index_select(0, &weights.device.tensor(&places, &[places.len()])?)
    }

    fn check(&self, text: &[u32]) -> Result<()> {
        let (most, vocabulary) = (self.loaded.max_tokens, self.loaded.config.vocabulary());
        if text.is_empty() {
            return Err(Error::argument("embed: a text must have at least one token, got none"));
        }
        if text.len() > most {
            let (message, got) = ("embed: a text must have at most", text.len());
            return Err(Error::new(
                ErrorKind::Limit,
                format!("{message} {most} tokens, got {got}"),
            ));
        }
        match text.iter().find(|&&id| id as usize >= vocabulary) {
            None => Ok(()),
            Some(id) => {
                Err(Error::argument(format!("embed: tokens must be below {vocabulary}, got {id}")))
            }
        }
    }

    /// Returns the prompt in front of each text.
    fn prompt<'a>(&'a self, options: &EmbedOptions<'a>) -> Result<&'a str> {
        let Prompts { prompts, default_prompt_name } = &self.loaded.prompts;
        if let Some(prompt) = options.prompt {
            return Ok(prompt);
        }
        let Some(name) = options.prompt_name.or(default_prompt_name.as_deref()) else {
            return Ok("");
        };
        prompts.get(name).map(String::as_str).ok_or_else(|| {
            let names: Vec<&String> = prompts.keys().collect();
            Error::argument(format!("embed: the prompt must be one of {names:?}, got {name:?}"))
        })
    }

    /// Computes the vectors of one batch of texts.
    fn batch(&self, weights: &Resident<Program>, texts: &[&[u32]]) -> Result<Tensor> {
        let config = &self.loaded.config;
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(1);
        let tokens = longest.next_multiple_of(STEP).min(config.max_tokens());
        let padding = config.padding() as i32;
        let mut ids = vec![padding; texts.len() * tokens];
        for (row, text) in ids.chunks_exact_mut(tokens).zip(texts) {
            row.iter_mut().zip(*text).for_each(|(place, &id)| *place = id as i32);
        }
        let lengths: Vec<i32> = texts.iter().map(|text| text.len() as i32).collect();
        let ids = weights.device.tensor(&ids, &[texts.len(), tokens])?;
        let lengths = weights.device.tensor(&lengths, &[texts.len()])?;
        Ok(weights.network.run(&[&ids, &lengths])?.remove(0))
    }
}

/// Cuts texts in order of their lengths into batches.
fn batches(order: &[usize], length: impl Fn(usize) -> usize) -> Vec<&[usize]> {
    let (mut parts, mut begin) = (Vec::new(), 0);
    for end in 1..=order.len() {
        // The longest text of a batch is its last one.
        let is_full = |count: usize| {
            count > TEXTS || count * length(order[end]).next_multiple_of(STEP) > TOKENS
        };
        if end == order.len() || is_full(end + 1 - begin) {
            parts.push(&order[begin..end]);
            begin = end;
        }
    }
    parts
}

/// Loads the tensors of one of the files.
async fn load_tensors(
    device: &Device,
    files: &mut BTreeMap<String, impl Source>,
    name: String,
) -> Result<Parameters> {
    let Some(mut file) = files.remove(&name) else {
        return Err(Error::format(format!("embedder: the file {name:?} must be given, got none")));
    };
    let loaded = Safetensors::load_from(device, &mut file).await;
    let loaded = loaded.map_err(|error| error.within(&format!("embedder: {name}")))?;
    Ok(Parameters::new(loaded.tensors))
}

/// Compiles the program from `ids [texts, tokens]` and `lengths [texts]` to vectors.
fn program(device: &Device, bert: Bert, head: Head) -> Result<Program> {
    let run = move |inputs: &[Tensor]| {
        let (ids, lengths) = (&inputs[0], &inputs[1]);
        let &[texts, tokens] = ids.shape() else { unreachable!("ids have two axes") };
        let places = ids.device().arange(tokens as f64)?.cast(DType::I32)?;
        let is_there = places.reshape(&[1, tokens])?.lt(&lengths.reshape(&[texts, 1])?)?;
        let vectors = bert.forward(ids, &is_there)?;
        Ok(vec![head.apply(&vectors, &is_there, lengths)?.detach()])
    };
    let ids = ["texts".into(), "tokens".into()];
    device.compile_dynamic(&[(&ids[..], DType::I32), (&["texts".into()][..], DType::I32)], run)
}
