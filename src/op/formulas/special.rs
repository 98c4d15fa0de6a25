//! The logarithm of the gamma function with derivatives of every order, and the inverse of the error function.

use super::at_most;
use crate::expr::Expr;
use std::f64::consts::PI;

/// x minus the nearest integer. It is exact, and sufficient for functions of pi x.
fn from_integer(x: Expr) -> Expr {
    x - x.round()
}

/// Whether x is 0, -1, -2, ... or -Inf.
fn at_pole(x: Expr) -> Expr {
    x.le(0.0).and(x.floor().eq(x))
}

/// sin(pi x) / pi, error 2e-9. It is accurate next to its zeros and for large x, unlike a device's sine.
fn sine(x: Expr) -> Expr {
    let r = from_integer(x);
    let series = [1.0, -1.644_933_301_65, 0.811_714_909_155, -0.190_442_309_75, 0.024_719_757_2];
    r * r.square().polynomial(&series)
}

/// pi / tan(pi x), error 2e-8. It is accurate next to its zeros, at odd multiples of 1/2.
fn cotangent(x: Expr) -> Expr {
    let r = from_integer(x);
    let series =
        [4.0, 2.840_506_31, 2.704_849_78, 2.644_541_06, 3.003_508_34, 0.865_803_507, 7.059_328_66];
    (0.5 - r) * (0.5 + r) * r.square().polynomial(&series) / r
}

/// log|Gamma(x)|.
pub fn lgamma(x: Expr) -> Expr {
    let a = x.abs();
    let log = a.log();
    // From 0.6 to 3, it is d (d - 1) times a smooth function, with d = a - 1. Below 0.6 it is the value at a + 1 minus log a.
    // Error 3e-8.
    let small = a.lt(0.6);
    let d = small.select(a, a - 1.0);
    let above = [0.577_215_682, 0.796_288_973, 0.290_133_206, 0.022_444_299_9];
    let below = [1.0, 1.804_421_47, 1.000_036_54, 0.177_371_796, 0.006_213_264_4];
    let near = d * (d - 1.0) * (d.polynomial(&above) / d.polynomial(&below));
    // Stirling's series, error 2e-8. The constant is (log(2 pi) - 1) / 2.
    let w = a.recip();
    let rest = w * w.square().polynomial(&[0.083_333_313_8, -0.002_774_474_04, 0.000_709_371_223]);
    let far = (a - 0.5) * (log - 1.0) + (rest + 0.418_938_533_204_672_7);
    let there = a.lt(3.0).select(near, far);
    // Gamma(x) Gamma(-x) = -pi / (x sin(pi x)). For small a, log a is in both terms, and is left out.
    let mirrored = -sine(x).abs().log() - small.select(there, there + log);
    let value = x.lt(0.0).select(mirrored, small.select(there - log, there));
    at_pole(x).select(f64::INFINITY, value)
}

/// The derivative of [`lgamma`].
pub fn digamma(x: Expr) -> Expr {
    // Not |x|, so that -0 keeps its sign.
    let a = x.lt(0.0).select(-x, x);
    // Computes 1 / a + ... + 1 / (a + 3), in pairs of the first and the last term. Above 1e15, where squares may be infinite,
    // the terms do not matter.
    let c = at_most(a, 1e15);
    let ends = c * (c + 3.0);
    let steps = (2.0 * c + 3.0) * (ends.recip() + (ends + 2.0).recip());
    let z = a + 4.0;
    let w = z.recip();
    let series = [0.083_333_332_7, -0.008_333_002_89, 0.003_940_629_28, -0.003_402_653_6];
    let t = w.square();
    let value = z.log() - (0.5 * w + t * t.polynomial(&series)) - steps;
    let mirrored = value + a.recip() - cotangent(x);
    let value = x.lt(0.0).select(mirrored, value);
    x.lt(0.0).and(at_pole(x)).select(f64::NAN, value)
}

/// The derivative of [`digamma`].
pub fn digamma_slope(x: Expr) -> Expr {
    polygamma(x, Expr::lit(1.0))
}

/// The Bernoulli numbers B2, B4, ...
const BERNOULLI: [f64; 5] = [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0];

/// The n-th derivative of [`digamma`], for a constant n >= 1.
fn polygamma(x: Expr, n: Expr) -> Expr {
    let order = n.literal().unwrap_or_default() as usize;
    let factorial = |n: usize| (1..=n).map(|k| k as f64).product::<f64>();
    let power = |x: Expr, n: usize| (1..n).fold(x, |power, _| power * x);
    let y = x.lt(0.0).select(1.0 - x, x);
    // Without the sign, the value is n! / y^(n + 1) + ... + n! / (y + 3)^(n + 1), plus an asymptotic series for the rest.
    let step = |k: usize| power((y + k as f64).recip(), order + 1);
    let steps = step(1) + step(2) + step(3) + power(y.recip(), order + 1);
    let w = (y + 4.0).recip();
    let series: Vec<f64> = (1..=BERNOULLI.len())
        .map(|k| BERNOULLI[k - 1] * factorial(2 * k + order - 1) / factorial(2 * k))
        .collect();
    let outer =
        factorial(order - 1) + w * (0.5 * factorial(order) + w * w.square().polynomial(&series));
    let sum = steps * factorial(order) + power(w, order) * outer;
    let value = if order % 2 == 1 { sum } else { -sum };
    // psi(1 - x) - psi(x) = pi / tan(pi x) = c, and c' = -(pi^2 + c^2). The derivatives are polynomials of c, alternately odd
    // and even.
    let mut terms = vec![0.0, 1.0];
    for _ in 0..order {
        let slope: Vec<f64> = (1..terms.len()).map(|k| k as f64 * terms[k]).collect();
        terms = vec![0.0; slope.len() + 2];
        for (k, factor) in slope.into_iter().enumerate() {
            terms[k] -= PI * PI * factor;
            terms[k + 2] -= factor;
        }
    }
    let c = cotangent(x);
    let odd = (order + 1) % 2;
    let halved: Vec<f64> = terms.into_iter().skip(odd).step_by(2).collect();
    let even = c.square().polynomial(&halved);
    let turned = if odd == 1 { c * even } else { even };
    // The n-th derivative of psi(1 - x) has the sign of (-1)^n.
    let mirrored = -sum - turned;
    let value = x.lt(0.0).select(mirrored, value);
    value.with_gradient(&[x, n], |at, _| vec![polygamma(at[0], at[1] + 1.0), Expr::lit(0.0)])
}

/// The inverse of the error function, x p(w) with w = -log(1 - x^2), after Giles 2010. Error 9e-8.
pub fn erfinv(x: Expr) -> Expr {
    let w = -((1.0 - x) * (1.0 + x)).log();
    let near = (w - 2.5).polynomial(&[
        1.501_409_42,
        0.246_640_726,
        -0.004_177_707_74,
        -0.001_253_707_52,
        0.000_218_602_194,
        -4.396_781_25e-6,
        -3.528_859_54e-6,
        3.437_270_59e-7,
        2.853_478_95e-8,
    ]);
    let far = (w.sqrt() - 3.0).polynomial(&[
        2.832_976_99,
        1.001_674_18,
        0.009_435_622_39,
        -0.007_625_304_41,
        0.005_761_799_33,
        -0.003_660_137_68,
        0.001_300_224_9,
        8.610_832_44e-5,
        -0.000_165_428_53,
    ]);
    let value = x * w.lt(5.0).select(near, far);
    x.abs().eq(1.0).select(x * f64::INFINITY, value)
}
