//! Adapters in the two files of Hugging Face's `peft`: `adapter_config.json` and `adapter_model.safetensors`.
//!
//! The tensors decide which layers are adapted, because `target_modules` of the config may be a list of names, a regular
//! expression or a word. Settings that change the meaning of the tensors are rejected.

use super::adapter::{split_layer, Projection, Site};
use super::lora::LoraAdapter;
use super::LanguageModel;
use crate::dtype::DType;
use crate::error::{brief, Error, ErrorKind, Result};
use crate::io::{load_safetensors, save_safetensors};
use crate::nn::Module;
use crate::tensor::Tensor;
use serde_json::{json, Map, Value};
use std::collections::{BTreeMap, BTreeSet};

/// The prefixes of layers in `peft`: the one of language models, and two of language models inside models that read images.
const PREFIXES: [&str; 3] = [
    "base_model.model.model.",
    "base_model.model.model.language_model.",
    "base_model.model.language_model.model.",
];

/// Settings that are supported only if they are absent, null, false, or empty.
const UNSUPPORTED: [&str; 17] = [
    "alora_invocation_tokens",
    "alpha_pattern",
    "arrow_config",
    "fan_in_fan_out",
    "kasa_config",
    "layer_replication",
    "lora_bias",
    "megatron_config",
    "modules_to_save",
    "monteclora_config",
    "rank_pattern",
    "target_parameters",
    "trainable_token_indices",
    "use_bdlora",
    "use_dora",
    "use_qalora",
    "velora_config",
];

/// Initializations that leave the weights of the model unchanged. Others, such as `pissa`, change them.
const BEGINNINGS: [&str; 3] = ["gaussian", "orthogonal", "eva"];

/// An adapter in the format of `peft`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PeftFiles {
    /// The text of `adapter_config.json`.
    pub config: String,
    /// The bytes of `adapter_model.safetensors`.
    pub weights: Vec<u8>,
}

impl LoraAdapter {
    /// Saves the adapter as the two files of `peft`, which `PeftModel.from_pretrained` loads from a folder.
    ///
    /// # Errors
    /// The errors of [`Tensor::read`].
    ///
    /// ```no_run
    /// # async fn run(adapter: warpweft::model::LoraAdapter) -> Result<(), Box<dyn std::error::Error>> {
    /// let files = adapter.save().await?;
    /// std::fs::write("adapter/adapter_config.json", files.config)?;
    /// std::fs::write("adapter/adapter_model.safetensors", files.weights)?;
    /// # Ok(()) }
    /// ```
    pub async fn save(&self) -> Result<PeftFiles> {
        let metadata = BTreeMap::from([("format".to_string(), "pt".to_string())]);
        let weights = save_safetensors(&self.state_dict(), &metadata).await?;
        Ok(PeftFiles { config: self.config(), weights })
    }

    fn config(&self) -> String {
        let pairs = &self.adapter.pairs;
        let layers: BTreeSet<usize> = pairs.keys().map(|site| site.layer).collect();
        let projections: BTreeSet<Projection> = pairs.keys().map(|site| site.projection).collect();
        // If projections are adapted in different layers, `target_modules` has the path of each one.
        let has_paths = pairs.len() < layers.len() * projections.len();
        let targets: Vec<String> = match has_paths {
            true => pairs.keys().map(|site| format!("model.{site}")).collect(),
            false => projections.iter().map(|projection| projection.name().to_string()).collect(),
        };
        let is_whole = layers.len() == self.model.config().layers;
        let some = (!has_paths && !is_whole).then_some(layers);
        let is_integer = self.alpha.fract() == 0.0 && self.alpha.abs() < 1e15;
        let alpha = if is_integer { json!(self.alpha as i64) } else { json!(self.alpha) };
        let config = json!({
            "alpha_pattern": {},
            "base_model_name_or_path": null,
            "bias": "none",
            "fan_in_fan_out": false,
            "inference_mode": true,
            "init_lora_weights": true,
            "layers_to_transform": some,
            "lora_alpha": alpha,
            "lora_dropout": 0.0,
            "modules_to_save": null,
            "peft_type": "LORA",
            "r": self.rank,
            "rank_pattern": {},
            "target_modules": targets,
            "task_type": "CAUSAL_LM",
            "use_dora": false,
            "use_rslora": self.rank_stabilized,
        });
        format!("{config:#}")
    }

