//! A loop kernel, prepared: its instructions in the order and with the registers that blocks of values run through.

use super::digits::split;
use super::function::{BinaryFn, UnaryFn};
use super::index::Walk;
use super::instruction_list::{Assigned, InstructionList};
use super::region::{regions, Region};
use super::steps::{Maker, Orders};
use super::superinstruction::{ChoiceFn, TernaryFn};
use super::tiling::Tiling;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::{Atom, Index, Inst, Program, Space};
use crate::op::Reduction;

/// Where a worker keeps a block of values.
pub(super) type Register = usize;

/// How often a value is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    /// Once.
    Uniform,
    /// For each outer coordinate.
    Row,
    /// For each outer and inner coordinate.
    Element,
}

/// Params with the strides by which they move a view.
pub(super) type Moves = Vec<(usize, i64)>;

/// An instruction over a block.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub level: Level,
    pub target: Register,
    pub work: Work,
}

/// What a step does. Value terms of an index are registers with strides.
#[derive(Clone, Debug)]
pub(super) enum Work {
    Word(u32),
    Param(usize),
    Load {
        input: usize,
        walk: Walk,
        half: bool,
        terms: Vec<(Register, i64)>,
        /// Params with strides, which move the whole walk; the terms have the values otherwise.
        moves: Moves,
    },
    Coordinate(Walk),
    /// What lies at a target already.
    Accumulator(usize),
    Unary(UnaryFn, Register),
    Binary(BinaryFn, Register, Register),
    Select(Register, Register, Register),
    Ternary(TernaryFn, [Register; 3]),
    Choice(ChoiceFn, [Register; 4]),
    /// Each row's value at all its elements.
    Expand(Register),
    /// Over the columns of a block that has all of them.
    Reduce(Reduction, DType, Register),
    /// An element's position as a word; all ones where it cannot have one.
    Position {
        walk: Walk,
        terms: Vec<(Register, i64)>,
    },
    Store(usize, Register),
}

/// A reduction over several blocks.
#[derive(Clone, Debug)]
pub(super) struct Combine {
    pub op: Reduction,
    pub dtype: DType,
    pub source: Register,
    pub target: Register,
}

/// A pass over all columns, and what follows it once per row.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    pub elements: Vec<Step>,
    pub combines: Vec<Combine>,
    pub rows: Vec<Step>,
}

/// The order of work for a block of rows.
#[derive(Clone, Debug)]
pub(super) enum Body {
    Whole(Vec<Step>),
    Staged { first: Vec<Step>, stages: Vec<Stage>, last: Vec<Step> },
}

/// Something that tasks write to, each its own part.
#[derive(Clone, Debug)]
pub(super) struct Target {
    /// The output, and whether it has halves. Without one these are words on the side, for an [`After`].
    pub output: Option<(usize, bool)>,
    pub level: Level,
    pub walk: Walk,
}

/// A store that cannot be divided between tasks: one thread moves words on the side into place.
#[derive(Clone, Debug)]
pub(super) struct After {
    pub output: usize,
    pub half: bool,
    /// The target that has the values.
    pub values: usize,
    /// The target that has the positions, where values of the program decide them.
    pub positions: Option<usize>,
    pub walk: Walk,
}

/// Where a routine may leave its result for the epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub target: usize,
    pub output: usize,
    pub offset: usize,
}

/// A loop kernel, prepared.
#[derive(Clone, Debug)]
pub(super) struct LoopPlan {
    pub tiling: Tiling,
    /// Steps whose result is the same everywhere.
    pub uniform: Vec<Step>,
    /// The registers that hold such results.
    pub uniforms: Vec<Register>,
    /// Registers with values per row that steps per element read.
    pub shared: Vec<Register>,
    pub body: Body,
    pub targets: Vec<Target>,
    pub afters: Vec<After>,
    /// The number of registers.
    pub registers: usize,
    /// Words in each.
    pub width: usize,
    /// For an epilogue; without it the routine's result is one more input, after all others.
    pub home: Option<Home>,
    /// For an epilogue: whether it does nothing to what lies in its home.
    pub identity: bool,
}

