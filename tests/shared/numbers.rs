//! Tests that numbers are data. Each operation runs with two values of each number that does not affect shapes. The second run
//! must not plan or compile anything.

use super::array::{integers, random, word, Array};
use super::attention::attend;
use super::call::call;
use super::check::{exact, judged, near, said, same_bits, Check, Outcome, Suite};
use super::reference::{self, threefry};
use super::tolerance::{agrees, allowance, Tolerance};
use std::rc::Rc;
use warpweft::backend::DeviceKind;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::op::pointwise::TABLE;
use warpweft::op::{Row, Types};
use warpweft::tensor::{
    AttentionOptions, Filter, NormOptions, Operand, PadMode, Reduction, RmsNormOptions, Sampling,
    Tensor,
};

pub fn cases() -> Suite {
    let mut suite = Suite::new("numbers");
    for row in TABLE {
        rows(&mut suite, row);
    }
    creation(&mut suite);
    draws(&mut suite);
    positions(&mut suite);
    shifts(&mut suite);
    diagonals(&mut suite);
    margins(&mut suite);
    limits(&mut suite);
    statistics(&mut suite);
    pieces(&mut suite);
    norms(&mut suite);
    routines(&mut suite);
    gradients(&mut suite);
    shared(&mut suite);
    suite
}

/// Adds a case that computes with two choices of its numbers, 0 and 1. The second choice must not create a plan or pipeline.
fn twice(
    suite: &mut Suite,
    name: impl AsRef<str>,
    build: impl Fn(&Device, usize) -> Result<Vec<Check>> + 'static,
) {
    let build = Rc::new(build);
    suite.steps(name, move |device| both(device, build.clone()));
}

async fn both(device: Device, build: Rc<impl Fn(&Device, usize) -> Result<Vec<Check>>>) -> Outcome {
    for choice in 0..2 {
        let before = device.stats();
        for check in build(&device, choice).map_err(said)? {
            check.run().await.map_err(|what| format!("choice {choice}: {what}"))?;
        }
        let after = device.stats();
        let more = (after.plans - before.plans, after.pipelines - before.pipelines);
        if choice == 1 && more != (0, 0) {
            return Err(format!("other numbers make {} plans and {} pipelines", more.0, more.1));
        }
    }
    Ok(())
}

/// Adds a row of the pointwise table. All operands except the first, and all parameters, are numbers.
fn rows(suite: &mut Suite, row: &'static Row) {
    let all = row.operands.len() + row.parameters.len();
    let takes = |dtype: DType| {
        let mut types = vec![dtype; row.operands.len()];
        types[0] = if row.types == Types::Select { DType::Bool } else { dtype };
        row.dtype(&types).ok()
    };
    if all == 1 || row.types == Types::U32 {
        return;
    }
    if let (Some(result), Some(reference)) = (takes(DType::F32), reference::float(row.name)) {
        twice(suite, row.name, move |device, choice| {
            let (first, numbers, points) = points(row, all, choice);
            let dtype = if row.types == Types::Select { DType::Bool } else { DType::F32 };
            let got = with_numbers(row, &first.on(device, dtype)?, &numbers)?;
            let want: Vec<f64> = points.iter().map(|point| (reference.value)(point)).collect();
            let (gpu, values) = (device.info().kind != DeviceKind::Cpu, want.clone());
            let at = points.clone();
            let accepts = move |n: usize, got: f64| {
                let allowed = allowance(gpu, row.name, &at[n]);
                agrees(&reference, &allowed, result, &at[n], got, values[n])
            };
            let describe = move |n: usize| format!("{:?}", points[n]);
            let want = Array::new(&[want.len()], want);
            Ok(vec![judged(row.name, got, result, want, accepts, describe)])
        });
        return;
    }
    let dtype = if takes(DType::I32).is_some() { DType::I32 } else { DType::Bool };
    let Some(f) = reference::integer(row.name) else { return };
    twice(suite, format!("{} {dtype}", row.name), move |device, choice| {
        let most = if dtype == DType::Bool { 1 } else { 1000 };
        let first = integers(&[40], 0, most, 1);
        let number = if dtype == DType::Bool { choice as f64 } else { [3.0, 6.0][choice] };
        let got = with_numbers(row, &first.on(device, dtype)?, &[number])?;
        let want = first.map(|x| f(&[x as i64, number as i64]) as f64);
        Ok(vec![exact(row.name, got, dtype, want)])
    });
}

