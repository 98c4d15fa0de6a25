//! Language models for JavaScript: loading, tokenizing, generating texts token by token, and embeddings.

mod adapter;
pub mod core;
mod embedder;
mod hash;
mod options;
mod source;

use self::core::{Generation, Model, Object};
use super::objects::{shells, unusable, Object as Any, Slot};
use super::returns::{promise, to_promise, Made};
use super::{named, Answer, At, FromJs, IntoJs, JsDevice, Options, Shell, Value};
use crate::error::{Error, Result};
use crate::io::SafetensorsIndex;
use crate::model::{Context, Generated, LanguageModel, ModelFiles};
use crate::text::{ChatOptions, Message};
use js_sys::{Array, Function, Promise, Uint32Array};
use source::{reading, reading_again, JsSource, Reader};
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// The hand-written TypeScript types of language models.
#[wasm_bindgen(typescript_custom_section)]
const TYPES: &str = include_str!("types.d.ts");

impl Object {
    fn into_slot(self) -> Slot {
        Slot::new(Any::Language(self))
    }
}

shells! {
    /// A language model from a GGUF file or a folder with safetensors files. It answers messages and continues texts.
    ///
    /// @example
    /// ```ts
    /// const model = await LanguageModel.load(await fetch("SmolLM2-135M-Instruct.Q4_1.gguf"));
    /// for await (const piece of model.chat([{ role: "user", content: "What is the capital of France?" }])) {
    ///   output.append(piece);
    /// }
    /// ```
    "LanguageModel" JsLanguageModel => Rc<Model>, Any::Language(Object::Model(model)) => model;

    /// A text that is generated token by token. {@link LanguageModel.chat} and {@link LanguageModel.generate} begin it.
    ///
    /// @example
    /// ```ts
    /// const generation = model.generate("Once upon a time", { likeliest: 3 });
    /// for await (const { text, logprob, likeliest } of generation.tokens()) console.log(text, logprob, likeliest);
    /// console.log(generation.finish); // "end", "stop", "maxTokens" or "contextFull"
    /// ```
    "Generation" JsGeneration => Rc<Generation>,
        Any::Language(Object::Generation(generation)) => generation;
}

/// Converts a list of token ids. A `Uint32Array` may have any length.
fn ids(value: &JsValue, op: &'static str) -> Result<Vec<u32>> {
    if let Some(ids) = value.dyn_ref::<Uint32Array>() {
        return Ok(ids.to_vec());
    }
    Vec::<u32>::from_js(value, At { op, argument: "tokens" })
}

/// Opens the files of a model: a folder's files with these names, or the parts of a GGUF file.
async fn model_files(
    files: Vec<JsSource>,
    names: Option<Vec<String>>,
) -> Result<ModelFiles<JsSource>> {
    match names {
        Some(names) => ModelFiles::folder(names.into_iter().zip(files).collect()).await,
        None => ModelFiles::gguf(files).await,
    }
}

/// Parses JSON that the JavaScript side made of an argument.
fn parsed<T: serde::de::DeserializeOwned>(json: &str, op: &str, argument: &str) -> Result<T> {
    let refuse = |error: serde_json::Error| {
        Error::argument(format!(
            "{op}: {argument} must be messages with a role and a content, got {error}"
        ))
    };
    serde_json::from_str(json).map_err(refuse)
}

