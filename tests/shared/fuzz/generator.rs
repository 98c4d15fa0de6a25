//! Makes random programs from a seed.

use super::meaning::{Program, LARGEST};
use super::step::{with, Kind, Op, Reduce, Step, BINARY, UNARY};
use crate::shared::array::{integers, random, word, Array};
use warpweft::tensor::PadMode;

/// Numbers beyond this are made small again.
const GROWN: f64 = 9.0;

/// A source of random choices.
struct Chance {
    seed: u32,
    next: usize,
}

impl Chance {
    /// Returns a number in `0..n`.
    fn below(&mut self, n: usize) -> usize {
        self.next += 1;
        word(self.seed, self.next) as usize % n
    }

    fn yes(&mut self) -> bool {
        self.below(2) == 0
    }

    fn shape(&mut self) -> Vec<usize> {
        let rank = self.below(5);
        (0..rank).map(|_| [1, 2, 3, 4, 5, 7][self.below(6)]).collect()
    }

    /// Returns a random order of `n` axes.
    fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }

    /// Returns some of `n` axes, at least one.
    fn axes(&mut self, n: usize) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..n).filter(|_| self.yes()).collect();
        if axes.is_empty() {
            axes.push(self.below(n));
        }
        axes
    }

    /// Returns a way to write `count` as a product of a few extents.
    fn factors(&mut self, mut count: usize) -> Vec<usize> {
        let mut shape = Vec::new();
        for by in [2, 3, 4, 5, 7, 6] {
            if count.is_multiple_of(by) && shape.len() < 4 && self.yes() {
                shape.push(by);
                count /= by;
            }
        }
        shape.insert(self.below(shape.len() + 1), count);
        shape
    }

    /// Returns positions along an axis, sometimes out of range.
    fn index(&mut self, count: usize, extent: usize) -> Vec<i32> {
        (0..count).map(|_| self.below(extent + 2) as i32 - 1).collect()
    }

    fn pads(&mut self, most: usize) -> (usize, usize) {
        (self.below(most + 1), self.below(most + 1))
    }
}

/// A program that grows.
struct Growing {
    program: Program,
    values: Vec<Array<f64>>,
    chance: Chance,
}

/// Returns a program of about twenty steps. Its results are its last tensors and one from the middle.
pub fn program(seed: u32, kind: Kind) -> Program {
    let program = Program { kind, steps: Vec::new(), results: Vec::new() };
    let chance = Chance { seed, next: 0 };
    let mut growing = Growing { program, values: Vec::new(), chance };
    for _ in 0..3 {
        let shape = growing.chance.shape();
        growing.input(&shape);
    }
    let most = if kind == Kind::Smooth { 8 } else { 20 };
    let end = 3 + 6 + growing.chance.below(most);
    while growing.values.len() < end {
        growing.step();
    }
    let last = growing.values.len() - 1;
    let middle = 3 + growing.chance.below(last - 3);
    growing.program.results = vec![last - 2, last - 1, last, middle];
    growing.program
}

impl Growing {
    fn input(&mut self, shape: &[usize]) -> Option<usize> {
        let seed = self.chance.below(1 << 20) as u32;
        let array = match self.program.kind {
            Kind::Whole => integers(shape, -5, 5, seed),
            _ => random(shape, -2.0, 2.0, seed),
        };
        self.push(Op::Input(array), Vec::new())
    }

    /// Adds a step. Returns its number if it fits.
    fn push(&mut self, op: Op, of: Vec<usize>) -> Option<usize> {
        let operands: Vec<&Array<f64>> = of.iter().map(|&of| &self.values[of]).collect();
        let (value, _) = self.program.value(&op, &operands)?;
        self.values.push(value);
        self.program.steps.push(Step { op, of });
        Some(self.values.len() - 1)
    }

    /// Adds a random step if it fits, and a step that keeps numbers small.
    fn step(&mut self) {
        let x = self.chance.below(self.values.len());
        let y = self.chance.below(self.values.len());
        let count = self.program.steps.len();
        let done = match self.chance.below(20) {
            0..=2 => self.unary(x),
            3..=6 => self.binary(x, y),
            7..=11 => self.movement(x, y),
            12..=13 => self.reduction(x),
            14 => self.matmul(x),
            15 => self.windows(x),
            16 => self.indexed(x),
            17 => self.scattered(x),
            _ => self.along(x),
        };
        let Some(last) = done else {
            // The steps that were added for this one are not needed.
            self.program.steps.truncate(count);
            self.values.truncate(count);
            return;
        };
        if self.values[last].data.iter().any(|v| v.abs() > GROWN) {
            let small = usize::from(self.program.kind == Kind::Smooth);
            self.push(Op::Unary(small), vec![last]);
        }
    }

