//! The meaning of steps in plain arrays of `f64`, and the error that a machine with rounding may have.

use super::step::{cycled, with, Kind, Op, Reduce, Step, BINARY, UNARY};
use crate::shared::array::{each, place, word, Array};
use crate::shared::conv2d::convolve;
use crate::shared::matmul::product;
use crate::shared::scan::scanned;
use crate::shared::tolerance::Tolerance;
use warpweft::tensor::PadMode;

/// The most elements that a tensor may have.
pub const LARGEST: usize = 4000;
/// The largest magnitude of a number.
const MOST: f64 = 1e4;
/// The longest axis that is sorted. Sorting by counting takes quadratic time.
const SORTED: usize = 300;

type Numbers = Array<f64>;

/// A program: its steps, each of which takes earlier ones, and the steps that are read.
#[derive(Clone, Debug, PartialEq)]
pub struct Program {
    pub kind: Kind,
    pub steps: Vec<Step>,
    pub results: Vec<usize>,
}

impl Program {
    /// Returns the values of all steps, or `None` if a step does not fit its operands. With `noise`, adds a random part of the
    /// allowed error to each value. The differences between such results estimate the error that a machine may have.
    pub fn values(&self, noise: Option<u32>) -> Option<Vec<Numbers>> {
        let mut values: Vec<Numbers> = Vec::new();
        for (number, step) in self.steps.iter().enumerate() {
            if step.of.iter().any(|&of| of >= number) {
                return None;
            }
            let of: Vec<&Numbers> = step.of.iter().map(|&of| &values[of]).collect();
            let (mut value, wrong) = self.value(&step.op, &of)?;
            if let Some(seed) = noise {
                for (n, v) in value.data.iter_mut().enumerate() {
                    let part = f64::from(word(seed, number << 16 | n)) / f64::from(u32::MAX);
                    *v += (2.0 * part - 1.0) * (wrong.absolute + wrong.relative * v.abs());
                }
            }
            values.push(value);
        }
        Some(values)
    }

    /// Returns the shapes of all steps, for any kind of program.
    pub fn shapes(&self) -> Vec<Vec<usize>> {
        let mut values: Vec<Numbers> = Vec::new();
        for step in &self.steps {
            let of: Vec<&Numbers> = step.of.iter().map(|&of| &values[of]).collect();
            values.push(meaning(&step.op, &of).expect("the program fits together").0);
        }
        values.into_iter().map(|value| value.shape).collect()
    }

    /// Returns the steps that are inputs.
    pub fn inputs(&self) -> Vec<usize> {
        let is = |&n: &usize| matches!(self.steps[n].op, Op::Input(_));
        (0..self.steps.len()).filter(is).collect()
    }

    /// Returns the value of a step and its allowed error. Returns `None` if the step does not fit, or is not exact in a program
    /// of whole numbers.
    pub fn value(&self, op: &Op, of: &[&Numbers]) -> Option<(Numbers, Tolerance)> {
        let (value, wrong) = meaning(op, of)?;
        let fits = value.data.len() <= LARGEST && value.shape.len() <= 8;
        let small = |v: &f64| v.abs() <= MOST;
        if !fits || !value.data.iter().all(small) || !op.kinds().contains(&self.kind) {
            return None;
        }
        match self.kind {
            // Sums stay below 2^23.
            Kind::Whole if wrong.absolute >= 1.0 => None,
            Kind::Whole => Some((value, Tolerance::EXACT)),
            _ => Some((value, wrong)),
        }
    }
}

/// Whether shapes broadcast to one that is not too large.
fn broadcast(a: &[usize], b: &[usize]) -> bool {
    let (longer, shorter) = if a.len() > b.len() { (a, b) } else { (b, a) };
    let (rest, end) = longer.split_at(longer.len() - shorter.len());
    let pairs = end.iter().zip(shorter);
    let joint: usize = pairs.clone().map(|(x, y)| if *x == 1 { *y } else { *x }).product();
    pairs.clone().all(|(x, y)| x == y || *x == 1 || *y == 1)
        && joint * rest.iter().product::<usize>() <= LARGEST
}

fn largest(x: &Numbers) -> f64 {
    x.data.iter().fold(0.0, |most: f64, v| most.max(v.abs()))
}