#[wasm_bindgen(js_class = "LanguageModel")]
impl JsLanguageModel {
    /// Returns the names of the files that a folder of a model may have.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn files() -> Vec<String> {
        ModelFiles::NAMES.map(String::from).to_vec()
    }

    /// Returns the names of the files in a safetensors index, the file `file`.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn indexed(json: &[u8], file: &str, op: &str) -> Answer<Vec<String>> {
        let index = SafetensorsIndex::read(json);
        let index = index.map_err(|error| error.within(&format!("{op}: {file}")))?;
        Ok(index.files.into_keys().collect())
    }

    /// Loads a model from `parts` files of `reader`. `names` are the names of the files in a folder, and undefined for GGUF
    /// files. If the files can be read again, `reopen` returns a promise of another reader.
    #[wasm_bindgen(skip_typescript, skip_jsdoc, js_name = open)]
    pub fn open(
        device: &JsDevice,
        reader: Reader,
        parts: u32,
        names: Option<Vec<String>>,
        options: &JsValue,
        reopen: Option<Function>,
    ) -> Answer<Promise> {
        const OP: &str = "load";
        let (device, options) = (device.core(OP)?, options::load(options, OP)?);
        Ok(reading(OP, reader, parts, async move |files| {
            let files = model_files(files, names.clone()).await?;
            let model = LanguageModel::load_files(&device, files, options).await?;
            if let Some(reopen) = reopen {
                model.set_reload(move |device| {
                    let (reopen, names) = (reopen.clone(), names.clone());
                    Box::pin(async move {
                        let load = async |files| {
                            let files = model_files(files, names).await?;
                            LanguageModel::load_files(&device, files, options).await
                        };
                        reading_again(&reopen, parts, load).await
                    })
                });
            }
            let model = Rc::new(Model::new(model)?);
            Ok(Box::new(move || Ok(JsLanguageModel(Object::Model(model).into_slot()).into()))
                as Made)
        }))
    }

    /// Estimates the bytes of weights, cache and temporaries, and their sum, that a model takes on a device.
    #[wasm_bindgen(skip_typescript, skip_jsdoc, js_name = need)]
    pub fn need(
        device: &JsDevice,
        reader: Reader,
        parts: u32,
        names: Option<Vec<String>>,
        options: &JsValue,
    ) -> Answer<Promise> {
        const OP: &str = "estimate";
        let (device, options) = (device.core(OP)?, options::load(options, OP)?);
        Ok(reading(OP, reader, parts, async move |files| {
            let files = model_files(files, names).await?;
            let need = options.estimate(&device, files.head())?;
            let numbers = [need.weights, need.cache, need.temporaries, need.total()];
            let values: Array = numbers.iter().map(|&bytes| JsValue::from(bytes as f64)).collect();
            Ok(Box::new(move || Ok(values.into())) as Made)
        }))
    }

    /// The device of the model.
    #[wasm_bindgen(getter, unchecked_return_type = "Device")]
    pub fn device(&self) -> Answer<JsValue> {
        Ok((&self.core("device")?.model.device()).into_js()?)
    }

    /// The length of the longest context in tokens.
    #[wasm_bindgen(getter, js_name = contextLength)]
    pub fn context_length(&self) -> Answer<f64> {
        Ok(self.core("contextLength")?.model.context_length() as f64)
    }

    /// The number of tokens in the context.
    #[wasm_bindgen(getter, js_name = contextUsed)]
    pub fn context_used(&self) -> Answer<f64> {
        let model = self.core("contextUsed")?;
        let used = model.context.borrow().as_ref().map_or(0, Context::len);
        Ok(used as f64)
    }

    /// Ensures that the weights are in memory. They may have been evicted because memory was short. Generations do this
    /// automatically, and adapters need it before they are made.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn ready(&self) -> Answer<Promise> {
        let model = self.core("ready")?;
        Ok(promise(async move {
            model.model.ready().await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// Returns the token ids of a text. With `special`, names of special tokens in the text become those tokens.
    pub fn encode(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] text: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "boolean")] special: &JsValue,
    ) -> Answer<Vec<u32>> {
        let op = "encode";
        let model = self.core(op)?;
        let text = String::from_js(text, At { op, argument: "text" })?;
        let special = Option::<bool>::from_js(special, At { op, argument: "special" })?;
        let encoded = model.model.tokenizer().encode(&text, special.unwrap_or(false));
        Ok(encoded.map_err(|error| error.within(op))?)
    }

    /// Returns the text of tokens: an array, a typed array or an array-like object of any length.
    pub fn decode(
        &self,
        #[wasm_bindgen(unchecked_param_type = "ArrayLike<number>")] tokens: &JsValue,
    ) -> Answer<String> {
        let op = "decode";
        let model = self.core(op)?;
        Ok(model.model.tokenizer().decode(&ids(tokens, op)?))
    }

    /// Returns the tokens of a prompt: a text, or messages as JSON.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn prompt(&self, text: &str, is_chat: bool) -> Answer<Vec<u32>> {
        let op = if is_chat { "chat" } else { "generate" };
        let model = self.core(op)?;
        let tokens = match is_chat {
            true => {
                let messages: Vec<Message> = parsed(text, op, "messages")?;
                model.model.chat_prompt(&messages, &ChatOptions::default())
            }
            false => model.model.tokenizer().encode_with_ends(text, true),
        };
        Ok(tokens.map_err(|error| error.within(op))?)
    }

    /// Begins a generation after these tokens. A generation in progress is ended.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn begin(&self, tokens: &[u32], options: &JsValue, op: &str) -> Answer<JsGeneration> {
        let op = if op == "chat" { "chat" } else { "generate" };
        let model = self.core(op)?;
        let options = options::generate(&Options::open(options, options::GENERATE, op)?)?;
        let generation = Generation::begin(&model, tokens, options);
        let generation = generation.map_err(|error| error.within(op))?;
        Ok(JsGeneration(Object::Generation(Rc::new(generation)).into_slot()))
    }
}

#[wasm_bindgen(js_class = "Generation")]
impl JsGeneration {
    /// Computes the next token, with its text and probabilities. Resolves to undefined at the end.
    #[wasm_bindgen(js_name = nextToken, unchecked_return_type = "Promise<GeneratedToken | undefined>")]
    pub fn next_token(&self) -> Answer<Promise> {
        let generation = self.core("nextToken")?;
        Ok(to_promise(Box::pin(async move {
            let token = generation.next().await?;
            Ok(Box::new(move || Ok(token.map_or(JsValue::UNDEFINED, token_object))) as Made)
        })))
    }

    /// The reason why the generation ended, or undefined before the end. The model ended its text, a `stop` text was found,
    /// there are `maxTokens` tokens, or the context is full.
    #[wasm_bindgen(getter, unchecked_return_type = "Finish | undefined")]
    pub fn finish(&self) -> Answer<JsValue> {
        Ok(self.core("finish")?.finish().value())
    }
}

/// Makes an object of a generated token.
fn token_object(token: Generated) -> JsValue {
    let likeliest = token.likeliest.iter().map(|&(id, logprob)| {
        let pair = [f64::from(id), f64::from(logprob)];
        JsValue::from(pair.iter().map(|&number| JsValue::from(number)).collect::<Array>())
    });
    let likeliest: Array = likeliest.collect();
    let values = [
        token.id.value(),
        token.text.value(),
        f64::from(token.logprob).value(),
        JsValue::from(likeliest),
    ];
    named(&["id", "text", "logprob", "likeliest"], values)
}
