//! The key-value cache of a decoder, and its rotary embedding.

use super::config::ModelConfig;
use super::PROMPT;
use crate::alloc::try_vec;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::shape::Shape;
use crate::tensor::{AttentionOptions, Tensor, Variable};
use std::sync::Arc;

/// The keys and values of the tokens so far, for each layer.
///
/// A layer with a window stores the tokens of the window. Behind them it has room for one more part of a prompt ([`PROMPT`]
/// tokens). When the room is full, the window moves to the front. So keys are always in the order of their tokens, as
/// attention requires.
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

/// Creates a variable of zeros with allocated memory, which tokens are written into. `Device::zeros` allocates no memory
/// until something reads the tensor, so the first tokens would write the whole cache.
fn zeros(device: &Device, shape: &[usize], dtype: DType) -> Result<Variable> {
    let count = Shape::new("model", shape)?.numel() * dtype.size();
    let mut bytes: Vec<u8> = try_vec("model", count)?;
    bytes.resize(count, 0);
    Ok(Variable::new(&device.tensor_from_bytes(&bytes, shape, dtype)?))
}

/// Returns the number of tokens that a layer has room for in a context of `tokens`.
pub fn capacity(tokens: usize, window: Option<usize>) -> usize {
    window.map_or(tokens, |window| tokens.min((window - 1).saturating_add(PROMPT)))
}

impl KvCache {
    /// Creates an empty cache for contexts of up to `tokens`.
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

    /// Computes attention of new tokens to earlier tokens and to themselves. `q` is `[tokens, heads, size]`. `k` and `v` are
    /// `[tokens, kv heads, size]`. The result is `[tokens, heads * size]`.
    pub fn attend(&self, layer: usize, [q, k, v]: [&Tensor; 3], at: &Positions) -> Result<Tensor> {
        let (tokens, heads, size) = (q.shape()[0], q.shape()[1], q.shape()[2]);
        let Layer { keys, values, window } = &self.layers[layer];
        let slots = if window.is_some() { &at.windowed } else { &at.whole };
        for (cache, new) in [(keys, k), (values, v)] {
            let new = across(new, 1)?.cast(self.dtype)?;
            cache.assign(&cache.value().slice_scatter_from(2, &slots.start, &new)?.detach())?;
        }
        let options = AttentionOptions {
            is_causal: tokens > 1,
            window: *window,
            ..AttentionOptions::default()
        };
        let (keys, values) = (keys.value().cast(DType::F32)?, values.value().cast(DType::F32)?);
        let seen =
            across(q, 1)?.attention_with_length(&keys, &values, options, Some(&slots.end))?;
        seen.squeeze(0)?.transpose(0, 1)?.reshape(&[tokens, heads * size])
    }
}

/// Reshapes concatenated lists of tokens for attention: `[lists * tokens, heads, size]` to `[lists, heads, tokens, size]`.
pub fn across(x: &Tensor, lists: usize) -> Result<Tensor> {
    let &[tokens, heads, size] = x.shape() else { unreachable!("heads have three axes") };
    x.reshape(&[lists, tokens / lists, heads, size])?.transpose(1, 2)
}

/// The positions of new tokens in the cache. Positions are data, so one program serves all of them.
pub struct Positions {
    /// The slots in layers that see all tokens. They equal the positions in the context.
    whole: Slots,
    /// The slots in layers with a window.
    windowed: Slots,
    /// The number of new tokens.
    tokens: usize,
}

/// A range of slots of a cache, as `i32` of rank 0.
struct Slots {
    start: Tensor,
    end: Tensor,
}

impl Positions {
    /// Takes the tensor of the numbers that [`CachedTokens::slots`] returns.
    pub fn new(numbers: &Tensor, tokens: usize) -> Result<Positions> {
        let number = |n: isize| numbers.slice(0, n..n + 1)?.reshape(());
        let slots = |n| Ok(Slots { start: number(n)?, end: number(n + 1)? });
        Ok(Positions { whole: slots(0)?, windowed: slots(2)?, tokens })
    }
}

