//! `warpweft tokenize`: the tokens of a text or of a conversation.

use super::{messages, print};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;
use warpweft_native::files;
use warpweft_native::prelude::*;
use warpweft_native::text::ChatOptions;

/// The options of the command.
#[derive(Args)]
pub struct Tokenize {
    /// A GGUF file, or a folder with `config.json` and safetensors files
    file: PathBuf,
    /// The text
    #[arg(long, required_unless_present = "chat", conflicts_with = "chat")]
    text: Option<String>,
    /// Recognize special tokens in the text, and add those that a text begins and ends with
    #[arg(long)]
    special: bool,
    /// A JSON file of messages, to which the chat template is applied first
    #[arg(long, value_name = "MESSAGES.json")]
    chat: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Tokenize {
    /// Prints the tokens.
    ///
    /// # Errors
    /// If the file is damaged, or the model has no chat template.
    pub fn run(&self) -> Result<()> {
        let files = files::open_model(&self.file)?;
        let tokenizer = files.tokenizer()?;
        let (ids, text) = match (&self.chat, &self.text) {
            (Some(path), _) => {
                let template = files.chat_template(&tokenizer)?;
                let (messages, options) = (messages(path)?, ChatOptions::default());
                let ids = template.encode(&tokenizer, &messages, &options)?;
                (ids, Some(template.render(&messages, &options)?))
            }
            (None, text) => {
                let text = text.as_deref().unwrap_or_default();
                let ids = match self.special {
                    true => tokenizer.encode_with_ends(text, true)?,
                    false => tokenizer.encode(text, false)?,
                };
                (ids, None)
            }
        };
        let out = match (self.json, text) {
            (true, Some(text)) => format!("{}\n", json!({ "ids": ids, "text": text })),
            (true, None) => format!("{}\n", json!({ "ids": ids })),
            (false, _) => {
                let line =
                    |&id: &u32| format!("{id}\t{:?}\n", tokenizer.token(id).unwrap_or_default());
                ids.iter().map(line).collect()
            }
        };
        print(&out).map(drop)
    }
}
