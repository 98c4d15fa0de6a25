//! Factors of matrices: Cholesky's, and orthogonal times triangular; least squares.

use super::solve::RightSides;
use crate::error::Result;
use crate::op::Span;
use crate::tensor::{keepdim, with_op_name, Tensor};

/// Columns of Cholesky's factor that one kernel computes.
const STEPS: usize = 2;

/// Columns of it that are computed one by one before all others follow by a product.
const PANEL: usize = 32;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The lower triangular L with `L L^T = A`, of symmetric matrices that are positive definite, `[.., n, n]`. Of a
    /// matrix that is not symmetric the mean with its transpose is taken, and so the gradient is symmetric.
    ///
    /// Column by column, two in a kernel, in `f32`, for n up to 1024: `n / 2` kernels and some for each 32 columns, for all
    /// matrices together, and about four for each doubling of n. Where a matrix is not positive definite the triangle is
    /// NaN: whether it is, is not known before it is computed. Derivatives are right up to the second (the first is that of
    /// Murray 2016).
    ///
    /// # Errors
    /// `Shape` unless the last two axes are equal; `DType` unless it is of floats; `Limit` for larger matrices.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[4.0f32, 2.0, 2.0, 10.0], &[2, 2])?;
    /// assert_eq!(x.cholesky()?.read::<f32>().await?, [2.0, 0.0, 1.0, 3.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn cholesky(&self) -> Result<Tensor> {
        let a = self.square_matrices("cholesky")?;
        if self.numel() == 0 {
            return self.reshape(&self.shape);
        }
        with_op_name("cholesky", || {
            let a = a.add(a.t()?)?.mul(0.5)?;
            let factor = a.detach().cholesky_factor()?;
            let inverse = factor.lower_inverse()?;
            let more = inverse.matmul(&a)?.matmul(&inverse.t()?)?.sub_identity()?;
            let whole = factor.add(factor.matmul(&more.lower_root()?)?)?;
            let bad = factor.main_diagonal(1, 2)?.sum(1)?.is_nan().unsqueeze(1)?.unsqueeze(2)?;
            let result = bad.where_cond(f64::NAN, whole.with_value_of(&factor)?)?;
            result.tril(0)?.reshape_like(self, &self.shape)
        })
    }

    /// Matrices `A = Q R`, `[.., m, n]`: Q, `[.., m, k]`, has orthonormal columns and R, `[.., k, n]`, is upper triangular;
    /// k is the smaller one of m and n. Signs are those of LAPACK: an element of R's diagonal is opposite to the one it was
    /// made of, unless that had nothing below it.
    ///
    /// By Householder's reflections, in `f32`, for k up to 1024: two or three kernels for each column and some twenty for
    /// each 32 of them, for all matrices together, and about ten for each doubling of k. Q's columns are orthonormal whatever
    /// the matrix; where its first k columns are not independent, derivatives are taken as 0. Else they are right up to the
    /// second.
    ///
    /// Read both in one [`Device::batch`](crate::device::Device::batch), or all is computed twice.
    ///
    /// # Errors
    /// `Shape` below rank 2; `DType` unless it is of floats; `Limit` for larger matrices.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[3.0f32, 4.0], &[2, 1])?;
    /// let (q, r) = x.qr()?;
    /// let (q, r) = (q.read::<f32>().await?, r.read::<f32>().await?);
    /// assert!((q[0] + 0.6).abs() < 1e-6 && (q[1] + 0.8).abs() < 1e-6 && (r[0] + 5.0).abs() < 1e-6);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(returns(q, r)))]
    pub fn qr(&self) -> Result<(Tensor, Tensor)> {
        let a = self.matrices("qr")?;
        let (rows, columns) = (a.shape[1], a.shape[2]);
        let count = rows.min(columns);
        let before = &self.shape[..self.rank() - 2];
        let (left, right) =
            ([before, &[rows, count]].concat(), [before, &[count, columns]].concat());
        if left.contains(&0) || right.contains(&0) {
            let zeros = |dims: &[usize]| self.device.zeros((dims, self.dtype));
            return Ok((zeros(&left)?, zeros(&right)?));
        }
        with_op_name("qr", || {
            let first = a.slice_static(2, ..count as isize, 1)?;
            let found = Orthogonal::of(&first.detach())?;
            let (q, mut r) = found.differentiable(&first)?;
            if count < columns {
                let rest = q.t()?.matmul(&a.slice_static(2, count as isize.., 1)?)?;
                r = Tensor::concat(&[r, rest], 2)?;
            }
            Ok((q.reshape_like(self, &left)?, r.reshape_like(self, &right)?))
        })
    }

    /// The x for which the squares of `A x - b` have the smallest sum: this is A, `[.., m, n]`; b is `[.., m, k]`, or, with
    /// the same axes before, a vector `[.., m]`. Where there are several, m < n, it is the one with the smallest squares
    /// itself. A single b goes with all matrices.
    ///
    /// By [`Tensor::qr`] and two steps of refinement, at about its cost. The matrix must have full rank: else all is
    /// infinite or NaN. Derivatives are right up to the second.
    ///
    /// # Errors
    /// `Shape` if they do not fit; `DType` unless both are of one float type; `Limit` where both extents are above 1024.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// // The line through (0, 1), (1, 3), (2, 5): 1 + 2 t.
    /// let a = device.tensor(&[1.0f32, 0.0, 1.0, 1.0, 1.0, 2.0], &[3, 2])?;
    /// let x = a.lstsq(&device.tensor(&[1.0f32, 3.0, 5.0], &[3])?)?.read::<f32>().await?;
    /// assert!((x[0] - 1.0).abs() < 1e-5 && (x[1] - 2.0).abs() < 1e-5);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn lstsq(&self, other: &Tensor) -> Result<Tensor> {
        let name = "lstsq";
        let a = self.matrices(name)?;
        let sides = self.right_sides(name, other)?;
        if sides.result.contains(&0) || self.numel() == 0 {
            return self.device.zeros((&sides.result[..], self.dtype));
        }
        with_op_name(name, || {
            let tall = a.shape[1] >= a.shape[2];
            let x = if tall { a.lstsq_tall(&sides)? } else { a.lstsq_wide(&sides)? };
            x.reshape_like(self, &sides.result)
        })
    }
}

