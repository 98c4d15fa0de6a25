//! The builder of a program in the linear IR.
//!
//! The builder folds constants, and reuses the result of an equal operation since the last label. It also tracks which value
//! each promoted variable has at this point of the program. The values of all variables are the environment. A value is a
//! constant or a register that is not written again while the value is used, so an assignment of a variable is no instruction.
//!
//! Where paths meet, at a join, variables with different values get a register, which every path writes before it jumps there.
//! These registers take the role of the phi instructions of SSA. Because a loop's variables are only known after its body, the
//! registers of variables that the loop assigns are made before it.

use crate::cuda::ptx::fold::fold;
use crate::cuda::ptx::ir::{Address, Class, Inst, Op, Operand, Reg};
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A fast hash of small keys that nobody chooses to collide.
#[derive(Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0 ^ (self.0 >> 32)
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_isize(&mut self, value: isize) {
        self.write_u64(value as u64);
    }
}

/// The results of operations.
type Known = HashMap<(Op, [Operand; 3]), Operand, BuildHasherDefault<KeyHasher>>;

/// A point of the program where paths meet.
struct Join {
    label: u32,
    /// The variables that exist at the label. More values can follow them, such as the result of a function.
    variables: usize,
    /// Each path, by the index of its copies and the values that it brings.
    incoming: Vec<(usize, Vec<Operand>)>,
    /// Whether all paths are taken by all threads of a subgroup together.
    is_uniform: bool,
}

/// A state to which the builder can return.
pub struct Checkpoint {
    instructions: usize,
    env: Vec<Operand>,
    joins: Vec<usize>,
    is_reachable: bool,
}

/// The builder.
#[derive(Default)]
pub struct Builder {
    pub insts: Vec<Inst>,
    /// Instructions at the beginning of the program, such as addresses of buffers.
    prologue: Vec<Inst>,
    known: Known,
    known_at_entry: Known,
    /// The values of promoted variables.
    pub env: Vec<Operand>,
    joins: Vec<Join>,
    /// Whether each register has the same value in all threads of a workgroup.
    uniform: Vec<bool>,
    labels: u32,
    /// Whether control can reach this point. Nothing is emitted otherwise.
    pub is_reachable: bool,
}

const UNUSED: Operand = Operand::u32(0);

impl Builder {
    /// Makes an empty program.
    pub fn new() -> Builder {
        Builder { is_reachable: true, ..Builder::default() }
    }

    /// Makes a register.
    pub fn reg(&mut self, class: Class, is_uniform: bool) -> Reg {
        self.uniform.push(is_uniform);
        Reg { id: self.uniform.len() as u32 - 1, class }
    }

    /// Returns the number of registers.
    pub fn registers(&self) -> u32 {
        self.uniform.len() as u32
    }

    /// Makes a label.
    pub fn label(&mut self) -> u32 {
        self.labels += 1;
        self.labels
    }

    /// Whether the operand has the same value in all threads of a workgroup.
    pub fn is_uniform(&self, operand: Operand) -> bool {
        match operand {
            Operand::Reg(reg) => self.uniform.get(reg.id as usize).copied().unwrap_or(false),
            Operand::Const(..) => true,
        }
    }

    /// Emits an operation and returns its result.
    pub fn op(&mut self, op: Op, args: &[Operand]) -> Operand {
        if let Some(value) = fold(op, args) {
            return value;
        }
        let mut key = [UNUSED; 3];
        key[..args.len()].copy_from_slice(args);
        if let Some(value) =
            self.known_at_entry.get(&(op, key)).or_else(|| self.known.get(&(op, key)))
        {
            return *value;
        }
        let is_uniform = args.iter().all(|arg| self.is_uniform(*arg));
        let dst = self.reg(op.result(key[0].class()), is_uniform);
        self.emit(Inst::Pure { op, dst, args: key });
        self.known.insert((op, key), Operand::Reg(dst));
        Operand::Reg(dst)
    }

    /// Emits an operation at the beginning of the program, where its operands must be known.
    pub fn entry_op(&mut self, op: Op, args: &[Operand], is_uniform: bool) -> Operand {
        if let Some(value) = fold(op, args) {
            return value;
        }
        let mut key = [UNUSED; 3];
        key[..args.len()].copy_from_slice(args);
        if let Some(value) = self.known_at_entry.get(&(op, key)) {
            return *value;
        }
        let dst = self.reg(op.result(key[0].class()), is_uniform);
        self.prologue.push(Inst::Pure { op, dst, args: key });
        self.known_at_entry.insert((op, key), Operand::Reg(dst));
        Operand::Reg(dst)
    }

