//! Inverse trigonometric functions and the length of a vector. WGSL allows its own `atan` 4096
//! units in the last place and its `asin` an error of 7e-5, and some drivers take them; these keep
//! to three units everywhere.

use super::{odd_series, signed};
use crate::expr::Expr;
use std::f64::consts::{FRAC_PI_2, PI};

/// atan(z) for |z| <= 1, error 2e-8.
fn atan_series(z: Expr) -> Expr {
    let series = [
        1.0,
        -0.333_331_527,
        0.199_937_728,
        -0.142_110_552,
        0.106_660_041,
        -0.075_522_131_6,
        0.043_211_847_6,
        -0.016_367_919_9,
        0.002_920_690_22,
    ];
    odd_series(z, &series)
}

/// atan x. The primitive is allowed 4096 units in the last place by WGSL, and some drivers take
/// them.
pub fn atan(x: Expr) -> Expr {
    let outside = x.abs().gt(1.0);
    let p = atan_series(outside.select(x.recip(), x));
    outside.select(x.lt(0.0).select(-FRAC_PI_2, FRAC_PI_2) - p, p)
}

/// atan2(y, x), signed zeros included.
pub fn atan2(y: Expr, x: Expr) -> Expr {
    let steep = x.abs().lt(y.abs());
    let large = steep.select(y.abs(), x.abs());
    let small = steep.select(x.abs(), y.abs());
    // Equal ones may be 0 / 0 or Inf / Inf.
    let diagonal = large.gt(0.0).select(1.0, 0.0);
    let p = atan_series(small.eq(large).select(diagonal, small / large));
    let p = steep.select(FRAC_PI_2 - p, p);
    let p = x.sign_bit().select(PI - p, p);
    y.sign_bit().select(-p, p)
}

/// By y and by x; 0 at the origin, where there is none.
pub fn atan2_slopes(y: Expr, x: Expr) -> [Expr; 2] {
    let h = hypot(x, y);
    let part = |v: Expr| h.eq(0.0).select(0.0, v / h / h);
    [part(x), -part(y)]
}

/// asin(x) for |x| <= 0.5, error 5e-9; `z` is x^2.
fn asin_series(x: Expr, z: Expr) -> Expr {
    let series =
        [1.0, 0.166_667_525, 0.074_952_976_4, 0.045_470_375_9, 0.024_179_514_8, 0.042_166_308_3];
    x * z.polynomial(&series)
}

/// Of |x|: whether it is above 1/2; what asin is to be taken of, and its square. asin a = pi/2 - 2
/// asin sqrt((1-a)/2).
fn asin_reduced(x: Expr) -> (Expr, Expr) {
    let a = x.abs();
    let outer = a.gt(0.5);
    let z = outer.select((1.0 - a) * 0.5, x.square());
    let p = asin_series(outer.select(z.sqrt(), a), z);
    (outer, p)
}

/// asin x; like [`atan`], to full accuracy everywhere.
pub fn asin(x: Expr) -> Expr {
    let (outer, p) = asin_reduced(x);
    let p = outer.select(FRAC_PI_2 - 2.0 * p, p);
    x.sign_bit().select(-p, p)
}

/// acos x; like [`atan`], to full accuracy everywhere.
pub fn acos(x: Expr) -> Expr {
    let (outer, p) = asin_reduced(x);
    let double = 2.0 * p;
    let outer_value = x.lt(0.0).select(PI - double, double);
    outer.select(outer_value, FRAC_PI_2 - signed(x, p))
}

/// 1 / sqrt(1 - x^2).
pub fn asin_slope(x: Expr) -> Expr {
    ((1.0 - x) * (1.0 + x)).inverse_sqrt()
}

/// sqrt(x^2 + y^2) as m sqrt(1 + (n / m)^2) with m the larger: no square overflows or vanishes.
pub fn hypot(x: Expr, y: Expr) -> Expr {
    let (a, b) = (x.abs(), y.abs());
    let swap = a.lt(b);
    let (m, n) = (swap.select(b, a), swap.select(a, b));
    // Equal ones may be 0 / 0 or Inf / Inf.
    let ratio = n.eq(m).select(1.0, n / m);
    m * (ratio.square() + 1.0).sqrt()
}

/// The directions x / h and y / h; 0 at the origin, where there is none.
pub fn hypot_slopes(x: Expr, y: Expr, h: Expr) -> [Expr; 2] {
    let part = |v: Expr| h.eq(0.0).select(0.0, v / h);
    [part(x), part(y)]
}
