//! The `Real` trait, so that a formula is written only once. The formula can then be an [`Expr`], which is differentiated and
//! printed, or a number, which is computed at once.

use super::{Expr, Gradient};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A type that formulas are written in: [`Expr`] or a type of numbers.
pub trait Real:
    Copy
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// The result of a comparison.
    type Truth;
    /// Creates a constant.
    fn lit(value: f64) -> Self;
    fn abs(self) -> Self;
    fn exp(self) -> Self;
    fn max(self, other: Self) -> Self;
    fn lt(self, other: Self) -> Self::Truth;
    /// Returns `a` if `truth` holds, and `b` otherwise.
    fn choose(truth: Self::Truth, a: Self, b: Self) -> Self;
    /// Sets a custom gradient ([`Expr::with_gradient`]). Numbers ignore it.
    fn with_gradient(self, arguments: &[Self], gradient: Gradient) -> Self;

    /// Returns `self * self`.
    #[inline(always)]
    fn square(self) -> Self {
        self * self
    }

    /// Returns `1 / self`.
    #[inline(always)]
    fn recip(self) -> Self {
        Self::lit(1.0) / self
    }

    /// Evaluates a polynomial by Horner's scheme: `coefficients[0] + x * (coefficients[1] + ...)`.
    #[inline(always)]
    fn polynomial<const N: usize>(self, coefficients: [f64; N]) -> Self {
        let mut sum = Self::lit(coefficients[N - 1]);
        for &coefficient in coefficients[..N - 1].iter().rev() {
            sum = sum * self + Self::lit(coefficient);
        }
        sum
    }
}

impl Real for Expr {
    type Truth = Expr;

    fn lit(value: f64) -> Expr {
        Expr::lit(value)
    }

    fn abs(self) -> Expr {
        Expr::abs(self)
    }

    fn exp(self) -> Expr {
        Expr::exp(self)
    }

    fn max(self, other: Expr) -> Expr {
        Expr::max(self, other)
    }

    fn lt(self, other: Expr) -> Expr {
        Expr::lt(self, other)
    }

    fn choose(truth: Expr, a: Expr, b: Expr) -> Expr {
        truth.select(a, b)
    }

    fn with_gradient(self, arguments: &[Expr], gradient: Gradient) -> Expr {
        Expr::with_gradient(self, arguments, gradient)
    }
}