    /// Emits an instruction, unless this point is unreachable.
    pub fn emit(&mut self, inst: Inst) {
        if self.is_reachable {
            self.insts.push(inst);
        }
    }

    /// Emits a load of as many numbers as there are registers.
    pub fn load(
        &mut self,
        address: Address,
        access: crate::cuda::ptx::ir::Access,
        bytes: u32,
        dst: Vec<Reg>,
    ) {
        self.emit(Inst::Load { address, access, bytes, dst });
    }

    /// Emits a label. Control reaches it by jumps, too.
    pub fn place(&mut self, label: u32) {
        self.known.clear();
        self.is_reachable = true;
        self.insts.push(Inst::Label(label));
    }

    /// Makes a join. The environment there has the first `variables` variables.
    pub fn open_join(&mut self, variables: usize) -> usize {
        let label = self.label();
        self.joins.push(Join { label, variables, incoming: Vec::new(), is_uniform: true });
        self.joins.len() - 1
    }

    /// Jumps to a join. `extra` values are handed over with the variables.
    pub fn jump(&mut self, join: usize, extra: &[Operand], is_uniform: bool) {
        if !self.is_reachable {
            return;
        }
        let Some(target) = self.joins.get_mut(join) else { return };
        let count = target.variables.min(self.env.len());
        let mut values = self.env[..count].to_vec();
        values.extend_from_slice(extra);
        target.incoming.push((self.insts.len(), values));
        target.is_uniform &= is_uniform;
        let label = target.label;
        self.emit(Inst::Copies(Vec::new()));
        self.emit(Inst::Jump { label, condition: None });
        self.is_reachable = false;
    }

    /// Jumps to a join if the condition equals `expected`.
    pub fn jump_if(&mut self, join: usize, condition: Operand, expected: bool, is_uniform: bool) {
        if !self.is_reachable {
            return;
        }
        let skip = self.label();
        self.emit(Inst::Jump { label: skip, condition: Some((condition, !expected)) });
        self.jump(join, &[], is_uniform);
        self.place(skip);
    }

    /// Closes the last join, and continues there with the merged environment. The extra values follow the variables.
    pub fn close_join(&mut self) {
        let Some(join) = self.joins.pop() else { return };
        let Some((at, first)) = join.incoming.first() else {
            self.is_reachable = false;
            return;
        };
        if join.incoming.len() == 1 && at + 2 == self.insts.len() {
            // The only path ends here, so it needs no label.
            self.insts.truncate(*at);
            self.env = first.clone();
            self.is_reachable = true;
            return;
        }
        let mut merged = first.clone();
        for (slot, merged) in merged.iter_mut().enumerate() {
            let same = join.incoming.iter().all(|(_, values)| values.get(slot) == Some(merged));
            if same {
                continue;
            }
            let uniform = join
                .incoming
                .iter()
                .all(|(_, values)| values.get(slot).is_some_and(|value| self.is_uniform(*value)));
            let reg = self.reg(merged.class(), uniform && join.is_uniform);
            for (at, values) in &join.incoming {
                if let (Some(Inst::Copies(copies)), Some(value)) =
                    (self.insts.get_mut(*at), values.get(slot))
                {
                    copies.push((reg, *value));
                }
            }
            *merged = Operand::Reg(reg);
        }
        self.env = merged;
        self.place(join.label);
    }

    /// Closes the last join, of an `if` whose jump is at `start`, without jumps: both arms are executed, and their values are
    /// selected. Returns false and changes nothing if the arms have side effects or more than `limit` operations.
    pub fn close_with_selects(&mut self, start: usize, condition: Operand, limit: usize) -> bool {
        let Some(join) = self.joins.last() else { return false };
        let [(_, accept), (_, reject)] = join.incoming.as_slice() else { return false };
        let end = self.insts.len();
        if end > start + limit + 6 {
            return false;
        }
        let (accept, reject) = (accept.clone(), reject.clone());
        let jumps = |inst: &Inst| !matches!(inst, Inst::Pure { .. });
        // A jump over the first arm, the end of the first arm, a label, and the end of the second arm.
        if self.insts[start..].iter().filter(|inst| jumps(inst)).count() != 6 {
            return false;
        }
        let arms = self.insts.split_off(start);
        self.insts.extend(arms.into_iter().filter(|inst| matches!(inst, Inst::Pure { .. })));
        self.joins.pop();
        self.is_reachable = true;
        self.known.clear();
        self.env = reject;
        for (slot, accept) in accept.into_iter().enumerate() {
            let reject = self.env[slot];
            self.env[slot] =
                if accept == reject { reject } else { self.select(condition, accept, reject) };
        }
        true
    }

