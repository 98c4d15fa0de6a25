//! Statements, except loops.

use super::{identity, Control, Flow, Lowerer, Place, Stop, Value};
use super::{MAX_EVALUATIONS, MAX_INSTRUCTIONS};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Cmp, Inst, Op, Operand, Ty};
use naga::{Barrier, Block, Expression, Handle, Statement, SwitchCase, SwitchValue};

/// The most operations of an `if` that becomes selects instead of jumps.
const MAX_SELECTED_OPERATIONS: usize = 12;

impl<'m> Lowerer<'m> {
    /// Lowers the statements of a block, until one of them leaves it.
    pub(super) fn block(&mut self, block: &'m Block) -> Flow {
        for (statement, span) in block.span_iter() {
            if !self.b.is_reachable {
                return Ok(());
            }
            self.at(*span);
            self.statement(statement)?;
            self.check_size()?;
        }
        Ok(())
    }

    fn check_size(&self) -> Flow {
        if let Some((instructions, evaluations)) = self.unroll_limit
            && (self.b.insts.len() > instructions || self.evaluations > evaluations)
        {
            return Err(Stop::TooLarge);
        }
        if self.b.insts.len() > MAX_INSTRUCTIONS || self.evaluations > MAX_EVALUATIONS {
            return Err(Error::new(format!(
                "a kernel must have at most {MAX_INSTRUCTIONS} instructions"
            ))
            .into());
        }
        Ok(())
    }

