//! `Number`: a number that depends on the step count, on the host or on the device.

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

/// A number in the formula of an update.
///
/// Rules use the number of a step, for example in Adam's bias correction. With loss scaling some steps are skipped, and only
/// the device has their count. The number and all results computed from it are then tensors on the device.
#[derive(Clone, Debug)]
pub enum Number {
    /// A number on the host.
    Known(f64),
    /// A number on the device: `f32` of shape `[1]`.
    Computed(Tensor),
}

impl From<f64> for Number {
    fn from(number: f64) -> Number {
        Number::Known(number)
    }
}

impl Number {
    /// Applies a formula, written twice: `known` for numbers on the host, `computed` for tensors.
    ///
    /// # Errors
    /// The errors of `computed`.
    pub fn map(
        &self,
        known: impl FnOnce(f64) -> f64,
        computed: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Number> {
        Ok(match self {
            Number::Known(number) => Number::Known(known(*number)),
            Number::Computed(tensor) => Number::Computed(computed(tensor)?),
        })
    }

    /// Applies a formula of two numbers, as in [`Number::map`].
    fn with(
        &self,
        other: &Number,
        known: impl FnOnce(f64, f64) -> f64,
        computed: impl FnOnce(&Tensor, &Tensor) -> Result<Tensor>,
    ) -> Result<Number> {
        let like = |tensor: &Tensor, number: f64| tensor.device().full(&[1], number, DType::F32);
        Ok(match (self, other) {
            (Number::Known(a), Number::Known(b)) => Number::Known(known(*a, *b)),
            (Number::Known(a), Number::Computed(b)) => {
                Number::Computed(computed(&like(b, *a)?, b)?)
            }
            (Number::Computed(a), Number::Known(b)) => {
                Number::Computed(computed(a, &like(a, *b)?)?)
            }
            (Number::Computed(a), Number::Computed(b)) => Number::Computed(computed(a, b)?),
        })
    }

    /// Returns the sum.
    ///
    /// # Errors
    /// `Limit`.
    pub fn add(&self, other: impl Into<Number>) -> Result<Number> {
        self.with(&other.into(), |a, b| a + b, |a, b| a.add(b))
    }

    /// Returns the difference.
    ///
    /// # Errors
    /// `Limit`.
    pub fn sub(&self, other: impl Into<Number>) -> Result<Number> {
        self.with(&other.into(), |a, b| a - b, |a, b| a.sub(b))
    }

    /// Returns the product.
    ///
    /// # Errors
    /// `Limit`.
    pub fn mul(&self, other: impl Into<Number>) -> Result<Number> {
        self.with(&other.into(), |a, b| a * b, |a, b| a.mul(b))
    }

    /// Returns the quotient.
    ///
    /// # Errors
    /// `Limit`.
    pub fn div(&self, other: impl Into<Number>) -> Result<Number> {
        self.with(&other.into(), |a, b| a / b, |a, b| a.div(b))
    }

    /// Returns the square root.
    ///
    /// # Errors
    /// `Limit`.
    pub fn sqrt(&self) -> Result<Number> {
        self.map(f64::sqrt, |x| Ok(x.sqrt()))
    }

    /// Returns `x` times the number, in the type of `x`.
    ///
    /// # Errors
    /// `Limit`.
    pub fn times(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Number::Known(number) => x.mul(*number),
            Number::Computed(tensor) => x.mul(&tensor.cast(x.dtype())?),
        }
    }

    /// Returns the result of `above` if the number is above the bound, and of `below` otherwise. A number on the host calls
    /// only one of them.
    ///
    /// # Errors
    /// The errors of both.
    pub fn choose(
        &self,
        bound: f64,
        above: impl FnOnce() -> Result<Tensor>,
        below: impl FnOnce() -> Result<Tensor>,
    ) -> Result<Tensor> {
        match self {
            Number::Known(number) if *number > bound => above(),
            Number::Known(_) => below(),
            Number::Computed(tensor) => tensor.gt(bound)?.where_cond(&above()?, &below()?),
        }
    }
}
