//! Operations with hand-written kernels: matrix products, convolution, attention.

use super::{within, Tensor};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Attention, Conv2d, Op, Routine};

/// How far a convolution's input is extended with zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Padding {
    /// Not at all.
    Valid,
    /// So that the result has the input's extent divided by the stride, rounded up; an odd zero goes to the end.
    Same,
    /// This many before and after: height, then width.
    Explicit([(usize, usize); 2]),
}

/// A 2-D convolution's parameters; the default is stride 1, no padding, no dilation, one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Conv2dOptions {
    pub stride: [usize; 2],
    pub padding: Padding,
    pub dilation: [usize; 2],
    /// Input and output channels are cut into this many groups that do not see each other.
    pub groups: usize,
}

impl Default for Conv2dOptions {
    fn default() -> Conv2dOptions {
        Conv2dOptions { stride: [1, 1], padding: Padding::Valid, dilation: [1, 1], groups: 1 }
    }
}

/// Attention's parameters; the default sees everything, scaled by `1 / sqrt(head size)`.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// The i-th query sees keys up to `i + keys - queries`.
    pub causal: bool,
    /// Broadcast to `[batch, heads, queries, keys]`: `bool` (true sees) or added to the scores.
    pub mask: Option<&'a Tensor>,
    /// What the scores are multiplied with.
    pub scale: Option<f64>,
}

impl Tensor {
    /// The matrix product over the last two axes; leading axes broadcast. A vector on the left is a row, one on the
    /// right a column, and its axis is dropped from the result. Sums are taken in `f32`.
    ///
    /// # Errors
    /// `Shape` if the inner extents differ, the leading axes do not broadcast or an operand has rank 0; `DType` unless
    /// both are of one float type.
    pub fn matmul(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() == 0 || other.rank() == 0 {
            return Err(Error::shapes(
                "matmul",
                &self.shape,
                &other.shape,
                "a number is no matrix",
            ));
        }
        let (row, column) = (self.rank() == 1, other.rank() == 1);
        let a = if row { self.unsqueeze(0)? } else { self.clone() };
        let b = if column { other.unsqueeze(1)? } else { other.clone() };
        let mut product = a.apply(Op::Routine(Routine::Matmul), &[&b])?;
        if column {
            product = product.squeeze(-1)?;
        }
        if row {
            product = product.squeeze(if column { -1 } else { -2 })?;
        }
        Ok(product)
    }

    /// The product of every element of one vector with every element of another: `[m], [n] -> [m, n]`.
    ///
    /// # Errors
    /// `Shape` unless both have rank 1; `DType` if their types differ.
    pub fn outer(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() != 1 || other.rank() != 1 {
            return Err(Error::shapes("outer", &self.shape, &other.shape, "both must have rank 1"));
        }
        within("outer", || self.unsqueeze(1)?.mul(other))
    }

    /// The sum of products of two vectors, a number.
    ///
    /// # Errors
    /// `Shape` unless both have rank 1 and one length; `DType` if their types differ.
    pub fn dot(&self, other: &Tensor) -> Result<Tensor> {
        if self.rank() != 1 || self.shape != other.shape {
            let why = "both must have rank 1 and the same length";
            return Err(Error::shapes("dot", &self.shape, &other.shape, why));
        }
        within("dot", || self.mul(other)?.sum(&[]))
    }

    /// A 2-D convolution (cross-correlation, as in all neural-network libraries): this is `[batch, in, height, width]`,
    /// the weight `[out, in / groups, kernel height, kernel width]`, the bias `[out]`, the result
    /// `[batch, out, out height, out width]`.
    ///
    /// # Errors
    /// `Shape` if extents, channels and groups do not fit; `DType` unless all are of one float type.
    pub fn conv2d(
        &self,
        weight: &Tensor,
        bias: Option<&Tensor>,
        options: Conv2dOptions,
    ) -> Result<Tensor> {
        let refuse = |why: &str| Err(Error::shapes("conv2d", &self.shape, &weight.shape, why));
        if self.rank() != 4 || weight.rank() != 4 {
            return refuse(
                "both must have rank 4: [batch, in, h, w] and [out, in / groups, kh, kw]",
            );
        }
        if options.stride.contains(&0) || options.dilation.contains(&0) || options.groups == 0 {
            return refuse("stride, dilation and groups must be at least 1");
        }
        let same = |i: usize| {
            let (input, kernel) = (self.shape[2 + i], weight.shape[2 + i]);
            let (stride, dilation) = (options.stride[i], options.dilation[i]);
            let reach = kernel.saturating_sub(1).saturating_mul(dilation).saturating_add(1);
            let covered = input.div_ceil(stride).saturating_sub(1) * stride;
            let missing = covered.saturating_add(reach).saturating_sub(input);
            (missing / 2, missing - missing / 2)
        };
        let padding = match options.padding {
            Padding::Valid => [(0, 0); 2],
            Padding::Same => [same(0), same(1)],
            Padding::Explicit(padding) => padding,
        };
        let Conv2dOptions { stride, dilation, groups, .. } = options;
        let conv = Conv2d { stride, padding, dilation, groups };
        let result = self.apply(Op::Routine(Routine::Conv2d(conv)), &[weight])?;
        let Some(bias) = bias else { return Ok(result) };
        if bias.shape[..] != [weight.shape[0]] {
            let why = "the bias must have one element per output channel";
            return Err(Error::shapes("conv2d", &weight.shape, &bias.shape, why));
        }
        within("conv2d", || result.add(&bias.reshape(&[1, weight.shape[0], 1, 1])?))
    }

    /// Scaled dot-product attention, `softmax(q k^T * scale + mask) v`, in one pass over the keys: the matrix of scores
    /// is never in memory (Dao et al. 2022; the running softmax is Milakov and Gimelshein 2018). This is q,
    /// `[batch, heads, queries, size]`; k `[batch, kv heads, keys, size]`, v `[batch, kv heads, keys, value size]`;
    /// each kv head serves `heads / kv heads` heads. The result is `[batch, heads, queries, value size]`. A query that
    /// sees no key gives zeros.
    ///
    /// # Errors
    /// `Shape` if extents do not fit; `DType` unless all are of one float type (the mask may be `bool`).
    pub fn attention(&self, k: &Tensor, v: &Tensor, options: AttentionOptions) -> Result<Tensor> {
        let size = self.shape.last().copied().unwrap_or(1).max(1);
        let scale = options.scale.unwrap_or(1.0 / (size as f64).sqrt());
        let bits = super::pointwise::number_bits("attention", self.dtype, scale)?;
        let scale = Tensor::adopt(&self.device, self.device.scalar(self.dtype, bits));
        let routine = Attention { causal: options.causal, mask: options.mask.is_some() };
        let op = Op::Routine(Routine::Attention(routine));
        let Some(mask) = options.mask else { return self.apply(op, &[k, v, &scale]) };
        if mask.dtype != DType::Bool {
            return self.apply(op, &[k, v, &scale, mask]);
        }
        let zero = self.device.full(self.dtype, 0.0, &[])?;
        let hidden = self.device.full(self.dtype, f64::NEG_INFINITY, &[])?;
        self.apply(op, &[k, v, &scale, &mask.select(&zero, &hidden)?])
    }
}
