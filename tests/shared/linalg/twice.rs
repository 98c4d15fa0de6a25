//! Tests first and second derivatives of singular matrices, and of eigenvalues and eigenvectors, against differences in `f64`.
//! Higher derivatives of factorizations are errors.

use super::super::array::{random, Array};
use super::super::check::{near, Check, Suite};
use super::super::tolerance::Tolerance;
use super::eigh::{eigenvectors, symmetric};
use warpweft::device::Device;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::tensor::{MatrixNorm, Tensor};

pub fn cases(suite: &mut Suite) {
    limits(suite);
    for (n, rank) in [(4, 4), (4, 3), (4, 2), (4, 1), (4, 0), (5, 4), (5, 3), (7, 6), (7, 5)] {
        suite.add(format!("derivatives of det of {n} rows and rank {rank}"), move |device| {
            let (left, right) = (whole(n, rank, 1), whole(rank, n, 2));
            derivatives(device, &product(&left, &right), &determinant, &Tensor::det)
        });
    }
    suite.add("derivatives of det of rows of other sizes", |device| {
        let sizes = [1.0, 1024.0, 1.0 / 1024.0, 16.0, 1.0 / 16.0];
        let x = random(&[5, 5], -1.0, 1.0, 3);
        let x = Array::from_fn(&[5, 5], |at| f64::from(x.at(at) as f32) * sizes[at[0]]);
        derivatives(device, &x, &determinant, &Tensor::det)
    });
    suite.add("derivatives of det of nearly singular matrices", |device| {
        let mut x = product(&whole(4, 3, 1), &whole(3, 4, 2));
        x.data[5] += 1.0 / 4096.0;
        derivatives(device, &x, &determinant, &Tensor::det)
    });
    for n in [2, 3, 6] {
        suite.add(format!("derivatives of eigenvalues of {n} rows"), move |device| {
            let weight = move |i: usize| (1.0 + i as f64).recip();
            let weights = Array::from_fn(&[n], |at| weight(at[0])).f32(device)?;
            let f =
                |a: &[f64]| eigenvectors(a, n).0.iter().zip(0..).map(|(x, i)| x * weight(i)).sum();
            derivatives(device, &matrix(n), &f, &|a| a.eigh()?.0.mul(&weights)?.sum(()))
        });
        suite.add(format!("derivatives of eigenvectors of {n} rows"), move |device| {
            let weights = random(&[n, n], -1.0, 1.0, 5).map(|x| f64::from(x as f32));
            let given = weights.f32(device)?;
            // Squares, so that signs do not matter.
            let f = |a: &[f64]| {
                eigenvectors(a, n).1.iter().zip(&weights.data).map(|(x, w)| x * x * w).sum()
            };
            derivatives(device, &matrix(n), &f, &|a| a.eigh()?.1.square().mul(&given)?.sum(()))
        });
    }
    for order in [MatrixNorm::Nuclear, MatrixNorm::Two, MatrixNorm::NegTwo] {
        suite.add(format!("derivatives of the norm {order:?}"), move |device| {
            let x = random(&[4, 3], -1.0, 1.0, 6).map(|x| f64::from(x as f32));
            let f = |a: &[f64]| {
                let roots = singular_values(a, 4, 3);
                match order {
                    MatrixNorm::Nuclear => roots.iter().sum(),
                    MatrixNorm::Two => roots[2],
                    _ => roots[0],
                }
            };
            derivatives(device, &x, &f, &|a| a.matrix_norm(order))
        });
    }
}

