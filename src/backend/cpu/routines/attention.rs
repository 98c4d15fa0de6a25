//! Attention in blocks of queries and keys, with a running maximum and a running sum for each query.

use super::epilogue::EpiloguePlan;
use super::gemm::{multiply, Matrix};
use super::operand::{Blocks, OperandPlan, Strided};
use crate::backend::cpu::exec::inputs::Inputs;
use crate::backend::cpu::exec::parallel;
use crate::backend::cpu::lower::tiling::count;
use crate::backend::cpu::math::elementary::exp;
use crate::backend::cpu::math::function::larger;
use crate::error::{Error, Result};
use crate::kernel::{Attention, Counts};
use std::ops::Range;

/// The queries and the keys of a block.
const QUERIES: usize = 64;
const KEYS: usize = 256;

/// A prepared attention.
pub struct AttentionPlan {
    causal: bool,
    window: Option<usize>,
    batch: usize,
    heads: usize,
    kv_heads: usize,
    queries: usize,
    keys: usize,
    head_size: usize,
    value_size: usize,
    q: OperandPlan,
    k: OperandPlan,
    v: OperandPlan,
    mask: Option<OperandPlan>,
    scale: OperandPlan,
    length: Option<OperandPlan>,
    epilogue: EpiloguePlan,
}

/// The values of the operands.
struct Operands<'a> {
    q: Strided<'a>,
    k: Blocks<'a>,
    v: Blocks<'a>,
    mask: Option<Strided<'a>>,
    scale: f32,
    /// The number of keys that count.
    keys: usize,
}

/// The temporary memory of a block.
struct Scratch {
    scores: Vec<f32>,
    /// The keys or values as floats, if they are `f16`.
    widened: Vec<f32>,
    maximum: [f32; QUERIES],
    sum: [f32; QUERIES],
}

impl AttentionPlan {
    /// Prepares attention.
    pub fn new(attend: &Attention, counts: Counts) -> Result<AttentionPlan> {
        let &Attention { batch, heads, kv_heads, queries, keys, head_size, value_size, .. } =
            attend;
        if kv_heads == 0 || heads % kv_heads != 0 {
            let message =
                format!("cpu: heads of a kernel must be a multiple of {kv_heads}, got {heads}");
            return Err(Error::state(message));
        }
        let operand = |operand, dims: &[usize]| OperandPlan::new(operand, dims, counts);
        let mask = attend.mask.as_ref();
        let result = [batch, heads, queries, value_size];
        Ok(AttentionPlan {
            causal: attend.causal,
            window: attend.window,
            batch,
            heads,
            kv_heads,
            queries,
            keys,
            head_size,
            value_size,
            q: operand(&attend.q, &[batch, heads, queries, head_size])?,
            k: operand(&attend.k, &[batch, kv_heads, keys, head_size])?,
            v: operand(&attend.v, &[batch, kv_heads, keys, value_size])?,
            mask: mask.map(|mask| operand(mask, &[batch, heads, queries, keys])).transpose()?,
            scale: operand(&attend.scale, &[])?,
            length: attend.length.as_ref().map(|length| operand(length, &[])).transpose()?,
            epilogue: EpiloguePlan::new(&attend.epilogue, &result, counts)?,
        })
    }

    /// Runs the attention.
    pub fn run(&self, inputs: &Inputs<'_>, outputs: &mut [&mut [u32]]) -> Result<()> {
        if count(&[self.batch, self.heads, self.queries, self.value_size])? == 0 {
            return Ok(());
        }
        self.epilogue.run(inputs, outputs, |out| {
            let number = |plan: &OperandPlan| {
                plan.read(inputs).map(|number| number.data[number.offset as usize])
            };
            let keys = match &self.length {
                // Only the bits are used, because all operands are read as floats.
                Some(length) => self.keys.min(number(length)?.to_bits() as usize),
                None => self.keys,
            };
            let operands = Operands {
                q: self.q.read(inputs)?,
                k: self.k.blocks(inputs)?,
                v: self.v.blocks(inputs)?,
                mask: self.mask.as_ref().map(|mask| mask.read(inputs)).transpose()?,
                scale: number(&self.scale)?,
                keys,
            };
            let together = self.together();
            let heads = out.chunks_mut(together * self.queries * self.value_size).enumerate();
            let blocks = heads.flat_map(|(at, out)| {
                let blocks = out.chunks_mut(QUERIES * self.value_size).enumerate();
                blocks.map(move |(block, out)| (at * together, block * QUERIES, out))
            });
            parallel::for_each(
                blocks.collect(),
                |(head, first, out): (usize, usize, &mut [f32])| {
                    self.block(&operands, [head / self.heads, head % self.heads], first, out);
                },
            );
            Ok(())
        })
    }

    /// Returns the number of heads that are computed together. With one query, they are the heads that share keys and values,
    /// so that `f16` keys and values are converted once. At least two tasks remain.
    fn together(&self) -> usize {
        let group = self.heads / self.kv_heads;
        match (self.queries, self.batch * self.kv_heads) {
            (1, 1) => group.div_ceil(2).min(QUERIES),
            (1, _) if group <= QUERIES => group,
            _ => 1,
        }
    }

    /// Returns the head and the query of a row, counted from `head` and `first`.
    fn row(&self, head: usize, first: usize, row: usize) -> (usize, usize) {
        match self.queries {
            1 => (head + row, 0),
            _ => (head, first + row),
        }
    }

