//! Tests counting, ordering, comparing and arranging: values and gradients, compared with plain Rust.

use super::array::{integers, random, Array};
use super::check::{exact, near, Suite};
use super::composed::both;
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::tensor::Tensor;

pub fn cases() -> Suite {
    let mut suite = Suite::new("statistics");
    spread(&mut suite);
    counted(&mut suite);
    compared(&mut suite);
    logarithms(&mut suite);
    arranged(&mut suite);
    products(&mut suite);
    suite
}

/// Returns numbers that all differ by at least 1/16.
fn apart(shape: &[usize]) -> Array<f64> {
    let count: usize = shape.iter().product();
    Array::new(shape, (0..count).map(|n| (n * 29 % 127) as f64 / 16.0 - 3.0).collect())
}

fn spread(suite: &mut Suite) {
    for correction in [0.0, 1.0] {
        both(
            suite,
            &format!("cov less {correction}"),
            vec![random(&[3, 5], -1.0, 1.0, 1)],
            move |x| x[0].cov(correction),
            move |x| {
                let mean = |row: usize| (0..5).map(|n| x[0].at(&[row, n])).sum::<f64>() / 5.0;
                Array::from_fn(&[3, 3], |at| {
                    let part = |n| {
                        (x[0].at(&[at[0], n]) - mean(at[0])) * (x[0].at(&[at[1], n]) - mean(at[1]))
                    };
                    (0..5).map(part).sum::<f64>() / (5.0 - correction)
                })
            },
        );
    }
    let sorted = |x: &[f64]| {
        let mut x = x.to_vec();
        x.sort_by(f64::total_cmp);
        x
    };
    for q in [0.0, 0.3, 0.5, 1.0] {
        both(
            suite,
            &format!("quantile {q}"),
            vec![apart(&[3, 6, 2])],
            move |x| x[0].quantile(q, 1),
            move |x| {
                x[0].reduce(&[1], |x| {
                    let (x, place) = (sorted(x), q * 5.0);
                    let low = place.floor() as usize;
                    x[low] + (place - place.floor()) * (x[(low + 1).min(5)] - x[low])
                })
                .squeeze(&[1])
            },
        );
    }
    suite.add("median of an odd and of an even number, and of NaN", |device| {
        let x = Array::new(&[2, 3], vec![3.0, 1.0, 2.0, 5.0, f64::NAN, 4.0]);
        let y = Array::new(&[4], vec![4.0, 1.0, 2.0, 8.0]);
        Ok(vec![
            near(
                "odd",
                x.f32(device)?.median(-1)?,
                Array::new(&[2], vec![2.0, f64::NAN]),
                Tolerance::EXACT,
            ),
            near("even", y.f32(device)?.median(0)?, Array::new(&[], vec![3.0]), Tolerance::EXACT),
        ])
    });
}

fn counted(suite: &mut Suite) {
    suite.add("bincount", |device| {
        let x = integers(&[7, 9], -2, 9, 2);
        let want = |n: usize| x.data.iter().filter(|&&x| x == n as f64).count() as f64;
        let got = x.on(device, DType::I32)?.bincount(6)?;
        Ok(vec![exact("counts", got, DType::I32, Array::from_fn(&[6], |at| want(at[0])))])
    });
    suite.add("histc", |device| {
        let x = random(&[70], -1.2, 1.2, 3);
        let want = Array::from_fn(&[4], |at| {
            let low = -1.0 + 0.5 * at[0] as f64;
            let inside = |x: &&f64| **x >= low && (**x < low + 0.5 || at[0] == 3 && **x <= 1.0);
            x.data.iter().filter(inside).count() as f64
        });
        Ok(vec![exact("counts", x.f32(device)?.histc(4, -1.0, 1.0)?, DType::I32, want)])
    });
    suite.add("searchsorted", |device| {
        let sorted = Array::new(&[2, 5], vec![-3.0, 1.0, 1.0, 2.0, 9.0, 0.0, 2.0, 4.0, 4.0, 4.0]);
        let values = integers(&[2, 7], -4, 10, 4);
        let (a, b) = (sorted.f32(device)?, values.f32(device)?);
        let want = |right: bool| {
            Array::from_fn(&[2, 7], |at| {
                let value = values.at(at);
                let before = |&n: &usize| {
                    let x = sorted.at(&[at[0], n]);
                    x < value || right && x == value
                };
                (0..5).filter(before).count() as f64
            })
        };
        let line = a.select(0, 0)?.searchsorted(&b.select(0, 0)?, false)?;
        let first = want(false).slice(0, 0, 1, 1).squeeze(&[0]);
        Ok(vec![
            exact("left", a.searchsorted(&b, false)?, DType::I32, want(false)),
            exact("right", a.searchsorted(&b, true)?, DType::I32, want(true)),
            exact("one line", line, DType::I32, first),
        ])
    });
    // Lengths next to powers of two, equal neighbors, both ends, and NaN.
    suite.add("bucketize and searchsorted of every length", |device| {
        let mut checks = Vec::new();
        let nan = f64::NAN;
        let values = [-1.0, 0.0, 0.5, 1.0, 3.0, 7.0, 7.5, 20.0, nan, f64::INFINITY, -f64::INFINITY];
        let values = Array::new(&[11], values.to_vec());
        for count in [0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 100] {
            let sorted = Array::from_fn(&[count], |at| (at[0] / 2) as f64);
            let (a, b) = (sorted.f32(device)?, values.f32(device)?);
            for right in [false, true] {
                let want = values.map(|value| {
                    let less = |&&x: &&f64| x < value || right && x == value || value.is_nan();
                    sorted.data.iter().filter(less).count() as f64
                });
                let what = format!("{count}, {right}");
                let found = a.searchsorted(&b, right)?;
                checks.push(exact(what.clone(), found, DType::I32, want.clone()));
                let found = b.reshape(&[1, 11, 1])?.bucketize(&a, right)?;
                checks.push(exact(what, found, DType::I32, want.reshape(&[1, 11, 1])));
            }
        }
        // NaN comes after the numbers, as in a sorted tensor.
        let behind = device.tensor(&[1.0f32, 2.0, f32::NAN], &[3])?;
        let found = device.tensor(&[1.5f32, 2.0, 9.0], &[3])?.bucketize(&behind, false)?;
        checks.push(exact("NaN behind", found, DType::I32, Array::new(&[3], vec![1.0, 1.0, 2.0])));
        let whole = Array::new(&[4], vec![-5.0, 2.0, 2.0, 8.0]).on(device, DType::I32)?;
        let found = integers(&[3], 2, 3, 1).on(device, DType::I32)?.bucketize(&whole, true)?;
        checks.push(exact("integers", found, DType::I32, Array::new(&[3], vec![3.0; 3])));
        let none = device.zeros(&[0, 4])?.searchsorted(&device.zeros(&[0, 2])?, false)?;
        checks.push(exact("no rows", none, DType::I32, Array::new(&[0, 2], Vec::new())));
        Ok(checks)
    });
}