    /// Loads an adapter of `peft` for a model, from the bytes of `adapter_config.json` and `adapter_model.safetensors`. The
    /// adapter can be trained further. Numbers become `f32`. `lora_dropout` is not applied.
    ///
    /// # Errors
    /// `Format` if a file is damaged, a setting is invalid, tensors are missing, or a tensor belongs to a layer that is not a
    /// [`Projection`]. `Shape` if a tensor does not fit the model or the rank. `Memory`. `Unsupported`, with the key of the
    /// setting, for adapters that are not plain LoRA (DoRA, biases, `modules_to_save` and others).
    ///
    /// ```no_run
    /// # fn run(model: warpweft::model::LanguageModel) -> Result<(), Box<dyn std::error::Error>> {
    /// use warpweft::model::LoraAdapter;
    ///
    /// let config = std::fs::read("adapter/adapter_config.json")?;
    /// let weights = std::fs::read("adapter/adapter_model.safetensors")?;
    /// let tuned = model.with_adapter(&LoraAdapter::load(&model, &config, &weights)?)?;
    /// # Ok(()) }
    /// ```
    pub fn load(model: &LanguageModel, config: &[u8], weights: &[u8]) -> Result<LoraAdapter> {
        let config = Config::parse(config)?;
        let loaded = load_safetensors(&model.device(), weights)?;
        if let Some((name, skipped)) = loaded.skipped.first_key_value() {
            let message = format!("lora: `{name}` must be of floats, got {}", skipped.dtype);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        // The matrices A and B of each layer.
        let mut found: BTreeMap<Site, [Option<Tensor>; 2]> = BTreeMap::new();
        for (name, tensor) in loaded.tensors {
            let Some((site, matrix)) = place(&name) else {
                let must = "must be `lora_A.weight` or `lora_B.weight` of a projection of a layer";
                return Err(Error::format(format!("lora: tensors {must}, got {}", brief(&name))));
            };
            if !tensor.dtype().is_float() {
                let message = format!("lora: `{name}` must be of floats, got {}", tensor.dtype());
                return Err(Error::dtype(message));
            }
            let tensor = tensor.cast(DType::F32)?;
            if found.entry(site).or_default()[matrix].replace(tensor).is_some() {
                let must = "must be there once, got it under two names";
                return Err(Error::format(format!("lora: `{name}` {must}")));
            }
        }
        if found.is_empty() {
            return Err(Error::format("lora: the file must have tensors, got none"));
        }
        let Config { rank, alpha, rank_stabilized } = config;
        let mut lora = LoraAdapter::empty(model, rank, alpha, rank_stabilized)?;
        let adapter = std::sync::Arc::get_mut(&mut lora.adapter).expect("nothing shares it yet");
        for (site, matrices) in found {
            let [Some(a), Some(b)] = matrices else {
                let missing = if matrices[0].is_none() { "lora_A" } else { "lora_B" };
                let message = format!("lora: the file must have `{missing}` of `{site}`, got none");
                return Err(Error::format(message));
            };
            adapter.add(model.config(), site, &a, &b)?;
            if a.shape()[0] != rank {
                let got = a.shape()[0];
                let message = format!("lora: `{site}` must have rank `r` = {rank}, got {got}");
                return Err(Error::shape(message));
            }
        }
        Ok(lora)
    }
}

/// Returns the layer that a tensor belongs to, and 0 for A or 1 for B.
fn place(name: &str) -> Option<(Site, usize)> {
    let in_layer = |prefix: &&str| split_layer(name.strip_prefix(prefix)?);
    let (layer, rest) = PREFIXES.iter().find_map(in_layer)?;
    let (module, matrix) = match rest.strip_suffix(".lora_A.weight") {
        Some(module) => (module, 0),
        None => (rest.strip_suffix(".lora_B.weight")?, 1),
    };
    Some((Site { layer, projection: Projection::of_module(module)? }, matrix))
}

/// The settings in the config.
struct Config {
    rank: usize,
    alpha: f64,
    rank_stabilized: bool,
}

impl Config {
    fn parse(bytes: &[u8]) -> Result<Config> {
        let config: Map<String, Value> = serde_json::from_slice(bytes).map_err(|error| {
            Error::format(format!("lora: the config must be an object of JSON, got {error}"))
        })?;
        let get = |key: &str| config.get(key).unwrap_or(&Value::Null);
        let wrong = |kind, key: &str, must: &str| {
            let got = brief(format_args!("{}", get(key)));
            Error::new(kind, format!("lora: `{key}` of the config must be {must}, got {got}"))
        };
        if get("peft_type") != "LORA" {
            return Err(wrong(ErrorKind::Unsupported, "peft_type", "\"LORA\""));
        }
        let is_off = |value: &Value| match value {
            Value::Null | Value::Bool(false) => true,
            Value::Array(all) => all.is_empty(),
            Value::Object(all) => all.is_empty(),
            _ => false,
        };
        if let Some(key) = UNSUPPORTED.iter().find(|key| !is_off(get(key))) {
            return Err(wrong(ErrorKind::Unsupported, key, "off"));
        }
        if !get("bias").is_null() && get("bias") != "none" {
            return Err(wrong(ErrorKind::Unsupported, "bias", "\"none\""));
        }
        let key = "init_lora_weights";
        let known = match get(key) {
            Value::Null | Value::Bool(_) => true,
            Value::String(name) => BEGINNINGS.contains(&&name[..]),
            _ => false,
        };
        if !known {
            let must = "one that leaves the weights of the model as they are";
            return Err(wrong(ErrorKind::Unsupported, key, must));
        }
        let rank = get("r").as_u64().and_then(|rank| usize::try_from(rank).ok());
        let rank = rank.filter(|&rank| rank > 0);
        let rank = rank.ok_or_else(|| wrong(ErrorKind::Format, "r", "an integer of at least 1"))?;
        let alpha = get("lora_alpha").as_f64();
        let alpha = alpha.ok_or_else(|| wrong(ErrorKind::Format, "lora_alpha", "a number"))?;
        let rank_stabilized = match get("use_rslora") {
            Value::Null => false,
            value => {
                let must = "true or false";
                value.as_bool().ok_or_else(|| wrong(ErrorKind::Format, "use_rslora", must))?
            }
        };
        Ok(Config { rank, alpha, rank_stabilized })
    }
}