    fn statement(&mut self, statement: &'m Statement) -> Flow {
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    self.evaluate(handle)?;
                }
            }
            Statement::Block(block) => self.block(block)?,
            Statement::If { condition, accept, reject } => {
                self.branch(*condition, accept, reject)?
            }
            Statement::Switch { selector, cases } => self.switch(*selector, cases)?,
            Statement::Loop { body, continuing, break_if } => {
                self.repeat(body, continuing, *break_if)?
            }
            Statement::Break => self.leave(true)?,
            Statement::Continue => self.leave(false)?,
            Statement::Return { value } => self.ret(*value)?,
            Statement::ControlBarrier(barrier) => self.barrier(*barrier)?,
            Statement::MemoryBarrier(_) => {
                return Err(Error::new("memory barriers that do not wait are not supported").into());
            }
            Statement::Store { pointer, value } => self.store(*pointer, *value)?,
            Statement::Atomic { pointer, fun, value, result } => {
                self.atomic(*pointer, fun, *value, *result)?
            }
            Statement::WorkGroupUniformLoad { pointer, result } => {
                self.b.emit(Inst::Barrier);
                let pointer = self.pointer(*pointer)?;
                let value = self.load(&pointer, true)?;
                self.b.emit(Inst::Barrier);
                self.define(*result, value)?;
            }
            Statement::Call { function, arguments, result } => {
                let mut values = Vec::with_capacity(arguments.len());
                for argument in arguments {
                    values.push(self.value(*argument)?);
                }
                let called = &self.module.functions[*function];
                if let Some(name) = self.intrinsic(called) {
                    if let (Some(value), Some(result)) =
                        (self.instruction(name, called, &values)?, result)
                    {
                        self.define(*result, value)?;
                    }
                    return Ok(());
                }
                let call = (identity(statement) as u64).rotate_left(17);
                let path = (self.frame()?.path ^ call).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                let module = self.module;
                let value = self.inline(&module.functions[*function], values, path)?;
                if let (Some(result), Some(value)) = (result, value) {
                    self.define(*result, value)?;
                }
            }
            Statement::SubgroupBallot { result, predicate } => self.ballot(*result, *predicate)?,
            Statement::SubgroupGather { mode, argument, result } => {
                self.gather(mode, *argument, *result)?
            }
            Statement::SubgroupCollectiveOperation { op, collective_op, argument, result } => {
                self.collective(*op, *collective_op, *argument, *result)?;
            }
            Statement::CooperativeStore { .. } => {
                return Err(Error::new("cooperative matrices are not supported").into());
            }
            Statement::ImageStore { .. } | Statement::ImageAtomic { .. } => {
                return Err(Error::new("textures are not supported").into());
            }
            Statement::Kill => {
                return Err(Error::new("discard is not supported in compute shaders").into())
            }
            Statement::RayQuery { .. } | Statement::RayPipelineFunction(_) => {
                return Err(Error::new("ray queries are not supported").into());
            }
        }
        Ok(())
    }

    fn barrier(&mut self, barrier: Barrier) -> Flow {
        if barrier.contains(Barrier::TEXTURE) {
            return Err(Error::new("textures are not supported").into());
        }
        if barrier == Barrier::SUB_GROUP {
            let mask = self.mask();
            self.b.emit(Inst::WarpBarrier { mask });
        } else {
            self.b.emit(Inst::Barrier);
        }
        Ok(())
    }

    /// Lowers `break` or `continue`.
    fn leave(&mut self, is_break: bool) -> Flow {
        let join = self.controls.iter().rev().find_map(|control| match control {
            Control::Switch { break_join } => is_break.then_some(*break_join),
            Control::Loop { break_join, continue_join, .. } => {
                Some(if is_break { *break_join } else { *continue_join })
            }
        });
        let Some(join) = join else {
            return Err(Error::new("break and continue must be in a loop or switch").into());
        };
        self.is_partial |= self.divergence > 0;
        self.b.jump(join, &[], self.divergence == 0);
        Ok(())
    }

    fn ret(&mut self, value: Option<Handle<Expression>>) -> Flow {
        let leaves = match value {
            Some(value) => self.data(value)?.1,
            None => std::rc::Rc::from([]),
        };
        self.has_returned |= self.divergence > 0;
        let join = self.frame()?.return_join;
        self.b.jump(join, &leaves, self.divergence == 0);
        Ok(())
    }

    /// Notes that the innermost loop's exit is decided by a constant or not.
    pub(super) fn note_exit(&mut self, is_constant: bool) -> Flow {
        if let Some(Control::Loop { unroll: Some(unroll), .. }) = self.controls.last_mut() {
            if !is_constant && !unroll.has_constant_exit {
                return Err(Stop::NotConstant);
            }
            unroll.has_constant_exit = true;
        }
        Ok(())
    }

    fn branch(
        &mut self,
        condition: Handle<Expression>,
        accept: &'m Block,
        reject: &'m Block,
    ) -> Flow {
        let condition = self.scalar(condition)?;
        let is_unrolling =
            matches!(self.controls.last(), Some(Control::Loop { unroll: Some(_), .. }));
        if is_unrolling && (has_exit(accept, false) || has_exit(reject, false)) {
            self.note_exit(condition.bits().is_some())?;
        }
        if let Some(bits) = condition.bits() {
            return self.block(if bits != 0 { accept } else { reject });
        }
        let start = self.b.insts.len();
        let is_uniform = self.b.is_uniform(condition);
        let divergence = self.divergence;
        self.divergence += u32::from(!is_uniform);
        let join = self.b.open_join(self.b.env.len());
        let otherwise = self.b.label();
        self.b.emit(Inst::Jump { label: otherwise, condition: Some((condition, false)) });
        let before = self.b.env.clone();
        self.block(accept)?;
        self.b.jump(join, &[], self.divergence == 0);
        self.b.place(otherwise);
        self.b.env = before;
        self.block(reject)?;
        self.b.jump(join, &[], self.divergence == 0);
        self.divergence = divergence;
        if !self.b.close_with_selects(start, condition, MAX_SELECTED_OPERATIONS) {
            self.b.close_join();
        }
        Ok(())
    }

    fn switch(&mut self, selector: Handle<Expression>, cases: &'m [SwitchCase]) -> Flow {
        let selector = self.scalar(selector)?;
        let join = self.b.open_join(self.b.env.len());
        let divergence = self.divergence;
        let is_partial = self.is_partial;
        if selector.bits().is_none() && cases.iter().any(|case| has_exit(&case.body, true)) {
            self.note_exit(false)?;
        }
        self.controls.push(Control::Switch { break_join: join });
        match selector.bits32() {
            Some(value) => {
                let is_match = |case: &SwitchCase| case_value(case) == Some(value);
                let default = cases.iter().position(|case| case.value == SwitchValue::Default);
                let first = cases.iter().position(is_match).or(default).unwrap_or(cases.len());
                for case in &cases[first..] {
                    self.block(&case.body)?;
                    if !case.fall_through {
                        break;
                    }
                }
            }
            None => {
                self.divergence += u32::from(!self.b.is_uniform(selector));
                self.dynamic_switch(selector, cases, join)?;
            }
        }
        self.b.jump(join, &[], self.divergence == 0);
        self.controls.pop();
        self.divergence = divergence;
        // Lanes that left a case by `continue` do not come back here.
        self.is_partial |= is_partial;
        self.b.close_join();
        Ok(())
    }

    fn dynamic_switch(&mut self, selector: Operand, cases: &'m [SwitchCase], join: usize) -> Flow {
        // Cases that fall through have no body, so they share the label of the next one.
        let mut labels = vec![0; cases.len()];
        for at in (0..cases.len()).rev() {
            let shares =
                cases[at].fall_through && cases[at].body.is_empty() && at + 1 < cases.len();
            labels[at] = if shares { labels[at + 1] } else { self.b.label() };
        }
        let mut default = None;
        for (case, label) in cases.iter().zip(&labels) {
            match case_value(case) {
                Some(value) => {
                    let is_equal =
                        self.b.op(Op::Compare(Cmp::Eq, Ty::U32), &[selector, Operand::u32(value)]);
                    self.b.emit(Inst::Jump { label: *label, condition: Some((is_equal, true)) });
                }
                None => default = Some(*label),
            }
        }
        let before = self.b.env.clone();
        match default {
            Some(label) => {
                self.b.emit(Inst::Jump { label, condition: None });
                self.b.is_reachable = false;
            }
            None => self.b.jump(join, &[], self.divergence == 0),
        }
        for (at, case) in cases.iter().enumerate() {
            if at + 1 < cases.len() && labels[at] == labels[at + 1] {
                continue;
            }
            if case.fall_through {
                return Err(Error::new("cases of a switch must not fall through").into());
            }
            self.b.place(labels[at]);
            self.b.env.clone_from(&before);
            self.block(&case.body)?;
            self.b.jump(join, &[], self.divergence == 0);
        }
        Ok(())
    }

    fn store(&mut self, pointer: Handle<Expression>, value: Handle<Expression>) -> Flow {
        let pointer = self.pointer(pointer)?;
        let (_, leaves) = self.data(value)?;
        match &pointer.place {
            Place::Promoted { first } => {
                let first = *first;
                match self.b.env.get_mut(first..first + leaves.len()) {
                    Some(slots) => slots.copy_from_slice(&leaves),
                    None => {
                        return Err(Error::new("a variable is used outside its function").into())
                    }
                }
            }
            Place::Element { first, index, count, stride } => {
                for element in 0..*count {
                    let is_this =
                        self.b.op(Op::Compare(Cmp::Eq, Ty::U32), &[*index, Operand::u32(element)]);
                    for (leaf, value) in leaves.iter().enumerate() {
                        let slot = first + element as usize * stride + leaf;
                        let Some(old) = self.b.env.get(slot).copied() else {
                            return Err(
                                Error::new("a variable is used outside its function").into()
                            );
                        };
                        self.b.env[slot] = self.b.select(is_this, *value, old);
                    }
                }
            }
            Place::Memory(memory) => {
                if matches!(pointer.ty, crate::cuda::ptx::types::Type::Atomic(_)) {
                    self.store_atomic(memory, leaves[0]);
                } else {
                    self.store_memory(memory, &pointer.ty, &leaves)?;
                }
            }
        }
        Ok(())
    }

    /// Sets the value of an expression of the current function.
    pub(super) fn define(&mut self, handle: Handle<Expression>, value: Value) -> Result<()> {
        let frame =
            self.frames.last_mut().ok_or_else(|| Error::new("no function is being lowered"))?;
        match frame.values.get_mut(handle.index()) {
            Some(slot) => *slot = Some(value),
            None => return Err(Error::new("an expression does not exist")),
        }
        Ok(())
    }
}

fn case_value(case: &SwitchCase) -> Option<u32> {
    match case.value {
        SwitchValue::I32(value) => Some(value as u32),
        SwitchValue::U32(value) => Some(value),
        SwitchValue::Default => None,
    }
}

/// Returns whether a block has a `return`, or a `break` of the statement around it. `is_nested` is true inside of a loop or
/// switch in that statement.
fn has_exit(block: &Block, is_nested: bool) -> bool {
    block.iter().any(|statement| match statement {
        Statement::Break => !is_nested,
        Statement::Return { .. } => true,
        Statement::Block(block) => has_exit(block, is_nested),
        Statement::If { accept, reject, .. } => {
            has_exit(accept, is_nested) || has_exit(reject, is_nested)
        }
        Statement::Switch { cases, .. } => cases.iter().any(|case| has_exit(&case.body, true)),
        Statement::Loop { body, continuing, .. } => {
            has_exit(body, true) || has_exit(continuing, true)
        }
        _ => false,
    })
}
