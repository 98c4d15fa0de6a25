//! The tape: computed values with their operands, and gradients by reverse mode.
//!
//! A tensor is a node with its value, its operation and its operands, all immutable. A gradient is a tensor that is computed by
//! the same operations, so it has gradients in turn. `Identity` is the value of a variable. It equals the assigned tensor, but
//! it is a separate tensor, so the gradient by the variable differs from the gradient by the assigned tensor.

use super::array::{broadcast, count, Array};
use super::number::Number;
use std::cell::Cell;
use std::collections::{BTreeMap, HashSet};
use std::rc::Rc;

pub type Tensor = Rc<Node>;

/// A value on the tape.
#[derive(Debug)]
pub struct Node {
    /// An id that is greater than those of all operands.
    pub id: usize,
    pub value: Array,
    pub op: Op,
    pub operands: Vec<Tensor>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Constant,
    Identity,
    Add,
    Sub,
    Mul,
    Scale(f64),
    Plus(f64),
    Tanh,
    Exp,
    Square,
    Relu,
    Half,
    Matmul,
    Transpose,
    Reshape,
    /// The rows from an index on.
    Slice(usize),
    /// Zeros around rows that start at an index.
    Pad(usize),
    Concat,
    SumTo,
    Expand,
    /// The operands are a condition and two tensors.
    Where,
    /// A user's function `a * a * b` of elements.
    Element,
    /// The derivative of `Element` by an operand. This operation has no derivatives.
    Slope(usize),
}

thread_local! {
    static NEXT: Cell<usize> = const { Cell::new(0) };
}

fn node(op: Op, value: Array, operands: &[&Tensor]) -> Tensor {
    let id = NEXT.replace(NEXT.get() + 1);
    Rc::new(Node { id, value, op, operands: operands.iter().map(|&x| x.clone()).collect() })
}

/// Returns a tensor that depends on nothing.
pub fn constant(value: Array) -> Tensor {
    node(Op::Constant, value, &[])
}

impl Node {
    pub fn shape(&self) -> &[usize] {
        &self.value.shape
    }

    /// Returns the operands that gradients pass to, with their indices.
    fn differentiable(&self) -> impl Iterator<Item = (usize, &Tensor)> {
        let condition = self.op == Op::Where;
        self.operands.iter().enumerate().filter(move |(place, _)| !(condition && *place == 0))
    }
}

/// Whether two tensors are the same node.
pub fn same(a: &Tensor, b: &Tensor) -> bool {
    a.id == b.id
}

/// Returns the value of a variable to which `value` is assigned.
pub fn identity(value: &Tensor) -> Tensor {
    node(Op::Identity, value.value.clone(), &[value])
}

pub fn detach(x: &Tensor) -> Tensor {
    constant(x.value.clone())
}

fn elementwise(
    op: Op,
    a: &Tensor,
    b: &Tensor,
    f: impl Fn(Number, Number) -> Number,
) -> Option<Tensor> {
    let shape = broadcast(a.shape(), b.shape())?;
    let (a, b) = (expand(a, &shape), expand(b, &shape));
    Some(node(op, a.value.zip(&b.value, f), &[&a, &b]))
}

/// Adds two tensors. Returns `None` if the shapes do not broadcast, like the functions below.
pub fn add(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    elementwise(Op::Add, a, b, |a, b| a + b)
}

pub fn sub(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    elementwise(Op::Sub, a, b, |a, b| a - b)
}

pub fn mul(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    elementwise(Op::Mul, a, b, |a, b| a * b)
}

/// Returns `a` where `condition` is above 0, and `b` elsewhere.
pub fn choose(condition: &Tensor, a: &Tensor, b: &Tensor) -> Option<Tensor> {
    let shape = broadcast(&broadcast(condition.shape(), a.shape())?, b.shape())?;
    let [c, a, b] = [condition, a, b].map(|x| expand(x, &shape));
    let one = |n: usize| c.value.data[n].choose(a.value.data[n], b.value.data[n]);
    let value = Array::new(&shape, (0..count(&shape)).map(one).collect());
    Some(node(Op::Where, value, &[&c, &a, &b]))
}

/// Returns `a * a * b` as a user's function. Its derivatives have no derivatives.
pub fn element(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    elementwise(Op::Element, a, b, |a, b| a * a * b)
}

