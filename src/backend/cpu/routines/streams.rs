//! Products of a few rows with a large matrix whose rows are contiguous.
//!
//! Such a product reads each weight once and does little with it, so memory limits its speed unless the processor prefetches.
//! A processor does that for a few addresses that each advance steadily. A part of the matrix is therefore read as
//! [`STREAMS`] streams. Stream s has the lines from `s * steps` on, and step j takes line j of each stream. With 16 lines and
//! 5 steps, step 0 takes lines 0, 5, 10 and 15, step 1 takes lines 1, 6 and 11, and each stream is contiguous.
//!
//! A step adds its lines to the sums of a tile, which is some rows times some vectors of columns. The tile stays in registers
//! during the step, so a weight is loaded once for up to eight rows.

use super::gemm::Matrix;
use crate::backend::cpu::math::lanes::{LaneWork, Lanes, Sixteen, LANES};
use bytemuck::{cast_slice, cast_slice_mut};
use std::ops::Range;

/// The streams of a part. Their lines may all map to one set of the first-level cache, which has eight ways.
const STREAMS: usize = 8;

/// A part of the large matrix: `count` columns from `first` on, `lines` lines from `from` on.
#[derive(Clone, Copy)]
pub struct Part {
    pub first: usize,
    pub count: usize,
    pub from: usize,
    pub lines: usize,
}

/// The sums of a part, with a row for each of the few rows.
pub struct Sums {
    numbers: Vec<f32>,
    stride: usize,
}

impl Sums {
    /// Creates sums of zero. The distance of rows is an odd number of vectors, so that rows map to different sets of the
    /// cache.
    fn new(rows: usize, count: usize) -> Sums {
        let stride = (count.div_ceil(LANES) | 1) * LANES;
        Sums { numbers: vec![0.0; rows * stride], stride }
    }

    /// Returns the sums of a row, followed by some meaningless numbers.
    pub fn row(&self, row: usize) -> &[f32] {
        &self.numbers[row * self.stride..][..self.stride]
    }

    /// Adds the sums of other lines.
    pub fn add(&mut self, other: &Sums) {
        self.numbers.iter_mut().zip(&other.numbers).for_each(|(sum, more)| *sum += more);
    }
}

/// The product of `rows` rows of `few` with a part of `large`, whose rows are contiguous.
pub struct Product<'a> {
    pub rows: usize,
    pub few: Matrix<'a>,
    pub large: Matrix<'a>,
    pub part: Part,
}

impl LaneWork for Product<'_> {
    type Output = Sums;
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) -> Sums {
        let most = match L::REGISTERS {
            32.. => 8,
            8.. => 6,
            _ => 3,
        };
        let height = self.rows.div_ceil(self.rows.div_ceil(most));
        if L::REGISTERS >= 32 {
            return match height {
                1 => self.tiles::<L, 1, 4>(lanes),
                2 => self.tiles::<L, 2, 4>(lanes),
                3 => self.tiles::<L, 3, 4>(lanes),
                4 => self.tiles::<L, 4, 4>(lanes),
                5 => self.tiles::<L, 5, 4>(lanes),
                6 => self.tiles::<L, 6, 4>(lanes),
                7 => self.tiles::<L, 7, 3>(lanes),
                _ => self.tiles::<L, 8, 3>(lanes),
            };
        }
        if L::REGISTERS >= 8 {
            return match height {
                1 => self.tiles::<L, 1, 2>(lanes),
                2 => self.tiles::<L, 2, 2>(lanes),
                3 => self.tiles::<L, 3, 1>(lanes),
                4 => self.tiles::<L, 4, 1>(lanes),
                5 => self.tiles::<L, 5, 1>(lanes),
                _ => self.tiles::<L, 6, 1>(lanes),
            };
        }
        match height {
            1 => self.tiles::<L, 1, 1>(lanes),
            2 => self.tiles::<L, 2, 1>(lanes),
            _ => self.tiles::<L, 3, 1>(lanes),
        }
    }
}

/// The lines that a step reads. The first one begins at `data[at]`, and each further one `gap` later.
#[derive(Clone, Copy)]
struct Lines<'a> {
    data: &'a [f32],
    at: usize,
    gap: usize,
}

