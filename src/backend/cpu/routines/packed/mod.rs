//! Products with packed matrices. A few rows are multiplied with the packed rows directly. For many rows, panels are unpacked
//! first and multiplied by `gemm`.

mod decode;
mod rounded;
mod rows;

use super::epilogue::EpiloguePlan;
use super::gemm::{multiply, Matrix};
use super::operand::{OperandPlan, Strided};
use crate::backend::cpu::exec::inputs::Inputs;
use crate::backend::cpu::exec::parallel;
use crate::backend::cpu::lower::tiling::cut;
use crate::backend::cpu::math::lanes;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::{Counts, PackedMatmul};
use crate::op::packed::{PackedArithmetic, PackedFormat};
use bytemuck::cast_slice;
use decode::Packed;
use rounded::Rounded;
use rows::{Few, Products, Unpacked, MAX_ROWS_PER_PASS};
use std::borrow::Cow;

/// The most rows for which no panel is unpacked.
const MAX_ROWS_WITHOUT_PANEL: usize = PackedArithmetic::ROWS;

/// The fewest words of packed rows for a task.
const WORDS_PER_TASK: usize = 1 << 12;

/// The tasks for each thread, so that a delayed task does not delay the others. Each product is computed by one task, so
/// results do not depend on the number of tasks.
const TASKS: usize = 4;

/// The numbers of a panel. `gemm` packs all of `x` again for each panel, so panels are larger than the second-level cache.
const PANEL: usize = 1 << 19;

/// A prepared product with a packed matrix.
pub struct PackedPlan {
    format: PackedFormat,
    /// Whether few rows of `x` are rounded to 8 bits.
    rounds: bool,
    m: usize,
    n: usize,
    k: usize,
    x: OperandPlan,
    w: OperandPlan,
    epilogue: EpiloguePlan,
}

impl PackedPlan {
    /// Prepares a product.
    pub fn new(packed: &PackedMatmul, counts: Counts) -> Result<PackedPlan> {
        let &PackedMatmul { format, arithmetic, m, n, k, .. } = packed;
        let words = format.row_words(k);
        if !k.is_multiple_of(format.block_len()) {
            let name = format.name();
            let message = format!("cpu: a packed kernel must have whole blocks of {name}, got {k}");
            return Err(Error::state(message));
        }
        Ok(PackedPlan {
            format,
            rounds: arithmetic.rounds(format, m),
            m,
            n,
            k,
            x: OperandPlan::new(&packed.x, &[m, k], counts)?,
            w: OperandPlan::of_type(&packed.w, &[n, words], DType::U32, counts)?,
            epilogue: EpiloguePlan::new(&packed.epilogue, &[m, n], counts)?,
        })
    }

    /// Runs the product.
    pub fn run(&self, inputs: &Inputs<'_>, outputs: &mut [&mut [u32]]) -> Result<()> {
        if self.m == 0 || self.n == 0 {
            return Ok(());
        }
        self.epilogue.run(inputs, outputs, |out| {
            let (x, w) = (self.x.read(inputs)?, self.w.read(inputs)?);
            let x = in_rows(&x, self.m, self.k);
            let w = in_rows(&w, self.n, self.format.row_words(self.k));
            let packed = Packed { format: self.format, columns: self.k, words: cast_slice(&w) };
            match self.m <= MAX_ROWS_WITHOUT_PANEL {
                true => self.few(out, &x, packed),
                false => self.many(out, &x, packed),
            }
            Ok(())
        })
    }

    /// Multiplies few rows. Packed rows are decoded on use, once for a few rows of `x`.
    fn few(&self, out: &mut [f32], x: &[f32], packed: Packed<'_>) {
        let (n, k) = (self.n, self.k);
        let rows: Vec<&[f32]> = (0..self.m).map(|row| &x[row * k..][..k]).collect();
        let least = WORDS_PER_TASK.div_ceil(self.format.row_words(k).max(1));
        let each = n.div_ceil(TASKS * parallel::threads()).max(least);
        for (block, rows) in rows.chunks(MAX_ROWS_PER_PASS).enumerate() {
            let few = match self.rounds {
                true => Rows::Int8(Rounded::new(self.format, k, rows)),
                false => Rows::Exact(Few::new(self.format, k, rows)),
            };
            let out = &mut out[block * MAX_ROWS_PER_PASS * n..][..rows.len() * n];
            if rows.len() == 1 {
                let tasks = out.chunks_mut(each).enumerate().collect();
                parallel::for_each(tasks, |(task, out): (usize, &mut [f32])| {
                    few.products(packed, task * each, out);
                });
                continue;
            }
            let found = parallel::map(cut(n, each), |(first, past)| {
                let mut found = vec![0f32; (past - first) * rows.len()];
                few.products(packed, first, &mut found);
                (first, found)
            });
            for (first, found) in found {
                for (column, found) in found.chunks(rows.len()).enumerate() {
                    for (row, &number) in found.iter().enumerate() {
                        out[row * n + first + column] = number;
                    }
                }
            }
        }
    }

    /// Multiplies many rows, with panels of unpacked rows one after the other.
    fn many(&self, out: &mut [f32], x: &[f32], packed: Packed<'_>) {
        let (m, n, k) = (self.m, self.n, self.k);
        let wide = (PANEL / k.max(1)).max(1).min(n);
        let mut panel = vec![0f32; wide * k];
        let a = Matrix { data: x, offset: 0, strides: [k as i64, 1] };
        for (first, past) in cut(n, wide) {
            let panel = &mut panel[..(past - first) * k];
            let part = (past - first).div_ceil(parallel::threads()).max(1);
            let tasks = panel.chunks_mut((part * k).max(1)).enumerate().collect();
            parallel::for_each(tasks, |(task, out): (usize, &mut [f32])| {
                lanes::run(Unpacked { packed, first: first + task * part, out });
            });
            let b = Matrix { data: panel, offset: 0, strides: [1, k as i64] };
            multiply([m, past - first, k], &mut out[first..], n, a, b, (false, true));
        }
    }
}

/// A few rows of `x`, as floats or rounded to 8 bits.
enum Rows {
    Exact(Few),
    Int8(Rounded),
}

impl Rows {
    /// Computes the products with packed rows from `first` on. `out` has a row for each packed row.
    fn products(&self, packed: Packed<'_>, first: usize, out: &mut [f32]) {
        match self {
            Rows::Exact(left) => lanes::run(Products { packed, left, first, out }),
            Rows::Int8(left) => lanes::run(Products { packed, left, first, out }),
        }
    }
}

/// Returns the numbers of a matrix, row by row.
fn in_rows<'a>(matrix: &'a Strided<'_>, rows: usize, columns: usize) -> Cow<'a, [f32]> {
    let (down, across) = (matrix.strides[0], matrix.strides[1]);
    let plain = (across == 1 || columns <= 1) && (down == columns as i64 || rows <= 1);
    if plain && matrix.offset >= 0 {
        return Cow::Borrowed(&matrix.data[matrix.offset as usize..][..rows * columns]);
    }
    let mut all = Vec::with_capacity(rows * columns);
    for row in 0..rows as i64 {
        let start = matrix.offset + row * down;
        all.extend((0..columns as i64).map(|c| matrix.data[(start + c * across) as usize]));
    }
    Cow::Owned(all)
}