/// Returns the value of a step and its allowed error.
fn meaning(op: &Op, of: &[&Numbers]) -> Option<(Numbers, Tolerance)> {
    if let Op::Input(array) = op {
        return Some((array.clone(), Tolerance::EXACT));
    }
    let x = *of.first()?;
    let second = of.get(1).copied();
    let exact = |value: Numbers| Some((value, Tolerance::EXACT));
    match op {
        Op::Unary(row) => Some((x.map(UNARY[*row].value), Tolerance::F32)),
        Op::Binary(row) => {
            let y = second.filter(|y| broadcast(&x.shape, &y.shape))?;
            Some((x.zip(y, BINARY[*row].value), Tolerance::F32))
        }
        Op::Add(number) => Some((x.map(|v| v + number), Tolerance::F32)),
        Op::Mul(number) => Some((x.map(|v| v * number), Tolerance::F32)),
        Op::Above(number) => exact(x.map(|v| f64::from(v > *number))),
        Op::Choose { axis, below } => {
            let y = second.filter(|y| broadcast(&x.shape, &y.shape))?;
            x.shape.get(*axis)?;
            let first = Array::from_fn(&x.shape, |at| f64::from(at[*axis] < *below));
            let [one, other] = [1.0, 0.0].map(|n| first.map(|v| f64::from(v == n)));
            let kept = x.zip(&one, |v, w| v * w).zip(y, |v, _| v);
            exact(kept.zip(&other.zip(y, |w, v| v * w), |v, w| v + w))
        }
        Op::Concat(axis) => {
            let y = second?;
            let extent = *y.shape.get(*axis)?;
            let fits = x.shape.len() == y.shape.len() && with(&x.shape, *axis, extent) == y.shape;
            fits.then(|| Array::concat(&[x.clone(), y.clone()], *axis)).and_then(exact)
        }
        Op::Matmul { turn } => matmul(x, second?, *turn),
        Op::Conv2d { .. } => conv(op, x, second?),
        Op::Pool { .. } => pool(op, x),
        Op::Take { .. } | Op::TakeAlong { .. } => take(op, x).and_then(exact),
        Op::IndexAdd { .. } | Op::ScatterAdd { .. } => scatter(op, x, second?),
        Op::Reduce { op, axes, keep } => reduce(*op, axes, *keep, x),
        Op::Softmax(axis) => {
            x.shape.get(*axis)?;
            let most = x.reduce(&[*axis], |v| v.iter().copied().fold(f64::NEG_INFINITY, f64::max));
            let powers = x.zip(&most, |v, m| (v - m).exp());
            let sums = powers.reduce(&[*axis], |v| v.iter().sum::<f64>());
            Some((powers.zip(&sums, |v, s| v / s), Tolerance::F32))
        }
        &Op::Cumsum { axis, exclusive, reverse } => {
            let terms = *x.shape.get(axis)?;
            let sum: (fn(f64, f64) -> f64, f64) = (|a, b| a + b, 0.0);
            let value = scanned(x, axis, (exclusive, reverse), sum);
            Some((value, Tolerance::sum(terms, largest(x))))
        }
        Op::Sort { .. } | Op::Argsort { .. } | Op::TopK { .. } => sort(op, x).and_then(exact),
        _ => moved(op, x).and_then(exact),
    }
}

/// Whether these are distinct axes of a shape, and at least one.
fn axes_of(axes: &[usize], shape: &[usize]) -> bool {
    let twice = |(i, a): (usize, &usize)| axes[..i].contains(a);
    !axes.is_empty() && axes.iter().all(|&a| a < shape.len()) && !axes.iter().enumerate().any(twice)
}

fn moved(op: &Op, x: &Numbers) -> Option<Numbers> {
    let rank = x.shape.len();
    match op {
        Op::Reshape(shape) => {
            (shape.iter().product::<usize>() == x.data.len()).then(|| x.reshape(shape))
        }
        Op::Permute(order) => {
            let fits = order.len() == rank && (rank == 0 || axes_of(order, &x.shape));
            fits.then(|| x.permute(order))
        }
        Op::Expand(shape) => {
            let lead = shape.len().checked_sub(rank)?;
            let fits = x.shape.iter().zip(&shape[lead..]).all(|(d, to)| d == to || *d == 1);
            (fits && shape.iter().product::<usize>() <= LARGEST).then(|| x.expand(shape))
        }
        &Op::Slice { axis, start, end, step } => {
            let fits = start <= end && end <= *x.shape.get(axis)? && step > 0;
            fits.then(|| x.slice(axis, start, (end - start).div_ceil(step), step as isize))
        }
        Op::Flip(axes) => axes_of(axes, &x.shape).then(|| x.flip(axes)),
        Op::Pad(amounts, value) => {
            let padded = x.shape.iter().zip(amounts).map(|(d, (lo, hi))| d + lo + hi);
            let fits = amounts.len() == rank && padded.product::<usize>() <= LARGEST;
            fits.then(|| x.pad(amounts, *value))
        }
        Op::PadWith(amounts, mode) => {
            let room = |(d, (lo, hi)): (&usize, &(usize, usize))| match mode {
                _ if (*lo, *hi) == (0, 0) => true,
                PadMode::Reflect => lo < d && hi < d,
                _ => *d > 0,
            };
            let padded = x.shape.iter().zip(amounts).map(|(d, (lo, hi))| d + lo + hi);
            let shape: Vec<usize> = padded.collect();
            let fits = amounts.len() == rank && x.shape.iter().zip(amounts).all(room);
            (fits && shape.iter().product::<usize>() <= LARGEST).then(|| {
                Array::from_fn(&shape, |at| {
                    let place = |i: usize| {
                        let at = at[i] as isize - amounts[i].0 as isize;
                        mirrored(at, x.shape[i] as isize, *mode)
                    };
                    x.at(&(0..rank).map(place).collect::<Vec<_>>())
                })
            })
        }
        _ => unreachable!("{op:?} has its meaning elsewhere"),
    }
}