/// A cache with the number of tokens in it.
pub struct CachedTokens {
    pub cache: Arc<KvCache>,
    /// The window of the layers that have one.
    window: Option<usize>,
    /// The number of tokens that layers with a window have room for.
    room: usize,
    /// The number of tokens in the cache.
    length: usize,
    /// The number of first tokens that layers with a window have dropped.
    dropped: usize,
}

impl CachedTokens {
    /// Creates an empty cache for contexts of up to `tokens`.
    pub fn new(
        device: &Device,
        config: &ModelConfig,
        tokens: usize,
        dtype: DType,
    ) -> Result<CachedTokens> {
        let cache = Arc::new(KvCache::new(device, config, tokens, dtype)?);
        let (window, room) = (config.window, capacity(tokens, config.window));
        Ok(CachedTokens { cache, window, room, length: 0, dropped: 0 })
    }

    /// Returns the number of tokens in the cache.
    pub fn len(&self) -> usize {
        self.length
    }

    /// Returns the slots of the next `tokens`: begin and end in layers that see all tokens, then begin and end in layers with
    /// a window.
    pub fn slots(&self, tokens: usize) -> [i32; 4] {
        let within = self.length - self.dropped;
        [self.length, self.length + tokens, within, within + tokens].map(|slot| slot as i32)
    }

    /// Makes room for `tokens` more. Moves the windows to the front if they are at the end.
    pub fn make_room(&mut self, tokens: usize) -> Result<()> {
        let Some(window) = self.window else { return Ok(()) };
        if self.length + tokens - self.dropped <= self.room {
            return Ok(());
        }
        let dropped = self.length.saturating_sub(window - 1);
        let kept = (dropped - self.dropped) as isize..(self.length - self.dropped) as isize;
        for layer in self.cache.layers.iter().filter(|layer| layer.window.is_some()) {
            for cache in [&layer.keys, &layer.values] {
                cache.assign_slice(2, 0, &cache.value().slice(2, kept.clone())?.detach())?;
            }
        }
        self.dropped = dropped;
        Ok(())
    }

    /// Counts tokens whose keys and values are now in all layers.
    pub fn extend(&mut self, tokens: usize) {
        self.length += tokens;
    }

    /// Keeps the first `length` tokens. Keeps none if a window has dropped tokens that the next token sees.
    pub fn truncate(&mut self, length: usize) {
        if length < self.length {
            let first = length.saturating_sub(self.window.map_or(length, |window| window - 1));
            self.length = if self.dropped <= first { length } else { 0 };
        }
        if self.length == 0 {
            self.dropped = 0;
        }
    }
}

/// The rotary embedding (Su et al. 2021). Rotates pairs of elements of each head by angles that grow with the position.
pub struct Rotary {
    /// The factors of an element and of the other element of its pair, `[positions, 1, head size]`.
    own: Tensor,
    other: Tensor,
    pairs: Pairs,
}

/// The elements that form a pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pairs {
    /// Two neighbors.
    Neighbours,
    /// Elements `n` and `n + size / 2` of the rotated elements.
    Halves,
}

impl Rotary {
    /// Computes the factors for `positions` positions. The n-th pair rotates by the position times `base^(-2n / size)`,
    /// divided by its factor. `size` is the number of rotated elements, which are the first of the head.
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
        let count = positions.saturating_mul(head);
        let (mut own, mut other) = (try_vec("model", count)?, try_vec("model", count)?);
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

    /// Returns the factors for the positions of some tokens.
    pub fn of(&self, at: &Positions) -> Result<Rotary> {
        let part = |all: &Tensor| all.slice_from(0, &at.whole.start, at.tokens);
        Ok(Rotary { own: part(&self.own)?, other: part(&self.other)?, pairs: self.pairs })
    }

    /// Returns the factors for concatenated lists of tokens. Each list begins at position 0.
    pub fn of_lists(&self, lists: usize, tokens: usize) -> Result<Rotary> {
        let part = |all: &Tensor| {
            let size = all.shape()[2];
            let one = all.slice(0, ..tokens as isize)?;
            one.expand(&[lists, tokens, 1, size])?.reshape(&[lists * tokens, 1, size])
        };
        Ok(Rotary { own: part(&self.own)?, other: part(&self.other)?, pairs: self.pairs })
    }

    /// Rotates `x [tokens, heads, head size]`.
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
