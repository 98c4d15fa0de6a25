//! Exponential functions, logarithms and powers.
//!
//! All are polynomials with `fma`, so the result is the same on each GPU, and does not depend on approximate instructions. An
//! argument is reduced to a small interval first: `exp(x) = 2^n * exp(r)` with `x = n ln 2 + r`, and `log(x) = e ln 2 + log(m)`
//! with `x = 2^e m`. The coefficients are fitted on that interval by `coefficients.py`.

use super::Lowerer;
use crate::cuda::ptx::build::Builder;
use crate::cuda::ptx::ir::{Cmp, Op, Operand, Rounding, Ty};

/// `ln 2` as the sum of two numbers.
const LN_2: [f32; 2] = [std::f32::consts::LN_2, -1.9046542e-9];
/// `log2(e)` as the sum of two numbers.
const LOG2_E: [f32; 2] = [std::f32::consts::LOG2_E, 1.925963e-8];
/// `(exp(r) - 1 - r) / r^2` for `|r| <= ln(2) / 2`.
const EXP: [f32; 6] = [0.00019891269, 0.00139339, 0.0083333107, 0.041666463, 0.16666667, 0.5];
/// `(2^r - 1) / r` for `|r| <= 1/2`.
const EXP2: [f32; 7] = [
    1.5297324e-5,
    0.00015461445,
    0.0013333502,
    0.009618057,
    0.05550411,
    0.2402265,
    std::f32::consts::LN_2,
];
/// `(log((1 + s) / (1 - s)) - 2 s) / s^3` by `s^2`, for `1/sqrt(2) <= (1 + s) / (1 - s) <= sqrt(2)`.
const LOG: [f32; 5] = [0.19369462, 0.22191049, 0.2857176, 0.39999999, 0.6666667];
/// The bits of `1 / sqrt(2)`, below which a mantissa belongs to the next smaller exponent.
const SQRT_HALF_BITS: u32 = 0x3f35_04f3;

/// A positive number as `2^e (1 + f)`, with `1/sqrt(2) <= 1 + f <= sqrt(2)`.
struct Normal {
    exponent: Operand,
    fraction: Operand,
}

