//! Reductions over blocks. Every sum has a fixed order. 32 times 16 elements are added in pairs in `f32`, and the partial
//! sums in `f64`. So the sum of equal numbers is exact, and their mean equals them.

use crate::backend::cpu::math::function::{larger, smaller};
use crate::backend::cpu::math::simd::{self, Loop};
use crate::dtype::DType;
use crate::op::Reduction;
use crate::schedule::Traversal;
use bytemuck::cast_slice;

const LANES: usize = 16;

/// The elements that are summed in `f32`, before their sum is added in `f64`.
const STRETCH: usize = 32 * LANES;

/// Selects the function that combines two words, and passes it to a macro.
macro_rules! with_combiner {
    ($op:expr, $dtype:expr, $go:ident) => {
        match ($op, $dtype) {
            (Reduction::Max, DType::F32) => {
                $go!(|x, y| larger(f32::from_bits(x), f32::from_bits(y)).to_bits())
            }
            (Reduction::Min, DType::F32) => {
                $go!(|x, y| smaller(f32::from_bits(x), f32::from_bits(y)).to_bits())
            }
            (Reduction::Max, DType::I32) => $go!(|x, y| (x as i32).max(y as i32) as u32),
            (Reduction::Min, DType::I32) => $go!(|x, y| (x as i32).min(y as i32) as u32),
            (Reduction::Max, _) => $go!(|x, y| x.max(y)),
            (Reduction::Min, _) => $go!(|x, y| x.min(y)),
            (Reduction::Sum, _) => $go!(u32::wrapping_add),
            (Reduction::Prod, _) => $go!(u32::wrapping_mul),
            (Reduction::Any, _) => $go!(|x, y| x | y),
            (Reduction::All, _) => $go!(|x, y| x & y),
        }
    };
}

/// A rectangle of a space: values of `rows` rows and `columns` columns.
#[derive(Clone, Copy, Debug)]
pub struct Rectangle {
    pub layout: Traversal,
    pub rows: usize,
    pub columns: usize,
}

/// The combined values so far, for each row of a block.
#[derive(Clone, Debug)]
pub struct Accumulators {
    op: Reduction,
    dtype: DType,
    values: Values,
}

#[derive(Clone, Debug)]
enum Values {
    /// Sums and products of floats, in `f64`.
    Wide(Vec<f64>),
    Words(Vec<u32>),
}

impl Accumulators {
    /// Creates empty accumulators for `rows` rows.
    pub fn new(op: Reduction, dtype: DType, rows: usize) -> Accumulators {
        let dtype = dtype.compute();
        let values = match (op, dtype) {
            (Reduction::Sum, DType::F32) => Values::Wide(vec![0.0; rows]),
            (Reduction::Prod, DType::F32) => Values::Wide(vec![1.0; rows]),
            _ => Values::Words(vec![op.identity(dtype); rows]),
        };
        Accumulators { op, dtype, values }
    }

    /// Combines the values of a block.
    pub fn add(&mut self, block: Rectangle, data: &[u32]) {
        if data.is_empty() {
            return;
        }
        let (op, dtype) = (self.op, self.dtype);
        if block.layout == Traversal::RowMajor && block.columns < LANES {
            return self.add_short(block.columns, data);
        }
        match (&mut self.values, block.layout) {
            (Values::Wide(sums), Traversal::RowMajor) => {
                for (sum, row) in sums.iter_mut().zip(data.chunks_exact(block.columns)) {
                    match op {
                        Reduction::Prod => *sum *= product(cast_slice(row)),
                        _ => *sum += total(cast_slice(row)),
                    }
                }
            }
            (Values::Wide(sums), Traversal::ColumnMajor) => {
                for column in cast_slice::<u32, f32>(data).chunks_exact(block.rows) {
                    match op {
                        Reduction::Prod => {
                            let each = sums.iter_mut().zip(column);
                            each.for_each(|(sum, &x)| *sum *= f64::from(x));
                        }
                        _ => add_each(sums, column),
                    }
                }
            }
            (Values::Words(words), Traversal::RowMajor) => {
                for (word, row) in words.iter_mut().zip(data.chunks_exact(block.columns)) {
                    *word = combine_row(op, dtype, *word, row);
                }
            }
            (Values::Words(words), Traversal::ColumnMajor) => {
                for column in data.chunks_exact(block.rows) {
                    combine_each(op, dtype, words, column);
                }
            }
        }
    }

