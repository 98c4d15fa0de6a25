//! What a formula may be written in, so that it stands once: formulas, which are differentiated and printed, and numbers,
//! which are computed at once.

use super::{Expr, Gradient};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// [`Expr`], or numbers.
pub trait Real:
    Copy
    + Neg<Output = Self>
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
{
    /// What a comparison gives.
    type Truth;
    /// A constant.
    fn lit(value: f64) -> Self;
    fn abs(self) -> Self;
    fn exp(self) -> Self;
    fn max(self, other: Self) -> Self;
    fn lt(self, other: Self) -> Self::Truth;
    /// `a` where it holds, else `b`.
    fn choose(truth: Self::Truth, a: Self, b: Self) -> Self;
    /// [`Expr::with_gradient`]; numbers have none.
    fn with_gradient(self, arguments: &[Self], gradient: Gradient) -> Self;

    /// `self * self`.
    #[inline(always)]
    fn square(self) -> Self {
        self * self
    }

    /// `1 / self`.
    #[inline(always)]
    fn recip(self) -> Self {
        Self::lit(1.0) / self
    }

    /// Horner's scheme: `coefficients[0] + x * (coefficients[1] + ...)`.
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
