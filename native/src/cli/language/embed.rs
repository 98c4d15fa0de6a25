//! `warpweft embed`: texts as vectors.

use super::{print, On};
use clap::Args;
use serde_json::json;
use std::io::BufRead;
use std::path::PathBuf;
use warpweft_native::files;
use warpweft_native::model::{EmbedOptions, Embedder};
use warpweft_native::prelude::*;

/// The lines of the input that are embedded together.
const LINES: usize = 256;

/// The options of the command.
#[derive(Args)]
pub struct Embed {
    /// The folder of an encoder, as sentence-transformers saves it
    folder: PathBuf,
    /// The texts [default: the lines of the input]
    texts: Vec<String>,
    #[command(flatten)]
    on: On,
    /// The prefix of each text, such as `query: `
    #[arg(long, value_name = "TEXT", conflicts_with = "prompt_name")]
    prompt: Option<String>,
    /// The name of one of the model's prompts, such as query
    #[arg(long, value_name = "NAME")]
    prompt_name: Option<String>,
    /// Print the cosine similarity of each text to the first one, instead of vectors
    #[arg(long)]
    similarity: bool,
}

impl Embed {
    /// Prints the vectors.
    ///
    /// # Errors
    /// If the model cannot be loaded, or does not have the prompt.
    pub fn run(&self) -> Result<()> {
        let embedder = files::load_embedder(&self.on.device()?, &self.folder)?;
        let mut first: Option<Vec<f32>> = None;
        if !self.texts.is_empty() {
            return self.print(&embedder, &self.texts, &mut first).map(drop);
        }
        let mut lines = std::io::stdin().lock().lines();
        loop {
            let part: Vec<String> =
                lines.by_ref().take(LINES).collect::<std::io::Result<_>>().map_err(|error| {
                    Error::format(format!("embed: the input must be readable, got {error}"))
                })?;
            if part.is_empty() || !self.print(&embedder, &part, &mut first)? {
                return Ok(());
            }
        }
    }

    /// Prints the vectors or similarities of some texts. Returns false if the output was closed.
    fn print(
        &self,
        embedder: &Embedder,
        texts: &[String],
        first: &mut Option<Vec<f32>>,
    ) -> Result<bool> {
        let options = EmbedOptions {
            prompt: self.prompt.as_deref(),
            prompt_name: self.prompt_name.as_deref(),
        };
        let vectors: Vec<f32> = embedder.embed(texts, &options)?.read_blocking()?;
        let mut out = String::new();
        for (vector, text) in vectors.chunks_exact(embedder.dimensions()).zip(texts) {
            out += &match self.similarity {
                true => {
                    let first = first.get_or_insert_with(|| vector.to_vec());
                    format!("{:.4}\t{text}\n", cosine(first, vector))
                }
                false => format!("{}\n", json!(vector)),
            };
        }
        print(&out)
    }
}

/// Returns the cosine of the angle between two vectors, or 0 if one has length 0.
fn cosine(a: &[f32], b: &[f32]) -> f64 {
    let dot = |a: &[f32], b: &[f32]| -> f64 {
        a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum()
    };
    match (dot(a, a) * dot(b, b)).sqrt() {
        0.0 => 0.0,
        length => dot(a, b) / length,
    }
}
