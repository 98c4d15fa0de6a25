//! Values and derivatives of formulas. Both visit a shared part only once. Without this, a hash of a hundred steps, where
//! each step uses its predecessor twice, would have 2^100 paths.

use super::{Binary, Expr, Node, Unary};
use std::collections::HashMap;

impl Expr {
    /// Evaluates the formula at `args`, in `f64`. A `bool` is 0 or 1. Integers do not wrap around.
    pub fn eval(self, args: &[f64]) -> f64 {
        self.value(args, &mut HashMap::default())
    }

    /// Returns the derivative with respect to the n-th argument. It is 0 for piecewise constant formulas.
    pub fn derivative(self, n: usize) -> Expr {
        self.derive(n, &mut HashMap::default())
    }

    fn value(self, args: &[f64], done: &mut HashMap<usize, f64>) -> f64 {
        if let Some(&value) = done.get(&self.address()) {
            return value;
        }
        let value = match *self.node() {
            Node::Arg(n) => args[n],
            Node::Lit(v) => v,
            Node::Unary(op, x) => eval_unary(op, x.value(args, done)),
            Node::Binary(op, x, y) => eval_binary(op, x.value(args, done), y.value(args, done)),
            Node::Select(c, a, b) => {
                let chosen = if c.value(args, done) != 0.0 { a } else { b };
                chosen.value(args, done)
            }
            Node::Cast(to, x) => match (to.is_float(), x.value(args, done)) {
                (true, x) => x,
                (false, x) => to.number(to.bits(x)),
            },
        };
        done.insert(self.address(), value);
        value
    }

    fn derive(self, n: usize, done: &mut HashMap<usize, Expr>) -> Expr {
        if let Some(derivative) = done.get(&self.address()) {
            return *derivative;
        }
        let derivative = match *self.node() {
            _ if self.0.custom.is_some() => self.chain(n, done),
            Node::Arg(i) => Expr::lit(f64::from(u8::from(i == n))),
            Node::Lit(_) => Expr::lit(0.0),
            Node::Unary(op, x) => match (op, x.derive(n, done)) {
                (_, dx) if dx.literal() == Some(0.0) => dx,
                (Unary::Neg, dx) => -dx,
                (op, dx) => dx * derive_unary(op, x, self),
            },
            Node::Binary(op, x, y) => {
                let (dx, dy) = (x.derive(n, done), y.derive(n, done));
                match (dx.literal(), dy.literal()) {
                    (Some(0.0), Some(0.0)) => Expr::lit(0.0),
                    _ => derive_binary(op, x, y, self, dx, dy),
                }
            }
            Node::Select(c, a, b) => choose(c, a.derive(n, done), b.derive(n, done)),
            Node::Cast(to, x) if to.is_float() => x.derive(n, done),
            Node::Cast(..) => Expr::lit(0.0),
        };
        done.insert(self.address(), derivative);
        derivative
    }

    /// Differentiates a function with a custom gradient, by the chain rule.
    fn chain(self, n: usize, done: &mut HashMap<usize, Expr>) -> Expr {
        let mut sum = Expr::lit(0.0);
        let Some((arguments, gradient)) = &self.0.custom else { return sum };
        let inner: Vec<Expr> = arguments.iter().map(|x| x.derive(n, done)).collect();
        if inner.iter().any(|dx| dx.literal() != Some(0.0)) {
            for (slope, dx) in gradient(arguments, self).into_iter().zip(inner) {
                sum = sum + slope * dx;
            }
        }
        sum
    }
}

fn eval_unary(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Trunc => x.trunc(),
        Unary::Exp => x.exp(),
        Unary::Exp2 => x.exp2(),
        Unary::Log => x.ln(),
        Unary::Log2 => x.log2(),
        Unary::Sqrt => x.sqrt(),
        Unary::InverseSqrt => 1.0 / x.sqrt(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tan => x.tan(),
        Unary::Asin => x.asin(),
        Unary::Acos => x.acos(),
        Unary::Atan => x.atan(),
        Unary::Not => f64::from(x == 0.0),
        Unary::IsNan => f64::from(x.is_nan()),
        Unary::IsInf => f64::from(x.is_infinite()),
        Unary::SignBit => f64::from(x.is_sign_negative()),
    }
}