fn slope(place: usize, a: &Tensor, b: &Tensor) -> Tensor {
    let value = |a: Number, b: Number| if place == 0 { a * b * 2.0 } else { a * a };
    fits(elementwise(Op::Slope(place), a, b, value))
}

pub fn scale(x: &Tensor, factor: f64) -> Tensor {
    node(Op::Scale(factor), x.value.map(|x| x * factor), &[x])
}

pub fn plus(x: &Tensor, term: f64) -> Tensor {
    node(Op::Plus(term), x.value.map(|x| x + term), &[x])
}

pub fn tanh(x: &Tensor) -> Tensor {
    node(Op::Tanh, x.value.map(Number::tanh), &[x])
}

pub fn exp(x: &Tensor) -> Tensor {
    node(Op::Exp, x.value.map(Number::exp), &[x])
}

pub fn square(x: &Tensor) -> Tensor {
    node(Op::Square, x.value.map(Number::square), &[x])
}

pub fn relu(x: &Tensor) -> Tensor {
    node(Op::Relu, x.value.map(Number::relu), &[x])
}

/// Rounds to `f16`.
pub fn half(x: &Tensor) -> Tensor {
    node(Op::Half, x.value.map(Number::half), &[x])
}

/// Returns the product of two matrices, or `None` unless they are matrices that fit.
pub fn matmul(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    let fits = a.shape().len() == 2 && b.shape().len() == 2 && a.shape()[1] == b.shape()[0];
    fits.then(|| node(Op::Matmul, a.value.matmul(&b.value), &[a, b]))
}

/// Returns the transpose, or `None` unless the tensor is a matrix.
pub fn transpose(x: &Tensor) -> Option<Tensor> {
    (x.shape().len() == 2).then(|| node(Op::Transpose, x.value.transpose(), &[x]))
}

pub fn reshape(x: &Tensor, shape: &[usize]) -> Tensor {
    node(Op::Reshape, x.value.reshape(shape), &[x])
}

pub fn slice(x: &Tensor, start: usize, len: usize) -> Tensor {
    node(Op::Slice(start), x.value.slice(start, len), &[x])
}

fn pad(x: &Tensor, start: usize, total: usize) -> Tensor {
    node(Op::Pad(start), x.value.pad(start, total), &[x])
}

/// Concatenates along the first axis. Returns `None` if the other axes differ.
pub fn concat(a: &Tensor, b: &Tensor) -> Option<Tensor> {
    let (first, second) = (a.shape(), b.shape());
    let fits = !first.is_empty() && !second.is_empty() && first[1..] == second[1..];
    fits.then(|| node(Op::Concat, Array::concat(&[&a.value, &b.value]), &[a, b]))
}

pub fn expand(x: &Tensor, shape: &[usize]) -> Tensor {
    match x.shape() == shape {
        true => x.clone(),
        false => node(Op::Expand, x.value.expand(shape), &[x]),
    }
}

/// Returns the sum over all axes that broadcast from `shape`.
pub fn sum_to(x: &Tensor, shape: &[usize]) -> Tensor {
    match x.shape() == shape {
        true => x.clone(),
        false => node(Op::SumTo, x.value.sum_to(shape), &[x]),
    }
}

/// Returns the sum of all elements.
pub fn sum(x: &Tensor) -> Tensor {
    sum_to(x, &[])
}

/// Returns tensors and everything that they were computed from.
pub fn ancestors(of: &[Tensor], goes_on: impl Fn(&Tensor) -> bool) -> Vec<Tensor> {
    let (mut seen, mut found, mut stack) = (HashSet::new(), Vec::new(), of.to_vec());
    while let Some(x) = stack.pop() {
        if seen.insert(x.id) {
            if goes_on(&x) {
                stack.extend(x.operands.iter().cloned());
            }
            found.push(x);
        }
    }
    found
}