/// Returns the elements of the first operand, a choice of all other numbers, and both combined.
fn points(row: &Row, all: usize, choice: usize) -> (Array<f64>, Vec<f64>, Vec<Vec<f64>>) {
    let range = |n: usize| *row.domain.get(n).or(row.domain.last()).expect("a domain");
    let (low, high) = range(0);
    let first = match row.types {
        Types::Select => integers(&[40], 0, 1, 1),
        _ => random(&[40], low, high, 1),
    };
    let number = |n: usize| {
        let (low, high) = range(n);
        f64::from((low + (high - low) * [0.3, 0.6][choice]) as f32)
    };
    let numbers: Vec<f64> = (1..all).map(number).collect();
    let points = first.data.iter().map(|&x| [&[x], &numbers[..]].concat()).collect();
    (first, numbers, points)
}

fn with_numbers(row: &Row, first: &Tensor, numbers: &[f64]) -> Result<Tensor> {
    let (operands, parameters) = numbers.split_at(row.operands.len() - 1);
    let operands: Vec<Operand> = operands.iter().map(|&number| Operand::from(number)).collect();
    call(row.name, first, &operands, parameters)
}

fn line(n: usize, f: impl Fn(usize) -> f64) -> Array<f64> {
    Array::new(&[n], (0..n).map(f).collect())
}

fn creation(suite: &mut Suite) {
    twice(suite, "full", |device, choice| {
        let (real, whole) = ([2.5, -7.25][choice], [3.0, 4e9][choice]);
        let (a, b) = (device.full(&[3, 5], real, DType::F32)?, device.full(&[], real, DType::F32)?);
        let c = device.full(&[7], whole, DType::U32)?;
        let d = device.full(&[4], choice as f64, DType::Bool)?;
        Ok(vec![
            near("f32", a, Array::new(&[3, 5], vec![real; 15]), Tolerance::EXACT),
            near("a number", b, Array::new(&[], vec![real]), Tolerance::EXACT),
            exact("u32", c, DType::U32, line(7, |_| whole)),
            exact("bool", d, DType::Bool, line(4, |_| choice as f64)),
        ])
    });
    twice(suite, "full f16", |device, choice| {
        let value = [0.1, 3.3][choice];
        let want = line(5, |_| value).rounded(DType::F16);
        Ok(vec![exact("f16", device.full(&[5], value, DType::F16)?, DType::F16, want)])
    });
    suite.cases.last_mut().expect("it was just put there").half();
    twice(suite, "full_like, masked_fill, where_cond", |device, choice| {
        let (value, x) = ([1.5, -2.0][choice], integers(&[40], -9, 9, 1));
        let a = x.f32(device)?;
        let mask = a.gt(0.0)?;
        let filled = x.map(|x| if x > 0.0 { value } else { x });
        let chosen = x.map(|x| if x > 0.0 { value } else { 2.0 * value });
        Ok(vec![
            near("full_like", a.full_like(value)?, x.map(|_| value), Tolerance::EXACT),
            near("masked_fill", a.masked_fill(&mask, value)?, filled, Tolerance::EXACT),
            near("where", mask.where_cond(value, 2.0 * value)?, chosen, Tolerance::EXACT),
        ])
    });
    twice(suite, "arange, linspace", |device, choice| {
        let (start, end, step) = [(0.0, 4.0, 0.5), (9.0, 1.0, -1.0)][choice];
        let (low, high) = [(0.0, 1.0), (5.0, -3.0)][choice];
        let by = Tolerance { absolute: 1e-6, ..Tolerance::ROUNDED };
        let evenly = line(9, |i| low + (high - low) * i as f64 / 8.0);
        Ok(vec![
            near(
                "arange",
                device.arange_step(start, end, step)?,
                line(8, |i| start + step * i as f64),
                Tolerance::EXACT,
            ),
            near("linspace", device.linspace(low, high, 9)?, evenly, by),
        ])
    });
    twice(suite, "operators", |device, choice| {
        let (n, x) = ([2.0, -5.5][choice], integers(&[40], -9, 9, 1));
        let a = x.f32(device)?;
        Ok(vec![
            near("n - x", n - &a, x.map(|x| n - x), Tolerance::EXACT),
            near("x * n", &a * n, x.map(|x| x * n), Tolerance::EXACT),
        ])
    });
}

