//! Formulas of the pointwise table that are too long for a row.
//!
//! All formulas are evaluated in `f32`, by compilers that may contract `a * b + c` and flush subnormal numbers. On Metal they
//! may also reassociate, and assume that no NaN exists. Formulas therefore follow these rules:
//!
//! - Exponentials are of `-|x|`, which cannot overflow.
//! - Odd functions are `x * p(x^2)` near 0.
//! - `(1 + x) - 1` is avoided.
//! - Conditions are written so that NaN falls through to arithmetic.
//!
//! Polynomials are minimax fits of the relative error. A comment such as "error 3e-8" is the error of the fit, before
//! rounding.
//!
//! Derivatives do not follow from such a formula, because a branch is accurate only on its own side, and not in its slope at
//! the end. A formula that gradients use is therefore smooth as written, or has a custom gradient ([`Expr::with_gradient`]),
//! as rows of the table have.
//!
//! A formula that a backend computes as one function is written for any [`Real`].

mod angles;
mod powers;
mod random;
mod special;

pub use angles::*;
pub use powers::*;
pub use random::*;
pub use special::*;

use crate::expr::{Expr, Real};
use std::f64::consts::{E, FRAC_1_SQRT_2, FRAC_2_SQRT_PI, LN_2};

/// 1 / sqrt(2 pi).
const NORMAL_DENSITY: f64 = 0.398_942_280_401_432_7;

/// Computes `x * p(x^2)`, which keeps the sign of 0.
#[inline(always)]
fn odd_series<R: Real, const N: usize>(x: R, coefficients: [f64; N]) -> R {
    x * x.square().polynomial(coefficients)
}

/// Returns `magnitude` with the sign of `x`, which must not be 0.
#[inline(always)]
fn signed<R: Real>(x: R, magnitude: R) -> R {
    R::choose(x.lt(R::lit(0.0)), -magnitude, magnitude)
}

/// Returns min(x, limit), where NaN stays NaN.
fn at_most(x: Expr, limit: f64) -> Expr {
    x.gt(limit).select(limit, x)
}

/// Limits `x` to [low, high]. The result is NaN if one of the three is NaN, and `high` wins if the limits are reversed.
pub fn clamp(x: Expr, low: impl Into<Expr>, high: impl Into<Expr>) -> Expr {
    // A limit is the result where it is exceeded, or where it is NaN. Constant limits are numbers.
    let or_nan = |exceeded: Expr, limit: Expr| match limit.literal() {
        Some(_) => exceeded,
        None => exceeded.or(limit.ne(limit)),
    };
    let (low, high) = (low.into(), high.into());
    let raised = or_nan(x.lt(low), low).select(low, x);
    or_nan(raised.gt(high), high).select(high, raised)
}

/// Returns the smaller one, or NaN if one of them is NaN. The primitive may drop a NaN.
pub fn minimum(x: Expr, y: Expr) -> Expr {
    x.le(y).or(x.ne(x)).select(x, y)
}

/// Returns the larger one, or NaN if one of them is NaN.
pub fn maximum(x: Expr, y: Expr) -> Expr {
    y.le(x).or(x.ne(x)).select(x, y)
}

/// Returns 1 if x < y, 1/2 if they are equal, and 0 otherwise.
pub fn precedes(x: Expr, y: Expr) -> Expr {
    x.lt(y).select(1.0, x.eq(y).select(0.5, 0.0))
}

/// e^x - 1.
pub fn expm1(x: Expr) -> Expr {
    // Error 4e-8 for |x| < 0.42. For larger |x|, the subtraction loses two bits at most.
    let series =
        [1.0, 0.499_999_942, 0.166_664_017, 0.041_667_815_2, 0.008_382_062_32, 0.001_387_957_39];
    let near = x * x.polynomial(&series);
    x.abs().lt(0.42).select(near, x.exp() - 1.0)
}

/// atanh(s) for |s| <= 1/3, error 5e-9.
#[inline(always)]
fn atanh_series<R: Real>(s: R) -> R {
    odd_series(s, [1.0, 0.333_332_081, 0.200_107_639, 0.140_008_985, 0.140_060_1])
}

/// log(1 + x) for -0.5 <= x <= 1, computed without a logarithm as 2 atanh(x / (2 + x)).
#[inline(always)]
fn log1p_near<R: Real>(x: R) -> R {
    R::lit(2.0) * atanh_series(x / (x + R::lit(2.0)))
}

