//! The table of pointwise operations: one row each. Shape rule, CPU value, WGSL, derivative, fusion, the Rust and
//! JavaScript methods and their docs, and the property tests all come from the row.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::expr::{Expr, Node};

/// Which element types a row takes. All operands have one type, unless said otherwise.
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
    /// `u32` alone.
    U32,
    /// The first operand is `bool`, the others have any one type.
    Select,
}

impl Types {
    fn allows(self, dtype: DType) -> bool {
        match self {
            Types::Float => dtype.is_float(),
            Types::Number => dtype != DType::Bool,
            Types::Signed => dtype.is_float() || dtype == DType::I32,
            Types::Int => dtype.is_int(),
            Types::Bool => dtype == DType::Bool,
            Types::Bits => !dtype.is_float(),
            Types::U32 => dtype == DType::U32,
            Types::Any | Types::Select => true,
        }
    }
}

/// A row's own gradient: from the arguments and the result, the derivative by each argument.
pub type Gradient = fn(&[Expr], &Expr) -> Vec<Expr>;

/// All there is to know about one pointwise operation.
pub struct Row {
    /// The method's name.
    pub name: &'static str,
    /// What it computes, for people.
    pub doc: &'static str,
    /// The names of its operands; tensors or numbers.
    pub operands: &'static [&'static str],
    /// Parameters that are always numbers, with their usual values; they follow the operands.
    pub parameters: &'static [(&'static str, f64)],
    /// Which element types it takes.
    pub types: Types,
    /// Where it is tested, one range per operand and parameter; the last one stands for those that follow.
    pub domain: &'static [(f64, f64)],
    /// The formula of operands and parameters.
    pub formula: fn(&[Expr]) -> Expr,
    /// Where the formula's own derivative would not do.
    pub gradient: Option<Gradient>,
}

impl Row {
    /// The formula over `Arg(0)`, `Arg(1)`, ...
    pub fn expr(&self) -> Expr {
        (self.formula)(&self.arguments())
    }

    /// The derivative by the n-th argument, over the same arguments.
    pub fn derivative(&self, n: usize) -> Expr {
        match self.gradient {
            Some(gradient) => gradient(&self.arguments(), &self.expr()).swap_remove(n),
            None => self.expr().derivative(n),
        }
    }

    /// Operands and parameters together.
    pub fn arity(&self) -> usize {
        self.operands.len() + self.parameters.len()
    }

    fn arguments(&self) -> Vec<Expr> {
        (0..self.arity()).map(Expr::arg).collect()
    }

    /// The result's type, or why these operands do not go together.
    pub fn dtype(&self, operands: &[DType]) -> Result<DType> {
        let name = self.name;
        let values = match self.types {
            Types::Select if operands[0] != DType::Bool => {
                let message = format!("{name}: the condition must be bool, not {}", operands[0]);
                return Err(Error::dtype(message));
            }
            Types::Select => &operands[1..],
            _ => operands,
        };
        if let Some(other) = values.iter().find(|&&d| d != values[0]) {
            let message = format!("{name}: operands of type {} and {other}; cast one", values[0]);
            return Err(Error::dtype(message));
        }
        if !self.types.allows(values[0]) {
            let message = format!("{name}: does not take {}; cast it first", values[0]);
            return Err(Error::dtype(message));
        }
        let mut arguments: Vec<DType> = operands.to_vec();
        arguments.resize(self.arity(), values[0]);
        Ok(infer(&self.expr(), &arguments).unwrap_or(DType::F32))
    }
}

/// The type of a formula; `None` for a bare constant.
fn infer(expr: &Expr, arguments: &[DType]) -> Option<DType> {
    match expr.node() {
        Node::Arg(n) => Some(arguments[*n]),
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
        Node::Cast(to, _) => Some(*to),
    }
}

