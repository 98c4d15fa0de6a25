//! The operands of routines, as strided floats.

use super::gemm::Matrix;
use crate::backend::cpu::exec::engine::WorkerPool;
use crate::backend::cpu::exec::inputs::Inputs;
use crate::backend::cpu::exec::memory::zeroed;
use crate::backend::cpu::lower;
use crate::backend::cpu::lower::plan::{LoopPlan, Moves};
use crate::backend::cpu::lower::walk::Walk;
use crate::backend::cpu::math::lanes::{self, Widen};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::kernel::{Atom, Counts, Index, Inst, Operand, Program, Store, ValueId};
use crate::schedule::is_transposed;
use bytemuck::{cast_slice, Pod};
use std::borrow::Cow;

/// A prepared operand.
pub struct OperandPlan {
    dims: Vec<usize>,
    /// The view, if the operand is a plain view of floats.
    view: Option<View>,
    /// The program that computes the operand, along the axes that it depends on. It runs if there is no view, or the view
    /// exceeds its buffer.
    program: LoopPlan,
    strides: Vec<i64>,
    count: usize,
}

/// A strided view of an input.
struct View {
    input: usize,
    dtype: DType,
    offset: i64,
    strides: Vec<i64>,
    moves: Moves,
}

/// The values of an operand: elements of `data` at `offset` plus multiples of the strides, all in range.
pub struct Strided<'a, T: Copy = f32> {
    pub data: Cow<'a, [T]>,
    pub offset: i64,
    pub strides: Vec<i64>,
}

/// The values of an operand as they are in memory. `f16` values are converted block by block.
pub enum Blocks<'a> {
    Floats(Strided<'a>),
    Halves(Strided<'a, u16>),
}

impl OperandPlan {
    /// Prepares an operand of floats with the extents `dims`.
    pub fn new(operand: &Operand, dims: &[usize], counts: Counts) -> Result<OperandPlan> {
        OperandPlan::of_type(operand, dims, DType::F32, counts)
    }

    /// Prepares an operand of another type of four bytes. Its bits are read as floats.
    pub fn of_type(
        operand: &Operand,
        dims: &[usize],
        dtype: DType,
        counts: Counts,
    ) -> Result<OperandPlan> {
        if operand.value as usize >= operand.program.insts.len() {
            return Err(Error::state("cpu: an operand of a kernel must have a value, got none"));
        }
        let is_read = |of: DType| of == dtype || (of, dtype) == (DType::F16, DType::F32);
        let view = operand.view().filter(|view| is_read(view.2));
        let view = view.and_then(|(input, index, dtype)| {
            let moves = lower::moves(&operand.program, index)?;
            let strides = (0..dims.len()).map(|d| stride(index, d)).collect();
            Some(View { input: input as usize, dtype, offset: index.offset, strides, moves })
        });
        let order = order(operand, dims.len());
        let operand = &reordered(operand, &order);
        let mut kept = Vec::with_capacity(dims.len());
        for (place, &d) in order.iter().enumerate() {
            let varies = depends(&operand.program, place);
            kept.push(if varies { dims[d] } else { dims[d].min(1) });
        }
        let (mut laid, mut strides, mut count) = (vec![0; dims.len()], vec![0; dims.len()], 1usize);
        for (place, &d) in order.iter().enumerate().rev() {
            if kept[place] > 1 {
                (laid[place], strides[d]) = (count as i64, count as i64);
            }
            count = count.saturating_mul(kept[place]);
        }
        let terms = laid.iter().enumerate().filter(|s| *s.1 != 0);
        let terms = terms.map(|(d, &stride)| (Atom::Coord(d as u32), stride)).collect();
        let mut program = operand.program.clone();
        program.stores = vec![Store {
            output: 0,
            index: Index { offset: 0, terms },
            value: operand.value,
            dtype,
        }];
        let counts = Counts { outputs: 1, epilogue: false, ..counts };
        let program = lower::map(&kept, &program, counts)?;
        Ok(OperandPlan { dims: dims.to_vec(), view, program, strides, count })
    }

    /// Returns the workers that compute columns of the operand. It must be a computed matrix whose columns of `depth` numbers
    /// are contiguous, one after the other.
    pub fn columns<'r>(&'r self, inputs: &'r Inputs<'r>, depth: usize) -> Option<WorkerPool<'r>> {
        let (before, last) = self.strides.split_at(self.strides.len().checked_sub(2)?);
        let lies = before.iter().all(|&s| s == 0) && *last == [1, depth as i64];
        let all = self.count == depth * self.dims[self.dims.len() - 1];
        let computed = self.floats().is_none() && self.program.in_order();
        (lies && all && computed).then(|| WorkerPool::new(&self.program, inputs))
    }

    /// Returns the view if the operand is a view of floats.
    fn floats(&self) -> Option<&View> {
        self.view.as_ref().filter(|view| view.dtype != DType::F16)
    }

    /// Reads the operand's values.
    pub fn read<'a>(&self, inputs: &Inputs<'a>) -> Result<Strided<'a>> {
        if let Some(floats) = self.floats().and_then(|view| view.read(&self.dims, inputs)) {
            return Ok(floats);
        }
        let mut words = zeroed(self.count)?;
        self.program.run(inputs, &mut [&mut words])?;
        let data = Cow::Owned(bytemuck::allocation::cast_vec(words));
        Ok(Strided { data, offset: 0, strides: self.strides.clone() })
    }

    /// Reads the operand's values, for a reader that needs blocks.
    pub fn blocks<'a>(&self, inputs: &Inputs<'a>) -> Result<Blocks<'a>> {
        let halves = self.view.as_ref().filter(|view| view.dtype == DType::F16);
        match halves.and_then(|view| view.read(&self.dims, inputs)) {
            Some(halves) => Ok(Blocks::Halves(halves)),
            None => self.read(inputs).map(Blocks::Floats),
        }
    }
}

