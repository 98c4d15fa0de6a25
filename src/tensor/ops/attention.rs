//! Scaled dot-product attention, and rotary position embeddings.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Attention, Op, Routine};
use crate::tensor::{number_bits, with_op_name, Tensor};

/// Attention's parameters; the default sees everything, scaled by `1 / sqrt(head size)`.
///
/// A cache of keys and values that is filled in place, and read as far as it is filled:
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
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// The i-th query sees keys up to `i + keys - queries`.
    pub causal: bool,
    /// The i-th query sees only keys less than this far from its own place, `i + keys - queries` (sliding window).
    pub window: Option<usize>,
    /// Broadcast to `[batch, heads, queries, keys]`: `bool` (true sees) or added to the scores.
    pub mask: Option<&'a Tensor>,
    /// What the scores are multiplied with.
    pub scale: Option<f64>,
    /// How many keys count, from the first on; all do by default. `keys` above means those. So k and v can be a cache that is
    /// longer than what is in it: the rest makes no difference. The number is data: another one is no other plan.
    pub kv_length: Option<usize>,
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Rotary position embedding (Su et al. 2021): pairs of elements of the last axis are turned, by angles whose cosines
    /// and sines are given; they have half as many elements along the last axis as are turned (the rest of the axis
    /// stays), and broadcast along the others. A pair is an element of the first half and the one as far into the
    /// second (as in Llama and GPT-NeoX), or two neighbors if `interleaved` (as in GPT-J).
    ///
    /// # Errors
    /// `Shape` if cosines and sines differ, have more than half the elements or do not broadcast; `DType` unless all are
    /// of one float type.
    #[cfg_attr(feature = "js", js(default(interleaved = false)))]
    pub fn rotary(&self, cos: &Tensor, sin: &Tensor, interleaved: bool) -> Result<Tensor> {
        let name = "rotary";
        let half = cos.shape.last().copied().unwrap_or(0);
        let last = self.shape.last().copied().unwrap_or(0);
        if half == 0 || cos.shape != sin.shape || half > last / 2 {
            let must = "cos and sin must have one shape, and at most half of the last axis";
            return Err(Error::shapes(name, must, &self.shape, &cos.shape));
        }
        with_op_name(name, || {
            let middle = half as isize;
            let turned = self.slice_static(-1, ..2 * middle, 1)?;
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
            if 2 * half == last {
                return Ok(pairs);
            }
            Tensor::concat(&[pairs, self.slice_static(-1, 2 * middle.., 1)?], -1)
        })
    }

    /// Scaled dot-product attention, `softmax(q k^T * scale + mask) v`, in one pass over the keys: the matrix of scores
    /// is never in memory (Dao et al. 2022; the running softmax is Milakov and Gimelshein 2018). This is q,
    /// `[batch, heads, queries, size]`; k `[batch, kv heads, keys, size]`, v `[batch, kv heads, keys, value size]`;
    /// each kv head serves `heads / kv heads` heads. The result is `[batch, heads, queries, value size]`. A query that
    /// sees no key gives zeros.
    ///
    /// # Errors
    /// `Shape` if extents do not fit; `DType` unless all are of one float type (the mask may be `bool`).
    #[cfg_attr(feature = "js", js(skip))]
    pub fn attention(&self, k: &Tensor, v: &Tensor, options: AttentionOptions) -> Result<Tensor> {
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

    /// As [`Tensor::attention`], but only the first `length` keys count. `length` is an `i32` tensor of rank 0.
    pub(crate) fn attention_with_length(
        &self,
        k: &Tensor,
        v: &Tensor,
        options: AttentionOptions,
        length: Option<&Tensor>,
    ) -> Result<Tensor> {
        let size = self.shape.last().copied().unwrap_or(1).max(1);
        let scale = options.scale.unwrap_or(1.0 / (size as f64).sqrt());
        let bits = number_bits("attention", self.dtype, scale)?;
        let scale = Tensor::adopt(&self.device, self.device.scalar(self.dtype, bits));
        let AttentionOptions { causal, window, .. } = options;
        if window == Some(0) {
            return Err(Error::shape("attention: the window must be at least 1, got 0"));
        }
        let mask = match options.mask {
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
