//! Tests gradients of scans, sorting, gathering and scattering.

use super::super::array::{integers, random, Array};
use super::super::check::{near, Suite};
use super::super::linalg::eigenvalues;
use super::super::scan::{along, scanned, SCANS};
use super::super::scatter::{scattered, WAYS};
use super::super::sort::{sorted, taken};
use super::super::tolerance::Tolerance;
use super::{holds, twice};
use warpweft::dtype::DType;
use warpweft::tensor::{Reduction, Tensor};

/// Returns unordered numbers that differ by more than the step of a finite difference.
fn apart(shape: &[usize], seed: u32) -> Array<f64> {
    let mut n = 0.0;
    random(shape, -2.0, 2.0, seed).map(|x| {
        n += 1.0;
        (x * 100.0).round() / 100.0 + n * 1e-3
    })
}

pub fn cases(suite: &mut Suite) {
    scans(suite);
    sorts(suite);
    scatters(suite);
    eigen(suite);
}

fn eigen(suite: &mut Suite) {
    // A symmetric matrix with well separated eigenvalues. `eigh` takes the mean of a matrix and its transpose.
    let x = Array::from_fn(&[1, 5, 5], |at| {
        let (i, j) = (at[1].min(at[2]) as f64, at[1].max(at[2]) as f64);
        if i == j {
            2.0 * i
        } else {
            0.3 / (1.0 + i + j)
        }
    });
    let mean = |x: &Array<f64>| {
        Array::from_fn(&[1, 5, 5], |at| 0.5 * (x.at(at) + x.at(&[0, at[2], at[1]])))
    };
    holds(
        suite,
        "eigh's values",
        vec![x.clone()],
        |x| Ok(x[0].eigh()?.0),
        move |x| Array::new(&[1, 5], eigenvalues(&mean(&x[0]).data, 5)),
    );
    // The square of the matrix, computed from eigenvectors and eigenvalues. The signs of the vectors do not matter.
    holds(
        suite,
        "eigh's vectors",
        vec![x],
        |x| {
            let (values, vectors) = x[0].eigh()?;
            vectors.mul(&values.square().unsqueeze(1)?)?.matmul(&vectors.transpose(1, 2)?)
        },
        move |x| {
            let x = mean(&x[0]);
            Array::from_fn(&[1, 5, 5], |at| {
                (0..5).map(|k| x.at(&[0, at[1], k]) * x.at(&[0, k, at[2]])).sum()
            })
        },
    );
}

fn scans(suite: &mut Suite) {
    for (name, scan, combine, none) in SCANS {
        for (shape, axis) in [(&[7usize][..], 0usize), (&[2, 35], 1), (&[18, 3], 0)] {
            for (exclusive, reverse) in [(false, false), (true, true)] {
                // The first value of an exclusive maximum is -inf. Its gradient is 0, but the value spoils the comparison.
                if exclusive && none.is_infinite() {
                    continue;
                }
                holds(
                    suite,
                    format!("{name} {shape:?} exclusive {exclusive} reverse {reverse}"),
                    vec![apart(shape, 1)],
                    move |x| scan(&x[0], along(axis as isize, exclusive, reverse)),
                    move |x| scanned(&x[0], axis, (exclusive, reverse), (combine, none)),
                );
            }
        }
    }
    holds(
        suite,
        "cumprod with zeros",
        vec![Array::new(&[6], vec![2.0, 0.0, -3.0, 0.5, 0.0, 1.0])],
        |x| x[0].cumprod(0),
        |x| scanned(&x[0], 0, (false, false), (|a, b| a * b, 1.0)),
    );
    twice(
        suite,
        "cumsum of squares, twice",
        vec![random(&[20], -1.0, 1.0, 2)],
        |x| x[0].square().cumsum(0)?.square().sum(&[]),
        |x| {
            let mut sum = 0.0;
            let sums = x[0].data.iter().map(|x| {
                sum += x * x;
                sum * sum
            });
            sums.sum()
        },
    );
}

