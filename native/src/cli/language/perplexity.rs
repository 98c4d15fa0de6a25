//! `warpweft perplexity`: a measure of the quality of a model's predictions for a text.

use super::{print, Model};
use clap::Args;
use serde_json::json;
use warpweft_native::prelude::*;

/// The tokens whose logits are in memory at once.
const PART: usize = 128;

/// The options of the command.
#[derive(Args)]
pub struct Perplexity {
    #[command(flatten)]
    model: Model,
    /// The text
    #[arg(long, required_unless_present = "ids", conflicts_with = "ids")]
    text: Option<String>,
    /// Tokens instead of a text
    #[arg(long, value_delimiter = ',', value_name = "1,2,3")]
    ids: Option<Vec<u32>>,
    /// Print JSON, with the log-probability of each token
    #[arg(long)]
    json: bool,
}

impl Perplexity {
    /// Prints the perplexity, which is the exponential of the mean negative log-likelihood of each token except the first.
    ///
    /// # Errors
    /// If the model cannot be loaded, or the text is too long for its context or has fewer than two tokens.
    pub fn run(&self) -> Result<()> {
        let (model, _) = self.model.load()?;
        let ids = match (&self.ids, &self.text) {
            (Some(ids), _) => ids.clone(),
            (None, text) => {
                model.tokenizer().encode_with_ends(text.as_deref().unwrap_or_default(), true)?
            }
        };
        if ids.len() < 2 {
            let message = format!("perplexity: there must be at least 2 tokens, got {}", ids.len());
            return Err(Error::argument(message));
        }
        let vocabulary = model.config().vocabulary;
        if let Some(id) = ids.iter().find(|&&id| id as usize >= vocabulary) {
            let message = format!("perplexity: tokens must be below {vocabulary}, got {id}");
            return Err(Error::argument(message));
        }
        let mut context = model.context()?;
        let mut logprobs: Vec<f32> = Vec::new();
        for (part, next) in ids[..ids.len() - 1].chunks(PART).zip(ids[1..].chunks(PART)) {
            let all = context.add_all(part)?.log_softmax(-1)?;
            let next: Vec<i32> = next.iter().map(|&id| id as i32).collect();
            let next = model.device().tensor(&next, &[next.len(), 1])?;
            logprobs.extend(all.gather(1, &next)?.read_blocking::<f32>()?);
        }
        let sum: f64 = logprobs.iter().map(|&logprob| f64::from(logprob)).sum();
        let nll = -sum / logprobs.len() as f64;
        let out = match self.json {
            true => format!("{}\n", json!({ "logprobs": logprobs, "nll": nll, "ppl": nll.exp() })),
            false => format!("{:.4} over {} tokens\n", nll.exp(), logprobs.len()),
        };
        print(&out).map(drop)
    }
}
