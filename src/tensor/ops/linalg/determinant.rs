//! Determinants whose derivatives are right where a matrix has no inverse.
//!
//! The gradient of a determinant is the determinant times the inverse. That says nothing of a singular matrix A, whose
//! gradient is the matrix of its cofactors. So A is bordered: `M = [A, B; C, 0]`, with two columns B and two rows C, has an
//! inverse though A lacks up to two of its ranks, for almost all B and C. The determinant of A is that of M times that of
//! the two by two elements of `M^-1` in the corner (Jacobi 1841), and both have derivatives. A matrix that lacks three
//! ranks or more has no first and second derivatives but 0.
//!
//! For example `[1, 1; 1, 1]` with one row and one column of `[1, 0]` has the determinant -1 and an inverse with 0 in the
//! corner. The cost is that of the elimination of a matrix with two rows more, in the kernels that eliminate A itself.

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::{keepdim, Tensor};

/// Columns and rows of the border: as many as derivatives.
const BORDER: usize = 2;

/// The smallest pivot over the largest one below which a matrix counts as singular.
const SINGULAR: f64 = 3e-6;

/// The same ratio below which an inverse is too rough for second derivatives.
const ROUGH: f64 = 1e-2;

/// Matrices whose rows and columns were divided by powers of two, so that the largest elements are about 1.
struct Balanced {
    matrices: Tensor,
    /// `[batch, n]`: the determinant was divided by the product of these.
    factors: Tensor,
}

impl Tensor {
    /// Of `[batch, n, n]`: the product of the pivots, and derivatives through the inverse, or through that of the bordered
    /// matrix.
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
        let power = |x: Tensor| {
            let power = x.bitcast(DType::U32)?.bitwise_and(0x7f80_0000u32)?.bitcast(DType::F32)?;
            power.eq(0.0)?.where_cond(1.0, power)?.materialize()
        };
        let fixed = self.detach();
        let row = power(fixed.abs().max(keepdim(2))?)?;
        let column = power(fixed.div(&row)?.abs().max(keepdim(1))?)?;
        let matrices = self.div(&row)?.div(&column)?;
        Ok(Balanced { matrices, factors: row.squeeze(2)?.mul(column.squeeze(1)?)? })
    }

    /// With a border of zeros, and ones on its diagonal: the determinant is the same.
    fn widen(&self) -> Result<Tensor> {
        let rows = self.shape[1];
        let corner = self.device.eye(BORDER)?.pad_static(&[(rows, 0), (rows, 0)], 0.0)?;
        self.pad_static(&[(0, 0), (0, BORDER), (0, BORDER)], 0.0)?.add(corner)
    }

    /// With a border of numbers that have no pattern, between -1 and 1, and zeros in its corner.
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

    /// The determinant of a bordered matrix over that of a constant copy, whose inverse this is or 0, times the determinant
    /// of the corner of its inverse. With two derivatives: the inverse is `(I - E + E^2) X`, where X is the constant one and
    /// E is X times the matrix, less the identity.
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
