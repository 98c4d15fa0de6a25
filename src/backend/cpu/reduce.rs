//! Reductions over blocks. Every sum has one fixed order: sixteen lanes within a stretch of a row, then one after the
//! other in `f64`.

use super::function::{larger, smaller};
use super::tiling::Layout;
use crate::dtype::DType;
use crate::op::Reduction;
use bytemuck::cast_slice;

/// Elements that are summed in `f32` lanes before the lanes go to `f64`.
const STRETCH: usize = 512;

const LANES: usize = 16;

/// A rectangle of a space: values of `rows` rows and `columns` columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rectangle {
    pub layout: Layout,
    pub rows: usize,
    pub columns: usize,
}

/// What has been combined so far, for each row of a block.
#[derive(Clone, Debug)]
pub(super) struct Accumulators {
    op: Reduction,
    dtype: DType,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    /// Sums and products of floats.
    Wide(Vec<f64>),
    Words(Vec<u32>),
}

impl Accumulators {
    /// Nothing combined yet, for `rows` rows.
    pub fn new(op: Reduction, dtype: DType, rows: usize) -> Accumulators {
        let dtype = dtype.compute();
        let values = match (op, dtype) {
            (Reduction::Sum, DType::F32) => Values::Wide(vec![0.0; rows]),
            (Reduction::Prod, DType::F32) => Values::Wide(vec![1.0; rows]),
            _ => Values::Words(vec![op.identity(dtype); rows]),
        };
        Accumulators { op, dtype, values }
    }

    /// Combines the values of a block.
    pub fn add(&mut self, block: Rectangle, data: &[u32]) {
        if data.is_empty() {
            return;
        }
        let (op, dtype) = (self.op, self.dtype);
        match (&mut self.values, block.layout) {
            (Values::Wide(sums), Layout::Rows) => {
                for (sum, row) in sums.iter_mut().zip(data.chunks_exact(block.columns)) {
                    match op {
                        Reduction::Prod => *sum *= product(cast_slice(row)),
                        _ => *sum += total(cast_slice(row)),
                    }
                }
            }
            (Values::Wide(sums), Layout::Columns) => {
                for column in cast_slice::<u32, f32>(data).chunks_exact(block.rows) {
                    let each = sums.iter_mut().zip(column);
                    match op {
                        Reduction::Prod => each.for_each(|(sum, &x)| *sum *= f64::from(x)),
                        _ => each.for_each(|(sum, &x)| *sum += f64::from(x)),
                    }
                }
            }
            (Values::Words(words), Layout::Rows) => {
                for (word, row) in words.iter_mut().zip(data.chunks_exact(block.columns)) {
                    *word = combine_row(op, dtype, *word, row);
                }
            }
            (Values::Words(words), Layout::Columns) => {
                for column in data.chunks_exact(block.rows) {
                    combine_each(op, dtype, words, column);
                }
            }
        }
    }

    /// Combines what comes after this.
    pub fn merge(&mut self, later: &Accumulators) {
        match (&mut self.values, &later.values) {
            (Values::Wide(sums), Values::Wide(more)) => {
                for (sum, more) in sums.iter_mut().zip(more) {
                    match self.op {
                        Reduction::Prod => *sum *= more,
                        _ => *sum += more,
                    }
                }
            }
            (Values::Words(words), Values::Words(more)) => {
                combine_each(self.op, self.dtype, words, more);
            }
            _ => {}
        }
    }

    /// The results.
    pub fn finish(&self, out: &mut [u32]) {
        match &self.values {
            Values::Wide(sums) => {
                for (out, &sum) in out.iter_mut().zip(sums) {
                    *out = (sum as f32).to_bits();
                }
            }
            Values::Words(words) => out.copy_from_slice(&words[..out.len()]),
        }
    }
}

/// The sum.
fn total(row: &[f32]) -> f64 {
    if row.len() < LANES {
        return f64::from(row.iter().sum::<f32>());
    }
    let mut sum = 0.0;
    for stretch in row.chunks(STRETCH) {
        let mut lanes = [0f32; LANES];
        let parts = stretch.chunks_exact(LANES);
        let rest = parts.remainder();
        for part in parts {
            for (lane, x) in lanes.iter_mut().zip(part) {
                *lane += x;
            }
        }
        for (lane, x) in lanes.iter_mut().zip(rest) {
            *lane += x;
        }
        sum += lanes.iter().map(|&x| f64::from(x)).sum::<f64>();
    }
    sum
}

/// The product; in `f64` throughout, because its range is what fails first.
fn product(row: &[f32]) -> f64 {
    let mut lanes = [1f64; 4];
    let parts = row.chunks_exact(4);
    let rest = parts.remainder();
    for part in parts {
        for (lane, &x) in lanes.iter_mut().zip(part) {
            *lane *= f64::from(x);
        }
    }
    let rest: f64 = rest.iter().map(|&x| f64::from(x)).product();
    (lanes[0] * lanes[1]) * (lanes[2] * lanes[3]) * rest
}

/// Names the function that combines two words, and goes on with it.
macro_rules! with_combiner {
    ($op:expr, $dtype:expr, $go:ident) => {
        match ($op, $dtype) {
            (Reduction::Max, DType::F32) => {
                $go!(|x, y| larger(f32::from_bits(x), f32::from_bits(y)).to_bits())
            }
            (Reduction::Min, DType::F32) => {
                $go!(|x, y| smaller(f32::from_bits(x), f32::from_bits(y)).to_bits())
            }
            (Reduction::Max, DType::I32) => $go!(|x, y| (x as i32).max(y as i32) as u32),
            (Reduction::Min, DType::I32) => $go!(|x, y| (x as i32).min(y as i32) as u32),
            (Reduction::Max, _) => $go!(|x, y| x.max(y)),
            (Reduction::Min, _) => $go!(|x, y| x.min(y)),
            (Reduction::Sum, _) => $go!(u32::wrapping_add),
            (Reduction::Prod, _) => $go!(u32::wrapping_mul),
            (Reduction::Any, _) => $go!(|x, y| x | y),
            (Reduction::All, _) => $go!(|x, y| x & y),
        }
    };
}

fn combine_row(op: Reduction, dtype: DType, start: u32, row: &[u32]) -> u32 {
    let identity = op.identity(dtype);
    macro_rules! go {
        ($f:expr) => {
            fold(start, identity, row, $f)
        };
    }
    with_combiner!(op, dtype, go)
}

fn combine_each(op: Reduction, dtype: DType, words: &mut [u32], more: &[u32]) {
    macro_rules! go {
        ($f:expr) => {
            each(words, more, $f)
        };
    }
    with_combiner!(op, dtype, go);
}

#[inline(always)]
fn each(words: &mut [u32], more: &[u32], f: impl Fn(u32, u32) -> u32) {
    for (word, &x) in words.iter_mut().zip(more) {
        *word = f(*word, x);
    }
}

#[inline(always)]
fn fold(start: u32, identity: u32, row: &[u32], f: impl Fn(u32, u32) -> u32) -> u32 {
    let mut lanes = [identity; LANES];
    let parts = row.chunks_exact(LANES);
    let rest = parts.remainder();
    for part in parts {
        for (lane, &x) in lanes.iter_mut().zip(part) {
            *lane = f(*lane, x);
        }
    }
    let whole = if row.len() < LANES { start } else { lanes.into_iter().fold(start, &f) };
    rest.iter().fold(whole, |all, &x| f(all, x))
}