impl Lowerer<'_> {
    /// Returns `exp(x) * 2^extra`, within 1 ULP.
    pub(super) fn exp_scaled(&mut self, x: Operand, extra: i32) -> Operand {
        let b = &mut self.b;
        let low = b.op(Op::Max(Ty::F32), &[x, Operand::f32(-105.0)]);
        let inside = b.op(Op::Min(Ty::F32), &[low, Operand::f32(91.0)]);
        let scaled = b.mul(inside, Operand::f32(LOG2_E[0]));
        let n = b.op(Op::Round(Rounding::NearestEven), &[scaled]);
        let r = b.fma(n, Operand::f32(-LN_2[0]), inside);
        let r = b.fma(n, Operand::f32(-LN_2[1]), r);
        let square = b.mul(r, r);
        let q = b.horner(r, &EXP);
        let rest = b.fma(q, square, r);
        let p = b.add(rest, Operand::f32(1.0));
        let n = b.op(Op::Convert(Ty::F32, Ty::S32), &[n]);
        let n = b.op(Op::Add(Ty::S32), &[n, Operand::u32(extra as u32)]);
        let result = scale(b, p, n);
        keep_nan(b, x, result)
    }

    /// Returns `2^x`, within 1 ULP.
    pub(super) fn exp2(&mut self, x: Operand) -> Operand {
        let b = &mut self.b;
        let low = b.op(Op::Max(Ty::F32), &[x, Operand::f32(-151.0)]);
        let inside = b.op(Op::Min(Ty::F32), &[low, Operand::f32(129.0)]);
        let n = b.op(Op::Round(Rounding::NearestEven), &[inside]);
        let r = b.sub(inside, n);
        let result = power_of_two(b, n, r);
        keep_nan(b, x, result)
    }

    /// Returns the natural logarithm, within 1 ULP.
    pub(super) fn log(&mut self, x: Operand) -> Operand {
        let b = &mut self.b;
        let Normal { exponent, fraction } = normal(b, x);
        let rest = log_rest(b, fraction);
        let low = b.fma(exponent, Operand::f32(LN_2[1]), rest);
        let sum = b.add(low, fraction);
        let result = b.fma(exponent, Operand::f32(LN_2[0]), sum);
        log_special(b, x, result)
    }

    /// Returns the logarithm to the base 2, within 2 ULP. Powers of two have exact results.
    pub(super) fn log2(&mut self, x: Operand) -> Operand {
        let b = &mut self.b;
        let Normal { exponent, fraction } = normal(b, x);
        let rest = log_rest(b, fraction);
        let log = b.add(rest, fraction);
        let low = b.mul(log, Operand::f32(LOG2_E[1]));
        let whole = b.fma(log, Operand::f32(LOG2_E[0]), exponent);
        let result = b.add(whole, low);
        log_special(b, x, result)
    }

    /// Returns `log(1 + u)` for `u > -1`, within 2 ULP.
    pub(super) fn log_1p(&mut self, u: Operand) -> Operand {
        let one = Operand::f32(1.0);
        let w = self.b.add(u, one);
        let log = self.log(w);
        // `1 + u` is rounded. The derivative of the logarithm corrects it.
        let whole = self.b.sub(w, one);
        let lost = self.b.sub(u, whole);
        let correction = self.b.div(lost, w);
        let result = self.b.add(log, correction);
        let is_infinite = self.b.cmp(Cmp::Eq, u, Operand::f32(f32::INFINITY));
        let result = self.b.select(is_infinite, u, result);
        let is_tiny = self.b.cmp(Cmp::Eq, w, one);
        self.b.select(is_tiny, u, result)
    }

    /// Returns `x^y` for `x >= 0`, within 2 ULP, and NaN for `x < 0`. The logarithm has two parts, because its error is
    /// multiplied by up to 128.
    pub(super) fn pow(&mut self, x: Operand, y: Operand) -> Operand {
        let (one, zero) = (Operand::f32(1.0), Operand::f32(0.0));
        let b = &mut self.b;
        let (high, low) = log2_parts(b, x);
        let product = b.mul(y, high);
        let negative = b.neg(product);
        let lost = b.fma(y, high, negative);
        let rest = b.fma(y, low, lost);
        let size = b.abs(product);
        let is_inside = b.cmp(Cmp::Lt, size, Operand::f32(200.0));
        let rest = b.select(is_inside, rest, zero);
        let least = b.op(Op::Max(Ty::F32), &[product, Operand::f32(-160.0)]);
        let inside = b.op(Op::Min(Ty::F32), &[least, Operand::f32(160.0)]);
        let n = b.op(Op::Round(Rounding::NearestEven), &[inside]);
        let r = b.sub(inside, n);
        let r = b.add(r, rest);
        let result = power_of_two(b, n, r);
        // The special cases of IEEE 754.
        let infinity = Operand::f32(f32::INFINITY);
        let is_zero = b.cmp(Cmp::Eq, x, zero);
        let is_infinite = b.cmp(Cmp::Eq, x, infinity);
        let is_negative = b.cmp(Cmp::Lt, y, zero);
        let differs = b.op(Op::Xor, &[is_zero, is_negative]);
        let edge = b.select(differs, zero, infinity);
        let is_edge = b.op(Op::Or, &[is_zero, is_infinite]);
        let result = b.select(is_edge, edge, result);
        let below = b.cmp(Cmp::Lt, x, zero);
        let result = b.select(below, Operand::f32(f32::NAN), result);
        let sum = b.add(x, y);
        let is_nan_x = b.cmp(Cmp::Ne, x, x);
        let is_nan_y = b.cmp(Cmp::Ne, y, y);
        let is_nan = b.op(Op::Or, &[is_nan_x, is_nan_y]);
        let result = b.select(is_nan, sum, result);
        let is_one = b.cmp(Cmp::Eq, x, one);
        let is_flat = b.cmp(Cmp::Eq, y, zero);
        let is_one = b.op(Op::Or, &[is_one, is_flat]);
        b.select(is_one, one, result)
    }

    /// Returns `x * 2^n`. The result is rounded once.
    pub(super) fn ldexp(&mut self, x: Operand, n: Operand) -> Operand {
        let b = &mut self.b;
        let n = b.op(Op::Max(Ty::S32), &[n, Operand::u32(-300i32 as u32)]);
        let n = b.op(Op::Min(Ty::S32), &[n, Operand::u32(300)]);
        // Three factors of at most 2^100. Only the last product can be subnormal, because the others are exact or overflow.
        let hundred = Operand::u32(100);
        let minus_hundred = Operand::u32(-100i32 as u32);
        let mut result = x;
        let mut left = n;
        for _ in 0..3 {
            let part = b.op(Op::Max(Ty::S32), &[left, minus_hundred]);
            let part = b.op(Op::Min(Ty::S32), &[part, hundred]);
            left = b.op(Op::Sub(Ty::S32), &[left, part]);
            let factor = factor(b, part);
            result = b.mul(result, factor);
        }
        result
    }
}

/// Returns `2^n` for an integer from -126 to 127.
fn factor(b: &mut Builder, n: Operand) -> Operand {
    let biased = b.op(Op::Add(Ty::S32), &[n, Operand::u32(127)]);
    b.op(Op::Shl, &[biased, Operand::u32(23)])
}

/// Returns `p * 2^n` with `p` near 1 and `n` from -250 to 250, rounded once.
fn scale(b: &mut Builder, p: Operand, n: Operand) -> Operand {
    let half = b.op(Op::Shr(Ty::S32), &[n, Operand::u32(1)]);
    let rest = b.op(Op::Sub(Ty::S32), &[n, half]);
    let (first, second) = (factor(b, half), factor(b, rest));
    let product = b.mul(p, first);
    b.mul(product, second)
}

