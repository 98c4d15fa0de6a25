//! Reductions over axes. An empty list of axes means all axes.
//!
//! Statistics of `f16` are computed in `f32` and rounded once, at the end. Squares of 256 and more exceed the range of
//! `f16`, and a plan may store intermediate values. [`Moments`] explains how the variance avoids cancellation.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Op, Reduction};
use crate::tensor::{keepdim, with_op_name, Axes, Tensor};

macro_rules! reductions {
    ($($(#[doc = $doc:literal])+ $name:ident => $op:ident $(, $returns:literal)?;)*) => {
    #[cfg_attr(feature = "js", warpweft_macros::js)]
    impl Tensor { $(
        $(#[doc = $doc])+
        /// With [`Axes::keepdim`], the axes stay with extent 1.
        ///
        /// # Errors
        /// `Shape` if an axis does not exist or is listed twice; `DType` for `any` and `all` of types other than `bool`.
        #[cfg_attr(feature = "js", js(keepdims $(, returns = $returns)?))]
        pub fn $name(&self, axes: impl Into<Axes>) -> Result<Tensor> {
            self.reduce(Reduction::$op, axes)
        }
    )* } };
}

reductions! {
    /// Returns the sum over these axes, or 0 over no elements. The sum of `bool` and of integers with fewer than 32 bits
    /// is `i32`, so the sum of `bool` counts the `true` elements.
    sum => Sum, "Tensor<SumOf[D]>";
    /// Returns the product over these axes, or 1 over no elements. The product of `bool` and of integers with fewer than
    /// 32 bits is `i32`.
    prod => Prod, "Tensor<SumOf[D]>";
    /// Returns the largest element over these axes, or NaN if there is one. Over no elements it is -Inf, or the least
    /// integer. For `bool` it is [`Tensor::any`].
    max => Max;
    /// Returns the smallest element over these axes, or NaN if there is one. Over no elements it is +Inf, or the greatest
    /// integer. For `bool` it is [`Tensor::all`].
    min => Min;
    /// Returns whether any `bool` over these axes is true.
    any => Any;
    /// Returns whether every `bool` over these axes is true.
    all => All;
}

/// The mean and the variance over axes, which are kept with extent 1.
///
/// Problem: in `f32` the mean `m` is rounded, and that error can exceed the spread of close numbers.
///
/// Idea: distances `x - m` of close numbers are exact. Their mean is therefore the error of `m`. The variance is the mean
/// of their squares, less the square of their mean. The cost is one more pass over the elements, which computes both
/// means.
///
/// Example: five times 12,345.678 has the `f32` mean 12,345.679. All distances are -0.001, so the corrected mean is
/// 12,345.678, and the variance is 0.
pub(crate) struct Moments {
    pub mean: Tensor,
    /// The mean of the squared distances from the mean.
    pub variance: Tensor,
}

/// If the ratio of the variance to the mean square is at most this, all elements are equal up to rounding.
const ROUNDING: f64 = 4e-6;

impl Moments {
    /// Computes the moments of `x`, of type `f32`, over `count` elements along `axes`, which must be kept.
    pub fn of(x: &Tensor, axes: &Axes, count: usize) -> Result<Moments> {
        // The moments do not depend on the point that distances are measured from, so its gradient is not needed.
        let near = x.mean_of(axes, count)?.into_detached()?;
        // `x - near` is recorded twice, because one tensor with two users would be stored if rows are long.
        let rest = x.sub(&near)?.mean_of(axes, count)?;
        let square = x.sub(&near)?.square().mean_of(axes, count)?;
        let variance = square.sub(&rest.square())?;
        // Subtracts only the value. The derivatives are correct without it.
        let none = variance.le(&square.mul(ROUNDING)?)?;
        let excess = none.where_cond(variance.detach(), 0.0)?;
        Ok(Moments { mean: near.add(&rest)?, variance: variance.sub(&excess)? })
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Reduces by a reduction given by name, like [`Tensor::sum`] and the others.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is listed twice; `DType` for `any` and `all` of types other than `bool`.
    #[cfg_attr(feature = "js", js(skip))]
    pub fn reduce(&self, op: Reduction, axes: impl Into<Axes>) -> Result<Tensor> {
        let asked = axes.into();
        let axes = asked.resolve(op.name(), &self.shape)?;
        let (mut from, mut op) = (self.clone(), op);
        match op {
            Reduction::Max if self.dtype == DType::Bool => op = Reduction::Any,
            Reduction::Min if self.dtype == DType::Bool => op = Reduction::All,
            Reduction::Sum | Reduction::Prod if !self.dtype.is_number() => {
                from = self.cast(DType::I32)?;
            }
            Reduction::Max | Reduction::Min if !self.dtype.is_number() => {
                from = self.cast(self.dtype.compute())?;
            }
            _ => {}
        }
        let mut reduced = from.apply(Op::Reduce { op, axes: axes.clone() }, &[])?;
        if let (Reduction::Max | Reduction::Min, Some((low, high))) = (op, self.dtype.range()) {
            // The result over no elements may be outside the range of the type.
            if reduced.dtype != self.dtype {
                reduced = reduced.clamp(low, high)?.cast(self.dtype)?;
            }
        }
        reduced.drop_reduced_axes(&asked, &axes)
    }

    /// Drops the reduced axes, which must be sorted, unless the caller keeps them.
    fn drop_reduced_axes(self, asked: &Axes, axes: &[usize]) -> Result<Tensor> {
        if asked.keeps() {
            return Ok(self);
        }
        let mut dims = self.shape.to_vec();
        for &axis in axes.iter().rev() {
            dims.remove(axis);
        }
        self.reshape(&dims)
    }

    /// Computes a composed reduction in `f32`. `reduce` gets axes that are kept, and the number of elements to combine.
    fn reduce_floats(
        &self,
        name: &str,
        axes: impl Into<Axes>,
        reduce: impl FnOnce(&Tensor, &Axes, usize) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let asked = axes.into();
        let axes = asked.resolve(name, &self.shape)?;
        self.check_float(name)?;
        let count = axes.iter().map(|&axis| self.shape[axis]).product();
        with_op_name(name, || {
            let reduced = self.compute_in_f32(|x| reduce(x, &keepdim(&asked), count))?;
            reduced.drop_reduced_axes(&asked, &axes)
        })
    }

    /// Returns the arithmetic mean over these axes, or NaN over no elements.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is listed twice; `DType` unless the tensor is a float.
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn mean(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("mean", axes, |x, axes, count| x.mean_of(axes, count))
    }

    /// Returns the mean of `count` elements.
    fn mean_of(&self, axes: &Axes, count: usize) -> Result<Tensor> {
        let sum = self.sum(axes)?;
        match count {
            // Not 0 / 0, because on some GPUs 0 / 0 is 0.
            0 => sum.add(f64::NAN),
            _ => sum.div(count as f64),
        }
    }

    /// Returns the variance over these axes: the sum of squared distances from the mean, divided by the count minus
    /// `correction`. A correction of 1 gives the unbiased estimate, and 0 the population variance.
    ///
    /// # Errors
    /// The errors of [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims, options(correction = 1.0)))]
    pub fn var(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.reduce_floats("var", axes, |x, axes, count| {
            let count_less = (count as f64 - correction).max(0.0);
            Moments::of(x, axes, count)?.variance.mul(count as f64 / count_less)
        })
    }

    /// Returns the standard deviation, which is the square root of [`Tensor::var`]. Its gradient at 0 is 0.
    ///
    /// # Errors
    /// The errors of [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims, options(correction = 1.0)))]
    pub fn std(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.reduce_floats("std", axes, |x, axes, _| x.var(axes, correction)?.safe_sqrt())
    }

    /// Returns the position of the largest element along one axis, as `i32`. Without an axis, it is the row-major
    /// position among all elements. Of equal elements the first one counts, and the first NaN counts as the largest.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or is empty, or for several axes.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 5.0, 2.0, 7.0, 0.0, 3.0], &[2, 3])?;
    /// assert_eq!(x.argmax(-1)?.read::<i32>().await?, [1, 0]);
    /// assert_eq!(x.argmax(())?.item::<i32>().await?, 3);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(keepdims, dtype = I32))]
    pub fn argmax(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.arg_reduce("argmax", Reduction::Max, axes.into())
    }

    /// Returns the position of the smallest element along one axis or among all elements, like [`Tensor::argmax`].
    ///
    /// # Errors
    /// The errors of [`Tensor::argmax`].
    #[cfg_attr(feature = "js", js(keepdims, dtype = I32))]
    pub fn argmin(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.arg_reduce("argmin", Reduction::Min, axes.into())
    }

    fn arg_reduce(&self, name: &str, op: Reduction, asked: Axes) -> Result<Tensor> {
        let axes = asked.resolve(name, &self.shape)?;
        let &[at] = &axes[..] else {
            if axes.len() != self.rank() {
                let message = format!(
                    "{name}: axis must be one axis, or all of them, got {axes:?} of shape {}",
                    self.shape
                );
                return Err(Error::shape(message));
            }
            let found = self.ravel().arg_reduce(name, op, Axes::from(0))?;
            return found.reshape(vec![1; if asked.keeps() { self.rank() } else { 0 }]);
        };
        if self.shape[at] == 0 {
            let message = format!("{name}: axis {at} must not be empty, got shape {}", self.shape);
            return Err(Error::shape(message));
        }
        let best = with_op_name(name, || self.reduce(op, keepdim(at as isize)))?;
        let mut found = self.eq(&best)?;
        if self.dtype.is_float() {
            found = found.logical_or(&self.is_nan())?;
        }
        let position = self.device.iota(&self.shape, at as isize)?;
        let none = self.device.constant(&[], f64::from(i32::MAX), DType::I32)?;
        found.where_cond(&position, &none)?.min(Axes::from(at as isize).keepdim(asked.keeps()))
    }

    /// Returns `log(sum(exp(x)))` over these axes, without overflow.
    ///
    /// # Errors
    /// The errors of [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn logsumexp(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("logsumexp", axes, |x, axes, _| {
            let max = x.max(axes)?.into_detached()?;
            // If the maximum is infinite, the difference would be NaN, so 0 is subtracted instead.
            let from = max.is_inf().where_cond(0.0, &max)?;
            let sum = x.sub(&from)?.exp().sum(axes)?;
            sum.log().add(&from)
        })
    }

    /// Returns the sum of absolute values over these axes.
    ///
    /// # Errors
    /// The errors of [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn norm_l1(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("norm_l1", axes, |x, axes, _| x.abs().sum(axes))
    }

    /// Returns the square root of the sum of squares over these axes. Its gradient at 0 is 0.
    ///
    /// # Errors
    /// The errors of [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn norm_l2(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("norm_l2", axes, |x, axes, _| x.square().sum(axes)?.safe_sqrt())
    }

    /// Returns the largest absolute value over these axes, or 0 over no elements.
    ///
    /// # Errors
    /// The errors of [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn norm_linf(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("norm_linf", axes, |x, axes, count| match count {
            0 => x.sum(axes),
            _ => x.abs().max(axes),
        })
    }

    /// Returns the `p`-norm over these axes, `sum(|x|^p)^(1/p)`. Its gradient is 0 if the norm is 0.
    ///
    /// For infinity it is the largest absolute value, and for minus infinity the smallest. For 0 it is the number of
    /// nonzero elements. Over no elements it is 0, or infinity if `p` is negative.
    ///
    /// # Errors
    /// The errors of [`Tensor::mean`]; `InvalidArgument` if `p` is NaN.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[3.0f32, -4.0], &[2])?;
    /// assert_eq!(x.norm(2.0, ())?.item::<f32>().await?, 5.0);
    /// assert_eq!(x.norm(f64::INFINITY, ())?.item::<f32>().await?, 4.0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(keepdims, default(p = 2.0)))]
    pub fn norm(&self, p: f64, axes: impl Into<Axes>) -> Result<Tensor> {
        if p.is_nan() {
            return Err(Error::argument("norm: p must be a number, got NaN"));
        }
        self.check_float("norm")?;
        let axes = axes.into();
        with_op_name("norm", || {
            self.compute_in_f32(|x| {
                if p == 1.0 {
                    x.norm_l1(axes)
                } else if p == 2.0 {
                    x.norm_l2(axes)
                } else if p == f64::INFINITY {
                    x.norm_linf(axes)
                } else if p == f64::NEG_INFINITY {
                    x.abs().min(axes)
                } else if p == 0.0 {
                    x.ne(0.0)?.cast(x.dtype)?.sum(axes)
                } else {
                    x.norm_p(p, axes)
                }
            })
        })
    }

    /// Computes the general `p`-norm. Elements are first divided by the largest one, so that no power overflows.
    fn norm_p(&self, p: f64, axes: Axes) -> Result<Tensor> {
        let size = self.abs();
        let scale = if p > 0.0 { size.max(keepdim(&axes))? } else { size.min(keepdim(&axes))? };
        let scale = scale.into_detached()?;
        let flat = scale.eq(0.0)?.logical_or(scale.is_inf())?;
        let scale = flat.where_cond(1.0, scale)?;
        let size = size.div(&scale)?;
        // For `p` below 1, the gradient of the power at 0 is infinite or NaN. Replacing zeros makes it 0.
        let none = size.eq(0.0)?;
        let part = none.where_cond(1.0, size)?.pow(p)?;
        let part = if p > 0.0 {
            none.where_cond(0.0, part)?
        } else {
            none.where_cond(f64::INFINITY, part)?
        };
        let sum = part.sum(keepdim(&axes))?;
        let none = sum.eq(0.0)?;
        let root = none.where_cond(1.0, sum)?.pow(1.0 / p)?;
        let norm = none.where_cond(if p > 0.0 { 0.0 } else { f64::INFINITY }, root)?.mul(&scale)?;
        // The axes already have extent 1. This sum drops them unless the caller keeps them.
        norm.sum(axes)
    }
}
