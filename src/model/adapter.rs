//! Low-rank adapters (LoRA, Hu et al. 2021). An adapter has two narrow matrices, A and B, for some linear layers of a model.
//! A layer with weights `W` and an adapter computes `x W^T + scale x A^T B^T`. The weights stay packed.

use super::config::{ModelConfig, WeightLayout};
use crate::error::{Error, Result};
use crate::tensor::{Tensor, Variable};
use std::collections::BTreeMap;
use std::fmt;

/// A linear layer inside each layer of a model. An adapter can change its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Projection {
    /// `q_proj`: the queries of attention.
    Query,
    /// `k_proj`: the keys of attention.
    Key,
    /// `v_proj`: the values of attention.
    Value,
    /// `o_proj`: the output of attention, from the heads back to the width of the model.
    Output,
    /// `gate_proj`: the gate of the feed-forward network.
    Gate,
    /// `up_proj`: the factor that the gate is multiplied with, in the hidden layer of the feed-forward network.
    Up,
    /// `down_proj`: the output of the feed-forward network, from its hidden layer back to the width of the model.
    Down,
}

impl Projection {
    /// All projections, in the order of a layer.
    pub const ALL: [Projection; 7] = [
        Projection::Query,
        Projection::Key,
        Projection::Value,
        Projection::Output,
        Projection::Gate,
        Projection::Up,
        Projection::Down,
    ];

    /// The name in Hugging Face's libraries, such as `q_proj`.
    ///
    /// ```
    /// use warpweft::model::Projection;
    ///
    /// assert_eq!(Projection::Down.name(), "down_proj");
    /// ```
    pub fn name(self) -> &'static str {
        self.names().0
    }

    /// Returns three names: the one in Hugging Face's libraries, the one of their module around it, and the one in GGUF
    /// files.
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Projection::Query => ("q_proj", "self_attn", "attn_q"),
            Projection::Key => ("k_proj", "self_attn", "attn_k"),
            Projection::Value => ("v_proj", "self_attn", "attn_v"),
            Projection::Output => ("o_proj", "self_attn", "attn_output"),
            Projection::Gate => ("gate_proj", "mlp", "ffn_gate"),
            Projection::Up => ("up_proj", "mlp", "ffn_up"),
            Projection::Down => ("down_proj", "mlp", "ffn_down"),
        }
    }

    /// Returns the projection of a Hugging Face module inside a layer, such as `self_attn.q_proj`.
    pub(super) fn of_module(path: &str) -> Option<Projection> {
        let (module, name) = path.split_once('.')?;
        let is_it = |projection: &Projection| {
            let names = projection.names();
            (names.1, names.0) == (module, name)
        };
        Projection::ALL.into_iter().find(is_it)
    }

    /// Returns the shape of the weights, `[outputs, inputs]`.
    pub(super) fn shape(self, config: &ModelConfig) -> [usize; 2] {
        let [queries, keys] = [config.heads, config.kv_heads].map(|n| n * config.head_size);
        match self {
            Projection::Query => [queries, config.width],
            Projection::Key | Projection::Value => [keys, config.width],
            Projection::Output => [config.width, queries],
            Projection::Gate | Projection::Up => [config.feed_forward, config.width],
            Projection::Down => [config.width, config.feed_forward],
        }
    }

    /// Returns the number of heads if a GGUF file has the outputs in another order than Hugging Face's libraries. Only
    /// Llama's queries and keys differ. Elements `n` and `n + size / 2` of a head are rotated together. In the file they are
    /// neighbors.
    fn permuted_heads(self, config: &ModelConfig) -> Option<usize> {
        match (&config.architecture[..], config.layout, self) {
            ("llama", WeightLayout::Gguf, Projection::Query) => Some(config.heads),
            ("llama", WeightLayout::Gguf, Projection::Key) => Some(config.kv_heads),
            _ => None,
        }
    }
}

/// A projection of one layer of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Site {
    pub layer: usize,
    pub projection: Projection,
}