/// log(1 + x).
pub fn log1p(x: Expr) -> Expr {
    (x - 0.25).abs().lt(0.75).select(log1p_near(x), (x + 1.0).log())
}

/// Returns e^-|x| and 1 / (1 + e^-|x|). Functions of the logistic family are built from both, and neither can overflow.
#[inline(always)]
fn logistic<R: Real>(x: R) -> (R, R) {
    let e = (-x.abs()).exp();
    let r = (e + R::lit(1.0)).recip();
    (e, r)
}

/// 1 / (1 + e^-x), with full relative accuracy in both tails.
#[inline(always)]
pub fn sigmoid<R: Real>(x: R) -> R {
    let (e, r) = logistic(x);
    R::choose(x.lt(R::lit(0.0)), e * r, r)
}

/// The sigmoid with a custom gradient, for gradients.
fn smooth_sigmoid(x: Expr) -> Expr {
    sigmoid(x).with_gradient(&[x], |x, _| vec![sigmoid_slope(x[0])])
}

/// s' = e^-x / (1 + e^-x)^2. Its derivative is -s' (2 s - 1).
#[inline(always)]
pub fn sigmoid_slope<R: Real>(x: R) -> R {
    let (e, r) = logistic(x);
    (e * r.square()).with_gradient(&[x], |x, slope| vec![-(slope * centred_sigmoid(x[0]))])
}

/// 2 s - 1 = (1 - e^-x) / (1 + e^-x).
fn centred_sigmoid(x: Expr) -> Expr {
    let (e, r) = logistic(x);
    signed(x, (1.0 - e) * r).with_gradient(&[x], |x, _| vec![2.0 * sigmoid_slope(x[0])])
}

/// log(1 + e^x).
#[inline(always)]
pub fn softplus<R: Real>(x: R) -> R {
    x.max(R::lit(0.0)) + log1p_near(logistic(x).0)
}

/// log(1 / (1 + e^-x)).
pub fn log_sigmoid(x: Expr) -> Expr {
    x.min(0.0) - log1p_near(logistic(x).0)
}

/// x sigmoid(x).
#[inline(always)]
pub fn silu<R: Real>(x: R) -> R {
    x * sigmoid(x)
}

/// The derivative of [`silu`].
pub fn silu_slope(x: Expr) -> Expr {
    smooth_sigmoid(x) + x * sigmoid_slope(x)
}

/// tanh x.
#[inline(always)]
pub fn tanh<R: Real>(x: R) -> R {
    // Error 4e-8 for x^2 < 0.3.
    let near = odd_series(x, [1.0, -0.333_329_584, 0.133_210_081, -0.052_690_667, 0.016_474_732]);
    let e = (R::lit(-2.0) * x.abs()).exp();
    let far = (R::lit(1.0) - e) / (R::lit(1.0) + e);
    R::choose(x.abs().lt(R::lit(0.547)), near, signed(x, far))
}

/// 1 / cosh^2 x.
#[inline(always)]
pub fn tanh_slope<R: Real>(x: R) -> R {
    R::lit(4.0) * sigmoid_slope(R::lit(2.0) * x)
}

/// e^|x| / 2, which is finite if sinh and cosh are, because |x| - 1 is exact and e^(|x| - 1) does not overflow earlier.
fn half_exp(x: Expr) -> Expr {
    (x.abs() - 1.0).exp() * (E / 2.0)
}

/// sinh x.
pub fn sinh(x: Expr) -> Expr {
    // Error 3e-8 for |x| < 1.
    let near = odd_series(x, [1.0, 0.166_667_16, 0.008_330_283_72, 0.000_203_721_946]);
    let q = half_exp(x);
    let far = q - 0.25 / q;
    x.abs().lt(1.0).select(near, signed(x, far))
}

/// cosh x.
pub fn cosh(x: Expr) -> Expr {
    let q = half_exp(x);
    q + 0.25 / q
}

/// From this value on, x^2 + 1 equals x^2 to the last bit. Squares overflow only far above it, and the powers in derivatives
/// earlier.
const LARGE: f64 = 1e5;

