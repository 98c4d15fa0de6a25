//! Matrix products, by the `gemm` crate. This is `unsafe` code: `gemm` takes pointers.

use super::engine::{Inputs, WorkerPool};
use super::operand::{EpiloguePlan, OperandPlan, Strided};
use super::parallel;
use super::plan::Counts;
use super::skinny;
use super::tiling::{count, cut};
use crate::error::Result;
use crate::kernel::Matmul;
use bytemuck::cast_slice;

/// A matrix of numbers that lie in a slice: `data[offset + row * strides[0] + column * strides[1]]`.
#[derive(Clone, Copy)]
pub(super) struct Matrix<'a> {
    pub data: &'a [f32],
    pub offset: i64,
    pub strides: [i64; 2],
}

impl Matrix<'_> {
    /// Where a number lies.
    pub fn position(&self, row: usize, column: usize) -> usize {
        (self.offset + row as i64 * self.strides[0] + column as i64 * self.strides[1]) as usize
    }

    /// Rows as columns.
    fn transposed(self) -> Self {
        Matrix { strides: [self.strides[1], self.strides[0]], ..self }
    }

    /// Whether all of a matrix of `rows` times `columns` numbers lies in the slice.
    fn inside(&self, rows: usize, columns: usize) -> bool {
        let reach = |extent: usize, stride: i64| {
            i64::try_from(extent).ok()?.checked_sub(1)?.checked_mul(stride)
        };
        let bounds = || {
            let (down, across) = (reach(rows, self.strides[0])?, reach(columns, self.strides[1])?);
            let low = self.offset.checked_add(down.min(0))?.checked_add(across.min(0))?;
            let high = self.offset.checked_add(down.max(0))?.checked_add(across.max(0))?;
            Some(low >= 0 && high < i64::try_from(self.data.len()).ok()?)
        };
        bounds().unwrap_or(false)
    }
}

/// `out = a * b`, or `out += a * b` where `add`; a is m times k, b is k times n. Row i of `out` is
/// `out[i * row_stride..][..n]`. `threads` spreads it over the pool. Panics if something does not lie in its slice;
/// callers have checked that it does.
#[allow(unsafe_code)]
pub(super) fn multiply(
    [m, n, k]: [usize; 3],
    out: &mut [f32],
    row_stride: usize,
    a: Matrix<'_>,
    b: Matrix<'_>,
    (add, threads): (bool, bool),
) {
    if m == 0 || n == 0 {
        return;
    }
    let rows = (m - 1).checked_mul(row_stride).and_then(|rows| rows.checked_add(n));
    assert!(rows.is_some_and(|len| len <= out.len()) && (row_stride >= n || m == 1));
    if k == 0 {
        if !add {
            out.chunks_mut(row_stride.max(1)).take(m).for_each(|row| row[..n].fill(0.0));
        }
        return;
    }
    assert!(a.inside(m, k) && b.inside(k, n));
    let parallelism = parallelism(threads);
    // SAFETY: all numbers of a, b and out lie inside their slices, as asserted above; out is borrowed mutably, its
    // rows do not overlap, and gemm reads and writes nothing else.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out.as_mut_ptr(),
            1,
            row_stride as isize,
            add,
            a.data.as_ptr().offset(a.offset as isize),
            a.strides[1] as isize,
            a.strides[0] as isize,
            b.data.as_ptr().offset(b.offset as isize),
            b.strides[1] as isize,
            b.strides[0] as isize,
            1.0f32,
            1.0f32,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(not(target_arch = "wasm32"))]
fn parallelism(threads: bool) -> gemm::Parallelism {
    match threads {
        true => gemm::Parallelism::Rayon(0),
        false => gemm::Parallelism::None,
    }
}

#[cfg(target_arch = "wasm32")]
fn parallelism(_: bool) -> gemm::Parallelism {
    gemm::Parallelism::None
}

/// Products of more multiplications than this are spread over threads one by one; others as wholes.
const LARGE: usize = 1 << 24;

/// Multiplications that are worth a task.
const TASK: usize = 1 << 16;

/// Numbers of an operand that are computed at once, and by one thread.
const PANEL: usize = 1 << 20;
const PART: usize = 1 << 16;

/// A matmul, prepared.
pub(super) struct MatmulPlan {
    batch: Vec<usize>,
    m: usize,
    n: usize,
    k: usize,
    a: OperandPlan,
    b: OperandPlan,
    epilogue: EpiloguePlan,
}

impl MatmulPlan {
    /// Prepares `matmul`.
    pub fn new(matmul: &Matmul, counts: Counts) -> Result<MatmulPlan> {
        let &Matmul { m, n, k, ref batch, .. } = matmul;
        let dims = |rows: usize, columns: usize| [&batch[..], &[rows, columns]].concat();
        Ok(MatmulPlan {
            batch: batch.clone(),
            m,
            n,
            k,
            a: OperandPlan::new(&matmul.a, &dims(m, k), counts)?,
            b: OperandPlan::new(&matmul.b, &dims(k, n), counts)?,
            epilogue: EpiloguePlan::new(&matmul.epilogue, &dims(m, n), counts)?,
        })
    }

