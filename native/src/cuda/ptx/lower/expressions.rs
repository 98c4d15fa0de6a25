//! Expressions, except operators and functions of numbers.

use super::{Lowerer, Place, Pointer, Value};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::half;
use crate::cuda::ptx::ir::{Class, Operand, Ty};
use crate::cuda::ptx::types::Type;
use naga::{Expression, Handle, Literal};
use std::rc::Rc;

impl<'m> Lowerer<'m> {
    /// Evaluates an expression at its place in the program.
    pub(super) fn evaluate(&mut self, handle: Handle<Expression>) -> Result<()> {
        self.evaluations += 1;
        let value = self.compute(handle)?;
        self.define(handle, value)
    }

    /// Returns the value of an expression, which is evaluated here if it has no place in the program, such as a constant.
    pub(super) fn value(&mut self, handle: Handle<Expression>) -> Result<Value> {
        if let Some(Some(value)) = self.frame()?.values.get(handle.index()) {
            return Ok(value.clone());
        }
        let value = self.compute(handle)?;
        self.define(handle, value.clone())?;
        Ok(value)
    }

    /// Returns the type and the leaves of an expression that is not a pointer.
    pub(super) fn data(&mut self, handle: Handle<Expression>) -> Result<(Type, Rc<[Operand]>)> {
        match self.value(handle)? {
            Value::Data(ty, leaves) => Ok((ty, leaves)),
            Value::Pointer(_) => Err(Error::new("a pointer is used as a value")),
        }
    }

    /// Returns the value of a scalar expression.
    pub(super) fn scalar(&mut self, handle: Handle<Expression>) -> Result<Operand> {
        let (_, leaves) = self.data(handle)?;
        leaves.first().copied().ok_or_else(|| Error::new("a value is empty"))
    }

    /// Returns the value of a pointer expression.
    pub(super) fn pointer(&mut self, handle: Handle<Expression>) -> Result<Pointer> {
        match self.value(handle)? {
            Value::Pointer(pointer) => Ok(pointer),
            Value::Data(..) => Err(Error::new("a value is used as a pointer")),
        }
    }

    fn compute(&mut self, handle: Handle<Expression>) -> Result<Value> {
        let function = self.frame()?.function;
        let expression = self.expression(handle)?;
        let span = function.expressions.get_span(handle);
        if let Some(reason) = unsupported(expression) {
            self.at(span);
            return Err(Error::new(reason));
        }
        let outer = self.span;
        let value = self.compute_supported(expression);
        if value.is_err() && self.span == outer {
            self.at(span);
        }
        value
    }

