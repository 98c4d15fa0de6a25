//! Tests matrices of more sizes against the definitions: products of the factors, and of inverses with the matrix.

use super::super::array::{random, Array};
use super::super::check::{judged, near, Suite};
use super::super::tolerance::Tolerance;
use super::eigenvalues;
use warpweft::dtype::DType;

/// Returns matrices with a small condition number: numbers from -1 to 1, and larger ones on a diagonal.
fn regular(batch: usize, n: usize, seed: u32) -> Array<f64> {
    let x = random(&[batch, n, n], -1.0, 1.0, seed);
    let more = (n as f64).sqrt() + 1.0;
    Array::from_fn(&[batch, n, n], |at| {
        let turned = if at[1] % 3 == 1 { -more } else { more };
        // On the second diagonal, so that rows must be exchanged.
        x.at(at) + if (at[1] + 1) % n == at[2] { turned } else { 0.0 }
    })
}

fn product(a: &Array<f64>, b: &Array<f64>) -> Array<f64> {
    let (rows, inner, columns) = (a.shape[1], a.shape[2], b.shape[2]);
    Array::from_fn(&[a.shape[0], rows, columns], |at| {
        (0..inner).map(|k| a.at(&[at[0], at[1], k]) * b.at(&[at[0], k, at[2]])).sum()
    })
}

fn identity(batch: usize, n: usize) -> Array<f64> {
    Array::from_fn(&[batch, n, n], |at| f64::from(u8::from(at[1] == at[2])))
}

fn near_by(size: f64) -> Tolerance {
    Tolerance { absolute: 1e-5 * size, relative: 0.0 }
}

/// Runs elimination in `f64`, one row after the other. Returns the sign of the determinant and the logarithm of its magnitude.
fn determinant(a: &[f64], n: usize) -> (f64, f64) {
    let mut a = a.to_vec();
    let (mut sign, mut log) = (1.0, 0.0);
    for k in 0..n {
        let size = |row: &usize| a[row * n + k].abs();
        let best = (k..n).max_by(|p, q| size(p).total_cmp(&size(q))).expect("a row");
        if best != k {
            sign = -sign;
            (0..n).for_each(|j| a.swap(k * n + j, best * n + j));
        }
        let pivot = a[k * n + k];
        sign *= pivot.signum();
        log += pivot.abs().ln();
        for row in k + 1..n {
            let factor = a[row * n + k] / pivot;
            for j in k..n {
                a[row * n + j] -= factor * a[k * n + j];
            }
        }
    }
    (sign, log)
}

const SIZES: [(usize, usize); 9] =
    [(1, 1), (3, 2), (2, 3), (1, 4), (2, 7), (2, 31), (1, 32), (1, 33), (1, 65)];

