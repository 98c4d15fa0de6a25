//! Norms of matrices.

use crate::error::{Error, Result};
use crate::tensor::{keepdim, with_op_name, Tensor};

/// A norm of matrices. NumPy and PyTorch call them `"fro"`, `"nuc"`, 1, -1, 2, -2, `inf` and `-inf`.
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MatrixNorm {
    /// The square root of the sum of squares.
    Frobenius,
    /// The sum of the singular values.
    Nuclear,
    /// The largest sum of absolute values of a column.
    One,
    /// The smallest sum of absolute values of a column.
    NegOne,
    /// The largest singular value.
    Two,
    /// The smallest singular value.
    NegTwo,
    /// The largest sum of absolute values of a row.
    Inf,
    /// The smallest sum of absolute values of a row.
    NegInf,
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns a norm of the matrices in the last two axes, `[.., m, n] -> [..]`.
    ///
    /// Norms of singular values use [`Tensor::eigh`] of the product with the transpose, at its cost. The shorter side of
    /// the matrices may then have at most 128 elements. The error of a singular value s is about 1e-6 times
    /// `largest^2 / s`, and at most 1e-3 times the largest one.
    ///
    /// The gradient by a singular value of 0 is 0. If a norm needs singular values, derivatives up to the second are
    /// correct if the values are distinct, and higher ones are an error.
    ///
    /// # Errors
    /// `Shape` below rank 2, or for empty matrices; `DType` unless the tensor is a float; `Limit` for larger matrices, if
    /// the norm needs singular values.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::MatrixNorm};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[3.0f32, 0.0, 0.0, -4.0], &[2, 2])?;
    /// assert_eq!(x.matrix_norm(MatrixNorm::Frobenius)?.item::<f32>().await?, 5.0);
    /// assert_eq!(x.matrix_norm(MatrixNorm::Nuclear)?.item::<f32>().await?, 7.0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(order = MatrixNorm::Frobenius)))]
    pub fn matrix_norm(&self, order: MatrixNorm) -> Result<Tensor> {
        let name = "matrix_norm";
        self.check_float(name)?;
        if self.rank() < 2 || self.shape[self.rank() - 2..].contains(&0) {
            let must = "the last two axes must be matrices that are not empty";
            return Err(Error::wrong_shape(name, must, &self.shape));
        }
        with_op_name(name, || match order {
            MatrixNorm::Frobenius => self.norm_l2([-2, -1]),
            MatrixNorm::One => self.norm_l1(-2)?.max(-1),
            MatrixNorm::NegOne => self.norm_l1(-2)?.min(-1),
            MatrixNorm::Inf => self.norm_l1(-1)?.max(-1),
            MatrixNorm::NegInf => self.norm_l1(-1)?.min(-1),
            MatrixNorm::Nuclear => self.singular_values()?.sum(-1),
            MatrixNorm::Two => self.singular_values()?.max(-1),
            MatrixNorm::NegTwo => self.singular_values()?.min(-1),
        })
    }

    /// Returns the singular values: the square roots of the eigenvalues of the smaller product with the transpose.
    fn singular_values(&self) -> Result<Tensor> {
        let (rows, columns) = (self.shape[self.rank() - 2], self.shape[self.rank() - 1]);
        let wide = self.cast(self.dtype.compute())?;
        let largest = wide.abs().max(keepdim([-2, -1]))?.into_detached()?;
        let scale = largest.gt(0.0)?.where_cond(&largest, 1.0)?;
        let x = wide.div(&scale)?;
        let product = if rows < columns { x.matmul(&x.t()?)? } else { x.t()?.matmul(&x)? };
        let (squares, _) = product.eigh()?;
        squares.maximum(0.0)?.safe_sqrt()?.mul(scale.squeeze(-1)?)?.cast(self.dtype)
    }
}
