//! Tests two real models: their logits, the text that they generate, and the perplexity of a text.
//!
//! `tests/golden/logits-*.json` were computed by a forward pass in float64 with numpy, from the dequantized weights of the same
//! files. They agree with `transformers` 5.24 in `f32` within 1.2e-4.
//!
//! Real models take seconds per token in a test build. With `WARPWEFT_EVERY` above one, fewer prompts and steps are computed.

use super::path;
use crate::suite::every;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufReader, Write as _};
use std::time::Instant;
use warpweft::device::{Device, Preference};
use warpweft::io::Gguf;
use warpweft::model::{
    estimate, Example, GenerateOptions, LanguageModel, LoadOptions, LoraAdapter, LoraOptions,
};
use warpweft::nn::Module;
use warpweft::op::PackedArithmetic;
use warpweft::optim::{Adam, Optimizer};
use warpweft_native::prelude::*;

/// The absolute error of logits if everything is computed and cached in `f32`, and if keys and values are cached in `f16`.
const CLOSE: f64 = 1e-3;
const CLOSE_F16: f64 = 0.1;

/// The absolute error if activations are rounded to 8 bits.
const CLOSE_INT8: f64 = 2.0;

#[derive(Deserialize)]
struct Golden {
    prompts: Vec<Prompt>,
    perplexity: Text,
}

#[derive(Deserialize)]
struct Prompt {
    ids: Vec<u32>,
    /// The largest logits of the next token, and the logits of some fixed tokens.
    top: Vec<(usize, f64)>,
    fixed: Vec<(usize, f64)>,
    /// The most likely tokens in sequence, and the margin of each logit above the next one.
    greedy: Vec<u32>,
    margins: Vec<f64>,
}

#[derive(Deserialize)]
struct Text {
    ids: Vec<u32>,
    logprobs: Vec<f64>,
    ppl: f64,
}

/// Returns the perplexity of a text with these log-probabilities.
fn perplexity(logprobs: &[f64]) -> f64 {
    (-logprobs.iter().sum::<f64>() / logprobs.len() as f64).exp()
}

struct Real {
    file: &'static str,
    golden: &'static str,
}

const SMOLLM2: Real = Real {
    file: "SmolLM2-135M-Instruct.Q4_1.gguf",
    golden: include_str!("../../golden/logits-smollm2.json"),
};

const GEMMA3: Real = Real {
    file: "gemma-3-270m-q4_k_m.gguf",
    golden: include_str!("../../golden/logits-gemma3.json"),
};

fn golden(real: &Real) -> Golden {
    serde_json::from_str(real.golden).expect("golden values")
}

/// The cache dtype and the arithmetic of a model.
type How = (DType, PackedArithmetic);

const EXACT: How = (DType::F32, PackedArithmetic::Exact);
const HALVES: How = (DType::F16, PackedArithmetic::Exact);
const INT8: How = (DType::F32, PackedArithmetic::Int8);

fn load(real: &Real, device: &Device, (cache, arithmetic): How) -> Option<LanguageModel> {
    let file = BufReader::new(File::open(path(real.file)?).expect("a file"));
    let options = LoadOptions { context: Some(1024), cache: Some(cache), arithmetic };
    Some(LanguageModel::load(device, file, options).expect("a model"))
}

/// Compares the logits of prompts, and up to `most` generated tokens.
fn follow(
    real: &Real,
    (device, how): (&Device, How),
    prompts: impl Iterator<Item = usize>,
    most: usize,
) {
    let close = match how {
        (_, PackedArithmetic::Int8) => CLOSE_INT8,
        (DType::F16, _) => CLOSE_F16,
        _ => CLOSE,
    };
    let Some(model) = load(real, device, how) else { return };
    let golden = golden(real);
    let mut context = model.context().expect("a context");
    for n in prompts {
        let prompt = &golden.prompts[n];
        let logits = context.resume(&prompt.ids).expect("logits");
        let logits: Vec<f32> = logits.read_blocking().expect("logits");
        for &(id, want) in prompt.top.iter().chain(&prompt.fixed) {
            let got = f64::from(logits[id]);
            assert!(
                (got - want).abs() < close,
                "{}, prompt {n}, token {id}: {got}, not {want}",
                real.file
            );
        }
        let options = GenerateOptions {
            max_tokens: Some(most.min(prompt.greedy.len())),
            ignore_end: true,
            ..GenerateOptions::default()
        };
        let generation = context.generate(&prompt.ids, options).expect("a generation");
        let mut wanted = prompt.greedy.iter().zip(&prompt.margins);
        for token in generation.tokens_blocking() {
            let (&want, &margin) = wanted.next().expect("at most as many tokens");
            // If two tokens are almost equally likely, either is correct, and the texts differ afterwards.
            if margin < 2.0 * close {
                break;
            }
            assert_eq!(token.expect("a token").id, want, "{}, prompt {n}", real.file);
        }
    }
}

