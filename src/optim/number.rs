//! Numbers that follow from how many steps there were.

use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;

/// A number that an update is computed with.
///
/// Rules compute with the number of a step. Where losses are scaled, some steps are skipped, and only the device knows which:
/// the number is on the device then, and so is all that follows from it.
#[derive(Clone, Debug)]
pub enum Number {
    /// A known number.
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
    /// What `known` or `computed`, two ways to write the same formula, make of it.
    ///
    /// # Errors
    /// Those of `computed`.
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

    /// The same of two numbers.
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

    /// The sum.
    ///
    /// # Errors
    /// `Limit`.
    pub fn add(&self, other: impl Into<Number>) -> Result<Number> {
        self.with(&other.into(), |a, b| a + b, |a, b| a.add(b))
    }

    /// The difference.
    ///
    /// # Errors
    /// `Limit`.
    pub fn sub(&self, other: impl Into<Number>) -> Result<Number> {
        self.with(&other.into(), |a, b| a - b, |a, b| a.sub(b))
    }

    /// The product.
    ///
    /// # Errors
    /// `Limit`.
    pub fn mul(&self, other: impl Into<Number>) -> Result<Number> {
        self.with(&other.into(), |a, b| a * b, |a, b| a.mul(b))
    }

    /// The quotient.
    ///
    /// # Errors
    /// `Limit`.
    pub fn div(&self, other: impl Into<Number>) -> Result<Number> {
        self.with(&other.into(), |a, b| a / b, |a, b| a.div(b))
    }

    /// The square root.
    ///
    /// # Errors
    /// `Limit`.
    pub fn sqrt(&self) -> Result<Number> {
        self.map(f64::sqrt, |x| Ok(x.sqrt()))
    }

    /// `x` times the number, in the type of `x`.
    ///
    /// # Errors
    /// `Limit`.
    pub fn times(&self, x: &Tensor) -> Result<Tensor> {
        match self {
            Number::Known(number) => x.mul(*number),
            Number::Computed(tensor) => x.mul(&tensor.cast(x.dtype())?),
        }
    }

    /// What `above` makes where the number is above the bound, and `below` where it is not. A known number needs one of them.
    ///
    /// # Errors
    /// Those of both.
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
