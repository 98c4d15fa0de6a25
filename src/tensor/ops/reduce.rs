//! Reductions over axes. An empty list of axes means all axes.
//!
//! Statistics of `f16` are computed in `f32` and rounded once, at the end. Squares of 256 and more exceed the range of `f16`,
//! and a plan may store intermediate values. [`Moments`] measures distances from the mean twice.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Op, Reduction};
use crate::tensor::{keepdim, with_op_name, Axes, Tensor};

macro_rules! reductions {
    ($($(#[doc = $doc:literal])+ $name:ident => $op:ident;)*) => {
    #[cfg_attr(feature = "js", warpweft_macros::js)]
    impl Tensor { $(
        $(#[doc = $doc])+
        /// With [`Axes::keepdim`] the axes stay, with extent 1.
        ///
        /// # Errors
        /// `Shape` if an axis does not exist or is named twice; `DType` for `any` and `all` of other types than `bool`.
        #[cfg_attr(feature = "js", js(keepdims))]
        pub fn $name(&self, axes: impl Into<Axes>) -> Result<Tensor> {
            self.reduce(Reduction::$op, axes)
        }
    )* } };
}

reductions! {
    /// The sum over these axes; 0 over nothing. That of `bool` and of integers of fewer than 32 bits is `i32`: how many are
    /// true.
    sum => Sum;
    /// The product over these axes; 1 over nothing. That of `bool` and of integers of fewer than 32 bits is `i32`.
    prod => Prod;
    /// The largest element over these axes; NaN if there is one, -Inf (of integers the least) over nothing. Of `bool` it is
    /// [`Tensor::any`].
    max => Max;
    /// The smallest element over these axes; NaN if there is one, +Inf (of integers the greatest) over nothing. Of `bool` it is
    /// [`Tensor::all`].
    min => Min;
    /// Whether any `bool` over these axes is true.
    any => Any;
    /// Whether every `bool` over these axes is true.
    all => All;
}

/// The mean and the variance of elements over axes, which are kept.
///
/// The mean `m` of the elements is rounded. The distances `x - m` are exact where that matters, since numbers that are close
/// to each other subtract exactly, so their mean is what `m` lacks. One more walk over the elements gives both that and the
/// mean of the squares, and the variance is that less the square of the other. Example: five times 12,345.678 has the
/// `f32` mean 12,345.679; all distances are -0.001, so the mean becomes 12,345.678, and the variance 0.
pub(crate) struct Moments {
    pub mean: Tensor,
    /// The mean of the squared distances from the mean.
    pub variance: Tensor,
}

/// What the variance is of the mean square at least: below, it is what rounding left of equal elements.
const ROUNDING: f64 = 4e-6;

impl Moments {
    /// Of `x`, which is of type `f32`, over axes that are kept; `count` is the number of elements that are combined.
    pub fn of(x: &Tensor, axes: &Axes, count: usize) -> Result<Moments> {
        // Neither depends on what distances are measured from, so gradients need not pass that.
        let near = x.mean_of(axes, count)?.into_detached()?;
        // Recorded twice: one tensor with two readers would be stored where rows are long.
        let rest = x.sub(&near)?.mean_of(axes, count)?;
        let square = x.sub(&near)?.square().mean_of(axes, count)?;
        let variance = square.sub(&rest.square())?;
        // The value alone: derivatives of every order are right as they are.
        let none = variance.le(&square.mul(ROUNDING)?)?;
        let excess = none.where_cond(variance.detach(), 0.0)?;
        Ok(Moments { mean: near.add(&rest)?, variance: variance.sub(&excess)? })
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// A reduction by its name, as [`Tensor::sum`].
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is named twice; `DType` for `any` and `all` of other types than `bool`.
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
            // Over nothing it is beyond what the type holds.
            if reduced.dtype != self.dtype {
                reduced = reduced.clamp(low, high)?.cast(self.dtype)?;
            }
        }
        reduced.drop_reduced_axes(&asked, &axes)
    }

    /// Drops the reduced axes, which are sorted, unless they are to be kept.
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

    /// A reduction that is composed of others, computed in `f32`. `reduce` is called with axes that are kept, and with
    /// the number of elements that are combined.
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

    /// The arithmetic mean over these axes; NaN over nothing.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is named twice; `DType` unless it is of floats.
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn mean(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("mean", axes, |x, axes, count| x.mean_of(axes, count))
    }

    /// The mean of `count` elements.
    fn mean_of(&self, axes: &Axes, count: usize) -> Result<Tensor> {
        let sum = self.sum(axes)?;
        match count {
            // Not 0 / 0: GPUs may take a quotient of 0 for 0.
            0 => sum.add(f64::NAN),
            _ => sum.div(count as f64),
        }
    }

    /// The variance over these axes: the squared distances from the mean, summed and divided by the count less
    /// `correction` (1 for the unbiased estimate, 0 for the population's).
    ///
    /// # Errors
    /// As [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims, options(correction = 1.0)))]
    pub fn var(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.reduce_floats("var", axes, |x, axes, count| {
            let count_less = (count as f64 - correction).max(0.0);
            Moments::of(x, axes, count)?.variance.mul(count as f64 / count_less)
        })
    }

    /// The standard deviation: the square root of [`Tensor::var`]; its gradient at 0 is 0.
    ///
    /// # Errors
    /// As [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims, options(correction = 1.0)))]
    pub fn std(&self, axes: impl Into<Axes>, correction: f64) -> Result<Tensor> {
        self.reduce_floats("std", axes, |x, axes, _| x.var(axes, correction)?.safe_sqrt())
    }

    /// The position of the largest element, as `i32`: along one axis, or, if none is named, among all elements in
    /// row-major order. It is the first of equal ones, and the first NaN if there is one.
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

    /// The position of the smallest element, as [`Tensor::argmax`].
    ///
    /// # Errors
    /// The same.
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

    /// `log(sum(exp(x)))` over these axes, without overflow.
    ///
    /// # Errors
    /// As [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn logsumexp(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("logsumexp", axes, |x, axes, _| {
            let max = x.max(axes)?.into_detached()?;
            // Where all is -Inf (or one is +Inf) the distance would be NaN: measure from 0 there.
            let from = max.is_inf().where_cond(0.0, &max)?;
            let sum = x.sub(&from)?.exp().sum(axes)?;
            sum.log().add(&from)
        })
    }

    /// The sum of absolute values over these axes.
    ///
    /// # Errors
    /// As [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn norm_l1(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("norm_l1", axes, |x, axes, _| x.abs().sum(axes))
    }

    /// The square root of the sum of squares over these axes; its gradient at 0 is 0.
    ///
    /// # Errors
    /// As [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn norm_l2(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("norm_l2", axes, |x, axes, _| x.square().sum(axes)?.safe_sqrt())
    }

    /// The largest absolute value over these axes.
    ///
    /// # Errors
    /// As [`Tensor::mean`].
    #[cfg_attr(feature = "js", js(keepdims))]
    pub fn norm_linf(&self, axes: impl Into<Axes>) -> Result<Tensor> {
        self.reduce_floats("norm_linf", axes, |x, axes, _| x.abs().max(axes))
    }

    /// The `p`-norm over these axes, `sum(|x|^p)^(1/p)`: of the largest absolute value for infinity, of the smallest for
    /// minus infinity, the number of elements that are not 0 for 0. Its gradient where the norm is 0 is 0.
    ///
    /// # Errors
    /// As [`Tensor::mean`]; `Data` if `p` is NaN.
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
            return Err(Error::data("norm: p must be a number, got NaN"));
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

    /// The general `p`-norm. Elements are divided by the largest first, so that no power overflows.
    fn norm_p(&self, p: f64, axes: Axes) -> Result<Tensor> {
        let size = self.abs();
        let scale = if p > 0.0 { size.max(keepdim(&axes))? } else { size.min(keepdim(&axes))? };
        let scale = scale.into_detached()?;
        let flat = scale.eq(0.0)?.logical_or(scale.is_inf())?;
        let scale = flat.where_cond(1.0, scale)?;
        let size = size.div(&scale)?;
        // A power's gradient at 0 is infinite or NaN below 1: no direction is better.
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
        // What is kept has been reduced already: the sum of one element.
        norm.sum(axes)
    }
}
