//! Tests matrix products: all ranks, views and sizes, and the work that is fused before and after them.

use super::array::{integers, random, Array};
use super::check::{near, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::tensor::{Axes, Tensor};

/// Returns the product over the last two axes, with the leading ones broadcast.
pub fn product(a: &Array<f64>, b: &Array<f64>) -> Array<f64> {
    let (ra, rb) = (a.shape.len(), b.shape.len());
    let (k, n) = (a.shape[ra - 1], b.shape[rb - 1]);
    let rank = ra.max(rb);
    let extent = |s: &[usize], d: usize| (d + s.len()).checked_sub(rank).map_or(1, |d| s[d]);
    let mut shape: Vec<usize> = (0..rank - 2)
        .map(|d| match (extent(&a.shape, d), extent(&b.shape, d)) {
            (1, y) => y,
            (x, _) => x,
        })
        .collect();
    shape.extend([a.shape[ra - 2], n]);
    Array::from_fn(&shape, |at| {
        let (lead, place) = at.split_at(rank - 2);
        let left = |j| a.at(&[lead, &[place[0], j]].concat());
        let right = |j| b.at(&[lead, &[j, place[1]]].concat());
        (0..k).map(|j| left(j) * right(j)).sum()
    })
}

fn whole(shape: &[usize], seed: u32) -> Array<f64> {
    integers(shape, -4, 4, seed)
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("matmul");
    sizes(&mut suite);
    ranks(&mut suite);
    views(&mut suite);
    long(&mut suite);
    vectors(&mut suite);
    fused(&mut suite);
    chains(&mut suite);
    suite
}

fn sizes(suite: &mut Suite) {
    const SIZES: &[[usize; 3]] = &[
        [1, 1, 1],
        [1, 1, 33],
        [1, 33, 1],
        [33, 1, 1],
        [1, 64, 65],
        [65, 64, 1],
        [2, 3, 4],
        [7, 5, 3],
        [31, 31, 31],
        [32, 32, 32],
        [33, 33, 33],
        [64, 64, 64],
        [65, 65, 65],
        [31, 65, 33],
        [64, 1, 64],
        [65, 2, 127],
        [128, 16, 128],
        [129, 17, 130],
        [129, 129, 129],
        [3, 257, 5],
        [257, 3, 129],
        [16, 1000, 16],
        [1, 257, 257],
        [257, 257, 1],
        [4, 129, 64],
        [64, 129, 4],
        [128, 128, 128],
        [130, 64, 257],
        [13, 257, 21],
        [5, 600, 31],
        [31, 600, 5],
        [23, 300, 1],
        [9, 600, 7],
        [700, 301, 5],
    ];
    for &[m, k, n] in SIZES {
        suite.add(format!("[{m}, {k}] by [{k}, {n}]"), move |device| {
            let (a, b) = (whole(&[m, k], 1), whole(&[k, n], 2));
            let got = a.f32(device)?.matmul(&b.f32(device)?)?;
            Ok(vec![near("product", got, product(&a, &b), Tolerance::EXACT)])
        });
    }
    for [m, k, n] in [[0, 3, 4], [3, 4, 0], [3, 0, 4], [0, 0, 0], [1, 0, 1]] {
        suite.add(format!("[{m}, {k}] by [{k}, {n}]"), move |device| {
            let (a, b) = (whole(&[m, k], 1), whole(&[k, n], 2));
            let product_ = a.f32(device)?.matmul(&b.f32(device)?)?;
            let next = product_.add(1.0)?;
            let want = product(&a, &b);
            Ok(vec![
                near("product", product_, want.clone(), Tolerance::EXACT),
                near("and 1", next, want.map(|v| v + 1.0), Tolerance::EXACT),
            ])
        });
    }
    for [m, k, n] in [[33, 65, 17], [64, 256, 64], [2, 1000, 129]] {
        suite.add(format!("fractions, [{m}, {k}] by [{k}, {n}]"), move |device| {
            let (a, b) = (random(&[m, k], -1.0, 1.0, 3), random(&[k, n], -1.0, 1.0, 4));
            let got = a.f32(device)?.matmul(&b.f32(device)?)?;
            Ok(vec![near("product", got, product(&a, &b), Tolerance::sum(k, 1.0))])
        });
    }
    suite
        .add("[257, 257] by [257, 257]", |device| {
            let (a, b) = (whole(&[257, 257], 1), whole(&[257, 257], 2));
            let got = a.f32(device)?.matmul(&b.f32(device)?)?;
            Ok(vec![near("product", got, product(&a, &b), Tolerance::EXACT)])
        })
        .big();
    suite.add("not finite", |device| {
        let inf = f64::INFINITY;
        let a = Array::new(&[3, 2], vec![inf, 1.0, f64::NAN, 0.0, 2.0, 3.0]);
        let b = Array::new(&[2, 2], vec![1.0, 2.0, 3.0, -inf]);
        let got = a.f32(device)?.matmul(&b.f32(device)?)?;
        Ok(vec![near("product", got, product(&a, &b), Tolerance::EXACT)])
    });
}

fn ranks(suite: &mut Suite) {
    const PAIRS: &[(&[usize], &[usize])] = &[
        (&[2, 3, 4], &[4, 5]),
        (&[3, 4], &[2, 4, 5]),
        (&[2, 3, 4], &[2, 4, 5]),
        (&[1, 3, 4], &[2, 4, 5]),
        (&[2, 1, 3, 4], &[3, 4, 5]),
        (&[2, 1, 3, 4], &[1, 3, 4, 5]),
        (&[2, 2, 33, 17], &[2, 2, 17, 9]),
        (&[5, 64, 32], &[32, 64]),
        (&[0, 3, 4], &[4, 5]),
        (&[2, 1, 2, 1, 2, 1, 3, 2], &[1, 2, 1, 2, 1, 2, 2, 3]),
    ];
    for &(left, right) in PAIRS {
        suite.add(format!("{left:?} by {right:?}"), move |device| {
            let (a, b) = (whole(left, 5), whole(right, 6));
            let got = a.f32(device)?.matmul(&b.f32(device)?)?;
            Ok(vec![near("product", got, product(&a, &b), Tolerance::EXACT)])
        });
    }
}

fn views(suite: &mut Suite) {
    for [m, k, n] in [[33, 17, 65], [64, 64, 64], [5, 129, 3], [1, 65, 64], [37, 129, 3]] {
        suite.add(format!("transposes, {m} {k} {n}"), move |device| {
            let (a, b) = (whole(&[m, k], 7), whole(&[k, n], 8));
            let want = product(&a, &b);
            let (at, bt) = (a.permute(&[1, 0]), b.permute(&[1, 0]));
            let (a, b) = (a.f32(device)?, b.f32(device)?);
            let (ta, tb) = (at.f32(device)?.transpose(0, 1)?, bt.f32(device)?.transpose(0, 1)?);
            let turned = want.permute(&[1, 0]);
            Ok(vec![
                near("aT", ta.matmul(&b)?, want.clone(), Tolerance::EXACT),
                near("bT", a.matmul(&tb)?, want.clone(), Tolerance::EXACT),
                near("both", ta.matmul(&tb)?, want, Tolerance::EXACT),
                near("the result", a.matmul(&b)?.transpose(0, 1)?, turned, Tolerance::EXACT),
            ])
        });
    }
    suite.add("slices, flips, expansions", |device| {
        let x = whole(&[10, 12], 9);
        let a = x.f32(device)?;
        let check = |what, got, want| near(what, got, want, Tolerance::EXACT);
        let steps = x.slice(0, 1, 4, 2);
        let row = x.slice(0, 0, 1, 1).expand(&[7, 12]);
        Ok(vec![
            check(
                "a slice",
                a.slice_step(0, 1..9, 2)?.matmul(&a.transpose(0, 1)?)?,
                product(&steps, &x.permute(&[1, 0])),
            ),
            check(
                "a flip",
                a.flip(&[1])?.matmul(&a.transpose(0, 1)?)?,
                product(&x.flip(&[1]), &x.permute(&[1, 0])),
            ),
            check(
                "an expansion",
                a.slice(0, ..1)?.expand(&[7, 12])?.matmul(&a.transpose(0, 1)?)?,
                product(&row, &x.permute(&[1, 0])),
            ),
            check(
                "a reshape",
                a.reshape(&[12, 10])?.matmul(&a)?,
                product(&x.reshape(&[12, 10]), &x),
            ),
            check(
                "a join",
                Tensor::concat(&[&a, &a], 1)?
                    .matmul(&Tensor::concat(&[&a, &a], 1)?.transpose(0, 1)?)?,
                product(&x, &x.permute(&[1, 0])).map(|v| 2.0 * v),
            ),
        ])
    });
    suite.add("heads, batch in the middle", |device| {
        let (x, y) = (whole(&[2, 5, 3, 8], 10), whole(&[2, 5, 3, 8], 11));
        let q = x.f32(device)?.permute(&[0, 2, 1, 3])?;
        let k = y.f32(device)?.permute(&[0, 2, 3, 1])?;
        let want = product(&x.permute(&[0, 2, 1, 3]), &y.permute(&[0, 2, 3, 1]));
        Ok(vec![near("scores", q.matmul(&k)?, want, Tolerance::EXACT)])
    });
}

/// Tests few results with long sums, which may be computed in parts.
fn long(suite: &mut Suite) {
    const SIZES: [[usize; 3]; 7] = [
        [1, 1023, 1],
        [1, 1024, 1],
        [3, 2049, 5],
        [65, 1025, 70],
        [1, 4100, 33],
        [40, 3001, 2],
        [66, 8192, 64],
    ];
    for [m, k, n] in SIZES {
        suite.add(format!("a long sum, [{m}, {k}] by [{k}, {n}]"), move |device| {
            let (a, b) = (whole(&[m, k], 30), whole(&[k, n], 31));
            let want = product(&a, &b);
            let (at, bt) = (a.permute(&[1, 0]), b.permute(&[1, 0]));
            let (a, b) = (a.f32(device)?, b.f32(device)?);
            let (ta, tb) = (at.f32(device)?.transpose(0, 1)?, bt.f32(device)?.transpose(0, 1)?);
            let bias = whole(&[n], 32);
            let layer = a.matmul(&b)?.add(&bias.f32(device)?)?.relu();
            let rectified = want.zip(&bias, |p, b| (p + b).max(0.0));
            Ok(vec![
                near("product", a.matmul(&b)?, want.clone(), Tolerance::EXACT),
                near("of transposes", ta.matmul(&tb)?, want, Tolerance::EXACT),
                near("layer", layer, rectified, Tolerance::EXACT),
            ])
        });
    }
    const PAIRS: [(&[usize], &[usize]); 4] = [
        (&[3, 2, 5, 1500], &[2, 1500, 7]),
        (&[2, 1, 9, 1026], &[1, 3, 1026, 9]),
        (&[1, 1, 1, 1, 1, 2, 3, 1024], &[1, 1, 1, 1, 1, 2, 1024, 3]),
        (&[40, 5, 2048], &[40, 2048, 5]),
    ];
    for (left, right) in PAIRS {
        suite.add(format!("long sums, {left:?} by {right:?}"), move |device| {
            let (a, b) = (whole(left, 33), whole(right, 34));
            let got = a.f32(device)?.matmul(&b.f32(device)?)?;
            Ok(vec![near("product", got, product(&a, &b), Tolerance::EXACT)])
        });
    }
    suite.add("a long sum of fractions", |device| {
        let (a, b) = (random(&[5, 5000], -1.0, 1.0, 35), random(&[5000, 6], -1.0, 1.0, 36));
        let got = a.f32(device)?.matmul(&b.f32(device)?)?;
        Ok(vec![near("product", got, product(&a, &b), Tolerance::sum(5000, 1.0))])
    });
}

fn vectors(suite: &mut Suite) {
    for n in [1, 33, 257] {
        suite.add(format!("vectors of {n}"), move |device| {
            let (x, y) = (whole(&[n], 12), whole(&[n], 13));
            let w = whole(&[n, 5], 14);
            let batch = whole(&[3, n, 5], 15);
            let (a, b) = (x.f32(device)?, y.f32(device)?);
            let row = x.reshape(&[1, n]);
            let inner = product(&row, &y.reshape(&[n, 1])).reshape(&[]);
            let check = |what, got, want| near(what, got, want, Tolerance::EXACT);
            Ok(vec![
                check("inner", a.matmul(&b)?, inner.clone()),
                check("dot", a.dot(&b)?, inner),
                check("outer", a.outer(&b)?, x.reshape(&[n, 1]).zip(&y, |x, y| x * y)),
                check("row", a.matmul(&w.f32(device)?)?, product(&row, &w).reshape(&[5])),
                check(
                    "column",
                    w.f32(device)?.transpose(0, 1)?.matmul(&b)?,
                    product(&y.reshape(&[1, n]), &w).reshape(&[5]),
                ),
                check(
                    "row by batch",
                    a.matmul(&batch.f32(device)?)?,
                    product(&row, &batch).reshape(&[3, 5]),
                ),
                check(
                    "batch by column",
                    batch.f32(device)?.transpose(1, 2)?.matmul(&b)?,
                    product(&y.reshape(&[1, n]), &batch).reshape(&[3, 5]),
                ),
            ])
        });
    }
}

fn gelu_like(v: f64) -> f64 {
    v.max(0.0)
}

fn fused(suite: &mut Suite) {
    for [m, k, n] in [[5, 7, 9], [64, 32, 64], [65, 33, 66], [1, 64, 129], [65, 33, 6]] {
        suite.add(format!("with work around it, {m} {k} {n}"), move |device| {
            let (x, y) = (whole(&[m, k], 16), whole(&[k, n], 17));
            let (b, r) = (whole(&[n], 18), whole(&[m, n], 19));
            let (a, w) = (x.f32(device)?, y.f32(device)?);
            let (bias, residual) = (b.f32(device)?, r.f32(device)?);
            let p = product(&x, &y);
            let sum = p.zip(&b, |p, b| p + b);
            let sizes = |a: &Array<f64>| a.map(f64::abs);
            let check = |what, got, want| near(what, got, want, Tolerance::EXACT);
            Ok(vec![
                check("bias and relu", a.matmul(&w)?.add(&bias)?.relu(), sum.map(gelu_like)),
                check(
                    "residual",
                    a.matmul(&w)?.add(&bias)?.add(&residual)?,
                    sum.zip(&r, |s, r| s + r),
                ),
                check("scaled", a.matmul(&w)?.mul(0.5)?.sub(1.0)?, p.map(|p| p * 0.5 - 1.0)),
                check(
                    "prologues",
                    a.abs().matmul(&w.mul(2.0)?)?,
                    product(&sizes(&x), &y.map(|y| 2.0 * y)),
                ),
                check("a cast", a.matmul(&w)?.cast(DType::I32)?.cast(DType::F32)?, p.clone()),
                check(
                    "compared",
                    a.matmul(&w)?.gt(&residual)?.cast(DType::F32)?,
                    p.zip(&r, |p, r| f64::from(p > r)),
                ),
                check(
                    "twice its result",
                    {
                        let p = a.matmul(&w)?;
                        p.mul(&p)?
                    },
                    p.map(|p| p * p),
                ),
                check(
                    "summed",
                    a.matmul(&w)?.sum(&[1])?,
                    p.reduce(&[1], |p| p.iter().sum()).squeeze(&[1]),
                ),
                check(
                    "of sums",
                    a.add(&a.sum(Axes::from(1).keepdim(true))?)?.matmul(&w)?,
                    product(&x.zip(&x.reduce(&[1], |x| x.iter().sum::<f64>()), |x, s| x + s), &y),
                ),
            ])
        });
    }
}

fn chains(suite: &mut Suite) {
    suite.add("three layers", |device| {
        let x = random(&[9, 12], -1.0, 1.0, 20);
        let mut want = x.clone();
        let mut got = x.f32(device)?;
        for (layer, (inputs, outputs)) in [(12, 33), (33, 20), (20, 4)].into_iter().enumerate() {
            let seed = 21 + 2 * layer as u32;
            let w = random(&[inputs, outputs], -0.5, 0.5, seed);
            let b = random(&[outputs], -0.5, 0.5, seed + 1);
            want = product(&want, &w).zip(&b, |p, b| (p + b).max(0.0));
            got = got.matmul(&w.f32(device)?)?.add(&b.f32(device)?)?.relu();
        }
        let by = Tolerance { absolute: 1e-5, ..Tolerance::F32 };
        Ok(vec![near("output", got, want, by)])
    });
    suite.add("a product of products, both read", |device| {
        let (x, y, z) = (whole(&[6, 7], 30), whole(&[7, 8], 31), whole(&[8, 3], 32));
        let first = x.f32(device)?.matmul(&y.f32(device)?)?;
        let second = first.matmul(&z.f32(device)?)?;
        let want = product(&x, &y);
        Ok(vec![
            near("second", second, product(&want, &z), Tolerance::EXACT),
            near("first", first, want, Tolerance::EXACT),
        ])
    });
    suite.add("two products of one operand, added", |device| {
        let (x, y, z) = (whole(&[6, 7], 33), whole(&[7, 8], 34), whole(&[7, 8], 35));
        let a = x.f32(device)?;
        let got = a.matmul(&y.f32(device)?)?.add(&a.matmul(&z.f32(device)?)?)?;
        let want = product(&x, &y).zip(&product(&x, &z), |p, q| p + q);
        Ok(vec![near("sum", got, want, Tolerance::EXACT)])
    });
    suite.add("a matrix by its own transpose", |device| {
        let x = whole(&[33, 20], 36);
        let a = x.f32(device)?;
        let want = product(&x, &x.permute(&[1, 0]));
        Ok(vec![near("gram", a.matmul(&a.transpose(0, 1)?)?, want, Tolerance::EXACT)])
    });
}
