//! Transformer encoder and decoder layers (Vaswani et al. 2017).

use super::{Dropout, Generator, Layer, LayerNorm, Linear, Members, Module, MultiheadAttention};
use crate::error::Result;
use crate::tensor::{AttentionOptions, Tensor};

/// The activation function of a feed-forward block.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Activation {
    /// `max(x, 0)`.
    #[default]
    Relu,
    /// [`Tensor::gelu`].
    Gelu,
}

/// Options of transformer layers. The defaults are PyTorch's.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransformerOptions {
    /// The width of the feed-forward block's hidden layer. The default is 2048.
    pub dim_feedforward: usize,
    /// The probability of dropping results and attention weights in training. The default is 0.1.
    pub dropout: f64,
    /// The activation function of the feed-forward block. The default is [`Activation::Relu`].
    pub activation: Activation,
    /// Whether the input of each block is normalized (pre-norm). The default is `false`: the sum of the block's input and
    /// result is normalized (post-norm).
    pub norm_first: bool,
}

impl Default for TransformerOptions {
    fn default() -> TransformerOptions {
        let (dim_feedforward, dropout) = (2048, 0.1);
        TransformerOptions {
            dim_feedforward,
            dropout,
            activation: Activation::Relu,
            norm_first: false,
        }
    }
}

/// The feed-forward block, with the options that encoder and decoder layers share.
#[derive(Clone, Debug)]
struct Block {
    linear1: Linear,
    linear2: Linear,
    dropout: Dropout,
    activation: Activation,
    norm_first: bool,
}

impl Block {
    fn new(generator: &Generator, width: usize, options: TransformerOptions) -> Result<Block> {
        let TransformerOptions { dim_feedforward, dropout, activation, norm_first } = options;
        Ok(Block {
            linear1: Linear::new(generator, width, dim_feedforward)?,
            linear2: Linear::new(generator, dim_feedforward, width)?,
            dropout: Dropout::new(generator, dropout)?,
            activation,
            norm_first,
        })
    }

    fn feed_forward(&self, x: &Tensor) -> Result<Tensor> {
        let hidden = self.linear1.forward(x)?;
        let hidden = match self.activation {
            Activation::Relu => hidden.relu(),
            Activation::Gelu => hidden.gelu(),
        };
        self.linear2.forward(&self.dropout.forward(&hidden)?)
    }

    /// Adds `x` to the result of `part`, with the normalization before `part` or after the addition.
    fn add(
        &self,
        x: &Tensor,
        norm: &LayerNorm,
        part: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        match self.norm_first {
            true => x.add(&self.dropout.forward(&part(&norm.forward(x)?)?)?),
            false => norm.forward(&x.add(&self.dropout.forward(&part(x)?)?)?),
        }
    }
}

/// An encoder layer: self-attention, then a feed-forward block. Each block is a residual connection.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{Device, Preference};
/// # use warpweft::nn::{Generator, Layer, Module, TransformerEncoderLayer, TransformerOptions};
/// # let device = Device::with(Preference::Cpu).await?;
/// let options = TransformerOptions { dim_feedforward: 64, ..TransformerOptions::default() };
/// let layer = TransformerEncoderLayer::new(&Generator::new(&device, 0), 16, 4, options)?;
/// assert_eq!(layer.forward(&device.ones(&[2, 5, 16])?)?.shape(), [2, 5, 16]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct TransformerEncoderLayer {
    self_attn: MultiheadAttention,
    norm1: LayerNorm,
    norm2: LayerNorm,
    block: Block,
}

impl TransformerEncoderLayer {
    /// Creates a layer of this width with `heads` attention heads.
    ///
    /// # Errors
    /// Same as [`MultiheadAttention::new`].
    pub fn new(
        generator: &Generator,
        width: usize,
        heads: usize,
        options: TransformerOptions,
    ) -> Result<TransformerEncoderLayer> {
        Ok(TransformerEncoderLayer {
            self_attn: MultiheadAttention::new(generator, width, heads, options.dropout)?,
            norm1: LayerNorm::new(generator, &[width])?,
            norm2: LayerNorm::new(generator, &[width])?,
            block: Block::new(generator, width, options)?,
        })
    }

    /// Returns the result for `x` of `[batch, length, width]`. `options` apply to the attention, for example a mask or
    /// `is_causal`.
    ///
    /// # Errors
    /// Same as [`MultiheadAttention::attend`].
    pub fn run(&self, x: &Tensor, options: AttentionOptions) -> Result<Tensor> {
        let x = self.block.add(x, &self.norm1, |x| self.self_attn.attend(x, x, x, options))?;
        self.block.add(&x, &self.norm2, |x| self.block.feed_forward(x))
    }
}

impl Module for TransformerEncoderLayer {
    fn members(&self, members: &mut Members) {
        members.child("self_attn", &self.self_attn);
        members.child("linear1", &self.block.linear1).child("linear2", &self.block.linear2);
        members.child("norm1", &self.norm1).child("norm2", &self.norm2);
        self.block.dropout.members(members);
    }
}

impl Layer for TransformerEncoderLayer {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.run(x, AttentionOptions::default())
    }
}

/// A decoder layer: self-attention, cross-attention to `memory`, then a feed-forward block. `memory` is the result of an
/// encoder. Each block is a residual connection.
#[derive(Clone, Debug)]
pub struct TransformerDecoderLayer {
    self_attn: MultiheadAttention,
    multihead_attn: MultiheadAttention,
    norm1: LayerNorm,
    norm2: LayerNorm,
    norm3: LayerNorm,
    block: Block,
}

impl TransformerDecoderLayer {
    /// Creates a layer of this width with `heads` attention heads.
    ///
    /// # Errors
    /// Same as [`MultiheadAttention::new`].
    pub fn new(
        generator: &Generator,
        width: usize,
        heads: usize,
        options: TransformerOptions,
    ) -> Result<TransformerDecoderLayer> {
        Ok(TransformerDecoderLayer {
            self_attn: MultiheadAttention::new(generator, width, heads, options.dropout)?,
            multihead_attn: MultiheadAttention::new(generator, width, heads, options.dropout)?,
            norm1: LayerNorm::new(generator, &[width])?,
            norm2: LayerNorm::new(generator, &[width])?,
            norm3: LayerNorm::new(generator, &[width])?,
            block: Block::new(generator, width, options)?,
        })
    }

    /// Returns the result for `x` of `[batch, length, width]`. `options` apply to the self-attention (usually `is_causal`), and
    /// `of_memory` applies to the cross-attention.
    ///
    /// # Errors
    /// Same as [`MultiheadAttention::attend`].
    pub fn run(
        &self,
        x: &Tensor,
        memory: &Tensor,
        options: AttentionOptions,
        of_memory: AttentionOptions,
    ) -> Result<Tensor> {
        let x = self.block.add(x, &self.norm1, |x| self.self_attn.attend(x, x, x, options))?;
        let x = self
            .block
            .add(&x, &self.norm2, |x| self.multihead_attn.attend(x, memory, memory, of_memory))?;
        self.block.add(&x, &self.norm3, |x| self.block.feed_forward(x))
    }
}

impl Module for TransformerDecoderLayer {
    fn members(&self, members: &mut Members) {
        members.child("self_attn", &self.self_attn).child("multihead_attn", &self.multihead_attn);
        members.child("linear1", &self.block.linear1).child("linear2", &self.block.linear2);
        members.child("norm1", &self.norm1).child("norm2", &self.norm2).child("norm3", &self.norm3);
        self.block.dropout.members(members);
    }
}
