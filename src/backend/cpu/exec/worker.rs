//! The registers of a thread, and the execution of steps with them.

use super::inputs::Inputs;
use super::memory::{keep, registers, Lines};
use super::output::Piece;
use super::reduce::{Accumulators, Rectangle};
use crate::backend::cpu::lower::plan::{
    Body, Combine, Level, LoopPlan, Register, Source, Stage, Step, Work,
};
use crate::backend::cpu::lower::tiling::{cut, Tiling};
use crate::backend::cpu::lower::walk::Walk;
use crate::backend::cpu::math::elementary::from_half;
use crate::backend::cpu::math::function;
use crate::dtype::DType;
use crate::schedule::Traversal;
use bytemuck::cast_slice;

/// The position of a block in the space.
#[derive(Clone, Copy, Debug)]
pub struct Block {
    pub row: usize,
    /// The count of the first element, and the number of elements.
    pub element: usize,
    pub elements: usize,
    pub shape: Rectangle,
}

impl Block {
    pub fn new(tiling: &Tiling, row: (usize, usize), column: (usize, usize)) -> Block {
        let (element, end) = tiling.span(row, column);
        let (rows, columns) = (row.1 - row.0, column.1 - column.0);
        let shape = Rectangle { layout: tiling.layout, rows, columns };
        Block { row: row.0, element, elements: end - element, shape }
    }

    fn count(&self, level: Level) -> usize {
        match level {
            Level::Uniform => 1,
            Level::Row => self.shape.rows,
            Level::Element => self.elements,
        }
    }

    fn start(&self, level: Level) -> usize {
        match level {
            Level::Uniform => 0,
            Level::Row => self.row,
            Level::Element => self.element,
        }
    }
}

/// A set of registers, used by one thread at a time.
pub struct Worker<'r> {
    plan: &'r LoopPlan,
    inputs: &'r Inputs<'r>,
    registers: Vec<Lines>,
    /// The input and offset of a register's values, if the register borrows them from an input.
    borrowed: Vec<Option<(usize, usize)>>,
    positions: Vec<i64>,
    width: usize,
}

