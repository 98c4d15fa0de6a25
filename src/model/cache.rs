//! What a decoder keeps of the tokens before, their keys and values; and what it knows of positions.

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

/// The rotary embedding (Su et al. 2021): pairs of elements of each head are turned, by angles that grow with the position.
pub struct Rotary {
    /// What elements are multiplied with, and what the other ones of their pairs are: `[positions, 1, head size]`.
    own: Tensor,
    other: Tensor,
    pairs: Pairs,
}

/// Which elements are a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// Two neighbours.
    Neighbours,
    /// An element of the first half, and the one as far into the second.
    Halves,
}

impl Rotary {
    /// Of so many positions. The n-th pair turns by the position times `base^(-2n / size)`, divided by its factor; `size` are
    /// the elements that are turned, the first of the head.
    pub fn new(
        device: &Device,
        [positions, head, size]: [usize; 3],
        base: f64,
        factors: impl Fn(usize) -> f64,
        pairs: Pairs,
    ) -> Result<Rotary> {
        let half = size / 2;
        let speeds: Vec<f64> =
            (0..half).map(|n| base.powf(-2.0 * n as f64 / size as f64) / factors(n)).collect();
        let (mut own, mut other) = (Vec::new(), Vec::new());
        for (position, i) in
            (0..positions).flat_map(|position| (0..head).map(move |i| (position, i)))
        {
            let (pair, first) = match pairs {
                Pairs::Neighbours => (i / 2, i % 2 == 0),
                Pairs::Halves => (i % half, i < half),
            };
            let (sin, cos) = match i < size {
                true => (position as f64 * speeds[pair]).sin_cos(),
                false => (0.0, 1.0),
            };
            own.push(cos as f32);
            other.push(if first { -sin } else { sin } as f32);
        }
        let shape = [positions, 1, head];
        Ok(Rotary {
            own: device.tensor(&own, &shape)?,
            other: device.tensor(&other, &shape)?,
            pairs,
        })
    }

    /// That of some tokens.
    pub fn of(&self, start: usize, tokens: usize) -> Result<Rotary> {
        let range = start as isize..(start + tokens) as isize;
        let (own, other) = (self.own.slice(0, range.clone())?, self.other.slice(0, range)?);
        Ok(Rotary { own, other, pairs: self.pairs })
    }

    /// `x [tokens, heads, head size]`, turned.
    pub fn turn(&self, x: &Tensor) -> Result<Tensor> {
        let &[tokens, heads, size] = x.shape() else { unreachable!("heads have three axes") };
        let exchanged = match self.pairs {
            Pairs::Neighbours => x
                .reshape(&[tokens, heads, size / 2, 2])?
                .flip(&[-1])?
                .reshape(&[tokens, heads, size])?,
            Pairs::Halves => {
                let halves = x.chunk(2, -1)?;
                Tensor::concat(&[&halves[1], &halves[0]], -1)?
            }
        };
        x.mul(&self.own)?.add(&exchanged.mul(&self.other)?)
    }
}
