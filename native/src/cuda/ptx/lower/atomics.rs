//! Atomic operations.

use super::{Flow, Lowerer, Memory, Place, Value};
use crate::cuda::ptx::error::Error;
use crate::cuda::ptx::ir::{Access, AtomicOp, Inst, Op, Operand, Ty};
use crate::cuda::ptx::types::Type;
use naga::{AtomicFunction, Expression, Handle};
use std::rc::Rc;

impl Lowerer<'_> {
    pub(super) fn atomic(
        &mut self,
        pointer: Handle<Expression>,
        fun: &AtomicFunction,
        value: Handle<Expression>,
        result: Option<Handle<Expression>>,
    ) -> Flow {
        let pointer = self.pointer(pointer)?;
        let (Type::Atomic(ty), Place::Memory(memory)) = (&pointer.ty, &pointer.place) else {
            return Err(Error::new("an atomic operation needs a pointer to an atomic").into());
        };
        let mut value = self.scalar(value)?;
        let is_simple = matches!(fun, AtomicFunction::Add | AtomicFunction::Subtract)
            || matches!(fun, AtomicFunction::Exchange { compare: None });
        if *ty == Ty::F32 && !is_simple {
            return Err(Error::new("this atomic operation is not supported for f32").into());
        }
        let mut compare = None;
        let op = match fun {
            AtomicFunction::Add => AtomicOp::Add,
            AtomicFunction::Subtract => {
                value = self.b.op(Op::Neg(*ty), &[value]);
                AtomicOp::Add
            }
            AtomicFunction::And => AtomicOp::And,
            AtomicFunction::ExclusiveOr => AtomicOp::Xor,
            AtomicFunction::InclusiveOr => AtomicOp::Or,
            AtomicFunction::Min => AtomicOp::Min,
            AtomicFunction::Max => AtomicOp::Max,
            AtomicFunction::Exchange { compare: None } => AtomicOp::Exchange,
            AtomicFunction::Exchange { compare: Some(other) } => {
                let other = self.scalar(*other)?;
                compare = Some(other);
                AtomicOp::CompareExchange(other)
            }
        };
        let dst = self.reg(*ty);
        self.b.emit(Inst::Atomic { address: memory.address(), op, ty: *ty, dst: Some(dst), value });
        let Some(result) = result else { return Ok(()) };
        let old = Operand::Reg(dst);
        let value = match (compare, self.expression(result)?) {
            (Some(compare), Expression::AtomicResult { ty: structure, .. }) => {
                let is_exchanged =
                    self.b.op(Op::Compare(crate::cuda::ptx::ir::Cmp::Eq, Ty::U32), &[old, compare]);
                Value::Data(Type::new(self.module, *structure)?, Rc::from([old, is_exchanged]))
            }
            _ => Value::Data(Type::Scalar(*ty), Rc::from([old])),
        };
        self.define(result, value)?;
        Ok(())
    }

    /// Stores a number atomically.
    pub(super) fn store_atomic(&mut self, memory: &Memory, value: Operand) {
        let address = memory.address();
        self.b.emit(Inst::Store {
            address,
            access: Access::Relaxed,
            bytes: 4,
            values: vec![value],
        });
    }
}