/// Returns the n-th uniform number of a seed.
fn unit(seed: u32, n: usize) -> f64 {
    f64::from(threefry([n as u32, 0], [seed, 0])[0] >> 8) / 16_777_216.0
}

fn draws(suite: &mut Suite) {
    twice(suite, "random_bits, uniform, bernoulli", |device, choice| {
        let seed = [5, 77][choice];
        let (low, high, p) = [(0.0, 2.0, 0.25), (-3.0, 5.0, 0.75)][choice];
        let words = Array::new(&[60], (0..60).map(|n| threefry([n, 0], [seed, 0])[0]).collect());
        let by = Tolerance { absolute: 1e-6, ..Tolerance::ROUNDED };
        let drawn = line(60, |n| low + unit(seed, n) * (high - low));
        let chosen = line(60, |n| f64::from(u8::from(unit(seed, n) < p)));
        Ok(vec![
            same_bits("words", device.random_bits(&[60], seed)?, DType::U32, words),
            near("uniform", device.uniform(&[60], low, high, seed)?, drawn, by),
            near("bernoulli", device.bernoulli(&[60], p, seed)?, chosen, Tolerance::EXACT),
        ])
    });
    twice(suite, "normal, dropout", |device, choice| {
        let (seed, mean, std, p) = [(3, 0.0, 1.0, 0.5), (4, -2.0, 3.0, 0.2)][choice];
        let x = integers(&[60], 1, 9, 1);
        let mut n = 0;
        let kept = x.map(|x| {
            n += 1;
            if unit(seed, n - 1) >= p {
                x / (1.0 - p)
            } else {
                0.0
            }
        });
        let normal = line(60, |n| {
            let angle = f64::from(threefry([n as u32 | 1 << 31, 0], [seed, 0])[0] >> 8);
            let radius = (-2.0 * (1.0 - unit(seed, n)).ln()).sqrt();
            mean + std * radius * (std::f64::consts::TAU * angle / 16_777_216.0).cos()
        });
        let by = Tolerance { absolute: 2e-2, relative: 1e-4 };
        Ok(vec![
            near("normal", device.normal(&[60], mean, std, seed)?, normal, by),
            near("dropout", x.f32(device)?.dropout(p, seed)?, kept, Tolerance::ROUNDED),
        ])
    });
}

/// Returns whole numbers of the shape `[8, 5, 12]`.
fn block() -> Array<f64> {
    integers(&[8, 5, 12], -99, 99, 7)
}

