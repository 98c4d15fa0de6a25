//! Products of a matrix of few rows with a large one: each number of the large one is read once, in the order in
//! which it lies, by all threads. That is the work of a model that answers one person.

use super::matmul::Matrix;
use super::parallel;
use super::simd::{self, Loop};

/// Rows up to which a matrix counts as having few.
const FEW: usize = 8;

/// Numbers of the large matrix from which on this is worth the trouble.
const WORTH: usize = 1 << 12;

/// Numbers of the large matrix that are worth a task.
const TASK: usize = 1 << 17;

const LANES: usize = 16;

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
    let (unit, way) = match large.strides {
        [1, _] => (LANES, Way::Down),
        [_, 1] => (512, Way::Across),
        _ => return false,
    };
    if rows == 0 || rows > FEW || !worth {
        return false;
    }
    let few: Vec<f32> =
        (0..rows * depth).map(|i| few.data[few.position(i / depth, i % depth)]).collect();
    let each = (TASK / depth).next_multiple_of(unit).max(unit);
    let tasks: Vec<usize> = (0..columns).step_by(each).collect();
    let work = |first: usize| {
        let count = each.min(columns - first);
        let mut out = vec![0f32; rows * count];
        simd::run(Task { few: &few, large, depth, first, count, out: &mut out, way });
        out
    };
    let parts: Vec<Vec<f32>> = match threads {
        true => parallel::map(tasks.clone(), work),
        false => tasks.iter().map(|&first| work(first)).collect(),
    };
    for (first, part) in tasks.into_iter().zip(parts) {
        let count = part.len() / rows;
        for (at, number) in part.into_iter().enumerate() {
            visit(at / count, first + at % count, number);
        }
    }
    true
}

/// How the large matrix lies.
#[derive(Clone, Copy)]
enum Way {
    /// A column's numbers side by side.
    Down,
    /// A row's.
    Across,
}

/// The columns from `first` on, as many as `count`; `out` has them row by row, and zeros.
struct Task<'a> {
    few: &'a [f32],
    large: Matrix<'a>,
    depth: usize,
    first: usize,
    count: usize,
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
        for column in 0..self.count {
            let at = self.large.position(0, self.first + column);
            let numbers = &self.large.data[at..at + self.depth];
            let few = self.few.chunks(4 * self.depth);
            for (group, few) in few.enumerate() {
                let sums = match few.len() / self.depth {
                    1 => dots::<1>(few, numbers),
                    2 => dots::<2>(few, numbers),
                    3 => dots::<3>(few, numbers),
                    _ => dots::<4>(few, numbers),
                };
                let rows = few.len() / self.depth;
                for (row, sum) in sums.into_iter().enumerate().take(rows) {
                    self.out[(group * 4 + row) * self.count + column] = sum;
                }
            }
        }
    }

    #[inline(always)]
    fn across(&mut self) {
        let whole = self.depth / 4 * 4;
        for block in (0..self.count).step_by(512) {
            let width = (self.count - block).min(512);
            let line = |i: usize| {
                let at = self.large.position(i, self.first + block);
                &self.large.data[at..at + width]
            };
            for i in (0..whole).step_by(4) {
                let lines = [line(i), line(i + 1), line(i + 2), line(i + 3)];
                for (row, few) in self.few.chunks_exact(self.depth).enumerate() {
                    let out = &mut self.out[row * self.count + block..][..width];
                    let f = [few[i], few[i + 1], few[i + 2], few[i + 3]];
                    let lines = lines[0].iter().zip(lines[1]).zip(lines[2]).zip(lines[3]);
                    for (out, (((a, b), c), d)) in out.iter_mut().zip(lines) {
                        *out += (a * f[0] + b * f[1]) + (c * f[2] + d * f[3]);
                    }
                }
            }
            for i in whole..self.depth {
                let line = line(i);
                for (row, few) in self.few.chunks_exact(self.depth).enumerate() {
                    let out = &mut self.out[row * self.count + block..][..width];
                    out.iter_mut().zip(line).for_each(|(out, x)| *out += x * few[i]);
                }
            }
        }
    }
}

/// The products of R rows with `numbers`, in lanes.
#[inline(always)]
fn dots<const R: usize>(few: &[f32], numbers: &[f32]) -> [f32; 4] {
    let depth = numbers.len();
    let mut lanes = [[0f32; LANES]; R];
    let parts = numbers.chunks_exact(LANES);
    let rest = parts.remainder();
    for (part, x) in parts.enumerate() {
        for (row, lanes) in lanes.iter_mut().enumerate() {
            let few = &few[row * depth + part * LANES..][..LANES];
            for ((lane, few), x) in lanes.iter_mut().zip(few).zip(x) {
                *lane += few * x;
            }
        }
    }
    let mut sums = [0f32; 4];
    for (row, lanes) in lanes.iter_mut().enumerate() {
        let few = &few[(row + 1) * depth - rest.len()..(row + 1) * depth];
        for ((lane, few), x) in lanes.iter_mut().zip(few).zip(rest) {
            *lane += few * x;
        }
        let mut width = LANES / 2;
        while width > 0 {
            for i in 0..width {
                lanes[i] += lanes[i + width];
            }
            width /= 2;
        }
        sums[row] = lanes[0];
    }
    sums
}
