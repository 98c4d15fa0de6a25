//! Sampling of the next token. It runs on the device, so that one id is read instead of a logit for each token of the
//! vocabulary.

use crate::error::{Error, Result};
use crate::tensor::{DType, Tensor};

/// The number of likeliest tokens that `top_p` and `min_p` choose from, unless `top_k` is set.
const CANDIDATES: usize = 1_024;

/// The smallest temperature. Below it, only tokens whose logits differ by less than the precision of `f32` would be drawn
/// from, and a division by it could overflow.
const MIN_TEMPERATURE: f64 = 1e-6;

/// Options for the choice of the next token. The default is the likeliest token.
///
/// The steps run in this order: penalties and biases, temperature, `top_k`, `top_p`, `min_p`, and a random draw.
#[derive(Clone, Debug, PartialEq)]
pub struct SamplingOptions {
    /// The divisor of logits. With 0, or another number below 1e-6, the likeliest token is chosen.
    pub temperature: f64,
    /// The number of likeliest tokens to draw from, or 0 for all.
    pub top_k: usize,
    /// The probability mass to draw from. The most likely tokens are taken until their probabilities add up to it. 1 means
    /// all tokens. Otherwise only `top_k` tokens are considered, or 1,024 if it is 0.
    pub top_p: f64,
    /// The smallest probability to draw from, relative to that of the most likely token. 0 means all tokens. Otherwise only
    /// `top_k` tokens are considered, or 1,024 if it is 0.
    pub min_p: f64,
    /// The divisor of positive logits, and factor of negative ones, of tokens that are already in the text (Keskar et al.
    /// 2019). 1 has no effect.
    pub repetition_penalty: f64,
    /// The amount that a logit is reduced by for each occurrence of its token in the text.
    pub frequency_penalty: f64,
    /// The amount that a logit is reduced by if its token is already in the text.
    pub presence_penalty: f64,
    /// Amounts that are added to the logits of some tokens. Negative infinity excludes a token. NaN and positive infinity are
    /// rejected.
    pub logit_bias: Vec<(u32, f32)>,
    /// The seed of the draws. Equal seeds draw equal tokens.
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
    /// Rejects options outside of their ranges.
    pub(super) fn check(&self) -> Result<()> {
        let within =
            |name: &str, number: f64, from: f64, to: f64| match (from..=to).contains(&number) {
                true => Ok(()),
                false => Err(Error::argument(format!(
                    "sampling: {name} must be from {from} to {to}, got {number}"
                ))),
            };
        within("temperature", self.temperature, 0.0, 1e6)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("repetition_penalty", self.repetition_penalty, 1e-3, 1e3)?;
        within("frequency_penalty", self.frequency_penalty, -1e6, 1e6)?;
        within("presence_penalty", self.presence_penalty, -1e6, 1e6)?;
        match self.logit_bias.iter().find(|(_, more)| more.is_nan() || *more == f32::INFINITY) {
            None => Ok(()),
            Some((id, more)) => Err(Error::argument(format!(
                "sampling: logit_bias must have numbers below infinity, got {more} for token {id}"
            ))),
        }
    }
}

/// The state that chooses tokens.
pub(super) struct Sampler {
    options: SamplingOptions,
    /// `logit_bias` as one number for each token, or empty if there is no bias.
    bias: Vec<f32>,
    /// The number of occurrences of each token, or empty if no option uses it.
    counts: Vec<f32>,
    draws: u32,
}

/// A chosen token.
pub(super) struct Choice {
    pub id: u32,
    /// The natural logarithm of the token's probability, before the options change it.
    pub logprob: f32,
    /// The likeliest tokens with their natural logarithms of probabilities, if requested.
    pub likeliest: Vec<(u32, f32)>,
}

impl Sampler {
    /// Creates a sampler for a vocabulary of `vocabulary` tokens, of which `tokens` are already in the text.
    pub fn new(vocabulary: usize, options: SamplingOptions, tokens: &[u32]) -> Result<Sampler> {
        options.check()?;
        let mut bias = vec![0.0; if options.logit_bias.is_empty() { 0 } else { vocabulary }];
        for &(id, more) in &options.logit_bias {
            let Some(place) = bias.get_mut(id as usize) else {
                let message =
                    format!("sampling: logit_bias must name tokens below {vocabulary}, got {id}");
                return Err(Error::argument(message));
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

    /// Chooses a token from the logits `[vocabulary]`. Returns the log-probabilities of the `likeliest` likeliest tokens, too.
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
        // All results are read at once as floats, which represent every integer up to 2^24.
        let numbers: Vec<f32> = Tensor::concat(&parts, 0)?.read().await?;
        let (ids, logprobs) = numbers[2..].split_at((numbers.len() - 2) / 2);
        let likeliest = ids.iter().map(|&id| id as u32).zip(logprobs.iter().copied()).collect();
        let choice = Choice { id: numbers[0] as u32, logprob: numbers[1], likeliest };
        self.count(choice.id);
        self.draws = self.draws.wrapping_add(1);
        Ok(choice)
    }

    /// Returns the id of the chosen token, `[1]`.
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
        if options.temperature < MIN_TEMPERATURE {
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
        // A token is kept while the more likely ones have less than `top_p` together.
        let before = likely.cumsum(0)?.sub(&likely)?;
        let enough = likely.ge(likely.slice(0, ..1)?.mul(options.min_p)?)?;
        let kept = before.lt(options.top_p)?.logical_and(&enough)?;
        let first = device.iota(&[count], 0)?.eq(0)?;
        let hidden = device.full(&[], f64::NEG_INFINITY, DType::F32)?;
        let values = kept.logical_or(&first)?.where_cond(&values, &hidden)?;
        places.index_select(0, &drawn(&values, seed)?.reshape(&[1])?)
    }
}

/// Returns the position of an element, drawn with the softmax of the logits as probabilities. That is the largest sum of a
/// logit and a number from the Gumbel distribution (Gumbel 1954).
fn drawn(logits: &Tensor, seed: u32) -> Result<Tensor> {
    let least = f64::from(f32::MIN_POSITIVE);
    let uniform = logits.device().uniform(logits.shape(), least, 1.0, seed)?;
    let gumbel = uniform.log().neg().log().neg();
    logits.add(&gumbel)?.argmax(0)
}
