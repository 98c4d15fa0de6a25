//! Unary and binary operators, selects and casts.

use super::{Lowerer, Value};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Class, Cmp, Op, Operand, Ty};
use crate::cuda::ptx::types::{scalar_type, Type};
use naga::{
    BinaryOperator, Expression, Handle, RelationalFunction, Scalar, ScalarKind, UnaryOperator,
};
use std::rc::Rc;

/// The type and the leaves of a value.
type Data = (Type, Rc<[Operand]>);

impl Lowerer<'_> {
    pub(super) fn unary(
        &mut self,
        op: UnaryOperator,
        operand: Handle<Expression>,
    ) -> Result<Value> {
        let (ty, leaves) = self.data(operand)?;
        let scalar = scalar_of(&ty)?;
        let op = match op {
            UnaryOperator::Negate => Op::Neg(scalar),
            UnaryOperator::LogicalNot | UnaryOperator::BitwiseNot => Op::Not,
        };
        let leaves = leaves.iter().map(|leaf| self.b.op(op, &[*leaf])).collect();
        Ok(Value::Data(ty, leaves))
    }

    pub(super) fn binary(
        &mut self,
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    ) -> Result<Value> {
        let (left, right) = (self.data(left)?, self.data(right)?);
        if op == BinaryOperator::Multiply
            && let Some(product) = self.matrix_product(&left, &right)?
        {
            return Ok(product);
        }
        let scalar = scalar_of(&left.0)?;
        let size = left.1.len().max(right.1.len());
        let ty =
            if right.1.len() > left.1.len() { right.0.with_scalar(scalar) } else { left.0.clone() };
        let is_comparison = comparison(op).is_some();
        let at =
            |leaves: &Rc<[Operand]>, index: usize| leaves.get(index).or(leaves.first()).copied();
        let mut leaves = Vec::with_capacity(size);
        for index in 0..size {
            let (Some(a), Some(b)) = (at(&left.1, index), at(&right.1, index)) else {
                return Err(Error::new("a value is empty"));
            };
            leaves.push(self.binary_scalar(op, scalar, a, b)?);
        }
        let ty = if is_comparison { ty.with_scalar(Ty::Pred) } else { ty };
        Ok(Value::Data(ty, Rc::from(leaves)))
    }

    fn binary_scalar(
        &mut self,
        op: BinaryOperator,
        ty: Ty,
        a: Operand,
        b: Operand,
    ) -> Result<Operand> {
        if let Some(cmp) = comparison(op) {
            return Ok(self.compare(cmp, ty, a, b));
        }
        Ok(match op {
            BinaryOperator::Add => self.b.op(Op::Add(ty), &[a, b]),
            BinaryOperator::Subtract => self.b.op(Op::Sub(ty), &[a, b]),
            BinaryOperator::Multiply => self.multiply(ty, a, b),
            BinaryOperator::Divide => self.divide(ty, a, b),
            BinaryOperator::Modulo => self.modulo(ty, a, b),
            BinaryOperator::And | BinaryOperator::LogicalAnd => self.b.op(Op::And, &[a, b]),
            BinaryOperator::InclusiveOr | BinaryOperator::LogicalOr => self.b.op(Op::Or, &[a, b]),
            BinaryOperator::ExclusiveOr => self.b.op(Op::Xor, &[a, b]),
            BinaryOperator::ShiftLeft | BinaryOperator::ShiftRight => {
                // WGSL uses the lower five bits of the amount.
                let amount = self.b.op(Op::And, &[b, Operand::u32(31)]);
                let op = if op == BinaryOperator::ShiftLeft { Op::Shl } else { Op::Shr(ty) };
                self.b.op(op, &[a, amount])
            }
            _ => return Err(Error::new("this operator is not supported")),
        })
    }

    /// Compares two scalars. Two `bool` can be equal or not.
    pub(super) fn compare(&mut self, cmp: Cmp, ty: Ty, a: Operand, b: Operand) -> Operand {
        if ty != Ty::Pred {
            return self.b.op(Op::Compare(cmp, ty), &[a, b]);
        }
        let differs = self.b.op(Op::Xor, &[a, b]);
        if cmp == Cmp::Ne {
            differs
        } else {
            self.b.op(Op::Not, &[differs])
        }
    }

    /// Returns the product. A power of two becomes a shift.
    pub(super) fn multiply(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        let power = |operand: Operand| operand.bits32().filter(|bits| bits.is_power_of_two());
        if !ty.is_float() {
            for (value, constant) in [(a, b), (b, a)] {
                if let Some(bits) = power(constant) {
                    return self.b.op(Op::Shl, &[value, Operand::u32(bits.trailing_zeros())]);
                }
            }
        }
        self.b.op(Op::Mul(ty), &[a, b])
    }

    /// Returns the quotient. Of integers, `x / 0` is `x`, and the least integer divided by -1 is itself.
    pub(super) fn divide(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        match ty {
            Ty::F32 => return self.b.div(a, b),
            Ty::F16 => {
                return self.in_f32(&[a, b], |lowerer, args| lowerer.b.div(args[0], args[1]))
            }
            Ty::U32 if b.bits32().is_some_and(u32::is_power_of_two) => {
                let shift = b.bits32().unwrap_or(1).trailing_zeros();
                return self.b.op(Op::Shr(Ty::U32), &[a, Operand::u32(shift)]);
            }
            _ => {}
        }
        let divisor = self.safe_divisor(ty, a, b);
        self.b.op(Op::Div(ty), &[a, divisor])
    }

    /// Returns the remainder, with the sign of `a`. Of integers, `x % 0` is 0.
    fn modulo(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        match ty {
            Ty::F32 => return self.float_modulo(a, b),
            Ty::F16 => {
                return self.in_f32(&[a, b], |lowerer, args| lowerer.float_modulo(args[0], args[1]))
            }
            Ty::U32 if b.bits32().is_some_and(u32::is_power_of_two) => {
                let mask = b.bits32().unwrap_or(1) - 1;
                return self.b.op(Op::And, &[a, Operand::u32(mask)]);
            }
            _ => {}
        }
        let divisor = self.safe_divisor(ty, a, b);
        self.b.op(Op::Rem(ty), &[a, divisor])
    }

    /// Replaces divisors without a quotient by 1.
    fn safe_divisor(&mut self, ty: Ty, a: Operand, b: Operand) -> Operand {
        let equals = |lowerer: &mut Self, x: Operand, y: u32| {
            lowerer.b.op(Op::Compare(Cmp::Eq, Ty::U32), &[x, Operand::u32(y)])
        };
        let mut is_bad = equals(self, b, 0);
        if ty == Ty::S32 {
            let is_least = equals(self, a, 0x8000_0000);
            let is_minus_one = equals(self, b, u32::MAX);
            let overflows = self.b.op(Op::And, &[is_least, is_minus_one]);
            is_bad = self.b.op(Op::Or, &[is_bad, overflows]);
        }
        self.b.select(is_bad, Operand::u32(1), b)
    }

    /// Returns `a - b * trunc(a / b)`.
    fn float_modulo(&mut self, a: Operand, b: Operand) -> Operand {
        let quotient = self.b.div(a, b);
        let whole = self.b.op(Op::Round(crate::cuda::ptx::ir::Rounding::Zero), &[quotient]);
        let product = self.b.mul(b, whole);
        self.b.sub(a, product)
    }

    /// Computes a function of `f16` in `f32`, and rounds its result.
    pub(super) fn in_f32(
        &mut self,
        args: &[Operand],
        f: impl FnOnce(&mut Self, &[Operand]) -> Operand,
    ) -> Operand {
        let wide: Vec<Operand> =
            args.iter().map(|arg| self.b.op(Op::Convert(Ty::F16, Ty::F32), &[*arg])).collect();
        let result = f(self, &wide);
        self.b.op(Op::Convert(Ty::F32, Ty::F16), &[result])
    }

    /// Returns the product of a matrix with a matrix or a vector, or `None` if there is no matrix or only a scalar.
    fn matrix_product(&mut self, left: &Data, right: &Data) -> Result<Option<Value>> {
        // A row vector is a matrix with one row, and a column vector one with one column.
        let (columns, inner, rows, scalar, ty) = match (&left.0, &right.0) {
            (Type::Matrix(inner, rows, scalar), Type::Matrix(columns, ..)) => {
                (*columns, *inner, *rows, *scalar, Type::Matrix(*columns, *rows, *scalar))
            }
            (Type::Matrix(inner, rows, scalar), Type::Vector(..)) => {
                (1, *inner, *rows, *scalar, Type::Vector(*rows, *scalar))
            }
            (Type::Vector(..), Type::Matrix(columns, inner, scalar)) => {
                (*columns, *inner, 1, *scalar, Type::Vector(*columns, *scalar))
            }
            _ => return Ok(None),
        };
        let mut leaves = Vec::with_capacity((columns * rows) as usize);
        for column in 0..columns {
            for row in 0..rows {
                let a = (0..inner).map(|k| left.1[(k * rows + row) as usize]);
                let b = (0..inner).map(|k| right.1[(column * inner + k) as usize]);
                leaves.push(self.dot_product(scalar, a.zip(b)));
            }
        }
        Ok(Some(Value::Data(ty, Rc::from(leaves))))
    }

    /// Returns the sum of products, added in order.
    pub(super) fn dot_product(
        &mut self,
        ty: Ty,
        pairs: impl Iterator<Item = (Operand, Operand)>,
    ) -> Operand {
        let mut sum = None;
        for (a, b) in pairs {
            let product = self.b.op(Op::Mul(ty), &[a, b]);
            sum = Some(match sum {
                Some(sum) => self.b.op(Op::Add(ty), &[sum, product]),
                None => product,
            });
        }
        sum.unwrap_or(Operand::Const(ty.class(), 0))
    }

    pub(super) fn select(
        &mut self,
        condition: Handle<Expression>,
        accept: Handle<Expression>,
        reject: Handle<Expression>,
    ) -> Result<Value> {
        let (_, conditions) = self.data(condition)?;
        let ((ty, accept), (_, reject)) = (self.data(accept)?, self.data(reject)?);
        let mut leaves = Vec::with_capacity(accept.len());
        for (index, (a, b)) in accept.iter().zip(reject.iter()).enumerate() {
            let condition = conditions.get(index).or(conditions.first());
            let condition = condition.ok_or_else(|| Error::new("a condition is empty"))?;
            leaves.push(self.b.select(*condition, *a, *b));
        }
        Ok(Value::Data(ty, Rc::from(leaves)))
    }

    pub(super) fn relational(
        &mut self,
        fun: RelationalFunction,
        argument: Handle<Expression>,
    ) -> Result<Value> {
        let (ty, leaves) = self.data(argument)?;
        let op = match fun {
            RelationalFunction::All => Op::And,
            RelationalFunction::Any => Op::Or,
            RelationalFunction::IsNan | RelationalFunction::IsInf => {
                let scalar = scalar_of(&ty)?;
                let mut result = Vec::with_capacity(leaves.len());
                for leaf in leaves.iter() {
                    result.push(if fun == RelationalFunction::IsNan {
                        self.b.op(Op::Compare(Cmp::Ne, scalar), &[*leaf, *leaf])
                    } else {
                        let size = self.b.op(Op::Abs(scalar), &[*leaf]);
                        let infinity = if scalar == Ty::F16 {
                            Operand::Const(Class::B16, 0x7c00)
                        } else {
                            Operand::f32(f32::INFINITY)
                        };
                        self.b.op(Op::Compare(Cmp::Eq, scalar), &[size, infinity])
                    });
                }
                return Ok(Value::Data(ty.with_scalar(Ty::Pred), Rc::from(result)));
            }
        };
        let first = Operand::bool(fun == RelationalFunction::All);
        let result = leaves.iter().fold(first, |sum, leaf| self.b.op(op, &[sum, *leaf]));
        Ok(Value::Data(Type::Scalar(Ty::Pred), Rc::from([result])))
    }

    pub(super) fn cast(
        &mut self,
        operand: Handle<Expression>,
        kind: ScalarKind,
        convert: Option<u8>,
    ) -> Result<Value> {
        let (ty, leaves) = self.data(operand)?;
        let from = scalar_of(&ty)?;
        let width = convert.unwrap_or(from.bytes() as u8);
        let to = scalar_type(Scalar { kind, width })?;
        if convert.is_none() {
            if from.class() != to.class() {
                return Err(Error::new("a bitcast between these types is not supported"));
            }
            return Ok(Value::Data(ty.with_scalar(to), leaves));
        }
        let leaves = leaves.iter().map(|leaf| self.convert(from, to, *leaf)).collect();
        Ok(Value::Data(ty.with_scalar(to), leaves))
    }

    /// Converts a scalar to another type.
    pub(super) fn convert(&mut self, from: Ty, to: Ty, value: Operand) -> Operand {
        match (from, to) {
            _ if from == to => value,
            (Ty::U32 | Ty::S32, Ty::U32 | Ty::S32) => value,
            (Ty::Pred, Ty::F32) => self.b.select(value, Operand::f32(1.0), Operand::f32(0.0)),
            (Ty::Pred, Ty::F16) => self.b.select(
                value,
                Operand::Const(Class::B16, 0x3c00),
                Operand::Const(Class::B16, 0),
            ),
            (Ty::Pred, _) => self.b.select(value, Operand::u32(1), Operand::u32(0)),
            (_, Ty::Pred) => {
                let zero = Operand::Const(from.class(), 0);
                self.b.op(Op::Compare(Cmp::Ne, from), &[value, zero])
            }
            (Ty::F16, Ty::U32 | Ty::S32) => {
                let wide = self.b.op(Op::Convert(Ty::F16, Ty::F32), &[value]);
                self.b.op(Op::Convert(Ty::F32, to), &[wide])
            }
            (Ty::U32 | Ty::S32, Ty::F16) => self.integer_to_half(from, value),
            _ => self.b.op(Op::Convert(from, to), &[value]),
        }
    }

    /// Converts an integer to `f16` with one rounding. Integers that `f32` rounds are beyond the largest `f16`.
    fn integer_to_half(&mut self, from: Ty, value: Operand) -> Operand {
        let wide = self.b.op(Op::Convert(from, Ty::F32), &[value]);
        self.b.op(Op::Convert(Ty::F32, Ty::F16), &[wide])
    }
}

/// Returns the type of the scalars of a value, which must not be an array or a structure.
pub(super) fn scalar_of(ty: &Type) -> Result<Ty> {
    ty.scalar().ok_or_else(|| Error::new("this function takes scalars, vectors and matrices"))
}

fn comparison(op: BinaryOperator) -> Option<Cmp> {
    Some(match op {
        BinaryOperator::Equal => Cmp::Eq,
        BinaryOperator::NotEqual => Cmp::Ne,
        BinaryOperator::Less => Cmp::Lt,
        BinaryOperator::LessEqual => Cmp::Le,
        BinaryOperator::Greater => Cmp::Gt,
        BinaryOperator::GreaterEqual => Cmp::Ge,
        _ => return None,
    })
}
