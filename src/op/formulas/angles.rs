//! Inverse trigonometric functions and the length of a vector. WGSL allows `atan` an error of 4096 units in the last place,
//! and `asin` an error of 7e-5. Some drivers have errors of this size. These formulas stay within three units everywhere.

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
    odd_series(z, series)
}

/// atan x. WGSL allows the primitive an error of 4096 units in the last place, and some drivers have it.
pub fn atan(x: Expr) -> Expr {
    let outside = x.abs().gt(1.0);
    let p = atan_series(outside.select(x.recip(), x));
    outside.select(x.lt(0.0).select(-FRAC_PI_2, FRAC_PI_2) - p, p)
}

/// atan2(y, x), including signed zeros.
pub fn atan2(y: Expr, x: Expr) -> Expr {
    let steep = x.abs().lt(y.abs());
    let large = steep.select(y.abs(), x.abs());
    let small = steep.select(x.abs(), y.abs());
    // The quotient of equal values may be 0 / 0 or Inf / Inf.
    let diagonal = large.gt(0.0).select(1.0, 0.0);
    let p = atan_series(small.eq(large).select(diagonal, small / large));
    let p = steep.select(FRAC_PI_2 - p, p);
    let p = x.sign_bit().select(PI - p, p);
    y.sign_bit().select(-p, p)
}

/// The real and the imaginary part of (x + iy)^-k for a constant k, and 0 at the origin, where it is undefined. The
/// derivative by x is the next power times -k, and the derivative by y is i times that. So no derivative subtracts large
/// numbers.
fn inverse_power(x: Expr, y: Expr, k: Expr) -> [Expr; 2] {
    let h = hypot(x, y).with_gradient(&[x, y], |at, h| hypot_slopes(at[0], at[1], h).to_vec());
    let (c, s) = (x / h, y / h);
    let times = k.literal().unwrap_or_default() as u32;
    let (mut real, mut imaginary) = (c, -s);
    for _ in 1..times {
        (real, imaginary) = (real * c + imaginary * s, imaginary * c - real * s);
    }
    for _ in 0..times {
        (real, imaginary) = (real / h, imaginary / h);
    }
    let [real, imaginary] = [real, imaginary].map(|part| h.eq(0.0).select(0.0, part));
    fn real_slopes(a: &[Expr], _: Expr) -> Vec<Expr> {
        let [real, imaginary] = inverse_power(a[0], a[1], a[2] + 1.0);
        vec![-(a[2] * real), a[2] * imaginary, Expr::lit(0.0)]
    }
    fn imaginary_slopes(a: &[Expr], _: Expr) -> Vec<Expr> {
        let [real, imaginary] = inverse_power(a[0], a[1], a[2] + 1.0);
        vec![-(a[2] * imaginary), -(a[2] * real), Expr::lit(0.0)]
    }
    let arguments = [x, y, k];
    [
        real.with_gradient(&arguments, real_slopes),
        imaginary.with_gradient(&arguments, imaginary_slopes),
    ]
}

/// The slopes of atan2 by y and by x, which are the parts of 1 / (x + iy).
pub fn atan2_slopes(y: Expr, x: Expr) -> [Expr; 2] {
    inverse_power(x, y, Expr::lit(1.0))
}

/// asin(x) for |x| <= 0.5, error 5e-9. `z` is x^2.
fn asin_series(x: Expr, z: Expr) -> Expr {
    let series =
        [1.0, 0.166_667_525, 0.074_952_976_4, 0.045_470_375_9, 0.024_179_514_8, 0.042_166_308_3];
    x * z.polynomial(&series)
}

/// Reduces asin to |x| <= 1/2 by asin a = pi/2 - 2 asin sqrt((1-a)/2). Returns whether |x| is above 1/2, and the asin of the
/// reduced argument.
fn asin_reduced(x: Expr) -> (Expr, Expr) {
    let a = x.abs();
    let outer = a.gt(0.5);
    let z = outer.select((1.0 - a) * 0.5, x.square());
    let p = asin_series(outer.select(z.sqrt(), a), z);
    (outer, p)
}

/// asin x, with full accuracy everywhere, like [`atan`].
pub fn asin(x: Expr) -> Expr {
    let (outer, p) = asin_reduced(x);
    let p = outer.select(FRAC_PI_2 - 2.0 * p, p);
    x.sign_bit().select(-p, p)
}

/// acos x, with full accuracy everywhere, like [`atan`].
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

/// sqrt(x^2 + y^2), computed as m sqrt(1 + (n / m)^2), where m is the larger one. No square overflows or underflows.
pub fn hypot(x: Expr, y: Expr) -> Expr {
    let (a, b) = (x.abs(), y.abs());
    let swap = a.lt(b);
    let (m, n) = (swap.select(b, a), swap.select(a, b));
    // The quotient of equal values may be 0 / 0 or Inf / Inf.
    let ratio = n.eq(m).select(1.0, n / m);
    let length = m * (ratio.square() + 1.0).sqrt();
    // The result is infinite if one value is, for any other value including NaN.
    a.is_inf().or(b.is_inf()).select(f64::INFINITY, length)
}

/// v / h, or 0 if h is 0.
fn over(v: Expr, h: Expr) -> Expr {
    h.eq(0.0).select(0.0, v / h)
}

/// v / h, where h is the length of (v, w), and 0 at the origin, where it is undefined. Derivatives write 1 - (v / h)^2 as (w
/// / h)^2.
fn direction(v: Expr, w: Expr, h: Expr) -> Expr {
    over(v, h).with_gradient(&[v, w, h], |arguments, c| {
        let &[v, w, h] = arguments else { unreachable!("they are three") };
        let s = direction(w, v, h);
        // h depends on v and w, so its slope is part of theirs.
        vec![over(s * s, h), -over(c * s, h), Expr::lit(0.0)]
    })
}

/// The directions x / h and y / h.
pub fn hypot_slopes(x: Expr, y: Expr, h: Expr) -> [Expr; 2] {
    [direction(x, y, h), direction(y, x, h)]
}
