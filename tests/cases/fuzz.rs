//! Computations put together by chance, of whole numbers that stay small: every backend and every plan must give the
//! very values that plain arrays give, however operations are fused, cut and moved.

use super::array::{integers, word, Array};
use super::check::{near, said, Check, Suite};
use super::matmul::product;
use super::tolerance::Tolerance;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

/// Elements a tensor may have.
const LARGEST: usize = 4000;

/// A source of choices.
struct Chance {
    seed: u32,
    next: usize,
}

impl Chance {
    /// One of `0..n`.
    fn below(&mut self, n: usize) -> usize {
        self.next += 1;
        word(self.seed, self.next) as usize % n
    }

    fn shape(&mut self) -> Vec<usize> {
        let rank = self.below(5);
        (0..rank).map(|_| [1, 2, 3, 4, 5, 7][self.below(6)]).collect()
    }

    /// An order of `n` axes.
    fn order(&mut self, n: usize) -> Vec<usize> {
        let mut order: Vec<usize> = (0..n).collect();
        for i in (1..n).rev() {
            order.swap(i, self.below(i + 1));
        }
        order
    }

    /// Some of `n` axes, at least one.
    fn axes(&mut self, n: usize) -> Vec<usize> {
        let mut axes: Vec<usize> = (0..n).filter(|_| self.below(2) == 0).collect();
        if axes.is_empty() {
            axes.push(self.below(n));
        }
        axes
    }

    /// A way to write `count` as a product of a few extents.
    fn factors(&mut self, mut count: usize) -> Vec<usize> {
        let mut shape = Vec::new();
        for by in [2, 3, 4, 5, 7, 6] {
            if count.is_multiple_of(by) && shape.len() < 4 && self.below(2) == 0 {
                shape.push(by);
                count /= by;
            }
        }
        shape.insert(self.below(shape.len() + 1), count);
        shape
    }
}

/// A tensor and what it is.
#[derive(Clone)]
struct Pair {
    tensor: Tensor,
    array: Array<f64>,
}

fn isize_of(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&a| a as isize).collect()
}

/// Keeps numbers so small that sums of products of them are exact.
fn bounded(pair: Pair) -> Result<Pair> {
    let tensor = pair.tensor.minimum(9.0)?.maximum(-9.0)?;
    Ok(Pair { tensor, array: pair.array.map(|v| v.clamp(-9.0, 9.0)) })
}

fn source(device: &Device, chance: &mut Chance, shape: &[usize]) -> Result<Pair> {
    let array = integers(shape, -5, 5, chance.below(1 << 20) as u32);
    Ok(Pair { tensor: array.f32(device)?, array })
}

/// One more tensor of those there are; nothing where the choice does not fit.
fn step(device: &Device, chance: &mut Chance, pool: &[Pair]) -> Result<Option<Pair>> {
    let x = pool[chance.below(pool.len())].clone();
    let y = pool[chance.below(pool.len())].clone();
    match chance.below(16) {
        0..=2 => pointwise(chance, &x).map(Some),
        3..=6 => binary(chance, &x, &y),
        7..=11 => movement(chance, &x, &y),
        12 | 13 => reduction(chance, &x),
        14 => matmul(device, chance, &x),
        _ => gather(device, chance, &x),
    }
}

fn pointwise(chance: &mut Chance, x: &Pair) -> Result<Pair> {
    let Pair { tensor: t, array: a } = x;
    let number = chance.below(7) as f64 - 3.0;
    let (tensor, array) = match chance.below(8) {
        0 => (t.relu(), a.map(|v| v.max(0.0))),
        1 => (t.abs(), a.map(f64::abs)),
        2 => (t.neg(), a.map(|v| 0.0 - v)),
        3 => (t.square(), a.map(|v| v * v)),
        4 => (t.add(number)?, a.map(|v| v + number)),
        5 => (t.mul(number)?, a.map(|v| v * number)),
        6 => (t.cast(DType::I32)?.add(1)?.cast(DType::F32)?, a.map(|v| v + 1.0)),
        _ => (t.gt(number)?.cast(DType::F32)?, a.map(|v| f64::from(v > number))),
    };
    bounded(Pair { tensor, array })
}