impl Tensor {
    /// Cholesky's factor of `[batch, n, n]`, of which what is on and below the diagonal counts: some columns one by one,
    /// then the others by a product.
    fn cholesky_factor(&self) -> Result<Tensor> {
        let rows = self.shape[1];
        let (_, column) = self.rows_and_columns()?;
        let mut matrix = self.clone();
        for start in (0..rows).step_by(PANEL) {
            let width = PANEL.min(rows - start);
            let span = Span::at(start, width, 1);
            let panel = matrix.span_dynamic(2, span, 1)?.cholesky_panel(start)?;
            if width == rows {
                matrix = panel;
                continue;
            }
            let across = panel.matmul(&panel.t()?)?;
            let rest = column.ge(start + width)?.where_cond(matrix.sub(across)?, &matrix)?;
            matrix = rest.slice_scatter(2, start as isize, &panel)?.materialize()?;
        }
        matrix.tril(0)
    }

    /// The columns of Cholesky's factor from `start` on, of those of the matrix less what came before. Above the diagonal
    /// they have no meaning.
    fn cholesky_panel(&self, start: usize) -> Result<Tensor> {
        let width = self.shape[2];
        let column = self.device.iota(&[width], 0)?;
        let mut panel = self.materialize()?;
        for k in 0..width {
            let own = panel.span_dynamic(2, Span::at(k, 1, 1), 1)?;
            let left = own.div(own.span_dynamic(1, Span::at(start + k, 1, 1), 1)?.sqrt())?;
            let rest =
                panel.sub(left.mul(left.span_dynamic(1, Span::at(start, width, 1), 1)?.t()?)?)?;
            let next = column.gt(k)?.where_cond(rest, &panel)?;
            panel = column.eq(k)?.where_cond(left, next)?;
            if k % STEPS == STEPS - 1 || k + 1 == width {
                panel = panel.materialize()?;
            }
        }
        Ok(panel)
    }

