//! Functions and their variables. All calls are inlined.

use super::{variable_id, Flow, Frame, Lowerer, Memory, Place, Pointer, Value, VariableId};
use super::{MAX_CALL_DEPTH, MAX_PROMOTED_LEAVES};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Op, Operand, Space};
use crate::cuda::ptx::types::Type;
use naga::{Function, Span};
use std::rc::Rc;

impl<'m> Lowerer<'m> {
    /// Makes a frame for the constant expressions of the module.
    pub(super) fn enter_globals(&mut self) {
        let frame = Frame {
            function: self.globals,
            values: vec![None; self.globals.expressions.len()],
            arguments: Vec::new(),
            locals: Vec::new(),
            return_join: usize::MAX,
            path: 0,
        };
        self.frames.push(frame);
    }

    /// Lowers a function's body here, and returns its result.
    pub(super) fn inline(
        &mut self,
        function: &'m Function,
        arguments: Vec<Value>,
        path: u64,
    ) -> std::result::Result<Option<Value>, super::Stop> {
        if self.frames.len() > MAX_CALL_DEPTH {
            return Err(Error::new(format!(
                "functions must call each other at most {MAX_CALL_DEPTH} levels deep"
            ))
            .into());
        }
        let outside = self.b.env.len();
        let return_join = self.b.open_join(outside);
        let saved = (self.is_partial, self.has_returned, self.local_top, self.span);
        let controls = std::mem::take(&mut self.controls);
        self.frames.push(Frame {
            function,
            values: vec![None; function.expressions.len()],
            arguments,
            locals: Vec::new(),
            return_join,
            path,
        });
        let outcome = self.body(function);
        self.frames.pop();
        self.controls = controls;
        outcome?;
        self.b.jump(return_join, &[], self.divergence == 0);
        self.b.close_join();
        (self.is_partial, self.has_returned, self.local_top, self.span) = saved;
        let Some(result) = &function.result else {
            self.b.env.truncate(outside);
            self.owners.truncate(outside);
            return Ok(None);
        };
        let ty = Type::new(self.module, result.ty)?;
        let leaves = if self.b.is_reachable {
            self.b.env.split_off(outside.min(self.b.env.len()))
        } else {
            ty.zeros()?
        };
        self.b.env.truncate(outside);
        self.owners.truncate(outside);
        if leaves.len() != ty.leaves() {
            return Err(Error::new("a function ends without a result").into());
        }
        Ok(Some(Value::Data(ty, Rc::from(leaves))))
    }

    fn body(&mut self, function: &'m Function) -> Flow {
        for (handle, variable) in function.local_variables.iter() {
            self.span = function.local_variables.get_span(handle);
            let ty = Type::new(self.module, variable.ty)?;
            let init = match variable.init {
                Some(init) => Some(self.data(init)?.1),
                None => None,
            };
            let place = self.declare_variable(variable_id(function, handle), &ty, init)?;
            if let Some(frame) = self.frames.last_mut() {
                frame.locals.push(Pointer { ty, place });
            }
        }
        self.block(&function.body)
    }

    /// Declares a variable and initializes it.
    pub(super) fn declare_variable(
        &mut self,
        id: VariableId,
        ty: &Type,
        init: Option<Rc<[Operand]>>,
    ) -> Result<Place> {
        if ty.leaves() <= MAX_PROMOTED_LEAVES && !self.attempt.in_memory.contains(&id) {
            let first = self.b.env.len();
            match init {
                Some(leaves) => self.b.env.extend_from_slice(&leaves),
                None => self.b.env.extend(ty.zeros()?),
            }
            self.owners.resize(self.b.env.len(), id);
            return Ok(Place::Promoted { first });
        }
        let start = self.allocate_local(ty.bytes())?;
        let base = self.b.entry_op(Op::LocalBase, &[], false);
        let memory = Memory::new(Space::Local, base, i64::from(start));
        match init {
            Some(leaves) => self.store_memory(&memory, ty, &leaves)?,
            None => {
                let bytes = (ty.bytes() as u32).next_multiple_of(16);
                let end = self.allocate_local(0)?;
                self.local_top = self.local_top.max(end).max(start + bytes);
                self.local_bytes = self.local_bytes.max(self.local_top);
                let first = self.b.op(
                    Op::Add(crate::cuda::ptx::ir::Ty::U64),
                    &[base, Operand::Const(crate::cuda::ptx::ir::Class::B64, u64::from(start))],
                );
                self.zero_memory(Space::Local, first, bytes, Operand::u32(0), 1);
            }
        }
        Ok(Place::Memory(memory))
    }

    /// Returns the location for errors, of a statement.
    pub(super) fn at(&mut self, span: Span) {
        if span.is_defined() {
            self.span = span;
        }
    }
}
