//! The files of a language model: a GGUF file, or a folder as Hugging Face's `transformers` saves it.

use super::hugging_face;
use crate::error::{brief, Error, ErrorKind, Result};
use crate::io::{Gguf, GgufParts, SafetensorsIndex, Source};
use crate::text::{ChatTemplate, Tokenizer};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The operation in error messages.
const OP: &str = "model";

/// The largest size of a file of settings, in bytes.
const MAX_SETTINGS_BYTES: u64 = 64 << 20;

/// The files of a language model. Their heads have been read, and the weights have not.
///
/// ```no_run
/// # async fn run() -> warpweft::error::Result<()> {
/// use std::fs::File;
/// use warpweft::{device::Device, model::{LanguageModel, LoadOptions, ModelFiles}};
///
/// let mut files = Vec::new();
/// for name in ModelFiles::NAMES {
///     if let Ok(file) = File::open(format!("SmolLM2-135M-Instruct/{name}")) {
///         files.push((name.to_string(), file));
///     }
/// }
/// let files = ModelFiles::folder(files).await?;
/// println!("{} tensors", files.head().tensors.len());
/// let model = LanguageModel::load_files(&Device::new().await?, files, LoadOptions::default()).await?;
/// # Ok(()) }
/// ```
pub struct ModelFiles<F> {
    head: Gguf,
    weights: GgufParts<F>,
    /// The settings in a folder, by file name. `None` for a GGUF file, which has its settings in the head.
    settings: Option<BTreeMap<String, Vec<u8>>>,
}

/// A `generation_config.json` or `config.json`.
#[derive(Default, Deserialize)]
struct EndOfGeneration {
    eos_token_id: Option<Value>,
}

/// A `tokenizer_config.json`.
#[derive(Deserialize)]
struct Templates {
    chat_template: Option<Value>,
}

const INDEX: &str = "model.safetensors.index.json";
const WEIGHTS: &str = "model.safetensors";

impl ModelFiles<std::fs::File> {
    /// The names of the files in a folder. Only `config.json`, `tokenizer.json`, and either `model.safetensors` or its index
    /// are required. The index names further files ([`SafetensorsIndex`]).
    pub const NAMES: [&'static str; 7] = [
        "config.json",
        "generation_config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
        INDEX,
        WEIGHTS,
    ];
}

impl<F: Source> ModelFiles<F> {
    /// Reads the heads of a GGUF file's parts, in order. Most models have one part.
    ///
    /// # Errors
    /// The errors of [`Gguf::read_parts`].
    pub async fn gguf(parts: Vec<F>) -> Result<ModelFiles<F>> {
        let (head, weights) = Gguf::read_parts(parts).await?;
        Ok(ModelFiles { head, weights, settings: None })
    }

    /// Reads the settings and the heads in a folder that Hugging Face's `transformers` saved. `files` has each file with its
    /// name. Only files that are in [`ModelFiles::NAMES`] or in the index are read.
    ///
    /// # Errors
    /// Errors name the file.
    /// `Format` if a file is missing or damaged, `Memory`. `Unsupported` for other families than `llama`, `mistral` and
    /// `gemma3_text`, for settings that are not implemented, and for weights that are not `F32`, `F16` or `BF16`.
    pub async fn folder(files: Vec<(String, F)>) -> Result<ModelFiles<F>> {
        let mut files: BTreeMap<String, F> = files.into_iter().collect();
        let mut settings = BTreeMap::new();
        for name in ModelFiles::NAMES.into_iter().filter(|name| *name != WEIGHTS) {
            if let Some(mut file) = files.remove(name) {
                settings.insert(name.to_string(), read_settings(OP, name, &mut file).await?);
            }
        }
        let model = hugging_face::describe(needed(&settings, "config.json")?).map_err(named)?;
        let names = match settings.get(INDEX) {
            Some(index) => {
                let index = SafetensorsIndex::read(index);
                let index = index.map_err(|error| error.within(&format!("{OP}: {INDEX}")))?;
                index.files.into_keys().collect()
            }
            None => vec![WEIGHTS.to_string()],
        };
        let mut shards = Vec::with_capacity(names.len());
        for name in names {
            let file = files.remove(&name).ok_or_else(|| missing(&name))?;
            shards.push((name, file));
        }
        let rename = |name: &str| model.tensor_name(name);
        let read = Gguf::of_safetensors(model.metadata.clone(), shards, rename).await;
        let (head, weights) = read.map_err(named)?;
        if !model.is_tied && !head.tensors.contains_key("output.weight") {
            let must = "`lm_head.weight` must be in the safetensors files unless `tie_word_embeddings` is set";
            return Err(Error::format(format!("model: {must}, got none")));
        }
        Ok(ModelFiles { head, weights, settings: Some(settings) })
    }

