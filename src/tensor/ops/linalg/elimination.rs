//! Inverses and determinants by Gauss-Jordan elimination.
//!
//! The matrix is inverted in place, in panels of some columns (blocked elimination). For the columns K of a panel and the
//! other rows I, elimination gives `[1/A_KK; -A_IK 1/A_KK]`. In each other column, the rows K are replaced by 0. Then the
//! product of the panel with the column's previous rows K is added. Cost: two kernels for each column, and a matrix
//! product for each panel.
//!
//! Example: the first column of `[2, 1; 4, 3]`, without pivoting, becomes `[1/2; -2]`. The second column `[1; 3]` becomes
//! `[0; 3] + [1/2; -2] * 1`, which is `[1/2; 1]`.

use crate::dtype::DType;
use crate::error::Result;
use crate::op::Span;
use crate::tensor::{Axes, Tensor};
use std::ops::Range;

/// The results of elimination.
pub(super) struct Elimination {
    /// The inverses, `[batch, n, n]`. The values for singular matrices are meaningless.
    inverse: Tensor,
    /// The pivots, `[batch, n]`, negated if rows were swapped for them. Their product is the determinant.
    pub pivots: Tensor,
}

impl Elimination {
    /// Returns the inverses. Every element is `value` if a matrix is singular.
    pub fn inverse_or(&self, value: f64) -> Result<Tensor> {
        let smallest = self.pivots.abs().min(Axes::from(1).keepdim(true))?;
        smallest.eq(0.0)?.unsqueeze(2)?.where_cond(value, &self.inverse)
    }

    /// Returns the inverses, or 0 for matrices that are `bad`, `[batch]`.
    pub fn inverse_unless(&self, bad: &Tensor) -> Result<Tensor> {
        bad.unsqueeze(1)?.unsqueeze(2)?.where_cond(0.0, &self.inverse)
    }

    /// Returns whether the smallest pivot of a matrix is at most `ratio` times its largest one, `[batch]`.
    pub fn is_below(&self, ratio: f64) -> Result<Tensor> {
        let sizes = self.pivots.abs();
        sizes.min(1)?.le(sizes.max(1)?.mul(ratio)?)
    }

    /// Returns the results of some of the matrices.
    pub fn batches(&self, range: Range<isize>) -> Result<Elimination> {
        let inverse = self.inverse.slice_static(0, range.clone(), 1)?;
        Ok(Elimination { inverse, pivots: self.pivots.slice_static(0, range, 1)? })
    }
}

/// The columns of a panel, which are eliminated one by one before a matrix product updates the others.
const PANEL: usize = 32;

impl Tensor {
    /// Inverts constant matrices `[batch, n, n]` in place by Gauss-Jordan elimination with partial pivoting (Golub and
    /// Van Loan, 3.4). Each column takes two kernels, one that finds the pivot and one that eliminates the columns of a
    /// panel. All columns have the same structure in a plan.
    pub(super) fn eliminate_all(&self) -> Result<Elimination> {
        let rows = self.shape[1];
        let row = self.device.iota(&[rows, 1], 0)?;
        let mut matrix = self.clone();
        let (mut pivots, mut places) = (Vec::new(), Vec::new());
        for start in (0..rows).step_by(PANEL) {
            let width = PANEL.min(rows - start);
            let of_panel =
                |x: &Tensor, axis: usize| x.span_dynamic(axis, Span::at(start, width, 1), 1);
            let (panel, order, pivot) = of_panel(&matrix, 2)?.eliminate_panel(start, &row)?;
            pivots.push(of_panel(&pivot, 1)?.squeeze(2)?);
            if width == rows {
                matrix = panel;
            } else {
                let swapped = matrix.gather_rows(&order)?.materialize()?;
                let inside = row.ge(start)?.logical_and(row.lt(start + width)?)?;
                let product = panel.matmul(&of_panel(&swapped, 1)?)?;
                let rest = inside.where_cond(0.0, &swapped)?.add(product)?;
                matrix = rest.slice_scatter(2, start as isize, &panel)?.materialize()?;
            }
            places.push(order);
        }
        // The original row of each position. The columns of the inverse are permuted like the rows.
        let mut place = row.squeeze(1)?.unsqueeze(0)?.expand(&[self.shape[0], rows])?;
        for order in &places {
            place = place.gather_rows(order)?;
        }
        let column = self.device.iota(&[rows], 0)?;
        let order = place.unsqueeze(2)?.eq(column)?.cast(DType::F32)?.materialize()?;
        let inverse = matrix.matmul(&order)?.materialize()?;
        Ok(Elimination { inverse, pivots: Tensor::concat(&pivots, 1)?.materialize()? })
    }

    /// Eliminates a panel, the columns from `start` on. Returns the new columns, the source row of each position, and the
    /// pivots in their own rows.
    fn eliminate_panel(&self, start: usize, row: &Tensor) -> Result<(Tensor, Tensor, Tensor)> {
        let width = self.shape[2];
        let last = width as isize;
        // Two more columns hold the pivots and the original row of each position.
        let column = self.device.iota(&[width + 2], 0)?;
        let wide = self.pad_static(&[(0, 0), (0, 0), (0, 2)], 0.0)?;
        let numbered = row.cast(DType::F32)?;
        let mut panel = column.eq(width + 1)?.where_cond(numbered, wide)?.materialize()?;
        for k in 0..width {
            panel = panel.eliminate(start + k, k, row, &column)?;
        }
        let order =
            panel.slice_static(2, last + 1.., 1)?.squeeze(2)?.cast(DType::I32)?.materialize()?;
        let pivots = panel.slice_static(2, last..last + 1, 1)?;
        Ok((panel.slice_static(2, ..last, 1)?, order, pivots))
    }

    /// Eliminates with the pivot of column `k` of a panel, which moves to the row `at`.
    fn eliminate(&self, at: usize, k: usize, row: &Tensor, column: &Tensor) -> Result<Tensor> {
        let width = self.shape[2] - 2;
        let own = self.span_dynamic(2, Span::at(k, 1, 1), 1)?;
        let size = row.ge(at)?.where_cond(own.abs(), -1.0)?;
        let best = size.argmax(Axes::from(1).keepdim(true))?.materialize()?;
        // The pivot's row is swapped with this row.
        let other = row.eq(&best)?.where_cond(at, row)?;
        let at_row = row.eq(at)?;
        let from = at_row.where_cond(&best, other)?.squeeze(2)?;
        let first = best.squeeze(2)?;
        let (swapped, multiple) = (self.gather_rows(&from)?, own.gather_rows(&from)?);
        let (top, pivot) = (self.gather_rows(&first)?, own.gather_rows(&first)?);
        // A column of zeros is not eliminated.
        let divisor = pivot.eq(0.0)?.where_cond(1.0, &pivot)?;
        let top = top.div(&divisor)?;
        let rest = at_row.where_cond(&top, swapped.sub(multiple.mul(&top)?)?)?;
        let reciprocal = divisor.reciprocal();
        let inverted = at_row.where_cond(&reciprocal, multiple.mul(&reciprocal)?.neg())?;
        let signed = best.ne(at)?.where_cond(pivot.neg(), &pivot)?;
        let kept = at_row.logical_and(column.eq(width)?)?.where_cond(signed, &swapped)?;
        let inside = column.eq(k)?.where_cond(inverted, rest)?;
        column.lt(width)?.where_cond(inside, kept)?.materialize()
    }
}
