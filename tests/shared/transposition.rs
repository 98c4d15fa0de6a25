//! Tests reading along another axis than writing, around the extents of tiles. These cases are part of the group `movement`.

use super::array::{bits, integers, Array};
use super::check::{exact, said, same_bits, Suite};
use warpweft::dtype::DType;
use warpweft::tensor::Tensor;

/// Extents below and above the threshold for tiles, and extents that fill tiles.
const EXTENTS: [usize; 9] = [1, 15, 16, 17, 31, 32, 33, 65, 257];

pub fn add(suite: &mut Suite) {
    for rows in EXTENTS {
        suite.add(format!("turned: {rows} rows of any length"), move |device| {
            let mut checks = Vec::new();
            for columns in EXTENTS {
                let x = bits(&[rows, columns], 90);
                let got = x.on(device, DType::U32)?.transpose(0, 1)?;
                let want = x.permute(&[1, 0]);
                checks.push(same_bits(format!("of {columns}"), got, DType::U32, want));
            }
            Ok(checks)
        });
    }
    orders(suite);
    types(suite);
    formulas(suite);
    views(suite);
}

/// Returns all orders of `rank` axes.
fn all_orders(rank: usize) -> Vec<Vec<usize>> {
    let mut all = vec![vec![]];
    for axis in 0..rank {
        let put = |order: &Vec<usize>, at: usize| {
            let mut order = order.clone();
            order.insert(at, axis);
            order
        };
        all = all.iter().flat_map(|order| (0..=axis).map(move |at| put(order, at))).collect();
    }
    all
}

fn orders(suite: &mut Suite) {
    const SHAPES: &[&[usize]] = &[
        &[17, 33, 40],
        &[64, 3, 65],
        &[32, 1, 31],
        &[2, 17, 3, 33],
        &[16, 2, 20, 4],
        &[3, 5, 16, 32],
    ];
    for &shape in SHAPES {
        suite.add(format!("turned: {shape:?} in any order"), move |device| {
            let x = bits(shape, 91);
            let a = x.on(device, DType::I32)?;
            let mut checks = Vec::new();
            for order in all_orders(shape.len()) {
                let axes: Vec<isize> = order.iter().map(|&axis| axis as isize).collect();
                let (got, want) = (a.permute(&axes)?, x.permute(&order));
                checks.push(same_bits(format!("{order:?}"), got, DType::I32, want));
            }
            Ok(checks)
        });
    }
}

fn types(suite: &mut Suite) {
    for dtype in [DType::F32, DType::F16, DType::I32, DType::U32, DType::Bool] {
        let case = suite.add(format!("turned: {dtype}"), move |device| {
            let mut checks = Vec::new();
            for shape in [[32, 64], [45, 34]] {
                let highest = if dtype == DType::Bool { 1 } else { 9 };
                let (x, y) = (integers(&shape, 0, highest, 92), integers(&shape, 0, highest, 93));
                let (a, b) = (x.on(device, dtype)?, y.on(device, dtype)?);
                let turned = a.transpose(0, 1)?;
                let same = turned.eq(&b.transpose(0, 1)?)?;
                let want = x.zip(&y, |x, y| f64::from(u8::from(x == y))).permute(&[1, 0]);
                checks.push(exact("alone", turned, dtype, x.permute(&[1, 0])));
                checks.push(exact("compared", same, DType::Bool, want));
            }
            Ok(checks)
        });
        if dtype == DType::F16 {
            case.half();
        }
    }
}

