//! Multi-head attention with learned projections.

use super::linear::linear;
use super::module::like;
use super::{init, Dropout, Generator, Layer, Linear, Members, Module};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::tensor::{AttentionOptions, Tensor, Variable};

/// Multi-head attention (Vaswani et al. 2017), with the parameters of PyTorch's `MultiheadAttention`. One matrix projects
/// queries, keys and values. Each head computes attention, and a second matrix projects the concatenated heads.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::AttentionOptions};
/// # use warpweft::nn::{Generator, MultiheadAttention};
/// # let device = Device::with(Preference::Cpu).await?;
/// let attention = MultiheadAttention::new(&Generator::new(&device, 0), 16, 4, 0.0)?;
/// let x = device.ones(&[2, 5, 16])?;
/// let causal = AttentionOptions { is_causal: true, ..AttentionOptions::default() };
/// assert_eq!(attention.attend(&x, &x, &x, causal)?.shape(), [2, 5, 16]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct MultiheadAttention {
    /// `[3 * width, width]`: the projections of queries, keys and values.
    pub in_proj_weight: Variable,
    /// `[3 * width]`.
    pub in_proj_bias: Variable,
    /// The output projection, `[width, width]` with a bias.
    pub out_proj: Linear,
    /// `[1, 1, width]`: a learned key, appended to the projected keys. `bias_v` is its value.
    pub bias_k: Option<Variable>,
    /// `[1, 1, width]`: the value of the key `bias_k`.
    pub bias_v: Option<Variable>,
    /// Whether a key and a value of zeros are appended last.
    pub add_zero_attn: bool,
    heads: usize,
    dropout: Dropout,
}

impl MultiheadAttention {
    /// Creates a layer with `heads` heads of `width / heads` elements each. `dropout` is the probability of dropping an
    /// attention weight in training.
    ///
    /// # Errors
    /// `Shape` if `width` is not a multiple of `heads`. `Limit` if a weight is too large. `InvalidArgument` if `dropout` is
    /// outside `[0, 1]`.
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
        // Within this limit, `3 * width` does not overflow.
        Shape::new("attention", &[3, width, width])?;
        let device = generator.device();
        let weight = init::xavier_uniform(generator, &[3 * width, width], init::Gain::Linear)?;
        let mut out_proj = Linear::without_bias(generator, width, width)?;
        out_proj.bias = Some(Variable::new(&device.zeros(&[width])?));
        Ok(MultiheadAttention {
            in_proj_weight: Variable::new(&weight),
            in_proj_bias: Variable::new(&device.zeros(&[3 * width])?),
            out_proj,
            bias_k: None,
            bias_v: None,
            add_zero_attn: false,
            heads,
            dropout: Dropout::new(generator, dropout)?,
        })
    }

    /// Adds one learned key and value, to which every query attends (PyTorch's `add_bias_kv`).
    ///
    /// # Errors
    /// `Limit`.
    pub fn with_bias_kv(mut self, generator: &Generator) -> Result<MultiheadAttention> {
        let shape = [1, 1, self.out_proj.weight.shape()[0]];
        let begin = || init::xavier_normal(generator, &shape, init::Gain::Linear);
        self.bias_k = Some(Variable::new(&begin()?));
        self.bias_v = Some(Variable::new(&begin()?));
        Ok(self)
    }

    /// Returns the attention of `query` over `key` and `value`. All are `[batch, length, width]`, and `key` and `value` have
    /// the same length.
    ///
    /// # Errors
    /// `Shape` if the shapes do not match. Also the errors of [`Tensor::attention`].
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
        let more = [None, self.bias_k.as_ref(), self.bias_v.as_ref()];
        for (i, x) in [query, key, value].into_iter().enumerate() {
            let projected = linear(x, &weights[i], Some(&biases[i]))?;
            let whole = self.lengthened(projected, more[i], i > 0)?;
            heads.push(self.split(&whole)?);
        }
        let [q, k, v] = &heads[..] else { unreachable!("three were pushed") };
        let (queries, keys) = (q.shape()[2], k.shape()[2]);
        let mask = match k.shape()[2] - key.shape()[1] {
            0 => None,
            more => Some(widened(query, [queries, keys - more, keys], &options)?),
        };
        let options = match &mask {
            Some(mask) => AttentionOptions {
                attn_mask: Some(mask),
                scale: options.scale,
                ..AttentionOptions::default()
            },
            None => options,
        };
        let found = match self.dropout.drops() {
            true => self.dropped(q, k, v, options)?,
            false => q.attention(k, v, options)?,
        };
        let joined = found.permute(&[0, 2, 1, 3])?.flatten(2..)?;
        self.out_proj.forward(&joined)
    }

    /// Appends the learned row `more` and the row of zeros, if the layer has them, to projected keys or values.
    fn lengthened(&self, x: Tensor, more: Option<&Variable>, is_key: bool) -> Result<Tensor> {
        let &[batch, _, width] = x.shape() else { return Ok(x) };
        let mut parts = vec![x.clone()];
        if let Some(more) = more {
            parts.push(like(more.value(), &x)?.expand(&[batch, 1, width])?);
        }
        if is_key && self.add_zero_attn {
            parts.push(x.device().zeros((&[batch, 1, width], x.dtype()))?);
        }
        match parts.len() {
            1 => Ok(x),
            _ => Tensor::concat(&parts, 1),
        }
    }

    /// Reshapes `[batch, length, width]` to `[batch, heads, length, width / heads]`.
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

    /// Computes attention with dropout on the attention weights. The weights are materialized.
    fn dropped(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        options: AttentionOptions,
    ) -> Result<Tensor> {
        // With the identity matrix as values, attention returns the attention weights.
        let keys = k.shape()[2];
        let identity = q.device().eye(keys)?.cast(q.dtype())?;
        let identity = identity.expand(&[&k.shape()[..2], &[keys, keys]].concat())?;
        self.dropout.forward(&q.attention(k, &identity, options)?)?.matmul(v)
    }
}