/// Whether shapes broadcast to one that is not too large.
fn fits(a: &[usize], b: &[usize]) -> bool {
    let pairs = a.iter().rev().zip(b.iter().rev());
    let fits = pairs.clone().all(|(x, y)| x == y || *x == 1 || *y == 1);
    let joint: usize = pairs.map(|(x, y)| *x.max(y)).product();
    let longer = if a.len() > b.len() { a } else { b };
    let rest: usize = longer[..longer.len() - a.len().min(b.len())].iter().product();
    fits && joint * rest <= LARGEST
}

fn binary(chance: &mut Chance, x: &Pair, y: &Pair) -> Result<Option<Pair>> {
    if !fits(&x.array.shape, &y.array.shape) {
        return Ok(None);
    }
    let (t, u, a, b) = (&x.tensor, &y.tensor, &x.array, &y.array);
    let (tensor, array) = match chance.below(6) {
        0 => (t.add(u)?, a.zip(b, |v, w| v + w)),
        1 => (t.sub(u)?, a.zip(b, |v, w| v - w)),
        2 => (t.mul(u)?, a.zip(b, |v, w| v * w)),
        3 => (t.maximum(u)?, a.zip(b, f64::max)),
        4 => (t.lt(u)?.cast(DType::F32)?, a.zip(b, |v, w| f64::from(v < w))),
        _ => {
            let chosen = t.ge(0.0)?.select(u, t)?;
            (chosen, a.zip(b, |v, w| if v >= 0.0 { w } else { v }))
        }
    };
    bounded(Pair { tensor, array }).map(Some)
}

fn movement(chance: &mut Chance, x: &Pair, y: &Pair) -> Result<Option<Pair>> {
    let Pair { tensor: t, array: a } = x;
    let rank = a.shape.len();
    let axis = chance.below(rank.max(1));
    let extent = a.shape.get(axis).copied();
    let (tensor, array) = match (chance.below(9), extent) {
        (0, _) => {
            let shape = chance.factors(a.data.len());
            (t.reshape(&shape)?, a.reshape(&shape))
        }
        (1 | 2, _) => {
            let order = chance.order(rank);
            (t.permute(&isize_of(&order))?, a.permute(&order))
        }
        (3, _) if rank < 5 && a.data.len() * 3 <= LARGEST => {
            let shape = [&[1 + chance.below(3)], &a.shape[..]].concat();
            (t.expand(&shape)?, a.expand(&shape))
        }
        (4, Some(extent)) if extent > 0 => {
            let (start, by) = (chance.below(extent), 1 + chance.below(2));
            let end = start + 1 + chance.below(extent - start);
            let got = t.slice_step(axis as isize, start as isize, end as isize, by)?;
            (got, a.slice(axis, start, (end - start).div_ceil(by), by as isize))
        }
        (5, Some(_)) => {
            let axes = chance.axes(rank);
            (t.flip(&isize_of(&axes))?, a.flip(&axes))
        }
        (6, Some(_)) if a.data.len() * 4 <= LARGEST => {
            let mut amounts = vec![(0, 0); rank];
            amounts[axis] = (chance.below(3), chance.below(3));
            (t.pad(&amounts, 2.0)?, a.pad(&amounts, 2.0))
        }
        (7 | 8, Some(_)) => {
            let mut wanted = y.array.shape.clone();
            let fits = wanted.len() == rank && {
                wanted[axis] = a.shape[axis];
                wanted == a.shape
            };
            if !fits || a.data.len() + y.array.data.len() > LARGEST {
                return Ok(None);
            }
            let joined = Array::concat(&[a.clone(), y.array.clone()], axis);
            (t.concat(&[&y.tensor], axis as isize)?, joined)
        }
        _ => return Ok(None),
    };
    Ok(Some(Pair { tensor, array }))
}