fn positions(suite: &mut Suite) {
    twice(suite, "slice, select", |device, choice| {
        let (x, at) = (block(), [1, 4][choice]);
        let a = x.f32(device)?;
        let mut checks = Vec::new();
        for (axis, extent) in [(0, 4), (1, 1), (2, 8)] {
            let range = at as isize..(at + extent) as isize;
            let part = a.slice(axis as isize, range)?;
            let want = x.slice(axis, at, extent, 1);
            let what = format!("slice {axis}");
            checks.push(near(what, part.add(1.0)?, want.map(|x| x + 1.0), Tolerance::EXACT));
            checks.push(near("as it is", part, want, Tolerance::EXACT));
            let one = a.select(axis as isize, -1 - at as isize)?;
            let want = x.slice(axis, x.shape[axis] - 1 - at, 1, 1).squeeze(&[axis]);
            checks.push(near(format!("select {axis}"), one, want, Tolerance::EXACT));
        }
        let two = a.slice(0, at as isize..at as isize + 3)?.slice_step(
            2,
            at as isize..at as isize + 6,
            3,
        )?;
        let want = x.slice(0, at, 3, 1).slice(2, at, 2, 3);
        checks.push(near("two axes", two, want, Tolerance::EXACT));
        Ok(checks)
    });
    twice(suite, "slice_scatter", |device, choice| {
        let (x, y, at) = (block(), integers(&[8, 2, 12], -99, 99, 8), [0, 3][choice]);
        let got = x.f32(device)?.slice_scatter(1, at as isize, &y.f32(device)?)?;
        Ok(vec![near("slice_scatter", got, x.slice_scatter(1, at, &y), Tolerance::EXACT)])
    });
    twice(suite, "slices that are read otherwise", |device, choice| {
        let (x, at) = (block(), [1, 3][choice]);
        let a = x.f32(device)?.slice(0, at as isize..at as isize + 4)?;
        let x = x.slice(0, at, 4, 1);
        let sum = |x: &[f64]| x.iter().sum::<f64>();
        let turned = a.permute(&[2, 0, 1])?;
        let flat = a.reshape(&[10, 24])?;
        Ok(vec![
            near("turned", turned, x.permute(&[2, 0, 1]), Tolerance::EXACT),
            near("reshaped", flat, x.reshape(&[10, 24]), Tolerance::EXACT),
            near("rows", a.sum(2)?, x.reduce(&[2], sum).squeeze(&[2]), Tolerance::EXACT),
            near("columns", a.sum(0)?, x.reduce(&[0], sum).squeeze(&[0]), Tolerance::EXACT),
            near("flipped", a.flip(&[0, 2])?, x.flip(&[0, 2]), Tolerance::EXACT),
        ])
    });
    twice(suite, "large slices that turn", |device, choice| {
        let (x, at) = (integers(&[150, 70], -99, 99, 3), [5, 50][choice]);
        let part = x.f32(device)?.slice(0, at as isize..at as isize + 96)?;
        let want = x.slice(0, at, 96, 1).permute(&[1, 0]);
        Ok(vec![near(
            "turned",
            part.transpose(0, 1)?.mul(2.0)?,
            want.map(|x| 2.0 * x),
            Tolerance::EXACT,
        )])
    });
    suite.steps("equal parts share their kernels", |device| async move {
        let x = integers(&[6, 12], -99, 99, 9);
        let parts = x.f32(&device).and_then(|a| a.split(4, 1)).map_err(said)?;
        let mut plans = 0;
        for (n, part) in parts.into_iter().enumerate() {
            near(
                "part",
                part.mul(2.0).map_err(said)?,
                x.slice(1, 4 * n, 4, 1).map(|x| 2.0 * x),
                Tolerance::EXACT,
            )
            .run()
            .await?;
            match n {
                0 => plans = device.stats().plans,
                _ if device.stats().plans > plans => {
                    return Err(format!("part {n} is planned anew"))
                }
                _ => {}
            }
        }
        Ok(())
    });
}

fn shifts(suite: &mut Suite) {
    twice(suite, "roll", |device, choice| {
        let (x, shift) = (block(), [0, -3][choice]);
        let a = x.f32(device)?;
        let moved = |x: &Array<f64>, axes: &[usize]| {
            Array::from_fn(&x.shape, |at| {
                let mut from = at.to_vec();
                for &axis in axes {
                    let extent = x.shape[axis] as isize;
                    from[axis] = (at[axis] as isize - shift).rem_euclid(extent) as usize;
                }
                x.at(&from)
            })
        };
        let flat = moved(&x.reshape(&[480]), &[0]).reshape(&[8, 5, 12]);
        Ok(vec![
            near("an axis", a.roll(shift, 2)?, moved(&x, &[2]), Tolerance::EXACT),
            near(
                "the first",
                a.roll(shift, 0)?.mul(2.0)?,
                moved(&x, &[0]).map(|x| 2.0 * x),
                Tolerance::EXACT,
            ),
            near("two", a.roll([shift, shift], [0, 1])?, moved(&x, &[0, 1]), Tolerance::EXACT),
            near("all", a.roll(shift, ())?, flat, Tolerance::EXACT),
        ])
    });
}

fn diagonals(suite: &mut Suite) {
    twice(suite, "tril, triu, diag", |device, choice| {
        let (x, d) = (integers(&[6, 6], 1, 99, 2), [1i32, -1][choice]);
        let a = x.f32(device)?;
        let keep = |f: fn(isize, isize) -> bool| {
            Array::from_fn(&[6, 6], |at| {
                let (row, column) = (at[0] as isize, at[1] as isize);
                if f(column - row, d as isize) {
                    x.at(at)
                } else {
                    0.0
                }
            })
        };
        let of = |i: usize| match d {
            1 => x.at(&[i, i + 1]),
            _ => x.at(&[i + 1, i]),
        };
        let spread = Array::from_fn(&[6, 6], |at| {
            if at[1] as i32 - at[0] as i32 == d {
                of(at[0].min(at[1]))
            } else {
                0.0
            }
        });
        let diagonal = line(5, of);
        Ok(vec![
            near("tril", a.tril(d)?, keep(|at, d| at <= d), Tolerance::EXACT),
            near("triu", a.triu(d)?, keep(|at, d| at >= d), Tolerance::EXACT),
            near("of a matrix", a.diag(d)?, diagonal.clone(), Tolerance::EXACT),
            near("of a vector", diagonal.f32(device)?.diag(d)?, spread, Tolerance::EXACT),
        ])
    });
}

