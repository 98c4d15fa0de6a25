//! Matrix products: with few rows, many matrices, one large matrix, or operands that are computed in parts.

use super::epilogue::EpiloguePlan;
use super::gemm::{multiply, Matrix};
use super::operand::{OperandPlan, Strided};
use super::skinny;
use crate::backend::cpu::exec::engine::WorkerPool;
use crate::backend::cpu::exec::inputs::Inputs;
use crate::backend::cpu::exec::parallel;
use crate::backend::cpu::lower::tiling::{count, cut};
use crate::backend::cpu::math::lanes::LANES;
use crate::error::Result;
use crate::kernel::{Counts, Matmul};
use bytemuck::cast_slice;

/// A product of more multiplications than this is distributed over threads. Smaller products are distributed as wholes.
const LARGE: usize = 1 << 24;

/// The fewest multiplications for a task.
const MULTIPLICATIONS_PER_TASK: usize = 1 << 16;

/// The most rows for which each thread multiplies the columns that it computes.
const MAX_ROWS_BY_COLUMN: usize = 12;

/// The numbers of an operand that are computed together, and the numbers for each thread.
const PANEL: usize = 1 << 20;
const PART: usize = 1 << 16;

/// A prepared matrix product.
pub struct MatmulPlan {
    batch: Vec<usize>,
    m: usize,
    n: usize,
    k: usize,
    a: OperandPlan,
    b: OperandPlan,
    epilogue: EpiloguePlan,
}

impl MatmulPlan {
    /// Prepares a matrix product.
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

    /// Runs the product.
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

    /// Returns the rows of `a` and their stride, if all of its matrices are one tall matrix.
    fn tall(&self, a: &Strided<'_>) -> Option<(usize, i64)> {
        let (m, down, kept) = self.merged(a, &vec![0; self.batch.len()]);
        (kept == 0).then_some((m, down))
    }

    /// Multiplies with a computed `b`. Some columns are computed at a time, so that they are in the cache when they are used.
    fn by_panels(&self, out: &mut [f32], m: usize, a: Matrix<'_>, columns: &WorkerPool<'_>) {
        let (n, k) = (self.n, self.k);
        fn matrix(words: &[u32], depth: usize) -> Matrix<'_> {
            Matrix { data: cast_slice(words), offset: 0, strides: [1, depth as i64] }
        }
        if m > MAX_ROWS_BY_COLUMN {
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
        let wide = (PART / k).max(LANES);
        let tasks = cut(n, wide);
        let found = parallel::map(tasks.clone(), |(first, past)| {
            let (mut words, wide) = (vec![0; (past - first) * k], past - first);
            columns.part(first * k, &mut words);
            let (mut found, b) = (vec![0f32; m * wide], matrix(&words, k));
            let visit = |i: usize, j: usize, x: &[f32]| {
                found[i * wide + j..][..x.len()].copy_from_slice(x);
            };
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

    /// Merges matrices that continue each other downward and are multiplied with the same b, whose batch strides are given.
    /// Returns the rows and the stride of the tall matrix, and the number of batch axes that are left.
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
            let visit = |i: usize, j: usize, x: &[f32]| {
                out[i * n + j..][..x.len()].copy_from_slice(x);
            };
            if skinny::multiply(size, a, b, threads, visit) {
                return;
            }
            let (size, b_first) = ([n, m, self.k], b.transposed());
            let visit = |j: usize, i: usize, x: &[f32]| {
                out[i * n + j..].iter_mut().step_by(n).zip(x).for_each(|(out, &x)| *out = x);
            };
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
        let each = (MULTIPLICATIONS_PER_TASK / work).max(1);
        let tasks = out.chunks_mut(size.saturating_mul(each)).enumerate().collect();
        parallel::for_each(tasks, |(task, out): (usize, &mut [f32])| {
            for (number, out) in out.chunks_mut(size).enumerate() {
                one(task * each + number, out, false);
            }
        });
    }
}

/// Returns the coordinates of the n-th point of a space, row-major.
pub fn coordinates(mut number: usize, dims: &[usize]) -> Vec<usize> {
    let mut at = vec![0; dims.len()];
    for (at, &extent) in at.iter_mut().zip(dims).rev() {
        *at = number % extent;
        number /= extent;
    }
    at
}
