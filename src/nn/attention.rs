//! Attention with learnt projections.

use super::linear::linear;
use super::{init, Dropout, Generator, Layer, Linear, Members, Module};
use crate::error::{Error, Result};
use crate::tensor::{AttentionOptions, Tensor, Variable};

/// Attention of several heads (Vaswani and others 2017), with the parameters of PyTorch's `MultiheadAttention`: queries, keys
/// and values are projected by one matrix, attended to in each head, and projected again.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::AttentionOptions};
/// # use warpweft::nn::{Generator, MultiheadAttention};
/// # let device = Device::with(Preference::Cpu).await?;
/// let attention = MultiheadAttention::new(&Generator::new(&device, 0), 16, 4, 0.0)?;
/// let x = device.ones(&[2, 5, 16])?;
/// let causal = AttentionOptions { causal: true, ..AttentionOptions::default() };
/// assert_eq!(attention.attend(&x, &x, &x, causal)?.shape(), [2, 5, 16]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MultiheadAttention {
    /// `[3 * width, width]`: for queries, keys and values.
    pub in_proj_weight: Variable,
    /// `[3 * width]`.
    pub in_proj_bias: Variable,
    /// `[width, width]`, and a bias.
    pub out_proj: Linear,
    heads: usize,
    dropout: Dropout,
}

impl MultiheadAttention {
    /// `heads` heads of `width / heads` numbers each. `dropout` is the probability by which a weight of a value is dropped
    /// while it trains.
    ///
    /// # Errors
    /// `Shape` if the heads do not divide the width; `Data` if the probability lies outside `[0, 1)`.
    pub fn new(
        generator: &Generator,
        width: usize,
        heads: usize,
        dropout: f64,
    ) -> Result<MultiheadAttention> {
        if heads == 0 || !width.is_multiple_of(heads) {
            return Err(Error::shape(format!(
                "attention: the width must be a multiple of the heads, got width {width} and {heads} heads"
            )));
        }
        let device = generator.device();
        let weight = init::xavier_uniform(generator, &[3 * width, width], init::Gain::Linear)?;
        let mut out_proj = Linear::without_bias(generator, width, width)?;
        out_proj.bias = Some(Variable::new(&device.zeros(&[width])?));
        Ok(MultiheadAttention {
            in_proj_weight: Variable::new(&weight),
            in_proj_bias: Variable::new(&device.zeros(&[3 * width])?),
            out_proj,
            heads,
            dropout: Dropout::new(generator, dropout)?,
        })
    }

    /// What queries find at keys: `[batch, length, width]` each; keys and values have one length.
    ///
    /// # Errors
    /// `Shape` if they do not fit; those of [`Tensor::attention`].
    pub fn attend(
        &self,
        query: &Tensor,
        key: &Tensor,
        value: &Tensor,
        options: AttentionOptions,
    ) -> Result<Tensor> {
        let (weight, bias) = (self.in_proj_weight.value(), self.in_proj_bias.value());
        let (weights, biases) = (weight.chunk(3, 0)?, bias.chunk(3, 0)?);
        let mut heads = Vec::with_capacity(3);
        for (i, x) in [query, key, value].into_iter().enumerate() {
            heads.push(self.split(&linear(x, &weights[i], Some(&biases[i]))?)?);
        }
        let [q, k, v] = &heads[..] else { unreachable!("three were pushed") };
        let found = match self.dropout.drops() {
            true => self.dropped(q, k, v, options)?,
            false => q.attention(k, v, options)?,
        };
        let joined = found.permute(&[0, 2, 1, 3])?.flatten(2..)?;
        self.out_proj.forward(&joined)
    }

    /// `[batch, length, width]` as `[batch, heads, length, width / heads]`.
    fn split(&self, x: &Tensor) -> Result<Tensor> {
        let &[batch, length, width] = x.shape() else {
            let message = format!(
                "attention: the input must be [batch, length, width], got shape {:?}",
                x.shape()
            );
            return Err(Error::shape(message));
        };
        x.reshape(&[batch, length, self.heads, width / self.heads])?.permute(&[0, 2, 1, 3])
    }

    /// The same with some of the weights dropped, which are in memory for it.
    fn dropped(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        options: AttentionOptions,
    ) -> Result<Tensor> {
        // What attention gives for values that are the unit vectors: the weights themselves.
        let keys = k.shape()[2];
        let one = q.device().eye(keys)?.cast(q.dtype())?;
        let one = one.expand(&[&k.shape()[..2], &[keys, keys]].concat())?;
        self.dropout.forward(&q.attention(k, &one, options)?)?.matmul(v)
    }
}

impl Module for MultiheadAttention {
    fn members(&self, members: &mut Members) {
        members.parameter("in_proj_weight", &self.in_proj_weight);
        members.parameter("in_proj_bias", &self.in_proj_bias);
        self.dropout.members(members.child("out_proj", &self.out_proj));
    }
}

impl Layer for MultiheadAttention {
    /// Each place attends to all places of the same sequence.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.attend(x, x, x, AttentionOptions::default())
    }
}