impl Site {
    /// Returns the name of the weights in a GGUF file.
    pub fn in_gguf(self) -> String {
        format!("blk.{}.{}.weight", self.layer, self.projection.names().2)
    }
}

/// Splits a path inside a decoder in Hugging Face's libraries, such as `layers.0.self_attn.q_proj`. Returns the number of the
/// layer and the rest.
pub fn split_layer(path: &str) -> Option<(usize, &str)> {
    let (layer, rest) = path.strip_prefix("layers.")?.split_once('.')?;
    // Only digits, because `parse` would also accept a sign.
    let layer = layer.bytes().all(|c| c.is_ascii_digit()).then(|| layer.parse().ok())??;
    Some((layer, rest))
}

/// Writes the path of Hugging Face's module, such as `layers.0.self_attn.q_proj`.
impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let (name, module, _) = self.projection.names();
        write!(f, "layers.{}.{module}.{name}", self.layer)
    }
}

/// The two matrices of an adapted layer.
pub struct LowRank {
    /// A: `[rank, inputs]`.
    pub a: Variable,
    /// B: `[outputs, rank]`, with its rows in Hugging Face's order.
    pub b: Variable,
    /// The number of heads of the outputs, if the model has the outputs in another order.
    permuted_heads: Option<usize>,
}

/// An adapter: the matrices of all adapted layers.
pub struct Adapter {
    pub pairs: BTreeMap<Site, LowRank>,
    /// The factor of every product.
    pub scale: f64,
}

impl Adapter {
    /// Creates an adapter without layers.
    pub fn new(scale: f64) -> Adapter {
        Adapter { pairs: BTreeMap::new(), scale }
    }

    /// Adds the matrices of a layer.
    ///
    /// # Errors
    /// `Format` if the model does not have the layer, `Shape` if the matrices do not fit.
    pub fn add(&mut self, config: &ModelConfig, site: Site, a: &Tensor, b: &Tensor) -> Result<()> {
        if site.layer >= config.layers {
            let (layer, layers) = (site.layer, config.layers);
            let must = format!("the model must have layer {layer} of `{site}`");
            return Err(Error::format(format!("lora: {must}, got {layers} layers")));
        }
        let [outputs, inputs] = site.projection.shape(config);
        let rank = a.shape().first().copied().unwrap_or(0);
        if rank == 0 {
            let got = a.shape();
            return Err(Error::shape(format!("lora: A of `{site}` must have rows, got {got:?}")));
        }
        for (name, matrix, must) in [("A", a, [rank, inputs]), ("B", b, [outputs, rank])] {
            if matrix.shape() != must {
                let got = matrix.shape();
                let message =
                    format!("lora: {name} of `{site}` must have shape {must:?}, got {got:?}");
                return Err(Error::shape(message));
            }
        }
        let permuted_heads = site.projection.permuted_heads(config);
        let pair = LowRank { a: Variable::new(a), b: Variable::new(b), permuted_heads };
        self.pairs.insert(site, pair);
        Ok(())
    }

    /// Returns the change that the adapter adds to the outputs of a layer for the inputs `x [tokens, inputs]`. Returns `None`
    /// if the adapter does not have the layer.
    pub fn change(&self, site: Site, x: &Tensor) -> Result<Option<Tensor>> {
        let Some(pair) = self.pairs.get(&site) else { return Ok(None) };
        let narrow = x.matmul(&pair.a.value().transpose(0, 1)?)?;
        let change = narrow.matmul(&pair.b.value().transpose(0, 1)?)?.mul(self.scale)?;
        let Some(heads) = pair.permuted_heads else { return Ok(Some(change)) };
        let &[tokens, outputs] = change.shape() else { unreachable!("a row for each token") };
        let halves = change.reshape(&[tokens, heads, 2, outputs / heads / 2])?;
        halves.transpose(2, 3)?.reshape(&[tokens, outputs]).map(Some)
    }
}
