//! One program at one coordinate.

use super::Run;
use half::f16;
use warpweft::dtype::DType;
use warpweft::expr::{Binary, Unary};
use warpweft::kernel::{Atom, Index, Inst, Program, ValueId};
use warpweft::op::Reduction;

/// A value's bits; `None` was loaded from outside a buffer and may only be thrown away.
pub type Cell = Option<u32>;

/// A program being run, with the rows' reductions found so far.
pub struct Machine<'a> {
    pub program: &'a Program,
    pub reduced: Vec<Cell>,
    values: Vec<Cell>,
}

impl<'a> Machine<'a> {
    pub fn new(program: &'a Program) -> Machine<'a> {
        let count = program.insts.len();
        Machine { program, reduced: vec![None; count], values: vec![None; count] }
    }

    /// Computes all values that `needed` marks; `Reduce` gives what stands in `reduced`.
    pub fn step(
        &mut self,
        run: &Run,
        coords: &[usize],
        accumulator: f32,
        needed: &[bool],
    ) -> Result<(), String> {
        for (at, _) in needed.iter().enumerate().filter(|(_, &needed)| needed) {
            self.values[at] = self.inst(run, at, coords, accumulator)?;
        }
        Ok(())
    }

    pub fn value(&self, value: ValueId) -> Cell {
        self.values[value as usize]
    }

    /// The element an index names.
    pub fn position(&self, index: &Index, coords: &[usize]) -> Option<i64> {
        let mut sum = index.offset;
        for &(atom, stride) in &index.terms {
            let atom = match atom {
                Atom::Coord(d) => coords[d as usize] as i64,
                Atom::Value(v) => i64::from(self.value(v)? as i32),
            };
            sum += atom * stride;
        }
        Some(sum)
    }

    /// Placement what `value` needs, other than through reductions.
    pub fn needed(&self, values: impl IntoIterator<Item = ValueId>) -> Vec<bool> {
        let mut needed = vec![false; self.program.insts.len()];
        let mut pending: Vec<ValueId> = values.into_iter().collect();
        while let Some(value) = pending.pop() {
            let inst = &self.program.insts[value as usize];
            if !std::mem::replace(&mut needed[value as usize], true)
                && !matches!(inst, Inst::Reduce(..))
            {
                pending.extend(inst.operands());
            }
        }
        needed
    }

    fn inst(
        &self,
        run: &Run,
        at: usize,
        coords: &[usize],
        accumulator: f32,
    ) -> Result<Cell, String> {
        let dtype = |v: &ValueId| self.program.types[*v as usize];
        let pair = |x: &ValueId, y: &ValueId| self.value(*x).zip(self.value(*y));
        Ok(match &self.program.insts[at] {
            Inst::Const(c) => Some(c.bits),
            Inst::Param { word, .. } => {
                Some(*run.params.get(*word as usize).ok_or("a param is not there")?)
            }
            Inst::Coord(d) => Some(coords[*d as usize] as u32),
            Inst::Load { input, index, dtype } => {
                let bytes = run.inputs.get(*input as usize).ok_or("an input is not there")?;
                let position = self.position(index, coords).unwrap_or(-1);
                usize::try_from(position).ok().and_then(|p| load(bytes, p, *dtype))
            }
            Inst::Accumulator => Some(accumulator.to_bits()),
            Inst::Unary(op, x) => self.value(*x).map(|v| unary(*op, dtype(x), v)),
            Inst::Binary(op, x, y) => pair(x, y).map(|(v, w)| binary(*op, dtype(x), v, w)),
            Inst::Select(c, a, b) => match self.value(*c) {
                None => None,
                Some(0) => self.value(*b),
                Some(_) => self.value(*a),
            },
            Inst::Cast(to, x) => self.value(*x).map(|v| cast(dtype(x), *to, v)),
            Inst::Reduce(..) => self.reduced[at],
        })
    }
}

/// Element `at` of a buffer, as a kernel's value.
pub fn load(bytes: &[u8], at: usize, dtype: DType) -> Cell {
    let size = dtype.size();
    let bytes = bytes.get(at * size..(at + 1) * size)?;
    Some(match bytes {
        [a, b] => f16::from_le_bytes([*a, *b]).to_f32().to_bits(),
        [a] if dtype == DType::I8 => i32::from(*a as i8) as u32,
        [a] => u32::from(*a),
        _ => u32::from_le_bytes(bytes.try_into().expect("four bytes")),
    })
}

/// A kernel's value as memory holds it.
pub fn stored(bits: u32, dtype: DType) -> Vec<u8> {
    match dtype {
        DType::F16 => f16::from_f32(f32::from_bits(bits)).to_le_bytes().to_vec(),
        DType::I8 | DType::U8 => vec![bits as u8],
        _ => bits.to_le_bytes().to_vec(),
    }
}

fn unary(op: Unary, dtype: DType, bits: u32) -> u32 {
    let x = f32::from_bits(bits);
    let wide = |f: fn(f64) -> f64| (f(f64::from(x)) as f32).to_bits();
    match (op, dtype) {
        (Unary::Neg, DType::F32) => bits ^ 1 << 31,
        (Unary::Neg, _) => bits.wrapping_neg(),
        (Unary::Abs, DType::F32) => bits & !(1 << 31),
        (Unary::Abs, _) => (bits as i32).unsigned_abs(),
        (Unary::Not, DType::Bool) => bits ^ 1,
        (Unary::Not, _) => !bits,
        (Unary::FromBits, _) => bits,
        (Unary::IsNan, _) => u32::from(x.is_nan()),
        (Unary::IsInf, _) => u32::from(x.is_infinite()),
        (Unary::SignBit, _) => bits >> 31,
        (Unary::Floor, _) => x.floor().to_bits(),
        (Unary::Ceil, _) => x.ceil().to_bits(),
        (Unary::Round, _) => x.round_ties_even().to_bits(),
        (Unary::Trunc, _) => x.trunc().to_bits(),
        (Unary::Sqrt, _) => x.sqrt().to_bits(),
        (Unary::Exp, _) => wide(f64::exp),
        (Unary::Exp2, _) => wide(f64::exp2),
        (Unary::Log, _) => wide(f64::ln),
        (Unary::Log2, _) => wide(f64::log2),
        (Unary::InverseSqrt, _) => wide(|x| 1.0 / x.sqrt()),
        (Unary::Sin, _) => wide(f64::sin),
        (Unary::Cos, _) => wide(f64::cos),
        (Unary::Tan, _) => wide(f64::tan),
        (Unary::Asin, _) => wide(f64::asin),
        (Unary::Acos, _) => wide(f64::acos),
        (Unary::Atan, _) => wide(f64::atan),
    }
}

fn binary(op: Binary, dtype: DType, a: u32, b: u32) -> u32 {
    match op {
        Binary::And => return a & b,
        Binary::Or => return a | b,
        Binary::Xor => return a ^ b,
        _ => {}
    }
    match dtype {
        DType::F32 => binary_f32(op, f32::from_bits(a), f32::from_bits(b)),
        DType::I32 => binary_i32(op, a as i32, b as i32),
        DType::U32 | DType::Bool => binary_u32(op, a, b),
        stored => unreachable!("kernels compute with no {stored}"),
    }
}

fn binary_f32(op: Binary, x: f32, y: f32) -> u32 {
    let wide = |f: fn(f64, f64) -> f64| f(f64::from(x), f64::from(y)) as f32;
    let value = match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x / y,
        Binary::Rem => x % y,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::Pow => wide(f64::powf),
        Binary::Atan2 => wide(f64::atan2),
        Binary::Lt => return u32::from(x < y),
        Binary::Le => return u32::from(x <= y),
        Binary::Eq => return u32::from(x == y),
        Binary::Ne => return u32::from(x != y),
        Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => {
            unreachable!("not of floats")
        }
    };
    value.to_bits()
}

