//! Programs of one thread: instructions over loads, coordinates and numbers, and stores of their results.

use super::index::{Atom, Index, ValueId};
use crate::dtype::DType;
use crate::expr::{Binary, Expr, Node, Unary};
use crate::op::custom::Step;
use crate::op::{Const, Function, Reduction};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// An instruction. The number of its result is the position of the instruction.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Inst {
    Const(Const),
    /// Word `word` of the dispatch's params, a number that the user passed.
    Param {
        word: u32,
        dtype: DType,
    },
    /// The coordinate along a dimension of the space, `i32`.
    Coord(u32),
    /// An element of an input. If a surrounding `Select` discards the value, the index may be outside the buffer. The load then
    /// gives any value, but must not trap.
    Load {
        input: u32,
        index: Index,
        dtype: DType,
    },
    /// The previous contents of the element that this program stores to (in-place update). The program has one store to this
    /// output. Only maps have this instruction, and not for 8-bit types.
    LoadOutput {
        output: u32,
        dtype: DType,
    },
    /// In the epilogue of a routine, the result of the routine at these coordinates.
    Accumulator,
    Unary(Unary, ValueId),
    Binary(Binary, ValueId, ValueId),
    Select(ValueId, ValueId, ValueId),
    Cast(DType, ValueId),
    /// The bits reinterpreted as `f32`, `i32` or `u32`.
    Bitcast(DType, ValueId),
    /// A call of an elementwise function, whose result has this compute type. A backend that cannot call it computes its
    /// formula instead ([`Program::inlined`]).
    Call(Function, SmallVec<[ValueId; 3]>, DType),
    /// Combines a value over all inner coordinates of the space, in a fixed order.
    Reduce(Reduction, ValueId),
}

/// An element that a program writes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Store {
    pub output: u32,
    pub index: Index,
    pub value: ValueId,
    /// The type in memory; `F16` rounds here.
    pub dtype: DType,
}

/// The program of one thread: instructions in order. Operands are earlier instructions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    pub insts: Vec<Inst>,
    /// The compute type of each value.
    pub types: Vec<DType>,
    pub stores: Vec<Store>,
}

/// A builder of a [`Program`] that merges equal instructions.
#[derive(Default)]
pub struct Builder {
    program: Program,
    seen: FxHashMap<Inst, ValueId>,
}

impl Builder {
    /// Returns the value of `inst`. Appends the instruction unless an equal one exists.
    pub fn push(&mut self, inst: Inst) -> ValueId {
        if let Some(&id) = self.seen.get(&inst) {
            return id;
        }
        let dtype = self.infer(&inst);
        let id = self.program.insts.len() as ValueId;
        self.program.insts.push(inst.clone());
        self.program.types.push(dtype);
        self.seen.insert(inst, id);
        id
    }

    /// Returns the compute type of a value.
    pub fn dtype(&self, value: ValueId) -> DType {
        self.program.types[value as usize]
    }

    /// Returns the number of instructions so far.
    pub fn len(&self) -> usize {
        self.program.insts.len()
    }

    /// Whether nothing has been written yet.
    pub fn is_empty(&self) -> bool {
        self.program.insts.is_empty()
    }

    /// Returns the value of a constant number.
    pub fn number(&mut self, dtype: DType, value: f64) -> ValueId {
        let dtype = dtype.compute();
        self.push(Inst::Const(Const { dtype, bits: dtype.bits(value) }))
    }

    /// Returns the value as a tensor of this type stores it. Changes only values of `f16`, which are computed in `f32`.
    pub fn rounded(&mut self, dtype: DType, value: ValueId) -> ValueId {
        match dtype == DType::F16 && !self.is_half(value) {
            true => self.push(Inst::Cast(dtype, value)),
            false => value,
        }
    }

    /// Whether a value of a tensor of `f16` needs no rounding. Constants and numbers are rounded before.
    fn is_half(&self, value: ValueId) -> bool {
        match self.program.insts[value as usize] {
            Inst::Load { dtype, .. } | Inst::LoadOutput { dtype, .. } | Inst::Cast(dtype, _) => {
                dtype == DType::F16
            }
            Inst::Const(_) | Inst::Param { .. } => true,
            Inst::Select(_, a, b) => self.is_half(a) && self.is_half(b),
            Inst::Reduce(Reduction::Max | Reduction::Min, x) => self.is_half(x),
            _ => false,
        }
    }

    /// Returns the value of a formula at `arguments`.
    pub fn expr(&mut self, expr: Expr, arguments: &[ValueId]) -> ValueId {
        // A formula that is a bare constant takes the first argument's type.
        let dtype = arguments.first().map_or(DType::F32, |&a| self.dtype(a));
        let mut done = FxHashMap::default();
        self.flatten(expr, arguments, dtype, &mut done)
    }

