//! Hyperbolic functions and their inverses.

use super::trigonometry::{copy_sign, odd_polynomial};
use super::Lowerer;
use crate::cuda::ptx::ir::{Cmp, Op, Operand};

/// `(tanh(x) / x - 1) / x^2` by `x^2`, for `|x| <= 0.6`.
const TANH: [f32; 6] =
    [0.0023449312, -0.008388774, 0.021782247, -0.053_960_856, 0.1333331, -0.33333333];
/// `(sinh(x) / x - 1) / x^2` by `x^2`, for `|x| <= 1`.
const SINH: [f32; 4] = [2.8062803e-6, 0.00019838102, 0.008_333_339, 0.16666667];
/// The argument from which `asinh` and `acosh` are `log(2 x)`, so that `x^2` does not overflow.
const LARGE: f32 = 4096.0;

impl Lowerer<'_> {
    /// Returns the hyperbolic tangent, within 2 ULP.
    pub(super) fn tanh(&mut self, x: Operand) -> Operand {
        let size = self.b.abs(x);
        let double = self.b.add(size, size);
        let e = self.exp_scaled(double, 0);
        let b = &mut self.b;
        let sum = b.add(e, Operand::f32(1.0));
        let quotient = b.div(Operand::f32(2.0), sum);
        let far = b.sub(Operand::f32(1.0), quotient);
        let near = odd_polynomial(b, size, &TANH);
        let is_near = b.cmp(Cmp::Lt, size, Operand::f32(0.6));
        let result = b.select(is_near, near, far);
        copy_sign(b, result, x)
    }

    /// Returns the hyperbolic sine, within 2 ULP.
    pub(super) fn sinh(&mut self, x: Operand) -> Operand {
        let size = self.b.abs(x);
        let half = self.exp_scaled(size, -1);
        let b = &mut self.b;
        let inverse = b.div(Operand::f32(0.25), half);
        let far = b.sub(half, inverse);
        let near = odd_polynomial(b, size, &SINH);
        let is_near = b.cmp(Cmp::Lt, size, Operand::f32(1.0));
        let result = b.select(is_near, near, far);
        copy_sign(b, result, x)
    }

    /// Returns the hyperbolic cosine, within 2 ULP.
    pub(super) fn cosh(&mut self, x: Operand) -> Operand {
        let size = self.b.abs(x);
        let half = self.exp_scaled(size, -1);
        let inverse = self.b.div(Operand::f32(0.25), half);
        self.b.add(half, inverse)
    }

    /// Returns the inverse hyperbolic sine, within 4 ULP.
    pub(super) fn asinh(&mut self, x: Operand) -> Operand {
        let one = Operand::f32(1.0);
        let size = self.b.abs(x);
        // x + x^2 / (1 + sqrt(x^2 + 1)) is exp(asinh(x)) - 1.
        let square = self.b.mul(size, size);
        let sum = self.b.add(square, one);
        let root = self.b.op(Op::Sqrt, &[sum]);
        let divisor = self.b.add(root, one);
        let quotient = self.b.div(square, divisor);
        let u = self.b.add(size, quotient);
        let result = self.log_or_large(u, size);
        copy_sign(&mut self.b, result, x)
    }

    /// Returns the inverse hyperbolic cosine, within 4 ULP. It is NaN below 1.
    pub(super) fn acosh(&mut self, x: Operand) -> Operand {
        let t = self.b.sub(x, Operand::f32(1.0));
        let double = self.b.add(t, t);
        let sum = self.b.fma(t, t, double);
        let root = self.b.op(Op::Sqrt, &[sum]);
        let u = self.b.add(t, root);
        let result = self.log_or_large(u, x);
        let is_below = self.b.cmp(Cmp::Lt, x, Operand::f32(1.0));
        self.b.select(is_below, Operand::f32(f32::NAN), result)
    }

    /// Returns the inverse hyperbolic tangent, within 4 ULP.
    pub(super) fn atanh(&mut self, x: Operand) -> Operand {
        let size = self.b.abs(x);
        let rest = self.b.sub(Operand::f32(1.0), size);
        let double = self.b.add(size, size);
        let u = self.b.div(double, rest);
        let log = self.log_1p(u);
        let half = self.b.mul(log, Operand::f32(0.5));
        let is_outside = self.b.cmp(Cmp::Gt, size, Operand::f32(1.0));
        let half = self.b.select(is_outside, Operand::f32(f32::NAN), half);
        copy_sign(&mut self.b, half, x)
    }

    /// Returns `log(1 + u)`, or `log(2 size)` for large sizes.
    fn log_or_large(&mut self, u: Operand, size: Operand) -> Operand {
        let near = self.log_1p(u);
        let log = self.log(size);
        let far = self.b.add(log, Operand::f32(std::f32::consts::LN_2));
        let is_large = self.b.cmp(Cmp::Gt, size, Operand::f32(LARGE));
        self.b.select(is_large, far, near)
    }
}
