//! BERT and encoders of the same architecture: MiniLM, E5, BGE, Arctic (Devlin et al. 2019), and XLM-RoBERTa (Conneau et al.
//! 2020). XLM-RoBERTa counts positions from the id of the padding token plus one.
//!
//! Each token of a text has a vector. Each layer adds the result of attention to all tokens of the text, and the result of a
//! feed-forward network. The vectors are normalized after each addition.

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{AttentionOptions, NormOptions, Tensor};
use serde::Deserialize;
use std::collections::BTreeMap;

/// The sizes and constants of an encoder. The fields have the names of Hugging Face's `config.json`.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub struct BertConfig {
    model_type: String,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    #[serde(default = "two")]
    type_vocab_size: usize,
    #[serde(default = "gelu")]
    hidden_act: String,
    #[serde(default = "epsilon")]
    layer_norm_eps: f64,
    pad_token_id: Option<usize>,
    #[serde(default = "absolute")]
    position_embedding_type: String,
    #[serde(default)]
    is_decoder: bool,
}

fn two() -> usize {
    2
}

fn gelu() -> String {
    "gelu".into()
}

fn epsilon() -> f64 {
    1e-12
}

fn absolute() -> String {
    "absolute".into()
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

impl BertConfig {
    /// Reads a `config.json`.
    ///
    /// # Errors
    /// `Format` if a setting is missing or invalid, `Unsupported` for another family or a setting that is not implemented.
    pub fn read(json: &[u8]) -> Result<BertConfig> {
        let wrong = |error| Error::format(format!("embedder: the file must be valid, got {error}"));
        let config: BertConfig = serde_json::from_slice(json).map_err(wrong)?;
        let family = &config.model_type;
        if !["bert", "roberta", "xlm-roberta", "camembert"].contains(&family.as_str()) {
            let families = "`bert`, `roberta`, `xlm-roberta` or `camembert`";
            let message = format!("embedder: the model_type must be {families}, got {family:?}");
            return Err(unsupported(message));
        }
        let position = &config.position_embedding_type;
        if position != "absolute" || config.is_decoder {
            let message = format!(
                "embedder: the model must be an encoder with absolute positions, got {position:?}, is_decoder: {}",
                config.is_decoder
            );
            return Err(unsupported(message));
        }
        Activation::named(&config.hidden_act)?;
        let extents = [
            ("vocab_size", config.vocab_size),
            ("hidden_size", config.hidden_size),
            ("num_attention_heads", config.num_attention_heads),
            ("intermediate_size", config.intermediate_size),
            ("max_position_embeddings", config.max_position_embeddings),
            ("type_vocab_size", config.type_vocab_size),
        ];
        for (name, extent) in extents {
            if !(1..=0xff_ffff).contains(&extent) {
                let must = "must be an integer from 1 to 16777215";
                return Err(Error::format(format!("embedder: {name} {must}, got {extent}")));
            }
        }
        if !config.hidden_size.is_multiple_of(config.num_attention_heads) {
            let (heads, width) = (config.num_attention_heads, config.hidden_size);
            let message = format!(
                "embedder: hidden_size must be a multiple of the {heads} heads, got {width}"
            );
            return Err(Error::format(message));
        }
        if !config.layer_norm_eps.is_finite() || config.layer_norm_eps < 0.0 {
            let message = format!(
                "embedder: layer_norm_eps must be a number from 0 on, got {}",
                config.layer_norm_eps
            );
            return Err(Error::format(message));
        }
        if config.max_tokens() == 0 {
            let (most, first) = (config.max_position_embeddings, config.first_position());
            let message = format!(
                "embedder: max_position_embeddings must be above {first}, where positions begin, got {most}"
            );
            return Err(Error::format(message));
        }
        Ok(config)
    }

    /// Returns the elements of a token's vector.
    pub fn width(&self) -> usize {
        self.hidden_size
    }

    /// Returns the rows of the embedding.
    pub fn vocabulary(&self) -> usize {
        self.vocab_size
    }

    /// Returns the id of the padding token. The default is the one of the family.
    pub fn padding(&self) -> usize {
        self.pad_token_id.unwrap_or(if self.model_type == "bert" { 0 } else { 1 })
    }

    /// Returns the position of the first token.
    fn first_position(&self) -> usize {
        if self.model_type == "bert" {
            0
        } else {
            self.padding() + 1
        }
    }

    /// Returns the most tokens of a text.
    pub fn max_tokens(&self) -> usize {
        self.max_position_embeddings.saturating_sub(self.first_position())
    }
}

/// The nonlinear function between two linear layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    Gelu,
    GeluTanh,
    Identity,
    Relu,
    Silu,
    Tanh,
}

