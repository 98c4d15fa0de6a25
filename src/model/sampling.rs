//! Which token follows: chosen on the device, so that one number is read instead of one for each token of the vocabulary.

use crate::error::{Error, Result};
use crate::tensor::{DType, Tensor};

/// Tokens that `top_p` and `min_p` choose from, where `top_k` does not say otherwise.
const CANDIDATES: usize = 1_024;

/// How the next token is chosen. The default takes the likeliest one.
///
/// The steps come in this order: penalties and biases, temperature, `top_k`, `top_p`, `min_p`, and a draw.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingOptions {
    /// What logits are divided by; 0 takes the likeliest token.
    pub temperature: f64,
    /// Only so many of the likeliest tokens are drawn from; 0 for all.
    pub top_k: usize,
    /// Only the likeliest tokens that have this probability together; 1 for all. At most 1,024 tokens, or `top_k`.
    pub top_p: f64,
    /// Only tokens that are at least so likely, as a part of the likeliest one's probability; 0 for all. As `top_p`.
    pub min_p: f64,
    /// What positive logits of tokens that are there already are divided by, and negative ones multiplied with (Keskar et al.
    /// 2019); 1 for none.
    pub repetition_penalty: f64,
    /// What logits lose for each time that the token is there already.
    pub frequency_penalty: f64,
    /// What logits lose if the token is there already.
    pub presence_penalty: f64,
    /// What is added to the logits of some tokens.
    pub logit_bias: Vec<(u32, f32)>,
    /// Where the draws begin: equal seeds draw equal tokens.
    pub seed: u32,
}

impl Default for SamplingOptions {
    fn default() -> SamplingOptions {
        SamplingOptions {
            temperature: 0.0,
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            logit_bias: Vec::new(),
            seed: 0,
        }
    }
}

impl SamplingOptions {
    /// Refuses numbers that mean nothing.
    pub(super) fn check(&self) -> Result<()> {
        let within =
            |name: &str, number: f64, from: f64, to: f64| match (from..=to).contains(&number) {
                true => Ok(()),
                false => Err(Error::data(format!(
                    "sampling: {name} must be from {from} to {to}, got {number}"
                ))),
            };
        within("temperature", self.temperature, 0.0, 1e6)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("repetition_penalty", self.repetition_penalty, 1e-3, 1e3)?;
        within("frequency_penalty", self.frequency_penalty, -1e6, 1e6)?;
        within("presence_penalty", self.presence_penalty, -1e6, 1e6)
    }
}

/// What chooses tokens.
pub(super) struct Sampler {
    options: SamplingOptions,
    /// Of `logit_bias`, for all tokens; empty where there is none.
    bias: Vec<f32>,
    /// How often each token was there; empty where nothing asks.
    counts: Vec<f32>,
    draws: u32,
}

/// A token that was chosen.
pub(super) struct Choice {
    pub id: u32,
    /// The logarithm of its probability, by the model alone.
    pub logprob: f32,
    /// The same of the likeliest tokens, where they were asked for.
    pub likeliest: Vec<(u32, f32)>,
}

impl Sampler {
    /// For a vocabulary of so many tokens, where these are there already.
    pub fn new(vocabulary: usize, options: SamplingOptions, tokens: &[u32]) -> Result<Sampler> {
        options.check()?;
        let mut bias = vec![0.0; if options.logit_bias.is_empty() { 0 } else { vocabulary }];
        for &(id, more) in &options.logit_bias {
            let Some(place) = bias.get_mut(id as usize) else {
                let message =
                    format!("sampling: logit_bias must name tokens below {vocabulary}, got {id}");
                return Err(Error::data(message));
            };
            *place += more;
        }
        let asked = options.repetition_penalty != 1.0
            || options.frequency_penalty != 0.0
            || options.presence_penalty != 0.0;
        let mut sampler = Sampler {
            options,
            bias,
            counts: vec![0.0; if asked { vocabulary } else { 0 }],
            draws: 0,
        };
        tokens.iter().for_each(|&id| sampler.count(id));
        Ok(sampler)
    }

