//! `warpweft estimate`: the memory that a model will take.

use super::{open, print};
use clap::Args;
use serde_json::json;
use std::io::BufReader;
use std::path::PathBuf;
use warpweft_native::io::Gguf;
use warpweft_native::model::{estimate, ModelConfig, DEFAULT_CONTEXT};
use warpweft_native::prelude::*;

/// The options of the command.
#[derive(Args)]
pub struct Estimate {
    /// A GGUF file
    file: PathBuf,
    /// Tokens of the context [default: what the model was trained for, 4096 at most]
    #[arg(long, value_name = "N")]
    context: Option<usize>,
    /// Tokens of a prompt that are computed together
    #[arg(long, value_name = "N", default_value_t = 512)]
    batch: usize,
    /// Print JSON, in bytes
    #[arg(long)]
    json: bool,
}

impl Estimate {
    /// Prints the estimate.
    ///
    /// # Errors
    /// If the file is damaged.
    pub fn run(&self) -> Result<()> {
        let head = Gguf::read(&mut BufReader::new(open(&self.file)?))?;
        let usual = ModelConfig::read(&head)?.context.min(DEFAULT_CONTEXT);
        let context = self.context.unwrap_or(usual);
        let found = estimate(&head, context, self.batch)?;
        let parts = [
            ("weights", found.weights),
            ("cache", found.cache),
            ("temporaries", found.temporaries),
            ("total", found.total()),
        ];
        if self.json {
            let mut figures = json!({ "context": context, "batch": self.batch });
            for (name, bytes) in parts {
                figures[name] = json!(bytes);
            }
            return print(&format!("{figures}\n")).map(drop);
        }
        let mut text = format!("with a context of {context} tokens:\n");
        for (name, bytes) in parts {
            text += &format!("  {name:<12} {:>9.1} MB\n", bytes as f64 / 1e6);
        }
        print(&text).map(drop)
    }
}
