//! The sizes and constants of a model, read from GGUF metadata.

use crate::error::{Error, ErrorKind, Result};
use crate::io::Gguf;

/// The metadata key for the storage of weights. Only heads that describe Hugging Face's files have the key.
pub(super) const LAYOUT: &str = "warpweft.weight_layout";

/// The storage of the weights of some tensors. Converters to GGUF change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum WeightLayout {
    /// The storage in GGUF files. The rows of Llama's queries and keys are reordered, so that elements that the rotary
    /// embedding rotates together are neighbors. The weights of Gemma's norms are factors.
    #[default]
    Gguf,
    /// The storage in Hugging Face's library. Elements that are rotated together are half a head apart. The weights of
    /// Gemma's norms are differences from 1.
    HuggingFace,
}

impl WeightLayout {
    /// The value of [`LAYOUT`] for [`WeightLayout::HuggingFace`].
    pub(super) const HUGGING_FACE: &str = "huggingface";
}

/// The sizes and constants of a decoder-only transformer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The name of the family, such as `llama` (`general.architecture`).
    pub architecture: String,
    /// The number of layers (`block_count`).
    pub layers: usize,
    /// The number of elements of a token's vector (`embedding_length`).
    pub width: usize,
    /// The number of heads of queries (`attention.head_count`).
    pub heads: usize,
    /// The number of heads of keys and values. Each serves several heads of queries (`attention.head_count_kv`, by default
    /// `heads`).
    pub kv_heads: usize,
    /// The number of elements of a head (`attention.key_length`, by default `width / heads`).
    pub head_size: usize,
    /// The number of elements of the feed-forward network's hidden layer (`feed_forward_length`).
    pub feed_forward: usize,
    /// The number of tokens of the vocabulary, which are the rows of the embedding.
    pub vocabulary: usize,
    /// The number of tokens that the model was trained for (`context_length`).
    pub context: usize,
    /// The term that root-mean-square norms add to the mean (`attention.layer_norm_rms_epsilon`, by default 1e-5).
    pub epsilon: f64,
    /// The base of the rotary embedding's angles (`rope.freq_base`, by default 10,000).
    pub rope_base: f64,
    /// The number of elements of a head that are rotated (`rope.dimension_count`, by default all).
    pub rope_size: usize,
    /// The divisor of positions (`rope.scaling.factor` if `rope.scaling.type` is `linear`, by default 1).
    pub rope_scale: f64,
    /// The number of tokens that layers with a window see (`attention.sliding_window`). By default no layer has a window.
    pub window: Option<usize>,
    /// If n, each n-th layer has no window (`attention.sliding_window_pattern`, 6 for Gemma 3). By default all layers have
    /// one.
    pub window_pattern: Option<usize>,
    /// The base of the angles in layers with a window (`rope.freq_base_swa`, by default 10,000).
    pub window_rope_base: f64,
    /// The storage of the weights.
    pub layout: WeightLayout,
}

/// The metadata of one family.
struct Facts<'a> {
    file: &'a Gguf,
    architecture: &'a str,
}

impl Facts<'_> {
    fn wrong(&self, name: &str, must: &str, got: &str) -> Error {
        // The settings of a folder have other names in its file, but the values are the same.
        let file = if self.file.metadata.contains_key(LAYOUT) { "config.json: " } else { "" };
        Error::format(format!("model: {file}`{}.{name}` {must}, got {got}", self.architecture))
    }

    fn extent(&self, name: &str) -> Result<Option<usize>> {
        let Some(value) = self.file.metadata.get(&format!("{}.{name}", self.architecture)) else {
            return Ok(None);
        };
        match value.as_u64() {
            // With this limit, sums and products of a few extents do not overflow.
            Some(extent @ 1..=0xff_ffff) => Ok(Some(extent as usize)),
            other => {
                let got = other.map_or("no integer".into(), |extent| extent.to_string());
                Err(self.wrong(name, "must be an integer from 1 to 16777215", &got))
            }
        }
    }

    fn needed(&self, name: &str) -> Result<usize> {
        let missing = || self.wrong(name, "must be in the file", "none");
        self.extent(name)?.ok_or_else(missing)
    }

    /// Rejects files of Gemma 3 that need other formulas.
    fn check_gemma3(&self, layers: usize) -> Result<()> {
        let unsupported = |message: String| Err(Error::new(ErrorKind::Unsupported, message));
        for name in ["final_logit_softcapping", "attn_logit_softcapping"] {
            let value = self.file.metadata.get(&format!("gemma3.{name}"));
            if value.is_some_and(|value| value.as_f64() != Some(0.0)) {
                return unsupported(format!("model: `gemma3.{name}` must be absent, got a value"));
            }
        }
        if self.file.tensors.contains_key("output.weight") {
            return unsupported(
                "model: gemma3 must use its embedding for its output, got \"output.weight\"".into(),
            );
        }
        // Gemma 3 27B divides scores by another number than the square root of the elements of a head. Files do not have it.
        if layers == 62 {
            return unsupported("model: gemma3 must have fewer than 62 layers, got 27B".into());
        }
        Ok(())
    }

    /// Returns the factor of linear scaling. Files of 2023 have the older key. As in llama.cpp, 0 means that there is none.
    fn rope_scale(&self) -> Result<f64> {
        for name in ["rope.scaling.factor", "rope.scale_linear"] {
            let value = self.file.metadata.get(&format!("{}.{name}", self.architecture));
            if value.is_some_and(|value| value.as_f64() != Some(0.0)) {
                return self.number(name, 1.0);
            }
        }
        Ok(1.0)
    }

    fn number(&self, name: &str, usual: f64) -> Result<f64> {
        match self.file.metadata.get(&format!("{}.{name}", self.architecture)) {
            None => Ok(usual),
            Some(value) => match value.as_f64().filter(|value| value.is_finite() && *value > 0.0) {
                Some(number) => Ok(number),
                None => Err(self.wrong(name, "must be a number above 0", "another value")),
            },
        }
    }
}