/// How many inputs, outputs and params a dispatch has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counts {
    pub inputs: usize,
    pub outputs: usize,
    pub params: usize,
    /// Whether there is a routine's result.
    pub epilogue: bool,
}

impl LoopPlan {
    /// Prepares a kernel, one plan for each region, or says what is wrong with it.
    pub fn regions(space: &Space, program: &Program, counts: Counts) -> Result<Vec<LoopPlan>> {
        check(space, program, counts)?;
        let split = split(space, program);
        let (space, program) = split.as_ref().map_or((space, program), |(s, p)| (s, p));
        let plan = |(space, region)| LoopPlan::new(&space, &region, program, counts);
        regions(space, program).into_iter().map(plan).collect()
    }

    fn new(space: &Space, region: &Region, program: &Program, counts: Counts) -> Result<LoopPlan> {
        let lists = InstructionList::new(space, program);
        let tiling = match lists.per_element() {
            true => Tiling::rows(space, &lists.touched(), lists.stores_elements(), lists.cost())?,
            false => Tiling::map(space, region, lists.cost())?,
        };
        let orders = Orders::new(space, region, &tiling);
        let maker = Maker::new(program, &lists, orders, counts, tiling.rows);
        let Assigned { uniform, uniforms, shared, body, registers } = lists.assign(tiling.whole);
        let body = maker.body(body)?;
        Ok(LoopPlan {
            uniform: maker.steps(&uniform)?,
            uniforms,
            shared,
            body,
            registers,
            width: tiling.row_block.max(tiling.row_block.saturating_mul(tiling.column_block)),
            identity: maker.identity(),
            home: maker.home,
            targets: maker.targets,
            afters: maker.afters,
            tiling,
        })
    }

    /// Whether it is a map that writes words side by side, in order, from the first on.
    pub fn in_order(&self) -> bool {
        let whole = matches!(self.body, Body::Whole(_)) && self.afters.is_empty();
        let [Target { output: Some((_, false)), level: Level::Row, walk }] = &self.targets[..]
        else {
            return false;
        };
        whole && walk.offset_if_contiguous(self.tiling.rows) == Some(0)
    }

    /// The map over `dims` that `program` is, in one piece.
    pub fn map(dims: &[usize], program: &Program, counts: Counts) -> Result<LoopPlan> {
        let space = Space { dims: dims.to_vec(), outer: dims.len() };
        check(&space, program, counts)?;
        let split = split(&space, program);
        let (space, program) = split.as_ref().map_or((&space, program), |(s, p)| (s, p));
        LoopPlan::new(space, &Region::default(), program, counts)
    }
}

/// That everything named exists, so that nothing that follows can miss.
fn check(space: &Space, program: &Program, counts: Counts) -> Result<()> {
    let refuse = |what: &str| Err(Error::data(format!("cpu: malformed kernel: {what}")));
    if space.outer > space.dims.len() {
        return refuse("more outer dimensions than dimensions");
    }
    if program.types.len() != program.insts.len() {
        return refuse("values without a type");
    }
    let fits = |index: &Index, before: usize| {
        index.terms.iter().all(|(atom, _)| match atom {
            Atom::Coord(d) => (*d as usize) < space.dims.len(),
            Atom::Value(v) => (*v as usize) < before,
        })
    };
    for (at, inst) in program.insts.iter().enumerate() {
        if inst.operands().iter().any(|&v| v as usize >= at) {
            return refuse("a value is used before it is made");
        }
        let there = match inst {
            Inst::Param { word, .. } => (*word as usize) < counts.params,
            Inst::Coord(d) => (*d as usize) < space.dims.len(),
            Inst::Load { input, index, .. } => (*input as usize) < counts.inputs && fits(index, at),
            Inst::Accumulator => counts.epilogue,
            _ => true,
        };
        if !there {
            return refuse(&format!("{inst:?} names what is not there"));
        }
    }
    let values = program.insts.len();
    for store in &program.stores {
        if store.output as usize >= counts.outputs
            || store.value as usize >= values
            || !fits(&store.index, values)
        {
            return refuse(&format!("{store:?} names what is not there"));
        }
    }
    Ok(())
}
