//! Llama and models of the same architecture: Llama 2 and 3, SmolLM2, Mistral (Touvron et al. 2023; Jiang et al. 2023).
//!
//! Each token has a vector. Each layer adds the result of attention to the token and earlier ones, and the result of a gated
//! feed-forward network. Queries and keys are rotated by their position, in pairs of elements that `WeightLayout` explains.

use super::adapter::Projection::{Down, Gate, Key, Output, Query, Up, Value};
use super::cache::{Pairs, Rotary};
use super::config::{ModelConfig, WeightLayout};
use super::pass::Pass;
use super::weights::{Joint, Weights};
use super::Decoder;
use crate::error::Result;
use crate::io::Source;
use crate::tensor::{PackedTensor, RmsNormOptions, Tensor};

pub struct Llama {
    config: ModelConfig,
    embedding: PackedTensor,
    layers: Vec<Layer>,
    norm: Tensor,
    /// The output matrix, or `None` if the embedding is also the output matrix.
    output: Option<PackedTensor>,
    rotary: Rotary,
}

struct Layer {
    attention_norm: Tensor,
    /// The projections to queries, keys and values.
    projections: Joint<3>,
    attention_output: Joint<1>,
    feed_forward_norm: Tensor,
    gate_and_up: Joint<2>,
    down: Joint<1>,
}

/// The angles, and the pass of the tokens.
type Place<'a> = (&'a Rotary, &'a Pass<'a>);

impl Llama {
    /// Takes the weights from a file, for contexts of up to `context` tokens.
    pub async fn load(
        config: &ModelConfig,
        weights: &mut Weights<'_, impl Source>,
        context: usize,
    ) -> Result<Llama> {
        let &ModelConfig { width, head_size, vocabulary, .. } = config;
        let mut layers = Vec::new();
        for n in 0..config.layers {
            let name = |part: &str| format!("blk.{n}.{part}.weight");
            layers.push(Layer {
                attention_norm: weights.norm(&name("attn_norm"), width).await?,
                projections: weights.joint(n, [Query, Key, Value], config).await?,
                attention_output: weights.joint(n, [Output], config).await?,
                feed_forward_norm: weights.norm(&name("ffn_norm"), width).await?,
                gate_and_up: weights.joint(n, [Gate, Up], config).await?,
                down: weights.joint(n, [Down], config).await?,
            });
        }
        let factors = weights.rope_factors(config.rope_size / 2).await?;
        let factor = |n: usize| factors.as_ref().map_or(1.0, |all| all[n]) * config.rope_scale;
        let size = [context, head_size, config.rope_size];
        let pairs = match config.layout {
            WeightLayout::Gguf => Pairs::Neighbours,
            WeightLayout::HuggingFace => Pairs::Halves,
        };
        let output = match weights.has("output.weight") {
            true => Some(weights.matrix("output.weight", [vocabulary, width]).await?),
            false => None,
        };
        Ok(Llama {
            embedding: weights.matrix("token_embd.weight", [vocabulary, width]).await?,
            layers,
            norm: weights.norm("output_norm.weight", width).await?,
            output,
            rotary: Rotary::new(weights.device, size, config.rope_base, factor, pairs)?,
            config: config.clone(),
        })
    }

    fn layer(&self, n: usize, x: &Tensor, (rotary, pass): Place) -> Result<Tensor> {
        let (layer, config) = (&self.layers[n], &self.config);
        let tokens = x.shape()[0];
        let h = x.rms_norm(
            -1,
            RmsNormOptions { weight: Some(&layer.attention_norm), eps: config.epsilon },
        )?;
        let [q, k, v] = layer.projections.apply(&h, pass)?;
        let heads = |part: &Tensor, count| part.reshape(&[tokens, count, config.head_size]);
        let q = rotary.turn(&heads(&q, config.heads)?)?;
        let k = rotary.turn(&heads(&k, config.kv_heads)?)?;
        let v = heads(&v, config.kv_heads)?;
        let [seen] = layer.attention_output.apply(&pass.attend(n, [&q, &k, &v])?, pass)?;
        let x = x.add(&seen)?;
        let h = x.rms_norm(
            -1,
            RmsNormOptions { weight: Some(&layer.feed_forward_norm), eps: config.epsilon },
        )?;
        let [gate, up] = layer.gate_and_up.apply(&h, pass)?;
        let [hidden] = layer.down.apply(&gate.silu().mul(&up)?, pass)?;
        x.add(&hidden)
    }
}

impl Decoder for Llama {
    fn forward(&self, tokens: &Tensor, pass: &Pass) -> Result<Tensor> {
        let rotary = pass.rotary(&self.rotary, tokens.numel())?;
        let mut x = self.embedding.rows(tokens)?;
        for n in 0..self.layers.len() {
            x = pass.layer(&x, |x| self.layer(n, x, (&rotary, pass)))?;
        }
        Ok(x)
    }

    fn logits(&self, x: &Tensor) -> Result<Tensor> {
        let h =
            x.rms_norm(-1, RmsNormOptions { weight: Some(&self.norm), eps: self.config.epsilon })?;
        self.output.as_ref().unwrap_or(&self.embedding).linear(&h)
    }
}
