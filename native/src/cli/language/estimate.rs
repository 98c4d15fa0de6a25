//! `warpweft estimate`: the memory that a model needs.

use super::{print, Model};
use clap::Args;
use serde_json::json;
use warpweft_native::files;
use warpweft_native::model::{estimate, ModelConfig};
use warpweft_native::prelude::*;

/// The options of the command.
#[derive(Args)]
pub struct Estimate {
    #[command(flatten)]
    model: Model,
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
        let files = files::open_model(&self.model.file)?;
        let head = files.head();
        let options = self.model.options();
        let context = options.context_length(&ModelConfig::read(head)?);
        let cache = options.cache_dtype(&self.model.on.device()?)?;
        let found = estimate(head, context, self.batch, cache)?;
        let parts = [
            ("weights", found.weights),
            ("cache", found.cache),
            ("temporaries", found.temporaries),
            ("total", found.total()),
        ];
        if self.json {
            let mut figures =
                json!({ "context": context, "batch": self.batch, "kv": cache.name() });
            for (name, bytes) in parts {
                figures[name] = json!(bytes);
            }
            return print(&format!("{figures}\n")).map(drop);
        }
        let mut text = format!("with a context of {context} tokens in {cache}:\n");
        for (name, bytes) in parts {
            text += &format!("  {name:<12} {:>9.1} MB\n", bytes as f64 / 1e6);
        }
        print(&text).map(drop)
    }
}
