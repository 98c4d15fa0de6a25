//! Determinants whose derivatives are correct for singular matrices.
//!
//! Problem: the gradient of a determinant is usually computed as the determinant times the inverse. A singular matrix A
//! has no inverse, but its gradient exists, and is the matrix of cofactors.
//!
//! Idea: add a border, `M = [A, B; C, 0]`, with two columns B and two rows C. For almost all B and C, M has an inverse if
//! the rank deficiency of A is at most two. The determinant of A is that of M times the determinant of the two-by-two
//! corner of `M^-1` (Jacobi 1841), and both have derivatives. If the deficiency is three or more, first and second
//! derivatives are 0.
//!
//! Cost: the elimination of a matrix with two more rows, in the same kernels that eliminate A.
//!
//! Example: `[1, 1; 1, 1]` with one row and one column `[1, 0]` has the determinant -1, and an inverse with 0 in the
//! corner.

use crate::error::Result;
use crate::tensor::{keepdim, Tensor};

/// The number of rows and columns of the border: one for each derivative.
const BORDER: usize = 2;

/// A matrix is treated as singular if the ratio of its smallest to its largest pivot is at most this.
const SINGULAR: f64 = 3e-6;

/// If the same ratio is at most this, the inverse is too inaccurate for second derivatives.
const ROUGH: f64 = 1e-2;

/// Matrices whose rows and columns were divided by powers of two, so that the largest elements are about 1.
struct Balanced {
    matrices: Tensor,
    /// The factors that the determinant was divided by, `[batch, n]`.
    factors: Tensor,
}

impl Tensor {
    /// Returns the determinants of `[batch, n, n]`: the product of the pivots. Derivatives use the inverse or, for nearly
    /// singular matrices, the inverse of the bordered matrix.
    pub(super) fn large_determinant(&self) -> Result<Tensor> {
        let rows = self.shape[1] as isize;
        let batch = self.shape[0] as isize;
        let Balanced { matrices, factors } = self.balance()?;
        let bordered = matrices.add_border()?;
        let all = [matrices.detach().widen()?, bordered.detach()];
        let found = Tensor::concat(&all, 0)?.eliminate_all()?;
        let (own, whole) = (found.batches(0..batch)?, found.batches(batch..2 * batch)?);
        let rough = own.is_below(ROUGH)?;
        let inverse =
            own.inverse_unless(&rough)?.slice_static(1, ..rows, 1)?.slice_static(2, ..rows, 1)?;
        let factors = factors.pad_static(&[(0, 0), (0, BORDER)], 1.0)?;
        let usual = own.pivots.mul(&factors)?.prod(1)?;
        let usual = usual.mul(inverse.matmul(&matrices)?.log_det_derivatives()?.exp())?;
        let unused = rough.logical_not().logical_or(whole.is_below(SINGULAR)?)?;
        let corner = bordered.inverse_corner(&whole.inverse_unless(&unused)?)?;
        let through = whole.pivots.mul(&factors)?.prod(1)?.mul(corner)?;
        let finite = through.detach().is_finite();
        usual.add(finite.where_cond(through.sub(through.detach())?, 0.0)?)
    }

    fn balance(&self) -> Result<Balanced> {
        let fixed = self.detach();
        let row = fixed.abs().max(keepdim(2))?.power_below()?.materialize()?;
        let column = fixed.div(&row)?.abs().max(keepdim(1))?.power_below()?.materialize()?;
        let matrices = self.div(&row)?.div(&column)?;
        Ok(Balanced { matrices, factors: row.squeeze(2)?.mul(column.squeeze(1)?)? })
    }

    /// Adds a border of zeros with ones on the diagonal, which keeps the determinant.
    fn widen(&self) -> Result<Tensor> {
        let rows = self.shape[1];
        let corner = self.device.eye(BORDER)?.pad_static(&[(rows, 0), (rows, 0)], 0.0)?;
        self.pad_static(&[(0, 0), (0, BORDER), (0, BORDER)], 0.0)?.add(corner)
    }

    /// Adds a border of pseudo-random numbers between -1 and 1, with zeros in its corner.
    fn add_border(&self) -> Result<Tensor> {
        let rows = self.shape[1];
        let mut state = 1u32;
        let border: Vec<f32> = (0..2 * BORDER * rows)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) as f32 / (1 << 23) as f32 - 1.0
            })
            .collect();
        let (right, below) = border.split_at(BORDER * rows);
        let right = self.device.tensor(right, &[rows, BORDER])?;
        let below = self.device.tensor(below, &[BORDER, rows])?;
        let border = right.pad_static(&[(0, BORDER), (rows, 0)], 0.0)?;
        let border = border.add(below.pad_static(&[(rows, 0), (0, BORDER)], 0.0)?)?;
        self.pad_static(&[(0, 0), (0, BORDER), (0, BORDER)], 0.0)?.add(border)
    }

    /// Returns the determinant of this bordered matrix M divided by that of a constant copy, times the determinant of the
    /// corner of M's inverse. `inverse` is the inverse X of the copy, or 0. For two derivatives, the inverse of M is
    /// `(I - E + E^2) X` with `E = X M - I`.
    fn inverse_corner(&self, inverse: &Tensor) -> Result<Tensor> {
        let rows = (self.shape[1] - BORDER) as isize;
        let product = inverse.matmul(self)?.materialize()?;
        let more = product.sub_identity()?.materialize()?;
        let last = inverse.slice_static(2, rows.., 1)?;
        let first = more.matmul(&last)?;
        let corner = last.sub(&first)?.add(more.matmul(&first)?)?.slice_static(1, rows.., 1)?;
        corner.small_determinant()?.mul(product.log_det_derivatives()?.exp())
    }
}
