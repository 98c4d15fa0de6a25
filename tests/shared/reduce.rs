//! Tests reductions: every kind, every choice of axes, every awkward size.

use super::array::{integers, random, word, Array};
use super::check::{exact, near, typed, Check, Suite};
use super::tolerance::Tolerance;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{Axes, Tensor};

/// A reduction over axes.
type Over = fn(&Tensor, &[isize]) -> Result<Tensor>;

/// A reduction: its name, with the axes dropped, with the axes kept, and its definition.
type Kind = (&'static str, Over, Over, fn(&[f64]) -> f64);

const NUMBERS: &[Kind] = &[
    ("sum", |x, a| x.sum(a), |x, a| x.sum(Axes::from(a).keepdim(true)), |x| x.iter().sum()),
    ("prod", |x, a| x.prod(a), |x, a| x.prod(Axes::from(a).keepdim(true)), |x| x.iter().product()),
    (
        "max",
        |x, a| x.max(a),
        |x, a| x.max(Axes::from(a).keepdim(true)),
        |x| x.iter().copied().fold(f64::NEG_INFINITY, f64::max),
    ),
    (
        "min",
        |x, a| x.min(a),
        |x, a| x.min(Axes::from(a).keepdim(true)),
        |x| x.iter().copied().fold(f64::INFINITY, f64::min),
    ),
];

const BOOLS: &[Kind] = &[
    (
        "any",
        |x, a| x.any(a),
        |x, a| x.any(Axes::from(a).keepdim(true)),
        |x| f64::from(x.iter().any(|&x| x != 0.0)),
    ),
    (
        "all",
        |x, a| x.all(a),
        |x, a| x.all(Axes::from(a).keepdim(true)),
        |x| f64::from(x.iter().all(|&x| x != 0.0)),
    ),
];

const MEAN: Kind = (
    "mean",
    |x, a| x.mean(a),
    |x, a| x.mean(Axes::from(a).keepdim(true)),
    |x| x.iter().sum::<f64>() / x.len() as f64,
);

/// Returns all nonempty choices of axes. (An empty list means all axes.)
fn subsets(rank: usize) -> Vec<Vec<usize>> {
    (1..1 << rank).map(|mask| (0..rank).filter(|a| mask >> a & 1 == 1).collect()).collect()
}

fn signed(axes: &[usize]) -> Vec<isize> {
    axes.iter().map(|&a| a as isize).collect()
}

/// Returns data for which the kind is exact in any order.
fn data(name: &str, shape: &[usize], seed: u32) -> Array<f64> {
    match name {
        // Few factors of 2, so that products stay within `f32` and `i32`.
        "prod" => integers(shape, 0, 40, seed).map(|v| match v as i32 {
            0 => 2.0,
            n if n % 2 == 1 => -1.0,
            _ => 1.0,
        }),
        "any" | "all" => integers(shape, 0, 1, seed),
        _ => integers(shape, -50, 50, seed),
    }
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("reduce");
    every_axis(&mut suite);
    sizes(&mut suite);
    empty(&mut suite);
    not_finite(&mut suite);
    views(&mut suite);
    positions(&mut suite);
    derived(&mut suite);
    fused(&mut suite);
    columns(&mut suite);
    million(&mut suite);
    suite
}

fn every_axis(suite: &mut Suite) {
    for &(name, drop, keep, f) in NUMBERS.iter().chain(BOOLS).chain([&MEAN]) {
        for shape in [&[3usize, 4, 5][..], &[2, 3, 1, 4]] {
            suite.add(format!("{name} over every choice of axes of {shape:?}"), move |device| {
                let dtype = if matches!(name, "any" | "all") { DType::Bool } else { DType::F32 };
                let x = data(name, shape, 1);
                let a = x.on(device, dtype)?;
                let by = if name == "mean" { Tolerance::ROUNDED } else { Tolerance::EXACT };
                let mut checks = Vec::new();
                for axes in subsets(shape.len()) {
                    let want = x.reduce(&axes, f);
                    let what = format!("{name} over {axes:?}");
                    let (kept, dropped) = (keep(&a, &signed(&axes))?, drop(&a, &signed(&axes))?);
                    checks.push(typed(what.clone(), dropped, dtype, want.squeeze(&axes), by));
                    checks.push(typed(what, kept, dtype, want, by));
                }
                let all: Vec<usize> = (0..shape.len()).collect();
                let want = x.reduce(&all, f).reshape(&[]);
                checks.push(typed("over no axes named", drop(&a, &[])?, dtype, want, by));
                Ok(checks)
            });
        }
    }
    for dtype in [DType::I32, DType::U32] {
        suite.add(format!("all kinds of {dtype}"), move |device| {
            let mut checks = Vec::new();
            for &(name, drop, _, f) in NUMBERS {
                let x = data(name, &[5, 33], 2);
                let x = if dtype == DType::U32 { x.map(f64::abs) } else { x };
                let got = drop(&x.on(device, dtype)?, &[-1])?;
                checks.push(exact(name, got, dtype, x.reduce(&[1], f).squeeze(&[1])));
            }
            Ok(checks)
        });
    }
    suite.add("integer sums and products wrap", |device| {
        let x = Array::new(&[3], vec![2_147_483_647.0, 2.0, 65_537.0]);
        let a = x.on(device, DType::I32)?;
        let sum = (2_147_483_647i32).wrapping_add(2).wrapping_add(65_537);
        let product = (2_147_483_647i32).wrapping_mul(2).wrapping_mul(65_537);
        let one = |v: i32| Array::new(&[], vec![f64::from(v)]);
        Ok(vec![
            exact("sum", a.sum(&[])?, DType::I32, one(sum)),
            exact("prod", a.prod(&[])?, DType::I32, one(product)),
        ])
    });
    suite.add("rank 0", |device| {
        let x = Array::new(&[], vec![-2.5]);
        let a = x.f32(device)?;
        let of = |kind: &Kind| Ok(near(kind.0, kind.1(&a, &[])?, x.clone(), Tolerance::EXACT));
        NUMBERS.iter().map(of).collect()
    });
    suite.add("rank 8", |device| {
        let shape = [2, 3, 1, 2, 2, 1, 3, 2];
        let x = integers(&shape, -9, 9, 3);
        let axes = [0, 3, 6];
        let want = x.reduce(&axes, |x| x.iter().sum()).squeeze(&axes);
        Ok(vec![near("sum", x.f32(device)?.sum(&[0, 3, -2])?, want, Tolerance::EXACT)])
    });
}

fn sizes(suite: &mut Suite) {
    for n in [1, 31, 32, 33, 65, 257, 1000, 70_000] {
        suite.add(format!("{n} elements"), move |device| {
            let mut checks = Vec::new();
            for &(name, drop, _, f) in NUMBERS {
                let x = data(name, &[n], 4);
                let x = if name == "prod" { x.map(|v| if v == 2.0 { 1.0 } else { v }) } else { x };
                let want = x.reduce(&[0], f).reshape(&[]);
                checks.push(near(name, drop(&x.f32(device)?, &[])?, want, Tolerance::EXACT));
            }
            let x = random(&[n], -1.0, 1.0, 5);
            let want = x.reduce(&[0], |x| x.iter().sum()).reshape(&[]);
            checks.push(near(
                "of fractions",
                x.f32(device)?.sum(&[])?,
                want,
                Tolerance::sum(n, 1.0),
            ));
            Ok(checks)
        });
    }
    for n in [31, 32, 65, 257, 1000] {
        suite.add(format!("rows and columns of {n}"), move |device| {
            let (rows, columns) = (integers(&[3, n], -50, 50, 6), integers(&[n, 3], -50, 50, 7));
            let mut checks = Vec::new();
            for &(name, drop, _, f) in &[NUMBERS[0], NUMBERS[2]] {
                let row = rows.reduce(&[1], f).squeeze(&[1]);
                let column = columns.reduce(&[0], f).squeeze(&[0]);
                let (a, b) = (rows.f32(device)?, columns.f32(device)?);
                checks.push(near(
                    format!("{name} of rows"),
                    drop(&a, &[1])?,
                    row,
                    Tolerance::EXACT,
                ));
                checks.push(near(
                    format!("{name} of columns"),
                    drop(&b, &[0])?,
                    column,
                    Tolerance::EXACT,
                ));
            }
            Ok(checks)
        });
    }
    suite.add("many short rows, few long ones", |device| {
        let mut checks = Vec::new();
        for (shape, axis) in [
            ([5000, 3], 1),
            ([3, 5000], 1),
            ([5000, 3], 0),
            ([300, 300], 0),
            ([2, 70_001], 1),
            ([70_001, 2], 0),
        ] {
            let x = integers(&shape, -50, 50, 8);
            let want = x.reduce(&[axis], |x| x.iter().sum()).squeeze(&[axis]);
            let got = x.f32(device)?.sum(&[axis as isize])?;
            checks.push(near(format!("{shape:?} over {axis}"), got, want, Tolerance::EXACT));
        }
        Ok(checks)
    });
}

fn empty(suite: &mut Suite) {
    suite.add("over nothing", |device| {
        let mut checks = Vec::new();
        for dtype in [DType::F32, DType::I32, DType::U32] {
            let a = Array::<f64>::new(&[2, 0], vec![]).on(device, dtype)?;
            let (low, high) = match dtype {
                DType::I32 => (-2_147_483_648.0, 2_147_483_647.0),
                DType::U32 => (0.0, 4_294_967_295.0),
                _ => (f64::NEG_INFINITY, f64::INFINITY),
            };
            for (kind, value) in NUMBERS.iter().zip([0.0, 1.0, low, high]) {
                let two = Array::new(&[2], vec![value; 2]);
                let what = format!("{} of {dtype}", kind.0);
                checks.push(exact(what.clone(), kind.1(&a, &[1])?, dtype, two));
                let one = Array::new(&[], vec![value]);
                checks.push(exact(what.clone(), kind.1(&a, &[])?, dtype, one));
                let none = Array::new(&[0], vec![]);
                checks.push(exact(what, kind.1(&a, &[0])?, dtype, none));
            }
        }
        let a = Array::<f64>::new(&[0, 3], vec![]).on(device, DType::Bool)?;
        checks.push(exact("any", a.any(&[0])?, DType::Bool, Array::new(&[3], vec![0.0; 3])));
        checks.push(exact("all", a.all(&[0])?, DType::Bool, Array::new(&[3], vec![1.0; 3])));
        let mean = device.zeros(&[2, 0])?.mean(&[1])?;
        checks.push(near("mean", mean, Array::new(&[2], vec![f64::NAN; 2]), Tolerance::EXACT));
        Ok(checks)
    });
}

fn not_finite(suite: &mut Suite) {
    suite.add("NaN and infinities", |device| {
        let inf = f64::INFINITY;
        let rows = [
            [1.0, f64::NAN, 3.0],
            [1.0, inf, 3.0],
            [1.0, -inf, 3.0],
            [inf, -inf, 3.0],
            [-inf, -inf, -inf],
            [f64::NAN, inf, -inf],
            [-0.0, 0.0, -0.0],
            [3e38, 3e38, -3e38],
        ];
        let x = Array::new(&[8, 3], rows.concat()).rounded(DType::F32);
        let a = x.f32(device)?;
        let nan_or = |f: fn(&[f64]) -> f64| {
            move |x: &[f64]| if x.iter().any(|x| x.is_nan()) { f64::NAN } else { f(x) }
        };
        let mut checks = Vec::new();
        for &(name, drop, _, f) in &NUMBERS[2..] {
            let want = x.reduce(&[1], nan_or(f)).squeeze(&[1]);
            checks.push(near(name, drop(&a, &[1])?, want, Tolerance::EXACT));
        }
        // Whether the last row overflows depends on the order.
        let sum = a.sum(&[1])?.slice(0, ..7)?;
        let want = x.reduce(&[1], |x| x.iter().sum()).squeeze(&[1]).slice(0, 0, 7, 1);
        checks.push(near("sum", sum, want, Tolerance::EXACT));
        Ok(checks)
    });
    suite.add("NaN anywhere in a long row", |device| {
        let mut checks = Vec::new();
        for at in [0, 255, 256, 999] {
            let x = Array::from_fn(&[1000], |c| if c[0] == at { f64::NAN } else { c[0] as f64 });
            let want = Array::new(&[], vec![f64::NAN]);
            checks.push(near("max", x.f32(device)?.max(&[])?, want.clone(), Tolerance::EXACT));
            checks.push(near("min", x.f32(device)?.min(&[])?, want, Tolerance::EXACT));
        }
        Ok(checks)
    });
}

fn views(suite: &mut Suite) {
    suite.add("of views", |device| {
        let x = integers(&[6, 8, 10], -50, 50, 9);
        let a = x.f32(device)?;
        let sum =
            |x: &Array<f64>, axis: usize| x.reduce(&[axis], |x| x.iter().sum()).squeeze(&[axis]);
        let check = |what, got, want| near(what, got, want, Tolerance::EXACT);
        let turned = x.permute(&[2, 0, 1]);
        let padded = x.pad(&[(0, 0), (1, 2), (0, 0)], 1.0);
        Ok(vec![
            check("a transpose", a.permute(&[2, 0, 1])?.sum(&[1])?, sum(&turned, 1)),
            check("a slice", a.slice_step(2, 1..10, 3)?.sum(&[2])?, sum(&x.slice(2, 1, 3, 3), 2)),
            check("a flip", a.flip(&[1])?.max(&[1])?, x.reduce(&[1], NUMBERS[2].3).squeeze(&[1])),
            check(
                "an expansion",
                a.slice(0, ..1)?.expand(&[5, 8, 10])?.sum(&[0])?,
                x.slice(0, 0, 1, 1).map(|x| 5.0 * x).squeeze(&[0]),
            ),
            check("a reshape", a.reshape(&[48, 10])?.sum(&[0])?, sum(&x.reshape(&[48, 10]), 0)),
            check("a pad", a.pad(&[(0, 0), (1, 2), (0, 0)], 1.0)?.sum(&[1])?, sum(&padded, 1)),
            check("a join", Tensor::concat(&[&a, &a], 1)?.sum(&[1])?, sum(&x, 1).map(|x| 2.0 * x)),
        ])
    });
    suite.add("a reduction's result used as a view", |device| {
        let x = integers(&[4, 6], -9, 9, 10);
        let a = x.f32(device)?;
        let rows = x.reduce(&[1], |x| x.iter().sum::<f64>());
        let columns = x.reduce(&[0], |x| x.iter().sum::<f64>());
        let got = a
            .sum(Axes::from(1).keepdim(true))?
            .mul(&a.sum(Axes::from(0).keepdim(true))?)?
            .transpose(0, 1)?;
        let want = rows.zip(&columns, |r, c| r * c).permute(&[1, 0]);
        Ok(vec![near("outer", got, want, Tolerance::EXACT)])
    });
}

fn best(x: &[f64], better: fn(f64, f64) -> bool) -> f64 {
    let mut at = 0;
    for (i, &v) in x.iter().enumerate() {
        if !x[at].is_nan() && (v.is_nan() || better(v, x[at])) {
            at = i;
        }
    }
    at as f64
}

fn arg_checks(device: &Device, x: &Array<f64>, dtype: DType) -> Result<Vec<Check>> {
    let a = x.on(device, dtype)?;
    let mut checks = Vec::new();
    for axis in 0..x.shape.len() {
        let largest = x.reduce(&[axis], |x| best(x, |v, w| v > w)).squeeze(&[axis]);
        let smallest = x.reduce(&[axis], |x| best(x, |v, w| v < w)).squeeze(&[axis]);
        let what = |name| format!("{name} along {axis} of {dtype} {:?}", x.shape);
        checks.push(exact(what("argmax"), a.argmax(axis as isize)?, DType::I32, largest));
        checks.push(exact(what("argmin"), a.argmin(axis as isize)?, DType::I32, smallest));
    }
    Ok(checks)
}

fn positions(suite: &mut Suite) {
    suite.add("argmax and argmin with ties", |device| {
        let x = integers(&[5, 7, 3], -3, 3, 11);
        let mut checks = arg_checks(device, &x, DType::F32)?;
        checks.extend(arg_checks(device, &x, DType::I32)?);
        checks.extend(arg_checks(device, &x.map(f64::abs), DType::U32)?);
        Ok(checks)
    });
    suite.add("argmax and argmin of NaN and infinities", |device| {
        let (nan, inf) = (f64::NAN, f64::INFINITY);
        let rows = [
            [1.0, nan, 3.0, nan],
            [nan, inf, -inf, 0.0],
            [-inf, -inf, -inf, -inf],
            [0.0, -0.0, 0.0, -0.0],
            [inf, 1.0, inf, -inf],
        ];
        arg_checks(device, &Array::new(&[5, 4], rows.concat()), DType::F32)
    });
    for n in [1, 33, 257, 1000] {
        suite.add(format!("argmax and argmin of {n}"), move |device| {
            arg_checks(device, &random(&[2, n], -9.0, 9.0, 12), DType::F32)
        });
    }
}

pub fn variance(x: &[f64], correction: f64) -> f64 {
    let mean = x.iter().sum::<f64>() / x.len() as f64;
    let squares: f64 = x.iter().map(|x| (x - mean).powi(2)).sum();
    squares / (x.len() as f64 - correction).max(0.0)
}

pub fn logsumexp(x: &[f64]) -> f64 {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if max.is_infinite() {
        return max;
    }
    max + x.iter().map(|x| (x - max).exp()).sum::<f64>().ln()
}

fn derived(suite: &mut Suite) {
    for (shape, axes) in [
        (&[7usize, 33][..], &[1usize][..]),
        (&[33, 7], &[0]),
        (&[3, 4, 65], &[1, 2]),
        (&[257], &[0]),
        (&[2, 1000], &[1]),
    ] {
        suite.add(
            format!("mean, var, std, norms, logsumexp of {shape:?} over {axes:?}"),
            move |device| {
                let x = random(shape, -3.0, 5.0, 13);
                let (a, over) = (x.f32(device)?, signed(axes));
                let of = |f: &dyn Fn(&[f64]) -> f64| x.reduce(axes, f).squeeze(axes);
                let by = Tolerance { absolute: 4e-6, ..Tolerance::F32 };
                let largest = |x: &[f64]| x.iter().fold(0.0f64, |m, x| m.max(x.abs()));
                Ok(vec![
                    near("mean", a.mean(&over)?, of(&MEAN.3), by),
                    near("var", a.var(&over, 1.0)?, of(&|x| variance(x, 1.0)), by),
                    near("population var", a.var(&over, 0.0)?, of(&|x| variance(x, 0.0)), by),
                    near("std", a.std(&over, 1.0)?, of(&|x| variance(x, 1.0).sqrt()), by),
                    near(
                        "norm_l1",
                        a.norm_l1(&over)?,
                        of(&|x| x.iter().map(|x| x.abs()).sum()),
                        by,
                    ),
                    near(
                        "norm_l2",
                        a.norm_l2(&over)?,
                        of(&|x| x.iter().map(|x| x * x).sum::<f64>().sqrt()),
                        by,
                    ),
                    near("norm_linf", a.norm_linf(&over)?, of(&largest), Tolerance::EXACT),
                    near("logsumexp", a.logsumexp(&over)?, of(&logsumexp), by),
                ])
            },
        );
    }
    suite.add("kept axes of derived ones", |device| {
        let a = random(&[3, 20, 2], -3.0, 5.0, 15).f32(device)?;
        type Both = (&'static str, Result<Tensor>, Result<Tensor>);
        let all: [Both; 5] = [
            ("std", a.std(&[1], 1.0), a.std(Axes::from(1).keepdim(true), 1.0)),
            ("norm_l1", a.norm_l1(&[1]), a.norm_l1(Axes::from(1).keepdim(true))),
            ("norm_l2", a.norm_l2(&[1]), a.norm_l2(Axes::from(1).keepdim(true))),
            ("norm_linf", a.norm_linf(&[1]), a.norm_linf(Axes::from(1).keepdim(true))),
            ("logsumexp", a.logsumexp(&[1]), a.logsumexp(Axes::from(1).keepdim(true))),
        ];
        let mut checks = Vec::new();
        for (name, dropped, kept) in all {
            // Other cases compare the values with references.
            let apart = dropped?.unsqueeze(1)?.sub(&kept?)?;
            checks.push(near(name, apart, Array::new(&[3, 1, 2], vec![0.0; 6]), Tolerance::EXACT));
        }
        Ok(checks)
    });
    suite.add("var far from 0", |device| {
        let x = random(&[3, 100], -1.0, 1.0, 14).map(|x| f64::from((x + 1000.0) as f32));
        let want = x.reduce(&[1], |x| variance(x, 1.0)).squeeze(&[1]);
        // The mean has a rounding error of 6e-5, whose square is added.
        let by = Tolerance { absolute: 1e-6, relative: 1e-4 };
        Ok(vec![near("var", x.f32(device)?.var(&[1], 1.0)?, want, by)])
    });
    suite.add("var of one element", |device| {
        let a = device.tensor(&[3.0f32], &[1])?;
        Ok(vec![
            near("unbiased", a.var(&[0], 1.0)?, Array::new(&[], vec![f64::NAN]), Tolerance::EXACT),
            near("population", a.var(&[0], 0.0)?, Array::new(&[], vec![0.0]), Tolerance::EXACT),
        ])
    });
    suite.add("logsumexp of extremes", |device| {
        let inf = f64::INFINITY;
        let rows = [
            [1000.0, 1000.0, 999.0],
            [-1000.0, -1000.0, -1001.0],
            [-inf, -inf, -inf],
            [-inf, 0.0, 1.0],
            [inf, 0.0, 1.0],
            [1e30, -1e30, 0.0],
        ];
        let x = Array::new(&[6, 3], rows.concat());
        let want = x.reduce(&[1], logsumexp).squeeze(&[1]);
        Ok(vec![near("rows", x.f32(device)?.logsumexp(&[1])?, want, Tolerance::F32)])
    });
}

fn fused(suite: &mut Suite) {
    suite.add("pointwise work before and after", |device| {
        let x = integers(&[9, 65], -9, 9, 15);
        let a = x.f32(device)?;
        let sum = |x: &[f64]| x.iter().sum::<f64>();
        let doubled = x.map(|x| 2.0 * x + 1.0).reduce(&[1], sum);
        let got = a.mul(2.0)?.add(1.0)?.sum(Axes::from(1).keepdim(true))?.mul(-1.0)?;
        let spread = a.add(&a.sum(Axes::from(1).keepdim(true))?)?;
        let twice =
            a.sum(Axes::from(1).keepdim(true))?.mul(&a.max(Axes::from(1).keepdim(true))?)?;
        let max = x.reduce(&[1], NUMBERS[2].3);
        let total = a.sum(&[1])?.max(&[])?;
        Ok(vec![
            near("sum(2 x + 1) * -1", got, doubled.map(|x| -x), Tolerance::EXACT),
            near("x + sum(x)", spread, x.zip(&x.reduce(&[1], sum), |x, s| x + s), Tolerance::EXACT),
            near(
                "sum(x) * max(x)",
                twice,
                x.reduce(&[1], sum).zip(&max, |s, m| s * m),
                Tolerance::EXACT,
            ),
            near(
                "max(sum(x))",
                total,
                x.reduce(&[1], sum).reduce(&[0, 1], NUMBERS[2].3).reshape(&[]),
                Tolerance::EXACT,
            ),
        ])
    });
    suite.add("rows and columns at once", |device| {
        let x = integers(&[33, 17], -9, 9, 16);
        let a = x.f32(device)?;
        let sum = |x: &[f64]| x.iter().sum::<f64>();
        let (rows, columns) = (x.reduce(&[1], sum), x.reduce(&[0], sum));
        let got = a
            .add(&a.sum(Axes::from(1).keepdim(true))?)?
            .add(&a.sum(Axes::from(0).keepdim(true))?)?;
        let want = x.zip(&rows, |x, r| x + r).zip(&columns, |x, c| x + c);
        let own = a.add(&a.transpose(0, 1)?.sum(&[1])?)?;
        Ok(vec![
            near("x + rows + columns", got, want, Tolerance::EXACT),
            near("x + sums of the transpose", own, x.zip(&columns, |x, c| x + c), Tolerance::EXACT),
        ])
    });
}

/// Tests reductions along columns, of which a thread may compute four.
fn columns(suite: &mut Suite) {
    let sum = |x: &[f64]| x.iter().sum::<f64>();
    for n in [1usize, 3, 4, 8, 33, 64, 257, 1024] {
        suite.add(format!("down {n} columns"), move |device| {
            let x = integers(&[37, n], -9, 9, 18);
            let (a, i) = (x.f32(device)?, x.on(device, DType::I32)?);
            let (row, column) = (integers(&[1, n], -3, 3, 19), integers(&[37, 1], -3, 3, 20));
            let scaled = a.mul(&row.f32(device)?)?.add(&column.f32(device)?)?;
            let want = x.zip(&row, |x, r| x * r).zip(&column, |x, c| x + c);
            let down = |x: &Array<f64>, f: &dyn Fn(&[f64]) -> f64| x.reduce(&[0], f).squeeze(&[0]);
            let mut checks = arg_checks(device, &x, DType::F32)?;
            checks.extend(arg_checks(device, &x, DType::I32)?);
            let by = Tolerance { absolute: 4e-6, ..Tolerance::F32 };
            let most = |x: &[f64]| NUMBERS[2].3(x);
            let apart = a.sub(&a.max(Axes::from(0).keepdim(true))?)?;
            let largest = x.reduce(&[0], most);
            let exps = x.zip(&largest, |x, m| (x - m).exp());
            let shares = exps.zip(&exps.reduce(&[0], sum), |e, s| e / s);
            let masked = a.gt(0.0)?;
            checks.extend([
                near("sum", a.sum(&[0])?, down(&x, &sum), Tolerance::EXACT),
                exact("sum of i32", i.sum(&[0])?, DType::I32, down(&x, &sum)),
                near("sum of scaled", scaled.sum(&[0])?, down(&want, &sum), Tolerance::EXACT),
                near(
                    "sum of a row",
                    row.f32(device)?.expand(&[37, n])?.sum(&[0])?,
                    row.map(|r| 37.0 * r).squeeze(&[0]),
                    Tolerance::EXACT,
                ),
                near("mean", a.mean(&[0])?, down(&x, &MEAN.3), by),
                near("var", a.var(&[0], 1.0)?, down(&x, &|x| variance(x, 1.0)), by),
                near("x - max", apart, x.zip(&largest, |x, m| x - m), Tolerance::EXACT),
                near("softmax", a.softmax(0)?, shares, by),
                exact(
                    "any",
                    masked.any(&[0])?,
                    DType::Bool,
                    down(&x, &|x| f64::from(most(x) > 0.0)),
                ),
            ]);
            Ok(checks)
        });
        suite.add(format!("along other axes before {n} columns"), move |device| {
            let x = integers(&[3, 5, 2, n], -9, 9, 21);
            let a = x.f32(device)?;
            let mut checks = Vec::new();
            for axes in subsets(3) {
                let want = x.reduce(&axes, sum).squeeze(&axes);
                let got = a.sum(&signed(&axes))?;
                checks.push(near(format!("sum over {axes:?}"), got, want, Tolerance::EXACT));
            }
            // Vectors of four that are not contiguous in memory, and some that padding interrupts.
            let part = a.slice(3, 1..n as isize)?;
            let want = x.slice(3, 1, n - 1, 1);
            let pads = [(0, 0), (1, 2), (0, 0), (3, 1)];
            let padded = x.pad(&pads, 1.0).reduce(&[1], sum).squeeze(&[1]);
            let turned = x.permute(&[3, 0, 1, 2]).reduce(&[1, 2], sum).squeeze(&[1, 2]);
            checks.extend([
                near(
                    "of a slice",
                    part.sum(&[1])?,
                    want.reduce(&[1], sum).squeeze(&[1]),
                    Tolerance::EXACT,
                ),
                near("of a pad", a.pad(&pads, 1.0)?.sum(&[1])?, padded, Tolerance::EXACT),
                near("turned", a.permute(&[3, 0, 1, 2])?.sum(&[1, 2])?, turned, Tolerance::EXACT),
                near(
                    "joined",
                    Tensor::concat(&[&a, &a], 0)?.sum(&[0])?,
                    x.reduce(&[0], sum).squeeze(&[0]).map(|x| 2.0 * x),
                    Tolerance::EXACT,
                ),
            ]);
            Ok(checks)
        });
        suite
            .add(format!("down {n} columns of f16"), move |device| {
                let x = integers(&[37, n], -9, 9, 22);
                let got = x.on(device, DType::F16)?.sum(&[0])?;
                let want = x.reduce(&[0], sum).squeeze(&[0]);
                Ok(vec![exact("sum", got, DType::F16, want)])
            })
            .half();
    }
}

fn million(suite: &mut Suite) {
    suite
        .add("2^24 + 1 elements", |device| {
            let n = (1 << 24) + 1;
            let words: Vec<f32> = (0..n).map(|i| (word(17, i) & 1) as f32).collect();
            let total: f64 = words.iter().map(|&w| f64::from(w)).sum();
            let a = device.tensor(&words, &[n])?;
            let ones = device.full(&[n], 1.0, DType::I32)?;
            let mut peak = words;
            peak[n - 1] = 7.0;
            let peak = device.tensor(&peak, &[n])?;
            let one = |v: f64| Array::new(&[], vec![v]);
            Ok(vec![
                near("sum", a.sum(&[])?, one(total), Tolerance::EXACT),
                exact("sum of ones", ones.sum(&[])?, DType::I32, one(n as f64)),
                near("max", peak.max(&[])?, one(7.0), Tolerance::EXACT),
                exact("argmax", peak.argmax(0)?, DType::I32, one((n - 1) as f64)),
            ])
        })
        .big();
}