fn margins(suite: &mut Suite) {
    twice(suite, "pad", |device, choice| {
        let (x, value) = (integers(&[5, 7], -99, 99, 4), [0.0, 2.5][choice]);
        let a = x.f32(device)?;
        let amounts = [[(1, 2), (0, 4)], [(3, 0), (2, 2)]][choice];
        let (before, after) = [(2, -1), (-1, 2)][choice];
        let (cut, ends) = (x.slice(1, choice, 6, 1), [(2, 0), (0, 2)][choice]);
        let i = integers(&[5, 7], -99, 99, 4).on(device, DType::I32)?;
        Ok(vec![
            near("more", a.pad(&amounts, value)?, x.pad(&amounts, value), Tolerance::EXACT),
            near(
                "less",
                a.pad(&[(0, 0), (before, after)], value)?,
                cut.pad(&[(0, 0), ends], value),
                Tolerance::EXACT,
            ),
            exact(
                "i32",
                i.pad(&amounts, choice as f64)?,
                DType::I32,
                x.pad(&amounts, choice as f64),
            ),
        ])
    });
    for (name, mode) in [
        ("reflect", PadMode::Reflect),
        ("symmetric", PadMode::Symmetric),
        ("edge", PadMode::Edge),
        ("wrap", PadMode::Wrap),
    ] {
        twice(suite, format!("pad_with {name}"), move |device, choice| {
            let (x, (before, after)) = (integers(&[3, 7], -99, 99, 4), [(1, 3), (4, 0)][choice]);
            let want = Array::from_fn(&[3, 11], |at| {
                let i = at[1] as isize - before;
                let from = match mode {
                    PadMode::Reflect => 6 - (6 - i.abs()).abs(),
                    PadMode::Symmetric if i < 0 => -1 - i,
                    PadMode::Symmetric if i > 6 => 13 - i,
                    PadMode::Symmetric => i,
                    PadMode::Edge => i.clamp(0, 6),
                    PadMode::Wrap => i.rem_euclid(7),
                    other => unreachable!("a test of {other:?}"),
                };
                x.at(&[at[0], from as usize])
            });
            let padded = x.f32(device)?.pad_with(&[(0, 0), (before, after)], mode)?;
            Ok(vec![near(name, padded, want, Tolerance::EXACT)])
        });
    }
}

fn limits(suite: &mut Suite) {
    twice(suite, "clamp_min, clamp_max, resample", |device, choice| {
        let (n, x) = ([2.0, -5.5][choice], integers(&[40], -9, 9, 1));
        let a = x.f32(device)?;
        let (first, step) = [(0.5, 2.0), (3.25, 1.5)][choice];
        let by = Sampling { first, step, filter: Filter::Linear, antialias: false, inside: false };
        let resampled = line(10, |i| {
            let place = (first + step * i as f64).clamp(0.0, 39.0);
            let (low, part) = (place.floor() as usize, place.fract());
            x.data[low] * (1.0 - part) + x.data[(low + 1).min(39)] * part
        });
        Ok(vec![
            near("clamp_min", a.clamp_min(n)?, x.map(|x| x.max(n)), Tolerance::EXACT),
            near("clamp_max", a.clamp_max(n)?, x.map(|x| x.min(n)), Tolerance::EXACT),
            near("resample", a.resample(0, 10, by)?, resampled, Tolerance::F32),
        ])
    });
}

