//! A number with a bound of its rounding error.
//!
//! The library computes in `f32` and may reorder sums, so its results differ from the reference. A fixed tolerance would be too
//! narrow after a cancellation and too wide otherwise. Each number therefore carries a bound `error` of how far an `f32`
//! computation may be off, and every operation propagates it by its first derivative. If the bound is large, a value is unknown
//! and is not compared.

use std::ops::{Add, Div, Mul, Neg, Sub};

/// The relative error of one operation in `f32`: a few units in the last place.
const F32: f64 = 3e-7;

/// The relative error of `exp`, `tanh` and roots, which GPUs approximate.
const APPROXIMATED: f64 = 4e-6;

/// The smallest `f32` that no device flushes to 0.
const F32_STEP: f64 = 1.2e-38;

/// The relative error of rounding to `f16`.
const F16: f64 = 1e-3;

/// The smallest step of `f16`.
const F16_STEP: f64 = 1.2e-7;

/// A value, and how far an `f32` computation may be from it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Number {
    pub value: f64,
    pub error: f64,
}

impl Number {
    /// Returns a number that `f32` represents exactly.
    pub const fn exact(value: f64) -> Number {
        Number { value, error: 0.0 }
    }

    fn rounded(value: f64, error: f64, scale: f64) -> Number {
        let step = if scale == 0.0 { 0.0 } else { F32_STEP };
        Number { value, error: error + F32 * scale.abs() + step }
    }

    pub fn square(self) -> Number {
        self * self
    }

    pub fn tanh(self) -> Number {
        let value = self.value.tanh();
        Number { value, error: self.error + APPROXIMATED * value.abs() }
    }

    pub fn exp(self) -> Number {
        let value = self.value.exp();
        let slope = value * self.error.min(50.0).exp();
        Number { value, error: slope * self.error + APPROXIMATED * value }
    }

    pub fn sqrt(self) -> Number {
        let value = self.value.max(0.0).sqrt();
        let (low, high) = (self.value - self.error, self.value + self.error);
        let error = high.max(0.0).sqrt() - low.max(0.0).sqrt();
        Number { value, error: error + APPROXIMATED * value }
    }

    /// Returns 1, 0 or -1. The result is unknown unless the sign is certain.
    pub fn sign(self) -> Number {
        let value = if self.value == 0.0 { 0.0 } else { self.value.signum() };
        let certain = self.value.abs() > self.error || self.error == 0.0;
        Number { value, error: if certain { 0.0 } else { 2.0 } }
    }

    /// Returns max(x, 0). The result is exactly 0 if the number is certainly negative.
    pub fn relu(self) -> Number {
        match self.value < -self.error {
            true => Number::exact(0.0),
            false => self.max(Number::exact(0.0)),
        }
    }

    pub fn max(self, other: Number) -> Number {
        Number { value: self.value.max(other.value), error: self.error.max(other.error) }
    }

    pub fn min(self, other: Number) -> Number {
        Number { value: self.value.min(other.value), error: self.error.max(other.error) }
    }

    /// Rounds to `f16`.
    pub fn half(self) -> Number {
        Number { error: self.error + F16 * self.value.abs() + F16_STEP, ..self }
    }

    /// Returns `then` if this number is positive, otherwise `otherwise`. If the sign is uncertain, the bound covers both.
    pub fn choose(self, then: Number, otherwise: Number) -> Number {
        let taken = if self.value > 0.0 { then } else { otherwise };
        if self.error == 0.0 || self.value.abs() > self.error {
            return taken;
        }
        let apart = (then.value - otherwise.value).abs();
        Number { error: apart + then.error + otherwise.error, ..taken }
    }

    /// Returns the sum of numbers, in any order.
    pub fn sum(numbers: impl IntoIterator<Item = Number>) -> Number {
        let (mut value, mut error, mut scale, mut count) = (0.0, 0.0, 0.0, 0.0);
        for number in numbers {
            value += number.value;
            error += number.error;
            scale += number.value.abs();
            count += 1.0;
        }
        Number { value, error: error + F32 * (1.0 + count / 4.0) * scale }
    }

    /// Whether the bound is narrow enough for a comparison.
    pub fn is_known(self) -> bool {
        self.value.is_finite() && self.error <= 0.02 * (self.value.abs() + 0.05)
    }

    /// Whether `got` may be this number, computed in `f32`. An unknown number accepts everything.
    pub fn is_near(self, got: f64) -> bool {
        let apart = (got - self.value).abs();
        !self.is_known() || apart <= 2.0 * self.error + 1e-6 * self.value.abs() + 1e-10
    }
}

impl Neg for Number {
    type Output = Number;
    fn neg(self) -> Number {
        Number { value: -self.value, ..self }
    }
}

impl Add for Number {
    type Output = Number;
    fn add(self, other: Number) -> Number {
        // Further terms may be added in any order, so the magnitude of the operands counts, not that of the result.
        let scale = match (self.value == 0.0, other.value == 0.0) {
            (true, _) | (_, true) => 0.0,
            _ => self.value.abs() + other.value.abs(),
        };
        Number::rounded(self.value + other.value, self.error + other.error, scale)
    }
}

impl Sub for Number {
    type Output = Number;
    fn sub(self, other: Number) -> Number {
        self + -other
    }
}

impl Mul for Number {
    type Output = Number;
    fn mul(self, other: Number) -> Number {
        let error = self.value.abs() * other.error
            + other.value.abs() * self.error
            + self.error * other.error;
        let value = self.value * other.value;
        Number::rounded(value, error, value)
    }
}

impl Div for Number {
    type Output = Number;
    fn div(self, other: Number) -> Number {
        let value = self.value / other.value;
        if self.value == 0.0 && self.error == 0.0 {
            return Number { value: 0.0, error: 0.0 };
        }
        let least = (other.value.abs() - other.error).max(0.0);
        let error = (self.error + value.abs() * other.error) / least;
        Number::rounded(value, error, value)
    }
}

impl Mul<f64> for Number {
    type Output = Number;
    fn mul(self, factor: f64) -> Number {
        self * Number::exact(factor)
    }
}

impl Add<f64> for Number {
    type Output = Number;
    fn add(self, term: f64) -> Number {
        self + Number::exact(term)
    }
}
