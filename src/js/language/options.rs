//! The options of language models.

use crate::error::Result;
use crate::js::host::host;
use crate::js::{word, At, FromJs, Known, Options};
use crate::model::{GenerateOptions, LoadOptions, LoraOptions, Projection, SamplingOptions};
use crate::tensor::DType;
use wasm_bindgen::prelude::*;

/// The names of the options of a generation.
pub const GENERATE: Known = &[
    "maxTokens temperature topK topP minP repetitionPenalty frequencyPenalty presencePenalty",
    "logitBias seed stop likeliest ignoreEnd",
];

/// Returns a field, if it was given.
fn field<T: FromJs>(options: &Options, n: usize, argument: &'static str) -> Result<Option<T>> {
    Option::from_js(&options.get(n), At { op: options.op(), argument })
}

/// Reads the options of loading a model.
pub fn load(given: &JsValue, op: &'static str) -> Result<LoadOptions> {
    const KNOWN: Known = &["context cache"];
    let options = Options::open(given, KNOWN, op)?;
    let cache = match options.get(1) {
        cache if cache.is_undefined() => None,
        cache => {
            let types = [DType::F16, DType::F32];
            let at = At { op, argument: "cache" };
            Some(types[word(&cache, &types.map(DType::name), at)?])
        }
    };
    let context = field::<usize>(&options, 0, "context")?;
    Ok(LoadOptions { context, cache, ..LoadOptions::default() })
}

/// Converts the options of a generation.
pub fn generate(options: &Options) -> Result<GenerateOptions> {
    let usual = SamplingOptions::default();
    let number = |n, argument, usual| Ok(field::<f64>(options, n, argument)?.unwrap_or(usual));
    let sampling = SamplingOptions {
        temperature: number(1, "temperature", usual.temperature)?,
        top_k: field(options, 2, "topK")?.unwrap_or(usual.top_k),
        top_p: number(3, "topP", usual.top_p)?,
        min_p: number(4, "minP", usual.min_p)?,
        repetition_penalty: number(5, "repetitionPenalty", usual.repetition_penalty)?,
        frequency_penalty: number(6, "frequencyPenalty", usual.frequency_penalty)?,
        presence_penalty: number(7, "presencePenalty", usual.presence_penalty)?,
        logit_bias: biases(options)?,
        seed: field(options, 9, "seed")?.unwrap_or_else(crate::js::random_seed),
    };
    Ok(GenerateOptions {
        max_tokens: field(options, 0, "maxTokens")?,
        sampling,
        stop: match options.get(10) {
            stop if stop.is_undefined() => Vec::new(),
            stop => texts(&stop, options.op(), "stop")?,
        },
        likeliest: field(options, 11, "likeliest")?.unwrap_or(0),
        ignore_end: field(options, 12, "ignoreEnd")?.unwrap_or(false),
    })
}

/// Returns the items of a list.
fn items(list: &JsValue, at: At, wanted: &str) -> Result<Vec<JsValue>> {
    host(|host| host.items(list)).ok_or_else(|| at.refuse_list(list, wanted))
}

/// Reads the logit biases as pairs of a token and a number.
fn biases(options: &Options) -> Result<Vec<(u32, f32)>> {
    let at = At { op: options.op(), argument: "logitBias" };
    let list = options.get(8);
    if list.is_undefined() {
        return Ok(Vec::new());
    }
    let mut all = Vec::new();
    for pair in items(&list, at, "a list of [token, number]")? {
        match host(|host| host.items(&pair)).as_deref() {
            Some([id, more]) => all.push((u32::from_js(id, at)?, f64::from_js(more, at)? as f32)),
            _ => return Err(at.refuse(&pair, "[token, number]")),
        }
    }
    Ok(all)
}

/// Reads a text or a list of texts.
pub fn texts(given: &JsValue, op: &'static str, argument: &'static str) -> Result<Vec<String>> {
    let at = At { op, argument };
    if given.as_string().is_some() {
        return Ok(vec![String::from_js(given, at)?]);
    }
    let all = items(given, at, "a text or a list of texts")?;
    all.iter().map(|text| String::from_js(text, at)).collect()
}

/// Reads the prompt and the prompt name of an embedding.
pub fn embed(given: &JsValue, op: &'static str) -> Result<(Option<String>, Option<String>)> {
    const KNOWN: Known = &["prompt promptName"];
    let options = Options::open(given, KNOWN, op)?;
    Ok((field(&options, 0, "prompt")?, field(&options, 1, "promptName")?))
}

/// Reads the options of a new adapter.
pub fn adapter(given: &JsValue, op: &'static str) -> Result<LoraOptions> {
    const KNOWN: Known = &["rank alpha targets rankStabilized seed"];
    let options = Options::open(given, KNOWN, op)?;
    let usual = LoraOptions::default();
    let targets = match options.get(2) {
        targets if targets.is_undefined() => usual.targets,
        targets => {
            let at = At { op, argument: "targets" };
            let names = Projection::ALL.map(|projection| projection.name());
            let list = items(&targets, at, "a list of names")?;
            let named = |name: &JsValue| Ok(Projection::ALL[word(name, &names, at)?]);
            list.iter().map(named).collect::<Result<_>>()?
        }
    };
    Ok(LoraOptions {
        rank: field(&options, 0, "rank")?.unwrap_or(usual.rank),
        alpha: field(&options, 1, "alpha")?.unwrap_or(usual.alpha),
        targets,
        rank_stabilized: field(&options, 3, "rankStabilized")?.unwrap_or(false),
        seed: field(&options, 4, "seed")?.unwrap_or_else(crate::js::random_seed),
    })
}
