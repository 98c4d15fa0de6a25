//! What one thread computes: a formula over its arguments, built with ordinary operators, that can be evaluated in
//! `f64` and differentiated. Kernels contain formulas flattened into instructions (`kernel::Program`).

use crate::dtype::DType;
use std::ops;
use std::rc::Rc;

/// Primitive functions of one value. `codegen` and the CPU backend implement exactly these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    Neg,
    Abs,
    Floor,
    Ceil,
    /// To the nearest integer, ties to even.
    Round,
    Trunc,
    Exp,
    Exp2,
    Log,
    Log2,
    Sqrt,
    InverseSqrt,
    Sin,
    Cos,
    Tan,
    Asin,
    Acos,
    Atan,
    /// Logical on `bool`, bitwise on integers.
    Not,
    /// `bool` results; must hold even where the compiler assumes there are no NaNs, so they look at the bits.
    IsNan,
    IsInf,
    /// Whether the sign bit is set (so -0.0 is told from 0.0).
    SignBit,
}

/// Primitive functions of two values of one type; comparisons give `bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Integers truncate; x / 0 is x, as WGSL defines it.
    Div,
    /// The sign of the dividend, like Rust's `%`; x % 0 is 0 for integers.
    Rem,
    Min,
    Max,
    /// For bases >= 0 only; rows build the rest from it.
    Pow,
    Atan2,
    /// Logical on `bool`, bitwise on integers.
    And,
    Or,
    Xor,
    /// Shift counts are taken modulo 32.
    Shl,
    Shr,
    Lt,
    Le,
    Eq,
    Ne,
}

impl Binary {
    /// Whether the result is `bool` whatever the arguments are.
    pub fn compares(self) -> bool {
        matches!(self, Binary::Lt | Binary::Le | Binary::Eq | Binary::Ne)
    }
}

/// One node of a formula.
#[derive(Debug)]
pub enum Node {
    /// The n-th argument.
    Arg(usize),
    /// A constant of the formula; takes the type of what it meets, `f32` by default.
    Lit(f64),
    Unary(Unary, Expr),
    Binary(Binary, Expr, Expr),
    /// `Select(c, a, b)` is `a` where `c`, else `b`; both are evaluated, and the other one's NaN does not leak.
    Select(Expr, Expr, Expr),
    Cast(DType, Expr),
}

/// A formula; cloning shares it, and shared parts are computed once.
#[derive(Clone, Debug)]
pub struct Expr(Rc<Node>);

impl Expr {
    /// The n-th argument.
    pub fn arg(n: usize) -> Expr {
        Expr(Rc::new(Node::Arg(n)))
    }

    /// A constant of the formula.
    pub fn lit(value: f64) -> Expr {
        Expr(Rc::new(Node::Lit(value)))
    }

    /// The node itself, for those who flatten or print it.
    pub fn node(&self) -> &Node {
        &self.0
    }

    /// An address that is equal for shared parts, so that each is flattened once.
    pub fn address(&self) -> usize {
        Rc::as_ptr(&self.0) as usize
    }

    /// Applies a primitive of one value.
    pub fn unary(&self, op: Unary) -> Expr {
        Expr(Rc::new(Node::Unary(op, self.clone())))
    }

    /// Applies a primitive of two values.
    pub fn binary(&self, op: Binary, other: impl Into<Expr>) -> Expr {
        Expr(Rc::new(Node::Binary(op, self.clone(), other.into())))
    }

    /// `self` is a `bool`: `a` where it holds, else `b`.
    pub fn select(&self, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        Expr(Rc::new(Node::Select(self.clone(), a.into(), b.into())))
    }

    /// Converts the value as WGSL does: floats truncate towards zero and saturate.
    pub fn cast(&self, to: DType) -> Expr {
        Expr(Rc::new(Node::Cast(to, self.clone())))
    }

    /// The constant, if it is one.
    pub fn literal(&self) -> Option<f64> {
        match self.node() {
            Node::Lit(v) => Some(*v),
            _ => None,
        }
    }

