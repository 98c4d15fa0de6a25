//! Tests sorting and the largest elements, compared with a stable sort in plain Rust.

use super::array::{bits, integers, place, random, Array};
use super::check::{exact, near, same_bits, Check, Suite};
use super::tolerance::Tolerance;
use std::cmp::Ordering;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;

/// Compares two numbers. NaN is last in both directions.
fn compare(a: f64, b: f64, descending: bool) -> Ordering {
    match (a.is_nan(), b.is_nan()) {
        (false, false) if descending => b.partial_cmp(&a).expect("numbers compare"),
        (false, false) => a.partial_cmp(&b).expect("numbers compare"),
        (a, b) => a.cmp(&b),
    }
}

/// Returns the sorted order of an array's elements along an axis, as positions.
pub fn sorted(x: &Array<f64>, axis: usize, descending: bool) -> Array<f64> {
    Array::from_fn(&x.shape, |at| {
        let value = |n: usize| {
            let mut from = at.to_vec();
            from[axis] = n;
            x.at(&from)
        };
        // Sorts by counting, which is not the library's method.
        let place = |n: usize| {
            let before = |m: &usize| match compare(value(*m), value(n), descending) {
                Ordering::Less => true,
                Ordering::Equal => *m < n,
                Ordering::Greater => false,
            };
            (0..x.shape[axis]).filter(before).count()
        };
        (0..x.shape[axis]).find(|&n| place(n) == at[axis]).expect("it is somewhere") as f64
    })
}

/// Returns the elements along an axis at an array of positions, with 0 outside.
pub fn taken<T: Copy + Default>(x: &Array<T>, axis: usize, index: &Array<f64>) -> Array<T> {
    Array::from_fn(&index.shape, |at| {
        let Some(position) = place(index.at(at), x.shape[axis]) else { return T::default() };
        let mut from = at.to_vec();
        from[axis] = position;
        x.at(&from)
    })
}

/// Checks values and positions in both directions.
fn both(device: &Device, x: &Array<f64>, dtype: DType, axis: usize) -> Result<Vec<Check>> {
    let a = x.on(device, dtype)?;
    let mut checks = Vec::new();
    for descending in [false, true] {
        let (values, indices) = a.sort(axis as isize, descending)?;
        let want = sorted(x, axis, descending);
        let what = if descending { "descending" } else { "ascending" };
        checks.push(exact(format!("{what} indices"), indices, DType::I32, want.clone()));
        checks.push(exact(format!("{what} values"), values, dtype, taken(x, axis, &want)));
    }
    Ok(checks)
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("sort");
    shapes(&mut suite);
    types(&mut suite);
    stubborn(&mut suite);
    long(&mut suite);
    top(&mut suite);
    few_of_many(&mut suite);
    takes(&mut suite);
    suite
}

fn shapes(suite: &mut Suite) {
    const SHAPES: &[(&[usize], usize)] = &[
        (&[1], 0),
        (&[2], 0),
        (&[3], 0),
        (&[5], 0),
        (&[31], 0),
        (&[32], 0),
        (&[33], 0),
        (&[65], 0),
        (&[257], 0),
        (&[0], 0),
        (&[2, 0, 3], 2),
        (&[4, 20], 1),
        (&[20, 4], 0),
        (&[3, 7, 2], 1),
        (&[1, 2, 1, 9, 1, 2, 1, 1], 3),
    ];
    for &(shape, axis) in SHAPES {
        suite.add(format!("{shape:?} along {axis}"), move |device| {
            // Few different numbers, so that many are equal.
            both(device, &integers(shape, -4, 4, 1), DType::F32, axis)
        });
    }
}

fn types(suite: &mut Suite) {
    for dtype in [DType::I32, DType::U32, DType::Bool] {
        suite.add(format!("{dtype}"), move |device| {
            let x = match dtype {
                DType::I32 => bits(&[2, 40], 2).map(|w| f64::from(w as i32)),
                DType::U32 => bits(&[2, 40], 2).map(f64::from),
                _ => integers(&[2, 40], 0, 1, 2),
            };
            both(device, &x, dtype, 1)
        });
    }
    let case = suite.add("f16", |device| {
        both(device, &random(&[2, 40], -2.0, 2.0, 3).rounded(DType::F16), DType::F16, 1)
    });
    case.half();
}

fn stubborn(suite: &mut Suite) {
    suite.add("NaN last, infinities, both zeros", |device| {
        let inf = f64::INFINITY;
        let x = [
            f64::NAN,
            1.0,
            inf,
            -0.0,
            f64::NAN,
            -inf,
            0.0,
            3e38,
            -3e38,
            inf,
            1e-40,
            -0.0,
            f64::NAN,
            -inf,
            -1e-40,
            2.0,
        ];
        // A GPU may flush subnormal numbers to 0. They are tested only where both orders agree.
        let x: Vec<f64> =
            x.into_iter().filter(|x: &f64| *x == 0.0 || x.abs() > 1e-30 || x.is_nan()).collect();
        let x = Array::new(&[x.len()], x).rounded(DType::F32);
        both(device, &x, DType::F32, 0)
    });
    suite.add("bits arrive unchanged", |device| {
        let words = [0x7fc0_0001u32, 0xffc1_2345, 0x3f80_0000, 0x8000_0000, 0x7f80_0000];
        let x = Array::new(&[5], words.to_vec());
        let (values, _) = x.on(device, DType::F32)?.sort(0, false)?;
        let want = [0x8000_0000u32, 0x3f80_0000, 0x7f80_0000, 0x7fc0_0001, 0xffc1_2345];
        Ok(vec![same_bits("values", values, DType::F32, Array::new(&[5], want.to_vec()))])
    });
}