    /// For a symmetric matrix E the lower triangular F with `(I + F) (I + F)^T = I + E`, to second order.
    fn lower_root(&self) -> Result<Tensor> {
        let (row, column) = self.rows_and_columns()?;
        let half = |x: &Tensor| {
            let below = row.gt(&column)?.where_cond(x, 0.0)?;
            row.eq(&column)?.where_cond(x.mul(0.5)?, below)
        };
        let first = half(&self.materialize()?)?;
        half(&self.sub(first.matmul(&first.t()?)?)?)
    }

    /// Of `[batch, m, n]`, m >= n.
    fn lstsq_tall(&self, sides: &RightSides) -> Result<Tensor> {
        let found = Orthogonal::of(&self.detach())?;
        let inverse = found.inverse()?;
        let b = &sides.matrices;
        let mut x = inverse.matmul(&found.q.t()?.matmul(&b.detach())?)?;
        for _ in 0..2 {
            let rest = b.sub(self.matmul(&x)?)?;
            let more = inverse.t()?.matmul(&self.t()?.matmul(&rest)?)?;
            x = x.add(inverse.matmul(&more)?)?;
        }
        Ok(x)
    }

    /// Of `[batch, m, n]`, m < n: it is `A^T z` with `A A^T z = b`.
    fn lstsq_wide(&self, sides: &RightSides) -> Result<Tensor> {
        let across = self.t()?;
        let inverse = Orthogonal::of(&across.detach())?.inverse()?;
        let b = &sides.matrices;
        let mut z = inverse.matmul(&inverse.t()?.matmul(&b.detach())?)?;
        for _ in 0..2 {
            let rest = b.sub(self.matmul(&across.matmul(&z)?)?)?;
            z = z.add(inverse.matmul(&inverse.t()?.matmul(&rest)?)?)?;
        }
        across.matmul(&z)
    }
}

/// `A = scale Q R` of `[batch, m, n]`, m >= n, constants.
struct Orthogonal {
    q: Tensor,
    r: Tensor,
    scale: Tensor,
}

impl Orthogonal {
    fn of(a: &Tensor) -> Result<Orthogonal> {
        let (rows, columns) = (a.shape[1], a.shape[2]);
        // Squares of what is at most 1 do not overflow.
        let largest = a.abs().max(keepdim([1, 2]))?;
        let scale = largest.gt(0.0)?.where_cond(&largest, 1.0)?.materialize()?;
        let reflected = a.div(&scale)?.reflect_all()?;
        let v = reflected.reflection_vectors(0)?;
        let t = v.combine_reflections()?;
        let top = v.slice_static(1, ..columns as isize, 1)?;
        let turned = v.matmul(&t.matmul(&top.t()?)?)?;
        let q = a.device.eye(&[rows, columns])?.sub(turned)?.materialize()?;
        let r = reflected.slice_static(1, ..columns as isize, 1)?.triu(0)?.materialize()?;
        Ok(Orthogonal { q, r, scale })
    }

    /// The inverse of `scale R`.
    fn inverse(&self) -> Result<Tensor> {
        self.r.t()?.lower_inverse()?.t()?.div(&self.scale)?.materialize()
    }

    /// Q and `scale R` with the derivatives they have as functions of the matrix `a` (de Hoog et al. 2011 have the first).
    fn differentiable(&self, a: &Tensor) -> Result<(Tensor, Tensor)> {
        let r = self.r.mul(&self.scale)?.materialize()?;
        let (row, column) = r.rows_and_columns()?;
        let diagonal = row.eq(&column)?;
        // One that has an inverse, in any case.
        let flat = self.r.main_diagonal(1, 2)?.eq(0.0)?.any(1)?.unsqueeze(1)?.unsqueeze(2)?;
        let regular = flat.where_cond(diagonal.cast(a.dtype)?, &r)?;
        let inverse = regular.t()?.lower_inverse()?.t()?;
        let q = a.matmul(&inverse)?.materialize()?;
        let more = q.t()?.matmul(&q)?.sub_identity()?;
        let root = more.lower_root()?.t()?.materialize()?;
        let back = root.matmul(&root)?.sub(&root)?;
        let (q, new) = (q.add(q.matmul(&back)?)?, regular.add(root.matmul(&regular)?)?);
        let fit = |new: Tensor, old: &Tensor| {
            let change = flat.where_cond(0.0, new.sub(new.detach())?)?;
            old.add(change)
        };
        Ok((fit(q, &self.q)?, fit(new, &r)?))
    }
}
