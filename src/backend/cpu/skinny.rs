//! Products of a matrix of few rows with a large one: each number of the large one is read once, in the order in
//! which it lies, by all threads. That is the work of a model that answers one person.

use super::matmul::Matrix;
use super::parallel;
use super::simd::{self, Loop};

/// Rows up to which a matrix counts as having few.
const FEW: usize = 16;

/// The same where the large matrix's columns lie side by side: each row beyond reads them anew.
pub(super) const FEW_DOWN: usize = 8;

/// Numbers of the large matrix from which on this is worth the trouble.
const WORTH: usize = 1 << 12;

/// Numbers of the large matrix that are worth a task.
const TASK: usize = 1 << 17;

/// Sums that stay near while the large matrix passes by, of all rows together.
const NEAR: usize = 1 << 12;

pub(super) const LANES: usize = 16;

/// Calls `visit(row, column, number)` for each number of `few * large`; few is rows times depth, large is depth
/// times columns, both inside their slices. False, with nothing done, where another way is better.
pub(super) fn multiply(
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
    // What lies side by side is read in long pieces, so each thread has whole columns, or wide parts of rows.
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
    fn run(mut self) {
        match self.way {
            Way::Down => self.down(),
            Way::Across => self.across(),
        }
    }
}

impl Task<'_> {
    #[inline(always)]
    fn down(&mut self) {
        let count = self.part.count;
        for column in 0..count {
            let at = self.large.position(0, self.part.first + column);
            let numbers = &self.large.data[at..at + self.depth];
            for (row, few) in self.few.chunks_exact(self.depth).enumerate() {
                self.out[row * count + column] = dot(few, numbers);
            }
        }
    }

    #[inline(always)]
    fn across(&mut self) {
        let Part { first, count, from, lines } = self.part;
        let line = |i: usize| {
            let at = self.large.position(i, first);
            &self.large.data[at..at + count]
        };
        let (whole, end) = (from + lines / 8 * 8, from + lines);
        for i in (from..whole).step_by(8) {
            let lines: [&[f32]; 8] = std::array::from_fn(|n| line(i + n));
            for (row, few) in self.few.chunks_exact(self.depth).enumerate() {
                let out = &mut self.out[row * count..][..count];
                let f: [f32; 8] = std::array::from_fn(|n| few[i + n]);
                for (at, out) in out.iter_mut().enumerate() {
                    let two = |n: usize| lines[n][at] * f[n] + lines[n + 1][at] * f[n + 1];
                    *out += (two(0) + two(2)) + (two(4) + two(6));
                }
            }
        }
        for i in whole..end {
            let line = line(i);
            for (row, few) in self.few.chunks_exact(self.depth).enumerate() {
                let out = &mut self.out[row * count..][..count];
                out.iter_mut().zip(line).for_each(|(out, x)| *out += x * few[i]);
            }
        }
    }
}

/// The sum of the products of two rows, in lanes.
#[inline(always)]
fn dot(few: &[f32], numbers: &[f32]) -> f32 {
    // So many that the sums stay a loop, which becomes vector code, and that none is waited for.
    const WIDE: usize = 8 * LANES;
    let mut lanes = [0f32; WIDE];
    let (few, numbers) = (few.chunks_exact(WIDE), numbers.chunks_exact(WIDE));
    let rest = few.remainder().iter().zip(numbers.remainder());
    for (few, numbers) in few.zip(numbers) {
        for ((lane, few), x) in lanes.iter_mut().zip(few).zip(numbers) {
            *lane += few * x;
        }
    }
    for (lane, (few, x)) in lanes.iter_mut().zip(rest) {
        *lane += few * x;
    }
    let mut width = WIDE / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}
