//! The model of tensors: data, operations, and the actions that compute and read them.

use super::super::actions::{Action, Binary, Body, Inner, Unary, SHAPES, TENSORS};
use super::super::reference::array::{count, Array};
use super::super::reference::number::Number;
use super::super::reference::random;
use super::super::reference::tape::{self, Tensor};
use super::{Fault, Made, Model, Output, Why, FAILS};

/// The seed of the generator.
pub const SEED: u32 = 5;

/// Returns numbers from -1.5 to 1.5 that `f32` represents exactly.
pub fn data(shape: &[usize], seed: usize) -> Vec<f64> {
    let mut state = seed as u64 * 7919 + 12_345;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) % 49) as f64 / 16.0 - 1.5
    };
    (0..count(shape)).map(|_| next()).collect()
}

/// Returns the same numbers as an array.
pub fn array(shape: &[usize], seed: usize) -> Array {
    Array::new(shape, data(shape, seed).into_iter().map(Number::exact).collect())
}

impl Model {
    pub(super) fn act_on_tensors(&mut self, action: &Action) -> Made<Output> {
        match action {
            Action::Data { to, shape, seed } => {
                let shape = SHAPES[shape % SHAPES.len()];
                self.put(*to, tape::constant(array(shape, *seed)))
            }
            Action::Unary { op, a, to } => {
                let made = self.unary(*op, &self.tensor(*a)?)?;
                self.put(*to, made)
            }
            Action::Binary { op, a, b, to } => {
                let made = binary(*op, &self.tensor(*a)?, &self.tensor(*b)?)?;
                self.put(*to, made)
            }
            Action::Where { condition, a, b, to } => {
                let made =
                    tape::choose(&self.tensor(*condition)?, &self.tensor(*a)?, &self.tensor(*b)?);
                self.put(*to, made.ok_or(FAILS)?)
            }
            Action::Away { a, to } => {
                let x = self.tensor(*a)?;
                self.evaluate(std::slice::from_ref(&x));
                self.put(*to, tape::detach(&x))
            }
            Action::Checkpoint { a, body, to } => {
                let (x, captured) = (self.tensor(*a)?, self.captured(body)?);
                if body.assigns.is_some() {
                    return Err(Why::Skip);
                }
                let values = self.values(&self.variables_of(body)?);
                let result = self.run_body(body, &[&[x], &captured[..], &values[..]].concat())?;
                self.again.insert(result[0].id);
                self.put(*to, result[0].clone())
            }
            Action::SetDrawn { drawn } => {
                self.draws.set(*drawn);
                Ok(Vec::new())
            }
            Action::Drop { t } => {
                self.tensor(*t)?;
                self.tensors[t % TENSORS] = None;
                Ok(Vec::new())
            }
            _ => self.act_on_values(action),
        }
    }

    fn act_on_values(&mut self, action: &Action) -> Made<Output> {
        match action {
            Action::Read { t } => {
                let x = self.tensor(*t)?;
                self.evaluate(std::slice::from_ref(&x));
                Ok(vec![(format!("t{t}"), x.value.clone())])
            }
            Action::ReadPart { t, start, len } => {
                let x = self.tensor(*t)?;
                self.evaluate(std::slice::from_ref(&x));
                let (start, end) = part(x.value.data.len(), *start, *len);
                let part = x.value.data[start..end].to_vec();
                Ok(vec![(format!("part of t{t}"), Array::new(&[part.len()], part))])
            }
            Action::Run { t } | Action::FindNonFinite { t } => {
                let x = self.tensor(*t)?;
                self.evaluate(std::slice::from_ref(&x));
                Ok(Vec::new())
            }
            Action::Blame { t, .. } => {
                let x = self.tensor(*t)?;
                self.evaluate(std::slice::from_ref(&x));
                Ok(Vec::new())
            }
            Action::RunBatch { a, b } => {
                let both = [self.tensor(*a)?, self.tensor(*b)?];
                self.evaluate(&both);
                Ok(Vec::new())
            }
            Action::ReadTogether { a, b } => {
                let both = [self.tensor(*a)?, self.tensor(*b)?];
                self.evaluate(&both);
                let [first, second] = both.map(|x| x.value.clone());
                Ok(vec![(format!("t{a}"), first), (format!("t{b}"), second)])
            }
            Action::Flush => {
                self.evaluate_all();
                Ok(Vec::new())
            }
            Action::Eager { .. } => Ok(Vec::new()),
            _ => self.act_on_variables(action),
        }
    }