/// Returns `all` in a full test, and `few` in a sample.
fn sampled<T>(few: T, all: T) -> T {
    if every() > 1 {
        few
    } else {
        all
    }
}

fn cpu() -> Device {
    Device::with_blocking(Preference::Cpu).expect("the CPU")
}

#[test]
fn smollm2_on_the_cpu() {
    follow(&SMOLLM2, (&cpu(), EXACT), 0..9, 64);
}

#[test]
fn smollm2_with_a_cache_of_halves() {
    follow(&SMOLLM2, (&cpu(), HALVES), sampled(7..9, 0..9), 8);
}

#[test]
fn activations_of_8_bits() {
    follow(&SMOLLM2, (&cpu(), INT8), sampled(5..9, 0..9), 16);
    follow(&GEMMA3, (&cpu(), INT8), sampled(vec![5], vec![0, 5, 7]).into_iter(), 8);
    // The activations are rounded.
    let logits = [EXACT, INT8].map(|how| {
        let model = load(&SMOLLM2, &cpu(), how)?;
        let logits = model.context().and_then(|mut context| context.add(&[1000])).expect("logits");
        Some(logits.read_blocking::<f32>().expect("numbers"))
    });
    let [Some(exact), Some(rounded)] = logits else { return };
    let apart = exact.iter().zip(&rounded).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!((0.01..2.0).contains(&apart), "{apart}");
}

/// Tests single tokens, whose activations are rounded. Each adds to the cache for the following ones.
#[test]
fn activations_of_8_bits_in_single_steps() {
    for real in [&SMOLLM2, &GEMMA3] {
        let Some(model) = load(real, &cpu(), INT8) else { return };
        let Text { ids, logprobs, .. } = golden(real).perplexity;
        let logprobs = &logprobs[..sampled(24, logprobs.len())];
        let ppl = perplexity(logprobs);
        let mut context = model.context().expect("a context");
        let (mut sum, mut apart) = (0.0, 0f64);
        for (pair, want) in ids.windows(2).zip(logprobs) {
            let logits = context.add(&pair[..1]).and_then(|logits| logits.log_softmax(0));
            let logprobs: Vec<f32> =
                logits.and_then(|logits| logits.read_blocking()).expect("numbers");
            let got = f64::from(logprobs[pair[1] as usize]);
            apart = apart.max((got - want).abs());
            sum -= got;
        }
        let found = (sum / logprobs.len() as f64).exp();
        let report = format!("{}: {apart} apart, perplexity {found}, not {ppl}", real.file);
        assert!(apart < CLOSE_INT8 && (found / ppl - 1.0).abs() < 0.03, "{report}");
        let _ = writeln!(std::io::stderr(), "{report}");
    }
}

#[test]
fn gemma3_on_the_cpu() {
    // The eighth prompt is longer than the window of most layers.
    follow(&GEMMA3, (&cpu(), EXACT), sampled(vec![0, 7], vec![0, 5, 7]).into_iter(), 8);
    follow(&GEMMA3, (&cpu(), HALVES), sampled(vec![1], vec![1, 7]).into_iter(), 4);
}

#[test]
fn both_on_a_software_gpu() {
    let device = match Device::with_blocking(Preference::Software) {
        Ok(device) => device,
        Err(error) => {
            let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
            assert!(!required.contains("wgpu"), "WARPWEFT_REQUIRE={required}, but {error}");
            let _ = writeln!(std::io::stderr(), "wgpu: no adapter, models not run ({error})");
            return;
        }
    };
    for real in [&SMOLLM2, &GEMMA3] {
        follow(real, (&device, EXACT), 0..2, 2);
    }
}