/// Hands the whole table to the macro named: `pointwise_rows!(callback)` becomes `callback! { rows }`. A row reads
/// `/// doc`, `kind name(operands; parameter = usual, ...): types, domain => formula;` and may end in
/// `, gradient |y| [by each argument]` before the semicolon.
#[macro_export]
#[doc(hidden)]
macro_rules! pointwise_rows {
    ($callback:ident) => { $callback! {
/// abs
        unary abs(x): Signed, [(-10.0, 10.0)] => x.abs();
        /// neg
        unary neg(x): Signed, [(-10.0, 10.0)] => -x;
        /// exp
        unary exp(x): Float, [(-10.0, 10.0)] => x.exp();
        /// log
        unary log(x): Float, [(0.1, 10.0)] => x.log();
        /// sqrt
        unary sqrt(x): Float, [(0.1, 10.0)] => x.sqrt();
        /// cos
        unary cos(x): Float, [(0.1, 10.0)] => x.cos();
        /// rsqrt
        unary rsqrt(x): Float, [(0.1, 10.0)] => x.inverse_sqrt();
        /// square
        unary square(x): Number, [(0.1, 10.0)] => x.square();
        /// relu
        unary relu(x): Signed, [(-10.0, 10.0)] => x.max(0.0);
        /// gelu
        unary gelu(x): Float, [(-10.0, 10.0)] => x / ((x * -1.702).exp() + 1.0);
        /// is_nan
        unary is_nan(x): Float, [(-10.0, 10.0)] => x.is_nan();
        /// is_inf
        unary is_inf(x): Float, [(-10.0, 10.0)] => x.is_inf();
        /// unit_float
        unary unit_float(x): U32, [(0.0, 10.0)] => x.shr(8.0).cast(DType::F32) * 5.9604644775390625e-8;
        /// add
        binary add(x, y): Number, [(-10.0, 10.0)] => x + y;
        /// sub
        binary sub(x, y): Number, [(-10.0, 10.0)] => x - y;
        /// mul
        binary mul(x, y): Number, [(-10.0, 10.0)] => x * y;
        /// div
        binary div(x, y): Number, [(-10.0, 10.0)] => x / y;
        /// rem
        binary rem(x, y): Number, [(-10.0, 10.0)] => x.rem(y);
        /// eq
        binary eq(x, y): Any, [(-10.0, 10.0)] => x.eq(y);
        /// lt
        binary lt(x, y): Number, [(-10.0, 10.0)] => x.lt(y);
        /// le
        binary le(x, y): Number, [(-10.0, 10.0)] => x.le(y);
        /// ge
        binary ge(x, y): Number, [(-10.0, 10.0)] => x.ge(y);
        /// or
        binary logical_or(x, y): Bool, [(0.0, 1.0)] => x.or(y);
        /// bits
        binary random_bits(x, y): U32, [(0.0, 1.0)] => (x + y) * 747796405.0;
        /// `x` where it is positive, else `alpha * x`.
        unary leaky_relu(x; alpha = 0.01): Float, [(-10.0, 10.0), (0.0, 0.5)] => x.gt(0.0).select(x, alpha * x);
        /// `x` where the condition holds, else `y`.
        ternary select(condition, x, y): Select, [(0.0, 1.0), (-10.0, 10.0)] => condition.select(x, y);
    } };
}

macro_rules! define_table {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident($($arg:ident),+ $(; $($parameter:ident = $usual:literal),+)?):
        $types:ident, $domain:expr => $formula:expr $(, gradient |$y:ident| $gradient:expr)?;)*) => {
        /// The name of a row of the table.
        // Written as the methods are, so that a row is named once.
        #[allow(non_camel_case_types)]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Pointwise { $($name),* }

        /// The table, in the order of [`Pointwise`].
        pub static TABLE: &[Row] = &[$(Row {
            name: stringify!($name),
            doc: concat!($($doc, "\n"),+),
            operands: &[$(stringify!($arg)),+],
            parameters: &[$($((stringify!($parameter), $usual)),+)?],
            types: Types::$types,
            domain: &$domain,
            formula: |arguments| {
                let mut rest = arguments.iter();
                $(let $arg = rest.next().expect("as many as the row names");)+
                $($(let $parameter = rest.next().expect("as many as the row names");)+)?
                $formula.into()
            },
            gradient: define_table!(@gradient [$($arg),+ $(, $($parameter),+)?] $(|$y| $gradient)?),
        }),*];

        impl Pointwise {
            /// All rows, in the table's order.
            pub const ALL: &'static [Pointwise] = &[$(Pointwise::$name),*];
        }
    };
    (@gradient [$($arg:ident),+]) => { None };
    (@gradient [$($arg:ident),+] |$y:ident| $gradient:expr) => {
        Some(|arguments: &[Expr], $y: &Expr| {
            let mut rest = arguments.iter();
            $(let $arg = rest.next().expect("as many as the row names");)+
            $gradient.into_iter().map(|g| g.clone()).collect::<Vec<Expr>>()
        })
    };
}

pointwise_rows!(define_table);

impl Pointwise {
    /// The row of this name.
    pub fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }

    /// The row called `name`, if there is one.
    pub fn named(name: &str) -> Option<Pointwise> {
        let at = TABLE.iter().position(|row| row.name == name)?;
        Some(Pointwise::ALL[at])
    }
}
