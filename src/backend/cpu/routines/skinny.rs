//! Products of a matrix of few rows with a large one, whose numbers are read once, by all threads. That is the work of a
//! model that answers one person.

use super::dots::{Dots, Rows};
use super::gemm::Matrix;
use super::streams::{Part, Product, Sums};
use crate::backend::cpu::exec::parallel;
use crate::backend::cpu::math::lanes::{self, LANES};

/// Rows up to which a matrix counts as having few, where the large matrix's rows are contiguous and where its columns are.
/// With more, `gemm` is faster.
const FEW: [usize; 2] = if cfg!(target_arch = "wasm32") { [16, 12] } else { [24, 32] };

/// Numbers of the large matrix from which on this is worth the trouble.
const WORTH: usize = 1 << 12;

/// The fewest numbers of a large matrix with contiguous columns for a task, and the most tasks for each thread.
const NUMBERS_PER_TASK: usize = 1 << 16;
const TASKS: usize = 4;

/// Lines of the large matrix that are worth sums of their own, and the most parts that lines are cut into.
const DEEP: usize = 192;
const PARTS: usize = 8;

/// Columns of the large matrix whose sums stay in the second-level cache, and the fewest that are worth a task.
const WIDE: usize = 2048;
const NARROW: usize = 256;

/// Calls `visit(row, column, numbers)` for pieces of the rows of `few * large`, which begin at the column; few is rows times
/// depth, large is depth times columns, both inside their slices. False, with nothing done, where another way is better.
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
    match large.strides {
        [1, _] if rows <= FEW[1] => down(size, few, large, threads, visit),
        [step, 1] if rows <= FEW[0] && step >= 0 => across(size, few, large, threads, visit),
        _ => return false,
    }
    true
}

/// The product where columns are contiguous: each task has whole ones.
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

/// The product where rows are contiguous: each task has a part of the lines, because memory is read fastest in long pieces.
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

/// `f` of each item, in the items' order.
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

/// The parts of a large matrix whose rows are contiguous: from the first columns on, and of those from the first lines on.
/// How lines are cut, and so the result, does not depend on how many threads there are.
fn parts([columns, depth]: [usize; 2]) -> Vec<Part> {
    // A power of two, as the number of threads mostly is.
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