    /// Returns the metadata and tensors, as a GGUF file has them. The head of a folder has everything that a converter would
    /// write, except the vocabulary.
    pub fn head(&self) -> &Gguf {
        &self.head
    }

    /// Reads the tokenizer of the model.
    ///
    /// # Errors
    /// The errors of [`Tokenizer::from_gguf`], [`Tokenizer::from_json`] and [`Tokenizer::with_config`]. `Format` if the files
    /// have no tokenizer.
    pub fn tokenizer(&self) -> Result<Tokenizer> {
        let Some(settings) = &self.settings else { return Tokenizer::from_gguf(&self.head) };
        let json = needed(settings, "tokenizer.json")?;
        let mut tokenizer = Tokenizer::from_json(json).map_err(named)?;
        if let Some(config) = settings.get("tokenizer_config.json") {
            tokenizer = tokenizer.with_config(config).map_err(named)?;
        }
        tokenizer.with_ends_of_generation(ends_of_generation(settings).map_err(named)?)
    }

    /// Returns the chat template of the model, or the built-in template that its special tokens were made for.
    ///
    /// # Errors
    /// `Unsupported` if neither exists, `Format` if the template is damaged.
    pub fn chat_template(&self, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
        self.find_chat_template(tokenizer)?.ok_or_else(no_chat_template)
    }

    /// Returns [`ModelFiles::chat_template`], or `None` if neither template exists.
    pub(super) fn find_chat_template(&self, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        let own = match &self.settings {
            None => ChatTemplate::from_gguf(&self.head)?,
            Some(settings) => template_in(settings).map_err(named)?,
        };
        let template = match (own, ChatTemplate::guess(tokenizer)) {
            (Some(template), _) => template,
            (None, Some(name)) => ChatTemplate::named(name)?,
            (None, None) => return Ok(None),
        };
        let text = |id: Option<u32>| id.and_then(|id| tokenizer.token(id)).unwrap_or_default();
        Ok(Some(template.with_tokens(text(tokenizer.bos()), text(tokenizer.eos()))))
    }

    /// Returns the name of the format, such as `GGUF version 3` or `safetensors`.
    pub fn format(&self) -> String {
        match self.settings {
            None => format!("GGUF version {}", self.head.version),
            Some(_) => "safetensors".to_string(),
        }
    }

    /// Returns the bytes of the files that have the weights.
    pub fn bytes(&self) -> u64 {
        self.weights.bytes()
    }

    /// Replaces each file by the reader that `wrap` returns for it, such as a reader that shows progress.
    pub fn map<G>(self, wrap: impl FnMut(F) -> G) -> ModelFiles<G> {
        let ModelFiles { head, weights, settings } = self;
        ModelFiles { head, weights: weights.map(wrap), settings }
    }

    /// Returns the head, and the files that its tensors are read from.
    pub(super) fn into_parts(self) -> (Gguf, GgufParts<F>) {
        (self.head, self.weights)
    }
}