/// asinh x.
pub fn asinh(x: Expr) -> Expr {
    // Error 3e-8 for x^2 < 0.25.
    let near = odd_series(x, [1.0, -0.166_662_881, 0.074_847_585, -0.042_699_333, 0.020_121_986]);
    let a = x.abs();
    let large = a.gt(LARGE);
    let root = (x.square() + 1.0).sqrt();
    let far = large.select(a, a + root).log() + large.select(LN_2, 0.0);
    a.lt(0.5).select(near, signed(x, far))
}

/// 1 / sqrt(1 + x^2).
pub fn asinh_slope(x: Expr) -> Expr {
    let a = x.abs();
    a.gt(LARGE).select(a.recip(), (x.square() + 1.0).inverse_sqrt())
}

/// acosh x, computed as log(1 + u) with u = d + sqrt(d (d + 2)) and d = x - 1.
pub fn acosh(x: Expr) -> Expr {
    let d = x - 1.0;
    // Two roots are used, because the product in one root would be positive again below -1, and could overflow.
    let u = d + d.sqrt() * (d + 2.0).sqrt();
    let large = x.gt(LARGE);
    let far = large.select(x, u + 1.0).log() + large.select(LN_2, 0.0);
    u.lt(1.0).select(log1p_near(u), far)
}

/// 1 / sqrt(x^2 - 1), in two factors that do not overflow.
pub fn acosh_slope(x: Expr) -> Expr {
    (x - 1.0).inverse_sqrt() * (x + 1.0).inverse_sqrt()
}

/// atanh x.
pub fn atanh(x: Expr) -> Expr {
    let far = 0.5 * ((1.0 + x) / (1.0 - x)).log();
    x.abs().lt(1.0 / 3.0).select(atanh_series(x), far)
}

/// erfc(a) / e^(-a^2) for a >= 0, computed as u Q(u) with u = 1 / (1 + a / 2). Error 5e-8 up to a = 9.4, where erfc
/// underflows in `f32`.
#[inline(always)]
fn erfcx<R: Real>(a: R) -> R {
    let series = [
        0.282_087_995,
        0.282_347_992,
        0.243_300_393,
        0.201_915_884,
        -0.024_817_569_8,
        0.275_459_998,
        -0.484_934_216,
        0.283_486_309,
        -0.058_846_827_3,
    ];
    let u = (a * R::lit(0.5) + R::lit(1.0)).recip();
    u * u.polynomial(series)
}

/// The error function.
#[inline(always)]
pub fn erf<R: Real>(x: R) -> R {
    // Error 4e-8 for t = x^2 < 0.5.
    let series = [1.0, -0.333_330_47, 0.099_944_519_6, -0.023_471_327_4, 0.003_799_238_98];
    let near = odd_series(x, series.map(|c| c * FRAC_2_SQRT_PI));
    let tail = erfcx(x.abs()) * gaussian(x);
    R::choose(x.abs().lt(R::lit(0.707)), near, signed(x, R::lit(1.0) - tail))
}

/// 1 - erf(x).
pub fn erfc(x: Expr) -> Expr {
    let tail = erfcx(x.abs()) * gaussian(x);
    x.lt(0.0).select(2.0 - tail, tail)
}

/// e^(-x^2).
#[inline(always)]
fn gaussian<R: Real>(x: R) -> R {
    (-x.square()).exp()
}

/// 2 e^(-x^2) / sqrt(pi).
pub fn erf_slope(x: Expr) -> Expr {
    gaussian(x) * FRAC_2_SQRT_PI
}

/// e^(-x^2 / 2).
#[inline(always)]
fn bell<R: Real>(x: R) -> R {
    (R::lit(-0.5) * x.square()).exp()
}

/// The normal distribution function.
#[inline(always)]
fn normal<R: Real>(x: R) -> R {
    let tail = R::lit(0.5) * (erfcx(x.abs() * R::lit(FRAC_1_SQRT_2)) * bell(x));
    let below = R::choose(x.lt(R::lit(0.0)), tail, R::lit(1.0) - tail);
    below.with_gradient(&[x], |x, _| vec![bell(x[0]) * NORMAL_DENSITY])
}

/// x times the normal distribution function.
#[inline(always)]
pub fn gelu<R: Real>(x: R) -> R {
    x * normal(x)
}

/// The derivative of [`gelu`].
pub fn gelu_slope(x: Expr) -> Expr {
    normal(x) + x * (bell(x) * NORMAL_DENSITY)
}

/// The constant 2 sqrt(2 / pi), and its product with 0.044715.
const GELU_TANH: [f64; 2] = [1.595_769_121_605_730_7, 0.071_354_816_272_600_25];

