//! What a file says of a model: extents and constants, by the names that GGUF has for them.

use crate::error::{Error, ErrorKind, Result};
use crate::io::Gguf;

/// The metadata key that says how weights are stored. Only heads that were made of Hugging Face's files have it.
pub(super) const LAYOUT: &str = "warpweft.weight_layout";

/// How the weights of some tensors are stored. Converters to GGUF change them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WeightLayout {
    /// As GGUF files have them. The rows of Llama's queries and keys are in an order in which elements that the rotary
    /// embedding rotates together are neighbors. The weights of Gemma's norms are factors.
    #[default]
    Gguf,
    /// As Hugging Face's library has them. Elements that are rotated together are half a head apart. The weights of Gemma's
    /// norms are differences from 1.
    HuggingFace,
}

impl WeightLayout {
    /// The value of [`LAYOUT`] for [`WeightLayout::HuggingFace`].
    pub(super) const HUGGING_FACE: &str = "huggingface";
}

/// The extents and constants of a decoder-only transformer.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ModelConfig {
    /// The name of the family, such as `llama` (`general.architecture`).
    pub architecture: String,
    /// Layers (`block_count`).
    pub layers: usize,
    /// Elements of a token's vector (`embedding_length`).
    pub width: usize,
    /// Heads of queries (`attention.head_count`).
    pub heads: usize,
    /// Heads of keys and values, each of which serves several heads of queries (`attention.head_count_kv`; `heads` by default).
    pub kv_heads: usize,
    /// Elements of a head (`attention.key_length`; `width / heads` by default).
    pub head_size: usize,
    /// Elements of the hidden layer of the feed-forward network (`feed_forward_length`).
    pub feed_forward: usize,
    /// Tokens of the vocabulary: rows of the embedding.
    pub vocabulary: usize,
    /// Tokens that the model was trained for (`context_length`).
    pub context: usize,
    /// What root-mean-square norms add to the mean (`attention.layer_norm_rms_epsilon`; 1e-5 by default).
    pub epsilon: f64,
    /// The base of the rotary embedding's angles (`rope.freq_base`; 10,000 by default).
    pub rope_base: f64,
    /// How many elements of a head are rotated (`rope.dimension_count`; all by default).
    pub rope_size: usize,
    /// What positions are divided by (`rope.scaling.factor` where `rope.scaling.type` is `linear`; 1 by default).
    pub rope_scale: f64,
    /// How many tokens layers with a window see (`attention.sliding_window`); no layer has one by default.
    pub window: Option<usize>,
    /// If n, each n-th layer has no window (`attention.sliding_window_pattern`; 6 for Gemma 3). By default all layers have
    /// one.
    pub window_pattern: Option<usize>,
    /// The base of the angles in layers with a window (10,000 by default; GGUF files do not say).
    pub window_rope_base: f64,
    /// How the weights are stored.
    pub layout: WeightLayout,
}

/// Metadata of one family.
struct Facts<'a> {
    file: &'a Gguf,
    architecture: &'a str,
}

impl Facts<'_> {
    fn wrong(&self, name: &str, must: &str, got: &str) -> Error {
        Error::data(format!("model: `{}.{name}` {must}, got {got}", self.architecture))
    }

    fn extent(&self, name: &str) -> Result<Option<usize>> {
        let Some(value) = self.file.metadata.get(&format!("{}.{name}", self.architecture)) else {
            return Ok(None);
        };
        match value.as_u64() {
            // Sums and products of such extents are far from overflowing.
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
    /// Reads it from the metadata of a file.
    ///
    /// # Errors
    /// `Data` if something is missing, or does not fit; `Unsupported` for ways to scale the rotary embedding that are not
    /// known (all but `linear`, and `rope_freqs` of Llama 3).
    pub fn read(file: &Gguf) -> Result<ModelConfig> {
        let architecture = file.metadata.get("general.architecture").and_then(|v| v.as_str());
        let Some(architecture) = architecture else {
            return Err(Error::data("model: `general.architecture` must be in the file, got none"));
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
            return Err(Error::data(format!("model: `token_embd.weight` {must}, got another")));
        };
        if columns != width {
            let must = "must have a column for each of the elements of `embedding_length`";
            return Err(Error::data(format!(
                "model: `token_embd.weight` {must}, {width}, got {columns}"
            )));
        }
        let scaling = file.metadata.get(&format!("{architecture}.rope.scaling.type"));
        let rope_scale = match scaling.map(|kind| kind.as_str().unwrap_or("another type")) {
            None | Some("none") => 1.0,
            Some("linear") => facts.number("rope.scaling.factor", 1.0)?,
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
        // Most files of Gemma 3 do not say.
        let pattern = (architecture == "gemma3").then_some(6);
        Ok(ModelConfig {
            architecture: architecture.to_string(),
            layers: facts.needed("block_count")?,
            width,
            heads,
            kv_heads,
            head_size,
            feed_forward: facts.needed("feed_forward_length")?,
            vocabulary,
            context: facts.needed("context_length")?,
            epsilon: facts.number("attention.layer_norm_rms_epsilon", 1e-5)?,
            rope_base: facts.number("rope.freq_base", 10_000.0)?,
            rope_size,
            rope_scale,
            window: facts.extent("attention.sliding_window")?,
            window_pattern: facts.extent("attention.sliding_window_pattern")?.or(pattern),
            window_rope_base: facts.number("rope.freq_base_swa", 10_000.0)?,
            layout,
        })
    }

    /// How many tokens a layer sees; all if it has no window.
    pub fn layer_window(&self, layer: usize) -> Option<usize> {
        let sees_all = self.window_pattern.is_some_and(|every| (layer + 1).is_multiple_of(every));
        self.window.filter(|_| !sees_all)
    }
}