fn compared(suite: &mut Suite) {
    let (inf, nan) = (f64::INFINITY, f64::NAN);
    suite.add("is_finite, nan_to_num", move |device| {
        let x = Array::new(&[5], vec![1.5, nan, inf, -inf, -2.0]);
        let a = x.f32(device)?;
        let finite = Array::new(&[5], vec![1.0, 0.0, 0.0, 0.0, 1.0]);
        let replaced = Array::new(&[5], vec![1.5, 7.0, 100.0, -50.0, -2.0]);
        let done = a.nan_to_num(7.0, 100.0, -50.0)?;
        let gradient = done.sum(())?.grad(&[&a])?.remove(0);
        Ok(vec![
            exact("finite", a.is_finite(), DType::Bool, finite.clone()),
            near("replaced", done, replaced, Tolerance::EXACT),
            near("gradient", gradient, finite, Tolerance::EXACT),
        ])
    });
    suite.add("is_close, all_close", move |device| {
        let x = Array::new(&[6], vec![1.0, 1.0, inf, inf, nan, -1000.0]).f32(device)?;
        let y = Array::new(&[6], vec![1.001, 1.1, inf, -inf, nan, -1001.0]).f32(device)?;
        let want = Array::new(&[6], vec![1.0, 0.0, 1.0, 0.0, 0.0, 1.0]);
        let all = |value: f64| Array::new(&[], vec![value]);
        let two = Array::new(&[2], vec![2.0, 2.001]).f32(device)?;
        Ok(vec![
            exact("near", x.is_close(&y, 0.01, 0.0)?, DType::Bool, want),
            exact("not all", x.all_close(&y, 0.01, 0.0)?, DType::Bool, all(0.0)),
            exact("all", two.all_close(2.0, 0.0, 0.01)?, DType::Bool, all(1.0)),
        ])
    });
}

fn logarithms(suite: &mut Suite) {
    both(
        suite,
        "logaddexp",
        vec![random(&[3, 4], -5.0, 5.0, 5), random(&[4], -5.0, 5.0, 6)],
        |x| x[0].logaddexp(&x[1]),
        |x| x[0].zip(&x[1], |x, y| (x.exp() + y.exp()).ln()),
    );
    for (rows, n) in [(3, 5), (2, 40)] {
        both(
            suite,
            &format!("logcumsumexp of {n}"),
            vec![random(&[rows, n], -5.0, 5.0, 7)],
            |x| x[0].logcumsumexp(-1),
            |x| {
                Array::from_fn(&x[0].shape, |at| {
                    (0..=at[1]).map(|n| x[0].at(&[at[0], n]).exp()).sum::<f64>().ln()
                })
            },
        );
    }
    let (inf, none) = (f64::INFINITY, f64::NEG_INFINITY);
    suite.add("logaddexp of infinities and of large numbers", move |device| {
        let x = Array::new(&[5], vec![none, inf, inf, 1000.0, none]);
        let y = Array::new(&[5], vec![none, none, inf, 1000.0, 3.0]);
        let want = Array::new(&[5], vec![none, inf, inf, 1000.0 + 2f64.ln(), 3.0]);
        let got = x.f32(device)?.logaddexp(&y.f32(device)?)?;
        let line = Array::new(&[3], vec![none, 800.0, -800.0]);
        let sums = Array::new(&[3], vec![none, 800.0, 800.0]);
        Ok(vec![
            near("sums", got, want, Tolerance::F32),
            near("running", line.f32(device)?.logcumsumexp(0)?, sums, Tolerance::F32),
        ])
    });
}