impl Activation {
    /// Finds an activation by its name in Hugging Face's settings or among PyTorch's modules.
    pub fn named(name: &str) -> Result<Activation> {
        match name {
            "gelu" => Ok(Activation::Gelu),
            "gelu_new" | "gelu_pytorch_tanh" | "gelu_fast" => Ok(Activation::GeluTanh),
            "torch.nn.modules.linear.Identity" => Ok(Activation::Identity),
            "relu" | "torch.nn.modules.activation.ReLU" => Ok(Activation::Relu),
            "silu" | "swish" => Ok(Activation::Silu),
            "tanh" | "torch.nn.modules.activation.Tanh" => Ok(Activation::Tanh),
            other => Err(unsupported(format!(
                "embedder: the activation must be gelu, gelu_new, relu, silu or tanh, got {other:?}"
            ))),
        }
    }

    /// Applies the function to each element.
    pub fn of(self, x: &Tensor) -> Tensor {
        match self {
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Identity => x.clone(),
            Activation::Relu => x.relu(),
            Activation::Silu => x.silu(),
            Activation::Tanh => x.tanh(),
        }
    }
}

/// The tensors of a file, which are taken by name.
pub struct Parameters {
    /// The tensors that were not taken yet.
    tensors: BTreeMap<String, Tensor>,
    /// The prefix of all names.
    prefix: String,
}

impl Parameters {
    /// Holds the tensors of a file. Some files have the name of the model in front of all names (`bert.embeddings...`).
    pub fn new(tensors: BTreeMap<String, Tensor>) -> Parameters {
        let last = "embeddings.word_embeddings.weight";
        let found = tensors.keys().find_map(|name| name.strip_suffix(last));
        let prefix = found.unwrap_or_default().to_string();
        Parameters { tensors, prefix }
    }

    /// Takes a tensor with this shape, and casts it to `f32`.
    pub fn take(&mut self, name: &str, shape: &[usize]) -> Result<Tensor> {
        let name = format!("{}{name}", self.prefix);
        // Early files have TensorFlow's names.
        let older = name.replace("LayerNorm.weight", "LayerNorm.gamma");
        let older = older.replace("LayerNorm.bias", "LayerNorm.beta");
        let found = self.tensors.remove(&name).or_else(|| self.tensors.remove(&older));
        let Some(tensor) = found else {
            return Err(Error::format(format!("embedder: {name:?} must be in the file, got none")));
        };
        if tensor.shape() != shape {
            let found = tensor.shape();
            let message = format!("embedder: {name:?} must have shape {shape:?}, got {found:?}");
            return Err(Error::format(message));
        }
        tensor.cast(DType::F32)
    }

    /// Takes the weight and the bias of a linear layer.
    pub fn linear(&mut self, name: &str, shape: [usize; 2], has_bias: bool) -> Result<Linear> {
        let weight = self.take(&format!("{name}.weight"), &shape)?.transpose(0, 1)?;
        let bias = has_bias.then(|| self.take(&format!("{name}.bias"), &shape[..1]));
        Ok(Linear { weight, bias: bias.transpose()? })
    }

    fn norm(&mut self, name: &str, config: &BertConfig) -> Result<Norm> {
        let mut part = |part| self.take(&format!("{name}.{part}"), &[config.hidden_size]);
        Ok(Norm { weight: part("weight")?, bias: part("bias")?, eps: config.layer_norm_eps })
    }
}

/// A linear layer with constant weights.
pub struct Linear {
    /// `[inputs, outputs]`, transposed once. The CPU multiplies few rows with this layout fastest.
    weight: Tensor,
    /// `[outputs]`.
    bias: Option<Tensor>,
}

impl Linear {
    /// Combines several layers of one input into one layer. Its outputs are theirs, one after the other.
    fn joint(layers: &[Linear]) -> Result<Linear> {
        let weights: Vec<&Tensor> = layers.iter().map(|layer| &layer.weight).collect();
        let biases: Vec<&Tensor> = layers.iter().filter_map(|layer| layer.bias.as_ref()).collect();
        Ok(Linear { weight: Tensor::concat(&weights, 1)?, bias: Some(Tensor::concat(&biases, 0)?) })
    }

    /// Computes `[rows, inputs] -> [rows, outputs]`.
    pub fn apply(&self, x: &Tensor) -> Result<Tensor> {
        let product = x.matmul(&self.weight)?;
        match &self.bias {
            Some(bias) => product.add(bias),
            None => Ok(product),
        }
    }
}

struct Norm {
    weight: Tensor,
    bias: Tensor,
    eps: f64,
}

