//! Trigonometric functions and their inverses, by polynomials.

use super::elementary::keep_nan;
use super::Lowerer;
use crate::cuda::ptx::build::Builder;
use crate::cuda::ptx::ir::{Cmp, Op, Operand, Ty};

/// `(sin(x) / x - 1) / x^2` by `x^2`, for `|x| <= pi/4`.
const SIN: [f32; 4] = [2.7248365e-6, -0.000_198_400_74, 0.008333332, -0.16666667];
/// `(cos(x) - 1 + x^2 / 2) / x^4` by `x^2`, for `|x| <= pi/4`.
const COS: [f32; 4] = [-2.7299656e-7, 2.480059e-5, -0.0013888888, 0.041666667];
/// `(atan(x) / x - 1) / x^2` by `x^2`, for `|x| <= 1`.
const ATAN: [f32; 10] = [
    0.0014886919,
    -0.009_144_629,
    0.026305001,
    -0.048960514,
    0.070319143,
    -0.08931827,
    0.11088262,
    -0.14284004,
    0.1999995,
    -0.33333333,
];
/// `(asin(x) / x - 1) / x^2` by `x^2`, for `|x| <= 1/2`.
const ASIN: [f32; 7] =
    [0.03097454, 0.010_574_415, 0.023611817, 0.030269139, 0.044647664, 0.07499992, 0.16666667];
/// `pi/2` and `pi` as sums.
const HALF_PI: [f32; 2] = [std::f32::consts::FRAC_PI_2, -4.371139e-8];
const PI: [f32; 2] = [std::f32::consts::PI, -8.742278e-8];

impl Lowerer<'_> {
    /// Returns the sine (`quarters` 0) or the cosine (`quarters` 1), within 2 ULP.
    pub(super) fn sine(&mut self, x: Operand, quarters: u32) -> Operand {
        let size = self.b.abs(x);
        let (n, r) = self.reduce_angle(size);
        let b = &mut self.b;
        let n = b.op(Op::Add(Ty::U32), &[n, Operand::u32(quarters)]);
        let (sin, cos) = sin_cos(b, r);
        let odd = b.op(Op::And, &[n, Operand::u32(1)]);
        let is_odd = b.op(Op::Compare(Cmp::Ne, Ty::U32), &[odd, Operand::u32(0)]);
        let value = b.select(is_odd, cos, sin);
        // Quarters 2 and 3 are negative. So is the sine of a negative angle.
        let half = b.op(Op::Shl, &[n, Operand::u32(30)]);
        let sign = if quarters == 0 { b.op(Op::Xor, &[half, x]) } else { half };
        let sign = b.op(Op::And, &[sign, Operand::u32(0x8000_0000)]);
        let value = b.op(Op::Xor, &[value, sign]);
        only_finite(b, size, value)
    }

    /// Returns the tangent, within 4 ULP.
    pub(super) fn tan(&mut self, x: Operand) -> Operand {
        let size = self.b.abs(x);
        let (n, r) = self.reduce_angle(size);
        let b = &mut self.b;
        let (sin, cos) = sin_cos(b, r);
        let odd = b.op(Op::And, &[n, Operand::u32(1)]);
        let is_odd = b.op(Op::Compare(Cmp::Ne, Ty::U32), &[odd, Operand::u32(0)]);
        let minus_cos = b.neg(cos);
        let numerator = b.select(is_odd, minus_cos, sin);
        let denominator = b.select(is_odd, sin, cos);
        let value = b.div(numerator, denominator);
        let sign = b.op(Op::And, &[x, Operand::u32(0x8000_0000)]);
        let value = b.op(Op::Xor, &[value, sign]);
        only_finite(b, size, value)
    }

    /// Returns the inverse tangent, within 2 ULP.
    pub(super) fn atan(&mut self, x: Operand) -> Operand {
        let b = &mut self.b;
        let size = b.abs(x);
        let is_large = b.cmp(Cmp::Gt, size, Operand::f32(1.0));
        let inverse = b.div(Operand::f32(1.0), size);
        let t = b.select(is_large, inverse, size);
        let angle = odd_polynomial(b, t, &ATAN);
        let complement = minus(b, HALF_PI, angle);
        let angle = b.select(is_large, complement, angle);
        copy_sign(b, angle, x)
    }

    /// Returns the angle of the point `(x, y)`, within 3 ULP.
    pub(super) fn atan2(&mut self, y: Operand, x: Operand) -> Operand {
        let b = &mut self.b;
        let (size_x, size_y) = (b.abs(x), b.abs(y));
        let large = b.op(Op::Max(Ty::F32), &[size_x, size_y]);
        let small = b.op(Op::Min(Ty::F32), &[size_x, size_y]);
        let quotient = b.div(small, large);
        // Both are 0, or both are infinite.
        let is_equal = b.cmp(Cmp::Eq, small, large);
        let is_zero = b.cmp(Cmp::Eq, large, Operand::f32(0.0));
        let quotient = b.select(is_equal, Operand::f32(1.0), quotient);
        let t = b.select(is_zero, Operand::f32(0.0), quotient);
        let angle = odd_polynomial(b, t, &ATAN);
        let is_steep = b.cmp(Cmp::Gt, size_y, size_x);
        let complement = minus(b, HALF_PI, angle);
        let angle = b.select(is_steep, complement, angle);
        let is_left = b.op(Op::Compare(Cmp::Lt, Ty::S32), &[x, Operand::u32(0)]);
        let mirrored = minus(b, PI, angle);
        let angle = b.select(is_left, mirrored, angle);
        let angle = copy_sign(b, angle, y);
        let sum = b.add(x, y);
        let is_nan_x = b.cmp(Cmp::Ne, x, x);
        let is_nan_y = b.cmp(Cmp::Ne, y, y);
        let is_nan = b.op(Op::Or, &[is_nan_x, is_nan_y]);
        b.select(is_nan, sum, angle)
    }

    /// Returns the inverse sine, within 3 ULP.
    pub(super) fn asin(&mut self, x: Operand) -> Operand {
        let b = &mut self.b;
        let size = b.abs(x);
        let (near, far) = asin_parts(b, size);
        let double = b.add(far, far);
        let complement = minus(b, HALF_PI, double);
        let is_near = b.cmp(Cmp::Le, size, Operand::f32(0.5));
        let angle = b.select(is_near, near, complement);
        copy_sign(b, angle, x)
    }

    /// Returns the inverse cosine, within 2 ULP.
    pub(super) fn acos(&mut self, x: Operand) -> Operand {
        let b = &mut self.b;
        let size = b.abs(x);
        let (near, far) = asin_parts(b, size);
        let signed = copy_sign(b, near, x);
        let middle = minus(b, HALF_PI, signed);
        let right = b.add(far, far);
        let left = minus(b, PI, right);
        let is_negative = b.cmp(Cmp::Lt, x, Operand::f32(0.0));
        let outer = b.select(is_negative, left, right);
        let is_near = b.cmp(Cmp::Le, size, Operand::f32(0.5));
        b.select(is_near, middle, outer)
    }
}

