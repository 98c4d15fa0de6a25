//! Attention and related operators. They use the library's attention where it supports the options.

use super::super::args::{Operand, Stop};
use super::super::vectors::Kind;
use super::{one, Call, Results};
use warpweft::dtype::DType;
use warpweft::tensor::{AttentionOptions, Axes, Tensor};

pub fn call(name: &str, call: &Call) -> Results {
    match name {
        "Attention" => attention(call),
        _ => one(rotary(call)?, call.input(0)?.kind),
    }
}

/// Reshapes `[batch, length, heads * size]` to `[batch, heads, length, size]`. Returns a tensor that already has this shape
/// unchanged.
fn headed(x: &Tensor, heads: usize) -> Result<Tensor, Stop> {
    match *x.shape() {
        [batch, length, all] => {
            let parted = x.reshape(&[batch, length, heads, all / heads])?;
            Ok(parted.permute(&[0, 2, 1, 3])?)
        }
        _ => Ok(x.clone()),
    }
}

/// Returns the result, the keys and values including past ones, and the scores at the requested stage.
fn attention(call: &Call) -> Results {
    let kind = call.input(0)?.kind;
    let q_heads = call.args.integer("q_num_heads", 1)? as usize;
    let kv_heads = call.args.integer("kv_num_heads", 1)? as usize;
    let q = headed(&call.input(0)?.tensor, q_heads)?;
    let (mut k, mut v) =
        (headed(&call.input(1)?.tensor, kv_heads)?, headed(&call.input(2)?.tensor, kv_heads)?);
    if let (Some(keys), Some(values)) = (call.maybe(4), call.maybe(5)) {
        k = Tensor::concat(&[&keys.tensor, &k], 2)?;
        v = Tensor::concat(&[&values.tensor, &v], 2)?;
    }
    let scale = call.args.number("scale", 1.0 / (q.shape()[3] as f64).sqrt())?;
    call.args.maybe_number("softmax_precision")?;
    let softcap = call.args.number("softcap", 0.0)?;
    let stage = call.args.integer("qk_matmul_output_mode", 0)?;
    let fused = softcap == 0.0 && !call.args.names_output(3);
    let scores = Scores::new(call, &q, &k, fused)?;
    let (result, shown) = match fused {
        true => (scores.attend(&q, &k, &v, scale)?, q.clone()),
        false => scores.composed(&q, &k, &v, scale, softcap, stage)?,
    };
    let result = match call.input(0)?.tensor.rank() {
        3 => {
            let joined = result.permute(&[0, 2, 1, 3])?;
            let (batch, length) = (joined.shape()[0], joined.shape()[1]);
            joined.reshape(&[batch, length, q.shape()[1] * v.shape()[3]])?
        }
        _ => result,
    };
    Ok([result, k, v, shown].map(|tensor| Operand::new(tensor, kind)).into())
}

/// The keys that a query may attend to, and the bias of their scores.
struct Scores {
    /// Whether the library's causal mask and window describe the mask completely.
    causal: bool,
    window: Option<usize>,
    /// The number of keys that any query may attend to: the first ones.
    keys: usize,
    seen: Option<Tensor>,
    added: Option<Tensor>,
}

impl Scores {
    fn new(call: &Call, q: &Tensor, k: &Tensor, fused: bool) -> Result<Scores, Stop> {
        let (queries, keys) = (q.shape()[2], k.shape()[2]);
        let causal = call.flag("is_causal", false)?;
        let left = call.args.integer("left_window_size", -1)? as i32;
        let right = call.args.integer("right_window_size", -1)? as i32;
        let past = call.maybe(4).map_or(0, |past| past.tensor.shape()[2]);
        let lengths = call.maybe(6).map(|lengths| lengths.tensor.reshape(&[q.shape()[0], 1, 1, 1]));
        let lengths = lengths.transpose()?;
        // The library's window is symmetric. With `causal`, keys on the right of the diagonal are masked anyway.
        let even = left == right || (causal && right < 0);
        // In this case, no query may attend to the keys after the last query, so they can be left out.
        let after = causal && fused && call.maybe(3).is_none() && past + queries < keys;
        let plain = lengths.is_none() && (past + queries == keys || after);
        if plain && even && (causal || left >= 0) && (fused || left < 0) {
            let window = (left >= 0).then(|| left as usize + 1);
            let keys = past + queries;
            let (seen, added) = Scores::mask(call, None, keys)?;
            return Ok(Scores { causal, window, keys, seen, added });
        }
        // The distance of each key before the query, which has a position in the sequence of all keys.
        let (query, key) =
            (call.device.iota(&[queries, keys], 0)?, call.device.iota(&[queries, keys], 1)?);
        let offset = match &lengths {
            Some(lengths) if past == 0 => lengths.sub(queries as i32)?,
            _ => call.device.full(&[], past as f64, DType::I32)?,
        };
        let before = query.add(&offset)?.sub(&key)?;
        let mut seen: Option<Tensor> = None;
        let mut also = |more: Tensor| -> Result<(), Stop> {
            seen = Some(match &seen {
                Some(seen) => seen.logical_and(&more)?,
                None => more,
            });
            Ok(())
        };
        if causal {
            also(before.ge(0)?)?;
        }
        if left >= 0 {
            also(before.le(left)?)?;
        }
        if right >= 0 {
            also(before.ge(-right)?)?;
        }
        if let Some(lengths) = &lengths {
            also(key.lt(lengths)?)?;
        }
        let (seen, added) = Scores::mask(call, seen, keys)?;
        Ok(Scores { causal: false, window: None, keys, seen, added })
    }

