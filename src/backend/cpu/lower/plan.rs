//! A prepared loop kernel: its instructions with their order and registers, for blocks of values.

use super::tiling::Tiling;
use super::walk::Walk;
use crate::backend::cpu::math::function::{BinaryFn, UnaryFn};
use crate::backend::cpu::math::fused::{ChoiceFn, TernaryFn};
use crate::dtype::DType;
use crate::op::Reduction;

/// The index of a worker's register, which holds a block of values.
pub type Register = usize;

/// The level of a value, which is how often it is computed.
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

/// The operation of a step. Value terms of an index are registers with strides.
#[derive(Clone, Debug)]
pub enum Work {
    Word(u32),
    Param(usize),
    Load {
        input: usize,
        walk: Walk,
        dtype: DType,
        terms: Vec<(Register, i64)>,
        /// Params with strides, if only params move the walk. Otherwise their values are in the terms.
        moves: Moves,
    },
    Coordinate(Walk),
    /// Loads the elements of a target along a walk: the routine's result, or the values to be overwritten.
    LoadOutput(usize, Walk),
    Unary(UnaryFn, Register),
    Binary(BinaryFn, Register, Register),
    Select(Register, Register, Register),
    Ternary(TernaryFn, [Register; 3]),
    Choice(ChoiceFn, [Register; 4]),
    /// Repeats each row's value for all its elements.
    Expand(Register),
    /// Reduces over the columns of a block that has all columns.
    Reduce(Reduction, DType, Source),
    /// Computes an element's position as a word. Invalid positions have all bits set.
    Position {
        walk: Walk,
        terms: Vec<(Register, i64)>,
    },
    /// Stores a register to a target along a walk.
    Store(usize, Walk, Register),
}

/// The operand of a reduction.
#[derive(Clone, Copy, Debug)]
pub enum Source {
    Value(Register),
    /// The products of two registers, in a sum.
    Products(Register, Register),
}

impl Source {
    /// Creates the operand from one register or two.
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

/// A pass over all columns, and the steps per row after it.
#[derive(Clone, Debug)]
pub struct Stage {
    pub elements: Vec<Step>,
    pub combines: Vec<Combine>,
    pub rows: Vec<Step>,
}

/// The order of the steps for a block of rows.
#[derive(Clone, Debug)]
pub enum Body {
    Whole(Vec<Step>),
    Staged { first: Vec<Step>, stages: Vec<Stage>, last: Vec<Step> },
}

/// A buffer that tasks write to. Each task has a separate part.
#[derive(Clone, Debug)]
pub struct Target {
    /// The output with its type. `None` for a temporary buffer of a [`SerialStore`].
    pub output: Option<(usize, DType)>,
    pub level: Level,
    /// The walks of the stores. No two stores write the same element.
    pub walks: Vec<Walk>,
}

impl Target {
    /// Returns the first position for the counts from `start` to `end`, and the position after the last.
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

/// A store that cannot be divided between tasks. One thread copies its values from a temporary buffer.
#[derive(Clone, Debug)]
pub struct SerialStore {
    pub output: usize,
    pub dtype: DType,
    /// The target that has the values.
    pub values: usize,
    /// The target that has the positions, if values of the program determine them.
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
    /// The registers of these results.
    pub uniforms: Vec<Register>,
    /// Registers with values per row that steps per element read.
    pub shared: Vec<Register>,
    pub body: Body,
    pub targets: Vec<Target>,
    pub origins: Vec<Origin>,
    pub afters: Vec<SerialStore>,
    /// The number of registers.
    pub registers: usize,
    /// The number of words in each register.
    pub width: usize,
    /// For an epilogue, the output that holds the routine's result. `None` if the result is an additional last input.
    pub home: Option<RoutineOutput>,
    /// For an epilogue, whether it leaves the routine's result unchanged.
    pub identity: bool,
}

impl LoopPlan {
    /// Whether the plan is a map that writes contiguous words in order, from the first on.
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
