//! Chat templates, which turn messages into a prompt.
//!
//! A template is a program in Jinja, stored in a model's file. Two things can go wrong with it.
//!
//! **A user's text can forge turns.** A prompt is first text, and then tokens. If a message contains `<|im_end|>`, the prompt
//! contains it, too, and its token would end the user's turn. [`ChatTemplate::encode`] therefore renders the template twice.
//! The first prompt has the messages unchanged, and the second has marks inside them. A mark is a character that occurs
//! nowhere else, placed between the letters of a message. So no message contains the complete name of a special token. If
//! both prompts are equal except for the marks, special tokens are recognized in the marked prompt. Only the names that the
//! template wrote are complete there. `marks.rs` explains the positions of marks, and the case that the prompts differ.
//!
//! **A template can run forever**, or for long. The number of its steps, the depth of calls and the length of the prompt are
//! limited.

mod builtin;
mod environment;
mod json;
mod marks;

use super::gguf::Metadata;
use super::Tokenizer;
use crate::error::{brief, Error, Result};
use crate::io::{Gguf, GgufArray, GgufValue};
use marks::{Marker, Style};
use minijinja::Environment;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// The name of the template in its environment.
const NAME: &str = "chat_template";

/// A message of a conversation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The author: `system`, `user`, `assistant` or `tool`.
    pub role: String,
    /// The text. `null` in JSON is the empty text.
    #[serde(default, deserialize_with = "text_or_null")]
    pub content: String,
    /// Further values for templates, such as `tool_calls` and `reasoning_content`.
    #[serde(flatten)]
    pub more: BTreeMap<String, Value>,
}

fn text_or_null<'de, D>(content: D) -> std::result::Result<String, D::Error>
where
    D: Deserializer<'de>,
{
    Ok(Option::<String>::deserialize(content)?.unwrap_or_default())
}

impl Message {
    /// Creates a message from a role and a text.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into(), more: BTreeMap::new() }
    }
}

/// Options of a template, in addition to the messages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChatOptions {
    /// Whether the prompt ends with the beginning of the assistant's answer. The default is true.
    pub add_generation_prompt: bool,
    /// Descriptions of functions that the model can call.
    pub tools: Vec<Value>,
    /// Further variables, such as `enable_thinking`.
    pub variables: BTreeMap<String, Value>,
    /// The time that the template reads, in seconds since 1970 in UTC. The default is the current time.
    pub now: Option<i64>,
}

impl Default for ChatOptions {
    fn default() -> ChatOptions {
        ChatOptions {
            add_generation_prompt: true,
            tools: Vec::new(),
            variables: BTreeMap::new(),
            now: None,
        }
    }
}

/// A chat template.
///
/// ```
/// use warpweft::text::{ChatOptions, ChatTemplate, Message};
///
/// let template = ChatTemplate::named("chatml")?;
/// let messages = [Message::new("user", "Hi")];
/// let prompt = template.render(&messages, &ChatOptions::default())?;
/// assert_eq!(prompt, "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n");
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ChatTemplate {
    source: String,
    bos: String,
    eos: String,
    environment: Environment<'static>,
}

impl ChatTemplate {
    /// Parses a template in Jinja.
    ///
    /// # Errors
    /// `Format` if the text is not a template, with the line.
    pub fn new(source: &str) -> Result<ChatTemplate> {
        let environment = environment::environment(NAME, source)?;
        Ok(ChatTemplate {
            source: source.into(),
            bos: String::new(),
            eos: String::new(),
            environment,
        })
    }

    /// Returns a built-in template. The name is one of [`ChatTemplate::names`].
    ///
    /// # Errors
    /// `InvalidArgument` if no built-in template has the name.
    pub fn named(name: &str) -> Result<ChatTemplate> {
        let Some(found) = builtin::TEMPLATES.iter().find(|template| template.name == name) else {
            let names: Vec<&str> = ChatTemplate::names().collect();
            let must = format!("the name must be one of {}", names.join(", "));
            return Err(Error::argument(format!("chat template: {must}, got {}", brief(name))));
        };
        Ok(ChatTemplate::new(found.source)?.with_tokens(found.bos, found.eos))
    }