pub fn cases(suite: &mut Suite) {
    for (batch, n) in SIZES {
        let case = suite.add(
            format!("inv, solve and determinants of {batch} of {n} by {n}"),
            move |device| {
                let x = regular(batch, n, 1);
                let a = x.f32(device)?;
                let b = random(&[batch, n, 3], -1.0, 1.0, 2);
                let solved = a.solve(&b.f32(device)?)?;
                let (sign, log) = a.slogdet()?;
                let found: Vec<(f64, f64)> =
                    x.data.chunks(n * n).map(|a| determinant(a, n)).collect();
                let one = |f: &dyn Fn(&(f64, f64)) -> f64| {
                    Array::new(&[batch], found.iter().map(f).collect())
                };
                let by = Tolerance { absolute: 1e-5 * n as f64, relative: 0.0 };
                let mut checks = vec![
                    near("inv", a.matmul(&a.inv()?)?, identity(batch, n), near_by(n as f64)),
                    near("solve", a.matmul(&solved)?, b, near_by(n as f64)),
                    near("sign", sign, one(&|f| f.0), Tolerance::EXACT),
                    near("log", log, one(&|f| f.1), by),
                ];
                if n < 20 {
                    let by = Tolerance { absolute: 1e-6, relative: 2e-5 };
                    checks.push(near("det", a.det()?, one(&|f| f.0 * f.1.exp()), by));
                }
                Ok(checks)
            },
        );
        case.big = n > 10;
    }
    for (batch, n) in SIZES {
        let case = suite.add(format!("cholesky of {batch} of {n} by {n}"), move |device| {
            let x = random(&[batch, n, n], -1.0, 1.0, 3);
            let mut positive = product(&x, &x.permute(&[0, 2, 1]));
            (0..positive.data.len())
                .filter(|at| at % (n * n) % (n + 1) == 0)
                .for_each(|at| positive.data[at] += 1.0);
            let positive = positive.map(|x| f64::from(x as f32));
            let factor = positive.f32(device)?.cholesky()?;
            let above = factor.sub(factor.tril(0)?)?;
            Ok(vec![
                near(
                    "again",
                    factor.matmul(&factor.transpose(1, 2)?)?,
                    positive,
                    near_by(n as f64),
                ),
                near(
                    "above",
                    above,
                    Array::new(&[batch, n, n], vec![0.0; batch * n * n]),
                    Tolerance::EXACT,
                ),
            ])
        });
        case.big = n > 10;
    }
    for (rows, columns) in
        [(1, 1), (2, 2), (3, 2), (2, 3), (33, 7), (7, 33), (31, 31), (32, 32), (65, 33), (65, 65)]
    {
        let case = suite.add(format!("qr and lstsq of {rows} by {columns}"), move |device| {
            let (x, count) = (random(&[2, rows, columns], -1.0, 1.0, 4), rows.min(columns));
            let a = x.f32(device)?;
            let (q, r) = a.qr()?;
            let below = r.sub(r.triu(0)?)?;
            let dims = [2, count, columns];
            let mut checks = vec![
                near("again", q.matmul(&r)?, x.clone(), near_by(2.0)),
                near(
                    "orthonormal",
                    q.transpose(1, 2)?.matmul(&q)?,
                    identity(2, count),
                    near_by(1.0),
                ),
                near(
                    "below",
                    below,
                    Array::new(&dims, vec![0.0; dims.iter().product()]),
                    Tolerance::EXACT,
                ),
            ];
            if rows != columns {
                // The residual is orthogonal to all columns, or is 0.
                let b = random(&[2, rows, 2], -1.0, 1.0, 5);
                let found = a.lstsq(&b.f32(device)?)?;
                let rest = b.f32(device)?.sub(a.matmul(&found)?)?;
                let rest = if rows > columns { a.transpose(1, 2)?.matmul(&rest)? } else { rest };
                let zeros = Array::new(rest.shape(), vec![0.0; rest.numel()]);
                checks.push(near("what is left", rest, zeros, near_by(rows as f64)));
            }
            Ok(checks)
        });
        case.big = rows.max(columns) > 10;
    }
    special(suite);
    extremes(suite);
}