fn sorts(suite: &mut Suite) {
    for (shape, axis) in [(&[9usize][..], 0usize), (&[3, 20], 1), (&[20, 3], 0), (&[2, 5, 3], 1)] {
        for descending in [false, true] {
            holds(
                suite,
                format!("sort {shape:?} along {axis} descending {descending}"),
                vec![apart(shape, 3)],
                move |x| Ok(x[0].sort(axis as isize, descending)?.0),
                move |x| taken(&x[0], axis, &sorted(&x[0], axis, descending)),
            );
        }
    }
    long(suite);
    holds(
        suite,
        "top_k",
        vec![apart(&[3, 20], 4)],
        |x| Ok(x[0].topk(4, 1, true)?.0),
        |x| taken(&x[0], 1, &sorted(&x[0], 1, true).slice(1, 0, 4, 1)),
    );
    for (shape, axis, count) in [
        (&[6usize][..], 0usize, 9usize),
        (&[3, 4], 1, 6),
        (&[2, 5, 3], 1, 4),
        (&[129], 0, 400),
        (&[2, 1000], 1, 300),
        (&[130, 2], 0, 500),
    ] {
        let mut wide = shape.to_vec();
        wide[axis] = count;
        // Some indices are out of range, farther than any border.
        let index = integers(&wide, -1, shape[axis] as i32, 5);
        let index = index.map(|at| {
            if at < 0.0 {
                -2e9
            } else if at % 100.0 == 99.0 {
                at * 1e7
            } else {
                at
            }
        });
        let here = index.clone();
        holds(
            suite,
            format!("take_along {shape:?} along {axis}"),
            vec![random(shape, -1.0, 1.0, 6)],
            move |x| x[0].gather(axis as isize, &here.on(x[0].device(), DType::I32)?),
            move |x| taken(&x[0], axis, &index),
        );
    }
}

/// Tests an axis that is too long for a product with one-hot vectors of the positions, even when the position is split into
/// digits.
fn long(suite: &mut Suite) {
    const N: usize = 33_000;
    suite
        .add("sort of 33000", |device| {
            // Each number occurs once in each row, in no order. The weights show the new position of each.
            let x = Array::from_fn(&[3, N], |at| ((at[1] * 7919 + at[0]) % N) as f64);
            let weight = |n: f64, row: usize| n % 4001.0 + row as f64;
            let weights = Array::from_fn(&[3, N], |at| weight(at[1] as f64, at[0]));
            let want = Array::from_fn(&[3, N], |at| weight(x.at(at), at[0]));
            let x = x.f32(device)?;
            let sum = x.sort(1, false)?.0.mul(&weights.f32(device)?)?.sum(&[])?;
            Ok(vec![near("gradient", sum.grad(&[&x])?.remove(0), want, Tolerance::EXACT)])
        })
        .big();
}

fn scatters(suite: &mut Suite) {
    for (shape, axis, count) in [(&[6usize][..], 0usize, 9usize), (&[3, 4], 1, 6), (&[4, 3], 0, 6)]
    {
        let mut wide = shape.to_vec();
        wide[axis] = count;
        for (op, combine) in WAYS {
            let index = integers(&wide, -1, shape[axis] as i32, 7);
            let here = index.clone();
            holds(
                suite,
                format!("scatter {op:?} {shape:?} along {axis}"),
                vec![apart(shape, 8), apart(&wide, 9).map(|x| x + 0.0005)],
                move |x: &[Tensor]| {
                    let index = here.on(x[0].device(), DType::I32)?;
                    match op {
                        None => x[0].scatter(axis as isize, &index, &x[1]),
                        Some(Reduction::Sum) => x[0].scatter_add(axis as isize, &index, &x[1]),
                        Some(op) => x[0].scatter_reduce(axis as isize, &index, &x[1], op),
                    }
                },
                move |x| scattered(&x[0], axis, &index, &x[1], combine),
            );
        }
    }
    let index = Array::new(&[5], vec![2.0, 0.0, 2.0, 7.0, 1.0]);
    let here = index.clone();
    holds(
        suite,
        "index_add",
        vec![random(&[3, 4], -1.0, 1.0, 10), random(&[5, 4], -1.0, 1.0, 11)],
        move |x| x[0].index_add(0, &here.on(x[0].device(), DType::I32)?, &x[1]),
        move |x| {
            let spread = Array::from_fn(&[5, 4], |at| index.data[at[0]]);
            scattered(&x[0], 0, &spread, &x[1], |a, b| a + b)
        },
    );
    let mask = integers(&[3, 4], 0, 1, 12);
    let here = mask.clone();
    holds(
        suite,
        "masked_fill",
        vec![random(&[3, 4], -1.0, 1.0, 13)],
        move |x| x[0].masked_fill(&here.on(x[0].device(), DType::Bool)?, 3.0),
        move |x| x[0].zip(&mask, |x, m| if m == 1.0 { 3.0 } else { x }),
    );
    holds(
        suite,
        "roll",
        vec![random(&[3, 4], -1.0, 1.0, 14)],
        |x| x[0].roll(1, 1),
        |x| Array::concat(&[x[0].slice(1, 3, 1, 1), x[0].slice(1, 0, 3, 1)], 1),
    );
}