impl View {
    /// Returns the values of the view, if all of them are inside the buffer.
    fn read<'a, T: Pod>(&self, dims: &[usize], inputs: &Inputs<'a>) -> Option<Strided<'a, T>> {
        let data: &[T] = cast_slice(inputs.buffers[self.input]);
        let offset = self.offset.wrapping_add(inputs.moved(&self.moves));
        let each = dims.iter().copied().zip(self.strides.iter().copied());
        let is_inside = Walk::strided(offset, each).inside(data.len());
        let strides = self.strides.clone();
        is_inside.then_some(Strided { data: Cow::Borrowed(data), offset, strides })
    }
}

impl Blocks<'_> {
    /// Returns the matrix of the last two axes at the leading coordinates, from its row `first` on. `f16` values are
    /// converted into `scratch`.
    pub fn matrix<'s>(
        &'s self,
        leading: [usize; 2],
        first: usize,
        [rows, columns]: [usize; 2],
        scratch: &'s mut Vec<f32>,
    ) -> Matrix<'s> {
        let at = [leading[0], leading[1], first];
        match self {
            Blocks::Floats(floats) => {
                let strides = [floats.strides[2], floats.strides[3]];
                Matrix { data: &floats.data, offset: floats.at(&at), strides }
            }
            Blocks::Halves(halves) => {
                scratch.resize(rows * columns, 0.0);
                let strides = [halves.strides[2], halves.strides[3]];
                let (data, offset) = (&halves.data[..], halves.at(&at));
                lanes::run(Widen { data, offset, strides, columns, out: scratch });
                Matrix { data: scratch, offset: 0, strides: [columns as i64, 1] }
            }
        }
    }
}

impl<T: Copy> Strided<'_, T> {
    /// Returns the position at the leading coordinates.
    pub fn at(&self, coordinates: &[usize]) -> i64 {
        let steps = coordinates.iter().zip(&self.strides).map(|(&c, &s)| c as i64 * s);
        self.offset + steps.sum::<i64>()
    }
}

impl Strided<'_> {
    /// Returns the first matrix, with `down` as the stride between rows.
    pub fn matrix(&self, down: i64) -> Matrix<'_> {
        let across = self.strides[self.strides.len() - 1];
        Matrix { data: &self.data, offset: self.offset, strides: [down, across] }
    }
}

/// Returns the order of the axes in memory. The last two are exchanged if the operand is contiguous along the second to last
/// one.
fn order(operand: &Operand, rank: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..rank).collect();
    let whole = |(at, inst): (usize, &Inst)| {
        let coords = match inst {
            Inst::Coord(d) => (*d as usize) < rank,
            Inst::Load { index, .. } => {
                index.terms.iter().all(|t| !matches!(t.0, Atom::Coord(d) if d as usize >= rank))
            }
            _ => true,
        };
        coords && inst.operands().iter().all(|&v| (v as usize) < at)
    };
    let sound = operand.program.insts.iter().enumerate().all(whole);
    if rank >= 2 && sound && operand.view().is_none() && is_transposed(operand, rank - 2) {
        order.swap(rank - 2, rank - 1);
    }
    order
}

/// Returns the operand with axes in another order, which must be its own inverse.
fn reordered(operand: &Operand, order: &[usize]) -> Operand {
    if order.iter().enumerate().all(|(place, &d)| place == d) {
        return operand.clone();
    }
    let places: Vec<Index> = order.iter().map(|&d| Index::coordinate(d)).collect();
    let same: Vec<ValueId> = (0..operand.program.insts.len() as ValueId).collect();
    let mut operand = operand.clone();
    for inst in &mut operand.program.insts {
        *inst = match &*inst {
            Inst::Coord(d) => Inst::Coord(order[*d as usize] as u32),
            other => other.substitute(Some(&places), &same),
        };
    }
    operand
}

fn stride(index: &Index, d: usize) -> i64 {
    index.terms.iter().filter(|t| t.0 == Atom::Coord(d as u32)).map(|t| t.1).sum()
}

/// Whether a program depends on coordinate `d`.
fn depends(program: &Program, d: usize) -> bool {
    program.insts.iter().any(|inst| match inst {
        Inst::Coord(of) => *of as usize == d,
        Inst::Load { index, .. } => index.terms.iter().any(|t| t.0 == Atom::Coord(d as u32)),
        _ => false,
    })
}
