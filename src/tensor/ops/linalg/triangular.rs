//! Triangular matrices: inverses and solutions.

use crate::error::Result;
use crate::tensor::{with_op_name, Tensor};

impl Tensor {
    /// Inverts lower triangular matrices, `[batch, n, n]`. Elements above the diagonal are ignored.
    ///
    /// Diagonal blocks of 1, 2, 4 and more rows are inverted. Each consists of two blocks a and c of half the size, and
    /// of the block b below a: `[a, 0; b, c]` has the inverse `[1/a, 0; -1/c b 1/a, 1/c]`. It takes `log(n)` steps of two
    /// matrix products.
    pub(super) fn lower_inverse(&self) -> Result<Tensor> {
        let rows = self.shape[1];
        let (row, column) = self.rows_and_columns()?;
        let mut inverse = row.eq(&column)?.where_cond(self.reciprocal(), 0.0)?.materialize()?;
        let mut bits = 0;
        while 1 << bits < rows {
            // The elements below the diagonal blocks, but inside blocks of twice the size.
            let (block, across) =
                (row.bitwise_right_shift(bits)?, column.bitwise_right_shift(bits)?);
            let pair = block.bitwise_right_shift(1)?.eq(across.bitwise_right_shift(1)?)?;
            let below = pair.logical_and(block.gt(&across)?)?.where_cond(self, 0.0)?;
            let change = inverse.matmul(&below)?.matmul(&inverse)?;
            inverse = inverse.sub(&change)?.materialize()?;
            bits += 1;
        }
        Ok(inverse)
    }

    /// Returns the row and the column of each element of a square matrix.
    pub(super) fn rows_and_columns(&self) -> Result<(Tensor, Tensor)> {
        let rows = self.shape[self.rank() - 1];
        Ok((self.device.iota(&[rows, 1], 0)?, self.device.iota(&[rows], 0)?))
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the solution of `A x = b` for triangular matrices A. This tensor is A, of which only the lower triangle is
    /// used, or the upper one with `upper`.
    ///
    /// Shapes are those of [`Tensor::solve`]. It takes about four kernels for each doubling of n, up to 1024. If a
    /// diagonal element is 0, the solution has infinite or NaN elements. Derivatives by A up to the second are correct, and
    /// higher ones are an error.
    ///
    /// # Errors
    /// The errors of [`Tensor::solve`].
    #[cfg_attr(feature = "js", js(default(upper = false)))]
    pub fn solve_triangular(&self, other: &Tensor, upper: bool) -> Result<Tensor> {
        let name = "solve_triangular";
        let a = self.square_matrices(name)?;
        let sides = self.right_sides(name, other)?;
        if sides.result.contains(&0) {
            return self.device.zeros((&sides.result[..], self.dtype));
        }
        with_op_name(name, || {
            let constant = a.detach();
            let a = a.with_derivatives(name, 2)?;
            let (triangle, inverse) = match upper {
                true => (a.triu(0)?, constant.t()?.lower_inverse()?.t()?),
                false => (a.tril(0)?, constant.lower_inverse()?),
            };
            sides.refined(&triangle, &inverse)?.reshape_like(self, &sides.result)
        })
    }
}