impl Norm {
    fn apply(&self, x: &Tensor) -> Result<Tensor> {
        x.layer_norm(
            -1,
            NormOptions { weight: Some(&self.weight), bias: Some(&self.bias), eps: self.eps },
        )
    }
}

/// An encoder, which computes vectors of a text's tokens.
pub struct Bert {
    config: BertConfig,
    activation: Activation,
    words: Tensor,
    /// The sum of the vectors of the positions and of the first type of text.
    positions: Tensor,
    norm: Norm,
    layers: Vec<Layer>,
}

struct Layer {
    /// The layer that computes queries, keys and values.
    projections: Linear,
    attention_output: Linear,
    attention_norm: Norm,
    up: Linear,
    down: Linear,
    norm: Norm,
}

impl Bert {
    /// Takes the weights of the encoder.
    ///
    /// # Errors
    /// `Format` if a tensor is missing or has another shape.
    pub fn new(config: &BertConfig, weights: &mut Parameters) -> Result<Bert> {
        let (width, hidden) = (config.hidden_size, config.intermediate_size);
        let words = "embeddings.word_embeddings.weight";
        let words = weights.take(words, &[config.vocab_size, width])?;
        let all = [config.max_position_embeddings, width];
        let positions = weights.take("embeddings.position_embeddings.weight", &all)?;
        let types = [config.type_vocab_size, width];
        let types = weights.take("embeddings.token_type_embeddings.weight", &types)?;
        let first = config.first_position() as isize;
        let positions = positions.slice(0, first..)?.add(&types.slice(0, 0..1)?)?;
        let mut layers = Vec::with_capacity(config.num_hidden_layers.min(1024));
        for n in 0..config.num_hidden_layers {
            let name = |part: &str| format!("encoder.layer.{n}.{part}");
            let square = [width, width];
            let projections = ["query", "key", "value"]
                .map(|part| weights.linear(&name(&format!("attention.self.{part}")), square, true));
            let [q, k, v] = projections;
            layers.push(Layer {
                projections: Linear::joint(&[q?, k?, v?])?,
                attention_output: weights.linear(&name("attention.output.dense"), square, true)?,
                attention_norm: weights.norm(&name("attention.output.LayerNorm"), config)?,
                up: weights.linear(&name("intermediate.dense"), [hidden, width], true)?,
                down: weights.linear(&name("output.dense"), [width, hidden], true)?,
                norm: weights.norm(&name("output.LayerNorm"), config)?,
            });
        }
        let norm = weights.norm("embeddings.LayerNorm", config)?;
        let activation = Activation::named(&config.hidden_act)?;
        Ok(Bert { config: config.clone(), activation, words, positions, norm, layers })
    }

    /// Computes the vectors of the tokens of some texts, `[texts, tokens, width]`. `ids` and `is_there` have the shape
    /// `[texts, tokens]`. `is_there` is false for padding.
    pub fn forward(&self, ids: &Tensor, is_there: &Tensor) -> Result<Tensor> {
        let &[texts, tokens] = ids.shape() else { unreachable!("ids have two axes") };
        let width = self.config.hidden_size;
        let words = self.words.index_select(0, &ids.reshape(&[texts * tokens])?)?;
        let positions = self.positions.slice(0, ..tokens as isize)?;
        let x = words.reshape(&[texts, tokens, width])?.add(&positions)?;
        let mut x = self.norm.apply(&x.reshape(&[texts * tokens, width])?)?;
        let seen = is_there.reshape(&[texts, 1, 1, tokens])?;
        for layer in &self.layers {
            let attention = self.attend(&layer.projections.apply(&x)?, &seen)?;
            let attention = layer.attention_output.apply(&attention)?;
            x = layer.attention_norm.apply(&x.add(&attention)?)?;
            let hidden = self.activation.of(&layer.up.apply(&x)?);
            x = layer.norm.apply(&x.add(&layer.down.apply(&hidden)?)?)?;
        }
        x.reshape(&[texts, tokens, width])
    }

    /// Computes attention from queries, keys and values, `[texts * tokens, 3 * width] -> [texts * tokens, width]`.
    fn attend(&self, projections: &Tensor, seen: &Tensor) -> Result<Tensor> {
        let (texts, tokens) = (seen.shape()[0], seen.shape()[3]);
        let (heads, width) = (self.config.num_attention_heads, self.config.hidden_size);
        let parts = projections.reshape(&[texts, tokens, 3, heads, width / heads])?;
        let part = |n: isize| parts.select(2, n)?.transpose(1, 2);
        let options = AttentionOptions { attn_mask: Some(seen), ..AttentionOptions::default() };
        let seen = part(0)?.attention(&part(1)?, &part(2)?, options)?;
        seen.transpose(1, 2)?.reshape(&[texts * tokens, width])
    }
}
