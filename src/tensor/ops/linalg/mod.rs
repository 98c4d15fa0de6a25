//! Linear algebra of the matrices in the last two axes; the axes before are a batch. All is made of recorded operations and
//! computed in `f32`.
//!
//! How gradients are made: a factor or an inverse is computed of a constant copy. Then the result is written as a formula
//! of that constant and of the matrix which agrees with it, as functions, to second order where the matrix is (a step of
//! Newton's for an inverse, of refinement for a solution, the first terms of a series for a determinant or a factor). Its
//! value changes by rounding at most, and its first and second derivatives are those of the result.

mod determinant;
mod eigh;
mod elimination;
mod factors;
mod norms;
mod reflections;
mod solve;
mod triangular;

pub use norms::MatrixNorm;

use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::Tensor;

/// Rows and columns of a matrix, at most: kernels are about twice as many, and each passes over the matrix.
const MAX_ROWS: usize = 1024;

/// The rule for square matrices in error messages.
const SQUARE: &str = "the last two axes must be equal (square matrices)";

impl Tensor {
    /// The matrices in the last two axes, `[batch, rows, columns]`, in `f32`.
    fn matrices(&self, name: &str) -> Result<Tensor> {
        self.check_float(name)?;
        let [.., rows, columns] = self.shape[..] else {
            return Err(Error::wrong_shape(
                name,
                "the input must have rank 2 or more",
                &self.shape,
            ));
        };
        if rows.min(columns) > MAX_ROWS {
            let message =
                format!("{name}: matrices must have at most {MAX_ROWS} rows or columns, got {rows} by {columns}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let batch: usize = self.shape[..self.rank() - 2].iter().product();
        self.cast(DType::F32)?.reshape(&[batch, rows, columns])
    }

    /// The same of square matrices.
    fn square_matrices(&self, name: &str) -> Result<Tensor> {
        match self.shape[..] {
            [.., rows, columns] if rows == columns => self.matrices(name),
            _ => Err(Error::wrong_shape(name, SQUARE, &self.shape)),
        }
    }

    /// Reshapes a result in `f32` to `dims`, and casts it to the type of `like`.
    fn reshape_like(&self, like: &Tensor, dims: &[usize]) -> Result<Tensor> {
        self.reshape(dims)?.cast(like.dtype)
    }

    /// Returns the value of `constant` with the derivatives of this tensor. Both values are equal apart from rounding.
    fn with_value_of(&self, constant: &Tensor) -> Result<Tensor> {
        constant.add(self.sub(self.detach())?)
    }

    /// Transposes the last two axes.
    fn t(&self) -> Result<Tensor> {
        self.transpose(-2, -1)
    }

    /// Subtracts the identity matrix.
    fn sub_identity(&self) -> Result<Tensor> {
        self.sub(self.device.eye(self.shape[self.rank() - 1])?)
    }
}