    /// Computes one row of `out` for each query from `first` on, or for each head.
    fn block(&self, operands: &Operands<'_>, at: [usize; 2], first: usize, out: &mut [f32]) {
        let rows = out.len() / self.value_size;
        let mut scratch = Scratch {
            scores: vec![0.0; rows * KEYS.min(operands.keys)],
            widened: Vec::new(),
            maximum: [f32::NEG_INFINITY; QUERIES],
            sum: [0.0; QUERIES],
        };
        out.fill(0.0);
        let all = operands.keys;
        let last = self.row(at[1], first, rows - 1).1;
        let (hidden, seen) = (self.seen(first, all).start, self.seen(last, all).end);
        for start in (hidden..seen).step_by(KEYS) {
            let keys = KEYS.min(seen - start);
            self.scores(operands, at, (first, rows), (start, keys), &mut scratch);
            self.weigh((first, rows), (start, keys), all, &mut scratch, out);
            let (kv_at, size) = ([at[0], self.kv_head(at[1])], [keys, self.value_size]);
            let b = operands.v.matrix(kv_at, start, size, &mut scratch.widened);
            let a = Matrix { data: &scratch.scores, offset: 0, strides: [keys as i64, 1] };
            let size = [rows, self.value_size, keys];
            multiply(size, out, self.value_size, a, b, (true, false));
        }
        for (row, sum) in out.chunks_mut(self.value_size).zip(scratch.sum) {
            if sum != 0.0 {
                row.iter_mut().for_each(|x| *x /= sum);
            }
        }
    }

    /// Returns the keys that a query attends to, of `keys` keys that count. The last query has the position of the last key.
    fn seen(&self, query: usize, keys: usize) -> Range<usize> {
        let next = query + 1 + keys;
        let to = match (self.causal, self.window) {
            (true, _) => next.saturating_sub(self.queries),
            (false, Some(window)) => (next - 1).saturating_add(window).saturating_sub(self.queries),
            (false, None) => keys,
        };
        let from = match self.window {
            Some(window) => next.saturating_sub(self.queries).saturating_sub(window),
            None => 0,
        };
        let to = to.min(keys);
        from.min(to)..to
    }

    fn kv_head(&self, head: usize) -> usize {
        head / (self.heads / self.kv_heads)
    }

    /// Computes scaled and masked scores of a block.
    fn scores(
        &self,
        operands: &Operands<'_>,
        [image, head]: [usize; 2],
        (first, rows): (usize, usize),
        (start, keys): (usize, usize),
        scratch: &mut Scratch,
    ) {
        let Scratch { scores, widened, .. } = scratch;
        let q = &operands.q;
        let a = Matrix {
            data: &q.data,
            offset: q.at(&[image, head, first]),
            strides: [if self.queries == 1 { q.strides[1] } else { q.strides[2] }, q.strides[3]],
        };
        let kv_at = [image, self.kv_head(head)];
        let b = operands.k.matrix(kv_at, start, [keys, self.head_size], widened).transposed();
        multiply([rows, keys, self.head_size], scores, keys, a, b, (false, false));
        for (row, scores) in scores.chunks_mut(keys).take(rows).enumerate() {
            scores.iter_mut().for_each(|x| *x *= operands.scale);
            if let Some(mask) = &operands.mask {
                let (head, query) = self.row(head, first, row);
                let from = mask.at(&[image, head, query, start]);
                if mask.strides[3] == 1 {
                    let from = &mask.data[from as usize..from as usize + keys];
                    scores.iter_mut().zip(from).for_each(|(x, m)| *x += m);
                } else {
                    for (i, x) in scores.iter_mut().enumerate() {
                        *x += mask.data[(from + i as i64 * mask.strides[3]) as usize];
                    }
                }
            }
        }
    }

    /// Converts scores to weights, and rescales the earlier results to the new maximum.
    fn weigh(
        &self,
        (first, rows): (usize, usize),
        (start, keys): (usize, usize),
        all: usize,
        scratch: &mut Scratch,
        out: &mut [f32],
    ) {
        for row in 0..rows {
            let scores = &mut scratch.scores[row * keys..(row + 1) * keys];
            let seen = self.seen(self.row(0, first, row).1, all);
            let [from, to] = [seen.start, seen.end].map(|key| key.saturating_sub(start).min(keys));
            let (scores, unseen) = scores.split_at_mut(to);
            unseen.fill(0.0);
            let (hidden, scores) = scores.split_at_mut(from);
            hidden.fill(0.0);
            let before = scratch.maximum[row];
            let maximum = scores.iter().fold(before, |m, &x| larger(m, x));
            if maximum == f32::NEG_INFINITY {
                scores.fill(0.0);
                continue;
            }
            let mut sum = 0.0;
            for lanes in scores.chunks_mut(16) {
                lanes.iter_mut().for_each(|x| *x = exp(*x - maximum));
                sum += lanes.iter().sum::<f32>();
            }
            if maximum != before {
                let shrink = exp(before - maximum);
                scratch.sum[row] *= shrink;
                let out = &mut out[row * self.value_size..(row + 1) * self.value_size];
                out.iter_mut().for_each(|x| *x *= shrink);
            }
            scratch.sum[row] += sum;
            scratch.maximum[row] = maximum;
        }
    }
}
