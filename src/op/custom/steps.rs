//! The writer of a function's steps. Equal steps are written once, and operations on constants are folded.

use super::element::{Step, Steps, WHAT};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::{Binary, Unary};
use crate::op::constant::Const;
use crate::op::Pointwise;
use std::collections::HashMap;

/// The most steps of a function.
const MOST_STEPS: usize = 4096;

/// Creates the error for functions that cannot be compiled to steps.
pub(super) fn unsupported(message: &str) -> Error {
    Error::new(ErrorKind::Unsupported, format!("{WHAT}: {message}"))
}

/// The value of an expression, which is a step or has parts.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Scalar(u32),
    Composite(Vec<Value>),
}

impl Value {
    /// Returns the parts. A number is its own part.
    pub fn parts(&self) -> Vec<Value> {
        match self {
            Value::Scalar(_) => vec![self.clone()],
            Value::Composite(parts) => parts.clone(),
        }
    }

    /// Returns the n-th part, or the last one if n is too large.
    pub fn part(&self, n: usize) -> Value {
        match self {
            Value::Composite(parts) if !parts.is_empty() => parts[n.min(parts.len() - 1)].clone(),
            other => other.clone(),
        }
    }

    /// Returns the numbers of a number or a vector, or `None` for other values.
    pub fn numbers(&self) -> Option<Vec<u32>> {
        let parts = self.parts();
        let numbers = parts.iter().map(|part| match part {
            Value::Scalar(step) => Some(*step),
            Value::Composite(_) => None,
        });
        numbers.collect()
    }
}

/// A writer of [`Steps`].
#[derive(Default)]
pub(super) struct Writer {
    steps: Steps,
    types: Vec<DType>,
    seen: HashMap<Step, u32>,
}

impl Writer {
    /// Returns the steps. The last one has the value of `last`.
    pub fn finish(mut self, last: u32) -> Result<Steps> {
        if self.steps.len() > MOST_STEPS {
            return Err(unsupported("a function must take at most 4096 instructions, got more"));
        }
        if last as usize + 1 != self.steps.len() {
            let again = self.steps[last as usize].clone();
            self.steps.push(again);
        }
        Ok(self.steps)
    }

    /// Whether the limit of steps is exceeded.
    pub fn is_full(&self) -> bool {
        self.steps.len() > MOST_STEPS
    }

    pub fn dtype(&self, step: u32) -> DType {
        self.types[step as usize]
    }

    fn push(&mut self, step: Step, dtype: DType) -> u32 {
        if let Some(&known) = self.seen.get(&step) {
            return known;
        }
        let at = self.steps.len() as u32;
        self.steps.push(step.clone());
        self.types.push(dtype);
        self.seen.insert(step, at);
        at
    }

    pub fn argument(&mut self, n: usize, dtype: DType) -> Value {
        Value::Scalar(self.push(Step::Argument(n), dtype))
    }

    pub fn constant(&mut self, dtype: DType, bits: u32) -> u32 {
        self.push(Step::Const(Const { dtype, bits }), dtype)
    }

    pub fn bitcast(&mut self, to: DType, x: u32) -> u32 {
        match self.known(x) {
            Some(bits) => self.constant(to, bits),
            None => self.push(Step::Bitcast(to, x), to),
        }
    }

    pub fn number(&mut self, value: f64) -> u32 {
        self.constant(DType::F32, DType::F32.bits(value))
    }

    pub fn truth(&mut self, truth: bool) -> u32 {
        self.constant(DType::Bool, u32::from(truth))
    }

    /// Returns the bits of a constant step.
    pub fn known(&self, step: u32) -> Option<u32> {
        match &self.steps[step as usize] {
            Step::Const(constant) => Some(constant.bits),
            _ => None,
        }
    }

    pub fn unary(&mut self, op: Unary, x: u32) -> u32 {
        let dtype = match op {
            Unary::IsNan | Unary::IsInf | Unary::SignBit => DType::Bool,
            _ => self.dtype(x),
        };
        if let (Some(bits), Unary::Neg, DType::F32) = (self.known(x), op, dtype) {
            return self.constant(dtype, bits ^ 1 << 31);
        }
        if let (Some(bits), Unary::Neg) = (self.known(x), op) {
            return self.constant(dtype, bits.wrapping_neg());
        }
        self.push(Step::Unary(op, x), dtype)
    }

    pub fn not(&mut self, x: u32) -> u32 {
        match (self.dtype(x), self.known(x)) {
            (DType::Bool, Some(bits)) => self.truth(bits == 0),
            _ => self.unary(Unary::Not, x),
        }
    }

