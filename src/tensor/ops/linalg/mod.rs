//! Linear algebra of the matrices in the last two axes. The axes before are a batch. Everything is composed of recorded
//! operations and computed in `f32`.
//!
//! Gradients: a factor or an inverse is first computed from a constant copy of the matrix. The result is then written as
//! a formula of that constant and of the matrix. As functions of the matrix, the formula and the exact result agree to
//! second order. So the value changes only by rounding, and the first and second derivatives are those of the exact
//! result. Higher derivatives are an error.
//!
//! The formula is a Newton step for an inverse, and a step of refinement for a solution. For a determinant or a factor,
//! it is the first terms of a series. Example: with the constant inverse X, the inverse of A is `X (2 I - A X)` to first
//! order.

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
use crate::op::Op;
use crate::tensor::{keepdim, Axes, Tensor};

/// The most rows or columns of a matrix. There are about twice as many kernels, and each passes over the matrix.
const MAX_ROWS: usize = 1024;

/// The powers of two that matrices may be divided by. GPUs divide accurately by them, and they have a reciprocal.
const POWERS: [f64; 2] = [1.0 / (1u128 << 126) as f64, (1u128 << 126) as f64];

/// The sizes of elements that need no scaling, because neither they nor their reciprocals are close to the ends of the range.
const USUAL_SIZES: [f64; 2] = [1.0 / (1u128 << 100) as f64, (1u128 << 100) as f64];

/// The size that very large elements are scaled to.
const LARGE_TARGET: f64 = (1u64 << 60) as f64;

/// The rule for square matrices in error messages.
const SQUARE: &str = "the last two axes must be equal (square matrices)";

impl Tensor {
    /// Returns the matrices in the last two axes, `[batch, rows, columns]`, in `f32`.
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

    /// Returns square matrices, `[batch, n, n]`, in `f32`.
    fn square_matrices(&self, name: &str) -> Result<Tensor> {
        match self.shape[..] {
            [.., rows, columns] if rows == columns => self.matrices(name),
            _ => Err(Error::wrong_shape(name, SQUARE, &self.shape)),
        }
    }

    /// Returns the same matrices for a formula whose derivatives by them are correct up to the order `most`. Taking one of a
    /// higher order is an error.
    fn with_derivatives(&self, routine: &'static str, most: u8) -> Result<Tensor> {
        self.add(self.apply(Op::DerivativeLimit { routine, most, order: 0 }, &[])?)
    }

    /// Returns the power of two at or below each of these sizes, limited to [`POWERS`], or 1 for a size of 0.
    fn power_below(&self) -> Result<Tensor> {
        let power = self.bitcast(DType::U32)?.bitwise_and(0x7f80_0000u32)?.bitcast(DType::F32)?;
        self.eq(0.0)?.where_cond(1.0, power.clamp(POWERS[0], POWERS[1])?)
    }

    /// Returns constants that matrices, `[batch, rows, columns]`, are divided by, so that sums do not overflow and reciprocals
    /// are finite. LAPACK scales matrices in the same way.
    ///
    /// A matrix is scaled if the largest element along `axes`, which are kept, has an unusual size somewhere. Each constant is
    /// a power of two that brings this element into the range from 1 to 2^61. It is not brought closer to 1, because
    /// gradients are multiplied by the constants of large matrices, and must not overflow.
    fn scales_along(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        let largest = self.detach().abs().max(keepdim(axes))?;
        let usual = largest.ge(USUAL_SIZES[0])?.logical_and(largest.le(USUAL_SIZES[1])?)?;
        let usual = usual.logical_or(largest.eq(0.0)?)?.all(keepdim([1, 2]))?;
        let power = largest.power_below()?;
        let scale = power.minimum(1.0)?.mul(power.mul(1.0 / LARGE_TARGET)?.maximum(1.0)?)?;
        usual.where_cond(1.0, scale)?.materialize()
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