    fn unary(&mut self, x: usize) -> Option<usize> {
        let number = self.chance.below(7) as f64 - 3.0;
        let op = match self.chance.below(8) {
            0 => Op::Add(number),
            1 => Op::Mul(number),
            2 => Op::Above(number),
            _ => Op::Unary(self.chance.below(UNARY.len())),
        };
        self.push(op, vec![x])
    }

    fn binary(&mut self, x: usize, y: usize) -> Option<usize> {
        let rank = self.values[x].shape.len();
        let op = match self.chance.below(6) {
            0 if rank > 0 => {
                let axis = self.chance.below(rank);
                Op::Choose { axis, below: self.chance.below(self.values[x].shape[axis] + 1) }
            }
            _ => Op::Binary(self.chance.below(BINARY.len())),
        };
        self.push(op, vec![x, y])
    }

    fn movement(&mut self, x: usize, y: usize) -> Option<usize> {
        let chance = &mut self.chance;
        let Array { shape, data } = &self.values[x];
        let rank = shape.len();
        let axis = chance.below(rank.max(1));
        let extent = shape.get(axis).copied();
        let op = match (chance.below(10), extent) {
            (0, _) => Op::Reshape(chance.factors(data.len())),
            (1 | 2, _) => Op::Permute(chance.order(rank)),
            (3, _) if rank < 5 && data.len() * 3 <= LARGEST => {
                Op::Expand([&[1 + chance.below(3)], &shape[..]].concat())
            }
            (4, Some(extent)) if extent > 0 => {
                let (start, step) = (chance.below(extent), 1 + chance.below(3));
                Op::Slice { axis, start, end: start + 1 + chance.below(extent - start), step }
            }
            (5, Some(_)) => Op::Flip(chance.axes(rank)),
            (6, Some(_)) => {
                let mut amounts = vec![(0, 0); rank];
                amounts[axis] = chance.pads(2);
                Op::Pad(amounts, 2.0)
            }
            (7, Some(extent)) if extent > 0 => {
                let modes = [PadMode::Reflect, PadMode::Symmetric, PadMode::Edge, PadMode::Wrap];
                let mut amounts = vec![(0, 0); rank];
                amounts[axis] = chance.pads((extent - 1).min(3));
                Op::PadWith(amounts, modes[chance.below(4)])
            }
            (8 | 9, Some(_)) => {
                let other = &self.values[y].shape;
                let other = if other.len() == rank { with(other, axis, 1) } else { Vec::new() };
                let y = if other == with(shape, axis, 1) { y } else { x };
                return self.push(Op::Concat(axis), vec![x, y]);
            }
            _ => return None,
        };
        self.push(op, vec![x])
    }

    fn reduction(&mut self, x: usize) -> Option<usize> {
        use Reduce::{ArgMax, Max, Mean, Min, Sum};
        let rank = self.values[x].shape.len();
        if rank == 0 {
            return None;
        }
        let axes = self.chance.axes(rank);
        let op = [Sum, Sum, Mean, Max, Min, ArgMax][self.chance.below(6)];
        let keep = op != ArgMax && self.chance.below(3) > 0;
        let reduced = self.push(Op::Reduce { op, axes, keep }, vec![x])?;
        // Broadcast over the reduced axes, as in softmax.
        match keep && self.chance.yes() {
            true => self.push(Op::Binary(1), vec![x, reduced]),
            false => Some(reduced),
        }
    }

