//! The table of pointwise operations, with one row for each operation. The row defines the shape rule, the CPU value, the
//! WGSL, the derivative, the fusion, the Rust and JavaScript methods with their docs, and the property tests.

use crate::dtype::{DType, FLOATS, INDICES, NUMBERS};
use crate::error::{Error, Result};
use crate::expr::{Expr, Gradient, Node};
use crate::op::formulas;
use std::sync::OnceLock;

/// The element types that a row accepts. All operands have the same type, unless a variant says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Types {
    /// `f32`, `f16`.
    Float,
    /// `f32`, `f16`, `i32`, `u32`.
    Number,
    /// `f32`, `f16`, `i32`.
    Signed,
    /// `i32`, `u32`.
    Int,
    /// `bool`.
    Bool,
    /// `i32`, `u32`, `bool`.
    Bits,
    /// Every type.
    Any,
    /// Only `u32`.
    U32,
    /// The first operand is `bool`. The others have the same type, which can be any.
    Select,
}

impl Types {
    fn allows(self, dtype: DType) -> bool {
        match self {
            Types::Float => dtype.is_float(),
            Types::Number => dtype.is_number(),
            Types::Signed => dtype.is_float() || dtype == DType::I32,
            Types::Int => dtype.is_int(),
            Types::Bool => dtype == DType::Bool,
            Types::Bits => dtype.is_int() || dtype == DType::Bool,
            Types::U32 => dtype == DType::U32,
            Types::Any | Types::Select => true,
        }
    }

    /// Returns the dtypes, for messages.
    fn listed(self) -> &'static str {
        match self {
            Types::Float => FLOATS,
            Types::Number => NUMBERS,
            Types::Signed => "f32, f16 or i32",
            Types::Int => INDICES,
            Types::Bool => "bool",
            Types::Bits => "i32, u32 or bool",
            Types::U32 => "u32",
            Types::Any | Types::Select => "any",
        }
    }
}

/// The definition of a pointwise operation.
pub struct Row {
    /// The name of the method.
    pub name: &'static str,
    /// The documentation.
    pub doc: &'static str,
    /// The names of the operands, which are tensors or numbers.
    pub operands: &'static [&'static str],
    /// Parameters after the operands, which are always numbers, with their default values.
    pub parameters: &'static [(&'static str, f64)],
    /// The accepted element types.
    pub types: Types,
    /// The type of the result, if it is not the operands' type.
    pub result: Option<DType>,
    /// The ranges in native tests, one for each operand and parameter. The last range also applies to all that follow.
    pub domain: &'static [(f64, f64)],
    /// The formula in terms of operands and parameters.
    pub formula: fn(&[Expr]) -> Expr,
    /// The derivatives by operands and parameters, if they do not follow from the formula. A formula with branches can be
    /// accurate in each branch, but the derivative must be the function's.
    pub gradient: Option<Gradient>,
    /// The formula over its arguments. It is cached, because each recorded operation needs it.
    written: &'static OnceLock<Expr>,
}

impl Row {
    /// Returns the formula over `Arg(0)`, `Arg(1)`, ...
    pub fn expr(&self) -> Expr {
        *self.written.get_or_init(|| self.of(&self.arguments()))
    }

    /// Returns the formula of these operands and parameters, with the row's gradient.
    fn of(&self, arguments: &[Expr]) -> Expr {
        let value = (self.formula)(arguments);
        match self.gradient {
            Some(gradient) => value.with_gradient(arguments, gradient),
            None => value,
        }
    }

    /// Returns the derivative by the n-th argument, over the same arguments.
    pub fn derivative(&self, n: usize) -> Expr {
        self.expr().derivative(n)
    }

    /// Returns the number of operands and parameters.
    pub fn arity(&self) -> usize {
        self.operands.len() + self.parameters.len()
    }

    fn arguments(&self) -> Vec<Expr> {
        let mut arguments = Vec::new();
        for n in 0..self.arity() {
            arguments.push(Expr::arg(n));
        }
        arguments
    }

