//! What a decoder keeps of the tokens before, their keys and values; and what it knows of positions.

use super::config::ModelConfig;
use super::PROMPT;
use crate::alloc::try_vec;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{AttentionOptions, Tensor, Variable};
use std::sync::Arc;

/// Keys and values of the tokens so far, for each layer.
///
/// A layer that sees only a window of the tokens keeps those of the window, and has room for one more part of a prompt
/// ([`PROMPT`] tokens) behind them. When that is full, the window moves to the front. So keys always lie in the order of their
/// tokens, as attention wants them.
pub struct KvCache {
    layers: Vec<Layer>,
    dtype: DType,
}

struct Layer {
    /// `[1, kv heads, capacity, head size]`.
    keys: Variable,
    values: Variable,
    window: Option<usize>,
}

/// A variable of zeros that has memory of its own, which tokens are written into. (`Device::zeros` has none until
/// something reads it, so the first tokens would write the whole cache.)
fn zeros(device: &Device, shape: &[usize], dtype: DType) -> Result<Variable> {
    let count = Shape::new("model", shape)?.numel() * dtype.size();
    let mut bytes: Vec<u8> = try_vec("model", count)?;
    bytes.resize(count, 0);
    Ok(Variable::new(&device.tensor_from_bytes(&bytes, shape, dtype)?))
}

/// Tokens that a layer has room for in a context of `tokens`.
pub fn capacity(tokens: usize, window: Option<usize>) -> usize {
    window.map_or(tokens, |window| tokens.min((window - 1).saturating_add(PROMPT)))
}

impl KvCache {
    /// An empty cache for contexts of up to `tokens`.
    fn new(device: &Device, config: &ModelConfig, tokens: usize, dtype: DType) -> Result<KvCache> {
        let mut layers = Vec::with_capacity(config.layers);
        for layer in 0..config.layers {
            let window = config.layer_window(layer);
            let shape = [1, config.kv_heads, capacity(tokens, window), config.head_size];
            let empty = || zeros(device, &shape, dtype);
            layers.push(Layer { keys: empty()?, values: empty()?, window });
        }
        Ok(KvCache { layers, dtype })
    }

    /// Attention of new tokens to those before and to themselves: `q [tokens, heads, size]`, `k` and `v`
    /// `[tokens, kv heads, size]`; the result is `[tokens, heads * size]`.
    pub fn attend(&self, layer: usize, [q, k, v]: [&Tensor; 3], at: &Positions) -> Result<Tensor> {
        let (tokens, heads, size) = (q.shape()[0], q.shape()[1], q.shape()[2]);
        let Layer { keys, values, window } = &self.layers[layer];
        let slots = if window.is_some() { &at.windowed } else { &at.whole };
        for (cache, new) in [(keys, k), (values, v)] {
            let new = across(new, 1)?.cast(self.dtype)?;
            cache.assign(&cache.value().slice_scatter_from(2, &slots.start, &new)?.detach())?;
        }
        let options =
            AttentionOptions { causal: tokens > 1, window: *window, ..AttentionOptions::default() };
        let (keys, values) = (keys.value().cast(DType::F32)?, values.value().cast(DType::F32)?);
        let seen =
            across(q, 1)?.attention_with_length(&keys, &values, options, Some(&slots.end))?;
        seen.squeeze(0)?.transpose(0, 1)?.reshape(&[tokens, heads * size])
    }
}

/// Lists of tokens one after the other, as attention takes them: `[lists * tokens, heads, size]` to
/// `[lists, heads, tokens, size]`.
pub fn across(x: &Tensor, lists: usize) -> Result<Tensor> {
    let &[tokens, heads, size] = x.shape() else { unreachable!("heads have three axes") };
    x.reshape(&[lists, tokens / lists, heads, size])?.transpose(1, 2)
}

/// Where in the cache new tokens are. The numbers are data, so one program serves all positions.
pub struct Positions {
    /// In layers that see all tokens: their positions in the context.
    whole: Slots,
    /// In layers that see a window of them.
    windowed: Slots,
    /// How many they are.
    tokens: usize,
}