/// Returns the mask for keys that were extended to `all`. Every query sees the added keys. For the other keys, the mask
/// combines the mask, `is_causal`, `window` and `kv_length` of `options`.
fn widened(
    query: &Tensor,
    [queries, keys, all]: [usize; 3],
    options: &AttentionOptions,
) -> Result<Tensor> {
    let device = query.device();
    let place = device.iota(&[all], 0)?;
    let further = place.ge(keys as i64)?;
    // The position of each query among the valid keys.
    let count = options.kv_length.unwrap_or(keys) as i64;
    let own = device.iota(&[queries, 1], 0)?.add(count - queries as i64)?;
    let mut sees = place.lt(count)?.expand(&[queries, all])?;
    if options.is_causal {
        sees = sees.logical_and(place.le(&own)?)?;
    }
    if let Some(window) = options.window {
        sees = sees.logical_and(own.sub(&place)?.abs().lt(window as i64)?)?;
    }
    let sees = sees.logical_or(further)?;
    let Some(mask) = options.attn_mask else { return Ok(sees) };
    let shape = mask.shape();
    let [before @ .., last] = shape else { return Err(mask_shape(mask, keys)) };
    let whole = match *last {
        1 => mask.expand([before, &[keys]].concat())?,
        last if last == keys => mask.clone(),
        _ => return Err(mask_shape(mask, keys)),
    };
    let mut amounts = vec![(0, 0); shape.len()];
    amounts[shape.len() - 1].1 = (all - keys) as isize;
    let added = mask.dtype() != DType::Bool;
    let whole = whole.pad(&amounts[..], if added { 0.0 } else { 1.0 })?;
    match added {
        true => sees.where_cond(whole, f64::NEG_INFINITY),
        false => sees.logical_and(whole),
    }
}

fn mask_shape(mask: &Tensor, keys: usize) -> Error {
    let shape = mask.shape();
    Error::shape(format!(
        "attention: a mask must have {keys} keys in its last axis, got shape {shape:?}"
    ))
}

impl Module for MultiheadAttention {
    fn members(&self, members: &mut Members) {
        members.parameter("in_proj_weight", &self.in_proj_weight);
        members.parameter("in_proj_bias", &self.in_proj_bias);
        members.parameter_if("bias_k", &self.bias_k).parameter_if("bias_v", &self.bias_v);
        self.dropout.members(members.child("out_proj", &self.out_proj));
    }
}

impl Layer for MultiheadAttention {
    /// Computes self-attention. Each position attends to all positions of its sequence.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        self.attend(x, x, x, AttentionOptions::default())
    }
}
