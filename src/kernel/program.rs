//! What one thread executes: instructions over loads, coordinates and numbers, and the stores of their results.

use crate::dtype::DType;
use crate::expr::{Binary, Expr, Node, Unary};
use crate::map::Map;
use crate::op::{Const, Reduction};

/// The result of an earlier instruction of the same program.
pub type ValueId = u32;

/// What a linear index is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Atom {
    /// The coordinate along a dimension of the space.
    Coord(u32),
    /// An `i32` value of the program.
    Value(ValueId),
}

/// An element's position in a buffer: `offset + sum(atom * stride)`. A view is nothing but such an index.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Index {
    pub offset: i64,
    /// Sorted by atom, each once, no stride 0.
    pub terms: Vec<(Atom, i64)>,
}

/// One instruction; its result is the value with its position's number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Inst {
    Const(Const),
    /// Word `word` of the dispatch's params: a number the user passed.
    Param {
        word: u32,
        dtype: DType,
    },
    /// The coordinate along a dimension of the space, `i32`.
    Coord(u32),
    /// An element of an input. Where a surrounding `Select` throws the value away the index may lie outside the
    /// buffer: the load gives anything then, but must not trap.
    Load {
        input: u32,
        index: Index,
        dtype: DType,
    },
    /// In a routine's epilogue: what the routine computed at these coordinates.
    Accumulator,
    Unary(Unary, ValueId),
    Binary(Binary, ValueId, ValueId),
    Select(ValueId, ValueId, ValueId),
    Cast(DType, ValueId),
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

/// What one thread computes at its coordinates: instructions in order, each used after it is made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Program {
    pub insts: Vec<Inst>,
    /// The compute type of each value.
    pub types: Vec<DType>,
    pub stores: Vec<Store>,
}

/// Writes a [`Program`]; equal instructions become one value.
#[derive(Default)]
pub struct Builder {
    program: Program,
    seen: Map<Inst, ValueId>,
}

impl Builder {
    /// The value of `inst`, which is appended unless it is there already.
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

    /// The compute type of a value.
    pub fn dtype(&self, value: ValueId) -> DType {
        self.program.types[value as usize]
    }

    /// The number of instructions so far.
    pub fn len(&self) -> usize {
        self.program.insts.len()
    }

    /// Whether nothing has been written yet.
    pub fn is_empty(&self) -> bool {
        self.program.insts.is_empty()
    }

    /// A constant, from a number.
    pub fn number(&mut self, dtype: DType, value: f64) -> ValueId {
        let dtype = dtype.compute();
        self.push(Inst::Const(Const { dtype, bits: dtype.bits(value) }))
    }

    /// The value of a formula at `arguments`.
    pub fn expr(&mut self, expr: &Expr, arguments: &[ValueId]) -> ValueId {
        // A formula that is a bare constant takes the first argument's type.
        let dtype = arguments.first().map_or(DType::F32, |&a| self.dtype(a));
        let mut done = Map::default();
        self.flatten(expr, arguments, dtype, &mut done)
    }

    /// Appends a store.
    pub fn store(&mut self, store: Store) {
        self.program.stores.push(store);
    }

    /// The program.
    pub fn finish(self) -> Program {
        self.program
    }

    fn infer(&self, inst: &Inst) -> DType {
        match inst {
            Inst::Const(c) => c.dtype.compute(),
            Inst::Param { dtype, .. } | Inst::Load { dtype, .. } => dtype.compute(),
            Inst::Coord(_) => DType::I32,
            Inst::Accumulator => DType::F32,
            Inst::Unary(Unary::IsNan | Unary::IsInf | Unary::SignBit, _) => DType::Bool,
            Inst::Binary(op, ..) if op.compares() => DType::Bool,
            Inst::Unary(_, x) | Inst::Binary(_, x, _) | Inst::Reduce(_, x) => self.dtype(*x),
            Inst::Select(_, a, _) => self.dtype(*a),
            Inst::Cast(to, _) => to.compute(),
        }
    }

    /// `hint` is the type bare constants take.
    fn flatten(
        &mut self,
        expr: &Expr,
        args: &[ValueId],
        hint: DType,
        done: &mut Map<usize, ValueId>,
    ) -> ValueId {
        if let Node::Lit(value) = expr.node() {
            return self.number(hint, *value);
        }
        if let Some(&id) = done.get(&expr.address()) {
            return id;
        }
        let id = match expr.node() {
            Node::Arg(n) => args[*n],
            Node::Lit(_) => unreachable!("handled above"),
            Node::Unary(op, x) => {
                let x = self.flatten(x, args, hint, done);
                self.push(Inst::Unary(*op, x))
            }
            Node::Binary(op, x, y) => {
                let (x, y) = self.flatten_pair(x, y, args, hint, done);
                self.push(Inst::Binary(*op, x, y))
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
                    self.push(Inst::Cast(*to, x))
                }
            }
        };
        done.insert(expr.address(), id);
        id
    }

    /// Two operands of one type: a bare constant takes the other one's.
    fn flatten_pair(
        &mut self,
        x: &Expr,
        y: &Expr,
        args: &[ValueId],
        hint: DType,
        done: &mut Map<usize, ValueId>,
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
    /// For each value, whether it depends on one of the coordinates from `outer` on, other than through `Reduce`.
    pub fn per_element(&self, outer: usize) -> Vec<bool> {
        let mut inner: Vec<bool> = Vec::with_capacity(self.insts.len());
        for inst in &self.insts {
            let depends = match inst {
                Inst::Coord(d) => *d as usize >= outer,
                Inst::Reduce(..) => false,
                Inst::Load { index, .. } => index.terms.iter().any(|(atom, _)| match atom {
                    Atom::Coord(d) => *d as usize >= outer,
                    Atom::Value(v) => inner[*v as usize],
                }),
                other => other.operands().any(|v| inner[v as usize]),
            };
            inner.push(depends);
        }
        inner
    }

    /// For each value, how many reductions lie before it: a `Reduce` of a stage-s value has stage s + 1.
    pub fn stages(&self) -> Vec<u32> {
        let mut stages: Vec<u32> = Vec::with_capacity(self.insts.len());
        for inst in &self.insts {
            let before = inst.operands().map(|v| stages[v as usize]).max().unwrap_or(0);
            stages.push(before + u32::from(matches!(inst, Inst::Reduce(..))));
        }
        stages
    }
}

impl Inst {
    /// The values it uses, those in a load's index included.
    pub fn operands(&self) -> impl Iterator<Item = ValueId> + '_ {
        let (fixed, index): ([Option<ValueId>; 3], Option<&Index>) = match self {
            Inst::Const(_) | Inst::Param { .. } | Inst::Coord(_) | Inst::Accumulator => {
                ([None; 3], None)
            }
            Inst::Load { index, .. } => ([None; 3], Some(index)),
            Inst::Unary(_, x) | Inst::Cast(_, x) | Inst::Reduce(_, x) => {
                ([Some(*x), None, None], None)
            }
            Inst::Binary(_, x, y) => ([Some(*x), Some(*y), None], None),
            Inst::Select(c, a, b) => ([Some(*c), Some(*a), Some(*b)], None),
        };
        let indexed =
            index.into_iter().flat_map(|i| i.terms.iter()).filter_map(|(atom, _)| match atom {
                Atom::Value(v) => Some(*v),
                Atom::Coord(_) => None,
            });
        fixed.into_iter().flatten().chain(indexed)
    }
}