fn statistics(suite: &mut Suite) {
    twice(suite, "quantile, histc, arange_step", |device, choice| {
        let x = integers(&[4, 11], -9, 9, 5);
        let a = x.f32(device)?;
        let (q, low, high) = [(0.25, -9.0, 9.0), (0.9, -4.0, 6.0)][choice];
        let (start, step) = [(1.0, 0.5), (-3.0, 2.0)][choice];
        let quantile = |row: &[f64]| {
            let mut row = row.to_vec();
            row.sort_by(f64::total_cmp);
            let place = q * (row.len() - 1) as f64;
            let (at, part) = (place.floor() as usize, place.fract());
            row[at] * (1.0 - part) + row[(at + 1).min(row.len() - 1)] * part
        };
        let counts = line(5, |bin| {
            let width = (high - low) / 5.0;
            let (from, to) = (low + bin as f64 * width, low + (bin + 1) as f64 * width);
            let inside = |x: &&f64| **x >= from && (**x < to || (bin == 4 && **x == high));
            x.data.iter().filter(inside).count() as f64
        });
        let steps = line(6, |n| start + step * n as f64);
        let by = Tolerance { absolute: 1e-5, relative: 1e-5 };
        Ok(vec![
            near("quantile", a.quantile(q, 1)?, by_row(&x, quantile).squeeze(&[1]), by),
            exact("histc", a.histc(5, low, high)?, DType::I32, counts),
            near("arange_step", device.arange_step(start, start + 6.0 * step, step)?, steps, by),
        ])
    });
}

fn pieces(suite: &mut Suite) {
    twice(suite, "narrow, unbind, chunk", |device, choice| {
        let x = integers(&[9, 4], -9, 9, 6);
        let a = x.f32(device)?;
        let start = [2, 5][choice];
        let rows = |from: usize, count: usize| x.data[4 * from..4 * (from + count)].to_vec();
        let want = |from: usize, count: usize| Array::new(&[count, 4], rows(from, count));
        let at = Tolerance::EXACT;
        Ok(vec![
            near("narrow", a.narrow(0, start as isize, 3)?, want(start, 3), at),
            near("narrow from the end", a.narrow(0, start as isize - 9, 3)?, want(start, 3), at),
            near("unbind", a.unbind(0)?.swap_remove(start), Array::new(&[4], rows(start, 1)), at),
            near("chunk", a.chunk(3, 0)?.swap_remove(choice), want(3 * choice, 3), at),
        ])
    });
}

/// Applies `f` to each row of a matrix.
fn by_row(x: &Array<f64>, f: impl Fn(&[f64]) -> f64) -> Array<f64> {
    x.reduce(&[1], f)
}

fn norms(suite: &mut Suite) {
    twice(suite, "norm, var, std", |device, choice| {
        let (p, correction, x) =
            ([3.0, 2.5][choice], [0.0, 1.5][choice], integers(&[6, 9], 1, 9, 3));
        let a = x.f32(device)?;
        let variance = |row: &[f64]| {
            let mean = row.iter().sum::<f64>() / 9.0;
            row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (9.0 - correction)
        };
        let norm = by_row(&x, |row| row.iter().map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p));
        let by = Tolerance { absolute: 1e-5, relative: 2e-5 };
        Ok(vec![
            near("norm", a.norm(p, 1)?, norm.squeeze(&[1]), by),
            near("var", a.var(1, correction)?, by_row(&x, variance).squeeze(&[1]), by),
            near(
                "std",
                a.std(1, correction)?,
                by_row(&x, |r| variance(r).sqrt()).squeeze(&[1]),
                by,
            ),
        ])
    });
    twice(suite, "normalisations", |device, choice| {
        let (eps, x) = ([0.5, 3.0][choice], integers(&[6, 9], -9, 9, 3));
        let a = x.f32(device)?;
        let mean = by_row(&x, |row| row.iter().sum::<f64>() / 9.0);
        let distance = x.zip(&mean, |x, mean| x - mean);
        let square = |x: &Array<f64>| by_row(x, |row| row.iter().map(|x| x * x).sum::<f64>() / 9.0);
        let over = |x: &Array<f64>, by: Array<f64>| x.zip(&by, |x, by| x / (by + eps).sqrt());
        let normal = over(&distance, square(&distance));
        let channels = line(9, |n| n as f64);
        let (zeros, given) = (device.zeros(9)?, channels.f32(device)?);
        let size = |x: &Array<f64>| {
            by_row(x, |row| row.iter().map(|x| x * x).sum::<f64>().sqrt().max(40.0 * eps))
        };
        let y = x.flip(&[1]);
        let dot = by_row(&x.zip(&y, |x, y| x * y), |row| row.iter().sum());
        let cosine = dot.zip(&size(&x), |a, b| a / b).zip(&size(&y), |a, b| a / b).squeeze(&[1]);
        let by = Tolerance { absolute: 1e-5, relative: 2e-5 };
        let image = a.reshape(&[6, 1, 9])?;
        Ok(vec![
            near(
                "layer_norm",
                a.layer_norm(1, NormOptions { eps, ..Default::default() })?,
                normal.clone(),
                by,
            ),
            near(
                "rms_norm",
                a.rms_norm(1, RmsNormOptions { eps, ..Default::default() })?,
                over(&x, square(&x)),
                by,
            ),
            near(
                "batch_norm",
                a.batch_norm(&zeros, &given, NormOptions { eps, ..Default::default() })?,
                over(&x, channels),
                by,
            ),
            near(
                "group_norm",
                image.group_norm(1, NormOptions { eps, ..Default::default() })?,
                normal.reshape(&[6, 1, 9]),
                by,
            ),
            near(
                "instance_norm",
                image.instance_norm(NormOptions { eps, ..Default::default() })?,
                normal.reshape(&[6, 1, 9]),
                by,
            ),
            near("cosine", a.cosine_similarity(&y.f32(device)?, 1, 40.0 * eps)?, cosine, by),
        ])
    });
}

