//! Formulas, which one thread computes for one element. A formula is built from its arguments with ordinary operators. It can
//! be evaluated in `f64` and differentiated. Kernels contain formulas as flat lists of instructions (`kernel::Program`).

mod calculus;
mod real;

use crate::dtype::DType;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::ops;
use std::sync::{Mutex, PoisonError};

pub use real::Real;

/// Primitive functions of one value. `codegen` and the CPU backend implement exactly these functions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Unary {
    Neg,
    Abs,
    Floor,
    Ceil,
    /// Rounds to the nearest integer, ties to even.
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
    /// Logical for `bool`, bitwise for integers.
    Not,
    /// `bool`. The result must be correct even if a compiler assumes that no NaN exists, so implementations test the bits.
    IsNan,
    IsInf,
    /// Whether the sign bit is set, which distinguishes -0.0 from 0.0.
    SignBit,
}

/// Primitive functions of two values of one type. Comparisons return `bool`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    Add,
    Sub,
    Mul,
    /// Integers truncate, and x / 0 is x, as in WGSL.
    Div,
    /// The remainder has the sign of the dividend, as in Rust. For integers, x % 0 is 0.
    Rem,
    Min,
    Max,
    /// Only for bases >= 0. Rows of the table build the other cases from this one.
    Pow,
    Atan2,
    /// Logical for `bool`, bitwise for integers.
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
    /// Whether the result is `bool` for any arguments.
    pub fn compares(self) -> bool {
        matches!(self, Binary::Lt | Binary::Le | Binary::Eq | Binary::Ne)
    }
}

/// A node of a formula.
#[derive(Clone, Debug)]
pub enum Node {
    /// The n-th argument.
    Arg(usize),
    /// A constant of the formula. It takes the type of the other operand, by default `f32`.
    Lit(f64),
    Unary(Unary, Expr),
    Binary(Binary, Expr, Expr),
    /// `Select(c, a, b)` is `a` if `c` holds, and `b` otherwise. Both are evaluated, but a NaN in the unselected one has no
    /// effect.
    Select(Expr, Expr, Expr),
    Cast(DType, Expr),
}

/// A function that returns the derivative by each argument, from the arguments and the function's value.
pub type Gradient = fn(&[Expr], Expr) -> Vec<Expr>;

/// A formula. Equal formulas are the same object, so shared parts are computed once. An `Expr` is only a reference, which
/// keeps the code that builds formulas small. Formulas are never freed. Their number is bounded by the parts of the table and
/// of the requested derivatives.
#[derive(Clone, Copy, Debug)]
pub struct Expr(&'static Function);

/// The computation of a value, with its gradient if that does not follow from the computation.
#[derive(Debug)]
struct Function {
    node: Node,
    /// The arguments with the function that returns the derivatives by them.
    custom: Option<(Vec<Expr>, Gradient)>,
    /// The arguments that the value depends on, as a bit set.
    arguments: u64,
}

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        self.address() == other.address()
    }
}

impl Eq for Expr {}

impl Hash for Expr {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_usize(self.address());
    }
}

/// The key that identifies equal functions.
type Key = ([u64; 4], Vec<u64>);

impl Function {
    /// Returns the kind of the node with its numbers, bits or addresses, and the key of the custom gradient.
    fn key(&self) -> Key {
        let kind = |kind: u64, op: u64| kind << 8 | op;
        let address = |x: Expr| x.address() as u64;
        let mut custom = Vec::new();
        if let Some((arguments, gradient)) = &self.custom {
            custom.push(*gradient as usize as u64);
            custom.extend(arguments.iter().map(|&argument| address(argument)));
        }
        let node = match self.node {
            Node::Arg(n) => [kind(0, 0), n as u64, 0, 0],
            Node::Lit(value) => [kind(1, 0), value.to_bits(), 0, 0],
            Node::Unary(op, x) => [kind(2, op as u64), address(x), 0, 0],
            Node::Binary(op, x, y) => [kind(3, op as u64), address(x), address(y), 0],
            Node::Select(c, a, b) => [kind(4, 0), address(c), address(a), address(b)],
            Node::Cast(to, x) => [kind(5, to as u64), address(x), 0, 0],
        };
        (node, custom)
    }
}

