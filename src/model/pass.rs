//! One pass of tokens through a decoder: the keys and values that they attend to, their positions, and an adapter.

use super::adapter::Adapter;
use super::cache::{across, KvCache, Positions, Rotary};
use super::config::ModelConfig;
use crate::error::Result;
use crate::tensor::{AttentionOptions, Tensor};

/// The attention state and the adapter of some tokens that pass through a decoder.
pub struct Pass<'a> {
    keys: Keys<'a>,
    pub adapter: Option<&'a Adapter>,
}

/// The keys and values that tokens attend to.
enum Keys<'a> {
    /// The keys and values of a context, which the tokens are added to.
    Cache(&'a KvCache, &'a Positions),
    /// The keys and values of the tokens themselves. The tokens are lists of one length, each beginning at position 0.
    Own { lists: usize, config: &'a ModelConfig },
}

impl<'a> Pass<'a> {
    /// Creates the pass of tokens that follow those in a cache. Their keys and values are written into the cache.
    pub fn cached(cache: &'a KvCache, at: &'a Positions, adapter: Option<&'a Adapter>) -> Self {
        Pass { keys: Keys::Cache(cache, at), adapter }
    }

    /// Creates the pass of whole lists of tokens, concatenated and all of one length. Gradients can pass.
    pub fn whole(lists: usize, config: &'a ModelConfig, adapter: &'a Adapter) -> Self {
        Pass { keys: Keys::Own { lists, config }, adapter: Some(adapter) }
    }

    /// Returns the rotary embedding at the positions of the tokens.
    pub fn rotary(&self, all: &Rotary, tokens: usize) -> Result<Rotary> {
        match self.keys {
            Keys::Cache(_, at) => all.of(at),
            Keys::Own { lists, .. } => all.of_lists(lists, tokens / lists),
        }
    }

    /// Computes the result of a layer for `x`. Passes with gradients recompute the layer for them. So only the values of one
    /// layer must be in memory at a time.
    pub fn layer(
        &self,
        x: &Tensor,
        work: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        match self.keys {
            Keys::Cache(..) => work(x),
            Keys::Own { .. } => x.checkpoint(work),
        }
    }

    /// Computes attention of the tokens to themselves and to earlier ones. `q` is `[tokens, heads, size]`. `k` and `v` are
    /// `[tokens, kv heads, size]`. The result is `[tokens, heads * size]`.
    pub fn attend(&self, layer: usize, [q, k, v]: [&Tensor; 3]) -> Result<Tensor> {
        let (lists, config) = match self.keys {
            Keys::Cache(cache, at) => return cache.attend(layer, [q, k, v], at),
            Keys::Own { lists, config } => (lists, config),
        };
        let (tokens, heads, size) = (q.shape()[0], q.shape()[1], q.shape()[2]);
        let window = config.layer_window(layer);
        let options = AttentionOptions { is_causal: true, window, ..AttentionOptions::default() };
        let [q, k, v] = [across(q, lists)?, across(k, lists)?, across(v, lists)?];
        let seen = q.attention(&k, &v, options)?;
        seen.transpose(1, 2)?.reshape(&[tokens, heads * size])
    }
}
