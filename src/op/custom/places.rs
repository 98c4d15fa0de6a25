//! References to variables and their parts, and the initial values of types.

use super::compile::{Compiler, Frame};
use super::steps::Value;
use crate::dtype::DType;
use crate::error::Result;
use naga::{Expression, Handle, LocalVariable, Span, TypeInner};

/// An index in the path to a part of a variable.
pub(super) enum Part {
    Known(usize),
    /// An index that a step computes.
    Computed(u32),
}

/// A variable, and the path to a part of it.
pub(super) type Place = (Handle<LocalVariable>, Vec<Part>);

impl<'a> Compiler<'a> {
    /// Returns the variable, and the part of it, that a pointer expression refers to.
    pub fn place(
        &mut self,
        frame: &mut Frame<'a>,
        pointer: Handle<Expression>,
    ) -> Result<Option<Place>> {
        let (base, part) = match &frame.function.expressions[pointer] {
            Expression::LocalVariable(variable) => return Ok(Some((*variable, Vec::new()))),
            Expression::AccessIndex { base, index } => (*base, Err(*index as usize)),
            Expression::Access { base, index } => (*base, Ok(*index)),
            _ => return Ok(None),
        };
        let Some((variable, mut parts)) = self.place(frame, base)? else { return Ok(None) };
        parts.push(match part {
            Err(known) => Part::Known(known),
            Ok(index) => {
                let index = self.scalar(frame, index)?;
                match self.writer.known(index) {
                    Some(known) => Part::Known(known as usize),
                    None => Part::Computed(index),
                }
            }
        });
        Ok(Some((variable, parts)))
    }

    /// Loads the value that a pointer expression refers to.
    pub fn load(&mut self, frame: &mut Frame<'a>, pointer: Handle<Expression>) -> Result<Value> {
        let span = frame.function.expressions.get_span(pointer);
        let Some((variable, parts)) = self.place(frame, pointer)? else {
            return Err(self.refuse(span, "a pointer"));
        };
        let mut value = frame.state.locals[&variable].clone();
        for part in parts {
            value = match part {
                Part::Known(at) => value.part(at),
                Part::Computed(at) => self.writer.element(&value, at),
            };
        }
        Ok(value)
    }

    /// Returns `whole` with one part replaced.
    pub fn put(&mut self, whole: &Value, parts: &[Part], value: &Value) -> Value {
        let Some((first, rest)) = parts.split_first() else { return value.clone() };
        let mut all = whole.parts();
        match first {
            Part::Known(at) => {
                let at = (*at).min(all.len().saturating_sub(1));
                all[at] = self.put(&all[at].clone(), rest, value);
            }
            Part::Computed(index) => {
                for (at, part) in all.iter_mut().enumerate() {
                    let new = self.put(part, rest, value);
                    let here = self.writer.is(*index, at);
                    *part = self.writer.choose(here, &new, part);
                }
            }
        }
        Value::Composite(all)
    }

    /// Returns the zero value of a type.
    pub fn zero(&mut self, of: Handle<naga::Type>, span: Span) -> Result<Value> {
        let several = |this: &mut Self, ty, count: usize| -> Result<Value> {
            if count > 256 {
                return Err(this.refuse(span, "an array of more than 256 elements"));
            }
            let one = this.zero(ty, span)?;
            Ok(Value::Composite(vec![one; count]))
        };
        match &self.module.types[of].inner {
            TypeInner::Scalar(scalar) => {
                let dtype = self.dtype(*scalar, span)?;
                Ok(Value::Scalar(self.writer.constant(dtype, 0)))
            }
            TypeInner::Vector { size, scalar } => {
                let dtype = self.dtype(*scalar, span)?;
                let zero = Value::Scalar(self.writer.constant(dtype, 0));
                Ok(Value::Composite(vec![zero; *size as usize]))
            }
            TypeInner::Array { base, size: naga::ArraySize::Constant(count), .. } => {
                several(self, *base, count.get() as usize)
            }
            TypeInner::Struct { members, .. } => {
                let mut all = Vec::with_capacity(members.len());
                for member in members {
                    all.push(self.zero(member.ty, span)?);
                }
                Ok(Value::Composite(all))
            }
            _ => Err(self.refuse(span, "a value of this type")),
        }
    }

    /// Returns the element type of a scalar type.
    pub fn dtype(&self, scalar: naga::Scalar, span: Span) -> Result<DType> {
        use naga::ScalarKind::{Bool, Float, Sint, Uint};
        match (scalar.kind, scalar.width) {
            (Float, 4) => Ok(DType::F32),
            (Sint, 4) => Ok(DType::I32),
            (Uint, 4) => Ok(DType::U32),
            (Bool, _) => Ok(DType::Bool),
            _ => Err(self.refuse(span, "a number of this type")),
        }
    }

    /// Returns the value of an expression that must be one number.
    pub fn scalar(&mut self, frame: &mut Frame<'a>, handle: Handle<Expression>) -> Result<u32> {
        match self.value(frame, handle)? {
            Value::Scalar(step) => Ok(step),
            Value::Composite(_) => {
                let span = frame.function.expressions.get_span(handle);
                Err(self.refuse(span, "a vector here"))
            }
        }
    }
}