/// All formulas that exist.
static ALL: Mutex<BTreeMap<Key, Expr>> = Mutex::new(BTreeMap::new());

impl Expr {
    /// Returns the formula of a node.
    fn new(node: Node) -> Expr {
        let arguments = match &node {
            Node::Arg(n) => 1 << n,
            Node::Lit(_) => 0,
            Node::Unary(_, x) | Node::Cast(_, x) => x.0.arguments,
            Node::Binary(_, x, y) => x.0.arguments | y.0.arguments,
            Node::Select(c, a, b) => c.0.arguments | a.0.arguments | b.0.arguments,
        };
        Expr::intern(Function { node, custom: None, arguments })
    }

    fn intern(function: Function) -> Expr {
        let key = function.key();
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&known) = all.get(&key) {
            return known;
        }
        let expr = Expr(Box::leak(Box::new(function)));
        all.insert(key, expr);
        expr
    }

    /// Returns the value with custom derivatives by `arguments`. A function may be computed in branches, and each branch may
    /// be accurate only where it is used. Derivatives of any order must therefore follow the function, and not the branch.
    pub fn with_gradient(self, arguments: &[Expr], gradient: Gradient) -> Expr {
        let node = self.node().clone();
        let custom = Some((arguments.to_vec(), gradient));
        Expr::intern(Function { node, custom, arguments: self.0.arguments })
    }

    /// Returns the n-th argument.
    pub fn arg(n: usize) -> Expr {
        Expr::new(Node::Arg(n))
    }

    /// Returns a constant of the formula.
    pub fn lit(value: f64) -> Expr {
        Expr::new(Node::Lit(value))
    }

    /// Returns the node, for code that flattens or prints formulas.
    pub fn node(self) -> &'static Node {
        &self.0.node
    }

    /// Whether the value depends on the n-th argument.
    pub fn uses(self, n: usize) -> bool {
        self.0.arguments >> n & 1 == 1
    }

    /// Returns an address that identifies the formula.
    pub fn address(self) -> usize {
        self.0 as *const Function as usize
    }

    /// Applies a primitive of one value.
    pub fn unary(self, op: Unary) -> Expr {
        Expr::new(Node::Unary(op, self))
    }

    /// Applies a primitive of two values.
    pub fn binary(self, op: Binary, other: impl Into<Expr>) -> Expr {
        Expr::new(Node::Binary(op, self, other.into()))
    }

    /// Returns `a` if `self`, a `bool`, holds, and `b` otherwise.
    pub fn select(self, a: impl Into<Expr>, b: impl Into<Expr>) -> Expr {
        Expr::new(Node::Select(self, a.into(), b.into()))
    }

    /// Converts the value as in WGSL. Floats truncate toward zero and saturate.
    pub fn cast(self, to: DType) -> Expr {
        Expr::new(Node::Cast(to, self))
    }

    /// Returns the constant if the formula is one.
    pub fn literal(self) -> Option<f64> {
        match *self.node() {
            Node::Lit(value) => Some(value),
            _ => None,
        }
    }
}

