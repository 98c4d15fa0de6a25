//! Decoders in the format of Hugging Face's `transformers`: `config.json` and safetensors files, described as a GGUF head.
//!
//! The settings become the metadata that a GGUF file has for them, and tensors get their GGUF names. All later code, from the
//! estimate to the layers, is shared by both formats. Two things differ, and `WeightLayout` says which.

use super::adapter::{split_layer, Projection, Site};
use super::config::{WeightLayout, LAYOUT};
use super::weights::ROPE_FACTORS;
use crate::error::{brief, Error, ErrorKind, Result};
use crate::io::{GgufArray, GgufValue};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::f64::consts::TAU;

/// The settings of a model, which are an object of `config.json`.
struct Config {
    settings: Map<String, Value>,
}

/// The number of tokens that layers with a window see, if a file of Mistral or Gemma 3 leaves it out (`MistralConfig` and
/// `Gemma3TextConfig` of `transformers`).
const DEFAULT_WINDOW: i128 = 4_096;

/// Settings of Gemma 3 with the defaults of `transformers`. Files leave out a setting that has its default.
const GEMMA3_DEFAULTS: &[(&str, i128)] = &[
    ("num_attention_heads", 8),
    ("num_key_value_heads", 4),
    ("head_dim", 256),
    ("max_position_embeddings", 131_072),
];

/// The metadata of a GGUF head.
type Metadata = BTreeMap<String, GgufValue>;

/// Formats a value as JSON. A long value is shortened.
fn shown(value: &Value) -> String {
    brief(format_args!("{value}"))
}

fn unsupported(must: &str, got: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("config.json: {must}, got {got}"))
}

impl Config {
    /// Reads `config.json`. A model that also reads images has the settings of its decoder in `text_config`.
    fn read(json: &[u8]) -> Result<Config> {
        let mut settings: Map<String, Value> = serde_json::from_slice(json).map_err(|error| {
            Error::format(format!("config.json: the file must be an object of JSON, got {error}"))
        })?;
        if let Some(Value::Object(text)) = settings.remove("text_config") {
            settings = text;
        }
        Ok(Config { settings })
    }

    /// Returns a setting that exists and is not `null`.
    fn get(&self, name: &str) -> Option<&Value> {
        self.settings.get(name).filter(|value| !value.is_null())
    }

    fn wrong(name: &str, must: &str, got: Option<&Value>) -> Error {
        let got = got.map_or("none".into(), shown);
        Error::format(format!("config.json: `{name}` must be {must}, got {got}"))
    }

    fn extent(&self, name: &str) -> Result<Option<i128>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_u64() {
            Some(extent) => Ok(Some(extent.into())),
            None => Err(Config::wrong(name, "an integer above 0", Some(value))),
        }
    }

    fn needed_extent(&self, name: &str) -> Result<i128> {
        self.extent(name)?.ok_or_else(|| Config::wrong(name, "in the file", None))
    }

    fn number(&self, name: &str) -> Result<Option<f64>> {
        let Some(value) = self.get(name) else { return Ok(None) };
        match value.as_f64().filter(|value| value.is_finite() && *value > 0.0) {
            Some(number) => Ok(Some(number)),
            None => Err(Config::wrong(name, "a number above 0", Some(value))),
        }
    }

    /// Returns the number of tokens that layers with a window see. `null` means that no layer has a window.
    fn window(&self) -> Result<Option<i128>> {
        match self.settings.contains_key("sliding_window") {
            true => self.extent("sliding_window"),
            false => Ok(Some(DEFAULT_WINDOW)),
        }
    }

    /// Returns a group of settings, which is empty if it does not exist.
    fn group(&self, name: &str) -> Config {
        let settings = self.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
        Config { settings }
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(Value::as_str)
    }

    /// Rejects a setting that changes the computation in a way that is not implemented.
    fn need(&self, name: &str, accepted: &[Value]) -> Result<()> {
        match self.get(name) {
            Some(value) if !accepted.contains(value) => {
                let must = format!("`{name}` must be {}", accepted[0]);
                Err(unsupported(&must, &shown(value)))
            }
            _ => Ok(()),
        }
    }
}

