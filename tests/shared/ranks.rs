//! Tests the largest and the smallest rank. Operations along an axis must work on any of eight axes, and a scalar is a tensor
//! like any other.

use super::array::{integers, random, Array};
use super::check::{exact, near, said, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{Axes, NormOptions, PadMode, PoolOptions, Tensor};

const EIGHT: &[usize] = &[2, 1, 3, 1, 2, 1, 4, 2];

/// Axes at the beginning, with one element, in the middle and at the end.
const AXES: [usize; 5] = [0, 3, 2, 6, 7];

/// Applies `f` to each line along `axis`.
fn along(x: &Array<f64>, axis: usize, f: impl Fn(&[f64]) -> Vec<f64>) -> Array<f64> {
    Array::from_fn(&x.shape, |at| {
        let line: Vec<f64> = (0..x.shape[axis])
            .map(|i| {
                let mut from = at.to_vec();
                from[axis] = i;
                x.at(&from)
            })
            .collect();
        f(&line)[at[axis]]
    })
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("ranks");
    for axis in AXES {
        lines(&mut suite, axis);
        to_and_fro(&mut suite, axis);
    }
    last_axes(&mut suite);
    whole(&mut suite);
    single(&mut suite);
    suite
}

fn lines(suite: &mut Suite, axis: usize) {
    suite.add(format!("eight axes, along {axis}"), move |device| {
        let x = random(EIGHT, -4.0, 4.0, 1);
        let (a, n) = (x.f32(device)?, axis as isize);
        let sorted = along(&x, axis, |line| {
            let mut line = line.to_vec();
            line.sort_by(f64::total_cmp);
            line
        });
        let order = along(&x, axis, |line| {
            let mut order: Vec<usize> = (0..line.len()).collect();
            order.sort_by(|&a, &b| line[a].total_cmp(&line[b]));
            order.into_iter().map(|at| at as f64).collect()
        });
        let sums = along(&x, axis, |line| {
            let add = |sum: &mut f64, x: &f64| {
                *sum += x;
                Some(*sum)
            };
            line.iter().scan(0.0, add).collect()
        });
        let shares = along(&x, axis, |line| {
            let all: f64 = line.iter().map(|x| x.exp()).sum();
            line.iter().map(|x| x.exp() / all).collect()
        });
        let largest = x.reduce(&[axis], |line| {
            let best = line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            line.iter().position(|&x| x == best).map_or(-1.0, |at| at as f64)
        });
        let turned = along(&x, axis, |line| {
            let mut line = line.to_vec();
            line.rotate_right(1);
            line
        });
        let (values, positions) = a.sort(n, false)?;
        let by = Tolerance { absolute: 4e-6, ..Tolerance::F32 };
        Ok(vec![
            near("sort", values, sorted, Tolerance::EXACT),
            exact("argsort", positions, DType::I32, order),
            near("cumsum", a.cumsum(n)?, sums, by),
            near("softmax", a.softmax(n)?, shares, Tolerance::F32),
            exact("argmax", a.argmax(n)?, DType::I32, largest.squeeze(&[axis])),
            near("roll", a.roll(1, n)?, turned, Tolerance::EXACT),
        ])
    });
}

fn to_and_fro(suite: &mut Suite, axis: usize) {
    suite.add(format!("eight axes, to and fro along {axis}"), move |device| {
        let (x, source) = (random(EIGHT, -4.0, 4.0, 2), integers(EIGHT, -9, 9, 3));
        let extent = EIGHT[axis];
        let index = integers(EIGHT, 0, extent as i32 - 1, 4);
        let places = index.on(device, DType::I32)?;
        let (a, n) = (x.f32(device)?, axis as isize);
        let taken = Array::from_fn(EIGHT, |at| {
            let mut from = at.to_vec();
            from[axis] = index.at(at) as usize;
            x.at(&from)
        });
        let added = Array::from_fn(EIGHT, |at| {
            let mut sum = 0.0;
            for i in 0..extent {
                let mut from = at.to_vec();
                from[axis] = i;
                if index.at(&from) as usize == at[axis] {
                    sum += source.at(&from);
                }
            }
            sum
        });
        let two = Array::new(&[2], vec![extent as f64 - 1.0, 0.0]);
        let mut dims = EIGHT.to_vec();
        dims[axis] = 2;
        let ends = Array::from_fn(&dims, |at| {
            let mut from = at.to_vec();
            from[axis] = two.at(&at[axis..=axis]) as usize;
            x.at(&from)
        });
        let zeros = device.zeros(EIGHT)?;
        let mut edge = [(0, 0); 8];
        edge[axis] = (1, 2);
        let mut dims = EIGHT.to_vec();
        dims[axis] += 3;
        let padded = Array::from_fn(&dims, |at| {
            let mut from = at.to_vec();
            from[axis] = at[axis].saturating_sub(1).min(extent - 1);
            x.at(&from)
        });
        let selected = a.index_select(n, &two.on(device, DType::I32)?)?;
        let brought = zeros.scatter_add(n, &places, &source.f32(device)?)?;
        let framed = a.pad_with(&edge, PadMode::Edge)?;
        Ok(vec![
            near("take_along", a.gather(n, &places)?, taken, Tolerance::EXACT),
            near("index_select", selected, ends, Tolerance::EXACT),
            near("scatter_add", brought, added, Tolerance::EXACT),
            near("pad_with", framed, padded, Tolerance::EXACT),
        ])
    });
}

fn last_axes(suite: &mut Suite) {
    suite.add("eight axes, the last ones", |device| {
        let x = random(EIGHT, -4.0, 4.0, 5);
        let a = x.f32(device)?;
        let (index, want) = (Array::new(&[1, 2], vec![1.0, 0.0]), x.slice(0, 1, 1, 1));
        let rows = x.reduce(&[7], |row| {
            let mean = row.iter().sum::<f64>() / 2.0;
            (mean, (row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 2.0 + 1e-5).sqrt())
        });
        let normal = x.zip(&rows, |x, (mean, spread)| (x - mean) / spread);
        let below = Array::from_fn(EIGHT, |at| if at[7] <= at[6] { x.at(at) } else { 0.0 });
        let filled = x.map(|x| if x > 1.0 { -7.0 } else { x });
        let mask = a.gt(1.0)?;
        let by = Tolerance { absolute: 2e-5, ..Tolerance::F32 };
        Ok(vec![
            near("layer_norm", a.layer_norm(&[-1], NormOptions::default())?, normal, by),
            near("tril", a.tril(0)?, below, Tolerance::EXACT),
            near("masked_fill", a.masked_fill(&mask, -7.0)?, filled, Tolerance::EXACT),
            near(
                "gather_nd",
                a.gather_nd(&index.on(device, DType::I32)?)?,
                want.reshape(&EIGHT[1..]).reshape(&[1, 3, 1, 2, 1, 4, 2]),
                Tolerance::EXACT,
            ),
        ])
    });
}

/// Tests scalars, images and tiles of images.
fn whole(suite: &mut Suite) {
    suite.steps("item", |device| async move {
        for shape in [&[][..], &[1], &[1; 8]] {
            let x = device.tensor(&[2.5f32], shape).map_err(said)?;
            let got = x.mul(2.0).map_err(said)?.item::<f32>().await.map_err(said)?;
            if got != 5.0 {
                return Err(format!("{shape:?}: {got}"));
            }
        }
        Ok(())
    });
    suite.add("pooling over all", |device| {
        let x = integers(&[2, 3, 5, 7], -9, 9, 6);
        let a = x.f32(device)?;
        let of = |f: fn(&[f64]) -> f64| x.reduce(&[2, 3], f);
        let mean = of(|plane| plane.iter().sum::<f64>() / 35.0);
        let largest = of(|plane| plane.iter().copied().fold(f64::NEG_INFINITY, f64::max));
        Ok(vec![
            near("mean", a.mean(Axes::from(&[2, 3]).keepdim(true))?, mean.clone(), Tolerance::F32),
            near("one part", a.adaptive_avg_pool(&[1, 1])?, mean, Tolerance::F32),
            near(
                "largest",
                a.max(Axes::from(&[2, 3]).keepdim(true))?,
                largest.clone(),
                Tolerance::EXACT,
            ),
            near("one window", a.max_pool(PoolOptions::new([5, 7]))?, largest, Tolerance::EXACT),
        ])
    });
    for (tile, rows, columns) in [(1, 3, 4), (2, 3, 5), (16, 4, 3), (33, 2, 2)] {
        suite.add(format!("sums, largest and smallest of tiles of {tile}"), move |device| {
            let x = integers(&[rows * tile, columns * tile], -9, 9, 7);
            let tiles = x.f32(device)?.reshape(&[rows, tile, columns, tile])?;
            let want = |f: fn(f64, f64) -> f64, first: f64| {
                Array::from_fn(&[rows, columns], |at| {
                    let mut all = first;
                    for i in 0..tile * tile {
                        let place = [at[0] * tile + i / tile, at[1] * tile + i % tile];
                        all = f(all, x.at(&place));
                    }
                    all
                })
            };
            let sums = want(|a, b| a + b, 0.0);
            Ok(vec![
                near("sum", tiles.sum(&[1, 3])?, sums, Tolerance::EXACT),
                near("max", tiles.max(&[1, 3])?, want(f64::max, f64::MIN), Tolerance::EXACT),
                near("min", tiles.min(&[1, 3])?, want(f64::min, f64::MAX), Tolerance::EXACT),
            ])
        });
    }
}

fn single(suite: &mut Suite) {
    suite.add("a single number", |device| {
        let x = Array::new(&[], vec![-2.5]);
        let a = x.f32(device)?;
        let same =
            |what: &str, got: Result<Tensor>| Ok(near(what, got?, x.clone(), Tolerance::EXACT));
        let yes = a.lt(0.0)?;
        let ones = Array::new(&[1], vec![-2.5]);
        Ok(vec![
            same("reshape", a.reshape(()))?,
            same("permute", a.permute(&[]))?,
            same("expand", a.expand(()))?,
            same("flip", a.flip(&[]))?,
            same("pad", a.pad((), 1.0))?,
            same("pad_with", a.pad_with((), PadMode::Edge))?,
            same("tile", a.tile(&[]))?,
            same("mean", a.mean(&[]))?,
            same("where_cond", yes.where_cond(&a, 3.0))?,
            same("cast", a.cast(DType::F32))?,
            same("detach", Ok(a.detach()))?,
            same("masked_fill", a.masked_fill(&yes.logical_not(), 1.0))?,
            same("logsumexp", a.logsumexp(&[]))?,
            same("grad", Ok(a.square().mul(0.5)?.grad(&[&a])?.remove(0)))?,
            near("flatten", a.flatten(..)?, ones.clone(), Tolerance::EXACT),
            near("unsqueeze", a.unsqueeze(0)?, ones, Tolerance::EXACT),
            near("outer", a.ravel().outer(&a.ravel())?, Array::new(&[1, 1], vec![6.25]), {
                Tolerance::EXACT
            }),
        ])
    });
}