/// Slots of a cache, as `i32` of rank 0.
struct Slots {
    start: Tensor,
    end: Tensor,
}

impl Positions {
    /// By the numbers of [`CachedTokens::slots`].
    pub fn new(numbers: &Tensor, tokens: usize) -> Result<Positions> {
        let number = |n: isize| numbers.slice(0, n..n + 1)?.reshape(());
        let slots = |n| Ok(Slots { start: number(n)?, end: number(n + 1)? });
        Ok(Positions { whole: slots(0)?, windowed: slots(2)?, tokens })
    }
}

/// A cache, and which tokens are in it.
pub struct CachedTokens {
    pub cache: Arc<KvCache>,
    /// The window of layers that have one.
    window: Option<usize>,
    /// How many tokens layers with a window have room for.
    room: usize,
    /// How many tokens are in it.
    length: usize,
    /// How many of the first tokens layers with a window have forgotten.
    forgotten: usize,
}

impl CachedTokens {
    /// An empty cache for contexts of up to `tokens`.
    pub fn new(
        device: &Device,
        config: &ModelConfig,
        tokens: usize,
        dtype: DType,
    ) -> Result<CachedTokens> {
        let cache = Arc::new(KvCache::new(device, config, tokens, dtype)?);
        let (window, room) = (config.window, capacity(tokens, config.window));
        Ok(CachedTokens { cache, window, room, length: 0, forgotten: 0 })
    }

    /// How many tokens are in it.
    pub fn len(&self) -> usize {
        self.length
    }

    /// The slots of `tokens` more: where they begin and end in layers that see all tokens, and in those that see a window.
    pub fn slots(&self, tokens: usize) -> [i32; 4] {
        let within = self.length - self.forgotten;
        [self.length, self.length + tokens, within, within + tokens].map(|slot| slot as i32)
    }

    /// Makes room for `tokens` more: moves the windows to the front where they are at the end.
    pub fn make_room(&mut self, tokens: usize) -> Result<()> {
        let Some(window) = self.window else { return Ok(()) };
        if self.length + tokens - self.forgotten <= self.room {
            return Ok(());
        }
        let forgotten = self.length.saturating_sub(window - 1);
        let kept = (forgotten - self.forgotten) as isize..(self.length - self.forgotten) as isize;
        for layer in self.cache.layers.iter().filter(|layer| layer.window.is_some()) {
            for cache in [&layer.keys, &layer.values] {
                cache.assign_slice(2, 0, &cache.value().slice(2, kept.clone())?.detach())?;
            }
        }
        self.forgotten = forgotten;
        Ok(())
    }

    /// Counts tokens whose keys and values all layers have by now.
    pub fn extend(&mut self, tokens: usize) {
        self.length += tokens;
    }

    /// Keeps the first `length` tokens. Where a window no longer has all that the next token sees, it keeps none.
    pub fn truncate(&mut self, length: usize) {
        if length < self.length {
            let first = length.saturating_sub(self.window.map_or(length, |window| window - 1));
            self.length = if self.forgotten <= first { length } else { 0 };
        }
        if self.length == 0 {
            self.forgotten = 0;
        }
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
    pub fn of(&self, at: &Positions) -> Result<Rotary> {
        let part = |all: &Tensor| all.slice_from(0, &at.whole.start, at.tokens);
        Ok(Rotary { own: part(&self.own)?, other: part(&self.other)?, pairs: self.pairs })
    }

    /// That of lists of tokens, one after the other, each of which begins at position 0.
    pub fn of_lists(&self, lists: usize, tokens: usize) -> Result<Rotary> {
        let part = |all: &Tensor| {
            let size = all.shape()[2];
            let one = all.slice(0, ..tokens as isize)?;
            one.expand(&[lists, tokens, 1, size])?.reshape(&[lists * tokens, 1, size])
        };
        Ok(Rotary { own: part(&self.own)?, other: part(&self.other)?, pairs: self.pairs })
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
