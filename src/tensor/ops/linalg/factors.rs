//! Matrix factorizations (Cholesky and QR), and least squares.

use super::solve::RightSides;
use crate::error::Result;
use crate::op::Span;
use crate::tensor::{keepdim, with_op_name, Tensor};

/// The columns of a Cholesky factor that one kernel computes.
const STEPS: usize = 2;

/// The columns of a panel, which are computed one by one before a matrix product updates the others.
const PANEL: usize = 32;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the lower triangular L with `L L^T = A`, of symmetric positive definite matrices, `[.., n, n]`. A matrix
    /// that is not symmetric is replaced by the mean of itself and its transpose, so the gradient is symmetric.
    ///
    /// It is computed column by column in `f32`, for n up to 1024. All matrices together take `n / 2` kernels, some for
    /// each 32 columns, and about four for each doubling of n.
    ///
    /// If a matrix is not positive definite, the triangle is NaN. This is unknown until it is computed, so it is not an
    /// error. Derivatives up to the second are correct (the first is that of Murray 2016), and higher ones are an error.
    ///
    /// # Errors
    /// `Shape` unless the last two axes are equal; `DType` unless the tensor is a float; `Limit` for larger matrices.
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
            let a = a.with_derivatives("cholesky", 2)?;
            let more = inverse.matmul(&a)?.matmul(&inverse.t()?)?.sub_identity()?;
            let whole = factor.add(factor.matmul(&more.lower_root()?)?)?;
            let bad = factor.main_diagonal(1, 2)?.sum(1)?.is_nan().unsqueeze(1)?.unsqueeze(2)?;
            let result = bad.where_cond(f64::NAN, whole.with_value_of(&factor)?)?;
            result.tril(0)?.reshape_like(self, &self.shape)
        })
    }

    /// Returns the factors of matrices `A = Q R`, `[.., m, n]`. Q, `[.., m, k]`, has orthonormal columns, and R,
    /// `[.., k, n]`, is upper triangular. k is the smaller one of m and n.
    ///
    /// Signs are those of LAPACK. An element of R's diagonal has the opposite sign of the element that it was computed
    /// from, unless all elements below that were 0.
    ///
    /// It uses Householder reflections in `f32`, for k up to 1024. All matrices together take two or three kernels for
    /// each column, about twenty for each 32 columns, and about ten for each doubling of k. The columns of Q are
    /// orthonormal for any matrix. If the first k columns of a matrix are dependent, derivatives are 0. Otherwise they
    /// are correct up to the second, and higher ones are an error.
    ///
    /// Read both results in one [`Device::batch`](crate::device::Device::batch), because otherwise everything is computed
    /// twice.
    ///
    /// # Errors
    /// `Shape` below rank 2; `DType` unless the tensor is a float; `Limit` for larger matrices.
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
            let scale = a.scales_along([1, 2])?;
            let a = a.div(&scale)?;
            let first = a.slice_static(2, ..count as isize, 1)?;
            let found = Orthogonal::of(&first.detach())?;
            let first = first.with_derivatives("qr", 2)?;
            let (q, mut r) = found.differentiable(&first)?;
            if count < columns {
                let rest = q.t()?.matmul(&a.slice_static(2, count as isize.., 1)?)?;
                r = Tensor::concat(&[r, rest], 2)?;
            }
            let r = r.mul(&scale)?;
            Ok((q.reshape_like(self, &left)?, r.reshape_like(self, &right)?))
        })
    }

    /// Returns the x with the smallest sum of squares of `A x - b`. If there are several, for m < n, it is the one with
    /// the smallest norm.
    ///
    /// This tensor is A, `[.., m, n]`. b is `[.., m, k]`, or a vector `[.., m]` with the same leading axes. A single b
    /// applies to all matrices.
    ///
    /// It uses [`Tensor::qr`] and two steps of refinement, at about the cost of `qr`. Matrices must have full rank,
    /// because otherwise the result is infinite or NaN. Derivatives by A up to the second are correct, and higher ones are
    /// an error.
    ///
    /// # Errors
    /// `Shape` if the shapes do not fit; `DType` unless both have one float type; `Limit` if both extents exceed 1024.
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
            let a = a.with_derivatives(name, 2)?;
            let x = if tall { a.lstsq_tall(&sides)? } else { a.lstsq_wide(&sides)? };
            x.reshape_like(self, &sides.result)
        })
    }
}

impl Tensor {
    /// Returns the Cholesky factors of `[batch, n, n]`, of which only the lower triangle is read. Some columns are
    /// computed one by one, and a matrix product then updates the others.
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

    /// Returns the columns of a Cholesky factor from `start` on. The input is the matrix's columns minus the
    /// contributions of earlier ones. Elements above the diagonal are meaningless.
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

    /// Returns the lower triangular F with `(I + F) (I + F)^T = I + E` to second order, for a symmetric matrix E.
    fn lower_root(&self) -> Result<Tensor> {
        let (row, column) = self.rows_and_columns()?;
        let half = |x: &Tensor| {
            let below = row.gt(&column)?.where_cond(x, 0.0)?;
            row.eq(&column)?.where_cond(x.mul(0.5)?, below)
        };
        let first = half(&self.materialize()?)?;
        half(&self.sub(first.matmul(&first.t()?)?)?)
    }

    /// Solves least squares for `[batch, m, n]`, m >= n.
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

    /// Solves least squares for `[batch, m, n]`, m < n. The solution is `A^T z` with `A A^T z = b`.
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

/// The factorization `A = scale Q R` of `[batch, m, n]`, m >= n, of constants.
struct Orthogonal {
    q: Tensor,
    r: Tensor,
    scale: Tensor,
}

impl Orthogonal {
    fn of(a: &Tensor) -> Result<Orthogonal> {
        let (rows, columns) = (a.shape[1], a.shape[2]);
        // With elements of at most 1, squares do not overflow.
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

    /// Returns the inverse of `scale R`.
    fn inverse(&self) -> Result<Tensor> {
        self.r.t()?.lower_inverse()?.t()?.div(&self.scale)?.materialize()
    }

    /// Returns Q and `scale R` with their derivatives as functions of the matrix `a` (de Hoog et al. 2011 give the
    /// first).
    fn differentiable(&self, a: &Tensor) -> Result<(Tensor, Tensor)> {
        let r = self.r.mul(&self.scale)?.materialize()?;
        let (row, column) = r.rows_and_columns()?;
        let diagonal = row.eq(&column)?;
        // A singular R is replaced by the identity, so that an inverse exists.
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
