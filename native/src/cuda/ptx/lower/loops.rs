//! Loops.
//!
//! A loop is unrolled if a constant decides in every round whether it ends, and if it is small enough. Lowering tries it: it
//! lowers round after round, and returns to the state before the loop if a round fails. A `for` loop with a limit that is not
//! constant fails at its first condition, before its body is lowered. A loop that failed is not tried again.
//!
//! A loop that is not unrolled gets a register for every promoted variable that it assigns.

use super::{identity, Control, Flow, Lowerer, Place, Stop, Unroll};
use crate::cuda::ptx::error::Result;
use crate::cuda::ptx::ir::{Inst, Operand};
use naga::{Block, Expression, Handle, Statement};
use std::collections::BTreeSet;

/// The most rounds of an unrolled loop.
const MAX_ROUNDS: usize = 4096;
/// The most evaluations of an unrolled loop, per instruction of its limit. Expressions may have many operations or none.
const EVALUATIONS_PER_INSTRUCTION: usize = 2;

impl<'m> Lowerer<'m> {
    /// Lowers a loop.
    pub(super) fn repeat(
        &mut self,
        body: &'m Block,
        continuing: &'m Block,
        break_if: Option<Handle<Expression>>,
    ) -> Flow {
        let key = (identity(body), self.frame()?.path);
        if self.attempt.max_unrolled > 0 && !self.rolled.contains(&key) {
            if self.try_unroll(body, continuing, break_if)? {
                return Ok(());
            }
            self.rolled.insert(key);
        }
        self.rolled_loop(body, continuing, break_if)
    }

    /// Unrolls a loop, or returns false and changes nothing.
    fn try_unroll(
        &mut self,
        body: &'m Block,
        continuing: &'m Block,
        break_if: Option<Handle<Expression>>,
    ) -> std::result::Result<bool, Stop> {
        let checkpoint = self.b.checkpoint();
        let lengths = (self.frames.len(), self.controls.len(), self.owners.len());
        let flags =
            (self.divergence, self.is_partial, self.has_returned, self.local_top, self.span);
        let dynamic = self.dynamic.clone();
        let is_outermost = self.unroll_limit.is_none();
        if is_outermost {
            let most = self.attempt.max_unrolled;
            let evaluations = self.evaluations + most * EVALUATIONS_PER_INSTRUCTION;
            self.unroll_limit = Some((self.b.insts.len() + most, evaluations));
        }
        let outcome = self.rounds(body, continuing, break_if);
        if is_outermost {
            self.unroll_limit = None;
        }
        match outcome {
            Ok(()) => {
                self.is_partial = flags.1;
                return Ok(true);
            }
            Err(Stop::NotConstant) => {}
            Err(Stop::TooLarge) if is_outermost => {}
            Err(stop) => return Err(stop),
        }
        self.b.rollback(checkpoint);
        self.frames.truncate(lengths.0);
        self.controls.truncate(lengths.1);
        self.owners.truncate(lengths.2);
        (self.divergence, self.is_partial, self.has_returned, self.local_top, self.span) = flags;
        self.dynamic = dynamic;
        Ok(false)
    }

    fn rounds(
        &mut self,
        body: &'m Block,
        continuing: &'m Block,
        break_if: Option<Handle<Expression>>,
    ) -> Flow {
        let divergence = self.divergence;
        let break_join = self.b.open_join(self.b.env.len());
        for _ in 0..MAX_ROUNDS {
            let continue_join = self.b.open_join(self.b.env.len());
            self.controls.push(Control::Loop {
                break_join,
                continue_join,
                unroll: Some(Unroll::default()),
            });
            self.block(body)?;
            self.b.jump(continue_join, &[], self.divergence == 0);
            self.b.close_join();
            if self.b.is_reachable {
                self.block(continuing)?;
            }
            if self.b.is_reachable {
                self.break_if(break_if, break_join)?;
            }
            let has_constant_exit = match self.controls.pop() {
                Some(Control::Loop { unroll: Some(unroll), .. }) => unroll.has_constant_exit,
                _ => false,
            };
            if !self.b.is_reachable {
                self.divergence = divergence;
                self.b.close_join();
                return Ok(());
            }
            if !has_constant_exit {
                return Err(Stop::NotConstant);
            }
        }
        // More rounds than this are treated like an exit that is not constant, because only this loop is at fault.
        Err(Stop::NotConstant)
    }

