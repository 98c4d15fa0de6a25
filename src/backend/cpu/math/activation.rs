//! Activation functions and what they are made of: the formulas of the pointwise table, operation by operation.

use super::elementary::exp;
use super::function::larger;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

#[inline(always)]
fn polynomial<const N: usize>(x: f32, coefficients: [f64; N]) -> f32 {
    let mut sum = coefficients[N - 1] as f32;
    for &coefficient in coefficients[..N - 1].iter().rev() {
        sum = sum * x + coefficient as f32;
    }
    sum
}

#[inline(always)]
fn choose(condition: bool, a: f32, b: f32) -> f32 {
    // By bits: as a choice it may be made by a branch, and no vector code.
    let mask = u32::from(condition).wrapping_neg();
    f32::from_bits(a.to_bits() & mask | b.to_bits() & !mask)
}

#[inline(always)]
fn signed(x: f32, magnitude: f32) -> f32 {
    choose(x < 0.0, -magnitude, magnitude)
}

#[inline(always)]
fn logistic(x: f32) -> (f32, f32) {
    let e = exp(-x.abs());
    (e, 1.0 / (e + 1.0))
}

#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    let (e, r) = logistic(x);
    choose(x < 0.0, e * r, r)
}

#[inline(always)]
pub fn silu(x: f32) -> f32 {
    x * sigmoid(x)
}

#[inline(always)]
pub fn softplus(x: f32) -> f32 {
    let e = logistic(x).0;
    let s = e / (e + 2.0);
    let series = [1.0, 0.333_332_081, 0.200_107_639, 0.140_008_985, 0.140_060_1];
    larger(x, 0.0) + 2.0 * (s * polynomial(s * s, series))
}

#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let series = [1.0, -0.333_329_584, 0.133_210_081, -0.052_690_667, 0.016_474_732];
    let near = x * polynomial(x * x, series);
    let e = exp(-2.0 * x.abs());
    let far = (1.0 - e) / (1.0 + e);
    choose(x.abs() < 0.547, near, signed(x, far))
}

#[inline(always)]
fn erfcx(a: f32) -> f32 {
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
    let u = 1.0 / (a * 0.5 + 1.0);
    u * polynomial(u, series)
}

#[inline(always)]
pub fn erf(x: f32) -> f32 {
    let series = [1.0, -0.333_330_47, 0.099_944_519_6, -0.023_471_327_4, 0.003_799_238_98];
    let near = x * polynomial(x * x, series.map(|c| c * FRAC_2_SQRT_PI));
    let tail = erfcx(x.abs()) * exp(-(x * x));
    choose(x.abs() < 0.707, near, signed(x, 1.0 - tail))
}

#[inline(always)]
pub fn gelu(x: f32) -> f32 {
    let e = exp(-0.5 * (x * x));
    let tail = 0.5 * (erfcx(x.abs() * FRAC_1_SQRT_2 as f32) * e);
    x * choose(x < 0.0, tail, 1.0 - tail)
}

#[inline(always)]
pub fn gelu_tanh(x: f32) -> f32 {
    x * sigmoid(x * polynomial(x * x, [1.595_769_121_605_730_7, 0.071_354_816_272_600_25]))
}
