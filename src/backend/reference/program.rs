//! The execution of one program at one coordinate.

use super::run::{Outcome, Run};
use super::scalar::{binary, cast, unary, Cell};
use crate::kernel::{Atom, Index, Inst, Program, ValueId};

/// A running program, which is well formed.
pub struct Machine<'a> {
    pub program: &'a Program,
    /// The results of `Reduce` instructions so far.
    pub reduced: Vec<Cell>,
    /// The values at the coordinates of the last step.
    values: Vec<Cell>,
}

impl<'a> Machine<'a> {
    pub fn new(program: &'a Program) -> Machine<'a> {
        let count = program.insts.len();
        Machine { program, reduced: vec![None; count], values: vec![None; count] }
    }

    /// Returns the instructions that `values` need, except through reductions.
    pub fn needed(&self, values: impl IntoIterator<Item = ValueId>) -> Vec<bool> {
        let mut needed = vec![false; self.program.insts.len()];
        values.into_iter().for_each(|value| needed[value as usize] = true);
        for (at, inst) in self.program.insts.iter().enumerate().rev() {
            if needed[at] && !matches!(inst, Inst::Reduce(..)) {
                inst.operands().into_iter().for_each(|value| needed[value as usize] = true);
            }
        }
        needed
    }

    /// Computes the `needed` values at `coords`. `accumulator` is the result of a routine.
    pub fn step(
        &mut self,
        run: &Run,
        coords: &[usize],
        accumulator: Cell,
        needed: &[bool],
    ) -> Outcome {
        for (at, inst) in self.program.insts.iter().enumerate().filter(|(at, _)| needed[*at]) {
            self.values[at] = match inst {
                Inst::Accumulator => accumulator,
                Inst::Reduce(..) => self.reduced[at],
                inst => self.inst(run, inst, coords)?,
            };
        }
        Ok(())
    }

    /// Returns a value that the last step computed.
    pub fn value(&self, value: ValueId) -> Cell {
        self.values[value as usize]
    }

    /// Returns the element that an index selects. `None` if the index is computed from a value outside of a buffer.
    pub fn position(&self, index: &Index, coords: &[usize]) -> Option<i64> {
        let mut sum = index.offset;
        for &(atom, stride) in &index.terms {
            let number = match atom {
                Atom::Coord(d) => coords[d as usize] as i64,
                Atom::Value(v) => i64::from(self.value(v)? as i32),
            };
            sum = sum.saturating_add(number.saturating_mul(stride));
        }
        Some(sum)
    }

    fn inst(&self, run: &Run, inst: &Inst, coords: &[usize]) -> Outcome<Cell> {
        let dtype = |v: ValueId| self.program.types[v as usize];
        // A value computed from an invalid value is invalid, too.
        let known = |found: Option<Option<u32>>| match found {
            None => Ok(None),
            Some(None) => Err(format!("{inst:?} has no meaning for its operands' type")),
            Some(value) => Ok(value),
        };
        match *inst {
            Inst::Const(constant) => Ok(Some(constant.bits)),
            Inst::Param { word, .. } => Ok(Some(run.params[word as usize])),
            Inst::Coord(d) => Ok(Some(coords[d as usize] as u32)),
            Inst::Load { input, ref index, dtype } => {
                Ok(run.load(input as usize, self.position(index, coords), dtype))
            }
            Inst::LoadOutput { output, dtype } => {
                Ok(self.program.store_to(output).and_then(|(_, store)| {
                    run.before(output as usize, self.position(&store.index, coords), dtype)
                }))
            }
            Inst::Unary(op, x) => known(self.value(x).map(|bits| unary(op, dtype(x), bits))),
            Inst::Binary(op, x, y) => {
                let pair = self.value(x).zip(self.value(y));
                known(pair.map(|(x_bits, y_bits)| binary(op, dtype(x), x_bits, y_bits)))
            }
            Inst::Select(condition, a, b) => Ok(match self.value(condition) {
                None => None,
                Some(0) => self.value(b),
                Some(_) => self.value(a),
            }),
            Inst::Cast(to, x) => Ok(self.value(x).map(|bits| cast(dtype(x), to, bits))),
            Inst::Bitcast(_, x) => Ok(self.value(x)),
            Inst::Accumulator | Inst::Reduce(..) => Ok(None),
            Inst::Call(..) => Err("calls are written out before".into()),
        }
    }
}