    /// Adds the products of the values of two blocks. Each product is rounded.
    pub fn add_products(&mut self, block: Rectangle, x: &[u32], y: &[u32]) {
        let Values::Wide(sums) = &mut self.values else { return };
        let (x, y): (&[f32], &[f32]) = (cast_slice(x), cast_slice(y));
        if x.is_empty() {
            return;
        }
        match block.layout {
            Traversal::RowMajor if block.columns < LANES => {
                let rows = x.chunks_exact(block.columns).zip(y.chunks_exact(block.columns));
                for (sum, (x, y)) in sums.iter_mut().zip(rows) {
                    *sum += x.iter().zip(y).map(|(x, y)| f64::from(x * y)).sum::<f64>();
                }
            }
            Traversal::RowMajor => {
                let rows = x.chunks_exact(block.columns).zip(y.chunks_exact(block.columns));
                for (sum, (x, y)) in sums.iter_mut().zip(rows) {
                    *sum += simd::run(Products(x, y));
                }
            }
            Traversal::ColumnMajor => {
                let columns = x.chunks_exact(block.rows).zip(y.chunks_exact(block.rows));
                columns.for_each(|(x, y)| simd::run(AddProducts(sums, x, y)));
            }
        }
    }

    /// Combines rows that are too short for lanes. Several rows at a time are faster.
    fn add_short(&mut self, columns: usize, data: &[u32]) {
        let (op, dtype) = (self.op, self.dtype);
        match &mut self.values {
            Values::Wide(sums) => {
                let data: &[f32] = cast_slice(data);
                let wide = |x: f32| f64::from(x);
                match op {
                    Reduction::Prod => short_rows(sums, columns, data, |all, x| all * wide(x)),
                    _ => short_rows(sums, columns, data, |all, x| all + wide(x)),
                }
            }
            Values::Words(words) => {
                macro_rules! go {
                    ($f:expr) => {
                        short_rows(words, columns, data, $f)
                    };
                }
                with_combiner!(op, dtype, go)
            }
        }
    }

    /// Combines the accumulators of later elements.
    pub fn merge(&mut self, later: &Accumulators) {
        match (&mut self.values, &later.values) {
            (Values::Wide(sums), Values::Wide(more)) => {
                for (sum, more) in sums.iter_mut().zip(more) {
                    match self.op {
                        Reduction::Prod => *sum *= more,
                        _ => *sum += more,
                    }
                }
            }
            (Values::Words(words), Values::Words(more)) => {
                combine_each(self.op, self.dtype, words, more);
            }
            _ => {}
        }
    }

    /// Writes the results to `out`.
    pub fn finish(&self, out: &mut [u32]) {
        match &self.values {
            Values::Wide(sums) => {
                for (out, &sum) in out.iter_mut().zip(sums) {
                    *out = (sum as f32).to_bits();
                }
            }
            Values::Words(words) => out.copy_from_slice(&words[..out.len()]),
        }
    }
}

/// Returns the sum of a row.
fn total(row: &[f32]) -> f64 {
    struct Total<'a>(&'a [f32]);
    impl Loop for Total<'_> {
        type Output = f64;
        #[inline(always)]
        fn run(self) -> f64 {
            sum_of(self.0.len(), |at| lanes(self.0, at), |at| self.0[at])
        }
    }
    match row.len() < LANES {
        true => row.iter().map(|&x| f64::from(x)).sum(),
        false => simd::run(Total(row)),
    }
}

/// Computes the sum of the products of two rows.
struct Products<'a>(&'a [f32], &'a [f32]);

impl Loop for Products<'_> {
    type Output = f64;
    #[inline(always)]
    fn run(self) -> f64 {
        let Products(x, y) = self;
        let products = |at: usize| {
            let (x, y) = (lanes(x, at), lanes(y, at));
            std::array::from_fn(|lane| x[lane] * y[lane])
        };
        sum_of(x.len().min(y.len()), products, |at| x[at] * y[at])
    }
}

/// Adds each product to its sum.
struct AddProducts<'a>(&'a mut [f64], &'a [f32], &'a [f32]);

impl Loop for AddProducts<'_> {
    type Output = ();
    #[inline(always)]
    fn run(self) {
        for ((sum, x), y) in self.0.iter_mut().zip(self.1).zip(self.2) {
            *sum += f64::from(x * y);
        }
    }
}

#[inline(always)]
fn lanes(row: &[f32], at: usize) -> [f32; LANES] {
    let row = &row[at..at + LANES];
    std::array::from_fn(|lane| row[lane])
}

#[inline(always)]
fn plus(x: [f32; LANES], y: [f32; LANES]) -> [f32; LANES] {
    std::array::from_fn(|lane| x[lane] + y[lane])
}

#[inline(always)]
fn wider(sums: [f64; LANES], more: [f32; LANES]) -> [f64; LANES] {
    std::array::from_fn(|lane| sums[lane] + f64::from(more[lane]))
}

/// Returns the sums of four times [`LANES`] numbers from position `at` on.
#[inline(always)]
fn four(some: &impl Fn(usize) -> [f32; LANES], at: usize) -> [f32; LANES] {
    let part = [some(at), some(at + LANES), some(at + 2 * LANES), some(at + 3 * LANES)];
    plus(plus(part[0], part[1]), plus(part[2], part[3]))
}

