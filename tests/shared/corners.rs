//! Tests arguments at the limits of their ranges: a correct result, or an error that states the problem.

use super::array::{integers, place, Array};
use super::check::{exact, near, said, Outcome, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::{Conv2dOptions, PoolOptions, Reduction, ScatterNdOptions, Tensor};

/// Half the range of `usize`. As a signed number, this value is negative.
const HUGE: usize = 1 << (usize::BITS - 1);

pub fn cases() -> Suite {
    let mut suite = Suite::new("corners");
    nothing_and_everything(&mut suite);
    draws(&mut suite);
    truth(&mut suite);
    steps(&mut suite);
    from_the_end(&mut suite);
    brought_from_the_end(&mut suite);
    numbers_have_an_axis(&mut suite);
    suite
}

fn ensure(holds: bool, what: impl Into<String>) -> Outcome {
    holds.then_some(()).ok_or_else(|| what.into())
}

fn refuses(what: &str, result: Result<Tensor>, kind: ErrorKind) -> Outcome {
    match result {
        Ok(_) => Err(format!("{what}: no error")),
        Err(error) if error.kind() == kind && error.message().starts_with(what) => Ok(()),
        Err(error) => Err(format!("{what}: {error}")),
    }
}

fn nothing_and_everything(suite: &mut Suite) {
    suite.add("flip of no axis", |device| {
        let x = integers(&[3, 4], -9, 9, 1);
        Ok(vec![near("flip", x.f32(device)?.flip(&[])?, x, Tolerance::EXACT)])
    });
    suite.add("diagonals far outside", |device| {
        let x = integers(&[2, 3, 5], 1, 9, 2);
        let (a, none) = (x.f32(device)?, x.map(|_| 0.0));
        let mut checks = Vec::new();
        for (what, got, all) in [
            ("tril", a.tril(i32::MAX)?, true),
            ("tril of nothing", a.tril(i32::MIN)?, false),
            ("triu", a.triu(i32::MIN)?, true),
            ("triu of nothing", a.triu(i32::MAX)?, false),
        ] {
            checks.push(near(
                what,
                got,
                if all { x.clone() } else { none.clone() },
                Tolerance::EXACT,
            ));
        }
        let matrix = a.select(0, 0)?;
        for diagonal in [i32::MAX, i32::MIN] {
            let empty = Array::new(&[0], Vec::new());
            checks.push(near("diag", matrix.diag(diagonal)?, empty, Tolerance::EXACT));
        }
        Ok(checks)
    });
    suite.steps("a matrix of a diagonal far outside", |device| async move {
        let line = device.ones(3).map_err(said)?;
        refuses("diag", line.diag(i32::MAX), ErrorKind::Limit)?;
        refuses("diag", line.diag(i32::MIN), ErrorKind::Limit)
    });
}

fn draws(suite: &mut Suite) {
    suite.steps("uniform stays below its end", |device| async move {
        for (low, high) in [(100.0, 101.0), (-101.0, -100.0), (16_777_215.0, 16_777_216.0)] {
            let drawn = device.uniform(&[1 << 16], low, high, 5).map_err(said)?;
            let drawn = drawn.read::<f32>().await.map_err(said)?;
            let inside = drawn.iter().all(|&x| low <= f64::from(x) && f64::from(x) < high);
            ensure(inside, format!("{low} to {high}: some are outside"))?;
            let mean = drawn.iter().map(|&x| f64::from(x)).sum::<f64>() / drawn.len() as f64;
            let wide = low + 0.49 * (high - low) < mean && mean < low + 0.51 * (high - low);
            ensure(wide || high > 1e6, format!("{low} to {high}: their mean is {mean}"))?;
        }
        Ok(())
    });
    suite.steps("uniform over all numbers", |device| async move {
        let drawn = device.uniform(&[4096], -3e38, 3e38, 6).map_err(said)?;
        let drawn = drawn.read::<f32>().await.map_err(said)?;
        ensure(drawn.iter().all(|x| x.is_finite()), "some are infinite")?;
        let positive = drawn.iter().filter(|&&x| x > 0.0).count();
        let far = drawn.iter().filter(|&&x| x.abs() > 1.5e38).count();
        ensure((1800..2300).contains(&positive), format!("{positive} of 4096 are above 0"))?;
        ensure((1800..2300).contains(&far), format!("{far} of 4096 are in the outer half"))?;
        refuses("uniform", device.uniform(&[4], 0.0, 1e39, 6), ErrorKind::InvalidArgument)
    });
    suite
        .steps("uniform f16 stays below its end", |device| async move {
            for (low, high) in [(0.0, 1.0), (-1.0, 0.0), (-65_504.0, 65_504.0)] {
                let drawn = device.uniform((&[1 << 14], DType::F16), low, high, 5).map_err(said)?;
                let drawn = drawn.read::<f32>().await.map_err(said)?;
                let inside = drawn.iter().all(|&x| low <= f64::from(x) && f64::from(x) < high);
                ensure(inside, format!("{low} to {high}: some are outside"))?;
            }
            refuses(
                "uniform",
                device.uniform((&[4], DType::F16), 0.0, 1e5, 6),
                ErrorKind::InvalidArgument,
            )
        })
        .half();
}

fn truth(suite: &mut Suite) {
    suite.steps("any bit makes a bool true", |device| async move {
        let words = [7u32, 0, 1, 0x100, 0x8000_0000, 2];
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
        let a = device.tensor_from_bytes(&bytes, &[6], DType::Bool).map_err(said)?;
        let want = Array::new(&[6], vec![1.0, 0.0, 1.0, 1.0, 1.0, 1.0]);
        let one = device.ones((&[6], DType::Bool)).map_err(said)?;
        exact("as they are", a.clone(), DType::Bool, want.clone()).run().await?;
        exact("equal", a.eq(&one).map_err(said)?, DType::Bool, want.clone()).run().await?;
        exact("i32", a.cast(DType::I32).map_err(said)?, DType::I32, want.clone()).run().await?;
        let both = a.logical_and(&one).map_err(said)?;
        exact("and", both, DType::Bool, want).run().await?;
        let all = a.reduce(Reduction::All, ()).map_err(said)?;
        exact("all", all, DType::Bool, Array::new(&[], vec![0.0])).run().await
    });
}

fn steps(suite: &mut Suite) {
    suite.add("steps far beyond the end", |device| {
        let (x, w) = (integers(&[1, 2, 5, 6], -9, 9, 1), integers(&[3, 2, 2, 3], -9, 9, 2));
        let (a, b) = (x.f32(device)?, w.f32(device)?);
        let first = Array::from_fn(&[1, 3, 1, 1], |to| {
            let mut sum = 0.0;
            super::array::each(&[2, 2, 3], |tap| {
                let weight = w.at(&[to[1], tap[0], tap[1], tap[2]]);
                sum += weight * x.at(&[0, tap[0], tap[1], tap[2]]);
            });
            sum
        });
        let mut checks = Vec::new();
        for stride in [7, HUGE, usize::MAX] {
            let options = Conv2dOptions { stride: [stride; 2], ..Conv2dOptions::default() };
            let got = a.conv2d(&b, None, options)?;
            checks.push(near(format!("conv2d {stride}"), got, first.clone(), Tolerance::EXACT));
            let pool = PoolOptions { stride: [stride; 2], ..PoolOptions::new([2, 2]) };
            let most = x.slice(2, 0, 2, 1).slice(3, 0, 2, 1);
            let most = most.reduce(&[2, 3], |x| x.iter().copied().fold(f64::MIN, f64::max));
            checks.push(near(
                format!("max_pool {stride}"),
                a.max_pool(pool)?,
                most,
                Tolerance::EXACT,
            ));
            let windows = a.unfold(3, 4, stride, 1)?;
            let want = x.slice(3, 0, 4, 1).reshape(&[1, 2, 5, 1, 4]);
            checks.push(near(format!("unfold {stride}"), windows, want, Tolerance::EXACT));
            let apart = a.slice_step(3, 2.., stride)?;
            checks.push(near(
                format!("slice {stride}"),
                apart,
                x.slice(3, 2, 1, 1),
                Tolerance::EXACT,
            ));
        }
        // A window of one element has no dilation.
        let options = Conv2dOptions { dilation: [HUGE; 2], ..Conv2dOptions::default() };
        let one = w.slice(2, 1, 1, 1).slice(3, 2, 1, 1);
        let want = Array::from_fn(&[1, 3, 5, 6], |to| {
            (0..2).map(|c| one.at(&[to[1], c, 0, 0]) * x.at(&[0, c, to[2], to[3]])).sum()
        });
        checks.push(near(
            "dilation",
            a.conv2d(&one.f32(device)?, None, options)?,
            want,
            Tolerance::EXACT,
        ));
        Ok(checks)
    });
    suite.steps("distances far beyond the end", |device| async move {
        let (a, b) = (device.ones(&[1, 2, 5, 6]), device.ones(&[3, 2, 2, 3]));
        let (a, b) = (a.map_err(said)?, b.map_err(said)?);
        let options = Conv2dOptions { dilation: [HUGE; 2], ..Conv2dOptions::default() };
        refuses("conv2d", a.conv2d(&b, None, options), ErrorKind::Shape)?;
        refuses("unfold", a.unfold(3, 2, 1, HUGE), ErrorKind::Shape)
    });
}

/// Positions in a list of 5: inside from both ends, then outside.
const PLACES: [f64; 10] =
    [0.0, 4.0, -1.0, -5.0, -3.0, -6.0, 5.0, -100.0, i32::MIN as f64, i32::MAX as f64];

fn from_the_end(suite: &mut Suite) {
    suite.add("positions from the end", |device| {
        let x = integers(&[5, 3], 1, 9, 3);
        let index = Array::new(&[10], PLACES.to_vec());
        let (a, at) = (x.f32(device)?, index.on(device, DType::I32)?);
        let rows = Array::from_fn(&[10, 3], |to| {
            place(PLACES[to[0]], 5).map_or(0.0, |row| x.at(&[row, to[1]]))
        });
        let flat = x.slice(1, 0, 1, 1).reshape(&[5]);
        let taken = index.map(|at| place(at, 5).map_or(0.0, |at| flat.data[at]));
        let wide = index.reshape(&[10, 1]).expand(&[10, 3]);
        let beside = wide.on(device, DType::I32)?;
        let pairs = Array::from_fn(&[10, 2], |to| if to[1] == 0 { PLACES[to[0]] } else { -1.0 });
        let last =
            Array::from_fn(&[10], |to| place(PLACES[to[0]], 5).map_or(0.0, |r| x.at(&[r, 2])));
        let line = flat.f32(device)?;
        Ok(vec![
            near("index_select", a.index_select(0, &at)?, rows.clone(), Tolerance::EXACT),
            near("take", line.take(&at)?, taken, Tolerance::EXACT),
            near("gather", a.gather(0, &beside)?, rows, Tolerance::EXACT),
            near("gather_nd", a.gather_nd(&pairs.on(device, DType::I32)?)?, last, Tolerance::EXACT),
        ])
    });
}

fn brought_from_the_end(suite: &mut Suite) {
    suite.add("brought to positions from the end", |device| {
        let (x, source) = (integers(&[5, 3], 1, 9, 4), integers(&[10, 3], 10, 99, 5));
        let index = Array::new(&[10], PLACES.to_vec());
        let (a, b) = (x.f32(device)?, source.f32(device)?);
        let at = index.on(device, DType::I32)?;
        let beside = index.reshape(&[10, 1]).expand(&[10, 3]).on(device, DType::I32)?;
        let combined = |f: &dyn Fn(f64, f64) -> f64| {
            Array::from_fn(&[5, 3], |to| {
                let comes = (0..10).filter(|&n| place(PLACES[n], 5) == Some(to[0]));
                comes.fold(x.at(to), |all, n| f(all, source.at(&[n, to[1]])))
            })
        };
        let (last, sum) = (combined(&|_, new| new), combined(&|all, new| all + new));
        let most = combined(&f64::max);
        let pairs = index.reshape(&[10, 1]).on(device, DType::I32)?;
        let largest = a.scatter_reduce(0, &beside, &b, Reduction::Max)?;
        Ok(vec![
            near("scatter", a.scatter(0, &beside, &b)?, last.clone(), Tolerance::EXACT),
            near("scatter_add", a.scatter_add(0, &beside, &b)?, sum.clone(), Tolerance::EXACT),
            near("scatter_reduce", largest, most, Tolerance::EXACT),
            near("index_add", a.index_add(0, &at, &b)?, sum, Tolerance::EXACT),
            near(
                "scatter_nd",
                a.scatter_nd(&pairs, &b, ScatterNdOptions::default())?,
                last,
                Tolerance::EXACT,
            ),
        ])
    });
}

fn numbers_have_an_axis(suite: &mut Suite) {
    suite.add("a number has the axes 0 and -1", |device| {
        let number = |value: f64| Array::new(&[], vec![value]);
        let a = number(3.0).f32(device)?;
        let zero = device.zeros((&[], DType::I32))?;
        let mut checks = Vec::new();
        for axis in [0, -1] {
            let mut same = |what: &str, got: Tensor, want: f64| {
                checks.push(near(format!("{what} {axis}"), got, number(want), Tolerance::EXACT));
            };
            same("flip", a.flip(&[axis])?, 3.0);
            same("transpose", a.transpose(axis, 0)?, 3.0);
            same("squeeze", a.squeeze(axis)?, 3.0);
            same("sum", a.sum(axis)?, 3.0);
            same("softmax", a.softmax(axis)?, 1.0);
            same("cumsum", a.cumsum(axis)?, 3.0);
            same("sort", a.sort(axis, true)?.0, 3.0);
            same("topk", a.topk(1, axis, true)?.0, 3.0);
            same("index_select", a.index_select(axis, &zero)?, 3.0);
            same("gather", a.gather(axis, &zero)?, 3.0);
            same("scatter", a.scatter(axis, &zero, &a.mul(2.0)?)?, 6.0);
            same("scatter_add", a.scatter_add(axis, &zero, &a)?, 6.0);
            same("index_add", a.index_add(axis, &zero, &a)?, 6.0);
            same("unfold", a.unfold(axis, 1, 1, 1)?.squeeze(0)?, 3.0);
        }
        Ok(checks)
    });
    suite.steps("a number has no other axes, and no parts", |device| async move {
        let a = device.zeros(&[]).map_err(said)?;
        refuses("flip", a.flip(&[1]), ErrorKind::Shape)?;
        refuses("flip", a.flip(&[0, 0]), ErrorKind::Shape)?;
        refuses("transpose", a.transpose(0, -2), ErrorKind::Shape)?;
        refuses("select", a.select(0, 0), ErrorKind::Shape)?;
        refuses("slice", a.slice(0, 0..1), ErrorKind::Shape)?;
        refuses("unfold", a.unfold(0, 2, 1, 1), ErrorKind::Shape)
    });
}