#[test]
fn perplexity_of_a_text() {
    let Some(model) = load(&SMOLLM2, &cpu(), EXACT) else { return };
    let Text { ids, logprobs, ppl } = golden(&SMOLLM2).perplexity;
    let mut context = model.context().expect("a context");
    let all = context.add_all(&ids[..ids.len() - 1]).and_then(|logits| logits.log_softmax(-1));
    let next: Vec<i32> = ids[1..].iter().map(|&id| id as i32).collect();
    let next = model.device().tensor(&next, &[next.len(), 1]).expect("ids");
    let found = all.and_then(|all| all.gather(1, &next)).expect("logits");
    let found: Vec<f32> = found.read_blocking().expect("numbers");
    let mut sum = 0.0;
    for (&got, want) in found.iter().zip(&logprobs) {
        assert!((f64::from(got) - want).abs() < CLOSE, "{got}, not {want}");
        sum -= f64::from(got);
    }
    let found = (sum / logprobs.len() as f64).exp();
    assert!((found / ppl - 1.0).abs() < 1e-4, "{found}, not {ppl}");
}

#[test]
fn what_a_model_takes_is_known_before() {
    let Some(path) = path(SMOLLM2.file) else { return };
    let mut file = BufReader::new(File::open(path).expect("a file"));
    let head = Gguf::read(&mut file).expect("a head");
    let all = [(700, DType::F16), (128, DType::F32), (700, DType::F32)];
    for &(tokens, cache) in &all[..sampled(2, 3)] {
        let device = cpu();
        let options =
            LoadOptions { context: Some(tokens), cache: Some(cache), ..LoadOptions::default() };
        let model = LanguageModel::load(&device, &mut file, options).expect("a model");
        let mut context = model.context().expect("a context");
        let ids: Vec<u32> = (100..100 + tokens as u32 - 1).collect();
        context.add(&ids).expect("logits").run().expect("it runs");
        context.add(&[5]).expect("logits").run().expect("it runs");
        let (want, took) =
            (estimate(&head, tokens, 512, cache).expect("an estimate"), device.stats());
        let ratio = want.total() as f64 / took.peak_bytes as f64;
        assert!((0.9..1.1).contains(&ratio), "{tokens}, {cache}: {want:?}, but {took:?}");
    }
}

#[test]
fn a_text_is_learned() {
    let Some(model) = load(&SMOLLM2, &cpu(), EXACT) else { return };
    let ids = golden(&SMOLLM2).perplexity.ids;
    let example = Example::text(&ids[..33.min(ids.len())]);
    let adapter = LoraAdapter::new(&model, &LoraOptions::default()).expect("an adapter");
    let parameters = adapter.parameters();
    let mut optimizer = Optimizer::new(Adam::new(2e-3), &parameters).expect("an optimizer");
    let (mut losses, mut seconds): (Vec<f32>, Vec<f64>) = (Vec::new(), Vec::new());
    let steps = sampled(3, 6);
    for _ in 0..steps {
        let start = Instant::now();
        let loss = adapter.loss(std::slice::from_ref(&example)).expect("a loss");
        optimizer.minimize(&loss).expect("a step");
        losses.push(loss.item_blocking().expect("a number"));
        seconds.push(start.elapsed().as_secs_f64());
    }
    let peak = model.device().stats().peak_bytes;
    let report =
        format!("{}: losses {losses:?}, steps of {seconds:.2?} s, {peak} bytes", SMOLLM2.file);
    let _ = writeln!(std::io::stderr(), "{report}");
    // The first loss is the loss of the model without training.
    let logprobs = &golden(&SMOLLM2).perplexity.logprobs[..example.tokens.len() - 1];
    let want = -logprobs.iter().sum::<f64>() / logprobs.len() as f64;
    assert!((f64::from(losses[0]) - want).abs() < CLOSE, "{report}, first not {want}");
    assert!(losses.windows(2).all(|pair| pair[1] < pair[0]), "{report}");
    assert!(losses[steps - 1] < sampled(0.95, 0.8) * losses[0], "{report}");
}