/// x (1 + tanh u) / 2 = x sigmoid(2 u) with u = sqrt(2 / pi) (x + 0.044715 x^3).
#[inline(always)]
pub fn gelu_tanh<R: Real>(x: R) -> R {
    x * sigmoid(x * x.square().polynomial(GELU_TANH))
}

/// The derivative of [`gelu_tanh`]. It is 0 or 1 to the last bit beyond +-12, so x is clamped there, and x^3 cannot overflow.
pub fn gelu_tanh_slope(x: Expr) -> Expr {
    let c = clamp(x, -12.0, 12.0);
    let t = c.square();
    let v = c * t.polynomial(&GELU_TANH);
    let inner = t.polynomial(&[GELU_TANH[0], 3.0 * GELU_TANH[1]]);
    smooth_sigmoid(v) + c * inner * sigmoid_slope(v)
}

/// Returns e^c and n = e^c (e^c + 2) with c = min(x, 20). tanh(softplus(x)) is n / (n + 2), which is 1 from x = 10 on.
fn mish_parts(x: Expr) -> (Expr, Expr) {
    let e = at_most(x, 20.0).exp();
    let n = e * (e + 2.0);
    (e, n)
}

/// x tanh(softplus(x)).
pub fn mish(x: Expr) -> Expr {
    // Beyond 20 the result is x, because a compiler that computes (x n) / (n + 2) would overflow.
    let (_, n) = mish_parts(x);
    x.gt(20.0).select(x, x * (n / (n + 2.0)))
}

/// The derivative of [`mish`].
pub fn mish_slope(x: Expr) -> Expr {
    /// The derivative of n / (n + 2).
    fn inner(x: Expr) -> Expr {
        let (e, n) = mish_parts(x);
        4.0 * (e * (e + 1.0)) * (n + 2.0).recip().square()
    }
    let (_, n) = mish_parts(x);
    let outer = (n * (n + 2.0).recip()).with_gradient(&[x], |x, _| vec![inner(x[0])]);
    outer + at_most(x, 20.0) * inner(x)
}

/// The slopes of celu by x and by alpha. Below 0, celu is alpha (e^(x / alpha) - 1).
pub fn celu_slopes(x: Expr, alpha: Expr) -> [Expr; 2] {
    let z = x / alpha;
    let above = x.gt(0.0);
    let expm1 = expm1(z).with_gradient(&[z], |z, _| vec![z[0].exp()]);
    let below = expm1 - z * z.exp();
    [above.select(1.0, exp_below(z)), above.select(0.0, below)]
}

/// e^z for z <= 0, where the function is 1 above 0. At 0, where the slope has a kink, the derivative is 0, as in PyTorch.
pub fn exp_below(z: Expr) -> Expr {
    z.exp().with_gradient(&[z], |z, e| vec![z[0].lt(0.0).select(e, 0.0)])
}

/// The slope of copysign by x: 1 if both have the same sign, -1 otherwise, and 0 at 0, where it is undefined.
pub fn copysign_slope(x: Expr, y: Expr) -> Expr {
    let sign = x.sign_bit().xor(y.sign_bit()).select(-1.0, 1.0);
    x.eq(0.0).select(0.0, sign)
}

/// x - y floor(x / y), computed from the remainder with the sign of x.
pub fn floor_mod(x: Expr, y: Expr) -> Expr {
    let r = x.rem(y);
    let apart = r.ne(0.0).and(r.lt(0.0).xor(y.lt(0.0)));
    apart.select(r + y, r)
}

/// floor(x / y) of integers, whose quotient truncates.
pub fn floor_divide(x: Expr, y: Expr) -> Expr {
    let (quotient, r) = (x / y, x.rem(y));
    let apart = r.ne(0.0).and(r.lt(0.0).xor(y.lt(0.0)));
    apart.select(quotient - 1.0, quotient)
}

/// x + t (y - x). The result is exact at both ends and if x and y are equal. It does not overflow if x and y are far from
/// each other on both sides of 0.
pub fn lerp(x: Expr, y: Expr, t: Expr) -> Expr {
    let rest = 1.0 - t;
    let d = y - x;
    let apart = (x * y).le(0.0);
    let nearer = t.lt(0.5).select(x + t * d, y - rest * d);
    apart.select(x * rest + y * t, nearer)
}