/// Returns the position that padding outside an axis copies. Walks from edge to edge.
fn mirrored(at: isize, extent: isize, mode: PadMode) -> usize {
    let mut at = at;
    while at < 0 || at >= extent {
        at = match mode {
            PadMode::Edge => at.clamp(0, extent - 1),
            PadMode::Wrap => at - at.signum() * extent,
            PadMode::Reflect if at < 0 => -at,
            PadMode::Reflect => 2 * (extent - 1) - at,
            PadMode::Symmetric if at < 0 => -1 - at,
            PadMode::Symmetric => 2 * extent - 1 - at,
            other => unreachable!("a test of {other:?}"),
        };
    }
    at as usize
}

fn reduce(op: Reduce, axes: &[usize], keep: bool, x: &Numbers) -> Option<(Numbers, Tolerance)> {
    if !axes_of(axes, &x.shape) || x.data.is_empty() {
        return None;
    }
    let terms: usize = axes.iter().map(|&a| x.shape[a]).product();
    let sum = |v: &[f64]| v.iter().sum::<f64>();
    let most = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let rounded = Tolerance::sum(terms, largest(x));
    let (value, wrong) = match op {
        Reduce::Sum => (x.reduce(axes, sum), rounded),
        Reduce::Mean => (x.reduce(axes, |v| sum(v) / terms as f64), rounded),
        Reduce::Max => (x.reduce(axes, most), Tolerance::EXACT),
        Reduce::Min => {
            (x.reduce(axes, |v| -most(&v.iter().map(|v| -v).collect::<Vec<_>>())), Tolerance::EXACT)
        }
        Reduce::ArgMax if axes.len() == 1 && !keep => {
            let first = |v: &[f64]| v.iter().position(|&w| w == most(v)).unwrap_or(0) as f64;
            (x.reduce(axes, first), Tolerance::EXACT)
        }
        Reduce::ArgMax => return None,
    };
    Some((if keep { value } else { value.squeeze(axes) }, wrong))
}

fn matmul(x: &Numbers, y: &Numbers, turn: [bool; 2]) -> Option<(Numbers, Tolerance)> {
    let turned = |x: &Numbers, turn: bool| {
        let rank = x.shape.len();
        let mut order: Vec<usize> = (0..rank).collect();
        let last = rank.checked_sub(2)?;
        if turn {
            order.swap(last, last + 1);
        }
        Some(x.permute(&order))
    };
    let (x, y) = (turned(x, turn[0])?, turned(y, turn[1])?);
    let ((xs, [m, k]), (ys, [l, n])) = (x.shape.split_last_chunk()?, y.shape.split_last_chunk()?);
    if k != l || !broadcast(xs, ys) || m * n > LARGEST {
        return None;
    }
    let wrong = Tolerance::sum(*k, largest(&x) * largest(&y));
    let lead: usize = xs.iter().product::<usize>().max(ys.iter().product());
    (lead * m * n <= LARGEST).then(|| (product(&x, &y), wrong))
}

fn conv(op: &Op, x: &Numbers, w: &Numbers) -> Option<(Numbers, Tolerance)> {
    let &Op::Conv2d { stride, pads, dilation, groups } = op else { return None };
    let ([_, channels, height, width], [out, per_group, kh, kw]) = (&x.shape[..], &w.shape[..])
    else {
        return None;
    };
    let room = |extent: usize, i: usize, kernel: usize| {
        stride[i] > 0
            && dilation[i] > 0
            && kernel > 0
            && dilation[i] * (kernel - 1) < extent + pads[i].0 + pads[i].1
    };
    let grouped = groups > 0 && out.is_multiple_of(groups) && per_group * groups == *channels;
    if !grouped || *out == 0 || !room(*height, 0, *kh) || !room(*width, 1, *kw) {
        return None;
    }
    let wrong = Tolerance::sum(per_group * kh * kw, largest(x) * largest(w));
    Some((convolve(x, w, stride, pads, dilation, groups), wrong))
}