/// A model, described as a GGUF head does.
pub struct Description {
    pub metadata: Metadata,
    /// The name of the family in GGUF files.
    family: &'static str,
    /// Whether the embedding is also the output matrix.
    pub is_tied: bool,
}

/// Describes the model that a `config.json` belongs to.
///
/// # Errors
/// `Format` if a setting is missing or has another type. `Unsupported` for other families, and for settings that are not
/// implemented.
pub fn describe(json: &[u8]) -> Result<Description> {
    let config = Config::read(json)?;
    let (family, has_window) = match config.text("model_type") {
        // `LlamaConfig` of `transformers` has no window, so a window in the file has no effect.
        Some("llama") => ("llama", false),
        Some("mistral") => ("llama", true),
        Some("gemma3_text") => ("gemma3", true),
        other => {
            let must = "`model_type` must be `llama`, `mistral` or `gemma3_text`";
            return Err(unsupported(must, &brief(other.unwrap_or("none"))));
        }
    };
    let mut metadata = Metadata::new();
    let text = |value: &str| GgufValue::String(value.to_string());
    metadata.insert("general.architecture".into(), text(family));
    metadata.insert(LAYOUT.into(), text(WeightLayout::HUGGING_FACE));
    let mut set = |name: &str, value: GgufValue| metadata.insert(format!("{family}.{name}"), value);
    let defaults = if family == "gemma3" { GEMMA3_DEFAULTS } else { &[] };
    for (name, setting, is_needed) in [
        ("block_count", "num_hidden_layers", true),
        ("embedding_length", "hidden_size", true),
        ("attention.head_count", "num_attention_heads", true),
        ("feed_forward_length", "intermediate_size", true),
        ("context_length", "max_position_embeddings", true),
        ("attention.head_count_kv", "num_key_value_heads", false),
        ("attention.key_length", "head_dim", false),
    ] {
        let default = defaults.iter().find(|(name, _)| *name == setting);
        match config.extent(setting)?.or(default.map(|&(_, extent)| extent)) {
            Some(extent) => drop(set(name, GgufValue::Integer(extent))),
            None if is_needed => return Err(Config::wrong(setting, "in the file", None)),
            None => {}
        }
    }
    let window = if has_window { config.window()? } else { None };
    if let Some(window) = window {
        set("attention.sliding_window", GgufValue::Integer(window));
    }
    let epsilon = config.number("rms_norm_eps")?.unwrap_or(1e-6);
    set("attention.layer_norm_rms_epsilon", GgufValue::Float(epsilon));
    config.need("attention_bias", &[Value::Bool(false)])?;
    config.need("mlp_bias", &[Value::Bool(false)])?;
    let angles = match family {
        "gemma3" => gemma3(&config, &mut set)?,
        _ => llama(&config)?,
    };
    set("rope.freq_base", GgufValue::Float(angles.base));
    match angles.scaling {
        Scaling::None => {}
        Scaling::Linear(factor) => {
            set("rope.scaling.type", text("linear"));
            set("rope.scaling.factor", GgufValue::Float(factor));
        }
        Scaling::Llama3(scaling) => {
            let heads = config.needed_extent("num_attention_heads")?.max(1);
            let size = config.extent("head_dim")?;
            let size = size.map_or_else(|| Ok(config.needed_extent("hidden_size")? / heads), Ok)?;
            let factors = GgufArray::F64(scaling.factors(angles.base, size));
            metadata.insert(ROPE_FACTORS.into(), GgufValue::Array(factors));
        }
    }
    let is_tied = config.get("tie_word_embeddings").and_then(Value::as_bool);
    Ok(Description { metadata, family, is_tied: is_tied.unwrap_or(family == "gemma3") })
}