impl<'r> Worker<'r> {
    pub fn new(plan: &'r LoopPlan, inputs: &'r Inputs<'r>, width: usize) -> Worker<'r> {
        let registers = registers(plan.registers);
        let borrowed = vec![None; plan.registers];
        Worker { plan, inputs, registers, borrowed, positions: Vec::new(), width }
    }

    /// Runs all stages for a block of rows.
    pub fn rows(&mut self, rows: (usize, usize), pieces: &mut [Piece<'_>]) {
        let plan = self.plan;
        let tiling = &plan.tiling;
        match &plan.body {
            Body::Whole(steps) => {
                let block = Block::new(tiling, rows, (0, tiling.columns));
                self.steps(steps, &block, pieces);
            }
            Body::Staged { first, stages, last } => {
                let block = Block::new(tiling, rows, (0, 0));
                self.steps(first, &block, pieces);
                for stage in stages {
                    let sums = self.combine(stage, rows, (0, tiling.columns));
                    self.finish(&stage.combines, &sums, &block);
                    self.steps(&stage.rows, &block, pieces);
                }
                if !last.is_empty() {
                    self.columns(last, rows, (0, tiling.columns), pieces);
                }
            }
        }
    }

    /// Runs `steps` over the blocks of a range of columns.
    pub fn columns(
        &mut self,
        steps: &[Step],
        rows: (usize, usize),
        columns: (usize, usize),
        pieces: &mut [Piece<'_>],
    ) {
        let tiling = &self.plan.tiling;
        for (first, past) in cut(columns.1 - columns.0, tiling.column_block) {
            let range = (columns.0 + first, columns.0 + past);
            self.steps(steps, &Block::new(tiling, rows, range), pieces);
        }
    }

    /// Computes a stage's reductions over a range of columns.
    pub fn combine(
        &mut self,
        stage: &Stage,
        rows: (usize, usize),
        columns: (usize, usize),
    ) -> Vec<Accumulators> {
        let tiling = &self.plan.tiling;
        let start = |c: &Combine| Accumulators::new(c.op, c.dtype, rows.1 - rows.0);
        let mut sums: Vec<Accumulators> = stage.combines.iter().map(start).collect();
        for (first, past) in cut(columns.1 - columns.0, tiling.column_block) {
            let range = (columns.0 + first, columns.0 + past);
            let block = Block::new(tiling, rows, range);
            self.steps(&stage.elements, &block, &mut []);
            for (combine, sum) in stage.combines.iter().zip(&mut sums) {
                self.gather(sum, combine.source, &block);
            }
        }
        sums
    }

    /// Adds a block to the accumulators.
    fn gather(&self, sums: &mut Accumulators, source: Source, block: &Block) {
        match source {
            Source::Value(x) => sums.add(block.shape, self.get(x, block.elements)),
            Source::Products(x, y) => {
                let [x, y] = [x, y].map(|x| self.get(x, block.elements));
                sums.add_products(block.shape, x, y);
            }
        }
    }

    pub fn finish(&mut self, combines: &[Combine], sums: &[Accumulators], block: &Block) {
        for (combine, sum) in combines.iter().zip(sums) {
            self.fill(combine.target, block.shape.rows, |out| sum.finish(out));
        }
    }

    /// Returns the values per row that steps per element read.
    pub fn share(&self) -> Vec<(Register, Vec<u32>)> {
        let rows = self.plan.tiling.row_block.min(self.plan.tiling.rows);
        let copy = |&register: &Register| {
            let values = match self.borrowed[register] {
                Some((input, start)) => {
                    let buffer = self.inputs.buffers[input];
                    &buffer[start..buffer.len().min(start + rows)]
                }
                None => {
                    let values = self.registers[register].words();
                    &values[..rows.min(values.len())]
                }
            };
            (register, values.to_vec())
        };
        self.plan.shared.iter().map(copy).collect()
    }

    pub fn adopt(&mut self, shared: &[(Register, Vec<u32>)]) {
        for (register, values) in shared {
            self.fill(*register, values.len(), |out| out.copy_from_slice(values));
        }
    }

    /// Returns the first `len` values of a register.
    pub fn get(&self, register: Register, len: usize) -> &[u32] {
        match self.borrowed[register] {
            Some((input, start)) => &self.inputs.buffers[input][start..start + len],
            None => &self.registers[register].words()[..len],
        }
    }

    /// Fills `len` values of a register with `write`.
    pub fn fill(&mut self, register: Register, len: usize, write: impl FnOnce(&mut [u32])) {
        let width = self.width.max(len);
        self.borrowed[register] = None;
        write(&mut self.registers[register].room(len, width)[..len]);
    }

    pub fn steps(&mut self, steps: &[Step], block: &Block, pieces: &mut [Piece<'_>]) {
        for step in steps {
            self.step(step, block, pieces);
        }
    }

    fn step(&mut self, step: &Step, block: &Block, pieces: &mut [Piece<'_>]) {
        let (len, start) = (block.count(step.level), block.start(step.level));
        match &step.work {
            Work::Store(target, walk, source) => {
                let values = self.get(*source, len);
                if let Some(piece) = pieces.get_mut(*target) {
                    piece.store(walk, start, values);
                }
                return;
            }
            Work::Load { input, walk, dtype, terms, moves }
                if terms.is_empty() && dtype.size() == size_of::<u32>() =>
            {
                let by = self.inputs.moved(moves);
                let there = walk.contiguous(start, len).map(|at| at.wrapping_add(by));
                let there = there.and_then(|at| usize::try_from(at).ok());
                let buffer = self.inputs.buffers[*input];
                if let Some(at) = there.filter(|&at| at + len <= buffer.len()) {
                    self.borrowed[step.target] = Some((*input, at));
                    return;
                }
            }
            _ => {}
        }
        let mut out = std::mem::take(&mut self.registers[step.target]);
        let room = &mut out.room(len, self.width.max(len))[..len];
        self.compute(&step.work, block, (start, len), pieces, room);
        self.registers[step.target] = out;
        self.borrowed[step.target] = None;
    }

    fn compute(
        &mut self,
        work: &Work,
        block: &Block,
        (start, len): (usize, usize),
        pieces: &[Piece<'_>],
        out: &mut [u32],
    ) {
        match work {
            Work::Word(word) => out.fill(*word),
            Work::Param(word) => out.fill(self.inputs.params[*word]),
            Work::Load { input, walk, dtype, terms, moves } => {
                let buffer = self.inputs.buffers[*input];
                let at = (start, self.inputs.moved(moves));
                let place = (walk, &terms[..], at);
                match dtype {
                    DType::F16 => self.load(place, cast_slice(buffer), out, from_half),
                    DType::I8 => self.load(place, cast_slice(buffer), out, |x: i8| x as u32),
                    DType::U8 => self.load(place, cast_slice(buffer), out, |x: u8| x.into()),
                    DType::I16 => self.load(place, cast_slice(buffer), out, |x: i16| x as u32),
                    DType::U16 => self.load(place, cast_slice(buffer), out, |x: u16| x.into()),
                    DType::F32 | DType::I32 | DType::U32 | DType::Bool => {
                        self.load(place, buffer, out, |x| x);
                    }
                }
            }
            Work::Coordinate(walk) => walk.indices(start, out),
            Work::LoadOutput(target, walk) => {
                if let Some(piece) = pieces.get(*target) {
                    piece.load(walk, start, out);
                }
            }
            Work::Unary(f, x) => f(out, self.get(*x, len)),
            Work::Binary(f, x, y) => f(out, self.get(*x, len), self.get(*y, len)),
            Work::Select(c, a, b) => {
                function::select(out, self.get(*c, len), self.get(*a, len), self.get(*b, len));
            }
            Work::Ternary(f, operands) => f(out, operands.map(|x| self.get(x, len))),
            Work::Choice(f, operands) => f(out, operands.map(|x| self.get(x, len))),
            Work::Expand(x) => expand(block.shape, self.get(*x, block.shape.rows), out),
            Work::Reduce(op, dtype, source) => {
                let mut sums = Accumulators::new(*op, *dtype, len);
                self.gather(&mut sums, *source, block);
                sums.finish(out);
            }
            Work::Position { walk, terms } => {
                self.locate(walk, terms, start, len);
                for (out, &at) in out.iter_mut().zip(&self.positions) {
                    *out = u32::try_from(at).unwrap_or(u32::MAX);
                }
            }
            Work::Store(..) => {}
        }
    }

    /// Computes the positions of an index with value terms, into `positions`.
    fn locate(&mut self, walk: &Walk, terms: &[(Register, i64)], start: usize, len: usize) {
        let mut positions = std::mem::take(&mut self.positions);
        positions.resize(len.max(positions.len()), 0);
        walk.positions(start, &mut positions[..len]);
        for &(register, stride) in terms {
            for (position, &value) in positions.iter_mut().zip(self.get(register, len)) {
                let steps = i64::from(value as i32).wrapping_mul(stride);
                *position = position.wrapping_add(steps);
            }
        }
        self.positions = positions;
    }

    /// Loads the elements of a walk, or of an index with value terms, each as a word.
    fn load<T: Copy>(
        &mut self,
        (walk, terms, at): (&Walk, &[(Register, i64)], (usize, i64)),
        data: &[T],
        out: &mut [u32],
        word: impl Fn(T) -> u32 + Copy,
    ) {
        if terms.is_empty() {
            return walk.load(at, data, out, word);
        }
        self.locate(walk, terms, at.0, out.len());
        for (out, &position) in out.iter_mut().zip(&self.positions) {
            let place = usize::try_from(position).unwrap_or(usize::MAX);
            *out = data.get(place).map_or(0, |&x| word(x));
        }
    }
}

impl Drop for Worker<'_> {
    fn drop(&mut self) {
        keep(std::mem::take(&mut self.registers));
    }
}

/// Repeats each row's value for all its elements.
fn expand(shape: Rectangle, rows: &[u32], out: &mut [u32]) {
    if out.is_empty() {
        return;
    }
    match shape.layout {
        Traversal::RowMajor if shape.columns < 16 => {
            for column in 0..shape.columns {
                let each = out[column..].iter_mut().step_by(shape.columns);
                each.zip(rows).for_each(|(out, &value)| *out = value);
            }
        }
        Traversal::RowMajor => {
            for (out, &value) in out.chunks_exact_mut(shape.columns).zip(rows) {
                out.fill(value);
            }
        }
        Traversal::ColumnMajor => {
            for out in out.chunks_exact_mut(shape.rows) {
                out.copy_from_slice(rows);
            }
        }
    }
}