fn binary_i32(op: Binary, x: i32, y: i32) -> u32 {
    let value = match op {
        Binary::Add => x.wrapping_add(y),
        Binary::Sub => x.wrapping_sub(y),
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div => {
            if y == 0 {
                x
            } else {
                x.wrapping_div(y)
            }
        }
        Binary::Rem => {
            if y == 0 {
                0
            } else {
                x.wrapping_rem(y)
            }
        }
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::Shl => x.wrapping_shl(y as u32),
        Binary::Shr => x.wrapping_shr(y as u32),
        Binary::Lt => i32::from(x < y),
        Binary::Le => i32::from(x <= y),
        Binary::Eq => i32::from(x == y),
        Binary::Ne => i32::from(x != y),
        Binary::Pow | Binary::Atan2 => unreachable!("not of integers"),
        Binary::And | Binary::Or | Binary::Xor => unreachable!("done before"),
    };
    value as u32
}

fn binary_u32(op: Binary, x: u32, y: u32) -> u32 {
    match op {
        Binary::Add => x.wrapping_add(y),
        Binary::Sub => x.wrapping_sub(y),
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div => x.checked_div(y).unwrap_or(x),
        Binary::Rem => x.checked_rem(y).unwrap_or(0),
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::Shl => x.wrapping_shl(y),
        Binary::Shr => x.wrapping_shr(y),
        Binary::Lt => u32::from(x < y),
        Binary::Le => u32::from(x <= y),
        Binary::Eq => u32::from(x == y),
        Binary::Ne => u32::from(x != y),
        Binary::Pow | Binary::Atan2 => unreachable!("not of integers"),
        Binary::And | Binary::Or | Binary::Xor => unreachable!("done before"),
    }
}