/// The angles of the rotary embedding.
struct Angles {
    base: f64,
    scaling: Scaling,
}

/// The scaling of the rotary embedding's angles for longer contexts.
enum Scaling {
    None,
    /// All angles are divided by one factor.
    Linear(f64),
    Llama3(Llama3Scaling),
}

/// The settings of Llama 3.1. Fast angles stay, slow angles are divided by `factor`, and angles between them are
/// interpolated.
struct Llama3Scaling {
    factor: f64,
    low_frequency: f64,
    high_frequency: f64,
    original_context: f64,
}

impl Llama3Scaling {
    /// Returns the factor of each pair of a head with `size` elements (`_compute_llama3_parameters` of `transformers`).
    fn factors(&self, base: f64, size: i128) -> Vec<f64> {
        // Larger sizes are rejected later, when the extents are checked.
        let size = size.clamp(2, 1 << 16) as usize;
        let factor = |pair: usize| {
            let wavelength = TAU * base.powf(2.0 * pair as f64 / size as f64);
            let turns = self.original_context / wavelength;
            let fast = (turns - self.low_frequency) / (self.high_frequency - self.low_frequency);
            let fast = fast.clamp(0.0, 1.0);
            1.0 / ((1.0 - fast) / self.factor + fast)
        };
        (0..size / 2).map(factor).collect()
    }
}

/// Reads the angles from a group of settings, such as `rope_scaling` or `rope_parameters`.
fn angles(group: &Config, base: Option<f64>) -> Result<Angles> {
    let base = group.number("rope_theta")?.or(base).unwrap_or(10_000.0);
    let needed = |name: &str| {
        let number = group.number(name)?;
        number.ok_or_else(|| Config::wrong(&format!("rope_scaling.{name}"), "in the file", None))
    };
    let kind = group.text("rope_type").or(group.text("type")).unwrap_or("default");
    let scaling = match kind {
        "default" => Scaling::None,
        "linear" => Scaling::Linear(needed("factor")?),
        "llama3" => {
            let scaling = Llama3Scaling {
                factor: needed("factor")?,
                low_frequency: needed("low_freq_factor")?,
                high_frequency: needed("high_freq_factor")?,
                original_context: needed("original_max_position_embeddings")?,
            };
            if scaling.high_frequency <= scaling.low_frequency {
                let must = "above `low_freq_factor`";
                return Err(Config::wrong("high_freq_factor", must, group.get("high_freq_factor")));
            }
            Scaling::Llama3(scaling)
        }
        other => {
            let must = "`rope_scaling.rope_type` must be `default`, `linear` or `llama3`";
            return Err(unsupported(must, &brief(other)));
        }
    };
    Ok(Angles { base, scaling })
}

fn llama(config: &Config) -> Result<Angles> {
    config.need("hidden_act", &[Value::from("silu")])?;
    config.need("partial_rotary_factor", &[Value::from(1.0), Value::from(1)])?;
    // `transformers` 5 writes `rope_parameters`. Earlier versions write `rope_theta` and `rope_scaling`.
    let group = match config.get("rope_parameters") {
        Some(_) => "rope_parameters",
        None => "rope_scaling",
    };
    angles(&config.group(group), config.number("rope_theta")?)
}

