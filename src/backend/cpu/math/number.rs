//! The type of numbers in formulas of the pointwise table that are computed as one function.

use super::elementary;
use super::function::larger;
use crate::expr::{Gradient, Real};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A number in a formula.
#[derive(Clone, Copy)]
pub struct Number(pub f32);

impl Real for Number {
    type Truth = bool;

    #[inline(always)]
    fn lit(value: f64) -> Number {
        Number(value as f32)
    }

    #[inline(always)]
    fn abs(self) -> Number {
        Number(self.0.abs())
    }

    #[inline(always)]
    fn exp(self) -> Number {
        Number(elementary::exp(self.0))
    }

    #[inline(always)]
    fn max(self, other: Number) -> Number {
        Number(larger(self.0, other.0))
    }

    #[inline(always)]
    fn lt(self, other: Number) -> bool {
        self.0 < other.0
    }

    #[inline(always)]
    fn choose(truth: bool, a: Number, b: Number) -> Number {
        // Selects by bits. An `if` could become a branch, which is not vectorized.
        let mask = u32::from(truth).wrapping_neg();
        Number(f32::from_bits(a.0.to_bits() & mask | b.0.to_bits() & !mask))
    }

    #[inline(always)]
    fn with_gradient(self, _: &[Number], _: Gradient) -> Number {
        self
    }
}

impl Neg for Number {
    type Output = Number;
    #[inline(always)]
    fn neg(self) -> Number {
        Number(-self.0)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident)*) => { $(
        impl $trait for Number {
            type Output = Number;
            #[inline(always)]
            fn $method(self, other: Number) -> Number {
                Number(self.0.$method(other.0))
            }
        }
    )* };
}
operators!(Add add Sub sub Mul mul Div div);