fn cast(from: DType, to: DType, bits: u32) -> u32 {
    let x = f32::from_bits(bits);
    match (from, to) {
        (DType::F32, DType::F32) => bits,
        (DType::F32, DType::F16) => f16::from_f32(x).to_f32().to_bits(),
        (DType::F32, DType::I8) => i32::from(x as i8) as u32,
        (DType::F32, DType::U8) => u32::from(x as u8),
        (_, DType::I8) => i32::from(bits as u8 as i8) as u32,
        (_, DType::U8) => bits & 255,
        (DType::F32, DType::I32) => x as i32 as u32,
        (DType::F32, DType::U32) => x as u32,
        (DType::F32, DType::Bool) => u32::from(x != 0.0),
        (DType::I32, DType::F32) => (bits as i32 as f32).to_bits(),
        (_, DType::F32) => (bits as f32).to_bits(),
        (_, DType::F16) => cast(DType::F32, DType::F16, cast(from, DType::F32, bits)),
        (_, DType::Bool) => u32::from(bits != 0),
        (_, DType::I32 | DType::U32) => bits,
    }
}

/// Combines values in order.
pub fn reduce(op: Reduction, dtype: DType, cells: &[u32]) -> u32 {
    let floats = || cells.iter().map(|&c| f32::from_bits(c));
    let nan = || floats().any(f32::is_nan);
    let start = op.identity(dtype);
    let fold = |op: Binary| cells.iter().fold(start, |a, &b| binary(op, dtype, a, b));
    match (op, dtype) {
        (Reduction::Sum, DType::F32) => (floats().map(f64::from).sum::<f64>() as f32).to_bits(),
        (Reduction::Prod, DType::F32) => {
            (floats().map(f64::from).product::<f64>() as f32).to_bits()
        }
        (Reduction::Max | Reduction::Min, DType::F32) if nan() => f32::NAN.to_bits(),
        (Reduction::Sum, _) => fold(Binary::Add),
        (Reduction::Prod, _) => fold(Binary::Mul),
        (Reduction::Max, _) => fold(Binary::Max),
        (Reduction::Min, _) => fold(Binary::Min),
        (Reduction::Any, _) => fold(Binary::Or),
        (Reduction::All, _) => fold(Binary::And),
    }
}