/// Adds the settings of Gemma 3 to the metadata. Returns the angles of the layers that see all tokens.
fn gemma3(
    config: &Config,
    set: &mut impl FnMut(&str, GgufValue) -> Option<GgufValue>,
) -> Result<Angles> {
    config.need("hidden_activation", &[Value::from("gelu_pytorch_tanh")])?;
    config.need("tie_word_embeddings", &[Value::Bool(true)])?;
    for name in ["final_logit_softcapping", "attn_logit_softcapping", "use_bidirectional_attention"]
    {
        if config.get(name).is_some_and(|value| *value != Value::Bool(false)) {
            return Err(unsupported(&format!("`{name}` must be null"), "another value"));
        }
    }
    let size = config.extent("head_dim")?.unwrap_or(256);
    let scalar = config.number("query_pre_attn_scalar")?.unwrap_or(256.0);
    if scalar != size as f64 {
        let must = format!("`query_pre_attn_scalar` must be the {size} elements of a head");
        return Err(unsupported(&must, &scalar.to_string()));
    }
    let pattern = match config.get("layer_types") {
        Some(types) => layer_pattern(types)?,
        None => config.extent("sliding_window_pattern")?.unwrap_or(6),
    };
    set("attention.sliding_window_pattern", GgufValue::Integer(pattern));
    let parameters = config.group("rope_parameters");
    if parameters.settings.is_empty() {
        let local = config.number("rope_local_base_freq")?.unwrap_or(10_000.0);
        set("rope.freq_base_swa", GgufValue::Float(local));
        let base = config.number("rope_theta")?.unwrap_or(1_000_000.0);
        return angles(&config.group("rope_scaling"), Some(base));
    }
    let local = angles(&parameters.group("sliding_attention"), None)?;
    let Scaling::None = local.scaling else {
        let must = "`rope_parameters.sliding_attention.rope_type` must be `default`";
        return Err(unsupported(must, "another type"));
    };
    set("rope.freq_base_swa", GgufValue::Float(local.base));
    angles(&parameters.group("full_attention"), Some(1_000_000.0))
}

/// Returns n if every n-th layer, and only those, sees all tokens.
fn layer_pattern(types: &Value) -> Result<i128> {
    let types = types.as_array().map(Vec::as_slice).unwrap_or_default();
    let is_full: Vec<bool> = types.iter().map(|kind| kind == "full_attention").collect();
    // If all layers have a window, n is larger than the number of layers.
    let pattern = is_full.iter().position(|&full| full).map_or(types.len() + 1, |first| first + 1);
    let is_regular = (1..).zip(&is_full).all(|(n, &full)| full == (n % pattern == 0));
    if types.is_empty() || !is_regular {
        let must = "`layer_types` must have `full_attention` in each n-th layer alone";
        return Err(unsupported(must, "another pattern"));
    }
    Ok(pattern as i128)
}

impl Description {
    /// Returns the GGUF name of a tensor, or `None` if the decoder does not use the tensor.
    pub fn tensor_name(&self, name: &str) -> Option<String> {
        // Models that also read images have their decoder under one of these paths.
        let prefixes = ["model.language_model.", "language_model.model.", "model."];
        let path = name.strip_suffix(".weight")?;
        if let "lm_head" | "language_model.lm_head" = path {
            return (!self.is_tied).then(|| "output.weight".into());
        }
        let path = prefixes.iter().find_map(|prefix| path.strip_prefix(prefix))?;
        let outside = match path {
            "embed_tokens" => Some("token_embd.weight"),
            "norm" => Some("output_norm.weight"),
            _ => None,
        };
        if let Some(outside) = outside {
            return Some(outside.into());
        }
        let (layer, part) = split_layer(path)?;
        let norm = match (self.family, part) {
            (_, "input_layernorm") => "attn_norm",
            ("gemma3", "self_attn.q_norm") => "attn_q_norm",
            ("gemma3", "self_attn.k_norm") => "attn_k_norm",
            ("gemma3", "post_attention_layernorm") => "post_attention_norm",
            ("gemma3", "pre_feedforward_layernorm") => "ffn_norm",
            ("gemma3", "post_feedforward_layernorm") => "post_ffw_norm",
            (_, "post_attention_layernorm") => "ffn_norm",
            _ => {
                let projection = Projection::of_module(part)?;
                return Some(Site { layer, projection }.in_gguf());
            }
        };
        Some(format!("blk.{layer}.{norm}.weight"))
    }
}