/// Returns the error for a model without a chat template.
pub(super) fn no_chat_template() -> Error {
    let message = "chat: the model must have a chat template, got none; it may be a base model";
    Error::new(ErrorKind::Unsupported, message)
}

/// Returns the tokens that end a generation, from the first file that has any.
fn ends_of_generation(settings: &BTreeMap<String, Vec<u8>>) -> Result<Vec<u32>> {
    for name in ["generation_config.json", "config.json"] {
        let Some(json) = settings.get(name) else { continue };
        let EndOfGeneration { eos_token_id } = parsed(json, name)?;
        let ids = match eos_token_id {
            None | Some(Value::Null) => continue,
            Some(Value::Array(ids)) => ids,
            Some(id) => vec![id],
        };
        let id = |id: &Value| {
            let must = "`eos_token_id` must be an id of a token or a list of ids";
            let wrong =
                || Error::format(format!("{name}: {must}, got {}", brief(format_args!("{id}"))));
            id.as_u64().and_then(|id| u32::try_from(id).ok()).ok_or_else(wrong)
        };
        return ids.iter().map(id).collect();
    }
    Ok(Vec::new())
}

/// Reads the chat template in a folder. The template is a file, or a part of `tokenizer_config.json`.
fn template_in(settings: &BTreeMap<String, Vec<u8>>) -> Result<Option<ChatTemplate>> {
    let file = "chat_template.jinja";
    if let Some(source) = settings.get(file) {
        let source = std::str::from_utf8(source).map_err(|error| {
            let at = error.valid_up_to();
            Error::format(format!("{file}: the file must be UTF-8, got other bytes at offset {at}"))
        })?;
        return ChatTemplate::new(source).map(Some).map_err(|error| error.within(file));
    }
    let file = "tokenizer_config.json";
    let Some(json) = settings.get(file) else { return Ok(None) };
    let Templates { chat_template } = parsed(json, file)?;
    let source = match chat_template {
        Some(Value::String(source)) => Some(source),
        // A list of named templates.
        Some(Value::Array(all)) => {
            let default = all.into_iter().find(|template| template["name"] == "default");
            default.and_then(|template| template["template"].as_str().map(str::to_string))
        }
        _ => None,
    };
    let template = source.map(|source| ChatTemplate::new(&source)).transpose();
    template.map_err(|error| error.within(file))
}

fn parsed<'a, T: Deserialize<'a>>(json: &'a [u8], name: &str) -> Result<T> {
    serde_json::from_slice(json).map_err(|error| {
        let must = "the file must be an object of JSON";
        Error::format(format!("{name}: {must}, got {}", brief(format_args!("{error}"))))
    })
}

fn missing(name: &str) -> Error {
    Error::format(format!("{OP}: the file {} must be given, got none", brief(name)))
}

fn needed<'a>(settings: &'a BTreeMap<String, Vec<u8>>, name: &str) -> Result<&'a [u8]> {
    settings.get(name).map(Vec::as_slice).ok_or_else(|| missing(name))
}

/// Puts the operation in front of an error whose message begins with the name of a file. JavaScript replaces the first word of
/// a message by its name of the operation, so the name of the file must be the second one.
fn named(error: Error) -> Error {
    about(OP, &error)
}

/// Puts `what` in front of an error's message.
pub(super) fn about(what: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("{what}: {}", error.message()))
}

/// Reads the bytes of a file of settings. Errors name the operation and the file.
pub(super) async fn read_settings(op: &str, name: &str, file: &mut impl Source) -> Result<Vec<u8>> {
    let unread = |error: Error| about(&format!("{op}: {name}"), &error);
    let length = file.length().await.map_err(unread)?;
    if length > MAX_SETTINGS_BYTES {
        let must = format!("the file must have at most {MAX_SETTINGS_BYTES} bytes");
        return Err(Error::format(format!("{op}: {name}: {must}, got {length}")));
    }
    file.read_range(0..length).await.map_err(unread)
}
