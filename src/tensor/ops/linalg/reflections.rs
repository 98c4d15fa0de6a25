//! Householder reflections, which make a matrix upper triangular.

use crate::error::Result;
use crate::op::Span;
use crate::tensor::{keepdim, Tensor};

/// The columns of a panel, which are reflected one by one before a matrix product updates the others.
const PANEL: usize = 32;

impl Tensor {
    /// Applies Householder reflections to `[batch, m, n]`, m >= n (Golub and Van Loan, 5.2).
    ///
    /// The result has R on and above the diagonal. Below are the vectors, whose first elements, on the diagonal, are an
    /// implicit 1. Each column takes two kernels for the columns of its panel, or three if a long sum is split.
    pub(super) fn reflect_all(&self) -> Result<Tensor> {
        let columns = self.shape[2];
        let column = self.device.iota(&[columns], 0)?;
        let mut matrix = self.clone();
        for start in (0..columns).step_by(PANEL) {
            let width = PANEL.min(columns - start);
            let panel =
                matrix.span_dynamic(2, Span::at(start, width, 1), 1)?.reflect_panel(start)?;
            if width == columns {
                return Ok(panel);
            }
            if start + width < columns {
                let v = panel.reflection_vectors(start)?;
                let t = v.combine_reflections()?;
                let turned = v.matmul(&t.t()?.matmul(&v.t()?.matmul(&matrix)?)?)?;
                let after = column.ge(start + width)?;
                matrix = after.where_cond(matrix.sub(turned)?, &matrix)?;
            }
            matrix = matrix.slice_scatter(2, start as isize, &panel)?.materialize()?;
        }
        Ok(matrix)
    }

    /// Reflects a panel of columns. The diagonal element of its first column is in the row `start`.
    fn reflect_panel(&self, start: usize) -> Result<Tensor> {
        let (rows, columns) = (self.shape[1], self.shape[2]);
        let (row, column) = (self.device.iota(&[rows, 1], 0)?, self.device.iota(&[columns], 0)?);
        let mut panel = self.materialize()?;
        // The last row has no elements below it.
        for k in 0..columns.min(rows - 1 - start) {
            panel = panel.reflect(start + k, k, &row, &column)?;
        }
        Ok(panel)
    }

    /// Reflects so that column `k` becomes 0 below the row `top`.
    fn reflect(&self, top: usize, k: usize, row: &Tensor, column: &Tensor) -> Result<Tensor> {
        let own = self.span_dynamic(2, Span::at(k, 1, 1), 1)?;
        let below = row.gt(top)?.where_cond(&own, 0.0)?;
        let dots = below.mul(self)?.sum(keepdim(1))?.materialize()?;
        let tail = dots.span_dynamic(2, Span::at(k, 1, 1), 1)?;
        let head = self.span_dynamic(1, Span::at(top, 1, 1), 1)?;
        let first = own.span_dynamic(1, Span::at(top, 1, 1), 1)?;
        let flat = tail.eq(0.0)?;
        let norm = first.square().add(&tail)?.sqrt();
        let turned = first.lt(0.0)?.where_cond(&norm, norm.neg())?;
        let lead = flat.where_cond(1.0, first.sub(&turned)?)?;
        let share = flat.where_cond(1.0, &turned)?;
        let share = flat.where_cond(0.0, turned.sub(&first)?.div(share)?)?;
        let vector = row.eq(top)?.where_cond(1.0, below.div(&lead)?)?;
        let product = head.add(dots.div(&lead)?)?.mul(share)?;
        let rest = self.sub(vector.mul(product)?)?;
        let stored = flat.where_cond(0.0, &vector)?;
        let diagonal = flat.where_cond(&first, &turned)?;
        let new = row.eq(top)?.where_cond(diagonal, row.lt(top)?.where_cond(&own, stored)?)?;
        let next = column.gt(k)?.where_cond(rest, self)?;
        column.eq(k)?.where_cond(new, next)?.materialize()
    }

    /// Returns the vectors of a panel, with their first elements. The diagonal element of its first column is in the row
    /// `start`. Vectors are 0 for columns that were not reflected, because they were 0 below the diagonal.
    pub(super) fn reflection_vectors(&self, start: usize) -> Result<Tensor> {
        let row = self.device.iota(&[self.shape[1], 1], 0)?.sub(start)?;
        let column = self.device.iota(&[self.shape[2]], 0)?;
        let below = row.gt(&column)?.where_cond(self, 0.0)?;
        let there = below.ne(0.0)?.any(keepdim(1))?.cast(self.dtype)?;
        row.eq(&column)?.where_cond(there, below)?.materialize()
    }

    /// Returns the upper triangular T for which the product of all reflections by these vectors is `I - V T V^T`
    /// (Schreiber and Van Loan 1989). The inverse of T has half of `V^T V` on the diagonal, and `V^T V` above it
    /// (Joffrain et al. 2006).
    pub(super) fn combine_reflections(&self) -> Result<Tensor> {
        let dots = self.t()?.matmul(self)?.materialize()?;
        let (row, column) = dots.rows_and_columns()?;
        let diagonal = dots.eq(0.0)?.where_cond(1.0, dots.mul(0.5)?)?;
        row.eq(&column)?.where_cond(diagonal, dots)?.t()?.lower_inverse()?.t()
    }
}