/// Defines the methods that formulas are written with. Some have the names of operator methods, although formulas do not
/// implement those traits for them.
macro_rules! methods {
    (unary $($name:ident $op:ident),* $(,)?) => { #[allow(clippy::should_implement_trait)] impl Expr { $(
        #[doc = concat!("[`Unary::", stringify!($op), "`] of this.")]
        // The names are those of WGSL. Operators have separate traits.
        #[allow(clippy::should_implement_trait)]
        pub fn $name(self) -> Expr { self.unary(Unary::$op) }
    )* } };
    (binary $($name:ident $op:ident),* $(,)?) => { #[allow(clippy::should_implement_trait)] impl Expr { $(
        #[doc = concat!("[`Binary::", stringify!($op), "`] of this and `other`.")]
        #[allow(clippy::should_implement_trait)]
        pub fn $name(self, other: impl Into<Expr>) -> Expr { self.binary(Binary::$op, other) }
    )* } };
}
methods!(unary abs Abs, floor Floor, ceil Ceil, round Round, trunc Trunc, exp Exp, exp2 Exp2,
    log Log, log2 Log2, sqrt Sqrt, inverse_sqrt InverseSqrt, sin Sin, cos Cos, tan Tan, asin Asin,
    acos Acos, atan Atan, not Not,
    is_nan IsNan, is_inf IsInf, sign_bit SignBit);
methods!(binary min Min, max Max, pow Pow, atan2 Atan2, and And, or Or, xor Xor, shl Shl,
    shr Shr, rem Rem,
    lt Lt, le Le, eq Eq, ne Ne);

impl Expr {
    /// Returns `other < self`.
    pub fn gt(self, other: impl Into<Expr>) -> Expr {
        other.into().lt(self)
    }

    /// Returns `other <= self`.
    pub fn ge(self, other: impl Into<Expr>) -> Expr {
        other.into().le(self)
    }

    /// Returns `1 / self`.
    pub fn recip(self) -> Expr {
        Expr::lit(1.0) / self
    }

    /// Returns `self * self`.
    pub fn square(self) -> Expr {
        self * self
    }

    /// Evaluates a polynomial by Horner's scheme: `coefficients[0] + x * (coefficients[1] + ...)`.
    pub fn polynomial(self, coefficients: &[f64]) -> Expr {
        let (last, rest) = coefficients.split_last().expect("a polynomial has a term");
        let mut sum = Expr::lit(*last);
        for &coefficient in rest.iter().rev() {
            sum = sum * self + coefficient;
        }
        sum
    }
}

impl From<f64> for Expr {
    fn from(value: f64) -> Expr {
        Expr::lit(value)
    }
}

/// Returns `a op b`, simplified to keep derivatives short: x + 0, 0 - x, x * 1, x * -1, x * 0, and constants.
fn arithmetic(op: Binary, a: Expr, b: Expr) -> Expr {
    match (op, a.literal(), b.literal()) {
        (_, Some(x), Some(y)) => Expr::lit(calculus::eval_arithmetic(op, x, y)),
        (Binary::Add, Some(0.0), _) | (Binary::Mul, Some(1.0), _) => b,
        (Binary::Add | Binary::Sub, _, Some(0.0)) => a,
        (Binary::Mul | Binary::Div, _, Some(1.0)) => a,
        (Binary::Mul, Some(0.0), _) | (Binary::Mul, _, Some(0.0)) => Expr::lit(0.0),
        (Binary::Div, Some(0.0), _) => Expr::lit(0.0),
        (Binary::Sub, Some(0.0), _) | (Binary::Mul, Some(-1.0), _) => -b,
        (Binary::Mul, _, Some(-1.0)) => -a,
        _ => a.binary(op, b),
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => { $(
        impl<R: Into<Expr>> ops::$trait<R> for Expr {
            type Output = Expr;
            fn $method(self, other: R) -> Expr {
                arithmetic(Binary::$op, self, other.into())
            }
        }
        impl ops::$trait<Expr> for f64 {
            type Output = Expr;
            fn $method(self, other: Expr) -> Expr {
                arithmetic(Binary::$op, Expr::lit(self), other)
            }
        }
    )* };
}
operators!(Add add Add; Sub sub Sub; Mul mul Mul; Div div Div;);

impl ops::Neg for Expr {
    type Output = Expr;
    fn neg(self) -> Expr {
        match self.0 {
            Function { node: Node::Lit(value), .. } => Expr::lit(-value),
            Function { node: Node::Unary(Unary::Neg, x), custom: None, .. } => *x,
            _ => self.unary(Unary::Neg),
        }
    }
}
