//! Products of a matrix of few rows with a large one: each number of the large one is read once, in the order in
//! which it lies, by all threads. That is the work of a model that answers one person.

use super::gemm::Matrix;
use crate::backend::cpu::exec::parallel;
use crate::backend::cpu::math::simd::{self, Loop};

/// Rows up to which a matrix counts as having few.
const FEW: usize = 16;

/// The same where the large matrix's columns lie side by side.
pub const FEW_DOWN: usize = 12;

/// Numbers of the large matrix from which on this is worth the trouble.
const WORTH: usize = 1 << 12;

/// Numbers of the large matrix that are worth a task.
const TASK: usize = 1 << 17;

/// Sums that stay near while the large matrix passes by, of all rows together.
const NEAR: usize = 1 << 12;

pub const LANES: usize = 16;

/// Calls `visit(row, column, number)` for each number of `few * large`; few is rows times depth, large is depth
/// times columns, both inside their slices. False, with nothing done, where another way is better.
pub fn multiply(
    [rows, columns, depth]: [usize; 3],
    few: Matrix<'_>,
    large: Matrix<'_>,
    threads: bool,
    mut visit: impl FnMut(usize, usize, f32),
) -> bool {
    let worth = columns >= LANES && depth >= LANES && columns.saturating_mul(depth) >= WORTH;
    let way = match large.strides {
        [1, _] => Way::Down,
        [_, 1] => Way::Across,
        _ => return false,
    };
    let few_rows = if let Way::Down = way { FEW_DOWN } else { FEW };
    if rows == 0 || rows > few_rows || !worth {
        return false;
    }
    let few: Vec<f32> =
        (0..rows * depth).map(|i| few.data[few.position(i / depth, i % depth)]).collect();
    let parts = parts(way, [rows, columns, depth]);
    let work = |part: Part| {
        let mut out = vec![0f32; rows * part.count];
        simd::run(Task { few: &few, large, depth, part, out: &mut out, way });
        out
    };
    let found: Vec<Vec<f32>> = match threads {
        true => parallel::map(parts.clone(), work),
        false => parts.iter().map(|&part| work(part)).collect(),
    };
    let mut sums: Vec<f32> = Vec::new();
    for (part, found) in parts.into_iter().zip(found) {
        match part.from {
            0 => sums = found,
            _ => sums.iter_mut().zip(found).for_each(|(sum, more)| *sum += more),
        }
        if part.from + part.lines == depth {
            for (at, &number) in sums.iter().enumerate() {
                visit(at / part.count, part.first + at % part.count, number);
            }
        }
    }
    true
}

/// The parts of the large matrix, from the first columns on, and of those from the first lines on. What lies side by side is
/// read in long pieces, so each thread has whole columns, or wide parts of rows.
fn parts(way: Way, [rows, columns, depth]: [usize; 3]) -> Vec<Part> {
    let (wide, deep) = match way {
        Way::Down => ((TASK / depth).next_multiple_of(LANES).max(LANES), depth),
        Way::Across => {
            let wide = (NEAR / rows).min(columns);
            (wide, (TASK / wide).next_multiple_of(8))
        }
    };
    let mut parts = Vec::new();
    for first in (0..columns).step_by(wide) {
        for from in (0..depth).step_by(deep) {
            let (count, lines) = (wide.min(columns - first), deep.min(depth - from));
            parts.push(Part { first, count, from, lines });
        }
    }
    parts
}

/// A part of the large matrix: so many columns and lines.
#[derive(Clone, Copy)]
struct Part {
    first: usize,
    count: usize,
    from: usize,
    lines: usize,
}

/// How the large matrix lies.
#[derive(Clone, Copy)]
enum Way {
    /// A column's numbers side by side.
    Down,
    /// A row's.
    Across,
}

/// The products with a part; `out` has its columns row by row, and zeros.
struct Task<'a> {
    few: &'a [f32],
    large: Matrix<'a>,
    depth: usize,
    part: Part,
    out: &'a mut [f32],
    way: Way,
}

impl Loop for Task<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        self.multiply(|x, y, sum| x * y + sum);
    }
    #[inline(always)]
    fn run_fused(self) {
        self.multiply(f32::mul_add);
    }
}