    fn count(&mut self, id: u32) {
        if let Some(count) = self.counts.get_mut(id as usize) {
            *count += 1.0;
        }
    }

    /// Chooses a token by its logits, `[vocabulary]`, and tells the probabilities of as many of the likeliest as are asked for.
    pub async fn choose(&mut self, logits: &Tensor, likeliest: usize) -> Result<Choice> {
        let id = self.chosen(logits)?;
        let all = logits.max(())?.add(logits.sub(&logits.max(())?)?.exp().sum(())?.log())?;
        let logprob = logits.index_select(0, &id)?.sub(&all)?.reshape(&[1])?;
        let mut parts = vec![id.cast(DType::F32)?, logprob];
        if likeliest > 0 {
            let (values, places) = logits.topk(likeliest.min(logits.numel()), 0, true)?;
            parts.push(places.cast(DType::F32)?);
            parts.push(values.sub(&all)?);
        }
        // As floats, which have all integers up to 2^24: one read.
        let numbers: Vec<f32> = Tensor::concat(&parts, 0)?.read().await?;
        let (ids, logprobs) = numbers[2..].split_at((numbers.len() - 2) / 2);
        let likeliest = ids.iter().map(|&id| id as u32).zip(logprobs.iter().copied()).collect();
        let choice = Choice { id: numbers[0] as u32, logprob: numbers[1], likeliest };
        self.count(choice.id);
        self.draws = self.draws.wrapping_add(1);
        Ok(choice)
    }

    /// The id of a token, `[1]`.
    fn chosen(&self, logits: &Tensor) -> Result<Tensor> {
        let options = &self.options;
        let device = logits.device();
        let mut logits = logits.clone();
        if !self.counts.is_empty() {
            let counts = device.tensor(&self.counts, &[self.counts.len()])?;
            let there = counts.gt(0)?;
            let (less, more) =
                (logits.div(options.repetition_penalty)?, logits.mul(options.repetition_penalty)?);
            let repeated = logits.gt(0)?.where_cond(&less, &more)?;
            let lost = counts.mul(options.frequency_penalty)?.add(options.presence_penalty)?;
            logits = there.where_cond(&repeated.sub(&lost)?, &logits)?;
        }
        if !self.bias.is_empty() {
            logits = logits.add(&device.tensor(&self.bias, &[self.bias.len()])?)?;
        }
        if options.temperature == 0.0 {
            return logits.argmax(0)?.reshape(&[1]);
        }
        logits = logits.div(options.temperature)?;
        let cut = options.top_p < 1.0 || options.min_p > 0.0;
        let count = match (options.top_k, cut) {
            (0, false) => 0,
            (0, true) => CANDIDATES.min(logits.numel()),
            (k, _) => k.min(logits.numel()),
        };
        let seed = options.seed.wrapping_add(self.draws.wrapping_mul(0x9e37_79b9));
        if count == 0 {
            return drawn(&logits, seed)?.reshape(&[1]);
        }
        let (values, places) = logits.topk(count, 0, true)?;
        let likely = values.softmax(0)?;
        // Those before a token must not have all of the probability yet.
        let before = likely.cumsum(0)?.sub(&likely)?;
        let enough = likely.ge(likely.slice(0, ..1)?.mul(options.min_p)?)?;
        let kept = before.lt(options.top_p)?.logical_and(&enough)?;
        let first = device.iota(&[count], 0)?.eq(0)?;
        let hidden = device.full(&[], f64::NEG_INFINITY, DType::F32)?;
        let values = kept.logical_or(&first)?.where_cond(&values, &hidden)?;
        places.index_select(0, &drawn(&values, seed)?.reshape(&[1])?)
    }
}

/// The place of an element, drawn with the probabilities that logits stand for: the largest sum of a logit and a number from
/// the Gumbel distribution (Gumbel 1954).
fn drawn(logits: &Tensor, seed: u32) -> Result<Tensor> {
    let least = f64::from(f32::MIN_POSITIVE);
    let uniform = logits.device().uniform(logits.shape(), least, 1.0, seed)?;
    let gumbel = uniform.log().neg().log().neg();
    logits.add(&gumbel)?.argmax(0)
}