    fn matmul(&mut self, x: usize) -> Option<usize> {
        let x = if self.chance.yes() { self.joined(x)? } else { x };
        let shape = self.values[x].shape.clone();
        let (lead, [rows, columns]) = shape.split_last_chunk()?;
        if lead.len() > 2 {
            return None;
        }
        let (turn, n) = ([self.chance.yes(), self.chance.yes()], 1 + self.chance.below(6));
        let inner = if turn[0] { *rows } else { *columns };
        let lead = if self.chance.yes() { lead } else { &[] };
        let last = if turn[1] { [n, inner] } else { [inner, n] };
        let other = [lead, &last].concat();
        let y = self.input(&other)?;
        let product = self.push(Op::Matmul { turn }, vec![x, y])?;
        if self.chance.yes() {
            return Some(product);
        }
        // A view with several users.
        let y = self.input(&other)?;
        let second = self.push(Op::Matmul { turn }, vec![x, y])?;
        let row = self.chance.below(3);
        self.push(Op::Binary(row), vec![product, second])
    }

    /// Adds a view with the leading axes permuted and joined. Matmuls materialize such a view first.
    fn joined(&mut self, x: usize) -> Option<usize> {
        let shape = self.values[x].shape.clone();
        let (&columns, lead) = shape.split_last()?;
        let mut order = self.chance.order(lead.len());
        order.push(lead.len());
        let turned = self.push(Op::Permute(order), vec![x])?;
        self.push(Op::Reshape(vec![lead.iter().product(), columns]), vec![turned])
    }

    /// Adds a convolution or pooling. If no tensor has rank 4, adds an input.
    fn windows(&mut self, x: usize) -> Option<usize> {
        let rank4 = |n: &usize| self.values[*n].shape.len() == 4;
        let x = match [x].into_iter().chain((0..self.values.len()).rev()).find(rank4) {
            Some(x) => x,
            None => {
                let shape = [1, 2, 4, 5].map(|most| 1 + self.chance.below(most));
                self.input(&shape)?
            }
        };
        let shape = self.values[x].shape.clone();
        let chance = &mut self.chance;
        let size = [2, 3].map(|i| 1 + chance.below(shape[i].clamp(1, 3)));
        let stride = [1 + chance.below(2), 1 + chance.below(2)];
        if chance.yes() {
            let pads = size.map(|size| chance.pads(size - 1));
            let max = self.program.kind == Kind::Whole || chance.below(3) == 0;
            return self.push(Op::Pool { max, size, stride, pads }, vec![x]);
        }
        let (pads, dilation) = ([chance.pads(2), chance.pads(2)], [1 + chance.below(2), 1]);
        let groups = if shape[1].is_multiple_of(2) { 1 + chance.below(2) } else { 1 };
        let out = groups * (1 + chance.below(3));
        let y = self.input(&[out, shape[1] / groups, size[0], size[1]])?;
        self.push(Op::Conv2d { stride, pads, dilation, groups }, vec![x, y])
    }

    fn indexed(&mut self, x: usize) -> Option<usize> {
        let shape = self.values[x].shape.clone();
        let chance = &mut self.chance;
        let axis = chance.below(shape.len().max(1));
        let (extent, count) = (*shape.get(axis)?, 1 + chance.below(6));
        let op = match chance.yes() {
            true => Op::Take { axis, index: chance.index(count, extent) },
            false => {
                let index = chance.index(7 + count, extent);
                Op::TakeAlong { axis, extent: count, index }
            }
        };
        self.push(op, vec![x])
    }

    fn scattered(&mut self, x: usize) -> Option<usize> {
        let shape = self.values[x].shape.clone();
        let axis = self.chance.below(shape.len().max(1));
        let (extent, count) = (*shape.get(axis)?, 1 + self.chance.below(6));
        let y = self.input(&with(&shape, axis, count))?;
        let op = match self.chance.yes() {
            true => Op::IndexAdd { axis, index: self.chance.index(count, extent) },
            false => Op::ScatterAdd { axis, index: self.chance.index(7 + count, extent) },
        };
        self.push(op, vec![x, y])
    }

    /// Adds a scan, sort or softmax along an axis.
    fn along(&mut self, x: usize) -> Option<usize> {
        let shape = &self.values[x].shape;
        let chance = &mut self.chance;
        let axis = chance.below(shape.len().max(1));
        let extent = *shape.get(axis)?;
        let (yes, other) = (chance.yes(), chance.yes());
        let op = match chance.below(5) {
            0 => Op::Softmax(axis),
            1 => Op::Sort { axis, descending: yes },
            2 => Op::Argsort { axis, descending: yes },
            3 => Op::TopK { axis, k: 1 + chance.below(extent), largest: yes },
            _ => Op::Cumsum { axis, exclusive: yes, reverse: other },
        };
        self.push(op, vec![x])
    }
}