/// Tests special cases: singular, empty, `f16`, large numbers.
fn special(suite: &mut Suite) {
    suite.add("singular matrices", |device| {
        let flat = Array::new(&[2, 2, 2], vec![1.0, 2.0, 2.0, 4.0, 2.0, 0.0, 0.0, 1.0]);
        let a = flat.f32(device)?;
        let four = Array::new(&[4, 4], vec![1.0; 16]).f32(device)?;
        let one = |value: f64| Array::new(&[], vec![value]);
        let (sign, log) = four.slogdet()?;
        let gradient = four.det()?.grad(&[&four])?.remove(0);
        let nan = [f64::NAN; 4];
        let inverse = [&nan[..], &[0.5, 0.0, 0.0, 1.0]].concat();
        let solved = [&nan[..2], &[0.5, 2.0]].concat();
        let b = Array::new(&[2], vec![1.0, 2.0]).f32(device)?;
        let exact = Tolerance::EXACT;
        let bad = Array::new(&[2, 2], vec![1.0, 2.0, 2.0, 1.0]).f32(device)?;
        let dependent = Array::new(&[3, 2], vec![1.0, 2.0, 2.0, 4.0, 3.0, 6.0]);
        let given = dependent.f32(device)?;
        let (q, r) = given.qr()?;
        let none = q.sum(())?.add(r.sum(())?)?.grad(&[&given])?.remove(0);
        Ok(vec![
            near("inv", a.inv()?, Array::new(&[2, 2, 2], inverse), exact),
            near("solve", a.solve(&b)?, Array::new(&[2, 2], solved), exact),
            near("det", a.det()?, Array::new(&[2], vec![0.0, 2.0]), exact),
            near("det of four rows", four.det()?, one(0.0), exact),
            near("its gradient", gradient, Array::new(&[4, 4], vec![0.0; 16]), near_by(0.1)),
            near("sign", sign, one(0.0), exact),
            near("log", log, one(f64::NEG_INFINITY), exact),
            near(
                "not positive",
                bad.cholesky()?,
                Array::new(&[2, 2], vec![f64::NAN, 0.0, f64::NAN, f64::NAN]),
                exact,
            ),
            near("no derivatives", none, Array::new(&[3, 2], vec![0.0; 6]), exact),
            near("dependent columns", q.matmul(&r)?, dependent, near_by(6.0)),
            near(
                "orthonormal",
                q.transpose(0, 1)?.matmul(&q)?,
                identity(1, 2).reshape(&[2, 2]),
                near_by(1.0),
            ),
        ])
    });
    // Only the shorter side is limited.
    suite.add("a matrix of many rows", |device| {
        let long = random(&[1, 1100, 2], -1.0, 1.0, 9);
        let (q, r) = long.f32(device)?.qr()?;
        // The error is proportional to the length of the columns, which is 19.
        Ok(vec![near("again", q.matmul(&r)?, long, near_by(19.0))])
    });
    suite.add("matrices of nothing", |device| {
        let none = device.zeros(&[3, 0, 0])?;
        let of =
            |shape: &[usize], value: f64| Array::new(shape, vec![value; shape.iter().product()]);
        let (q, r) = device.zeros(&[2, 4, 0])?.qr()?;
        let solved = none.solve(&device.zeros(&[3, 0, 2])?)?;
        let exact = Tolerance::EXACT;
        Ok(vec![
            near("inv", none.inv()?, of(&[3, 0, 0], 0.0), exact),
            near("det", none.det()?, of(&[3], 1.0), exact),
            near("logabsdet", none.slogdet()?.1, of(&[3], 0.0), exact),
            near("cholesky", none.cholesky()?, of(&[3, 0, 0], 0.0), exact),
            near("solve", solved, of(&[3, 0, 2], 0.0), exact),
            near("q", q, of(&[2, 4, 0], 0.0), exact),
            near("r", r, of(&[2, 0, 0], 0.0), exact),
        ])
    });
    suite.add("matrices of large and of small numbers", |device| {
        let mut checks = Vec::new();
        for scale in [1e18, 1e-18] {
            let x = regular(1, 4, 6).map(|x| f64::from((x * scale) as f32));
            let a = x.f32(device)?;
            let (q, r) = a.qr()?;
            let by = Tolerance { absolute: 1e-4 * scale, relative: 0.0 };
            checks.push(near("inv", a.matmul(&a.inv()?)?, identity(1, 4), near_by(4.0)));
            checks.push(near("q r", q.matmul(&r)?, x, by));
        }
        Ok(checks)
    });
    suite
        .add("matrices of halves", |device| {
            let x = Array::new(&[2, 2], vec![4.0, 2.0, 2.0, 5.0]);
            let a = x.on(device, DType::F16)?;
            let (inverse, root) = (a.inv()?, a.cholesky()?);
            let as_f32 = |x: warpweft::tensor::Tensor| x.cast(DType::F32);
            let by = Tolerance { absolute: 1e-3, relative: 0.0 };
            assert_eq!((inverse.dtype(), root.dtype()), (DType::F16, DType::F16));
            Ok(vec![
                near(
                    "inv",
                    as_f32(inverse)?,
                    Array::new(&[2, 2], vec![0.3125, -0.125, -0.125, 0.25]),
                    by,
                ),
                near("cholesky", as_f32(root)?, Array::new(&[2, 2], vec![2.0, 0.0, 1.0, 2.0]), by),
                near("det", as_f32(a.det()?)?, Array::new(&[], vec![16.0]), by),
            ])
        })
        .half();
}