/// Returns the sum of `count` numbers. `some` returns [`LANES`] numbers from a position on, and `one` returns a single
/// number.
#[inline(always)]
fn sum_of(count: usize, some: impl Fn(usize) -> [f32; LANES], one: impl Fn(usize) -> f32) -> f64 {
    let (mut sums, mut at) = ([0f64; LANES], 0);
    while at + STRETCH <= count {
        // A closure might not be inlined, and would then be compiled without vectors.
        let mut parts = [[0f32; LANES]; 8];
        for (n, part) in parts.iter_mut().enumerate() {
            *part = four(&some, at + n * (STRETCH / 8));
        }
        let [a, b, c, d, e, f, g, h] = parts;
        let (first, last) = (plus(plus(a, b), plus(c, d)), plus(plus(e, f), plus(g, h)));
        sums = wider(sums, plus(first, last));
        at += STRETCH;
    }
    while at + STRETCH / 8 <= count {
        sums = wider(sums, four(&some, at));
        at += STRETCH / 8;
    }
    while at + LANES <= count {
        sums = wider(sums, some(at));
        at += LANES;
    }
    let rest: f64 = (at..count).map(|at| f64::from(one(at))).sum();
    sums.iter().sum::<f64>() + rest
}

/// Adds each of `more` to its sum.
fn add_each(sums: &mut [f64], more: &[f32]) {
    struct Add<'a>(&'a mut [f64], &'a [f32]);
    impl Loop for Add<'_> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for (sum, &x) in self.0.iter_mut().zip(self.1) {
                *sum += f64::from(x);
            }
        }
    }
    simd::run(Add(sums, more));
}

/// Returns the product of a row. It is in `f64` throughout, because the range of `f32` would overflow first.
fn product(row: &[f32]) -> f64 {
    let mut lanes = [1f64; 4];
    let parts = row.chunks_exact(4);
    let rest = parts.remainder();
    for part in parts {
        for (lane, &x) in lanes.iter_mut().zip(part) {
            *lane *= f64::from(x);
        }
    }
    let rest: f64 = rest.iter().map(|&x| f64::from(x)).product();
    (lanes[0] * lanes[1]) * (lanes[2] * lanes[3]) * rest
}

/// Combines eight rows together, so that no step waits for the previous step of its row.
#[inline(always)]
fn short_rows<A: Copy, T: Copy>(
    all: &mut [A],
    columns: usize,
    data: &[T],
    f: impl Fn(A, T) -> A + Copy,
) {
    let rows = all.chunks_mut(8).zip(data.chunks(8 * columns));
    for (all, data) in rows {
        for column in 0..columns {
            for (all, &x) in all.iter_mut().zip(data[column..].iter().step_by(columns)) {
                *all = f(*all, x);
            }
        }
    }
}

fn combine_row(op: Reduction, dtype: DType, start: u32, row: &[u32]) -> u32 {
    let identity = op.identity(dtype);
    macro_rules! go {
        ($f:expr) => {
            fold(start, identity, row, $f)
        };
    }
    with_combiner!(op, dtype, go)
}

fn combine_each(op: Reduction, dtype: DType, words: &mut [u32], more: &[u32]) {
    macro_rules! go {
        ($f:expr) => {
            each(words, more, $f)
        };
    }
    with_combiner!(op, dtype, go);
}

fn each(words: &mut [u32], more: &[u32], f: impl Fn(u32, u32) -> u32) {
    struct Each<'a, F>(&'a mut [u32], &'a [u32], F);
    impl<F: Fn(u32, u32) -> u32> Loop for Each<'_, F> {
        type Output = ();
        #[inline(always)]
        fn run(self) {
            for (word, &x) in self.0.iter_mut().zip(self.1) {
                *word = (self.2)(*word, x);
            }
        }
    }
    simd::run(Each(words, more, f));
}

fn fold(start: u32, identity: u32, row: &[u32], f: impl Fn(u32, u32) -> u32) -> u32 {
    struct Fold<'a, F>(u32, &'a [u32], F);
    impl<F: Fn(u32, u32) -> u32> Loop for Fold<'_, F> {
        type Output = [u32; LANES];
        #[inline(always)]
        fn run(self) -> [u32; LANES] {
            let mut lanes = [self.0; LANES];
            for part in self.1.chunks_exact(LANES) {
                for (lane, &x) in lanes.iter_mut().zip(part) {
                    *lane = (self.2)(*lane, x);
                }
            }
            lanes
        }
    }
    let (lanes, rest) = row.split_at(row.len() / LANES * LANES);
    let whole = match lanes.is_empty() {
        true => start,
        false => simd::run(Fold(identity, lanes, &f)).into_iter().fold(start, &f),
    };
    rest.iter().fold(whole, |all, &x| f(all, x))
}