    /// Inlines a function, and returns its value. A custom function without steps is called instead.
    pub fn function(
        &mut self,
        function: &Function,
        arguments: &[ValueId],
        dtype: DType,
    ) -> ValueId {
        let (formula, steps) = match function {
            Function::Element(element) => (None, element.steps.as_ref().ok()),
            _ => (function.formula(), None),
        };
        if let Some(formula) = formula {
            return self.expr(formula, arguments);
        }
        let mut done: Vec<ValueId> = Vec::new();
        for step in steps.into_iter().flatten() {
            let at = |n: &u32| done[*n as usize];
            let inst = match step {
                Step::Argument(n) => {
                    done.push(arguments[*n]);
                    continue;
                }
                Step::Const(constant) => Inst::Const(*constant),
                Step::Unary(op, x) => Inst::Unary(*op, at(x)),
                Step::Binary(op, x, y) => Inst::Binary(*op, at(x), at(y)),
                Step::Select(c, a, b) => Inst::Select(at(c), at(a), at(b)),
                Step::Cast(to, x) => Inst::Cast(*to, at(x)),
                Step::Bitcast(to, x) => Inst::Bitcast(*to, at(x)),
                Step::Row(row, x, dtype) => {
                    Inst::Call(Function::Row(*row), x.iter().map(at).collect(), *dtype)
                }
            };
            done.push(self.push(inst));
        }
        let call = || Inst::Call(function.clone(), arguments.into(), dtype);
        done.last().copied().unwrap_or_else(|| self.push(call()))
    }

    /// Returns the value of an index, as `i32`.
    pub fn index(&mut self, index: &Index) -> ValueId {
        let mut sum = None;
        for &(atom, stride) in &index.terms {
            let mut term = match atom {
                Atom::Coord(d) => self.push(Inst::Coord(d)),
                Atom::Value(v) => v,
            };
            if stride != 1 {
                let stride = self.number(DType::I32, stride as f64);
                term = self.push(Inst::Binary(Binary::Mul, term, stride));
            }
            sum = Some(match sum {
                Some(sum) => self.push(Inst::Binary(Binary::Add, sum, term)),
                None => term,
            });
        }
        match sum {
            Some(sum) if index.offset == 0 => sum,
            Some(sum) => {
                let offset = self.number(DType::I32, index.offset as f64);
                self.push(Inst::Binary(Binary::Add, sum, offset))
            }
            None => self.number(DType::I32, index.offset as f64),
        }
    }

    /// Appends a store.
    pub fn store(&mut self, store: Store) {
        self.program.stores.push(store);
    }

    /// Returns the stores so far.
    pub fn stores(&self) -> &[Store] {
        &self.program.stores
    }

    /// Returns the program.
    pub fn finish(self) -> Program {
        self.program
    }

    fn infer(&self, inst: &Inst) -> DType {
        match inst {
            Inst::Const(c) => c.dtype.compute(),
            Inst::Param { dtype, .. }
            | Inst::Load { dtype, .. }
            | Inst::LoadOutput { dtype, .. } => dtype.compute(),
            Inst::Coord(_) => DType::I32,
            Inst::Accumulator => DType::F32,
            Inst::Unary(Unary::IsNan | Unary::IsInf | Unary::SignBit, _) => DType::Bool,
            Inst::Binary(op, ..) if op.compares() => DType::Bool,
            Inst::Unary(_, x) | Inst::Binary(_, x, _) | Inst::Reduce(_, x) => self.dtype(*x),
            Inst::Select(_, a, _) => self.dtype(*a),
            Inst::Cast(to, _) | Inst::Bitcast(to, _) => to.compute(),
            Inst::Call(.., dtype) => dtype.compute(),
        }
    }

    /// Appends the instructions of a formula. `hint` is the type of bare constants.
    fn flatten(
        &mut self,
        expr: Expr,
        args: &[ValueId],
        hint: DType,
        done: &mut FxHashMap<usize, ValueId>,
    ) -> ValueId {
        if let Some(value) = expr.literal() {
            return self.number(hint, value);
        }
        if let Some(&id) = done.get(&expr.address()) {
            return id;
        }
        let id = match *expr.node() {
            Node::Arg(n) => args[n],
            Node::Lit(_) => unreachable!("handled above"),
            Node::Unary(op, x) => {
                let x = self.flatten(x, args, hint, done);
                self.push(Inst::Unary(op, x))
            }
            Node::Binary(op, x, y) => {
                let (x, y) = self.flatten_pair(x, y, args, hint, done);
                self.push(Inst::Binary(op, x, y))
            }
            Node::Select(c, a, b) => {
                let c = self.flatten(c, args, hint, done);
                let (a, b) = self.flatten_pair(a, b, args, hint, done);
                self.push(Inst::Select(c, a, b))
            }
            Node::Cast(to, x) => {
                let x = self.flatten(x, args, hint, done);
                if self.dtype(x) == to.compute() {
                    x
                } else {
                    self.push(Inst::Cast(to, x))
                }
            }
        };
        done.insert(expr.address(), id);
        id
    }