impl Task<'_> {
    #[inline(always)]
    fn multiply(mut self, add: impl Add) {
        match self.way {
            Way::Down => self.down(add),
            Way::Across => self.across(add),
        }
    }

    #[inline(always)]
    fn down(&mut self, add: impl Add) {
        let count = self.part.count;
        for column in 0..count {
            let at = self.large.position(0, self.part.first + column);
            let numbers = &self.large.data[at..at + self.depth];
            let mut pairs = self.few.chunks_exact(2 * self.depth);
            for (pair, few) in pairs.by_ref().enumerate() {
                let sums = dots(few.split_at(self.depth).into(), numbers, add);
                self.out[2 * pair * count + column] = sums[0];
                self.out[(2 * pair + 1) * count + column] = sums[1];
            }
            let few = pairs.remainder();
            if !few.is_empty() {
                let [sum] = dots([few], numbers, add);
                self.out[(self.few.len() / self.depth - 1) * count + column] = sum;
            }
        }
    }

    #[inline(always)]
    fn across(&mut self, add: impl Add) {
        let Part { first, count, from, lines } = self.part;
        let line = |i: usize| {
            let at = self.large.position(i, first);
            &self.large.data[at..at + count]
        };
        let (whole, end) = (from + lines / 8 * 8, from + lines);
        for i in (from..whole).step_by(8) {
            let lines: [&[f32]; 8] = std::array::from_fn(|n| line(i + n));
            let numbers = |row: usize| {
                let few = &self.few[row * self.depth + i..][..8];
                std::array::from_fn(|n| few[n])
            };
            let mut outs = self.out.chunks_exact_mut(2 * count);
            for (pair, out) in outs.by_ref().enumerate() {
                let few = [numbers(2 * pair), numbers(2 * pair + 1)];
                pass_two(lines, few, out.split_at_mut(count).into(), add);
            }
            let out = outs.into_remainder();
            if !out.is_empty() {
                pass(lines, numbers(self.few.len() / self.depth - 1), out, add);
            }
        }
        for i in whole..end {
            let line = line(i);
            for (row, few) in self.few.chunks_exact(self.depth).enumerate() {
                let out = &mut self.out[row * count..][..count];
                out.iter_mut().zip(line).for_each(|(out, &x)| *out = add(x, few[i], *out));
            }
        }
    }
}

/// Eight numbers that lie below each other.
type Eight = [f32; 8];

/// Adds eight lines of the large matrix, times a row's numbers each, to the row's sums.
#[inline(always)]
fn pass(lines: [&[f32]; 8], few: Eight, sums: &mut [f32], add: impl Add) {
    let [a, b, c, d, e, f, g, h] = cut(lines, sums.len());
    for (at, sum) in sums.iter_mut().enumerate() {
        let x = [a[at], b[at], c[at], d[at], e[at], f[at], g[at], h[at]];
        *sum = inner(x, &few, *sum, add);
    }
}

/// The same for two rows, which share what is read.
#[inline(always)]
fn pass_two(lines: [&[f32]; 8], few: [Eight; 2], [above, below]: [&mut [f32]; 2], add: impl Add) {
    let n = above.len();
    let below = &mut below[..n];
    let [a, b, c, d, e, f, g, h] = cut(lines, n);
    // Zipped, the two would end in a loop of single numbers.
    for at in 0..n {
        let x = [a[at], b[at], c[at], d[at], e[at], f[at], g[at], h[at]];
        let sums = (inner(x, &few[0], above[at], add), inner(x, &few[1], below[at], add));
        (above[at], below[at]) = sums;
    }
}

/// The lines' beginnings, each cut by itself: the compiler sees then that no place lies outside.
#[inline(always)]
fn cut([a, b, c, d, e, f, g, h]: [&[f32]; 8], n: usize) -> [&[f32]; 8] {
    [&a[..n], &b[..n], &c[..n], &d[..n], &e[..n], &f[..n], &g[..n], &h[..n]]
}

/// A sum and eight products.
#[inline(always)]
fn inner(x: Eight, few: &Eight, sum: f32, add: impl Add) -> f32 {
    let left = add(x[2], few[2], add(x[3], few[3], add(x[0], few[0], add(x[1], few[1], sum))));
    let right = add(x[4], few[4], x[5] * few[5]);
    left + add(x[6], few[6], add(x[7], few[7], right))
}

/// `x * y + sum`.
trait Add: Fn(f32, f32, f32) -> f32 + Copy {}
impl<F: Fn(f32, f32, f32) -> f32 + Copy> Add for F {}

/// The sums of the products of rows and a column, in lanes.
#[inline(always)]
fn dots<const ROWS: usize>(few: [&[f32]; ROWS], numbers: &[f32], add: impl Add) -> [f32; ROWS] {
    // So many that the sums stay a loop, which becomes vector code, and that none is waited for.
    const WIDE: usize = 8 * LANES;
    let mut lanes = [[0f32; WIDE]; ROWS];
    let whole = numbers.len() / WIDE * WIDE;
    for at in (0..whole).step_by(WIDE) {
        let x = &numbers[at..][..WIDE];
        let few = few.map(|few| &few[at..][..WIDE]);
        for lane in 0..WIDE {
            for row in 0..ROWS {
                lanes[row][lane] = add(few[row][lane], x[lane], lanes[row][lane]);
            }
        }
    }
    for at in whole..numbers.len() {
        for row in 0..ROWS {
            lanes[row][at - whole] = add(few[row][at], numbers[at], lanes[row][at - whole]);
        }
    }
    lanes.map(|mut lanes| {
        let mut width = WIDE / 2;
        while width > 0 {
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
            width /= 2;
        }
        lanes[0]
    })
}