    fn compute_supported(&mut self, expression: &'m Expression) -> Result<Value> {
        let module = self.module;
        match expression {
            Expression::Literal(literal) => constant(*literal),
            Expression::Constant(handle) => self.module_constant(module.constants[*handle].init),
            Expression::ZeroValue(ty) => {
                let ty = Type::new(module, *ty)?;
                let zeros = ty.zeros()?;
                Ok(Value::Data(ty, Rc::from(zeros)))
            }
            Expression::Compose { ty, components } => {
                let ty = Type::new(module, *ty)?;
                let mut leaves = Vec::with_capacity(ty.leaves());
                for component in components {
                    leaves.extend_from_slice(&self.data(*component)?.1);
                }
                if leaves.len() != ty.leaves() {
                    return Err(Error::new("a value has the wrong number of components"));
                }
                Ok(Value::Data(ty, Rc::from(leaves)))
            }
            Expression::Splat { size, value } => {
                let (ty, leaves) = self.data(*value)?;
                let (Some(scalar), Some(leaf)) = (ty.scalar(), leaves.first()) else {
                    return Err(Error::new("only a scalar can be repeated as a vector"));
                };
                Ok(Value::Data(
                    Type::Vector(*size as u32, scalar),
                    Rc::from(vec![*leaf; *size as usize]),
                ))
            }
            Expression::Swizzle { size, vector, pattern } => {
                let (ty, leaves) = self.data(*vector)?;
                let components = pattern[..*size as usize].iter();
                let chosen: Option<Vec<_>> =
                    components.map(|at| leaves.get(*at as usize).copied()).collect();
                match (ty.scalar(), chosen) {
                    (Some(scalar), Some(chosen)) => {
                        Ok(Value::Data(Type::Vector(*size as u32, scalar), Rc::from(chosen)))
                    }
                    _ => Err(Error::new("a component does not exist")),
                }
            }
            Expression::Access { base, index } => {
                let index = self.scalar(*index)?;
                let base = self.value(*base)?;
                self.index(base, index)
            }
            Expression::AccessIndex { base, index } => {
                let base = self.value(*base)?;
                self.index(base, Operand::u32(*index))
            }
            Expression::FunctionArgument(index) => {
                let argument = self.frame()?.arguments.get(*index as usize).cloned();
                argument.ok_or_else(|| Error::new("an argument does not exist"))
            }
            Expression::GlobalVariable(variable) => {
                let pointer = self.variables.get(variable).cloned();
                Ok(Value::Pointer(
                    pointer.ok_or_else(|| Error::new("this kind of variable is not supported"))?,
                ))
            }
            Expression::LocalVariable(variable) => {
                let pointer = self.frame()?.locals.get(variable.index()).cloned();
                Ok(Value::Pointer(pointer.ok_or_else(|| Error::new("a variable does not exist"))?))
            }
            Expression::Load { pointer } => {
                let pointer = self.pointer(*pointer)?;
                self.load(&pointer, false)
            }
            Expression::ArrayLength(pointer) => {
                let pointer = self.pointer(*pointer)?;
                let (Place::Memory(memory), Some((_, None, stride))) =
                    (&pointer.place, pointer.ty.elements())
                else {
                    return Err(Error::new("arrayLength needs an array without a length"));
                };
                let length = self.array_length(memory, stride)?;
                Ok(Value::Data(Type::Scalar(Ty::U32), Rc::from([length])))
            }
            Expression::Unary { op, expr } => self.unary(*op, *expr),
            Expression::Binary { op, left, right } => self.binary(*op, *left, *right),
            Expression::Select { condition, accept, reject } => {
                self.select(*condition, *accept, *reject)
            }
            Expression::Relational { fun, argument } => self.relational(*fun, *argument),
            Expression::Math { fun, arg, arg1, arg2, arg3 } => {
                let handles = [Some(*arg), *arg1, *arg2, *arg3];
                let mut values = Vec::with_capacity(4);
                for handle in handles.into_iter().flatten() {
                    values.push(self.data(handle)?);
                }
                self.math(*fun, &values)
            }
            Expression::As { expr, kind, convert } => self.cast(*expr, *kind, *convert),
            Expression::Override(_) => Err(Error::new("an override has no value")),
            _ => Err(Error::new("a result is used before its statement")),
        }
    }

    /// Returns the value of a constant expression of the module.
    fn module_constant(&mut self, init: Handle<Expression>) -> Result<Value> {
        let Some(frame) = self.frames.first_mut() else {
            return Err(Error::new("no module is being lowered"));
        };
        if let Some(Some(value)) = frame.values.get(init.index()) {
            return Ok(value.clone());
        }
        // The first frame is that of the module. It becomes the current one for a moment.
        let last = self.frames.len() - 1;
        self.frames.swap(0, last);
        let span = self.span;
        let value = self.value(init);
        self.frames.swap(0, last);
        if value.is_ok() {
            self.span = span;
        }
        value
    }
}

fn constant(literal: Literal) -> Result<Value> {
    let (ty, bits) = match literal {
        Literal::F32(value) => (Ty::F32, u64::from(value.to_bits())),
        Literal::F16(value) => (Ty::F16, u64::from(half::from_f64(f64::from(value)))),
        Literal::U32(value) => (Ty::U32, u64::from(value)),
        Literal::I32(value) => (Ty::S32, u64::from(value as u32)),
        Literal::Bool(value) => (Ty::Pred, u64::from(value)),
        Literal::AbstractInt(value) => match i32::try_from(value) {
            Ok(value) => (Ty::S32, u64::from(value as u32)),
            Err(_) => return Err(Error::new("an integer does not fit into 32 bits")),
        },
        Literal::AbstractFloat(value) => (Ty::F32, u64::from((value as f32).to_bits())),
        _ => {
            return Err(Error::new("numbers of 64 bits and integers of 16 bits are not supported"))
        }
    };
    let class: Class = ty.class();
    Ok(Value::Data(Type::Scalar(ty), Rc::from([Operand::Const(class, bits)])))
}

/// Returns why an expression is not supported.
fn unsupported(expression: &Expression) -> Option<&'static str> {
    Some(match expression {
        Expression::ImageSample { .. }
        | Expression::ImageLoad { .. }
        | Expression::ImageQuery { .. } => "textures are not supported",
        Expression::CooperativeLoad { .. } | Expression::CooperativeMultiplyAdd { .. } => {
            "cooperative matrices are not supported"
        }
        Expression::Derivative { .. } => "derivatives are not supported in compute shaders",
        Expression::RayQueryVertexPositions { .. }
        | Expression::RayQueryProceedResult
        | Expression::RayQueryGetIntersection { .. } => "ray queries are not supported",
        _ => return None,
    })
}