    pub(super) fn unary(&self, op: Unary, x: &Tensor) -> Made<Tensor> {
        let rank = x.shape().len();
        let rows = x.shape().first().copied().unwrap_or(0);
        Ok(match op {
            Unary::Tanh if self.setting.fault == Fault::Tanh => tape::add(
                &tape::sub(x, &tape::detach(x)).ok_or(FAILS)?,
                &tape::detach(&tape::tanh(x)),
            )
            .ok_or(FAILS)?,
            Unary::Tanh => tape::tanh(x),
            Unary::Square | Unary::Shader => tape::square(x),
            Unary::Relu => tape::relu(x),
            Unary::Exp => tape::exp(&tape::tanh(x)),
            Unary::Negate => tape::scale(x, -1.0),
            Unary::Halve => tape::scale(x, 0.5),
            Unary::Shift => tape::plus(x, 0.25),
            // A new tensor, even if there is nothing to add up.
            Unary::Sum => tape::reshape(&tape::sum(x), &[]),
            Unary::Mean => tape::scale(&tape::sum(x), 1.0 / x.value.data.len() as f64),
            Unary::SumRows | Unary::FirstRow | Unary::LastRow if rank == 0 => {
                return Err(Why::Skip)
            }
            Unary::SumRows => {
                let rest = &x.shape()[1..];
                tape::reshape(&tape::sum_to(x, &[&[1], rest].concat()), rest)
            }
            Unary::Transpose => tape::transpose(x).ok_or(Why::Skip)?,
            Unary::Flatten => tape::reshape(x, &[x.value.data.len()]),
            Unary::FirstRow => tape::slice(x, 0, 1),
            Unary::LastRow => tape::slice(x, rows - 1, 1),
            Unary::F16 | Unary::HalfLine if !self.setting.f16 => return Err(Why::Skip),
            Unary::F16 => tape::half(x),
            Unary::HalfLine => {
                let scaled = tape::half(&tape::scale(&tape::half(x), 0.5));
                tape::half(&tape::plus(&scaled, 0.25))
            }
            Unary::Dropout => {
                let kept = self.uniform(x.shape(), |unit| if unit >= 0.5 { 1.0 } else { 0.0 });
                let none = tape::constant(Array::zeros(x.shape()));
                tape::choose(&kept, &tape::scale(x, 2.0), &none).ok_or(FAILS)?
            }
            Unary::Noise => {
                let noise = self.uniform(x.shape(), |unit| 2.0 * unit - 1.0);
                tape::add(x, &noise).ok_or(FAILS)?
            }
            Unary::Detach => tape::detach(x),
            Unary::Copy => x.clone(),
        })
    }

    /// Draws a seed, and returns a function of the uniform numbers from it.
    fn uniform(&self, shape: &[usize], f: impl Fn(f64) -> f64) -> Tensor {
        let position = self.draws.get();
        self.draws.set(position + 1);
        let units = random::uniform(count(shape), random::seed(SEED, position)).into_iter();
        let numbers = units.map(|unit| Number::exact(f(unit)));
        tape::constant(Array::new(shape, numbers.collect()))
    }

    /// Returns the tensors that a body captures.
    pub(super) fn captured(&self, body: &Body) -> Made<Vec<Tensor>> {
        body.captured.iter().map(|&slot| self.tensor(slot)).collect()
    }

    /// Returns the results of a body for its operands: inputs, captured tensors and values of variables.
    pub(super) fn run_body(&self, body: &Body, operands: &[Tensor]) -> Made<Vec<Tensor>> {
        let mut all = operands.to_vec();
        for operation in &body.operations {
            let operand = |at: usize| &all[at % all.len()];
            let made = match *operation {
                Inner::One(op, a) => self.unary(op, operand(a))?,
                Inner::Two(op, a, b) => binary(op, operand(a), operand(b))?,
            };
            super::tame(&made)?;
            all.push(made);
        }
        Ok(body.results.iter().map(|&at| all[at % all.len()].clone()).collect())
    }
}

/// Returns the start and length of a part that is inside `count` elements.
pub fn part(count: usize, start: usize, len: usize) -> (usize, usize) {
    let start = start % (count + 1);
    (start, start + len % (count - start + 1))
}

fn binary(op: Binary, a: &Tensor, b: &Tensor) -> Made<Tensor> {
    let made = match op {
        Binary::Add => tape::add(a, b),
        Binary::Sub => tape::sub(a, b),
        Binary::Mul => tape::mul(a, b),
        Binary::Matmul if a.shape().len() != 2 || b.shape().len() != 2 => return Err(Why::Skip),
        Binary::Matmul => tape::matmul(a, b),
        Binary::Concat if a.shape().len() != b.shape().len() => return Err(Why::Skip),
        Binary::Concat => tape::concat(a, b),
        Binary::Element => tape::element(a, b),
    };
    made.ok_or(FAILS)
}