fn long(suite: &mut Suite) {
    // The order of a stable sort in plain Rust.
    let order = |x: &Array<f64>, descending: bool| {
        let mut order: Vec<usize> = (0..x.data.len()).collect();
        order.sort_by(|&a, &b| compare(x.data[a], x.data[b], descending));
        Array::new(&x.shape, order.into_iter().map(|n| n as f64).collect())
    };
    suite.add("5000 along one axis", move |device| {
        let x = random(&[5000], -1.0, 1.0, 4);
        let got = x.f32(device)?.argsort(0, true)?;
        Ok(vec![exact("argsort", got, DType::I32, order(&x, true))])
    });
    let case = suite.add("2^18 + 1 along one axis", move |device| {
        let x = random(&[(1 << 18) + 1], -1.0, 1.0, 5);
        let (values, indices) = x.f32(device)?.sort(0, false)?;
        let want = order(&x, false);
        let wanted = taken(&x, 0, &want);
        Ok(vec![
            exact("indices", indices, DType::I32, want),
            exact("values", values, DType::F32, wanted),
        ])
    });
    case.big();
}

fn top(suite: &mut Suite) {
    suite.add("topk", |device| {
        let mut x = integers(&[3, 33], -20, 20, 6);
        x.data[5] = f64::NAN;
        let a = x.f32(device)?;
        let mut checks = Vec::new();
        for (k, largest) in [(0, true), (1, true), (4, true), (4, false), (33, true)] {
            let (values, indices) = a.topk(k, -1, largest)?;
            let want = sorted(&x, 1, largest).slice(1, 0, k, 1);
            let what = format!("{k} largest {largest}");
            checks.push(near(what.clone(), values, taken(&x, 1, &want), Tolerance::EXACT));
            checks.push(exact(what, indices, DType::I32, want));
        }
        // Most elements are not among the largest.
        for n in [65, 100, 257, 513] {
            let x = integers(&[1, n], -40, 40, 10);
            let (values, indices) = x.f32(device)?.topk(5, 1, true)?;
            let want = sorted(&x, 1, true).slice(1, 0, 5, 1);
            checks.push(near(format!("5 of {n}"), values, taken(&x, 1, &want), Tolerance::EXACT));
            checks.push(exact(format!("5 of {n}"), indices, DType::I32, want));
        }
        let columns = x.permute(&[1, 0]);
        let (values, _) = columns.f32(device)?.topk(2, 0, true)?;
        let want = sorted(&columns, 0, true).slice(0, 0, 2, 1);
        checks.push(near("columns", values, taken(&columns, 0, &want), Tolerance::EXACT));
        Ok(checks)
    });
    suite.add("of a computed one, used further", |device| {
        let x = integers(&[2, 20], -9, 9, 7);
        let squares = x.map(|x| x * x);
        let (values, _) = x.f32(device)?.square().sort(1, true)?;
        let want = taken(&squares, 1, &sorted(&squares, 1, true));
        let sums = want.reduce(&[1], |x| x.iter().sum()).squeeze(&[1]);
        Ok(vec![
            near("values", values.clone(), want, Tolerance::EXACT),
            near("their sum", values.sum(&[1])?, sums, Tolerance::EXACT),
        ])
    });
}

/// Returns rows of a kind: with equal elements, sorted in either direction, and with NaN and both zeros.
fn rows_of_kind(kind: &str, n: usize) -> Array<f64> {
    let mut x = match kind {
        "equal" => Array::from_fn(&[2, n], |_| 3.0),
        "few different" => integers(&[2, n], -3, 3, 11),
        _ => random(&[2, n], -1.0, 1.0, 12).rounded(DType::F32),
    };
    for row in x.data.chunks_mut(n) {
        match kind {
            "ascending" => row.sort_by(f64::total_cmp),
            "descending" => row.sort_by(|a, b| b.total_cmp(a)),
            "NaN and zeros" => {
                for (at, x) in row.iter_mut().enumerate() {
                    *x = match at % 7 {
                        0 | 3 => f64::NAN,
                        1 => -0.0,
                        2 => 0.0,
                        4 => f64::INFINITY,
                        _ => *x,
                    };
                }
            }
            _ => {}
        }
    }
    x
}