    pub fn binary(&mut self, op: Binary, x: u32, y: u32) -> u32 {
        let dtype = self.dtype(x);
        let result = if op.compares() { DType::Bool } else { dtype };
        if let (Some(a), Some(b)) = (self.known(x), self.known(y)) {
            if let Some(bits) = folded(op, dtype, a, b) {
                return self.constant(result, bits);
            }
        }
        if dtype == DType::Bool {
            match (op, self.known(x), self.known(y)) {
                (Binary::And, Some(1), _) | (Binary::Or, Some(0), _) => return y,
                (Binary::And, _, Some(1)) | (Binary::Or, _, Some(0)) => return x,
                (Binary::And, Some(_), _) | (Binary::Or, Some(_), _) => return x,
                (Binary::And, _, Some(_)) | (Binary::Or, _, Some(_)) => return y,
                _ => {}
            }
        }
        self.push(Step::Binary(op, x, y), result)
    }

    pub fn select(&mut self, condition: u32, a: u32, b: u32) -> u32 {
        match self.known(condition) {
            Some(0) => b,
            Some(_) => a,
            None if a == b => a,
            None => {
                let dtype = self.dtype(a);
                self.push(Step::Select(condition, a, b), dtype)
            }
        }
    }

    pub fn cast(&mut self, to: DType, x: u32) -> u32 {
        let from = self.dtype(x);
        match (self.known(x), from, to) {
            _ if from == to => x,
            (Some(bits), DType::I32 | DType::U32, DType::I32 | DType::U32) => {
                self.constant(to, bits)
            }
            (Some(bits), DType::I32, DType::F32) => self.number(f64::from(bits as i32)),
            (Some(bits), DType::U32, DType::F32) => self.number(f64::from(bits)),
            _ => self.push(Step::Cast(to, x), to.compute()),
        }
    }

    pub fn row(&mut self, row: Pointwise, arguments: &[u32]) -> u32 {
        let dtype = self.dtype(arguments[0]);
        self.push(Step::Row(row, arguments.to_vec(), dtype), dtype)
    }

    /// Returns `a` if the condition holds, and `b` otherwise, part by part.
    pub fn choose(&mut self, condition: u32, a: &Value, b: &Value) -> Value {
        match (a, b) {
            (Value::Scalar(a), Value::Scalar(b)) => Value::Scalar(self.select(condition, *a, *b)),
            _ => {
                let (a, b) = (a.parts(), b.parts());
                let parts = a.iter().zip(&b).map(|(a, b)| self.choose(condition, a, b));
                Value::Composite(parts.collect())
            }
        }
    }

    /// Returns a step that compares an index with a number.
    pub fn is(&mut self, index: u32, at: usize) -> u32 {
        let dtype = self.dtype(index);
        let at = self.constant(dtype, at as u32);
        self.binary(Binary::Eq, index, at)
    }

    /// Returns the part at a computed index. Indices out of range return the last part.
    pub fn element(&mut self, of: &Value, index: u32) -> Value {
        let parts = of.parts();
        let mut found = of.part(usize::MAX);
        for (at, part) in parts.iter().enumerate().rev().skip(1) {
            let here = self.is(index, at);
            found = self.choose(here, part, &found);
        }
        found
    }
}

/// Computes the bits of `a op b`. Loop counters need this.
fn folded(op: Binary, dtype: DType, a: u32, b: u32) -> Option<u32> {
    let (x, y) = (a as i32, b as i32);
    let signed = dtype == DType::I32;
    if dtype == DType::F32 {
        let (x, y) = (f32::from_bits(a), f32::from_bits(b));
        return Some(match op {
            Binary::Add => (x + y).to_bits(),
            Binary::Sub => (x - y).to_bits(),
            Binary::Mul => (x * y).to_bits(),
            Binary::Div => (x / y).to_bits(),
            Binary::Lt => u32::from(x < y),
            Binary::Le => u32::from(x <= y),
            Binary::Eq => u32::from(x == y),
            Binary::Ne => u32::from(x != y),
            _ => return None,
        });
    }
    Some(match op {
        Binary::Eq => u32::from(a == b),
        Binary::Ne => u32::from(a != b),
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        _ if dtype == DType::Bool => return None,
        Binary::Lt if signed => u32::from(x < y),
        Binary::Le if signed => u32::from(x <= y),
        Binary::Lt => u32::from(a < b),
        Binary::Le => u32::from(a <= b),
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div if signed && y != 0 => x.wrapping_div(y) as u32,
        Binary::Div if !signed && b != 0 => a / b,
        Binary::Rem if signed && y != 0 => x.wrapping_rem(y) as u32,
        Binary::Rem if !signed && b != 0 => a % b,
        Binary::Shl => a.wrapping_shl(b),
        Binary::Shr if signed => x.wrapping_shr(b) as u32,
        Binary::Shr => a.wrapping_shr(b),
        _ => return None,
    })
}
