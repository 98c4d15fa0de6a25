//! Inverses, solutions and determinants of square matrices.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{with_op_name, Tensor};
use std::f64::consts::LN_2;

/// The right sides of linear equations, and the shape of their solutions.
pub(super) struct RightSides {
    /// The right sides, `[batch, rows, columns]`, in `f32`. The batch may be 1.
    pub matrices: Tensor,
    /// The shape of the solution.
    pub result: Vec<usize>,
}

impl RightSides {
    /// Returns the solutions for matrices with approximate inverses. Two steps of refinement give them two derivatives
    /// (Higham 2002, chapter 12).
    pub fn refined(&self, a: &Tensor, inverse: &Tensor) -> Result<Tensor> {
        let b = &self.matrices;
        let mut x = inverse.matmul(b)?;
        for _ in 0..2 {
            x = x.add(inverse.matmul(&b.sub(a.matmul(&x)?)?)?)?;
        }
        Ok(x)
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the inverses of square matrices, `[.., n, n]`.
    ///
    /// It uses Gauss-Jordan elimination with partial pivoting and Newton steps in `f32`, for n up to 1024. All matrices
    /// together take `2 n` kernels and some for each 32 columns. The error is about 1e-7 times the condition number of
    /// the matrix.
    ///
    /// The inverse of a singular matrix is NaN. This is unknown until it is computed, so it is not an error. Derivatives
    /// up to the third are correct, and higher ones are an error.
    ///
    /// # Errors
    /// `Shape` unless the last two axes are equal; `DType` unless the tensor is a float; `Limit` for larger matrices.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[2.0f32, 0.0, 0.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.inv()?.read::<f32>().await?, [0.5, 0.0, 0.0, 0.25]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[doc(alias = "inverse")]
    pub fn inv(&self) -> Result<Tensor> {
        let a = self.square_matrices("inv")?;
        if self.numel() == 0 {
            return self.reshape(&self.shape);
        }
        with_op_name("inv", || {
            let mut inverse = a.detach().eliminate_all()?.inverse_or(f64::NAN)?;
            let a = a.with_derivatives("inv", 3)?;
            // Each Newton step squares the error, also that of the derivatives (Schulz 1933).
            for _ in 0..2 {
                let missing = a.matmul(&inverse)?.sub_identity()?;
                inverse = inverse.sub(inverse.matmul(&missing)?)?;
            }
            inverse.reshape_like(self, &self.shape)
        })
    }

    /// Returns the solution of the linear equations `A x = b`.
    ///
    /// This tensor is A, `[.., n, n]`. b is `[.., n, k]`, or a vector `[.., n]` with the same leading axes. A single
    /// vector or matrix applies to all matrices.
    ///
    /// It uses the inverse, like [`Tensor::inv`], and two steps of refinement, at about the cost of `inv`. The solution
    /// for a singular matrix is NaN. Derivatives by A up to the second are correct, and higher ones are an error.
    ///
    /// # Errors
    /// `Shape` unless the last two axes of this tensor are equal and b fits; `DType` unless both have one float type;
    /// `Limit` for matrices of more than 1024 rows.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let a = device.tensor(&[2.0f32, 1.0, 0.0, 4.0], &[2, 2])?;
    /// let b = device.tensor(&[4.0f32, 8.0], &[2])?;
    /// assert_eq!(a.solve(&b)?.read::<f32>().await?, [1.0, 2.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn solve(&self, other: &Tensor) -> Result<Tensor> {
        let name = "solve";
        let a = self.square_matrices(name)?;
        let sides = self.right_sides(name, other)?;
        if sides.result.contains(&0) {
            return self.device.zeros((&sides.result[..], self.dtype));
        }
        with_op_name(name, || {
            let inverse = a.detach().eliminate_all()?.inverse_or(f64::NAN)?;
            let a = a.with_derivatives(name, 2)?;
            sides.refined(&a, &inverse)?.reshape_like(self, &sides.result)
        })
    }

    /// Checks the right side of `A x = b`, for matrices A of any shape.
    pub(super) fn right_sides(&self, name: &str, other: &Tensor) -> Result<RightSides> {
        if other.dtype != self.dtype {
            let (a, b) = (self.dtype, other.dtype);
            return Err(Error::mixed_dtypes(name, a, b));
        }
        let [before @ .., rows, columns] = &self.shape[..] else {
            let must = "the first must have rank 2 or more";
            return Err(Error::shapes(name, must, &self.shape, &other.shape));
        };
        // As in PyTorch, a batch of vectors is recognized only if it cannot be anything else.
        let vectors = other.shape[..] == [before, &[*rows]].concat();
        let (its, sides) = match &other.shape[..] {
            [_] => (&[][..], 1),
            _ if vectors => (before, 1),
            [its @ .., _, sides] => (its, *sides),
            [] => (&[][..], 0),
        };
        let vector = vectors || other.rank() == 1;
        let height = if vector { other.shape.last() } else { other.shape.iter().nth_back(1) };
        if height != Some(rows) || !(its.is_empty() || its == before) {
            let must =
                "the second must have as many rows as the first, and the same axes before or none";
            return Err(Error::shapes(name, must, &self.shape, &other.shape));
        }
        let mut result = [before, &[*columns]].concat();
        if !vector {
            result.push(sides);
        }
        let batch: usize = its.iter().product();
        let matrices = other.cast(DType::F32)?.reshape(&[batch, *rows, sides])?;
        Ok(RightSides { matrices, result })
    }

