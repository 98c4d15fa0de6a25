//! Subgroup operations. A subgroup is a warp of 32 threads.
//!
//! At a point that all threads of the workgroup reach together, the mask has all lanes, and reductions and scans take five
//! shuffles. At other points, the mask has the lanes that execute the operation together. If these are not all lanes, each
//! lane adds the values of the lanes of the mask one by one.

use super::globals::LANES;
use super::{Flow, Lowerer, Value};
use crate::cuda::ptx::error::Result;
use crate::cuda::ptx::ir::{Class, Cmp, Inst, Op, Operand, Shuffle, Ty, Vote};
use crate::cuda::ptx::types::Type;
use naga::{CollectiveOperation, Direction, Expression, GatherMode, Handle, SubgroupOperation};
use std::rc::Rc;

const ALL: Operand = Operand::u32(u32::MAX);

/// A reduction or scan of scalars.
#[derive(Clone, Copy)]
struct Collective {
    op: SubgroupOperation,
    kind: CollectiveOperation,
    ty: Ty,
}

impl Lowerer<'_> {
    /// Returns the mask of the lanes that execute this point together.
    pub(super) fn mask(&mut self) -> Operand {
        // Kernels for tensor cores run whole warps. `activemask` may miss lanes that are behind, so it is not used there.
        if self.options.has_intrinsics {
            return ALL;
        }
        let [x, y, z] = self.workgroup_size;
        let is_whole = x.wrapping_mul(y).wrapping_mul(z) % LANES == 0;
        if is_whole && self.divergence == 0 && !self.is_partial && !self.has_returned {
            return ALL;
        }
        let dst = self.b.reg(Class::B32, false);
        self.b.emit(Inst::ActiveMask { dst });
        Operand::Reg(dst)
    }

    pub(super) fn ballot(
        &mut self,
        result: Handle<Expression>,
        predicate: Option<Handle<Expression>>,
    ) -> Flow {
        let value = match predicate {
            Some(predicate) => self.scalar(predicate)?,
            None => Operand::bool(true),
        };
        let mask = self.mask();
        let dst = self.b.reg(Class::B32, false);
        self.b.emit(Inst::Vote { mode: Vote::Ballot, dst, value, mask });
        let zero = Operand::u32(0);
        let leaves = [Operand::Reg(dst), zero, zero, zero];
        self.define(result, Value::Data(Type::Vector(4, Ty::U32), Rc::from(leaves)))?;
        Ok(())
    }

    pub(super) fn gather(
        &mut self,
        mode: &GatherMode,
        argument: Handle<Expression>,
        result: Handle<Expression>,
    ) -> Flow {
        let (ty, leaves) = self.data(argument)?;
        let mask = self.mask();
        let own = self.lane();
        let (mode, lane) = match mode {
            GatherMode::BroadcastFirst => (Shuffle::Index, self.first_lane(mask)),
            GatherMode::Broadcast(lane) | GatherMode::Shuffle(lane) => {
                (Shuffle::Index, self.lane_operand(*lane)?)
            }
            GatherMode::ShuffleDown(lane) => (Shuffle::Down, self.lane_operand(*lane)?),
            GatherMode::ShuffleUp(lane) => (Shuffle::Up, self.lane_operand(*lane)?),
            GatherMode::ShuffleXor(lane) => (Shuffle::Xor, self.lane_operand(*lane)?),
            GatherMode::QuadBroadcast(index) => {
                let index = self.scalar(*index)?;
                let inside = self.b.op(Op::And, &[index, Operand::u32(3)]);
                let first = self.b.op(Op::And, &[own, Operand::u32(LANES - 4)]);
                (Shuffle::Index, self.b.op(Op::Or, &[first, inside]))
            }
            GatherMode::QuadSwap(direction) => {
                let bits = match direction {
                    Direction::X => 1,
                    Direction::Y => 2,
                    Direction::Diagonal => 3,
                };
                (Shuffle::Xor, Operand::u32(bits))
            }
        };
        let types = ty.leaf_types()?;
        let leaves: Vec<Operand> = leaves
            .iter()
            .zip(types)
            .map(|(leaf, ty)| self.shuffle(mode, ty, *leaf, lane, mask))
            .collect();
        self.define(result, Value::Data(ty, Rc::from(leaves)))?;
        Ok(())
    }

    fn lane_operand(&mut self, lane: Handle<Expression>) -> Result<Operand> {
        let lane = self.scalar(lane)?;
        Ok(self.b.op(Op::And, &[lane, Operand::u32(LANES - 1)]))
    }

    fn first_lane(&mut self, mask: Operand) -> Operand {
        let reversed = self.b.op(Op::Brev, &[mask]);
        self.b.op(Op::Clz, &[reversed])
    }

    /// Shuffles a scalar. Numbers of 16 bits and `bool` are widened to 32 bits.
    fn shuffle(
        &mut self,
        mode: Shuffle,
        ty: Ty,
        value: Operand,
        lane: Operand,
        mask: Operand,
    ) -> Operand {
        let wide = match ty {
            Ty::F16 => self.b.op(Op::Widen, &[value]),
            Ty::Pred => self.b.select(value, Operand::u32(1), Operand::u32(0)),
            _ => value,
        };
        let dst = self.b.reg(Class::B32, false);
        self.b.emit(Inst::Shuffle { mode, dst, value: wide, lane, mask });
        let result = Operand::Reg(dst);
        match ty {
            Ty::F16 => self.b.op(Op::Narrow, &[result]),
            Ty::Pred => self.b.op(Op::Compare(Cmp::Ne, Ty::U32), &[result, Operand::u32(0)]),
            _ => result,
        }
    }

    pub(super) fn collective(
        &mut self,
        op: SubgroupOperation,
        kind: CollectiveOperation,
        argument: Handle<Expression>,
        result: Handle<Expression>,
    ) -> Flow {
        let (ty, leaves) = self.data(argument)?;
        let types = ty.leaf_types()?;
        let mask = self.mask();
        let mut results = Vec::with_capacity(leaves.len());
        for (leaf, ty) in leaves.iter().zip(types) {
            if let SubgroupOperation::All | SubgroupOperation::Any = op {
                let mode = if op == SubgroupOperation::All { Vote::All } else { Vote::Any };
                let dst = self.b.reg(Class::Pred, false);
                self.b.emit(Inst::Vote { mode, dst, value: *leaf, mask });
                results.push(Operand::Reg(dst));
                continue;
            }
            let collective = Collective { op, kind, ty };
            results.push(if mask == ALL {
                self.collect_all(collective, *leaf)
            } else {
                self.collect_some(collective, *leaf, mask)
            });
        }
        self.define(result, Value::Data(ty, Rc::from(results)))?;
        Ok(())
    }

    /// Combines the values of all lanes, in five rounds of shuffles.
    fn collect_all(&mut self, collective: Collective, value: Operand) -> Operand {
        let Collective { op, kind, ty } = collective;
        let mut sum = value;
        if kind == CollectiveOperation::Reduce {
            for distance in [16, 8, 4, 2, 1] {
                let other = self.shuffle(Shuffle::Xor, ty, sum, Operand::u32(distance), ALL);
                sum = self.combine(op, ty, sum, other);
            }
            return sum;
        }
        let lane = self.lane();
        if kind == CollectiveOperation::ExclusiveScan {
            let before = self.shuffle(Shuffle::Up, ty, sum, Operand::u32(1), ALL);
            let is_first = self.b.op(Op::Compare(Cmp::Eq, Ty::U32), &[lane, Operand::u32(0)]);
            sum = self.b.select(is_first, neutral(op, ty), before);
        }
        for distance in [1, 2, 4, 8, 16] {
            let other = self.shuffle(Shuffle::Up, ty, sum, Operand::u32(distance), ALL);
            let next = self.combine(op, ty, other, sum);
            let is_inside =
                self.b.op(Op::Compare(Cmp::Ge, Ty::U32), &[lane, Operand::u32(distance)]);
            sum = self.b.select(is_inside, next, sum);
        }
        sum
    }

    /// Combines the values of the lanes of a mask, one by one.
    fn collect_some(&mut self, collective: Collective, value: Operand, mask: Operand) -> Operand {
        let Collective { op, kind, ty } = collective;
        let result = self.b.reg(value.class(), false);
        let rest = self.b.reg(Class::B32, false);
        let (fast, again, end) = (self.b.label(), self.b.label(), self.b.label());
        let is_all = self.b.op(Op::Compare(Cmp::Eq, Ty::U32), &[mask, ALL]);
        self.b.emit(Inst::Jump { label: fast, condition: Some((is_all, true)) });
        let lane = self.lane();
        self.b.emit(Inst::Copies(vec![(result, neutral(op, ty)), (rest, mask)]));
        self.b.place(again);
        let from = self.first_lane(Operand::Reg(rest));
        let other = self.shuffle(Shuffle::Index, ty, value, from, mask);
        let next = self.combine(op, ty, Operand::Reg(result), other);
        let next = match kind {
            CollectiveOperation::Reduce => next,
            CollectiveOperation::InclusiveScan | CollectiveOperation::ExclusiveScan => {
                let cmp =
                    if kind == CollectiveOperation::InclusiveScan { Cmp::Le } else { Cmp::Lt };
                let is_before = self.b.op(Op::Compare(cmp, Ty::U32), &[from, lane]);
                self.b.select(is_before, next, Operand::Reg(result))
            }
        };
        let less = self.b.op(Op::Sub(Ty::U32), &[Operand::Reg(rest), Operand::u32(1)]);
        let left = self.b.op(Op::And, &[Operand::Reg(rest), less]);
        self.b.emit(Inst::Copies(vec![(result, next), (rest, left)]));
        let has_more = self.b.op(Op::Compare(Cmp::Ne, Ty::U32), &[left, Operand::u32(0)]);
        self.b.emit(Inst::Jump { label: again, condition: Some((has_more, true)) });
        self.b.emit(Inst::Jump { label: end, condition: None });
        self.b.place(fast);
        let all = self.collect_all(collective, value);
        self.b.emit(Inst::Copies(vec![(result, all)]));
        self.b.place(end);
        Operand::Reg(result)
    }

    fn combine(&mut self, op: SubgroupOperation, ty: Ty, x: Operand, y: Operand) -> Operand {
        match op {
            SubgroupOperation::Mul => self.b.op(Op::Mul(ty), &[x, y]),
            SubgroupOperation::Min => self.min_max(ty, x, y, false),
            SubgroupOperation::Max => self.min_max(ty, x, y, true),
            SubgroupOperation::And | SubgroupOperation::All => self.b.op(Op::And, &[x, y]),
            SubgroupOperation::Or | SubgroupOperation::Any => self.b.op(Op::Or, &[x, y]),
            SubgroupOperation::Xor => self.b.op(Op::Xor, &[x, y]),
            SubgroupOperation::Add => self.b.op(Op::Add(ty), &[x, y]),
        }
    }
}

/// Returns the value that changes no other value. For minima and maxima of floating-point numbers it is infinite.
fn neutral(op: SubgroupOperation, ty: Ty) -> Operand {
    let half = |bits: u64| Operand::Const(Class::B16, bits);
    match (op, ty) {
        (SubgroupOperation::Mul, Ty::F32) => Operand::f32(1.0),
        (SubgroupOperation::Mul, Ty::F16) => half(0x3c00),
        (SubgroupOperation::Mul, _) => Operand::u32(1),
        (SubgroupOperation::Min, Ty::F32) => Operand::f32(f32::INFINITY),
        (SubgroupOperation::Min, Ty::F16) => half(0x7c00),
        (SubgroupOperation::Min, Ty::S32) => Operand::u32(i32::MAX as u32),
        (SubgroupOperation::Max, Ty::F32) => Operand::f32(f32::NEG_INFINITY),
        (SubgroupOperation::Max, Ty::F16) => half(0xfc00),
        (SubgroupOperation::Max, Ty::S32) => Operand::u32(i32::MIN as u32),
        (SubgroupOperation::Min | SubgroupOperation::And, _) => Operand::u32(u32::MAX),
        (_, ty) => Operand::Const(ty.class(), 0),
    }
}