    /// Returns the type of the result, or the error if the operands do not fit.
    pub fn dtype(&self, operands: &[DType]) -> Result<DType> {
        let name = self.name;
        let values = match self.types {
            Types::Select if operands[0] != DType::Bool => {
                let message = format!("{name}: the condition must be bool, got {}", operands[0]);
                return Err(Error::dtype(message));
            }
            Types::Select => &operands[1..],
            _ => operands,
        };
        if let Some(other) = values.iter().find(|&&d| d != values[0]) {
            return Err(Error::mixed_dtypes(name, values[0], other));
        }
        if !self.types.allows(values[0]) {
            return Err(Error::wrong_dtype(name, self.types.listed(), values[0]));
        }
        let mut arguments: Vec<DType> = operands.to_vec();
        arguments.resize(self.arity(), values[0]);
        Ok(infer(self.expr(), &arguments).unwrap_or(DType::F32))
    }
}

/// Infers the type of a formula. Returns `None` for a bare constant.
fn infer(expr: Expr, arguments: &[DType]) -> Option<DType> {
    match *expr.node() {
        Node::Arg(n) => Some(arguments[n]),
        Node::Lit(_) => None,
        Node::Unary(op, x) => {
            use crate::expr::Unary;
            match op {
                Unary::IsNan | Unary::IsInf | Unary::SignBit => Some(DType::Bool),
                _ => infer(x, arguments),
            }
        }
        Node::Binary(op, ..) if op.compares() => Some(DType::Bool),
        Node::Binary(_, x, y) => infer(x, arguments).or_else(|| infer(y, arguments)),
        Node::Select(_, a, b) => infer(a, arguments).or_else(|| infer(b, arguments)),
        Node::Cast(to, _) => Some(to),
    }
}