/// A routine of one matrix whose derivatives are limited: its name in the error, the highest order, and a scalar result.
type Limited = (&'static str, usize, fn(&Tensor) -> Result<Tensor>);

const LIMITED: [Limited; 9] = [
    ("inv", 3, |a| a.inv()?.sum(())),
    ("solve", 2, |a| a.solve(a)?.sum(())),
    ("solve_triangular", 2, |a| a.solve_triangular(&a.detach(), false)?.sum(())),
    ("det", 2, Tensor::det),
    ("slogdet", 2, |a| Ok(a.slogdet()?.1)),
    ("cholesky", 2, |a| a.cholesky()?.sum(())),
    ("qr", 2, |a| a.qr()?.1.sum(())),
    ("lstsq", 2, |a| a.lstsq(&a.detach())?.sum(())),
    ("eigh", 2, |a| a.eigh()?.1.square().sum(())),
];

/// Tests that derivatives beyond the highest order are errors, and that all others are not.
fn limits(suite: &mut Suite) {
    for (name, most, build) in LIMITED {
        suite.fallible(
            format!("derivatives of {name} beyond order {most}"),
            move |device| async move {
                let a = matrix(4).map(|x| x.abs()).f32(&device)?.add(device.eye(4)?.mul(4.0)?)?;
                let mut value = build(&a)?;
                for _ in 0..most {
                    value = value.grad(&[&a])?[0].square().sum(())?;
                }
                let want = format!(
                    "derivatives of {name} must be of order {most} or less, got {}",
                    most + 1
                );
                match value.grad(&[&a]) {
                    Err(error)
                        if error.kind() == ErrorKind::Unsupported
                            && error.to_string().contains(&want) =>
                    {
                        Ok(())
                    }
                    Err(error) => Err(error),
                    Ok(_) => Err(Error::state(format!(
                        "the derivative of order {} must be refused",
                        most + 1
                    ))),
                }
            },
        );
    }
    suite.add("derivatives of solve by the right side", |device| {
        // The cube of `c b`, where c is [1/2, 1/4], has the third derivative 6 c[i] c[j] c[k].
        let a = device.tensor(&[2.0f32, 0.0, 0.0, 4.0], &[2, 2])?;
        let b = device.tensor(&[1.0f32, 3.0], &[2])?;
        let solution = a.solve(&b)?.sum(())?;
        let mut value = solution.mul(&solution)?.mul(&solution)?;
        for _ in 0..2 {
            value = value.grad(&[&b])?[0].sum(())?;
        }
        let third = value.grad(&[&b])?.remove(0);
        let want = Array::new(&[2], vec![1.6875, 0.84375]);
        // Twice by the right side and twice by the matrix. The sum C of the inverse is 3/4. `2 C^2` is left after
        // the first two, and becomes `2 C^2 / (1 + t C)^2` if t is added to all elements of the matrix.
        let square = solution.mul(&solution)?;
        let twice = square.grad(&[&b])?[0].sum(())?.grad(&[&b])?[0].sum(())?;
        let mixed = twice.grad(&[&a])?[0].sum(())?.grad(&[&a])?[0].sum(())?;
        let by = Tolerance { absolute: 1e-4, relative: 1e-5 };
        Ok(vec![
            near("third by b", third, want, by),
            near(
                "twice by a, twice by b",
                mixed,
                Array::new(&[], vec![12.0 * 0.75f64.powi(4)]),
                by,
            ),
        ])
    });
}

/// Returns a symmetric matrix with well separated eigenvalues.
fn matrix(n: usize) -> Array<f64> {
    let x = symmetric(1, n, 4);
    let more = |at: &[usize]| if at[0] == at[1] { at[0] as f64 } else { 0.0 };
    Array::from_fn(&[n, n], |at| f64::from((x.at(&[0, at[0], at[1]]) + more(at)) as f32))
}

/// Returns whole numbers from -3 to 3.
fn whole(rows: usize, columns: usize, seed: u32) -> Array<f64> {
    random(&[rows, columns], -3.5, 3.5, seed).map(f64::round)
}

fn product(a: &Array<f64>, b: &Array<f64>) -> Array<f64> {
    Array::from_fn(&[a.shape[0], b.shape[1]], |at| {
        (0..b.shape[0]).map(|k| a.at(&[at[0], k]) * b.at(&[k, at[1]])).sum()
    })
}

/// Computes the determinant by expansion along the first row.
fn determinant(a: &[f64]) -> f64 {
    let n = a.len().isqrt();
    let minor = |column: usize| -> Vec<f64> {
        (n..n * n).filter(|at| at % n != column).map(|at| a[at]).collect()
    };
    let sign = |column: usize| 1.0 - 2.0 * (column % 2) as f64;
    match n {
        0 => 1.0,
        _ => (0..n).filter(|&k| a[k] != 0.0).map(|k| sign(k) * a[k] * determinant(&minor(k))).sum(),
    }
}

/// Returns the singular values in ascending order: the roots of the eigenvalues of `A^T A`.
fn singular_values(a: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let across: Vec<f64> = (0..columns * columns)
        .map(|at| {
            let (i, j) = (at / columns, at % columns);
            (0..rows).map(|row| a[row * columns + i] * a[row * columns + j]).sum()
        })
        .collect();
    eigenvectors(&across, columns).0.iter().map(|x| x.sqrt()).collect()
}

/// Returns the value, the gradient, and the gradient of the gradient along a direction, for a function of one matrix.
fn derivatives(
    device: &Device,
    x: &Array<f64>,
    f: &dyn Fn(&[f64]) -> f64,
    build: &dyn Fn(&Tensor) -> Result<Tensor>,
) -> Result<Vec<Check>> {
    let step = 1e-4;
    let moved = |by: &[(&Array<f64>, f64)]| {
        let mut data = x.data.clone();
        for (direction, size) in by {
            data.iter_mut().zip(&direction.data).for_each(|(x, d)| *x += size * d);
        }
        f(&data)
    };
    let unit = |place: usize| {
        let mut one = Array::new(&x.shape, vec![0.0; x.data.len()]);
        one.data[place] = 1.0;
        one
    };
    let along = random(&x.shape, -1.0, 1.0, 7).map(|x| f64::from(x as f32));
    let places = || (0..x.data.len()).map(unit);
    let slope = |one: Array<f64>| (moved(&[(&one, step)]) - moved(&[(&one, -step)])) / (2.0 * step);
    let bend = |one: Array<f64>| {
        let at = |a: f64, b: f64| moved(&[(&one, a * step), (&along, b * step)]);
        (at(1.0, 1.0) - at(1.0, -1.0) - at(-1.0, 1.0) + at(-1.0, -1.0)) / (4.0 * step * step)
    };
    let first = Array::new(&x.shape, places().map(slope).collect());
    let second = Array::new(&x.shape, places().map(bend).collect());
    let given = x.f32(device)?;
    let value = build(&given)?;
    let gradient = value.grad(&[&given])?.remove(0);
    let twice = gradient.mul(along.f32(device)?)?.sum(())?.grad(&[&given])?.remove(0);
    let by = |want: &Array<f64>, times: f64| {
        let size = want.data.iter().fold(1.0f64, |most, x| most.max(x.abs()));
        Tolerance { absolute: times * 1e-5 * size, relative: 0.0 }
    };
    let want = Array::new(&[], vec![f(&x.data)]);
    let most = x.data.iter().fold(1.0f64, |most, x| most.max(x.abs()));
    let rounding = Tolerance { absolute: 1e-6 * most.powi(x.shape[0] as i32), relative: 1e-5 };
    // Rounding the elements changes a gradient in proportion to the second derivative.
    let bends = second.data.iter().fold(0.0f64, |most, x| most.max(x.abs()));
    let slopes = by(&first, 2.0);
    let slopes = Tolerance { absolute: slopes.absolute + 2e-7 * most * bends, ..slopes };
    Ok(vec![
        near("value", value, want, rounding),
        near("gradient", gradient, first, slopes),
        near("twice", twice, second.clone(), by(&second, 8.0)),
    ])
}