    /// Returns the determinants of square matrices, `[.., n, n] -> [..]`.
    ///
    /// Up to n = 3 it uses the formula, with all derivatives. Larger matrices use the product of the pivots, as in
    /// [`Tensor::inv`], at twice its cost. Derivatives up to the second are then correct, also for singular matrices,
    /// whose gradients are their cofactors. Higher ones are an error.
    ///
    /// A determinant outside the range of `f32` is infinite or 0. Use [`Tensor::slogdet`] for such matrices.
    ///
    /// # Errors
    /// The errors of [`Tensor::inv`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// assert_eq!(x.det()?.item::<f32>().await?, -2.0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn det(&self) -> Result<Tensor> {
        let a = self.square_matrices("det")?;
        let dims = &self.shape[..self.rank() - 2];
        with_op_name("det", || {
            let rows = a.shape[1];
            if self.numel() == 0 {
                return self.device.ones((dims, self.dtype));
            }
            let det = match rows {
                ..=3 => a.small_determinant()?,
                _ => a.with_derivatives("det", 2)?.large_determinant()?,
            };
            det.reshape_like(self, dims)
        })
    }

    /// Returns the sign of the determinants of square matrices, -1, 0 or 1, and the logarithm of their absolute values:
    /// `[.., n, n] -> [..], [..]`. The logarithm does not overflow.
    ///
    /// For a singular matrix they are 0 and -Inf, and derivatives are 0. Derivatives of other matrices are correct up to
    /// the second, and higher ones are an error.
    ///
    /// Read both results in one [`Device::batch`](crate::device::Device::batch), because otherwise everything is computed
    /// twice.
    ///
    /// # Errors
    /// The errors of [`Tensor::inv`].
    #[cfg_attr(feature = "js", js(returns(sign, logabsdet)))]
    pub fn slogdet(&self) -> Result<(Tensor, Tensor)> {
        let a = self.square_matrices("slogdet")?;
        let dims = &self.shape[..self.rank() - 2];
        with_op_name("slogdet", || {
            if self.numel() == 0 {
                let sign = self.device.ones((dims, self.dtype))?;
                return Ok((sign, self.device.zeros((dims, self.dtype))?));
            }
            // One number for each row. Their product divides the determinant.
            let scale = a.scales_along(2)?;
            let a = a.div(&scale)?;
            let found = a.detach().eliminate_all()?;
            let a = a.with_derivatives("slogdet", 2)?;
            let slope = found.inverse_or(0.0)?.matmul(&a)?.log_det_derivatives()?;
            let sign = found.pivots.sign().prod(1)?;
            let exponents = scale.squeeze(2)?.log2().round().sum(1)?;
            let log = found.pivots.abs().log().sum(1)?.add(exponents.mul(LN_2)?)?.add(slope)?;
            Ok((sign.reshape_like(self, dims)?, log.reshape_like(self, dims)?))
        })
    }

    /// Returns 0 with the first two derivatives of the logarithm of a determinant. This tensor is the matrix times its
    /// constant inverse. The derivatives are those of `tr(E) - tr(E^2) / 2`, where E is this tensor minus the identity.
    pub(super) fn log_det_derivatives(&self) -> Result<Tensor> {
        let more = self.sub_identity()?.materialize()?;
        let square = more.mul(more.t()?)?.sum([1, 2])?.mul(-0.5)?;
        let slope = more.main_diagonal(1, 2)?.sum(1)?.add(square)?;
        slope.sub(slope.detach())
    }

    /// Returns the determinants of matrices of one to three rows, by the formula.
    pub(super) fn small_determinant(&self) -> Result<Tensor> {
        let rows = self.shape[1];
        let flat = self.reshape(&[self.shape[0], rows * rows])?;
        let at = |row: isize, column: isize| {
            let place = row * rows as isize + column;
            flat.slice_static(1, place..place + 1, 1)?.squeeze(1)
        };
        // The minor of the rows `top` and `top + 1`, and of two columns.
        let minor = |top: isize, left: isize, right: isize| {
            let product = at(top, left)?.mul(at(top + 1, right)?)?;
            product.sub(at(top, right)?.mul(at(top + 1, left)?)?)
        };
        match rows {
            1 => at(0, 0),
            2 => minor(0, 0, 1),
            _ => {
                let outer = at(0, 0)?.mul(minor(1, 1, 2)?)?.sub(at(0, 1)?.mul(minor(1, 0, 2)?)?)?;
                outer.add(at(0, 2)?.mul(minor(1, 0, 1)?)?)
            }
        }
    }
}