fn arranged(suite: &mut Suite) {
    both(
        suite,
        "diff",
        vec![random(&[3, 5, 2], -1.0, 1.0, 8)],
        |x| x[0].diff(2, 1),
        |x| {
            Array::from_fn(&[3, 3, 2], |at| {
                let of = |n: usize| x[0].at(&[at[0], at[1] + n, at[2]]);
                of(2) - 2.0 * of(1) + of(0)
            })
        },
    );
    both(
        suite,
        "trapezoid",
        vec![random(&[3, 5], -1.0, 1.0, 9)],
        |x| x[0].trapezoid(0.5, -1),
        |x| {
            let sum = |x: &[f64]| x.windows(2).map(|x| 0.25 * (x[0] + x[1])).sum();
            x[0].reduce(&[1], sum).squeeze(&[1])
        },
    );
    both(
        suite,
        "repeat_interleave",
        vec![random(&[2, 3, 2], -1.0, 1.0, 10)],
        |x| x[0].repeat_interleave(3, 1),
        |x| Array::from_fn(&[2, 9, 2], |at| x[0].at(&[at[0], at[1] / 3, at[2]])),
    );
    suite.add("movedim, narrow, unbind, meshgrid", |device| {
        let x = integers(&[2, 3, 4], -99, 99, 11);
        let a = x.f32(device)?;
        let parts = a.unbind(1)?;
        let of = |n: usize| x.slice(1, n, 1, 1).squeeze(&[1]);
        let (rows, columns) = (device.arange(2.0)?, device.arange(3.0)?);
        let grid = Tensor::meshgrid(&[&rows, &columns])?;
        let at = |axis: usize| Array::from_fn(&[2, 3], |at| at[axis] as f64);
        let by = Tolerance::EXACT;
        Ok(vec![
            near("one axis", a.movedim(&[0], &[-1])?, x.permute(&[1, 2, 0]), by),
            near("two axes", a.movedim(&[0, 2], &[1, 0])?, x.permute(&[2, 0, 1]), by),
            near("none", a.movedim(&[], &[])?, x.clone(), by),
            near("narrow", a.narrow(2, 1, 2)?, x.slice(2, 1, 2, 1), by),
            near("from the end", a.narrow(2, -2, 2)?, x.slice(2, 2, 2, 1), by),
            near("the first", parts[0].clone(), of(0), by),
            near("the last", parts[2].clone(), of(2), by),
            near("rows", grid[0].clone(), at(0), by),
            near("columns", grid[1].clone(), at(1), by),
        ])
    });
}

fn products(suite: &mut Suite) {
    both(
        suite,
        "cross",
        vec![random(&[2, 3, 4], -1.0, 1.0, 12), random(&[3, 1], -1.0, 1.0, 13)],
        |x| x[0].cross(&x[1], 1),
        |x| {
            Array::from_fn(&[2, 3, 4], |at| {
                let (i, j) = ((at[1] + 1) % 3, (at[1] + 2) % 3);
                let (a, b) = (|n| x[0].at(&[at[0], n, at[2]]), |n| x[1].at(&[n, 0]));
                a(i) * b(j) - a(j) * b(i)
            })
        },
    );
    both(
        suite,
        "kron",
        vec![random(&[2, 3], -1.0, 1.0, 14), random(&[4], -1.0, 1.0, 15)],
        |x| x[0].kron(&x[1]),
        |x| Array::from_fn(&[2, 12], |at| x[0].at(&[at[0], at[1] / 4]) * x[1].data[at[1] % 4]),
    );
    for p in [1.0, 2.0, 3.0, f64::INFINITY] {
        both(
            suite,
            &format!("cdist by {p}"),
            vec![apart(&[2, 3, 4]), apart(&[5, 4]).map(|x| 0.7 * x + 0.01)],
            move |x| x[0].cdist(&x[1], p),
            move |x| {
                Array::from_fn(&[2, 3, 5], |at| {
                    let far =
                        (0..4).map(|k| (x[0].at(&[at[0], at[1], k]) - x[1].at(&[at[2], k])).abs());
                    match p {
                        f64::INFINITY => far.fold(0.0, f64::max),
                        _ => far.map(|x| x.powf(p)).sum::<f64>().powf(1.0 / p),
                    }
                })
            },
        );
    }
}
