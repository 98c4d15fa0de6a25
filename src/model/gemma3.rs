//! Gemma 3 (Gemma Team 2025). Five of six layers have a window, and their rotary embedding has another base. Queries and keys
//! are normalized for each head. The outputs of attention and of the feed-forward network are normalized, too.

use super::adapter::Projection::{Down, Gate, Key, Output, Query, Up, Value};
use super::cache::{Pairs, Rotary};
use super::config::ModelConfig;
use super::pass::Pass;
use super::weights::{Joint, Weights};
use super::Decoder;
use crate::error::Result;
use crate::io::Source;
use crate::tensor::{PackedTensor, RmsNormOptions, Tensor};

pub struct Gemma3 {
    config: ModelConfig,
    /// The embedding, which is also the output matrix.
    embedding: PackedTensor,
    layers: Vec<Layer>,
    norm: Tensor,
    /// The rotary embedding of windowed layers, and the one of the other layers.
    rotary: [Rotary; 2],
}

struct Layer {
    attention_norm: Tensor,
    /// The projections to queries, keys and values.
    projections: Joint<3>,
    query_norm: Tensor,
    key_norm: Tensor,
    attention_output: Joint<1>,
    after_attention_norm: Tensor,
    feed_forward_norm: Tensor,
    gate_and_up: Joint<2>,
    down: Joint<1>,
    after_feed_forward_norm: Tensor,
}

/// The angles of both kinds of layers, and the pass of the tokens.
type Place<'a> = (&'a [Rotary; 2], &'a Pass<'a>);

impl Gemma3 {
    /// Takes the weights from a file, for contexts of up to `context` tokens.
    pub async fn load(
        config: &ModelConfig,
        weights: &mut Weights<'_, impl Source>,
        context: usize,
    ) -> Result<Gemma3> {
        let &ModelConfig { width, head_size, vocabulary, .. } = config;
        let mut layers = Vec::new();
        for n in 0..config.layers {
            let name = |part: &str| format!("blk.{n}.{part}.weight");
            layers.push(Layer {
                attention_norm: weights.norm(&name("attn_norm"), width).await?,
                projections: weights.joint(n, [Query, Key, Value], config).await?,
                query_norm: weights.norm(&name("attn_q_norm"), head_size).await?,
                key_norm: weights.norm(&name("attn_k_norm"), head_size).await?,
                attention_output: weights.joint(n, [Output], config).await?,
                after_attention_norm: weights.norm(&name("post_attention_norm"), width).await?,
                feed_forward_norm: weights.norm(&name("ffn_norm"), width).await?,
                gate_and_up: weights.joint(n, [Gate, Up], config).await?,
                down: weights.joint(n, [Down], config).await?,
                after_feed_forward_norm: weights.norm(&name("post_ffw_norm"), width).await?,
            });
        }
        let device = weights.device;
        let size = [context, head_size, head_size];
        let rotary = |base, scale: f64| Rotary::new(device, size, base, |_| scale, Pairs::Halves);
        Ok(Gemma3 {
            embedding: weights.matrix("token_embd.weight", [vocabulary, width]).await?,
            layers,
            norm: weights.norm("output_norm.weight", width).await?,
            rotary: [
                rotary(config.window_rope_base, 1.0)?,
                rotary(config.rope_base, config.rope_scale)?,
            ],
            config: config.clone(),
        })
    }

    fn layer(&self, n: usize, x: &Tensor, (rotary, pass): Place) -> Result<Tensor> {
        let (layer, config) = (&self.layers[n], &self.config);
        let tokens = x.shape()[0];
        let norm = |x: &Tensor, weight| {
            x.rms_norm(-1, RmsNormOptions { weight: Some(weight), eps: config.epsilon })
        };
        let rotary = &rotary[usize::from(config.layer_window(n).is_none())];
        let [q, k, v] = layer.projections.apply(&norm(x, &layer.attention_norm)?, pass)?;
        let heads = |part: &Tensor, count| part.reshape(&[tokens, count, config.head_size]);
        let q = norm(&heads(&q, config.heads)?, &layer.query_norm)?;
        let k = norm(&heads(&k, config.kv_heads)?, &layer.key_norm)?;
        let v = heads(&v, config.kv_heads)?;
        let (q, k) = (rotary.turn(&q)?, rotary.turn(&k)?);
        let [seen] = layer.attention_output.apply(&pass.attend(n, [&q, &k, &v])?, pass)?;
        let x = x.add(&norm(&seen, &layer.after_attention_norm)?)?;
        let [gate, up] = layer.gate_and_up.apply(&norm(&x, &layer.feed_forward_norm)?, pass)?;
        let [hidden] = layer.down.apply(&gate.gelu_tanh().mul(&up)?, pass)?;
        x.add(&norm(&hidden, &layer.after_feed_forward_norm)?)
    }
}

impl Decoder for Gemma3 {
    fn forward(&self, tokens: &Tensor, pass: &Pass) -> Result<Tensor> {
        let [windowed, whole] = &self.rotary;
        let rotary = [pass.rotary(windowed, tokens.numel())?, pass.rotary(whole, tokens.numel())?];
        let mut x = self.embedding.rows(tokens)?.mul((self.config.width as f64).sqrt())?;
        for n in 0..self.layers.len() {
            x = pass.layer(&x, |x| self.layer(n, x, (&rotary, pass)))?;
        }
        Ok(x)
    }

    fn logits(&self, x: &Tensor) -> Result<Tensor> {
        let h =
            x.rms_norm(-1, RmsNormOptions { weight: Some(&self.norm), eps: self.config.epsilon })?;
        self.embedding.linear(&h)
    }
}
