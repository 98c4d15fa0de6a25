//! Products of a matrix of few rows with a large matrix. All threads read the large matrix, each number once. Language models
//! with one user mainly compute such products.

use super::dots::{Dots, Rows};
use super::gemm::Matrix;
use super::streams::{Part, Product, Sums};
use crate::backend::cpu::exec::parallel;
use crate::backend::cpu::math::lanes::{self, LANES};

/// The most rows of a matrix with few rows, if rows of the large matrix are contiguous, and if its columns are. With more
/// rows, `gemm` is faster.
const FEW: [usize; 2] = if cfg!(target_arch = "wasm32") { [16, 12] } else { [24, 32] };

/// The same, if columns are contiguous and the large matrix has no more numbers than `CACHED`, so that it stays in the
/// second-level cache between two products.
const FEW_CACHED: usize = if cfg!(target_arch = "wasm32") { 12 } else { 16 };
const CACHED: usize = 1 << 17;

/// The fewest numbers of the large matrix for which this is worth it.
const WORTH: usize = 1 << 12;

/// The fewest numbers of a large matrix with contiguous columns for a task, and the most tasks for each thread.
const NUMBERS_PER_TASK: usize = 1 << 16;
const TASKS: usize = 4;

/// The lines of the large matrix that are worth separate sums, and the most parts that lines are cut into.
const DEEP: usize = 192;
const PARTS: usize = 8;

/// The columns of the large matrix whose sums fit into the second-level cache, and the fewest that are worth a task.
const WIDE: usize = 2048;
const NARROW: usize = 256;

/// Calls `visit(row, column, numbers)` for pieces of the rows of `few * large`, which begin at the column. `few` is rows
/// times depth and `large` is depth times columns, both inside their slices. Returns false, without any call, if another
/// routine is faster.
pub fn multiply(
    size: [usize; 3],
    few: Matrix<'_>,
    large: Matrix<'_>,
    threads: bool,
    visit: impl FnMut(usize, usize, &[f32]),
) -> bool {
    let [rows, columns, depth] = size;
    if rows == 0 || columns < LANES || depth < LANES || columns.saturating_mul(depth) < WORTH {
        return false;
    }
    let few_down = if columns.saturating_mul(depth) <= CACHED { FEW_CACHED } else { FEW[1] };
    match large.strides {
        [1, _] if rows <= few_down => down(size, few, large, threads, visit),
        [step, 1] if rows <= FEW[0] && step >= 0 => across(size, few, large, threads, visit),
        _ => return false,
    }
    true
}

/// Computes the product if columns are contiguous. Each task has whole columns.
fn down(
    [rows, columns, depth]: [usize; 3],
    few: Matrix<'_>,
    large: Matrix<'_>,
    threads: bool,
    mut visit: impl FnMut(usize, usize, &[f32]),
) {
    let few = Rows::new(few, rows, depth);
    let tasks =
        (columns.saturating_mul(depth) / NUMBERS_PER_TASK).clamp(1, TASKS * parallel::threads());
    let wide = columns.div_ceil(tasks).next_multiple_of(LANES);
    let work = |first: usize| {
        let mut out = vec![0f32; rows * wide.min(columns - first)];
        lanes::run(Dots { rows: &few, large, first, out: &mut out });
        out
    };
    let firsts: Vec<usize> = (0..columns).step_by(wide).collect();
    for (&first, found) in firsts.iter().zip(each(&firsts, threads, work)) {
        for (row, numbers) in found.chunks_exact(wide.min(columns - first)).enumerate() {
            visit(row, first, numbers);
        }
    }
}

/// Computes the product if rows are contiguous. Each task has a part of the lines, because memory is read fastest in long
/// pieces.
fn across(
    [rows, columns, depth]: [usize; 3],
    few: Matrix<'_>,
    large: Matrix<'_>,
    threads: bool,
    mut visit: impl FnMut(usize, usize, &[f32]),
) {
    let parts = parts([columns, depth]);
    let work = |part: Part| lanes::run(Product { rows, few, large, part });
    let mut sums: Option<Sums> = None;
    for (part, found) in parts.iter().zip(each(&parts, threads, work)) {
        let sum = match sums.take() {
            Some(mut sum) => {
                sum.add(&found);
                sum
            }
            None => found,
        };
        if part.from + part.lines < depth {
            sums = Some(sum);
            continue;
        }
        (0..rows).for_each(|row| visit(row, part.first, &sum.row(row)[..part.count]));
    }
}

/// Returns `f` of each item, in the order of the items.
fn each<T: Copy + Send + Sync, R: Send>(
    items: &[T],
    threads: bool,
    f: impl Fn(T) -> R + Send + Sync,
) -> Vec<R> {
    match threads {
        true => parallel::map(items.to_vec(), f),
        false => items.iter().map(|&item| f(item)).collect(),
    }
}

/// Cuts a large matrix with contiguous rows into parts, ordered by columns and then by lines. The cuts of lines do not depend
/// on the number of threads, so neither does the result.
fn parts([columns, depth]: [usize; 2]) -> Vec<Part> {
    // A power of two, as most numbers of threads are.
    let deep = 1 << (depth / DEEP).clamp(1, PARTS).ilog2();
    let blocks = columns.div_ceil(WIDE).max(parallel::threads().div_ceil(deep));
    let wide = columns.div_ceil(blocks).max(NARROW).next_multiple_of(LANES);
    let lines = depth.div_ceil(deep);
    let mut parts = Vec::new();
    for first in (0..columns).step_by(wide) {
        for from in (0..depth).step_by(lines) {
            let (count, lines) = (wide.min(columns - first), lines.min(depth - from));
            parts.push(Part { first, count, from, lines });
        }
    }
    parts
}