/// Computes one of the four operations that constant formulas fold. It is separate, so that callers do not link the other
/// operations.
pub(super) fn eval_arithmetic(op: Binary, x: f64, y: f64) -> f64 {
    match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        _ => x / y,
    }
}

fn eval_binary(op: Binary, x: f64, y: f64) -> f64 {
    let bits = |f: fn(i64, i64) -> i64| f(x as i64, y as i64) as f64;
    match op {
        Binary::Add | Binary::Sub | Binary::Mul | Binary::Div => eval_arithmetic(op, x, y),
        Binary::Rem => x % y,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::Pow => x.powf(y),
        Binary::Atan2 => x.atan2(y),
        Binary::And => bits(|a, b| a & b),
        Binary::Or => bits(|a, b| a | b),
        Binary::Xor => bits(|a, b| a ^ b),
        Binary::Shl => bits(|a, b| a << (b & 31)),
        Binary::Shr => bits(|a, b| a >> (b & 31)),
        Binary::Lt => f64::from(x < y),
        Binary::Le => f64::from(x <= y),
        Binary::Eq => f64::from(x == y),
        Binary::Ne => f64::from(x != y),
    }
}

/// Returns d op(x) / dx, where `y` is op(x).
fn derive_unary(op: Unary, x: Expr, y: Expr) -> Expr {
    // Near 1, (1 - x)(1 + x) keeps its digits, but 1 - x^2 loses them.
    let inverse_cosine = || ((1.0 - x) * (1.0 + x)).inverse_sqrt();
    match op {
        Unary::Neg => Expr::lit(-1.0),
        Unary::Abs => x.lt(0.0).select(-1.0, x.gt(0.0).select(1.0, 0.0)),
        Unary::Exp => y,
        Unary::Exp2 => y * std::f64::consts::LN_2,
        Unary::Log => x.recip(),
        Unary::Log2 => std::f64::consts::LOG2_E / x,
        Unary::Sqrt => 0.5 / y,
        Unary::InverseSqrt => -0.5 * (y / x),
        Unary::Sin => x.cos(),
        Unary::Cos => -x.sin(),
        Unary::Tan => y.square() + 1.0,
        Unary::Asin => inverse_cosine(),
        Unary::Acos => -inverse_cosine(),
        Unary::Atan => (x.square() + 1.0).recip(),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => Expr::lit(0.0),
        Unary::Not | Unary::IsNan | Unary::IsInf | Unary::SignBit => Expr::lit(0.0),
    }
}

/// Returns d op(x, y), where `z` is op(x, y).
fn derive_binary(op: Binary, x: Expr, y: Expr, z: Expr, dx: Expr, dy: Expr) -> Expr {
    match op {
        Binary::Add => dx + dy,
        Binary::Sub => dx - dy,
        Binary::Mul => dx * y + dy * x,
        // The formula uses z, because x / y^2 can overflow where the quotient does not. It divides by y last, so that a
        // numerator of 0 stays 0 next to a pole.
        Binary::Div => match dx.literal() {
            Some(0.0) => -(z * dy / y),
            _ => (dx - z * dy) / y,
        },
        Binary::Rem => dx - dy * (x / y).trunc(),
        // If both operands are equal, the gradient is the one of the first.
        Binary::Min => choose(x.le(y), dx, dy),
        Binary::Max => choose(y.le(x), dx, dy),
        // At x = 0, the derivative by the base has 0 * Inf for y = 0, and the one by the exponent has 0 * -Inf for y > 0.
        Binary::Pow => {
            let by_base = y.eq(0.0).select(0.0, y * x.pow(y - 1.0));
            let by_exponent = x.eq(0.0).select(0.0, z * x.log());
            dx * by_base + dy * by_exponent
        }
        Binary::Atan2 => (dx * y - dy * x) / (x.square() + y.square()),
        Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => Expr::lit(0.0),
        Binary::Lt | Binary::Le | Binary::Eq | Binary::Ne => Expr::lit(0.0),
    }
}

/// Returns `condition.select(a, b)`, or `a` if both are the same constant.
fn choose(condition: Expr, a: Expr, b: Expr) -> Expr {
    match (a.literal(), b.literal()) {
        (Some(x), Some(y)) if x == y => a,
        _ => condition.select(a, b),
    }
}
