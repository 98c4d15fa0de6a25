//! The compiler of expressions, from naga's expressions to steps.

use super::compile::{Compiler, Frame};
use super::steps::Value;
use crate::dtype::DType;
use crate::error::Result;
use crate::expr::{Binary, Unary};
use crate::op::Pointwise;
use naga::{
    BinaryOperator, Expression, Handle, Literal, MathFunction, RelationalFunction, ScalarKind,
    Span, TypeInner, UnaryOperator,
};

impl<'a> Compiler<'a> {
    /// Returns the value of an expression. It is computed once, until the expression is emitted again.
    pub fn value(&mut self, frame: &mut Frame<'a>, handle: Handle<Expression>) -> Result<Value> {
        if let Some(value) = frame.values.get(&handle) {
            return Ok(value.clone());
        }
        let span = frame.function.expressions.get_span(handle);
        if self.writer.is_full() {
            return Err(self.refuse(span, "a function of more than 4096 instructions"));
        }
        let value = match &frame.function.expressions[handle] {
            Expression::FunctionArgument(n) => frame.arguments[*n as usize].clone(),
            Expression::Load { pointer } => self.load(frame, *pointer)?,
            Expression::AccessIndex { base, index } => {
                self.value(frame, *base)?.part(*index as usize)
            }
            Expression::Access { base, index } => {
                let base = self.value(frame, *base)?;
                let index = self.scalar(frame, *index)?;
                match self.writer.known(index) {
                    Some(known) => base.part(known as usize),
                    None => self.writer.element(&base, index),
                }
            }
            Expression::Splat { size, value } => {
                let one = self.value(frame, *value)?;
                Value::Composite(vec![one; *size as usize])
            }
            Expression::Swizzle { size, vector, pattern } => {
                let vector = self.value(frame, *vector)?;
                let parts = pattern[..*size as usize].iter();
                Value::Composite(parts.map(|&at| vector.part(at as usize)).collect())
            }
            Expression::Compose { ty, components } => {
                let mut parts = Vec::with_capacity(components.len());
                for &component in components {
                    parts.push(self.value(frame, component)?);
                }
                self.composed(*ty, parts)
            }
            Expression::Unary { op, expr } => {
                let x = self.value(frame, *expr)?;
                let op = *op;
                self.each(span, &[x], |this, x| {
                    Ok(match op {
                        UnaryOperator::Negate => this.writer.unary(Unary::Neg, x[0]),
                        UnaryOperator::LogicalNot | UnaryOperator::BitwiseNot => {
                            this.writer.not(x[0])
                        }
                    })
                })?
            }
            Expression::Binary { op, left, right } => {
                let operands = [self.value(frame, *left)?, self.value(frame, *right)?];
                let op = *op;
                self.each(span, &operands, |this, x| Ok(this.operator(op, x[0], x[1])))?
            }
            Expression::Select { condition, accept, reject } => {
                let condition = self.value(frame, *condition)?;
                let (a, b) = (self.value(frame, *accept)?, self.value(frame, *reject)?);
                match condition {
                    Value::Scalar(condition) => self.writer.choose(condition, &a, &b),
                    all => self.each(span, &[all, a, b], |this, x| {
                        Ok(this.writer.select(x[0], x[1], x[2]))
                    })?,
                }
            }
            Expression::Relational { fun, argument } => {
                let argument = self.value(frame, *argument)?;
                self.relation(span, *fun, &argument)?
            }
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                let mut operands = vec![self.value(frame, *arg)?];
                for other in [arg1, arg2, arg3].into_iter().flatten() {
                    operands.push(self.value(frame, *other)?);
                }
                self.math(span, *fun, &operands)?
            }
            Expression::As { expr, kind, convert } => {
                let x = self.value(frame, *expr)?;
                let to = match kind {
                    ScalarKind::Sint => DType::I32,
                    ScalarKind::Uint => DType::U32,
                    ScalarKind::Float => DType::F32,
                    _ => DType::Bool,
                };
                let bits = convert.is_none();
                self.each(span, &[x], |this, x| Ok(this.converted(to, bits, x[0])))?
            }
            Expression::LocalVariable(_) => return Err(self.refuse(span, "a pointer")),
            other => self.constant(other, span)?,
        };
        frame.values.insert(handle, value.clone());
        Ok(value)
    }

    /// Returns the value of an expression that does not depend on a function.
    fn constant(&mut self, expression: &'a Expression, span: Span) -> Result<Value> {
        let (dtype, bits) = match expression {
            Expression::Literal(literal) => match literal {
                Literal::F32(x) => (DType::F32, x.to_bits()),
                Literal::U32(x) => (DType::U32, *x),
                Literal::I32(x) => (DType::I32, *x as u32),
                Literal::Bool(x) => (DType::Bool, u32::from(*x)),
                _ => return Err(self.refuse(span, "a number of this type")),
            },
            Expression::Constant(constant) => {
                let init = self.module.constants[*constant].init;
                return self.constant(&self.module.global_expressions[init], span);
            }
            Expression::ZeroValue(ty) => return self.zero(*ty, span),
            Expression::Compose { ty, components } => {
                let mut parts = Vec::with_capacity(components.len());
                for &part in components {
                    parts.push(self.constant(&self.module.global_expressions[part], span)?);
                }
                return Ok(self.composed(*ty, parts));
            }
            Expression::Splat { size, value } => {
                let one = self.constant(&self.module.global_expressions[*value], span)?;
                return Ok(Value::Composite(vec![one; *size as usize]));
            }
            _ => return Err(self.refuse(span, "this expression")),
        };
        Ok(Value::Scalar(self.writer.constant(dtype, bits)))
    }

    /// Combines parts to a value of a type. The parts of a vector may be vectors, which are flattened.
    fn composed(&self, ty: Handle<naga::Type>, parts: Vec<Value>) -> Value {
        match self.module.types[ty].inner {
            TypeInner::Vector { .. } => {
                Value::Composite(parts.iter().flat_map(Value::parts).collect())
            }
            _ => Value::Composite(parts),
        }
    }

    /// Applies a function of numbers to each part of vectors. A number operand is combined with every part.
    fn each(
        &mut self,
        span: Span,
        operands: &[Value],
        f: impl Fn(&mut Self, &[u32]) -> Result<u32>,
    ) -> Result<Value> {
        let mut all = Vec::with_capacity(operands.len());
        for operand in operands {
            let numbers = operand.numbers();
            all.push(numbers.ok_or_else(|| self.refuse(span, "arithmetic of matrices"))?);
        }
        if operands.iter().all(|operand| matches!(operand, Value::Scalar(_))) {
            let numbers: Vec<u32> = all.iter().map(|numbers| numbers[0]).collect();
            return Ok(Value::Scalar(f(self, &numbers)?));
        }
        let count = all.iter().map(Vec::len).max().unwrap_or(0);
        let mut parts = Vec::with_capacity(count);
        for n in 0..count {
            let numbers: Vec<u32> = all.iter().map(|x| x[n.min(x.len() - 1)]).collect();
            parts.push(Value::Scalar(f(self, &numbers)?));
        }
        Ok(Value::Composite(parts))
    }

    fn operator(&mut self, op: BinaryOperator, x: u32, y: u32) -> u32 {
        let op = match op {
            BinaryOperator::Add => Binary::Add,
            BinaryOperator::Subtract => Binary::Sub,
            BinaryOperator::Multiply => Binary::Mul,
            BinaryOperator::Divide => Binary::Div,
            BinaryOperator::Modulo => Binary::Rem,
            BinaryOperator::Equal => Binary::Eq,
            BinaryOperator::NotEqual => Binary::Ne,
            BinaryOperator::Less => Binary::Lt,
            BinaryOperator::LessEqual => Binary::Le,
            BinaryOperator::Greater => return self.writer.binary(Binary::Lt, y, x),
            BinaryOperator::GreaterEqual => return self.writer.binary(Binary::Le, y, x),
            BinaryOperator::And | BinaryOperator::LogicalAnd => Binary::And,
            BinaryOperator::InclusiveOr | BinaryOperator::LogicalOr => Binary::Or,
            BinaryOperator::ExclusiveOr => Binary::Xor,
            BinaryOperator::ShiftLeft => Binary::Shl,
            BinaryOperator::ShiftRight => Binary::Shr,
        };
        self.writer.binary(op, x, y)
    }

    fn relation(&mut self, span: Span, fun: RelationalFunction, x: &Value) -> Result<Value> {
        let op = match fun {
            RelationalFunction::IsNan => Unary::IsNan,
            RelationalFunction::IsInf => Unary::IsInf,
            RelationalFunction::All | RelationalFunction::Any => {
                let op = if fun == RelationalFunction::All { Binary::And } else { Binary::Or };
                let numbers = x.numbers().unwrap_or_default();
                let all = numbers.into_iter().reduce(|x, y| self.writer.binary(op, x, y));
                let all = all.ok_or_else(|| self.refuse(span, "this expression"))?;
                return Ok(Value::Scalar(all));
            }
        };
        self.each(span, std::slice::from_ref(x), |this, x| Ok(this.writer.unary(op, x[0])))
    }

    fn converted(&mut self, to: DType, bits: bool, x: u32) -> u32 {
        let from = self.writer.dtype(x);
        match bits && from != to {
            true => self.writer.bitcast(to, x),
            false => self.writer.cast(to, x),
        }
    }

    fn math(&mut self, span: Span, fun: MathFunction, operands: &[Value]) -> Result<Value> {
        match fun {
            MathFunction::Dot => return self.dot(span, &operands[0], &operands[1]),
            MathFunction::Length => {
                let square = self.dot(span, &operands[0], &operands[0])?;
                return self
                    .each(span, &[square], |this, x| Ok(this.writer.unary(Unary::Sqrt, x[0])));
            }
            MathFunction::Distance => {
                let apart = self.each(span, operands, |this, x| {
                    Ok(this.writer.binary(Binary::Sub, x[0], x[1]))
                })?;
                return self.math(span, MathFunction::Length, &[apart]);
            }
            _ => {}
        }
        self.each(span, operands, |this, x| this.function(span, fun, x))
    }

    fn dot(&mut self, span: Span, x: &Value, y: &Value) -> Result<Value> {
        let products = self.each(span, &[x.clone(), y.clone()], |this, x| {
            Ok(this.writer.binary(Binary::Mul, x[0], x[1]))
        })?;
        let products = products.numbers().unwrap_or_default();
        let sum = products.into_iter().reduce(|x, y| self.writer.binary(Binary::Add, x, y));
        Ok(Value::Scalar(sum.ok_or_else(|| self.refuse(span, "this expression"))?))
    }

    /// Computes a built-in function of numbers.
    fn function(&mut self, span: Span, fun: MathFunction, x: &[u32]) -> Result<u32> {
        let row = match fun {
            MathFunction::Abs => return Ok(self.writer.unary(Unary::Abs, x[0])),
            MathFunction::Ceil => return Ok(self.writer.unary(Unary::Ceil, x[0])),
            MathFunction::Floor => return Ok(self.writer.unary(Unary::Floor, x[0])),
            MathFunction::Round => return Ok(self.writer.unary(Unary::Round, x[0])),
            MathFunction::Trunc => return Ok(self.writer.unary(Unary::Trunc, x[0])),
            MathFunction::Cos => return Ok(self.writer.unary(Unary::Cos, x[0])),
            MathFunction::Sin => return Ok(self.writer.unary(Unary::Sin, x[0])),
            MathFunction::Tan => return Ok(self.writer.unary(Unary::Tan, x[0])),
            MathFunction::Exp => return Ok(self.writer.unary(Unary::Exp, x[0])),
            MathFunction::Exp2 => return Ok(self.writer.unary(Unary::Exp2, x[0])),
            MathFunction::Log => return Ok(self.writer.unary(Unary::Log, x[0])),
            MathFunction::Log2 => return Ok(self.writer.unary(Unary::Log2, x[0])),
            MathFunction::Sqrt => return Ok(self.writer.unary(Unary::Sqrt, x[0])),
            MathFunction::InverseSqrt => return Ok(self.writer.unary(Unary::InverseSqrt, x[0])),
            MathFunction::Min => return Ok(self.writer.binary(Binary::Min, x[0], x[1])),
            MathFunction::Max => return Ok(self.writer.binary(Binary::Max, x[0], x[1])),
            MathFunction::Pow => return Ok(self.writer.binary(Binary::Pow, x[0], x[1])),
            MathFunction::Clamp => {
                let raised = self.writer.binary(Binary::Max, x[0], x[1]);
                return Ok(self.writer.binary(Binary::Min, raised, x[2]));
            }
            MathFunction::QuantizeToF16 => return Ok(self.writer.cast(DType::F16, x[0])),
            MathFunction::Saturate
            | MathFunction::Radians
            | MathFunction::Degrees
            | MathFunction::Mix
            | MathFunction::Step
            | MathFunction::SmoothStep => return Ok(self.arithmetic(fun, x)),
            MathFunction::Acos => Pointwise::acos,
            MathFunction::Asin => Pointwise::asin,
            MathFunction::Atan => Pointwise::atan,
            MathFunction::Atan2 => Pointwise::atan2,
            MathFunction::Cosh => Pointwise::cosh,
            MathFunction::Sinh => Pointwise::sinh,
            MathFunction::Tanh => Pointwise::tanh,
            MathFunction::Acosh => Pointwise::acosh,
            MathFunction::Asinh => Pointwise::asinh,
            MathFunction::Atanh => Pointwise::atanh,
            MathFunction::Fract => Pointwise::fract,
            MathFunction::Sign => Pointwise::sign,
            MathFunction::Fma => Pointwise::fma,
            other => {
                let name = format!("{other:?}");
                return Err(self.refuse(span, &format!("the built-in function {}", lower(&name))));
            }
        };
        Ok(self.writer.row(row, x))
    }

    /// Computes built-in functions that WGSL defines by arithmetic.
    fn arithmetic(&mut self, fun: MathFunction, x: &[u32]) -> u32 {
        let w = &mut self.writer;
        let (zero, one) = (w.number(0.0), w.number(1.0));
        match fun {
            MathFunction::Saturate => {
                let raised = w.binary(Binary::Max, x[0], zero);
                w.binary(Binary::Min, raised, one)
            }
            MathFunction::Radians | MathFunction::Degrees => {
                let turn = std::f64::consts::PI / 180.0;
                let factor = if fun == MathFunction::Radians { turn } else { 1.0 / turn };
                let factor = w.number(factor);
                w.binary(Binary::Mul, x[0], factor)
            }
            MathFunction::Mix => {
                let rest = w.binary(Binary::Sub, one, x[2]);
                let (a, b) = (w.binary(Binary::Mul, x[0], rest), w.binary(Binary::Mul, x[1], x[2]));
                w.binary(Binary::Add, a, b)
            }
            MathFunction::Step => {
                let reached = w.binary(Binary::Le, x[0], x[1]);
                w.select(reached, one, zero)
            }
            _ => {
                // Computes t t (3 - 2 t), where t is the relative position of x[2] between the other arguments.
                let (from, span) =
                    (w.binary(Binary::Sub, x[2], x[0]), w.binary(Binary::Sub, x[1], x[0]));
                let t = w.binary(Binary::Div, from, span);
                let (raised, two, three) =
                    (w.binary(Binary::Max, t, zero), w.number(2.0), w.number(3.0));
                let t = w.binary(Binary::Min, raised, one);
                let twice = w.binary(Binary::Mul, two, t);
                let rest = w.binary(Binary::Sub, three, twice);
                let square = w.binary(Binary::Mul, t, t);
                w.binary(Binary::Mul, square, rest)
            }
        }
    }
}

/// Converts naga's name of a function to WGSL's.
fn lower(name: &str) -> String {
    let mut name = name.to_string();
    if let Some(first) = name.get_mut(..1) {
        first.make_ascii_lowercase();
    }
    name
}