/// Passes the whole table to a macro: `pointwise_rows!(callback)` becomes `callback! { rows }`. A row has the form `/// doc`,
/// `kind name(operands; parameter = usual, ...): types, domain => formula;`. It may have `, gradient |y| [by each argument]`
/// before the semicolon. Gradients are differentiated in turn. They must therefore call other rows
/// (`Pointwise::exp.of(&[x])`), primitives, or formulas with a gradient.
#[macro_export]
#[doc(hidden)]
macro_rules! pointwise_rows {
    ($callback:ident) => { $callback! {
        // One value: sign, rounding, powers.
        /// The absolute value, `|x|`; its derivative at 0 is 0.
        unary abs(x): Signed, [(-10.0, 10.0)] => x.abs();
        /// The value with its sign changed, `-x`.
        unary neg(x): Signed, [(-10.0, 10.0)] => -x;
        /// The sign: -1, 1, or `x` itself where that is 0, -0 or NaN.
        unary sign(x): Signed, [(-10.0, 10.0)] => x.gt(0.0).select(1.0, x.lt(0.0).select(-1.0, x)),
            gradient |y| [Expr::lit(0.0)];
        /// Whether the sign bit is set: true for negative values and for -0.
        unary sign_bit(x) -> Bool: Float, [(-10.0, 10.0)] => x.sign_bit();
        /// The largest integer not above `x`.
        unary floor(x): Float, [(-10.0, 10.0)] => x.floor();
        /// The smallest integer not below `x`.
        unary ceil(x): Float, [(-10.0, 10.0)] => x.ceil();
        /// The nearest integer; halves go to the even one.
        unary round(x): Float, [(-10.0, 10.0)] => x.round();
        /// The integer part: `x` rounded towards 0.
        unary trunc(x): Float, [(-10.0, 10.0)] => x.trunc();
        /// The fractional part `x - floor(x)`, from 0 up to, but not including, 1. For a tiny negative `x` it is rounded to
        /// 1.
        unary fract(x): Float, [(-10.0, 10.0)] => x - x.floor();
        /// The multiplicative inverse, `1 / x`.
        unary reciprocal(x): Float, [(0.1, 10.0)] => x.recip();
        /// The square, `x * x`.
        unary square(x): Number, [(-10.0, 10.0)] => x.square();
        /// The square root; NaN below 0.
        unary sqrt(x): Float, [(0.01, 10.0)] => x.sqrt();
        /// The inverse of the square root, `1 / sqrt(x)`; NaN below 0.
        unary rsqrt(x): Float, [(0.01, 10.0)] => x.inverse_sqrt();

        // One value: exponentials and logarithms.
        /// The exponential, `e^x`. On GPUs the error is at most `3 + 2 |x|` units in the last place.
        unary exp(x): Float, [(-10.0, 10.0)] => x.exp();
        /// `2^x`. On GPUs the error is at most `3 + 2 |x|` units in the last place.
        unary exp2(x): Float, [(-10.0, 10.0)] => x.exp2();
        /// `e^x - 1`, accurate near 0 too.
        unary expm1(x): Float, [(-10.0, 10.0)] => formulas::expm1(x), gradient |y| [x.exp()];
        /// The natural logarithm. It is -Inf at 0, and NaN below. On GPUs the absolute error is up to 5e-7 for `x` from 1/2
        /// to 2. If `x` is close to 1, use `log1p` of `x - 1` to keep its digits.
        unary log(x): Float, [(0.01, 100.0)] => x.log();
        /// The logarithm to base 2; -Inf at 0, NaN below.
        unary log2(x): Float, [(0.01, 100.0)] => x.log2();
        /// The logarithm to base 10, `log(x) / log(10)`; -Inf at 0, NaN below.
        unary log10(x): Float, [(0.01, 100.0)] => x.log() * std::f64::consts::LOG10_E;
        /// `log(1 + x)`, accurate near 0 too; -Inf at -1, NaN below.
        unary log1p(x): Float, [(-0.9, 100.0)] => formulas::log1p(x),
            gradient |y| [(x + 1.0).recip()];

        // One value: trigonometry, in radians.
        /// The sine of `x` radians. On GPUs the error grows with `|x|`, so keep `|x|` below a few thousand.
        unary sin(x): Float, [(-6.0, 6.0)] => x.sin();
        /// The cosine of `x` radians. On GPUs the error grows with `|x|`, so keep `|x|` below a few thousand.
        unary cos(x): Float, [(-6.0, 6.0)] => x.cos();
        /// The tangent of `x` radians. On GPUs the error grows with `|x|`, and near the poles.
        unary tan(x): Float, [(-1.4, 1.4)] => x.tan();
        /// The angle in [-pi/2, pi/2] whose sine is `x`; NaN outside [-1, 1].
        unary asin(x): Float, [(-0.99, 0.99)] => formulas::asin(x),
            gradient |y| [formulas::asin_slope(x)];
        /// The angle in [0, pi] whose cosine is `x`; NaN outside [-1, 1].
        unary acos(x): Float, [(-0.99, 0.99)] => formulas::acos(x),
            gradient |y| [-formulas::asin_slope(x)];
        /// The angle in [-pi/2, pi/2] whose tangent is `x`.
        unary atan(x): Float, [(-10.0, 10.0)] => formulas::atan(x),
            gradient |y| [(x.square() + 1.0).recip()];
        /// The hyperbolic sine, `(e^x - e^-x) / 2`.
        unary sinh(x): Float, [(-10.0, 10.0)] => formulas::sinh(x),
            gradient |y| [Pointwise::cosh.of(&[x])];
        /// The hyperbolic cosine, `(e^x + e^-x) / 2`.
        unary cosh(x): Float, [(-10.0, 10.0)] => formulas::cosh(x),
            gradient |y| [Pointwise::sinh.of(&[x])];
        /// The hyperbolic tangent, `(e^x - e^-x) / (e^x + e^-x)`, from -1 to 1.
        unary tanh(x): Float, [(-10.0, 10.0)] => formulas::tanh(x),
            gradient |y| [formulas::tanh_slope(x)];
        /// The inverse hyperbolic sine, `log(x + sqrt(x^2 + 1))`.
        unary asinh(x): Float, [(-100.0, 100.0)] => formulas::asinh(x),
            gradient |y| [formulas::asinh_slope(x)];
        /// The inverse hyperbolic cosine, `log(x + sqrt(x^2 - 1))`; NaN below 1.
        unary acosh(x): Float, [(1.01, 100.0)] => formulas::acosh(x),
            gradient |y| [formulas::acosh_slope(x)];
        /// The inverse hyperbolic tangent, `log((1 + x) / (1 - x)) / 2`; Inf at 1, NaN outside [-1,
        /// 1].
        unary atanh(x): Float, [(-0.99, 0.99)] => formulas::atanh(x),
            gradient |y| [((1.0 - x) * (1.0 + x)).recip()];
        /// The error function, the integral of `2 / sqrt(pi) e^(-t^2)` from 0 to `x`.
        unary erf(x): Float, [(-4.0, 4.0)] => formulas::erf(x),
            gradient |y| [formulas::erf_slope(x)];
        /// The complementary error function, `1 - erf(x)`, which is also accurate for large `x`. The relative error grows to
        /// 1e-5 near `x` = 9, beyond which the result is too small for `f32`.
        unary erfc(x): Float, [(-4.0, 4.0)] => formulas::erfc(x),
            gradient |y| [-formulas::erf_slope(x)];
        /// The inverse of the error function: `erf(erfinv(x))` is `x`; Inf at 1, -Inf at -1, NaN outside [-1, 1].
        unary erfinv(x): Float, [(-0.99, 0.99)] => formulas::erfinv(x),
            gradient |y| [y.square().exp() * std::f64::consts::FRAC_2_SQRT_PI.recip()];
        /// The logarithm of the absolute value of the gamma function, `log((x - 1)!)` for positive integers; Inf at 0, at
        /// negative integers, and at both infinities.
        unary lgamma(x): Float, [(-5.0, 20.0)] => formulas::lgamma(x),
            gradient |y| [Pointwise::digamma.of(&[x])];
        /// The logarithm of the odds, `log(x / (1 - x))`, which is the inverse of `sigmoid`. It is -Inf at 0 and Inf at 1.
        /// Outside [0, 1], the value and the derivative are NaN. For PyTorch's `eps`, `clamp` the input first.
        unary logit(x): Float, [(0.01, 0.99)] => (x - 0.5).abs().lt(1.0 / 6.0)
            .select(2.0 * formulas::atanh(x + x - 1.0), (x / (1.0 - x)).log()),
            gradient |y| [x.lt(0.0).or(x.gt(1.0)).select(y, (x * (1.0 - x)).recip())];
        /// The derivative of `lgamma`, also called psi; -Inf at 0, NaN at negative integers.
        unary digamma(x): Float, [(-5.0, 20.0)] => formulas::digamma(x),
            gradient |y| [formulas::digamma_slope(x)];

        // One value: activations.
        /// The rectified linear unit (ReLU): 0 if `x` is at most 0, otherwise `x`. NaN stays NaN. Its derivative at 0 is 0.
        unary relu(x): Float, [(-10.0, 10.0)] => x.le(0.0).select(0.0, x);
        /// The rectifier that stops at 6: `min(max(x, 0), 6)`.
        unary relu6(x): Float, [(-10.0, 10.0)] => x.le(0.0).select(0.0, x.ge(6.0).select(6.0, x));
        /// `x` above 0, else `alpha * x`.
        unary leaky_relu(x; alpha = 0.01): Float, [(-10.0, 10.0), (0.0, 0.5)] =>
            x.gt(0.0).select(x, alpha * x);
        /// The exponential linear unit: `x` above 0, else `alpha (e^x - 1)`. Clevert et al. 2015.
        unary elu(x; alpha = 1.0): Float, [(-10.0, 10.0), (0.1, 2.0)] =>
            x.gt(0.0).select(x, alpha * formulas::expm1(x)),
            gradient |y| [
                x.gt(0.0).select(1.0, alpha * formulas::exp_below(x)),
                x.gt(0.0).select(0.0, Pointwise::expm1.of(&[x])),
            ];
        /// The self-normalizing unit (SELU): 1.0507 times `x` if it is positive, otherwise 1.0507 * 1.67326 `(e^x - 1)`
        /// (Klambauer et al. 2017).
        unary selu(x): Float, [(-10.0, 10.0)] =>
            x.gt(0.0).select(x * SELU_SCALE, formulas::expm1(x) * (SELU_SCALE * SELU_ALPHA)),
            gradient |y| [x.gt(0.0).select(SELU_SCALE, formulas::exp_below(x) * (SELU_SCALE * SELU_ALPHA))];
        /// The continuously differentiable unit: `x` above 0, else `alpha (e^(x / alpha) - 1)`.
        /// Barron 2017.
        unary celu(x; alpha = 1.0): Float, [(-10.0, 10.0), (0.5, 2.0)] =>
            x.gt(0.0).select(x, alpha * formulas::expm1(x / alpha)),
            gradient |y| formulas::celu_slopes(x, alpha);
        /// The logistic function `1 / (1 + e^-x)`, from 0 to 1.
        unary sigmoid(x): Float, [(-10.0, 10.0)] => formulas::sigmoid(x),
            gradient |y| [formulas::sigmoid_slope(x)];
        /// The piecewise linear approximation of `sigmoid`, `min(max(x / 6 + 1/2, 0), 1)`.
        unary hard_sigmoid(x): Float, [(-10.0, 10.0)] =>
            x.le(-3.0).select(0.0, x.ge(3.0).select(1.0, (x + 3.0) * (1.0 / 6.0)));
        /// The logarithm of the logistic function, `-log(1 + e^-x)`.
        unary log_sigmoid(x): Float, [(-10.0, 10.0)] => formulas::log_sigmoid(x),
            gradient |y| [Pointwise::sigmoid.of(&[-x])];
        /// The sigmoid linear unit, also called swish: `x / (1 + e^-x)`.
        unary silu(x): Float, [(-10.0, 10.0)] => formulas::silu(x),
            gradient |y| [formulas::silu_slope(x)];
        /// `x` times `hard_sigmoid`, an approximation of `silu`: `x min(max(x / 6 + 1/2, 0), 1)` (Howard et al. 2019).
        unary hard_swish(x): Float, [(-10.0, 10.0)] =>
            x.le(-3.0).select(0.0, x.ge(3.0).select(x, x * ((x + 3.0) * (1.0 / 6.0))));
        /// The Gaussian error linear unit `x (1 + erf(x / sqrt(2))) / 2`. Hendrycks and Gimpel
        /// 2016.
        unary gelu(x): Float, [(-5.0, 5.0)] => formulas::gelu(x),
            gradient |y| [formulas::gelu_slope(x)];
        /// The tanh form of gelu: `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`; up to 5e-4
        /// away from it.
        unary gelu_tanh(x): Float, [(-5.0, 5.0)] => formulas::gelu_tanh(x),
            gradient |y| [formulas::gelu_tanh_slope(x)];
        /// `x tanh(log(1 + e^x))`. Misra 2019.
        unary mish(x): Float, [(-10.0, 10.0)] => formulas::mish(x),
            gradient |y| [formulas::mish_slope(x)];
        /// The smooth rectifier `log(1 + e^x)`.
        unary softplus(x): Float, [(-10.0, 10.0)] => formulas::softplus(x),
            gradient |y| [Pointwise::sigmoid.of(&[x])];
        /// `x / (1 + |x|)`, from -1 to 1.
        unary softsign(x): Float, [(-10.0, 10.0)] => x / (x.abs() + 1.0),
            gradient |y| [(x.abs() + 1.0).recip().square()];
        /// `x` limited to [min, max], or NaN if `x` or a limit is NaN.
        unary hard_tanh(x; min = -1.0, max = 1.0): Float, [(-3.0, 3.0), (-1.5, -0.5), (0.5, 1.5)] =>
            formulas::clamp(x, min, max),
            gradient |y| [
                x.le(min).or(x.ge(max)).select(0.0, 1.0),
                x.le(min).select(1.0, 0.0),
                x.ge(max).select(1.0, 0.0),
            ];
        /// `x` where its absolute value is above `lambda`, else 0.
        unary hardshrink(x; lambda = 0.5): Float, [(-3.0, 3.0), (0.2, 1.0)] =>
            x.abs().le(lambda).select(0.0, x);
        /// Soft shrinkage: `x` moved toward 0 by `lambda`, or 0 if `|x|` is at most `lambda`, which must not be negative.
        unary softshrink(x; lambda = 0.5): Float, [(-3.0, 3.0), (0.2, 1.0)] =>
            x.abs().le(lambda).select(0.0, x.gt(0.0).select(x - lambda, x + lambda));
        /// `x` above `threshold`, else `value`; its derivative at `threshold` is 0.
        unary threshold(x; threshold = 0.0, value = 0.0): Float, [(-3.0, 3.0), (-1.0, 1.0), (-2.0, 2.0)] =>
            x.le(threshold).select(value, x);

        // One value: tests and bits.
        /// Whether `x` is NaN.
        unary is_nan(x) -> Bool: Float, [(-10.0, 10.0)] => x.is_nan();
        /// Whether `x` is Inf or -Inf.
        unary is_inf(x) -> Bool: Float, [(-10.0, 10.0)] => x.is_inf();
        /// Whether `x` is neither NaN nor infinite.
        unary is_finite(x) -> Bool: Float, [(-10.0, 10.0)] => x.is_nan().or(x.is_inf()).not();
        /// True where `x` is false.
        unary logical_not(x): Bool, [(0.0, 1.0)] => x.not();
        /// Every bit inverted; of `bool`, the logical not.
        unary bitwise_not(x): Bits, [(0.0, 1e6)] => x.not();

        // Two values.
        /// The sum, `x + y`; integers wrap.
        binary add(x, y): Number, [(-10.0, 10.0)] => x + y;
        /// The difference, `x - y`; integers wrap.
        binary sub(x, y): Number, [(-10.0, 10.0)] => x - y;
        /// The product, `x * y`; integers wrap.
        binary mul(x, y): Number, [(-10.0, 10.0)] => x * y;
        /// The quotient, `x / y`. Integers and `bool` are divided as `f32`: 1 / 2 is 0.5, as in NumPy and PyTorch.
        binary div(x, y): Float, [(-10.0, 10.0), (0.5, 10.0)] => x / y;
        /// The largest integer not above `x / y`, in the operands' type, like Python's `//`. An integer divided by 0 gives
        /// itself.
        binary floor_divide(x, y): Int, [(-100.0, 100.0), (1.0, 10.0)] => formulas::floor_divide(x, y);
        /// The remainder `x - y trunc(x / y)`, with the sign of `x`, exactly; of integers by 0 it is 0.
        binary fmod(x, y): Number, [(-10.0, 10.0), (0.5, 4.0)] => x.rem(y);
        /// The remainder `x - y floor(x / y)`, with the sign of `y`, as Python's `%`; of integers by 0
        /// it is 0. It is `fmod`, plus `y` where the signs differ.
        binary remainder(x, y): Number, [(-10.0, 10.0), (0.5, 4.0)] => formulas::floor_mod(x, y);
        /// `x` to the power `y`: `x^0` and `1^y` are 1, `0^y` is Inf for negative `y`, and a
        /// negative `x` gives NaN unless `y` is an integer. The relative error on GPUs grows with
        /// `|y log2(x)|`, about 1e-7 for each. The gradient by `y` is NaN for negative `x`, as in PyTorch.
        binary pow(x, y): Float, [(0.1, 5.0), (-3.0, 3.0)] => formulas::pow(x, y),
            gradient |z| formulas::pow_slopes(x, y);
        /// The smaller of the two elements, or NaN if one is NaN. The gradient passes to the smaller one, or half to each if
        /// they are equal.
        binary minimum(x, y): Number, [(-10.0, 10.0)] => formulas::minimum(x, y),
            gradient |z| [formulas::precedes(x, y), formulas::precedes(y, x)];
        /// The larger of the two elements, or NaN if one is NaN. The gradient passes to the larger one, or half to each if they
        /// are equal.
        binary maximum(x, y): Number, [(-10.0, 10.0)] => formulas::maximum(x, y),
            gradient |z| [formulas::precedes(y, x), formulas::precedes(x, y)];
        /// The angle of the point (x, y) in radians, from -pi to pi; signed zeros count as IEEE 754
        /// says.
        binary atan2(y, x): Float, [(-10.0, 10.0)] => formulas::atan2(y, x),
            gradient |z| formulas::atan2_slopes(y, x);
        /// The length `sqrt(x^2 + y^2)`, without overflow in between. It is infinite if an element is, even if the other is
        /// NaN. Its gradient at (0, 0) is 0.
        binary hypot(x, y): Float, [(-10.0, 10.0)] => formulas::hypot(x, y),
            gradient |z| formulas::hypot_slopes(x, y, z);
        /// `x` with the sign of `y`; -0 and NaN have signs too.
        binary copysign(x, y): Float, [(-10.0, 10.0)] =>
            x.sign_bit().xor(y.sign_bit()).select(-x, x),
            gradient |z| [formulas::copysign_slope(x, y), Expr::lit(0.0)];
        /// The step function: 0 below 0, 1 above, `values` where `x` is 0; NaN stays NaN. Its gradient by `x` is 0.
        binary heaviside(x, values): Number, [(-10.0, 10.0)] =>
            x.gt(0.0).select(1.0, x.lt(0.0).select(0.0, x.eq(0.0).select(values, x))),
            gradient |z| [Expr::lit(0.0), x.eq(0.0).select(1.0, 0.0)];
        /// `(x - y)^2`.
        binary squared_difference(x, y): Number, [(-10.0, 10.0)] => (x - y).square();
        /// Whether `x` equals `y`; NaN equals nothing.
        binary eq(x, y) -> Bool: Any, [(-10.0, 10.0)] => x.eq(y);
        /// Whether `x` differs from `y`; NaN differs from everything.
        binary ne(x, y) -> Bool: Any, [(-10.0, 10.0)] => x.ne(y);
        /// Whether `x < y`.
        binary lt(x, y) -> Bool: Number, [(-10.0, 10.0)] => x.lt(y);
        /// Whether `x <= y`.
        binary le(x, y) -> Bool: Number, [(-10.0, 10.0)] => x.le(y);
        /// Whether `x > y`.
        binary gt(x, y) -> Bool: Number, [(-10.0, 10.0)] => x.gt(y);
        /// Whether `x >= y`.
        binary ge(x, y) -> Bool: Number, [(-10.0, 10.0)] => x.ge(y);
        /// Whether both are true.
        binary logical_and(x, y): Bool, [(0.0, 1.0)] => x.and(y);
        /// Whether at least one is true.
        binary logical_or(x, y): Bool, [(0.0, 1.0)] => x.or(y);
        /// Whether exactly one is true.
        binary logical_xor(x, y): Bool, [(0.0, 1.0)] => x.xor(y);
        /// The bits set in both; of `bool`, the logical and.
        binary bitwise_and(x, y): Bits, [(0.0, 1e6)] => x.and(y);
        /// The bits set in at least one; of `bool`, the logical or.
        binary bitwise_or(x, y): Bits, [(0.0, 1e6)] => x.or(y);
        /// The bits set in exactly one; of `bool`, the logical exclusive or.
        binary bitwise_xor(x, y): Bits, [(0.0, 1e6)] => x.xor(y);
        /// `x` shifted left by `count` bits, with zeros shifted in. The count is taken modulo 32.
        binary bitwise_left_shift(x, count): Int, [(0.0, 1e6), (0.0, 31.0)] => x.shl(count);
        /// `x` shifted right by `count` bits. Copies of the sign are shifted in for `i32`, and zeros for `u32`. The count is
        /// taken modulo 32.
        binary bitwise_right_shift(x, count): Int, [(0.0, 1e6), (0.0, 31.0)] => x.shr(count);

        // Three values.
        /// `x` where the condition holds, else `y`.
        ternary where_cond(condition, x, y): Select, [(0.0, 1.0), (-10.0, 10.0)] =>
            condition.select(x, y),
            // The condition's own type must not become the derivative's.
            gradient |z| [
                Expr::lit(0.0),
                condition.cast(DType::F32),
                condition.not().cast(DType::F32),
            ];
        /// `x` limited to [min, max], `min(max(x, min), max)`, or NaN if `x` or a limit is NaN. The gradient goes to `x`
        /// inside, both ends included, and to the limit outside.
        ternary clamp(x, min, max): Number, [(-10.0, 10.0), (-6.0, -1.0), (1.0, 6.0)] =>
            formulas::clamp(x, min, max);
        /// `x * y + z`, in one rounding where the device has it.
        ternary fma(x, y, z): Number, [(-10.0, 10.0)] => x * y + z;
        /// Linear interpolation from `x` (at `t = 0`) to `y` (at `t = 1`): `x + t (y - x)`. Both ends are exact.
        ternary lerp(x, y, t): Float, [(-10.0, 10.0), (-10.0, 10.0), (0.0, 1.0)] =>
            formulas::lerp(x, y, t),
            gradient |z| [1.0 - t, t, y - x];

        // Random numbers.
        /// 32 random bits, the same on every device: the first word of Threefry-2x32-20 for the
        /// counter `(counter, 0)` and the key `(key, 0)`. Salmon et al. 2011.
        binary random_bits(counter, key): U32, [(0.0, 4294967295.0)] =>
            formulas::random_bits(counter, key),
            gradient |z| [Expr::lit(0.0), Expr::lit(0.0)];
        /// The number in [0, 1) that the top 24 bits make: `(bits >> 8) / 2^24`, as `f32`.
        unary unit_float(bits) -> F32: U32, [(0.0, 4294967295.0)] => formulas::unit_float(bits);
    } };
}