    /// Runs it.
    pub fn run(&self, inputs: &Inputs<'_>, outputs: &mut [&mut [u32]]) -> Result<()> {
        if self.m == 0 || self.n == 0 || count(&self.batch)? == 0 {
            return Ok(());
        }
        self.epilogue.run(inputs, outputs, |out| {
            let a = self.a.read(inputs)?;
            let columns = self.b.columns(inputs, self.k).filter(|_| self.k * self.n > PANEL);
            if let (Some(columns), Some((m, down))) = (columns, self.tall(&a)) {
                self.by_panels(out, m, a.matrix(down), &columns);
                return Ok(());
            }
            self.products(out, &a, &self.b.read(inputs)?);
            Ok(())
        })
    }

    /// The rows of `a` and their stride, where all of its matrices are one tall one.
    fn tall(&self, a: &Strided<'_>) -> Option<(usize, i64)> {
        let (m, down, kept) = self.merged(a, &vec![0; self.batch.len()]);
        (kept == 0).then_some((m, down))
    }

    /// Where b is computed, it is so for some columns at a time, which are near when they are used.
    fn by_panels(&self, out: &mut [f32], m: usize, a: Matrix<'_>, columns: &WorkerPool<'_>) {
        let (n, k) = (self.n, self.k);
        fn matrix(words: &[u32], depth: usize) -> Matrix<'_> {
            Matrix { data: cast_slice(words), offset: 0, strides: [1, depth as i64] }
        }
        if m > skinny::FEW_DOWN {
            let wide = (PANEL / k).max(1);
            let mut words = vec![0; wide.min(n) * k];
            for (first, past) in cut(n, wide) {
                let panel = &mut words[..(past - first) * k];
                let parts = panel.chunks_mut(PART).enumerate().collect();
                parallel::for_each(parts, |(part, out): (usize, &mut [u32])| {
                    columns.part(first * k + part * PART, out);
                });
                let b = matrix(panel, k);
                multiply([m, past - first, k], &mut out[first..], n, a, b, (false, true));
            }
            return;
        }
        let wide = (PART / k).max(skinny::LANES);
        let tasks = cut(n, wide);
        let found = parallel::map(tasks.clone(), |(first, past)| {
            let (mut words, wide) = (vec![0; (past - first) * k], past - first);
            columns.part(first * k, &mut words);
            let (mut found, b) = (vec![0f32; m * wide], matrix(&words, k));
            let visit = |i: usize, j: usize, x: f32| found[i * wide + j] = x;
            if !skinny::multiply([m, wide, k], a, b, false, visit) {
                multiply([m, wide, k], &mut found, wide, a, b, (false, false));
            }
            found
        });
        for ((first, past), found) in tasks.into_iter().zip(found) {
            for (row, found) in found.chunks(past - first).enumerate() {
                out[row * n + first..][..past - first].copy_from_slice(found);
            }
        }
    }

    /// How many rows and which stride matrices have that continue each other downwards and meet the same b, whose
    /// strides along the batch are given: they are one tall matrix; and how many axes of the batch are left.
    fn merged(&self, a: &Strided<'_>, b: &[i64]) -> (usize, i64, usize) {
        let rank = self.batch.len();
        let (mut m, mut down, mut kept) = (self.m, a.strides[rank], rank);
        while kept > 0 {
            let (extent, d) = (self.batch[kept - 1], kept - 1);
            if extent != 1 {
                if b[d] != 0 || m != 1 && a.strides[d] != down * m as i64 {
                    break;
                }
                down = if m == 1 { a.strides[d] } else { down };
                m *= extent;
            }
            kept -= 1;
        }
        (m, down, kept)
    }

    fn products(&self, out: &mut [f32], a: &Strided<'_>, b: &Strided<'_>) {
        let rank = self.batch.len();
        let (m, down, kept) = self.merged(a, &b.strides[..rank]);
        let batch = &self.batch[..kept];
        let one = |number: usize, out: &mut [f32], threads: bool| {
            let at = coordinates(number, batch);
            let strides = [down, a.strides[rank + 1]];
            let a = Matrix { data: &a.data, offset: a.at(&at), strides };
            let strides = [b.strides[rank], b.strides[rank + 1]];
            let b = Matrix { data: &b.data, offset: b.at(&at), strides };
            let n = self.n;
            let size = [m, n, self.k];
            let by_rows = skinny::multiply(size, a, b, threads, |i, j, x| out[i * n + j] = x);
            if by_rows {
                return;
            }
            let (size, b_first) = ([n, m, self.k], b.transposed());
            let visit = |j: usize, i: usize, x: f32| out[i * n + j] = x;
            if !skinny::multiply(size, b_first, a.transposed(), threads, visit) {
                multiply([m, n, self.k], out, n, a, b, (false, threads));
            }
        };
        let work = m.saturating_mul(self.n).saturating_mul(self.k.max(1));
        let (size, matrices) = (m * self.n, batch.iter().product::<usize>());
        if matrices < parallel::threads() || work > LARGE {
            out.chunks_mut(size).enumerate().for_each(|(number, out)| one(number, out, true));
            return;
        }
        let each = (TASK / work).max(1);
        let tasks = out.chunks_mut(size.saturating_mul(each)).enumerate().collect();
        parallel::for_each(tasks, |(task, out): (usize, &mut [f32])| {
            for (number, out) in out.chunks_mut(size).enumerate() {
                one(task * each + number, out, false);
            }
        });
    }
}

/// The coordinates of the n-th point of a space, row-major.
pub(super) fn coordinates(mut number: usize, dims: &[usize]) -> Vec<usize> {
    let mut at = vec![0; dims.len()];
    for (at, &extent) in at.iter_mut().zip(dims).rev() {
        *at = number % extent;
        number /= extent;
    }
    at
}