/// Returns the product of two matrices.
fn product(a: &Array<f64>, b: &Array<f64>) -> Array<f64> {
    Array::from_fn(&[a.shape[0], b.shape[1]], |at| {
        (0..a.shape[1]).map(|k| a.at(&[at[0], k]) * b.at(&[k, at[1]])).sum()
    })
}

fn routines(suite: &mut Suite) {
    twice(suite, "attention", |device, choice| {
        let (scale, x) = ([0.5, 0.1][choice], random(&[1, 1, 6, 4], -2.0, 2.0, 3));
        let (a, rows) = (x.f32(device)?, x.reshape(&[6, 4]));
        let scores = product(&rows, &rows.permute(&[1, 0])).map(|s| (s * scale).exp());
        let sums = by_row(&scores, |row| row.iter().sum());
        let want = product(&scores.zip(&sums, |s, sum| s / sum), &rows).reshape(&[1, 1, 6, 4]);
        let options = AttentionOptions { scale: Some(scale), ..AttentionOptions::default() };
        let by = Tolerance { absolute: 1e-5, relative: 2e-5 };
        Ok(vec![near("attention", a.attention(&a, &a, options)?, want, by)])
    });
    twice(suite, "attention to so many keys", |device, choice| {
        let (length, x) = ([2, 5][choice], random(&[1, 1, 6, 4], -2.0, 2.0, 3));
        let a = x.f32(device)?;
        let first = x.slice(2, 0, length, 1);
        let options = AttentionOptions { kv_length: Some(length), ..AttentionOptions::default() };
        let by = Tolerance { absolute: 1e-5, relative: 2e-5 };
        let want = attend(&x, &first, &first, false, None, 0.5);
        Ok(vec![near("attention", a.attention(&a, &a, options)?, want, by)])
    });
    twice(suite, "products of slices", |device, choice| {
        let at = [2, 7][choice];
        let (x, y) = (integers(&[90, 40], -3, 3, 1), integers(&[40, 90], -3, 3, 2));
        let (start, end) = (at as isize, at as isize + 64);
        let (a, b) = (x.f32(device)?.slice(0, start..end)?, y.f32(device)?.slice(1, start..end)?);
        let (x, y) = (x.slice(0, at, 64, 1), y.slice(1, at, 64, 1));
        let wide = a.add(1.0)?.matmul(&b)?;
        Ok(vec![
            near("both", a.matmul(&b)?, product(&x, &y), Tolerance::EXACT),
            near(
                "turned",
                b.transpose(0, 1)?.matmul(&a.transpose(0, 1)?)?,
                product(&y.permute(&[1, 0]), &x.permute(&[1, 0])),
                Tolerance::EXACT,
            ),
            near("of sums", wide, product(&x.map(|x| x + 1.0), &y), Tolerance::EXACT),
            near(
                "a part of it",
                a.matmul(&b)?.slice(0, start..start + 9)?,
                product(&x, &y).slice(0, at, 9, 1),
                Tolerance::EXACT,
            ),
        ])
    });
    twice(suite, "convolutions of slices", |device, choice| {
        let at = [0, 3][choice];
        let (x, w) = (integers(&[1, 7, 6, 6], -3, 3, 1), integers(&[8, 4, 3, 3], -3, 3, 2));
        let a = x.f32(device)?.slice(1, at as isize..at as isize + 4)?;
        let x = x.slice(1, at, 4, 1);
        let want = Array::from_fn(&[1, 8, 4, 4], |to| {
            let mut sum = 0.0;
            super::array::each(&[4, 3, 3], |tap| {
                let weight = w.at(&[to[1], tap[0], tap[1], tap[2]]);
                sum += weight * x.at(&[0, tap[0], to[2] + tap[1], to[3] + tap[2]]);
            });
            sum
        });
        let got = a.conv2d(&w.f32(device)?, None, Default::default())?;
        Ok(vec![near("conv2d", got, want, Tolerance::EXACT)])
    });
}