    /// Adds the mask that is passed, boolean or additive. It may be shorter than the keys, and masks those that it leaves out.
    fn mask(
        call: &Call,
        seen: Option<Tensor>,
        keys: usize,
    ) -> Result<(Option<Tensor>, Option<Tensor>), Stop> {
        let Some(Operand { tensor: mask, kind, .. }) = call.maybe(3) else {
            return Ok((seen, None));
        };
        let mut pads = vec![(0, 0); mask.rank()];
        pads[mask.rank() - 1].1 = keys.saturating_sub(mask.shape()[mask.rank() - 1]);
        let short = pads.iter().any(|pad| pad.1 > 0);
        if *kind == Kind::Bool {
            let mask = if short { mask.pad(&pads, 0.0)? } else { mask.clone() };
            let seen = seen.map_or_else(|| Ok(mask.clone()), |seen| seen.logical_and(&mask))?;
            return Ok((Some(seen), None));
        }
        let mask = if short { mask.pad(&pads, f64::NEG_INFINITY)? } else { mask.clone() };
        Ok((seen, Some(mask)))
    }

    /// Returns the bias of the scores, including that of masked keys.
    fn bias(&self, like: &Tensor) -> Result<Option<Tensor>, Stop> {
        let Some(seen) = &self.seen else { return Ok(self.added.clone()) };
        let device = like.device();
        let hidden = device.full(&[], f64::NEG_INFINITY, like.dtype())?;
        let zero = device.full(&[], 0.0, like.dtype())?;
        Ok(Some(seen.where_cond(self.added.as_ref().unwrap_or(&zero), &hidden)?))
    }

    fn attend(&self, q: &Tensor, k: &Tensor, v: &Tensor, scale: f64) -> Result<Tensor, Stop> {
        let bias = match (&self.seen, &self.added) {
            (Some(seen), None) => Some(seen.clone()),
            _ => self.bias(q)?,
        };
        let &Scores { causal, window, .. } = self;
        let (mask, scale) = (bias.as_ref(), Some(scale));
        let options =
            AttentionOptions { is_causal: causal, window, attn_mask: mask, scale, kv_length: None };
        let first = |x: &Tensor| x.slice(2, ..self.keys as isize);
        Ok(q.attention(&first(k)?, &first(v)?, options)?)
    }

    /// Computes attention with matmuls and a softmax, because the scores are an output or have a soft cap.
    fn composed(
        &self,
        q: &Tensor,
        k: &Tensor,
        v: &Tensor,
        scale: f64,
        softcap: f64,
        stage: i64,
    ) -> Result<(Tensor, Tensor), Stop> {
        let times = q.shape()[1] / k.shape()[1];
        let repeated = |x: &Tensor| -> Result<Tensor, Stop> {
            let &[batch, heads, length, size] = x.shape() else {
                return Err(Stop::Wrong("rank".into()));
            };
            let spread = x.unsqueeze(2)?.expand(&[batch, heads, times, length, size])?;
            Ok(spread.reshape(&[batch, heads * times, length, size])?)
        };
        let product = q.matmul(&repeated(k)?.transpose(2, 3)?)?.mul(scale)?;
        let squeezed = match softcap == 0.0 {
            true => product.clone(),
            false => product.div(softcap)?.tanh().mul(softcap)?,
        };
        let mut bias = self.bias(q)?;
        if self.causal {
            let (queries, keys) = (q.shape()[2], k.shape()[2]);
            let hidden = q.device().full(&[queries, keys], f64::NEG_INFINITY, q.dtype())?;
            let order = hidden.triu((keys - queries) as i32 + 1)?;
            bias = Some(bias.map_or_else(|| Ok(order.clone()), |bias| bias.add(&order))?);
        }
        let masked =
            bias.as_ref().map_or_else(|| Ok(squeezed.clone()), |bias| squeezed.add(bias))?;
        let mut weights = masked.softmax(-1)?;
        // A query that may attend to no key gives zeros.
        if let Some(bias) = &bias {
            let blind = bias.max(Axes::from(-1).keepdim(true))?.eq(f64::NEG_INFINITY)?;
            weights = blind.where_cond(0.0, &weights)?;
        }
        let result = weights.matmul(&repeated(v)?)?;
        Ok((result, [product, squeezed, masked, weights][stage as usize].clone()))
    }
}

/// Applies rotary embeddings to `[batch, heads, length, size]`. The angles are given for each element, or for each possible
/// position.
fn rotary(call: &Call) -> Result<Tensor, Stop> {
    let x = &call.input(0)?.tensor;
    let heads = call.args.integer("num_heads", 1)? as usize;
    call.args.integer("rotary_embedding_dim", 0)?;
    let angle = |n: usize| -> Result<Tensor, Stop> {
        let cache = &call.input(n)?.tensor;
        let cache = match call.maybe(3) {
            Some(positions) => cache.index_select(0, &positions.tensor)?,
            None => cache.clone(),
        };
        Ok(cache.unsqueeze(1)?)
    };
    let interleaved = call.flag("interleaved", false)?;
    let turned = headed(x, heads)?.rotary(&angle(1)?, &angle(2)?, interleaved)?;
    match x.rank() {
        3 => Ok(turned.permute(&[0, 2, 1, 3])?.reshape(x.shape())?),
        _ => Ok(turned),
    }
}