impl Product<'_> {
    /// Computes the product in tiles of `R` rows and `C` vectors of columns. The remaining vectors are tiles of one vector.
    #[inline(always)]
    fn tiles<L: Lanes, const R: usize, const C: usize>(self, lanes: L) -> Sums {
        let Product { rows, few, large, part } = self;
        let Part { count, lines, .. } = part;
        let steps = steps(lines);
        let blocks: Vec<Vec<[f32; R]>> =
            (0..rows).step_by(R).map(|row| in_order(few, row..rows.min(row + R), part)).collect();
        let mut sums = Sums::new(rows.next_multiple_of(R), count);
        let stride = sums.stride;
        let (whole, vectors) = (count / (C * LANES) * (C * LANES), count / LANES * LANES);
        let mut ends = [0f32; STREAMS * LANES];
        let mut done = 0;
        for step in 0..steps.min(lines) {
            let height = (lines - step).div_ceil(steps);
            let at = large.position(part.from + step, part.first);
            let gap = large.strides[0] as usize * steps;
            let line = |column: usize| Lines { data: large.data, at: at + column, gap };
            for (line, end) in ends.chunks_exact_mut(LANES).take(height).enumerate() {
                let rest = &large.data[at + line * gap..][vectors..count];
                end.iter_mut().zip(rest).for_each(|(end, &number)| *end = number);
            }
            let end = Lines { data: &ends, at: 0, gap: LANES };
            let x = |block: usize| &blocks[block][done..done + height];
            for column in (0..whole).step_by(C * LANES) {
                for (block, out) in sums.numbers.chunks_exact_mut(R * stride).enumerate() {
                    add::<L, R, C>(lanes, x(block), line(column), &mut out[column..], stride);
                }
            }
            for column in (whole..count).step_by(LANES) {
                let lines = if column < vectors { line(column) } else { end };
                for (block, out) in sums.numbers.chunks_exact_mut(R * stride).enumerate() {
                    add::<L, R, 1>(lanes, x(block), lines, &mut out[column..], stride);
                }
            }
            done += height;
        }
        sums
    }
}

/// Returns the steps of a part. Their number is odd, so that the streams of most matrices map to different sets of a cache.
fn steps(lines: usize) -> usize {
    lines.div_ceil(STREAMS) | 1
}

/// Returns the numbers of some rows in the order in which the part's lines are read. Missing rows are zeros.
fn in_order<const R: usize>(few: Matrix<'_>, rows: Range<usize>, part: Part) -> Vec<[f32; R]> {
    let Part { from, lines, .. } = part;
    let (mut numbers, steps) = (Vec::with_capacity(lines), steps(lines));
    let present = rows.len();
    let starts: [i64; R] =
        std::array::from_fn(|i| few.position(rows.start + i.min(present - 1), from) as i64);
    for step in 0..steps {
        for line in (step..lines).step_by(steps) {
            let along = line as i64 * few.strides[1];
            let number = |i: usize| few.data[(starts[i] + along) as usize];
            numbers.push(std::array::from_fn(|i| if i < present { number(i) } else { 0.0 }));
        }
    }
    numbers
}

/// Adds the products of a step to a tile's sums. Rows of the sums are `stride` apart.
#[inline(always)]
fn add<L: Lanes, const R: usize, const C: usize>(
    lanes: L,
    x: &[[f32; R]],
    lines: Lines<'_>,
    out: &mut [f32],
    stride: usize,
) {
    let mut sums = [[lanes.splat(0.0); C]; R];
    let mut at = lines.at;
    for x in x {
        let line = cast_slice::<f32, Sixteen>(&lines.data[at..][..C * LANES]);
        let w: [L::Floats; C] = std::array::from_fn(|c| lanes.load(&line[c]));
        for r in 0..R {
            let x = lanes.splat(x[r]);
            for c in 0..C {
                sums[r][c] = lanes.mul_add(x, w[c], sums[r][c]);
            }
        }
        at += lines.gap;
    }
    for (row, sums) in sums.iter().enumerate() {
        let out = cast_slice_mut::<f32, Sixteen>(&mut out[row * stride..][..C * LANES]);
        for (out, &sum) in out.iter_mut().zip(sums) {
            let sum = lanes.store(sum);
            for i in 0..LANES {
                out[i] += sum[i];
            }
        }
    }
}
