//! `warpweft generate`: the continuation of a text.

use super::{peak_memory, print, Model};
use clap::Args;
use serde_json::json;
use std::time::Instant;
use warpweft_native::model::{Finish, GenerateOptions, SamplingOptions};
use warpweft_native::prelude::*;

/// How tokens are chosen.
#[derive(Args)]
pub struct Sampling {
    /// The sampling temperature, which divides the logits; 0 always takes the most likely token
    #[arg(long, default_value_t = 0.0)]
    temperature: f64,
    /// Draw from the K likeliest tokens only; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    top_k: usize,
    /// Sample only from the most likely tokens whose probabilities add up to this; 1 for all
    #[arg(long, default_value_t = 1.0)]
    top_p: f64,
    /// Sample only tokens with at least this fraction of the most likely token's probability; 0 for all
    #[arg(long, default_value_t = 0.0)]
    min_p: f64,
    /// Divide the positive logits of tokens that already occur by this, and multiply negative ones; 1 for no penalty
    #[arg(long, default_value_t = 1.0)]
    repetition_penalty: f64,
    /// The seed of the random draws [default: a different one each time]
    #[arg(long)]
    seed: Option<u32>,
}

impl Sampling {
    /// Converts the options to those of the library.
    pub fn options(&self) -> SamplingOptions {
        let time = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        SamplingOptions {
            temperature: self.temperature,
            top_k: self.top_k,
            top_p: self.top_p,
            min_p: self.min_p,
            repetition_penalty: self.repetition_penalty,
            seed: self.seed.unwrap_or(time.subsec_nanos()),
            ..SamplingOptions::default()
        }
    }
}

/// The options of the command.
#[derive(Args)]
pub struct Generate {
    #[command(flatten)]
    model: Model,
    /// The text to continue; special tokens are recognized
    #[arg(long, required_unless_present = "ids", conflicts_with = "ids")]
    prompt: Option<String>,
    /// The tokens to go on from, instead of a text
    #[arg(long, value_delimiter = ',', value_name = "1,2,3")]
    ids: Option<Vec<u32>>,
    /// The most tokens to generate
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_tokens: usize,
    #[command(flatten)]
    sampling: Sampling,
    /// End at this text, which is not printed; may be given several times
    #[arg(long, value_name = "TEXT")]
    stop: Vec<String>,
    /// Print the log-probabilities of the N likeliest tokens of each step (with --json)
    #[arg(long, value_name = "N", default_value_t = 0)]
    logprobs: usize,
    /// Go on after tokens that end a text
    #[arg(long)]
    ignore_eos: bool,
    /// Print JSON at the end instead of the text as it comes
    #[arg(long)]
    json: bool,
}

impl Generate {
    /// Generates and prints the continuation.
    ///
    /// # Errors
    /// If the model cannot be loaded, or a token is not in its vocabulary.
    pub fn run(&self) -> Result<()> {
        let (model, load) = self.model.load()?;
        let prompt = match (&self.ids, &self.prompt) {
            (Some(ids), _) => ids.clone(),
            (None, text) => {
                model.tokenizer().encode_with_ends(text.as_deref().unwrap_or_default(), true)?
            }
        };
        let options = GenerateOptions {
            max_tokens: Some(self.max_tokens),
            sampling: self.sampling.options(),
            stop: self.stop.clone(),
            likeliest: self.logprobs,
            ignore_end: self.ignore_eos,
        };
        let mut context = model.context()?;
        let begin = Instant::now();
        let mut generation = context.generate(&prompt, options)?;
        let (mut ids, mut text, mut logprobs) = (Vec::new(), String::new(), Vec::new());
        let mut first = None;
        while let Some(token) = generation.next_blocking()? {
            first.get_or_insert_with(Instant::now);
            if generation.finish() != Some(Finish::End) {
                ids.push(token.id);
                logprobs.push(token.likeliest);
            }
            if !self.json && !print(&token.text)? {
                return Ok(());
            }
            text += &token.text;
        }
        let end = Instant::now();
        if !self.json {
            return print("\n").map(drop);
        }
        let first = first.unwrap_or(end);
        let per_second =
            |count: usize, time: f64| if time > 0.0 { count as f64 / time } else { 0.0 };
        let figures = json!({
            "prompt_ids": prompt,
            "ids": ids,
            "text": text,
            "logprobs": logprobs,
            "timings": {
                "load_s": load,
                "prompt_tokens_per_s": per_second(prompt.len(), (first - begin).as_secs_f64()),
                "decode_tokens_per_s": per_second(ids.len().saturating_sub(1), (end - first).as_secs_f64()),
                "peak_rss_bytes": peak_memory(),
            },
        });
        print(&format!("{figures}\n")).map(drop)
    }
}
