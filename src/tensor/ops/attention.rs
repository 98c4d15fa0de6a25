//! Scaled dot-product attention, and rotary position embeddings.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Attention, Op, Routine};
use crate::tensor::{operand_bits, with_op_name, Tensor};

/// The parameters of attention. By default, each query attends to all keys, scaled by `1 / sqrt(head size)`. A query attends to
/// a key only if `is_causal`, `window`, `attn_mask` and `kv_length` all allow it.
///
/// Example: a cache of keys and values that is filled in place, and read up to its current length.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, dtype::DType};
/// # use warpweft::tensor::{AttentionOptions, Variable};
/// let device = Device::with(Preference::Cpu).await?;
/// let keys = Variable::new(&device.zeros(&[1, 2, 64, 4])?);
/// let values = Variable::new(&device.zeros(&[1, 2, 64, 4])?);
/// for n in 0..3 {
///     let token = device.full(&[1, 2, 1, 4], n as f64, DType::F32)?;
///     keys.assign_slice(2, n as isize, &token)?;
///     values.assign_slice(2, n as isize, &token)?;
///     let options = AttentionOptions { kv_length: Some(n + 1), ..Default::default() };
///     let seen = token.attention(&keys.value(), &values.value(), options)?;
///     assert!(seen.read::<f32>().await?[0] <= n as f32);
/// }
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// Whether the i-th query attends only to keys up to `i + keys - queries`. The default is `false`.
    pub is_causal: bool,
    /// The size of a sliding window. The i-th query attends only to keys at less than this distance from
    /// `i + keys - queries`. The default is no limit.
    pub window: Option<usize>,
    /// A mask that broadcasts to `[batch, heads, queries, keys]`, where `keys` are all keys in k. A `bool` mask is true for
    /// visible keys. A float mask is added to the scores. The default is none.
    pub attn_mask: Option<&'a Tensor>,
    /// The factor of the scores. The default is `1 / sqrt(size)`.
    pub scale: Option<f64>,
    /// The number of valid keys, which are the first ones. The default is all.
    ///
    /// `is_causal` and `window` use this number as `keys`. k and v can therefore be a cache that is longer than its current
    /// content, whose rest is ignored. Elements of `attn_mask` for the rest are ignored, too. The number is data, so another
    /// number reuses the plan.
    pub kv_length: Option<usize>,
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Applies rotary position embedding (Su et al. 2021): rotates pairs of elements of the last axis by given angles.
    ///
    /// `cos` and `sin` are the cosines and sines of the angles. Their last axis has half as many elements as are rotated,
    /// and the rest of the tensor's last axis stays unchanged. Along other axes they broadcast. A pair has elements at
    /// the same position of the first and the second half (as in Llama and GPT-NeoX). With `interleaved`, a pair is two
    /// neighbors (as in GPT-J).
    ///
    /// # Errors
    /// `Shape` if the shapes of `cos` and `sin` differ, do not broadcast, or have a last axis that is empty or longer than
    /// half of this tensor's last axis; `DType` unless all have one float type.
    #[cfg_attr(feature = "js", js(default(interleaved = false)))]
    pub fn rotary(&self, cos: &Tensor, sin: &Tensor, interleaved: bool) -> Result<Tensor> {
        let name = "rotary";
        let half = cos.shape.last().copied().unwrap_or(0);
        let last = self.shape.last().copied().unwrap_or(0);
        if cos.shape != sin.shape {
            let must = "cos and sin must have one shape";
            return Err(Error::shapes(name, must, &cos.shape, &sin.shape));
        }
        if half == 0 || half > last / 2 {
            let must = "the last axis of cos must have at least 1 and at most half of the input's elements";
            return Err(Error::shapes(name, must, &self.shape, &cos.shape));
        }
        with_op_name(name, || {
            self.check_same_dtype(name, &[cos, sin])?;
            let wide = self.dtype.compute();
            let (cos, sin) = (&cos.cast(wide)?, &sin.cast(wide)?);
            let middle = half as isize;
            let turned = self.cast(wide)?.slice_static(-1, ..2 * middle, 1)?;
            let (a, b) = match interleaved {
                true => (turned.slice_static(-1, .., 2)?, turned.slice_static(-1, 1.., 2)?),
                false => {
                    (turned.slice_static(-1, ..middle, 1)?, turned.slice_static(-1, middle.., 1)?)
                }
            };
            let (first, second) = (a.mul(cos)?.sub(&b.mul(sin)?)?, b.mul(cos)?.add(&a.mul(sin)?)?);
            if first.shape != a.shape {
                let must = "cos and sin must broadcast to the input";
                return Err(Error::shapes(name, must, &self.shape, &cos.shape));
            }
            let pairs = match interleaved {
                true => Tensor::stack(&[first, second], -1)?.reshape(&turned.shape)?,
                false => Tensor::concat(&[first, second], -1)?,
            };
            let pairs = pairs.cast(self.dtype)?;
            if 2 * half == last {
                return Ok(pairs);
            }
            Tensor::concat(&[pairs, self.slice_static(-1, 2 * middle.., 1)?], -1)
        })
    }

    /// Computes scaled dot-product attention, `softmax(q k^T * scale + mask) v`, in one pass over the keys. The matrix of
    /// scores is never in memory (Dao et al. 2022; the running softmax is from Milakov and Gimelshein 2018).
    ///
    /// This tensor is q, `[batch, heads, queries, size]`. k is `[batch, kv heads, keys, size]`, and v is
    /// `[batch, kv heads, keys, value size]`. Each kv head serves `heads / kv heads` heads. The result is
    /// `[batch, heads, queries, value size]`, and zeros for a query that attends to no key.
    ///
    /// # Errors
    /// `Shape` if extents do not fit; `DType` unless all have one float type (the mask may be `bool`).
    #[cfg_attr(feature = "js", js(spread(options)))]
    pub fn attention(
        &self,
        k: &Tensor,
        v: &Tensor,
        options: AttentionOptions<'_>,
    ) -> Result<Tensor> {
        let length = match options.kv_length {
            Some(length) if length > k.shape.get(2).copied().unwrap_or(0) => {
                let message = format!(
                    "attention: kv_length must be at most the keys, got {length} for k of shape {}",
                    k.shape
                );
                return Err(Error::shape(message));
            }
            Some(length) => {
                let length = self.device.scalar(DType::I32, length as u32);
                Some(Tensor::adopt(&self.device, length))
            }
            None => None,
        };
        self.attention_with_length(k, v, options, length.as_ref())
    }

    /// Computes attention like [`Tensor::attention`], over the first `length` keys. `length` is an `i32` tensor of rank
    /// 0.
    pub(crate) fn attention_with_length(
        &self,
        k: &Tensor,
        v: &Tensor,
        options: AttentionOptions,
        length: Option<&Tensor>,
    ) -> Result<Tensor> {
        let size = self.shape.last().copied().unwrap_or(1).max(1);
        let scale = options.scale.unwrap_or(1.0 / (size as f64).sqrt());
        let bits = operand_bits("attention", self.dtype, scale)?;
        let scale = Tensor::adopt(&self.device, self.device.scalar(self.dtype, bits));
        let AttentionOptions { is_causal: causal, window, .. } = options;
        if window == Some(0) {
            return Err(Error::shape("attention: the window must be at least 1, got 0"));
        }
        let mask = match options.attn_mask {
            Some(mask) if mask.dtype == DType::Bool => {
                let zero = self.device.constant(&[], 0.0, self.dtype)?;
                let hidden = self.device.constant(&[], f64::NEG_INFINITY, self.dtype)?;
                Some(mask.where_cond(&zero, &hidden)?)
            }
            mask => mask.cloned(),
        };
        let routine = Attention { causal, window, mask: mask.is_some(), length: length.is_some() };
        let mut operands = vec![k, v, &scale];
        operands.extend(mask.iter().chain(length));
        self.apply(Op::Routine(Routine::Attention(routine)), &operands)
    }
}