impl ModelConfig {
    /// Reads the configuration from the metadata of a file.
    ///
    /// # Errors
    /// `Format` if a value is missing or invalid. `Unsupported` for other scalings of the rotary embedding than `linear` and
    /// Llama 3's `rope_freqs`.
    pub fn read(file: &Gguf) -> Result<ModelConfig> {
        let architecture = file.metadata.get("general.architecture").and_then(|v| v.as_str());
        let Some(architecture) = architecture else {
            return Err(Error::format(
                "model: `general.architecture` must be in the file, got none",
            ));
        };
        let facts = Facts { file, architecture };
        let (width, heads) =
            (facts.needed("embedding_length")?, facts.needed("attention.head_count")?);
        let kv_heads = facts.extent("attention.head_count_kv")?.unwrap_or(heads);
        let head_size = facts.extent("attention.key_length")?.unwrap_or(width / heads);
        let rope_size = facts.extent("rope.dimension_count")?.unwrap_or(head_size);
        if !heads.is_multiple_of(kv_heads) {
            let must = format!("must divide the {heads} heads");
            return Err(facts.wrong("attention.head_count_kv", &must, &kv_heads.to_string()));
        }
        if head_size == 0 || !rope_size.is_multiple_of(2) || rope_size > head_size {
            let must = format!("must be even and at most the {head_size} elements of a head");
            return Err(facts.wrong("rope.dimension_count", &must, &rope_size.to_string()));
        }
        if facts.extent("attention.value_length")?.is_some_and(|size| size != head_size) {
            let must = format!("must be the {head_size} elements of a key");
            return Err(facts.wrong("attention.value_length", &must, "another number"));
        }
        let embedding = file.tensors.get("token_embd.weight");
        let Some(&[vocabulary, columns]) = embedding.map(|embedding| &embedding.shape[..]) else {
            let must = "must be in the file and a matrix";
            return Err(Error::format(format!("model: `token_embd.weight` {must}, got another")));
        };
        if columns != width {
            let must = "must have a column for each of the elements of `embedding_length`";
            return Err(Error::format(format!(
                "model: `token_embd.weight` {must}, {width}, got {columns}"
            )));
        }
        let scaling = file.metadata.get(&format!("{architecture}.rope.scaling.type"));
        let rope_scale = match scaling.map(|kind| kind.as_str().unwrap_or("another type")) {
            Some("none") => 1.0,
            None | Some("linear") => facts.rope_scale()?,
            Some(other) => {
                let must = "must be `none` or `linear`";
                let message =
                    format!("model: `{architecture}.rope.scaling.type` {must}, got {other:?}");
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        let layout = match file.metadata.get(LAYOUT).and_then(|layout| layout.as_str()) {
            Some(WeightLayout::HUGGING_FACE) => WeightLayout::HuggingFace,
            _ => WeightLayout::Gguf,
        };
        let is_gemma = architecture == "gemma3";
        // Most files of Gemma 3 do not have the pattern.
        let pattern = is_gemma.then_some(6);
        let layers = facts.needed("block_count")?;
        if is_gemma {
            facts.check_gemma3(layers)?;
        }
        Ok(ModelConfig {
            architecture: architecture.to_string(),
            layers,
            width,
            heads,
            kv_heads,
            head_size,
            feed_forward: facts.needed("feed_forward_length")?,
            vocabulary,
            context: facts.needed("context_length")?,
            epsilon: facts.number("attention.layer_norm_rms_epsilon", 1e-5)?,
            rope_base: facts.number("rope.freq_base", if is_gemma { 1e6 } else { 1e4 })?,
            rope_size,
            rope_scale,
            window: facts.extent("attention.sliding_window")?,
            window_pattern: facts.extent("attention.sliding_window_pattern")?.or(pattern),
            window_rope_base: facts.number("rope.freq_base_swa", 10_000.0)?,
            layout,
        })
    }

    /// Returns the number of tokens that a layer sees, or `None` if the layer has no window and sees all.
    pub fn layer_window(&self, layer: usize) -> Option<usize> {
        let sees_all = self.window_pattern.is_some_and(|every| (layer + 1).is_multiple_of(every));
        self.window.filter(|_| !sees_all)
    }
}
