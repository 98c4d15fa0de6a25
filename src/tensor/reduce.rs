//! Reductions over axes. No axes named means all of them.

use super::{within, Tensor};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::{Op, Reduction};

macro_rules! reductions {
    ($($(#[doc = $doc:literal])+ $name:ident $keepdim:ident => $op:ident;)*) => { impl Tensor { $(
        $(#[doc = $doc])+
        ///
        /// # Errors
        /// `Shape` if an axis does not exist or is named twice; `DType` if the type has no such reduction.
        pub fn $name(&self, axes: &[isize]) -> Result<Tensor> {
            self.reduce(Reduction::$op, axes, false)
        }

        #[doc = concat!("[`Tensor::", stringify!($name), "`] with the axes kept, of extent 1.")]
        ///
        /// # Errors
        /// The same.
        pub fn $keepdim(&self, axes: &[isize]) -> Result<Tensor> {
            self.reduce(Reduction::$op, axes, true)
        }
    )* } };
}

reductions! {
    /// The sum over these axes; 0 over nothing.
    sum sum_keepdim => Sum;
    /// The product over these axes; 1 over nothing.
    prod prod_keepdim => Prod;
    /// The largest element over these axes; NaN if there is one, -Inf over nothing.
    max max_keepdim => Max;
    /// The smallest element over these axes; NaN if there is one, +Inf over nothing.
    min min_keepdim => Min;
    /// Whether any `bool` over these axes is true.
    any any_keepdim => Any;
    /// Whether every `bool` over these axes is true.
    all all_keepdim => All;
}

impl Tensor {
    /// A reduction by its name; whether the axes are kept, of extent 1.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is named twice; `DType` if the type has no such reduction.
    pub fn reduce(&self, op: Reduction, axes: &[isize], keep: bool) -> Result<Tensor> {
        let axes = self.shape.axes(op.name(), axes)?;
        let reduced = self.apply(Op::Reduce { op, axes: axes.clone() }, &[])?;
        if keep {
            return Ok(reduced);
        }
        reduced.without(&axes)
    }

    /// Without these axes, which are sorted.
    fn without(&self, axes: &[usize]) -> Result<Tensor> {
        let mut dims = self.shape.to_vec();
        for &axis in axes.iter().rev() {
            dims.remove(axis);
        }
        self.reshape(&dims)
    }

    /// How many elements a reduction over these axes combines.
    fn count(&self, name: &str, axes: &[isize]) -> Result<usize> {
        Ok(self.shape.axes(name, axes)?.iter().map(|&a| self.shape[a]).product())
    }

    /// Refuses types other than floats.
    pub(super) fn need_float(&self, name: &str) -> Result<()> {
        if self.dtype.is_float() {
            return Ok(());
        }
        Err(Error::dtype(format!("{name}: does not take {}; cast it first", self.dtype)))
    }

    /// The arithmetic mean over these axes; NaN over nothing.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is named twice; `DType` unless it is of floats.
    pub fn mean(&self, axes: &[isize]) -> Result<Tensor> {
        let found = self.shape.axes("mean", axes)?;
        self.mean_keepdim(axes)?.without(&found)
    }

    /// [`Tensor::mean`] with the axes kept, of extent 1.
    ///
    /// # Errors
    /// The same.
    pub fn mean_keepdim(&self, axes: &[isize]) -> Result<Tensor> {
        self.need_float("mean")?;
        let count = self.count("mean", axes)?;
        let sum = self.sum_keepdim(axes)?;
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
    pub fn var(&self, axes: &[isize], correction: f64) -> Result<Tensor> {
        let found = self.shape.axes("var", axes)?;
        self.var_keepdim(axes, correction)?.without(&found)
    }

    /// [`Tensor::var`] with the axes kept, of extent 1.
    ///
    /// # Errors
    /// The same.
    pub fn var_keepdim(&self, axes: &[isize], correction: f64) -> Result<Tensor> {
        self.need_float("var")?;
        let count = self.count("var", axes)?;
        let distance = self.sub(&self.mean_keepdim(axes)?)?;
        let sum = distance.square().sum_keepdim(axes)?;
        match count {
            0 => sum.add(f64::NAN),
            _ => sum.div((count as f64 - correction).max(0.0)),
        }
    }

    /// The square root, whose derivative at 0 is taken as 0: where all is equal, no direction is better.
    fn root(&self) -> Result<Tensor> {
        let none = self.eq(0.0)?;
        none.select(0.0, &none.select(1.0, self)?.sqrt())
    }

    /// The standard deviation: the square root of [`Tensor::var`]; its gradient at 0 is 0.
    ///
    /// # Errors
    /// As [`Tensor::mean`].
    pub fn std(&self, axes: &[isize], correction: f64) -> Result<Tensor> {
        within("std", || self.var(axes, correction)?.root())
    }

    /// [`Tensor::std`] with the axes kept, of extent 1.
    ///
    /// # Errors
    /// The same.
    pub fn std_keepdim(&self, axes: &[isize], correction: f64) -> Result<Tensor> {
        within("std", || self.var_keepdim(axes, correction)?.root())
    }

    /// The position along `axis` of the largest element, as `i32`; the first of equal ones, and the first NaN if there
    /// is one.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or is empty; `DType` for `bool`.
    pub fn argmax(&self, axis: isize) -> Result<Tensor> {
        self.arg("argmax", Reduction::Max, axis)
    }

    /// The position along `axis` of the smallest element, as [`Tensor::argmax`].
    ///
    /// # Errors
    /// The same.
    pub fn argmin(&self, axis: isize) -> Result<Tensor> {
        self.arg("argmin", Reduction::Min, axis)
    }

    fn arg(&self, name: &str, op: Reduction, axis: isize) -> Result<Tensor> {
        let at = self.shape.axis(name, axis)?;
        if self.shape[at] == 0 {
            let message = format!("{name}: axis {axis} of shape {} is empty", self.shape);
            return Err(Error::shape(message));
        }
        let best = within(name, || self.reduce(op, &[axis], true))?;
        let mut found = self.eq(&best)?;
        if self.dtype.is_float() {
            found = found.logical_or(&self.is_nan())?;
        }
        let position = self.device.iota(&self.shape, at as isize)?;
        let none = self.device.full(DType::I32, f64::from(i32::MAX), &[])?;
        found.select(&position, &none)?.min(&[axis])
    }

    /// `log(sum(exp(x)))` over these axes, without overflow.
    ///
    /// # Errors
    /// As [`Tensor::mean`].
    pub fn logsumexp(&self, axes: &[isize]) -> Result<Tensor> {
        let found = self.shape.axes("logsumexp", axes)?;
        self.logsumexp_keepdim(axes)?.without(&found)
    }

    /// [`Tensor::logsumexp`] with the axes kept, of extent 1.
    ///
    /// # Errors
    /// The same.
    pub fn logsumexp_keepdim(&self, axes: &[isize]) -> Result<Tensor> {
        self.need_float("logsumexp")?;
        within("logsumexp", || {
            let max = self.max_keepdim(axes)?.fixed()?;
            // Where all is -Inf (or one is +Inf) the distance would be NaN: measure from 0 there.
            let from = max.is_inf().select(0.0, &max)?;
            let sum = self.sub(&from)?.exp().sum_keepdim(axes)?;
            sum.log().add(&from)
        })
    }
}

macro_rules! norms {
    ($($(#[doc = $doc:literal])+ $name:ident $keepdim:ident => |$x:ident, $axes:ident, $keep:ident| $norm:expr;)*) => {
        impl Tensor { $(
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// As [`Tensor::mean`].
            pub fn $name(&self, axes: &[isize]) -> Result<Tensor> {
                self.norm(stringify!($name), |$x, $axes, $keep| $norm, axes, false)
            }

            #[doc = concat!("[`Tensor::", stringify!($name), "`] with the axes kept, of extent 1.")]
            ///
            /// # Errors
            /// The same.
            pub fn $keepdim(&self, axes: &[isize]) -> Result<Tensor> {
                self.norm(stringify!($name), |$x, $axes, $keep| $norm, axes, true)
            }
        )* }
    };
}

norms! {
    /// The sum of absolute values over these axes.
    norm_l1 norm_l1_keepdim => |x, axes, keep| x.abs().reduce(Reduction::Sum, axes, keep);
    /// The square root of the sum of squares over these axes; its gradient at 0 is 0.
    norm_l2 norm_l2_keepdim => |x, axes, keep| x.square().reduce(Reduction::Sum, axes, keep)?.root();
    /// The largest absolute value over these axes.
    norm_linf norm_linf_keepdim => |x, axes, keep| x.abs().reduce(Reduction::Max, axes, keep);
}

impl Tensor {
    fn norm(
        &self,
        name: &str,
        norm: fn(&Tensor, &[isize], bool) -> Result<Tensor>,
        axes: &[isize],
        keep: bool,
    ) -> Result<Tensor> {
        self.need_float(name)?;
        within(name, || norm(self, axes, keep))
    }
}