fn reduction(chance: &mut Chance, x: &Pair) -> Result<Option<Pair>> {
    let Pair { tensor: t, array: a } = x;
    if a.shape.is_empty() || a.data.is_empty() {
        return Ok(None);
    }
    let axes = chance.axes(a.shape.len());
    let over = isize_of(&axes);
    let most = |v: &[f64]| v.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (kept, array) = match chance.below(3) {
        0 => (t.max_keepdim(&over)?, a.reduce(&axes, most)),
        1 => (t.min_keepdim(&over)?, a.map(|v| -v).reduce(&axes, most).map(|v| 0.0 - v)),
        _ => (t.sum_keepdim(&over)?, a.reduce(&axes, |v| v.iter().sum::<f64>())),
    };
    // Dropped or kept axes, or spread over what was reduced, as softmax does.
    let (tensor, array) = match chance.below(3) {
        0 => (kept.reshape(&array.squeeze(&axes).shape)?, array.squeeze(&axes)),
        1 => (t.sub(&kept)?, a.zip(&array, |v, w| v - w)),
        _ => (kept, array),
    };
    bounded(Pair { tensor, array }).map(Some)
}

fn matmul(device: &Device, chance: &mut Chance, x: &Pair) -> Result<Option<Pair>> {
    let rank = x.array.shape.len();
    if !(2..=4).contains(&rank) {
        return Ok(None);
    }
    let n = 1 + chance.below(6);
    let other = source(device, chance, &[x.array.shape[rank - 1], n])?;
    let tensor = x.tensor.matmul(&other.tensor)?;
    bounded(Pair { tensor, array: product(&x.array, &other.array) }).map(Some)
}

fn gather(device: &Device, chance: &mut Chance, x: &Pair) -> Result<Option<Pair>> {
    let Some(&extent) = x.array.shape.first() else { return Ok(None) };
    let count = 1 + chance.below(6);
    let index = integers(&[count], -1, extent as i32, chance.below(1 << 20) as u32);
    let tensor = x.tensor.index_select(0, &index.on(device, DType::I32)?)?;
    let shape = [&[count], &x.array.shape[1..]].concat();
    let array = Array::from_fn(&shape, |at| {
        let row = index.data[at[0]];
        if row < 0.0 || row >= extent as f64 {
            return 0.0;
        }
        x.array.at(&[&[row as usize], &at[1..]].concat())
    });
    Ok(Some(Pair { tensor, array }))
}

/// A computation of some twenty steps; its last tensors, and one from its middle.
fn computation(device: &Device, seed: u32) -> Result<Vec<Pair>> {
    let mut chance = Chance { seed, next: 0 };
    let mut pool = Vec::new();
    for _ in 0..3 {
        let shape = chance.shape();
        pool.push(source(device, &mut chance, &shape)?);
    }
    let steps = 6 + chance.below(20);
    while pool.len() < 3 + steps {
        pool.extend(step(device, &mut chance, &pool)?);
    }
    let middle = pool[3 + chance.below(steps)].clone();
    let mut results = pool.split_off(pool.len() - 3);
    results.push(middle);
    Ok(results)
}

fn check(pair: Pair) -> Check {
    let what = format!("a result of shape {:?}", pair.array.shape);
    near(what, pair.tensor, pair.array, Tolerance::EXACT)
}

/// How many computations are made.
const COUNT: u32 = 60;

pub fn cases() -> Suite {
    let mut suite = Suite::new("fuzz");
    for seed in 0..COUNT {
        // By turns one after the other, and all in one batch.
        suite.steps(format!("computation {seed}"), move |device| async move {
            let results = computation(&device, seed).map_err(said)?;
            if seed % 2 == 0 {
                let mut batch = device.batch();
                for pair in &results {
                    batch.add(&pair.tensor).map_err(said)?;
                }
                batch.run().map_err(said)?;
            }
            for pair in results {
                check(pair).run().await?;
            }
            Ok(())
        });
    }
    suite
}

/// Runs computation `seed`, for those who have more machines than one.
#[cfg(not(target_arch = "wasm32"))]
pub async fn run(device: &Device, seed: u32) -> super::check::Outcome {
    for pair in computation(device, seed).map_err(said)? {
        check(pair).run().await?;
    }
    Ok(())
}