fn gradients(suite: &mut Suite) {
    twice(suite, "gradients", |device, choice| {
        let at = [1, 4][choice];
        let (x, shift) = (integers(&[8, 12], 1, 9, 5), at as isize);
        let a = x.f32(device)?;
        let weights = |shape: &[usize]| {
            let mut n = 0;
            Array::from_fn(shape, |_| {
                n += 1;
                f64::from(word(3, n) % 7)
            })
        };
        let mut checks = Vec::new();
        let mut by =
            |what: &str, y: Tensor, from: &dyn Fn(&[usize]) -> Option<Vec<usize>>| -> Result<()> {
                let w = weights(y.shape());
                let mut want = x.map(|_| 0.0);
                super::array::each(&w.shape.clone(), |to| {
                    if let Some(from) = from(to) {
                        want.data[from[0] * 12 + from[1]] += w.at(to);
                    }
                });
                let seed = w.f32(device)?;
                checks.push(near(what, y.vjp(&seed, &[&a])?.remove(0), want, Tolerance::EXACT));
                Ok(())
            };
        by("slice", a.slice(1, shift..shift + 6)?, &|to| Some(vec![to[0], to[1] + at]))?;
        by("steps", a.slice_step(1, shift..shift + 6, 2)?, &|to| {
            Some(vec![to[0], 2 * to[1] + at])
        })?;
        by("select", a.select(0, shift)?, &|to| Some(vec![at, to[0]]))?;
        by("roll", a.roll(shift, 1)?, &|to| Some(vec![to[0], (to[1] + 12 - at) % 12]))?;
        by("pad", a.pad(&[(0, 0), (shift, 5 - shift)], 0.0)?, &|to| {
            to[1].checked_sub(at).filter(|&at| at < 12).map(|column| vec![to[0], column])
        })?;
        by("diag", a.diag([2, 3][choice])?.slice(0, ..8)?, &|to| {
            Some(vec![to[0], to[0] + [2, 3][choice]])
        })?;
        Ok(checks)
    });
}

/// Tests numbers that several kinds of kernels use.
fn shared(suite: &mut Suite) {
    twice(suite, "one after the other", |device, choice| {
        // A filter that reads its earlier outputs.
        let (gain, x) = ([0.5, 0.25][choice], integers(&[6], -8, 8, 6));
        let a = x.f32(device)?;
        let (mut last, mut want) = (0.0, Vec::new());
        for &x in &x.data {
            last = x + gain * last;
            want.push(last);
        }
        let mut state = device.full(&[], 0.0, DType::F32)?;
        let mut all = Vec::new();
        for i in 0..6 {
            state = a.select(0, i)?.add(state.mul(gain)?)?;
            all.push(state.clone());
        }
        let got = Tensor::stack(&all, 0)?;
        Ok(vec![near("filter", got, Array::new(&[6], want), Tolerance::EXACT)])
    });
    suite.steps("a window that slides", |device| async move {
        let x = integers(&[40], -9, 9, 8);
        let a = x.f32(&device).map_err(said)?;
        let mut plans = 0;
        for at in 0..36 {
            let part = a.slice(0, at as isize..at as isize + 4).map_err(said)?;
            near("window", part, x.slice(0, at, 4, 1), Tolerance::EXACT).run().await?;
            let most = part_of(&a, at).map_err(said)?;
            let want = x.data[at..at + 4].iter().copied().fold(f64::NEG_INFINITY, f64::max);
            near("largest", most, Array::new(&[], vec![want]), Tolerance::EXACT).run().await?;
            match at {
                0 => plans = device.stats().plans,
                _ if device.stats().plans > plans => {
                    return Err(format!("at {at} it is planned anew"))
                }
                _ => {}
            }
        }
        Ok(())
    });
}

fn part_of(a: &Tensor, at: usize) -> Result<Tensor> {
    a.slice(0, at as isize..at as isize + 4)?.reduce(Reduction::Max, ())
}