    /// The value at `args`, in `f64`; `bool` is 0 or 1. Integer wrap-around is not modelled.
    pub fn eval(&self, args: &[f64]) -> f64 {
        match self.node() {
            Node::Arg(n) => args[*n],
            Node::Lit(v) => *v,
            Node::Unary(op, x) => eval_unary(*op, x.eval(args)),
            Node::Binary(op, x, y) => eval_binary(*op, x.eval(args), y.eval(args)),
            Node::Select(c, a, b) => if c.eval(args) != 0.0 { a } else { b }.eval(args),
            Node::Cast(to, x) => match to {
                DType::F32 | DType::F16 => x.eval(args),
                DType::I32 => f64::from(x.eval(args) as i32),
                DType::U32 => f64::from(x.eval(args) as u32),
                DType::Bool => f64::from(x.eval(args) != 0.0),
            },
        }
    }

    /// The derivative with respect to the n-th argument; 0 where the formula is piecewise constant.
    pub fn derivative(&self, n: usize) -> Expr {
        let zero = || Expr::lit(0.0);
        match self.node() {
            Node::Arg(i) => Expr::lit(f64::from(u8::from(*i == n))),
            Node::Lit(_) => zero(),
            Node::Unary(op, x) => {
                let dx = x.derivative(n);
                if dx.literal() == Some(0.0) {
                    return zero();
                }
                dx * derive_unary(*op, x, self)
            }
            Node::Binary(op, x, y) => {
                let (dx, dy) = (x.derivative(n), y.derivative(n));
                derive_binary(*op, x, y, self, dx, dy)
            }
            Node::Select(c, a, b) => {
                let (da, db) = (a.derivative(n), b.derivative(n));
                match (da.literal(), db.literal()) {
                    (Some(x), Some(y)) if x == y => da,
                    _ => c.select(da, db),
                }
            }
            Node::Cast(to, x) => match to {
                DType::F32 | DType::F16 => x.derivative(n),
                DType::I32 | DType::U32 | DType::Bool => zero(),
            },
        }
    }
}

/// The methods formulas are written with.
macro_rules! methods {
    (unary $($name:ident $op:ident),* $(,)?) => { impl Expr { $(
        #[doc = concat!("[`Unary::", stringify!($op), "`] of this.")]
        pub fn $name(&self) -> Expr { self.unary(Unary::$op) }
    )* } };
    (binary $($name:ident $op:ident),* $(,)?) => { impl Expr { $(
        #[doc = concat!("[`Binary::", stringify!($op), "`] of this and `other`.")]
        pub fn $name(&self, other: impl Into<Expr>) -> Expr { self.binary(Binary::$op, other) }
    )* } };
}
methods!(unary abs Abs, floor Floor, ceil Ceil, round Round, trunc Trunc, exp Exp, exp2 Exp2, log Log, log2 Log2,
    sqrt Sqrt, inverse_sqrt InverseSqrt, sin Sin, cos Cos, tan Tan, asin Asin, acos Acos, atan Atan, not Not,
    is_nan IsNan, is_inf IsInf, sign_bit SignBit);
methods!(binary min Min, max Max, pow Pow, atan2 Atan2, and And, or Or, xor Xor, shl Shl, shr Shr, rem Rem,
    lt Lt, le Le, eq Eq, ne Ne);

impl Expr {
    /// `other < self`.
    pub fn gt(&self, other: impl Into<Expr>) -> Expr {
        other.into().lt(self)
    }

    /// `other <= self`.
    pub fn ge(&self, other: impl Into<Expr>) -> Expr {
        other.into().le(self)
    }

    /// `1 / self`.
    pub fn recip(&self) -> Expr {
        Expr::lit(1.0) / self
    }

    /// `self * self`.
    pub fn square(&self) -> Expr {
        self * self
    }

    /// Horner's scheme: `coefficients[0] + x * (coefficients[1] + ...)`.
    pub fn polynomial(&self, coefficients: &[f64]) -> Expr {
        let (last, rest) = coefficients.split_last().expect("a polynomial has a term");
        let start = Expr::lit(*last);
        rest.iter().rev().fold(start, |sum, &c| sum * self + c)
    }
}

impl From<f64> for Expr {
    fn from(value: f64) -> Expr {
        Expr::lit(value)
    }
}

impl From<&Expr> for Expr {
    fn from(value: &Expr) -> Expr {
        value.clone()
    }
}

