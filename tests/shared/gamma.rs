//! The logarithm of the gamma function with its derivatives, and the inverse of the error function, in `f64`.

use super::reference::{erf, erfc};
use std::f64::consts::{FRAC_2_SQRT_PI, LN_2, PI};

/// The Bernoulli numbers with the indices 2, 4, ...
const BERNOULLI: [f64; 6] =
    [1.0 / 6.0, -1.0 / 30.0, 1.0 / 42.0, -1.0 / 30.0, 5.0 / 66.0, -691.0 / 2730.0];

/// Whether x is 0, -1, -2, ... or -Inf.
pub fn is_pole(x: f64) -> bool {
    x <= 0.0 && x.floor() == x
}

/// Returns log|Gamma(x)|.
pub fn lgamma(x: f64) -> f64 {
    if is_pole(x) || x == f64::INFINITY {
        return f64::INFINITY;
    }
    if x < 0.0 {
        // Gamma(x) Gamma(1 - x) sin(pi x) = pi.
        let sine = (PI * (x - x.round())).sin().abs();
        return (PI / sine).ln() - lgamma(1.0 - x);
    }
    // Gamma(x + 1) = x Gamma(x) moves x to where Stirling's series is accurate to all digits.
    let (mut z, mut product) = (x, 1.0);
    while z < 12.0 {
        product *= z;
        z += 1.0;
    }
    let mut series = (z - 0.5) * z.ln() - z + 0.5 * (LN_2 + PI.ln());
    for (n, bernoulli) in BERNOULLI.iter().enumerate() {
        let k = 2.0 * (n + 1) as f64;
        series += bernoulli / (k * (k - 1.0) * z.powf(k - 1.0));
    }
    series - product.ln()
}

/// Returns the size of the terms that cancel in `lgamma`. Above 0, nothing cancels.
pub fn lgamma_terms(at: &[f64]) -> f64 {
    match at[0] {
        x if x < 0.0 && !is_pole(x) => (1.0 - x).ln() + 1.0 + lgamma(x).abs() + lgamma(-x).abs(),
        _ => 0.0,
    }
}

/// Returns the size of the terms that cancel in the derivative of `lgamma`.
pub fn digamma_terms(at: &[f64]) -> f64 {
    let a = at[0].abs();
    (a + 4.0).ln() + if a > 0.0 { 2.0 / a } else { 0.0 }
}

/// Returns the n-th derivative of `digamma`.
pub fn polygamma(n: i32, x: f64) -> f64 {
    if n == 0 && x == 0.0 {
        return -1.0 / x;
    }
    if is_pole(x) {
        return f64::NAN;
    }
    let sign = if n % 2 == 0 { 1.0 } else { -1.0 };
    if x < 0.0 {
        // (-1)^n psi_n(1 - x) - psi_n(x) is the n-th derivative of pi / tan(pi x).
        let tangent = (PI * (x - x.round())).tan();
        let (c, more) = (PI / tangent, PI * PI * (1.0 + tangent.powi(-2)));
        let turned = match n {
            0 => c,
            1 => -more,
            2 => 2.0 * c * more,
            3 => -2.0 * more * (more + 2.0 * c * c),
            _ => f64::NAN,
        };
        return sign * polygamma(n, 1.0 - x) - turned;
    }
    let factorial = |n: i32| (1..=n).map(f64::from).product::<f64>();
    let (mut z, mut sum) = (x, 0.0);
    while z < 16.0 {
        sum += factorial(n) / z.powi(n + 1);
        z += 1.0;
    }
    sum += match n {
        0 => -z.ln(),
        _ => factorial(n - 1) / z.powi(n),
    };
    sum += 0.5 * factorial(n) / z.powi(n + 1);
    for (at, bernoulli) in BERNOULLI.iter().enumerate() {
        let k = 2 * (at as i32 + 1);
        sum += bernoulli * factorial(k + n - 1) / factorial(k) / z.powi(k + n);
    }
    -sign * sum
}

/// Returns the x with erf(x) = y, by Newton's method. Above one half, solves erfc(x) = 1 - y instead.
pub fn erfinv(y: f64) -> f64 {
    if y.abs() == 1.0 {
        return y * f64::INFINITY;
    }
    if y.abs() > 1.0 {
        return f64::NAN;
    }
    if y == 0.0 || y.is_nan() {
        return y;
    }
    let (goal, mut x) = (1.0 - y.abs(), 0.0f64);
    for _ in 0..60 {
        let slope = FRAC_2_SQRT_PI * (-x * x).exp();
        x += match goal < 0.5 {
            true => (erfc(x) / goal).ln() * erfc(x) / slope,
            false => (y.abs() - erf(x)) / slope,
        };
    }
    x.copysign(y)
}