    /// Appends two operands of one type. A bare constant takes the type of the other operand.
    fn flatten_pair(
        &mut self,
        x: Expr,
        y: Expr,
        args: &[ValueId],
        hint: DType,
        done: &mut FxHashMap<usize, ValueId>,
    ) -> (ValueId, ValueId) {
        if x.literal().is_some() {
            let y = self.flatten(y, args, hint, done);
            let hint = self.dtype(y);
            return (self.flatten(x, args, hint, done), y);
        }
        let x = self.flatten(x, args, hint, done);
        let hint = self.dtype(x);
        (x, self.flatten(y, args, hint, done))
    }
}

impl Program {
    /// Whether an index is a strided view: a sum of coordinates and numbers that the user passed.
    pub fn is_view(&self, index: &Index) -> bool {
        let number = |&v: &ValueId| matches!(self.insts.get(v as usize), Some(Inst::Param { .. }));
        index.values().iter().all(number)
    }

    /// Returns the store to an output, if there is exactly one.
    pub fn store_to(&self, output: u32) -> Option<(usize, &Store)> {
        let mut stores = self.stores.iter().enumerate().filter(|(_, s)| s.output == output);
        stores.next().filter(|_| stores.next().is_none())
    }

    /// Returns the approximate bytes of the program.
    pub fn size(&self) -> usize {
        // Each index of a load has a few terms.
        let inst = size_of::<Inst>() + size_of::<DType>() + 2 * size_of::<(Atom, i64)>();
        self.insts.len() * inst + self.stores.len() * size_of::<Store>()
    }

    /// Marks the values that stores or `roots` need.
    pub fn live(&self, roots: &[ValueId]) -> Vec<bool> {
        let mut live = vec![false; self.insts.len()];
        for &root in roots {
            live[root as usize] = true;
        }
        for store in &self.stores {
            live[store.value as usize] = true;
            for value in store.index.values() {
                live[value as usize] = true;
            }
        }
        for (at, inst) in self.insts.iter().enumerate().rev() {
            if live[at] {
                for value in inst.operands() {
                    live[value as usize] = true;
                }
            }
        }
        live
    }

    /// Returns for each value whether it depends on one of the coordinates from `outer` on, other than through `Reduce`.
    pub fn per_element(&self, outer: usize) -> Vec<bool> {
        let mut inner: Vec<bool> = Vec::with_capacity(self.insts.len());
        for inst in &self.insts {
            let depends = match inst {
                Inst::Coord(d) => *d as usize >= outer,
                Inst::Reduce(..) => false,
                Inst::Load { index, .. } => index.varies(outer, &inner),
                other => other.operands().iter().any(|&v| inner[v as usize]),
            };
            inner.push(depends);
        }
        inner
    }

    /// Returns for each value the number of reductions before it. A `Reduce` of a value of stage s has stage s + 1.
    pub fn stages(&self) -> Vec<u32> {
        let mut stages: Vec<u32> = Vec::with_capacity(self.insts.len());
        for inst in &self.insts {
            let mut before = 0;
            for value in inst.operands() {
                before = before.max(stages[value as usize]);
            }
            stages.push(before + u32::from(matches!(inst, Inst::Reduce(..))));
        }
        stages
    }
}

impl Inst {
    /// Returns the operands of the instruction, including those in a load's index.
    pub fn operands(&self) -> Vec<ValueId> {
        match self {
            Inst::Const(_)
            | Inst::Param { .. }
            | Inst::Coord(_)
            | Inst::LoadOutput { .. }
            | Inst::Accumulator => Vec::new(),
            Inst::Load { index, .. } => index.values(),
            Inst::Unary(_, x) | Inst::Cast(_, x) | Inst::Bitcast(_, x) | Inst::Reduce(_, x) => {
                vec![*x]
            }
            Inst::Binary(_, x, y) => vec![*x, *y],
            Inst::Select(c, a, b) => vec![*c, *a, *b],
            Inst::Call(_, arguments, _) => arguments.to_vec(),
        }
    }

    /// Returns the instruction with new value numbers and, if given, new coordinates in loads.
    pub fn substitute(&self, coordinates: Option<&[Index]>, values: &[ValueId]) -> Inst {
        let value = |v: &ValueId| values[*v as usize];
        match self {
            Inst::Load { input, index, dtype } => Inst::Load {
                input: *input,
                index: index.substitute(coordinates, values),
                dtype: *dtype,
            },
            Inst::Unary(op, x) => Inst::Unary(*op, value(x)),
            Inst::Binary(op, x, y) => Inst::Binary(*op, value(x), value(y)),
            Inst::Select(c, a, b) => Inst::Select(value(c), value(a), value(b)),
            Inst::Cast(to, x) => Inst::Cast(*to, value(x)),
            Inst::Bitcast(to, x) => Inst::Bitcast(*to, value(x)),
            Inst::Reduce(op, x) => Inst::Reduce(*op, value(x)),
            Inst::Call(function, arguments, dtype) => {
                Inst::Call(function.clone(), arguments.iter().map(value).collect(), *dtype)
            }
            Inst::Const(_)
            | Inst::Param { .. }
            | Inst::Coord(_)
            | Inst::LoadOutput { .. }
            | Inst::Accumulator => self.clone(),
        }
    }
}