macro_rules! define_table {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident(
        $($arg:ident),+ $(; $($parameter:ident = $usual:literal),+)?
    ) $(-> $result:ident)?: $types:ident, $domain:expr => $formula:expr
        $(, gradient |$y:ident| $gradient:expr)?;)*) => {
        /// The name of a row of the table.
        // The variants have the names of the methods, so that a row is named once.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Pointwise { $($name),* }

        /// The table, in the order of [`Pointwise`].
        pub static TABLE: &[Row] = &[$(Row {
            name: stringify!($name),
            // In browsers, the documentation is in the package's type declarations.
            doc: if cfg!(target_arch = "wasm32") { "" } else { concat!($($doc, "\n"),+) },
            operands: &[$(stringify!($arg)),+],
            parameters: &[$($((stringify!($parameter), $usual)),+)?],
            types: Types::$types,
            result: [$(DType::$result,)?].first().copied(),
            // Tests in browsers use the ranges, too.
            domain: if cfg!(all(target_arch = "wasm32", not(debug_assertions))) { &[] } else { &$domain },
            formula: |arguments| {
                let &[$($arg),+ $(, $($parameter),+)?] = arguments else {
                    unreachable!("they are as many as the row names")
                };
                $formula.into()
            },
            gradient: define_table!(@gradient [$($arg),+ $(, $($parameter),+)?] $(|$y| $gradient)?),
            written: {
                static WRITTEN: OnceLock<Expr> = OnceLock::new();
                &WRITTEN
            },
        }),*];

        impl Pointwise {
            /// All rows, in the table's order.
            pub const ALL: &'static [Pointwise] = &[$(Pointwise::$name),*];
        }
    };
    (@gradient [$($arg:ident),+]) => { None };
    (@gradient [$($arg:ident),+] |$y:ident| $gradient:expr) => {
        // A gradient uses only some arguments.
        Some(#[allow(unused_variables)] |arguments: &[Expr], $y: Expr| {
            let &[$($arg),+] = arguments else {
                unreachable!("they are as many as the row names")
            };
            $gradient.to_vec()
        })
    };
}

/// The constants that keep mean 0 and variance 1 fixed, from the appendix of the paper (Klambauer et al. 2017).
const SELU_SCALE: f64 = 1.050_700_987_355_480_5;
const SELU_ALPHA: f64 = 1.673_263_242_354_377_2;

pointwise_rows!(define_table);

impl Pointwise {
    /// Returns the row's formula of operands and parameters, with the row's gradient.
    pub fn of(self, arguments: &[Expr]) -> Expr {
        self.row().of(arguments)
    }

    /// Returns the row.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// Returns the row called `name`, if it exists.
    pub fn named(name: &str) -> Option<Pointwise> {
        let at = TABLE.iter().position(|row| row.name == name)?;
        Some(Pointwise::ALL[at])
    }
}