/// Returns all tensors through which gradients pass from `of` to one of `to`, both ends included. Gradients stop at a tensor
/// for which `ends` is true.
pub fn path(
    of: &Tensor,
    to: &dyn Fn(&Tensor) -> bool,
    ends: &dyn Fn(&Tensor) -> bool,
) -> BTreeMap<usize, Tensor> {
    let (mut reached, mut order, mut seen) = (BTreeMap::new(), Vec::new(), HashSet::new());
    let mut stack = vec![of.clone()];
    while let Some(x) = stack.pop() {
        if seen.insert(x.id) {
            if !ends(&x) {
                stack.extend(x.differentiable().map(|(_, operand)| operand.clone()));
            }
            order.push(x);
        }
    }
    order.sort_by_key(|x| x.id);
    for x in order {
        let through = !ends(&x) && x.differentiable().any(|(_, y)| reached.contains_key(&y.id));
        if to(&x) || through {
            reached.insert(x.id, x);
        }
    }
    reached
}

/// Returns the gradients of the sum of `of` times `seed` by each of `wrt`, or `None` if `of` does not depend on it.
pub fn gradients(of: &Tensor, seed: &Tensor, wrt: &[Tensor]) -> Vec<Option<Tensor>> {
    let on = path(of, &|x| wrt.iter().any(|y| same(x, y)), &|_| false);
    let mut known: BTreeMap<usize, Tensor> = BTreeMap::new();
    if on.contains_key(&of.id) {
        known.insert(of.id, seed.clone());
    }
    for x in on.values().rev() {
        // All users of `x` are newer, so its gradient is complete.
        let Some(gradient) = known.get(&x.id).cloned() else { continue };
        for (place, operand) in x.differentiable() {
            if !on.contains_key(&operand.id) {
                continue;
            }
            let part = rule(x, place, &gradient);
            let all = match known.get(&operand.id) {
                Some(before) => fits(add(before, &part)),
                None => part,
            };
            known.insert(operand.id, all);
        }
    }
    wrt.iter().map(|x| known.get(&x.id).cloned()).collect()
}

/// Unwraps a result whose operands have the same shape.
fn fits(result: Option<Tensor>) -> Tensor {
    result.expect("the operands have the shape of the result")
}

/// Returns the gradient by an operand of `x`, where `g` is the gradient by `x`.
fn rule(x: &Tensor, place: usize, g: &Tensor) -> Tensor {
    let operand = &x.operands[place];
    let other = || &x.operands[1 - place];
    match x.op {
        Op::Constant => unreachable!("it has no operands"),
        Op::Slope(_) => unreachable!("gradients that pass it are refused before"),
        Op::Element => fits(mul(g, &slope(place, &x.operands[0], &x.operands[1]))),
        Op::Identity | Op::Add | Op::Plus(_) => g.clone(),
        Op::Sub if place == 0 => g.clone(),
        Op::Sub => scale(g, -1.0),
        Op::Mul => fits(mul(g, other())),
        Op::Scale(factor) => scale(g, factor),
        Op::Tanh => fits(mul(g, &plus(&scale(&square(x), -1.0), 1.0))),
        Op::Exp => fits(mul(g, x)),
        Op::Square => fits(mul(g, &scale(operand, 2.0))),
        // The derivative of relu is piecewise constant, but still a function of `x`. The gradient by `x` is therefore 0 and not
        // `None`.
        Op::Relu => {
            fits(add(&fits(choose(x, g, &constant(Array::zeros(g.shape())))), &scale(x, 0.0)))
        }
        Op::Half => half(g),
        Op::Matmul if place == 0 => fits(matmul(g, &fits(transpose(other())))),
        Op::Matmul => fits(matmul(&fits(transpose(other())), g)),
        Op::Transpose => fits(transpose(g)),
        Op::Reshape => reshape(g, operand.shape()),
        Op::Slice(start) => pad(g, start, operand.shape()[0]),
        Op::Pad(start) => slice(g, start, operand.shape()[0]),
        Op::Concat if place == 0 => slice(g, 0, operand.shape()[0]),
        Op::Concat => slice(g, x.operands[0].shape()[0], operand.shape()[0]),
        Op::SumTo => expand(g, operand.shape()),
        Op::Expand => sum_to(g, operand.shape()),
        Op::Where => {
            let nothing = constant(Array::zeros(g.shape()));
            let condition = &x.operands[0];
            fits(if place == 1 {
                choose(condition, g, &nothing)
            } else {
                choose(condition, &nothing, g)
            })
        }
    }
}