fn formulas(suite: &mut Suite) {
    for [m, n] in [[32, 32], [64, 48], [33, 70], [16, 257]] {
        suite.add(format!("turned: {m} x {n} in formulas"), move |device| {
            let (x, y) = (integers(&[m, n], -9, 9, 94), integers(&[m, n], -9, 9, 95));
            let (z, bias) = (integers(&[n, m], -9, 9, 96), integers(&[m], -9, 9, 97));
            let (a, b, c) = (x.f32(device)?, y.f32(device)?, z.f32(device)?);
            let (ta, tb) = (a.transpose(0, 1)?, b.transpose(0, 1)?);
            let (tx, ty) = (x.permute(&[1, 0]), y.permute(&[1, 0]));
            let check = |what, got, want| exact(what, got, DType::F32, want);
            let before = a.mul(2.0)?.add(1.0)?.transpose(0, 1)?.neg();
            let three = ta.add(&tb)?.mul(&a.mul(&b)?.add(3.0)?.transpose(0, 1)?)?;
            let wide = bias.f32(device)?;
            let tall = integers(&[n, 1], -9, 9, 98);
            let both = ta.add(&wide)?.mul(&tall.f32(device)?)?;
            let twice = ta.add(1.0)?;
            let back = twice.transpose(0, 1)?.sub(&b)?;
            let spread = |x: &Array<f64>| x.reshape(&[1, n, m]).expand(&[3, n, m]);
            let deep = integers(&[3, n, m], -9, 9, 99);
            Ok(vec![
                check("before and after", before, tx.map(|x| -(2.0 * x + 1.0))),
                check("two", ta.sub(&tb)?, tx.zip(&ty, |x, y| x - y)),
                check("one with a straight one", ta.sub(&c)?, tx.zip(&z, |x, z| x - z)),
                check("three", three, tx.zip(&ty, |x, y| (x + y) * (x * y + 3.0))),
                check(
                    "with rows and columns that are the same everywhere",
                    both,
                    tx.zip(&bias.reshape(&[1, m]).expand(&[n, m]), |x, b| x + b)
                        .zip(&tall.expand(&[n, m]), |x, t| x * t),
                ),
                check("used twice", twice.clone(), tx.map(|x| x + 1.0)),
                check("again", twice.mul(&c)?, tx.zip(&z, |x, z| (x + 1.0) * z)),
                check("and turned back", back, x.zip(&y, |x, y| x + 1.0 - y)),
                check("spread", deep.f32(device)?.add(&ta)?, deep.zip(&spread(&tx), |d, x| d + x)),
            ])
        });
    }
}

fn views(suite: &mut Suite) {
    suite.add("turned: by two axes at once", |device| {
        let (x, y) = (integers(&[40, 33, 36], -9, 9, 100), integers(&[33, 40, 36], -9, 9, 101));
        let got = x.f32(device)?.permute(&[2, 1, 0])?.add(&y.f32(device)?.permute(&[2, 0, 1])?)?;
        let want = x.permute(&[2, 1, 0]).zip(&y.permute(&[2, 0, 1]), |x, y| x + y);
        Ok(vec![exact("sum", got, DType::F32, want)])
    });
    suite.add("turned: sliced, flipped, padded, joined, cut off", |device| {
        let x = bits(&[70, 50], 102);
        let a = x.on(device, DType::U32)?;
        let (turned, want) = (a.transpose(0, 1)?, x.permute(&[1, 0]));
        let check = |what, got, want| same_bits(what, got, DType::U32, want);
        let sliced = a.slice(0, 3..40)?.slice_step(1, 1..49, 2)?.transpose(0, 1)?;
        let triangle = Array::from_fn(&[50, 70], |at| if at[1] <= at[0] { want.at(at) } else { 0 });
        Ok(vec![
            check("sliced", sliced, x.slice(0, 3, 37, 1).slice(1, 1, 24, 2).permute(&[1, 0])),
            check("flipped", turned.flip(&[0, 1])?, want.flip(&[0, 1])),
            check("padded", turned.pad(&[(3, 0), (1, 40)], 7.0)?, want.pad(&[(3, 0), (1, 40)], 7)),
            check(
                "joined",
                Tensor::concat(&[&turned, &turned, &a.slice(0, ..50)?], 1)?,
                Array::concat(&[want.clone(), want.clone(), x.slice(0, 0, 50, 1)], 1),
            ),
            check("cut off", turned.tril(0)?, triangle),
        ])
    });
    suite.add("turned: beside gathered rows", |device| {
        let (x, y) = (integers(&[40, 64], -9, 9, 103), integers(&[20, 40], -9, 9, 104));
        let index = integers(&[64], 0, 19, 105);
        let rows = y.f32(device)?.index_select(0, &index.on(device, DType::I32)?)?;
        let got = x.f32(device)?.transpose(0, 1)?.add(&rows)?;
        let want = Array::from_fn(&[64, 40], |at| {
            x.at(&[at[1], at[0]]) + y.at(&[index.data[at[0]] as usize, at[1]])
        });
        Ok(vec![exact("sum", got, DType::F32, want)])
    });
    suite
        .steps("turned: more groups than one dimension takes", |device| async move {
            // 65,536 tiles, each filled to a quarter.
            let count = device.iota(&[65_536 * 256], 0).map_err(said)?;
            count.run().map_err(said)?;
            let x = count.reshape(&[65_536, 16, 16]).and_then(|x| x.transpose(1, 2)?.add(1));
            let got: Vec<i32> = x.map_err(said)?.read().await.map_err(said)?;
            let want = |at: usize| (at & !255) + (at & 15) * 16 + (at >> 4 & 15) + 1;
            match got.iter().enumerate().find(|&(at, &x)| x as usize != want(at)) {
                Some((at, x)) => Err(format!("at {at}: got {x}, want {}", want(at))),
                None => Ok(()),
            }
        })
        .big();
}
