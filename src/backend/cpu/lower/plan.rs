//! A loop kernel, prepared: its instructions in the order and with the registers that blocks of values run through.

use super::tiling::Tiling;
use super::walk::Walk;
use crate::backend::cpu::math::function::{BinaryFn, UnaryFn};
use crate::backend::cpu::math::fused::{ChoiceFn, TernaryFn};
use crate::dtype::DType;
use crate::op::Reduction;

/// Where a worker keeps a block of values.
pub type Register = usize;

/// How often a value is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Once.
    Uniform,
    /// For each outer coordinate.
    Row,
    /// For each outer and inner coordinate.
    Element,
}

/// Params with the strides by which they move a view.
pub type Moves = Vec<(usize, i64)>;

/// An instruction over a block.
#[derive(Clone, Debug)]
pub struct Step {
    pub level: Level,
    pub target: Register,
    pub work: Work,
}

/// What a step does. Value terms of an index are registers with strides.
#[derive(Clone, Debug)]
pub enum Work {
    Word(u32),
    Param(usize),
    Load {
        input: usize,
        walk: Walk,
        dtype: DType,
        terms: Vec<(Register, i64)>,
        /// Params with strides, which move the whole walk; the terms have the values otherwise.
        moves: Moves,
    },
    Coordinate(Walk),
    /// What lies at a target already, along a walk: the routine's result, or what is to be overwritten.
    LoadOutput(usize, Walk),
    Unary(UnaryFn, Register),
    Binary(BinaryFn, Register, Register),
    Select(Register, Register, Register),
    Ternary(TernaryFn, [Register; 3]),
    Choice(ChoiceFn, [Register; 4]),
    /// Each row's value at all its elements.
    Expand(Register),
    /// Over the columns of a block that has all of them.
    Reduce(Reduction, DType, Source),
    /// An element's position as a word; all ones where it cannot have one.
    Position {
        walk: Walk,
        terms: Vec<(Register, i64)>,
    },
    /// To where a walk leads in a target.
    Store(usize, Walk, Register),
}

/// What a reduction combines.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    Value(Register),
    /// Products of two, in a sum.
    Products(Register, Register),
}

impl Source {
    /// Of one register, or of two.
    pub fn new(registers: &[Register]) -> Source {
        match *registers {
            [x, y] => Source::Products(x, y),
            _ => Source::Value(registers[0]),
        }
    }
}

/// A reduction over several blocks.
#[derive(Clone, Debug)]
pub struct Combine {
    pub op: Reduction,
    pub dtype: DType,
    pub source: Source,
    pub target: Register,
}

/// A pass over all columns, and what follows it once per row.
#[derive(Clone, Debug)]
pub struct Stage {
    pub elements: Vec<Step>,
    pub combines: Vec<Combine>,
    pub rows: Vec<Step>,
}

/// The order of work for a block of rows.
#[derive(Clone, Debug)]
pub enum Body {
    Whole(Vec<Step>),
    Staged { first: Vec<Step>, stages: Vec<Stage>, last: Vec<Step> },
}

/// Something that tasks write to, each its own part.
#[derive(Clone, Debug)]
pub struct Target {
    /// The output, and what it has. Without one these are words on the side, for a [`SerialStore`].
    pub output: Option<(usize, DType)>,
    pub level: Level,
    /// Where stores lead to in it: each to elements of its own.
    pub walks: Vec<Walk>,
}

impl Target {
    /// The first position that the counts from `start` up to `end` lead to, and the one past the last.
    pub fn range(&self, start: usize, end: usize) -> (i64, i64) {
        let first = self.walks.iter().map(|walk| walk.position(start)).min();
        let last = self.walks.iter().map(|walk| walk.position(end - 1)).max();
        (first.unwrap_or(0), last.map_or(0, |last| last + 1))
    }
}

/// An output whose offset depends on params.
#[derive(Clone, Debug)]
pub struct Origin {
    pub output: usize,
    pub moves: Moves,
}

/// A store that cannot be divided between tasks. One thread copies its values from a temporary.
#[derive(Clone, Debug)]
pub struct SerialStore {
    pub output: usize,
    pub dtype: DType,
    /// The target that has the values.
    pub values: usize,
    /// The target that has the positions, where values of the program decide them.
    pub positions: Option<usize>,
    pub walk: Walk,
}

/// The output in which a routine may leave its result for the epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoutineOutput {
    pub target: usize,
    pub output: usize,
    pub offset: usize,
}

/// A loop kernel, prepared.
#[derive(Clone, Debug)]
pub struct LoopPlan {
    pub tiling: Tiling,
    /// Steps whose result is the same everywhere.
    pub uniform: Vec<Step>,
    /// The registers that hold such results.
    pub uniforms: Vec<Register>,
    /// Registers with values per row that steps per element read.
    pub shared: Vec<Register>,
    pub body: Body,
    pub targets: Vec<Target>,
    pub origins: Vec<Origin>,
    pub afters: Vec<SerialStore>,
    /// The number of registers.
    pub registers: usize,
    /// Words in each.
    pub width: usize,
    /// For an epilogue; without it the routine's result is one more input, after all others.
    pub home: Option<RoutineOutput>,
    /// For an epilogue: whether it does nothing to what lies in its home.
    pub identity: bool,
}

impl LoopPlan {
    /// Whether it is a map that writes words side by side, in order, from the first on.
    pub fn in_order(&self) -> bool {
        let whole = matches!(self.body, Body::Whole(_))
            && self.afters.is_empty()
            && self.origins.is_empty();
        let [Target { output: Some((_, dtype)), level: Level::Row, walks }] = &self.targets[..]
        else {
            return false;
        };
        let [walk] = &walks[..] else { return false };
        whole
            && dtype.size() == size_of::<u32>()
            && walk.offset_if_contiguous(self.tiling.rows) == Some(0)
    }
}