/// `a op b` with the few simplifications that keep derivatives short: x + 0, x * 1, x * 0, constants.
fn arithmetic(op: Binary, a: Expr, b: Expr) -> Expr {
    match (op, a.literal(), b.literal()) {
        (_, Some(x), Some(y)) => Expr::lit(eval_binary(op, x, y)),
        (Binary::Add, Some(0.0), _) | (Binary::Mul, Some(1.0), _) => b,
        (Binary::Add | Binary::Sub, _, Some(0.0)) => a,
        (Binary::Mul | Binary::Div, _, Some(1.0)) => a,
        (Binary::Mul, Some(0.0), _) | (Binary::Mul, _, Some(0.0)) => Expr::lit(0.0),
        (Binary::Div, Some(0.0), _) => Expr::lit(0.0),
        _ => a.binary(op, b),
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => { $(
        impl<R: Into<Expr>> ops::$trait<R> for Expr {
            type Output = Expr;
            fn $method(self, other: R) -> Expr { arithmetic(Binary::$op, self, other.into()) }
        }
        impl<R: Into<Expr>> ops::$trait<R> for &Expr {
            type Output = Expr;
            fn $method(self, other: R) -> Expr { arithmetic(Binary::$op, self.clone(), other.into()) }
        }
        impl ops::$trait<Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr { arithmetic(Binary::$op, Expr::lit(self), other) }
        }
        impl ops::$trait<&Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: &Expr) -> Expr { arithmetic(Binary::$op, Expr::lit(self), other.clone()) }
        }
    )* };
}
operators!(Add add Add; Sub sub Sub; Mul mul Mul; Div div Div;);

impl ops::Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        -&self
    }
}

impl ops::Neg for &Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        match self.literal() {
            Some(v) => Expr::lit(-v),
            None => self.unary(Unary::Neg),
        }
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

fn eval_binary(op: Binary, x: f64, y: f64) -> f64 {
    let bits = |f: fn(i64, i64) -> i64| f(x as i64, y as i64) as f64;
    match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x / y,
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

/// d op(x) / dx, where `y` is op(x) itself.
fn derive_unary(op: Unary, x: &Expr, y: &Expr) -> Expr {
    match op {
        Unary::Neg => Expr::lit(-1.0),
        Unary::Abs => x.lt(0.0).select(-1.0, x.gt(0.0).select(1.0, 0.0)),
        Unary::Exp => y.clone(),
        Unary::Exp2 => y * std::f64::consts::LN_2,
        Unary::Log => x.recip(),
        Unary::Log2 => std::f64::consts::LOG2_E / x,
        Unary::Sqrt => 0.5 / y,
        Unary::InverseSqrt => -0.5 * (y / x),
        Unary::Sin => x.cos(),
        Unary::Cos => -x.sin(),
        Unary::Tan => y.square() + 1.0,
        Unary::Asin => (1.0 - x.square()).inverse_sqrt(),
        Unary::Acos => -(1.0 - x.square()).inverse_sqrt(),
        Unary::Atan => (x.square() + 1.0).recip(),
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => Expr::lit(0.0),
        Unary::Not | Unary::IsNan | Unary::IsInf | Unary::SignBit => Expr::lit(0.0),
    }
}

/// d op(x, y), where `z` is op(x, y) itself.
fn derive_binary(op: Binary, x: &Expr, y: &Expr, z: &Expr, dx: Expr, dy: Expr) -> Expr {
    match op {
        Binary::Add => dx + dy,
        Binary::Sub => dx - dy,
        Binary::Mul => dx * y + dy * x,
        Binary::Div => dx / y - dy * (z / y),
        Binary::Rem => dx - dy * (x / y).trunc(),
        Binary::Min => choose(x.le(y), dx, dy),
        Binary::Max => choose(y.le(x), dx, dy),
        Binary::Pow => dx * (y * x.pow(y - 1.0)) + dy * (z * x.log()),
        Binary::Atan2 => (dx * y - dy * x) / (x.square() + y.square()),
        Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => Expr::lit(0.0),
        Binary::Lt | Binary::Le | Binary::Eq | Binary::Ne => Expr::lit(0.0),
    }
}

fn choose(condition: Expr, a: Expr, b: Expr) -> Expr {
    match (a.literal(), b.literal()) {
        (Some(x), Some(y)) if x == y => a,
        _ => condition.select(a, b),
    }
}