fn sin_cos(b: &mut Builder, r: Operand) -> (Operand, Operand) {
    let z = b.mul(r, r);
    let p = b.horner(z, &SIN);
    let cube = b.mul(r, z);
    let sin = b.fma(cube, p, r);
    let q = b.horner(z, &COS);
    let half = b.fma(z, Operand::f32(-0.5), Operand::f32(1.0));
    let square = b.mul(z, z);
    let cos = b.fma(square, q, half);
    (sin, cos)
}

/// Returns `x + x^3 p(x^2)`.
pub(super) fn odd_polynomial(b: &mut Builder, x: Operand, coefficients: &[f32]) -> Operand {
    let z = b.mul(x, x);
    let p = b.horner(z, coefficients);
    let cube = b.mul(x, z);
    b.fma(cube, p, x)
}

/// Returns `asin(x)` for `x <= 1/2`, and `asin(sqrt((1 - x) / 2))`, which serves for greater arguments.
fn asin_parts(b: &mut Builder, x: Operand) -> (Operand, Operand) {
    let near = odd_polynomial(b, x, &ASIN);
    let w = b.fma(x, Operand::f32(-0.5), Operand::f32(0.5));
    let root = b.op(Op::Sqrt, &[w]);
    let p = b.horner(w, &ASIN);
    let cube = b.mul(root, w);
    (near, b.fma(cube, p, root))
}

/// Returns `constant - x` for a constant of two parts.
fn minus(b: &mut Builder, [high, low]: [f32; 2], x: Operand) -> Operand {
    let rest = b.sub(x, Operand::f32(low));
    b.sub(Operand::f32(high), rest)
}

/// Returns `x`, which is not negative, with the sign of another number.
pub(super) fn copy_sign(b: &mut Builder, x: Operand, sign: Operand) -> Operand {
    let sign = b.op(Op::And, &[sign, Operand::u32(0x8000_0000)]);
    b.op(Op::Xor, &[x, sign])
}

/// Replaces the result by NaN if the angle is infinite or NaN.
fn only_finite(b: &mut Builder, size: Operand, value: Operand) -> Operand {
    let is_finite = b.cmp(Cmp::Lt, size, Operand::f32(f32::INFINITY));
    let value = b.select(is_finite, value, Operand::f32(f32::NAN));
    keep_nan(b, size, value)
}