    fn break_if(&mut self, break_if: Option<Handle<Expression>>, break_join: usize) -> Flow {
        let Some(condition) = break_if else { return Ok(()) };
        let condition = self.scalar(condition)?;
        self.note_exit(condition.bits().is_some())?;
        match condition.bits() {
            Some(0) => {}
            Some(_) => self.b.jump(break_join, &[], self.divergence == 0),
            None => {
                let is_uniform = self.b.is_uniform(condition) && self.divergence == 0;
                self.is_partial |= !is_uniform;
                self.b.jump_if(break_join, condition, true, is_uniform);
            }
        }
        Ok(())
    }

    fn rolled_loop(
        &mut self,
        body: &'m Block,
        continuing: &'m Block,
        break_if: Option<Handle<Expression>>,
    ) -> Flow {
        let mut assigned = BTreeSet::new();
        self.find_assigned(body, &mut assigned)?;
        self.find_assigned(continuing, &mut assigned)?;
        let (divergence, is_partial) = (self.divergence, self.is_partial);
        // Threads may leave the loop in different rounds.
        self.divergence += 1;
        let mut headers = Vec::new();
        let mut first = Vec::new();
        for slot in assigned {
            if let Some(value) = self.b.env.get(slot).copied() {
                let reg = self.b.reg(value.class(), false);
                headers.push((slot, reg));
                first.push((reg, value));
                self.b.env[slot] = Operand::Reg(reg);
            }
        }
        self.b.emit(Inst::Copies(first));
        let again = self.b.label();
        self.b.place(again);
        let break_join = self.b.open_join(self.b.env.len());
        let continue_join = self.b.open_join(self.b.env.len());
        self.controls.push(Control::Loop { break_join, continue_join, unroll: None });
        self.block(body)?;
        self.b.jump(continue_join, &[], false);
        self.b.close_join();
        if self.b.is_reachable {
            self.block(continuing)?;
        }
        if self.b.is_reachable {
            self.break_if(break_if, break_join)?;
        }
        if self.b.is_reachable {
            let next = headers.iter().map(|(slot, reg)| (*reg, self.b.env[*slot])).collect();
            self.b.emit(Inst::Copies(next));
            self.b.emit(Inst::Jump { label: again, condition: None });
            self.b.is_reachable = false;
        }
        self.controls.pop();
        (self.divergence, self.is_partial) = (divergence, is_partial);
        self.b.close_join();
        Ok(())
    }

    /// Adds the values of the environment that a block may assign.
    fn find_assigned(&self, block: &Block, assigned: &mut BTreeSet<usize>) -> Result<()> {
        for statement in block.iter() {
            match statement {
                Statement::Store { pointer, .. } => self.add_root(*pointer, assigned)?,
                Statement::Call { arguments, .. } => {
                    for argument in arguments {
                        self.add_root(*argument, assigned)?;
                    }
                    // The function may assign variables of the module.
                    self.variables.values().for_each(|pointer| add_slots(pointer, assigned));
                }
                Statement::Block(block) => self.find_assigned(block, assigned)?,
                Statement::If { accept, reject, .. } => {
                    self.find_assigned(accept, assigned)?;
                    self.find_assigned(reject, assigned)?;
                }
                Statement::Switch { cases, .. } => {
                    for case in cases {
                        self.find_assigned(&case.body, assigned)?;
                    }
                }
                Statement::Loop { body, continuing, .. } => {
                    self.find_assigned(body, assigned)?;
                    self.find_assigned(continuing, assigned)?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Adds the variable that a pointer is based on.
    fn add_root(&self, pointer: Handle<Expression>, assigned: &mut BTreeSet<usize>) -> Result<()> {
        let frame = self.frame()?;
        let mut at = pointer;
        loop {
            let root = match self.expression(at)? {
                Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => {
                    at = *base;
                    continue;
                }
                Expression::LocalVariable(variable) => frame.locals.get(variable.index()),
                Expression::GlobalVariable(variable) => self.variables.get(variable),
                Expression::FunctionArgument(index) => match frame.arguments.get(*index as usize) {
                    Some(super::Value::Pointer(pointer)) => Some(pointer),
                    _ => None,
                },
                _ => None,
            };
            if let Some(pointer) = root {
                add_slots(pointer, assigned);
            }
            return Ok(());
        }
    }
}

fn add_slots(pointer: &super::Pointer, assigned: &mut BTreeSet<usize>) {
    match &pointer.place {
        Place::Promoted { first } => assigned.extend(*first..first + pointer.ty.leaves()),
        Place::Element { first, count, stride, .. } => {
            assigned.extend(*first..first + *count as usize * stride)
        }
        Place::Memory(_) => {}
    }
}
