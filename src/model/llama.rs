//! Llama and the models that are built as it is: Llama 2 and 3, SmolLM2, Mistral (Touvron et al. 2023; Jiang et al. 2023).
//!
//! Each layer adds attention to the tokens before, and a gated feed-forward network, to a stream of vectors, one for each
//! token. Queries and keys are rotated by their position, neighbours in pairs, as files have their weights permuted for.

use super::cache::{KvCache, Pairs, Positions, Rotary};
use super::config::ModelConfig;
use super::weights::{Joint, Weights};
use super::Decoder;
use crate::error::Result;
use crate::io::Source;
use crate::tensor::{PackedTensor, Tensor};

pub struct Llama {
    config: ModelConfig,
    embedding: PackedTensor,
    layers: Vec<Layer>,
    norm: Tensor,
    /// None where the embedding serves both ends.
    output: Option<PackedTensor>,
    rotary: Rotary,
}

struct Layer {
    attention_norm: Tensor,
    /// Of queries, keys and values.
    projections: Joint,
    attention_output: PackedTensor,
    feed_forward_norm: Tensor,
    gate_and_up: Joint,
    down: PackedTensor,
}

/// The angles, and where tokens are.
type Place<'a> = (&'a Rotary, &'a KvCache, &'a Positions);

impl Llama {
    /// Takes the weights from a file, for contexts of so many tokens.
    pub async fn load(
        config: &ModelConfig,
        weights: &mut Weights<'_, impl Source>,
        context: usize,
    ) -> Result<Llama> {
        let &ModelConfig { width, heads, head_size, feed_forward, vocabulary, .. } = config;
        let mut layers = Vec::new();
        for n in 0..config.layers {
            let name = |part: &str| format!("blk.{n}.{part}.weight");
            layers.push(Layer {
                attention_norm: weights.vector(&name("attn_norm"), width).await?,
                projections: weights.projections(n, config).await?,
                attention_output: weights
                    .matrix(&name("attn_output"), [width, heads * head_size])
                    .await?,
                feed_forward_norm: weights.vector(&name("ffn_norm"), width).await?,
                gate_and_up: weights.gate_and_up(n, config).await?,
                down: weights.matrix(&name("ffn_down"), [width, feed_forward]).await?,
            });
        }
        let factors = weights.rope_factors(config.rope_size / 2).await?;
        let factor = |n: usize| factors.as_ref().map_or(1.0, |all| all[n]) * config.rope_scale;
        let size = [context, head_size, config.rope_size];
        let output = match weights.has("output.weight") {
            true => Some(weights.matrix("output.weight", [vocabulary, width]).await?),
            false => None,
        };
        Ok(Llama {
            embedding: weights.matrix("token_embd.weight", [vocabulary, width]).await?,
            layers,
            norm: weights.vector("output_norm.weight", width).await?,
            output,
            rotary: Rotary::new(weights.device, size, config.rope_base, factor, Pairs::Neighbours)?,
            config: config.clone(),
        })
    }

    fn layer(&self, n: usize, x: &Tensor, (rotary, cache, at): Place) -> Result<Tensor> {
        let (layer, config) = (&self.layers[n], &self.config);
        let tokens = x.shape()[0];
        let h = x.rms_norm(-1, Some(&layer.attention_norm), config.epsilon)?;
        let parts = layer.projections.apply(&h)?;
        let heads = |part: &Tensor, count| part.reshape(&[tokens, count, config.head_size]);
        let q = rotary.turn(&heads(&parts[0], config.heads)?)?;
        let k = rotary.turn(&heads(&parts[1], config.kv_heads)?)?;
        let v = heads(&parts[2], config.kv_heads)?;
        let seen = cache.attend(n, [&q, &k, &v], at)?;
        let x = x.add(&layer.attention_output.linear(&seen)?)?;
        let h = x.rms_norm(-1, Some(&layer.feed_forward_norm), config.epsilon)?;
        let parts = layer.gate_and_up.apply(&h)?;
        x.add(&layer.down.linear(&parts[0].silu().mul(&parts[1])?)?)
    }
}

impl Decoder for Llama {
    fn forward(&self, tokens: &Tensor, cache: &KvCache, at: &Positions) -> Result<Tensor> {
        let rotary = self.rotary.of(at)?;
        let mut x = self.embedding.rows(tokens)?;
        for n in 0..self.layers.len() {
            x = self.layer(n, &x, (&rotary, cache, at))?;
        }
        Ok(x)
    }

    fn logits(&self, x: &Tensor) -> Result<Tensor> {
        let h = x.rms_norm(-1, Some(&self.norm), self.config.epsilon)?;
        self.output.as_ref().unwrap_or(&self.embedding).linear(&h)
    }
}