/// A symmetric matrix of whole numbers with distinct eigenvalues.
const WHOLE: [f64; 16] =
    [4.0, 1.0, -2.0, 1.0, 1.0, 3.0, 1.0, 2.0, -2.0, 1.0, 5.0, -1.0, 1.0, 2.0, -1.0, 2.0];

/// Tests numbers at the ends of the range of `f32`.
fn extremes(suite: &mut Suite) {
    suite.add("matrices of numbers near the largest and the smallest", |device| {
        let mut checks = Vec::new();
        let x = Array::new(&[1, 4, 4], WHOLE.to_vec());
        let (sign, log) = determinant(&WHOLE, 4);
        let values = Array::new(&[1, 4], eigenvalues(&WHOLE, 4));
        // GPUs flush results below 2^-126 to 0, which is an error of 2^-10 here.
        for (power, error) in [(124, 1e-5), (-116, 5e-3)] {
            let scale = 2f64.powi(power);
            let a = x.map(|x| x * scale).f32(device)?;
            let by = Tolerance { absolute: error * 10.0 * scale, relative: 0.0 };
            let (q, r) = a.qr()?;
            let found = a.slogdet()?;
            let whole = log + 4.0 * scale.ln();
            let one = |value: f64| Array::new(&[1], vec![value]);
            let turned = q.transpose(1, 2)?.matmul(&q)?;
            checks.push(near("values", a.eigh()?.0, values.map(|x| x * scale), by));
            checks.push(near("q r", q.matmul(&r)?, x.map(|x| x * scale), by));
            checks.push(near("orthonormal", turned, identity(1, 4), near_by(4.0)));
            checks.push(near("sign", found.0, one(sign), Tolerance::EXACT));
            checks.push(near("log", found.1, one(whole), near_by(100.0)));
            // The sum of the eigenvalues is the trace.
            let gradient = a.eigh()?.0.sum(())?.grad(&[&a])?.remove(0);
            let close = Tolerance { absolute: error * 10.0, relative: 0.0 };
            checks.push(near("gradient", gradient, identity(1, 4), close));
        }
        Ok(checks)
    });
    suite.add("the determinant of rows of very different sizes", |device| {
        let a = Array::new(&[2, 2], vec![2f64.powi(126), 0.0, 0.0, 2f64.powi(-125)]).f32(device)?;
        let (sign, log) = a.slogdet()?;
        let one = |value: f64| Array::new(&[], vec![value]);
        Ok(vec![
            near("sign", sign, one(1.0), Tolerance::EXACT),
            near("log", log, one(std::f64::consts::LN_2), near_by(10.0)),
        ])
    });
    suite.add("matrices of subnormal numbers", |device| {
        let scale = 2f64.powi(-134);
        let a = Array::new(&[1, 4, 4], WHOLE.iter().map(|x| x * scale).collect()).f32(device)?;
        let (sign, log) = determinant(&WHOLE, 4);
        let values = eigenvalues(&WHOLE, 4).iter().map(|x| x * scale).collect();
        let (q, r) = a.qr()?;
        let found = a.slogdet()?;
        let one = |value: f64| Array::new(&[1], vec![value]);
        let describe = |at: usize| format!("element {at}");
        // GPUs may flush the elements to 0. The results are then those of a matrix of zeros.
        let small = |what: &str, got, want: Array<f64>, error: f64, flushed: f64| {
            let close = want.clone();
            let accepts =
                move |at: usize, x: f64| x == flushed || (x - close.data[at]).abs() <= error;
            judged(what, got, DType::F32, want, accepts, describe)
        };
        let whole = Array::new(&[1, 4, 4], WHOLE.iter().map(|x| x * scale).collect());
        let product = q.matmul(&r)?;
        let turned = q.transpose(1, 2)?.matmul(&q)?;
        Ok(vec![
            small("values", a.eigh()?.0, Array::new(&[1, 4], values), 1e-3 * scale, 0.0),
            small("q r", product, whole, 1e-3 * scale, 0.0),
            near("orthonormal", turned, identity(1, 4), near_by(4.0)),
            small("sign", found.0, one(sign), 0.0, 0.0),
            small("log", found.1, one(log + 4.0 * scale.ln()), 1e-3, f64::NEG_INFINITY),
            small("det", a.det()?, one(0.0), 0.0, 0.0),
        ])
    });
}
