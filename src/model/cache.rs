//! What a decoder keeps of the tokens before: their keys and values, and the angles of their positions.

use super::config::ModelConfig;
use crate::device::Device;
use crate::error::Result;
use crate::tensor::{AttentionOptions, DType, Tensor, Variable};

/// Keys and values of the tokens so far, for each layer.
pub struct KvCache {
    /// `[1, kv heads, tokens, head size]`.
    layers: Vec<[Variable; 2]>,
    dtype: DType,
    /// How many tokens are in it.
    pub length: usize,
}

impl KvCache {
    /// For so many tokens.
    pub fn new(
        device: &Device,
        config: &ModelConfig,
        tokens: usize,
        dtype: DType,
    ) -> Result<KvCache> {
        let shape = [1, config.kv_heads, tokens, config.head_size];
        let empty = || device.full(&shape, 0.0, dtype).map(|zeros| Variable::new(&zeros));
        let mut layers = Vec::with_capacity(config.layers);
        for _ in 0..config.layers {
            layers.push([empty()?, empty()?]);
        }
        Ok(KvCache { layers, dtype, length: 0 })
    }

    /// Attention of new tokens to those before and to themselves: `q [tokens, heads, size]`, `k` and `v`
    /// `[tokens, kv heads, size]`; the result is `[tokens, heads * size]`. `length` is that before them.
    pub fn attend(
        &self,
        layer: usize,
        [q, k, v]: [&Tensor; 3],
        window: Option<usize>,
    ) -> Result<Tensor> {
        let (tokens, heads, size) = (q.shape()[0], q.shape()[1], q.shape()[2]);
        let across = |x: &Tensor| x.transpose(0, 1)?.unsqueeze(0);
        let [keys, values] = &self.layers[layer];
        let start = self.length as isize;
        keys.assign_slice(2, start, &across(k)?.cast(self.dtype)?)?;
        values.assign_slice(2, start, &across(v)?.cast(self.dtype)?)?;
        let options = AttentionOptions {
            causal: tokens > 1,
            window,
            kv_length: Some(self.length + tokens),
            ..AttentionOptions::default()
        };
        let (keys, values) = (keys.value(), values.value());
        let q = across(q)?.cast(self.dtype)?;
        let seen = q.attention(&keys, &values, options)?.cast(DType::F32)?;
        seen.squeeze(0)?.transpose(0, 1)?.reshape(&[tokens, heads * size])
    }
}

/// Cosines and sines of the rotary embedding (Su et al. 2021) for positions from 0 on.
pub struct Angles {
    /// `[positions, 1, half of the rotated elements]`.
    cos: Tensor,
    sin: Tensor,
}

impl Angles {
    /// Of so many positions; the n-th pair turns by the position times `base^(-2n / size)`, divided by its factor.
    pub fn new(
        device: &Device,
        positions: usize,
        size: usize,
        base: f64,
        factors: impl Fn(usize) -> f64,
    ) -> Result<Angles> {
        let half = size / 2;
        let speeds: Vec<f64> =
            (0..half).map(|n| base.powf(-2.0 * n as f64 / size as f64) / factors(n)).collect();
        let table = |f: fn(f64) -> f64| {
            let numbers =
                (0..positions * half).map(|i| f((i / half) as f64 * speeds[i % half]) as f32);
            device.tensor(&numbers.collect::<Vec<f32>>(), &[positions, 1, half])
        };
        Ok(Angles { cos: table(f64::cos)?, sin: table(f64::sin)? })
    }

    /// Those of some tokens.
    pub fn of(&self, start: usize, tokens: usize) -> Result<Angles> {
        let range = start as isize..(start + tokens) as isize;
        Ok(Angles { cos: self.cos.slice(0, range.clone())?, sin: self.sin.slice(0, range)? })
    }

    /// `x [tokens, heads, size]`, rotated. A pair is two neighbours if `interleaved`, otherwise an element of the first half
    /// and the one as far into the second.
    pub fn rotate(&self, x: &Tensor, interleaved: bool) -> Result<Tensor> {
        x.rotary(&self.cos, &self.sin, interleaved)
    }
}