/// Returns the positions of each row's first `k` elements, by a stable sort.
fn first(x: &Array<f64>, k: usize, descending: bool) -> Array<f64> {
    let n = x.shape[1];
    let mut found = Vec::new();
    for row in x.data.chunks(n) {
        let mut order: Vec<usize> = (0..n).collect();
        order.sort_by(|&a, &b| compare(row[a], row[b], descending));
        found.extend(order[..k].iter().map(|&at| at as f64));
    }
    Array::new(&[x.shape[0], k], found)
}

/// Checks the first elements of two rows of `n`, for each `k` and direction.
fn tops(device: &Device, kind: &str, n: usize, all: &[(usize, bool)]) -> Result<Vec<Check>> {
    let x = rows_of_kind(kind, n);
    let a = x.f32(device)?;
    let mut checks = Vec::new();
    for &(k, largest) in all {
        let (values, indices) = a.topk(k, 1, largest)?;
        let want = first(&x, k, largest);
        let what = format!("{k}, largest {largest}");
        checks.push(exact(format!("{what}: values"), values, DType::F32, taken(&x, 1, &want)));
        checks.push(exact(format!("{what}: indices"), indices, DType::I32, want));
    }
    Ok(checks)
}

fn few_of_many(suite: &mut Suite) {
    for kind in ["random", "equal", "few different", "ascending", "descending", "NaN and zeros"] {
        suite.add(format!("a few of 300, {kind}"), move |device| {
            tops(device, kind, 300, &[(1, true), (7, false), (37, true), (120, false)])
        });
        let case = suite.add(format!("a few of 2000, {kind}"), move |device| {
            let mut checks = tops(device, kind, 2000, &[(1, false), (64, true), (250, true)])?;
            let x = rows_of_kind(kind, 2000);
            let (values, _) = x.f32(device)?.kthvalue(200, 1)?;
            let want = taken(&x, 1, &first(&x, 200, false)).slice(1, 199, 1, 1).squeeze(&[1]);
            checks.push(exact("the 200th", values, DType::F32, want));
            Ok(checks)
        });
        case.big();
    }
    let case = suite.add("a few of one row of 300000", |device| {
        let x = random(&[1, 300_000], -1.0, 1.0, 13).rounded(DType::F32);
        let mut checks = Vec::new();
        for (k, largest) in [(64, true), (3, false)] {
            let (values, indices) = x.f32(device)?.topk(k, 1, largest)?;
            let want = first(&x, k, largest);
            checks.push(exact(format!("{k}: values"), values, DType::F32, taken(&x, 1, &want)));
            checks.push(exact(format!("{k}: indices"), indices, DType::I32, want));
        }
        Ok(checks)
    });
    case.big();
    for dtype in [DType::I32, DType::U32] {
        suite.add(format!("a few of 500 of {dtype}"), move |device| {
            let x = match dtype {
                DType::I32 => bits(&[2, 500], 14).map(|w| f64::from(w as i32)),
                _ => bits(&[2, 500], 14).map(f64::from),
            };
            let mut checks = Vec::new();
            for largest in [false, true] {
                let (values, indices) = x.on(device, dtype)?.topk(10, 1, largest)?;
                let want = first(&x, 10, largest);
                checks.push(exact("values", values, dtype, taken(&x, 1, &want)));
                checks.push(exact("indices", indices, DType::I32, want));
            }
            Ok(checks)
        });
    }
    let case = suite.add("a few of 501 of f16", |device| {
        // With an odd number of `f16` elements, rows begin in the middle of a word.
        let x = random(&[3, 501], -2.0, 2.0, 15).rounded(DType::F16);
        let mut checks = Vec::new();
        for largest in [false, true] {
            let (values, indices) = x.on(device, DType::F16)?.topk(10, 1, largest)?;
            let want = first(&x, 10, largest);
            checks.push(exact("values", values, DType::F16, taken(&x, 1, &want)));
            checks.push(exact("indices", indices, DType::I32, want));
        }
        Ok(checks)
    });
    case.half();
}

fn takes(suite: &mut Suite) {
    const SHAPES: &[(&[usize], usize, usize)] = &[
        (&[5], 0, 3),
        (&[5], 0, 0),
        (&[3, 4], 1, 6),
        (&[3, 4], 0, 2),
        (&[2, 3, 4], 1, 5),
        (&[33, 65], 1, 31),
        (&[2, 0], 1, 3),
        (&[1, 2, 1, 3, 1, 2, 1, 1], 3, 4),
    ];
    for &(shape, axis, count) in SHAPES {
        suite.add(format!("gather {shape:?} axis {axis}, {count}"), move |device| {
            let x = bits(shape, 8);
            let mut wide = shape.to_vec();
            wide[axis] = count;
            let mut checks = Vec::new();
            for dtype in [DType::I32, DType::U32] {
                // Some indices are out of range.
                let low = if dtype == DType::I32 { -2 } else { 0 };
                let index = integers(&wide, low, shape[axis] as i32 + 1, 9);
                let got =
                    x.on(device, DType::F32)?.gather(axis as isize, &index.on(device, dtype)?)?;
                checks.push(same_bits(dtype.name(), got, DType::F32, taken(&x, axis, &index)));
            }
            Ok(checks)
        });
    }
}