fn pool(op: &Op, x: &Numbers) -> Option<(Numbers, Tolerance)> {
    let &Op::Pool { max, size, stride, pads } = op else { return None };
    let [batch, channels, height, width] = x.shape[..] else { return None };
    let extent = |d: usize, i: usize| {
        let padded = d + pads[i].0 + pads[i].1;
        let fits = stride[i] > 0 && pads[i].0 < size[i] && pads[i].1 < size[i] && size[i] <= padded;
        // Each window contains an element: no window begins after the last one or ends before the first one.
        (fits && d > 0).then(|| (padded - size[i]) / stride[i] + 1)
    };
    let shape = [batch, channels, extent(height, 0)?, extent(width, 1)?];
    let value = Array::from_fn(&shape, |at| {
        let mut inside = Vec::new();
        each(&size, |tap| {
            let place = |i: usize| (at[2 + i] * stride[i] + tap[i]).wrapping_sub(pads[i].0);
            if place(0) < height && place(1) < width {
                inside.push(x.at(&[at[0], at[1], place(0), place(1)]));
            }
        });
        match max {
            true => inside.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            false => inside.iter().sum::<f64>() / inside.len() as f64,
        }
    });
    let wrong = match max {
        true => Tolerance::EXACT,
        false => Tolerance::sum(size[0] * size[1], largest(x)),
    };
    Some((value, wrong))
}

/// Returns the element at a position along an axis, or 0 outside.
fn element(x: &Numbers, at: &[usize], axis: usize, index: i32) -> f64 {
    let Some(place) = place(f64::from(index), x.shape[axis]) else { return 0.0 };
    let mut from = at.to_vec();
    from[axis] = place;
    x.at(&from)
}

fn take(op: &Op, x: &Numbers) -> Option<Numbers> {
    match op {
        Op::Take { axis, index } => {
            x.shape.get(*axis)?;
            let shape = with(&x.shape, *axis, index.len());
            Some(Array::from_fn(&shape, |at| element(x, at, *axis, index[at[*axis]])))
        }
        Op::TakeAlong { axis, extent, index } => {
            x.shape.get(*axis)?;
            let shape = with(&x.shape, *axis, *extent);
            let count: usize = shape.iter().product();
            if index.is_empty() || count > LARGEST {
                return None;
            }
            let index = Array::new(&shape, cycled(index, count));
            Some(Array::from_fn(&shape, |at| element(x, at, *axis, index.at(at))))
        }
        _ => None,
    }
}

fn scatter(op: &Op, x: &Numbers, y: &Numbers) -> Option<(Numbers, Tolerance)> {
    let (Op::IndexAdd { axis, index } | Op::ScatterAdd { axis, index }) = op else { return None };
    let extent = *x.shape.get(*axis)?;
    let fits = x.shape.len() == y.shape.len() && with(&y.shape, *axis, extent) == x.shape;
    if !fits || index.is_empty() {
        return None;
    }
    let index = match op {
        Op::IndexAdd { .. } => {
            let along = cycled(index, y.shape[*axis]);
            Array::from_fn(&y.shape, |at| along[at[*axis]])
        }
        _ => Array::new(&y.shape, cycled(index, y.data.len())),
    };
    let mut value = x.clone();
    each(&y.shape, |at| {
        if let Some(place) = place(f64::from(index.at(at)), extent) {
            let mut to = at.to_vec();
            to[*axis] = place;
            let flat = to.iter().zip(&x.shape).fold(0, |sum, (c, d)| sum * d + c);
            value.data[flat] += y.at(at);
        }
    });
    Some((value, Tolerance::sum(1 + y.shape[*axis], largest(x).max(largest(y)))))
}

fn sort(op: &Op, x: &Numbers) -> Option<Numbers> {
    let &(Op::Sort { axis, descending: down }
    | Op::Argsort { axis, descending: down }
    | Op::TopK { axis, largest: down, .. }) = op
    else {
        return None;
    };
    let extent = *x.shape.get(axis)?;
    let count = if let Op::TopK { k, .. } = op { *k } else { extent };
    if count > extent || extent > SORTED {
        return None;
    }
    Some(Array::from_fn(&with(&x.shape, axis, count), |at| {
        let line: Vec<f64> = (0..extent).map(|n| element(x, at, axis, n as i32)).collect();
        let before = |m: usize, n: usize| match (line[m] == line[n], down) {
            (true, _) => m < n,
            (_, true) => line[m] > line[n],
            (_, false) => line[m] < line[n],
        };
        let place = |n: usize| (0..extent).filter(|&m| before(m, n)).count();
        let n = (0..extent).find(|&n| place(n) == at[axis]).expect("it is somewhere");
        if matches!(op, Op::Argsort { .. }) {
            n as f64
        } else {
            line[n]
        }
    }))
}