/// Returns `2^(n + r)` for an integer `n` as `f32` and a small `r`.
fn power_of_two(b: &mut Builder, n: Operand, r: Operand) -> Operand {
    let q = b.horner(r, &EXP2);
    let p = b.fma(q, r, Operand::f32(1.0));
    let n = b.op(Op::Convert(Ty::F32, Ty::S32), &[n]);
    scale(b, p, n)
}

/// Returns `x` if it is NaN, and `result` otherwise.
pub(super) fn keep_nan(b: &mut Builder, x: Operand, result: Operand) -> Operand {
    let is_nan = b.cmp(Cmp::Ne, x, x);
    b.select(is_nan, x, result)
}

fn normal(b: &mut Builder, x: Operand) -> Normal {
    // Subnormal numbers are scaled by 2^23.
    let is_small = b.cmp(Cmp::Lt, x, Operand::f32(f32::MIN_POSITIVE));
    let scaled = b.mul(x, Operand::f32(8_388_608.0));
    let bits = b.select(is_small, scaled, x);
    let bias = b.select(is_small, Operand::f32(-23.0), Operand::f32(0.0));
    let above = b.op(Op::Sub(Ty::U32), &[bits, Operand::u32(SQRT_HALF_BITS)]);
    let exponent = b.op(Op::Shr(Ty::S32), &[above, Operand::u32(23)]);
    let shifted = b.op(Op::Shl, &[exponent, Operand::u32(23)]);
    let mantissa = b.op(Op::Sub(Ty::U32), &[bits, shifted]);
    let fraction = b.sub(mantissa, Operand::f32(1.0));
    let exponent = b.op(Op::Convert(Ty::S32, Ty::F32), &[exponent]);
    let exponent = b.add(exponent, bias);
    Normal { exponent, fraction }
}

/// Returns `log(1 + f) - f`. With `s = f / (2 + f)`, the logarithm is `2 s + s R`, and `2 s = f - f^2/2 + s f^2/2`.
fn log_rest(b: &mut Builder, f: Operand) -> Operand {
    let divisor = b.add(f, Operand::f32(2.0));
    let s = b.div(f, divisor);
    let z = b.mul(s, s);
    let p = b.horner(z, &LOG);
    let half = b.mul(f, Operand::f32(0.5));
    let half_square = b.mul(half, f);
    let sum = b.fma(z, p, half_square);
    let negative = b.neg(half_square);
    b.fma(s, sum, negative)
}

/// Replaces a logarithm by those of 0, infinity, negative numbers and NaN.
fn log_special(b: &mut Builder, x: Operand, result: Operand) -> Operand {
    let infinity = Operand::f32(f32::INFINITY);
    let is_finite = b.cmp(Cmp::Lt, x, infinity);
    // Infinity and NaN are their own logarithms.
    let result = b.select(is_finite, result, x);
    let is_negative = b.cmp(Cmp::Lt, x, Operand::f32(0.0));
    let result = b.select(is_negative, Operand::f32(f32::NAN), result);
    let is_zero = b.cmp(Cmp::Eq, x, Operand::f32(0.0));
    b.select(is_zero, Operand::f32(f32::NEG_INFINITY), result)
}

/// Returns the logarithm to the base 2 as the sum of two numbers, with a relative error of about 2^-30.
fn log2_parts(b: &mut Builder, x: Operand) -> (Operand, Operand) {
    let Normal { exponent, fraction: f } = normal(b, x);
    // The quotient s = f / (2 + f) and what its rounding lost.
    let two = Operand::f32(2.0);
    let divisor = b.add(f, two);
    let whole = b.sub(divisor, two);
    let divisor_low = b.sub(f, whole);
    let s = b.div(f, divisor);
    let minus_s = b.neg(s);
    let rest = b.fma(minus_s, divisor, f);
    let rest = b.fma(minus_s, divisor_low, rest);
    let s_low = b.div(rest, divisor);
    let z = b.mul(s, s);
    let p = b.horner(z, &LOG);
    let cube = b.mul(s, z);
    let double_low = b.add(s_low, s_low);
    let low = b.fma(cube, p, double_low);
    let high = b.add(s, s);
    let (high, low) = fast_sum(b, high, low);
    // Times log2(e).
    let product = b.mul(high, Operand::f32(LOG2_E[0]));
    let negative = b.neg(product);
    let lost = b.fma(high, Operand::f32(LOG2_E[0]), negative);
    let lost = b.fma(high, Operand::f32(LOG2_E[1]), lost);
    let lost = b.fma(low, Operand::f32(LOG2_E[0]), lost);
    let (sum, rest) = fast_sum(b, exponent, product);
    let is_zero = b.cmp(Cmp::Eq, exponent, Operand::f32(0.0));
    let rest = b.select(is_zero, Operand::f32(0.0), rest);
    let low = b.add(rest, lost);
    fast_sum(b, sum, low)
}

/// Returns the sum and what its rounding lost, for `|x| >= |y|`.
fn fast_sum(b: &mut Builder, x: Operand, y: Operand) -> (Operand, Operand) {
    let sum = b.add(x, y);
    let part = b.sub(sum, x);
    let lost = b.sub(y, part);
    (sum, lost)
}