    /// Returns the names of the built-in templates.
    pub fn names() -> impl Iterator<Item = &'static str> {
        builtin::TEMPLATES.iter().map(|template| template.name)
    }

    /// Reads the template of a GGUF file (`tokenizer.chat_template`). Base models have no template. [`ChatTemplate::guess`]
    /// may then find a built-in one.
    ///
    /// # Errors
    /// `Format` if the template is damaged.
    pub fn from_gguf(file: &Gguf) -> Result<Option<ChatTemplate>> {
        ChatTemplate::of_key(file, "tokenizer.chat_template")
    }

    /// Reads a further template of a GGUF file by its name, such as `tool_use` (`tokenizer.chat_template.tool_use`).
    ///
    /// # Errors
    /// `Format` if the template is damaged.
    pub fn from_gguf_named(file: &Gguf, name: &str) -> Result<Option<ChatTemplate>> {
        match name {
            "default" => ChatTemplate::from_gguf(file),
            _ => ChatTemplate::of_key(file, &format!("tokenizer.chat_template.{name}")),
        }
    }

    /// Returns the names of the further templates of a GGUF file (`tokenizer.chat_templates`).
    pub fn names_in_gguf(file: &Gguf) -> Vec<String> {
        let listed = file.metadata.get("tokenizer.chat_templates").and_then(GgufValue::as_array);
        let listed = listed.and_then(GgufArray::as_strings).unwrap_or_default();
        let keys =
            file.metadata.keys().filter_map(|key| key.strip_prefix("tokenizer.chat_template."));
        let mut names: Vec<String> = listed.to_vec();
        names.extend(keys.map(str::to_string));
        names.sort();
        names.dedup();
        names
    }

    /// Returns the name of the built-in template that a vocabulary was made for, judged by the names of its special tokens.
    pub fn guess(tokenizer: &Tokenizer) -> Option<&'static str> {
        let has = |token: &&str| tokenizer.id(token).is_some();
        let fits = builtin::TEMPLATES.iter().filter(|template| !template.tokens.is_empty());
        fits.into_iter()
            .find(|template| template.tokens.iter().all(has))
            .map(|template| template.name)
    }

    fn of_key(file: &Gguf, key: &str) -> Result<Option<ChatTemplate>> {
        let Some(value) = file.metadata.get(key) else { return Ok(None) };
        let Some(source) = value.as_str() else {
            return Err(Error::format(format!("chat template: `{key}` must be text, got {value}")));
        };
        let template = ChatTemplate::new(source).map_err(|error| {
            Error::new(error.kind(), format!("chat template: `{key}`: {error}"))
        })?;
        let facts = Metadata(&file.metadata);
        let Ok(tokens) = facts.tokens() else { return Ok(Some(template)) };
        let token = |key: &str| -> Result<&str> {
            let id = facts.id(key, tokens.len())?;
            Ok(id.and_then(|id| tokens.get(id as usize)).map_or("", |token| token))
        };
        Ok(Some(template.with_tokens(token("bos_token_id")?, token("eos_token_id")?)))
    }

    /// Sets the texts of BOS and EOS, which the template reads as `bos_token` and `eos_token`.
    pub fn with_tokens(mut self, bos: &str, eos: &str) -> ChatTemplate {
        (self.bos, self.eos) = (bos.into(), eos.into());
        self
    }

    /// Returns the text of the template.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Renders the prompt of a conversation as text. To encode a prompt, use [`ChatTemplate::encode`] instead, because a user
    /// may have written special tokens into this text.
    ///
    /// # Errors
    /// `InvalidArgument` if the template rejects the messages, fails, or takes too many steps.
    pub fn render(&self, messages: &[Message], options: &ChatOptions) -> Result<String> {
        self.rendered(&context(messages, options)?, options, (&self.bos, &self.eos))
    }

    /// Encodes the prompt of a conversation. Special tokens are recognized only where the template wrote them. BOS is added
    /// in front if the tokenizer adds one and the template did not write it.
    ///
    /// # Errors
    /// `InvalidArgument` as [`ChatTemplate::render`]. `InvalidArgument` if the template changes messages so that the author of
    /// a special token is unclear. Also as [`Tokenizer::encode`].
    pub fn encode(
        &self,
        tokenizer: &Tokenizer,
        messages: &[Message],
        options: &ChatOptions,
    ) -> Result<Vec<u32>> {
        let own = |id: Option<u32>, or: &str| -> String {
            id.and_then(|id| tokenizer.token(id)).unwrap_or(or).to_string()
        };
        let tokens = (own(tokenizer.bos(), &self.bos), own(tokenizer.eos(), &self.eos));
        let tokens = (&*tokens.0, &*tokens.1);
        // The template is rendered several times, with one time.
        let now = Some(options.now.unwrap_or_else(environment::seconds));
        let options = &ChatOptions { now, ..options.clone() };
        let context = context(messages, options)?;
        let real = self.rendered(&context, options, tokens)?;
        let marker = Marker::new(&self.source, &context, &real, tokenizer)?;
        let render = |style| self.rendered(&marker.mark(&context, style), options, tokens);
        let ids = match render(Style::Dense) {
            Ok(marked) if marker.is_same(&marked, &real) => {
                tokenizer.encode_marked(&marked, marker.marks)?
            }
            // The template reads or changes single letters of messages.
            _ => {
                let sparse = render(Style::Sparse)?;
                let neutral = render(Style::Neutral);
                let written = |prompt: &str| tokenizer.special_in(prompt, marker.marks);
                let is_safe = marker.is_same(&sparse, &real)
                    && neutral.is_ok_and(|neutral| written(&neutral) == written(&sparse));
                if !is_safe {
                    return Err(Error::argument(
                        "chat template: the special tokens that it writes must not depend on the letters of messages, got a \
                         template that changes messages, and one with the name of a special token; leave that name out",
                    ));
                }
                tokenizer.encode_marked(&sparse, marker.marks)?
            }
        };
        match tokenizer.bos().filter(|bos| tokenizer.adds_bos() && ids.first() != Some(bos)) {
            Some(bos) => Ok([&[bos], &ids[..]].concat()),
            None => Ok(ids),
        }
    }

    fn rendered(
        &self,
        context: &Value,
        options: &ChatOptions,
        tokens: (&str, &str),
    ) -> Result<String> {
        let Value::Object(variables) = context else { return Ok(String::new()) };
        let mut all = variables.clone();
        for (name, token) in [("bos_token", tokens.0), ("eos_token", tokens.1)] {
            all.entry(name).or_insert_with(|| token.into());
        }
        all.insert("add_generation_prompt".into(), options.add_generation_prompt.into());
        environment::render(&self.environment, NAME, &Value::Object(all), options.now)
    }
}

/// Returns the values from outside: messages, tools and variables.
fn context(messages: &[Message], options: &ChatOptions) -> Result<Value> {
    let messages = serde_json::to_value(messages).map_err(|error| {
        Error::argument(format!("chat template: messages must be writable as JSON, got {error}"))
    })?;
    let mut all: Map<String, Value> = options.variables.clone().into_iter().collect();
    all.insert("messages".into(), messages);
    // As in transformers, both are `none` if there are none.
    all.entry("documents").or_insert(Value::Null);
    let tools = all.entry("tools").or_insert(Value::Null);
    if !options.tools.is_empty() {
        *tools = Value::Array(options.tools.clone());
    }
    Ok(Value::Object(all))
}