    /// Returns the state, to come back to.
    pub fn checkpoint(&self) -> Checkpoint {
        Checkpoint {
            instructions: self.insts.len(),
            env: self.env.clone(),
            joins: self.joins.iter().map(|join| join.incoming.len()).collect(),
            is_reachable: self.is_reachable,
        }
    }

    /// Removes everything since the checkpoint, except the prologue.
    pub fn rollback(&mut self, checkpoint: Checkpoint) {
        self.insts.truncate(checkpoint.instructions);
        self.env = checkpoint.env;
        self.joins.truncate(checkpoint.joins.len());
        for (join, count) in self.joins.iter_mut().zip(checkpoint.joins) {
            join.incoming.truncate(count);
        }
        self.is_reachable = checkpoint.is_reachable;
        self.known.clear();
    }

    /// Returns the whole program.
    pub fn finish(mut self) -> Vec<Inst> {
        self.prologue.append(&mut self.insts);
        self.prologue
    }
}

/// Shorthands for operations of one type, which make formulas readable.
impl Builder {
    /// Returns the sum of two `f32`.
    pub fn add(&mut self, a: Operand, b: Operand) -> Operand {
        self.op(Op::Add(crate::cuda::ptx::ir::Ty::F32), &[a, b])
    }

    /// Returns the difference of two `f32`.
    pub fn sub(&mut self, a: Operand, b: Operand) -> Operand {
        self.op(Op::Sub(crate::cuda::ptx::ir::Ty::F32), &[a, b])
    }

    /// Returns the product of two `f32`.
    pub fn mul(&mut self, a: Operand, b: Operand) -> Operand {
        self.op(Op::Mul(crate::cuda::ptx::ir::Ty::F32), &[a, b])
    }

    /// Returns the quotient of two `f32`.
    pub fn div(&mut self, a: Operand, b: Operand) -> Operand {
        self.op(Op::Div(crate::cuda::ptx::ir::Ty::F32), &[a, b])
    }

    /// Returns `a * b + c` of `f32` with one rounding.
    pub fn fma(&mut self, a: Operand, b: Operand, c: Operand) -> Operand {
        self.op(Op::Fma(crate::cuda::ptx::ir::Ty::F32), &[a, b, c])
    }

    /// Returns `-a` of an `f32`.
    pub fn neg(&mut self, a: Operand) -> Operand {
        self.op(Op::Neg(crate::cuda::ptx::ir::Ty::F32), &[a])
    }

    /// Returns `|a|` of an `f32`.
    pub fn abs(&mut self, a: Operand) -> Operand {
        self.op(Op::Abs(crate::cuda::ptx::ir::Ty::F32), &[a])
    }

    /// Returns the result of a comparison of two `f32`.
    pub fn cmp(&mut self, cmp: crate::cuda::ptx::ir::Cmp, a: Operand, b: Operand) -> Operand {
        self.op(Op::Compare(cmp, crate::cuda::ptx::ir::Ty::F32), &[a, b])
    }

    /// Returns `accept` if the condition is true, and `reject` otherwise.
    pub fn select(&mut self, condition: Operand, accept: Operand, reject: Operand) -> Operand {
        if accept.class() == Class::Pred {
            let a = self.op(Op::And, &[condition, accept]);
            let not = self.op(Op::Not, &[condition]);
            let b = self.op(Op::And, &[not, reject]);
            return self.op(Op::Or, &[a, b]);
        }
        self.op(Op::Select, &[accept, reject, condition])
    }

    /// Returns the polynomial with these coefficients, the highest power first, by Horner's rule.
    pub fn horner(&mut self, x: Operand, coefficients: &[f32]) -> Operand {
        let mut rest = coefficients.iter();
        let first = Operand::f32(rest.next().copied().unwrap_or(0.0));
        rest.fold(first, |sum, c| self.fma(sum, x, Operand::f32(*c)))
    }
}
