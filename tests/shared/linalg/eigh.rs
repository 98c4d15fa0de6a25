//! Tests eigenvalues and eigenvectors: against their definition, and against known ones.

use super::super::array::{random, Array};
use super::super::check::{near, Check, Suite};
use super::super::tolerance::Tolerance;
use warpweft::device::Device;
use warpweft::error::Result;

/// Returns a batch of symmetric matrices of numbers between -1 and 1.
pub fn symmetric(batch: usize, n: usize, seed: u32) -> Array<f64> {
    let x = random(&[batch, n, n], -1.0, 1.0, seed);
    Array::from_fn(&[batch, n, n], |at| match at[1] < at[2] {
        true => x.at(&[at[0], at[1], at[2]]),
        false => x.at(&[at[0], at[2], at[1]]),
    })
}

/// Returns the eigenvalues of one symmetric matrix, in ascending order.
pub fn eigenvalues(a: &[f64], n: usize) -> Vec<f64> {
    eigenvectors(a, n).0
}

/// Returns the eigenvalues of one matrix, in ascending order, and the eigenvectors, in columns. Symmetrizes the matrix first,
/// and applies Jacobi's method in `f64` to one pair after the other.
pub fn eigenvectors(a: &[f64], n: usize) -> (Vec<f64>, Vec<f64>) {
    let at = |place: usize| (place / n, place % n);
    let mut a: Vec<f64> =
        (0..n * n).map(|place| (a[place] + a[at(place).1 * n + at(place).0]) / 2.0).collect();
    let mut v: Vec<f64> =
        (0..n * n).map(|place| f64::from(u8::from(at(place).0 == at(place).1))).collect();
    for _ in 0..30 {
        for p in 0..n {
            for q in p + 1..n {
                let across = a[p * n + q];
                if across == 0.0 {
                    continue;
                }
                let angle = 0.5 * (2.0 * across).atan2(a[q * n + q] - a[p * n + p]);
                let (s, c) = angle.sin_cos();
                for k in 0..n {
                    let (x, y) = (a[k * n + p], a[k * n + q]);
                    (a[k * n + p], a[k * n + q]) = (c * x - s * y, s * x + c * y);
                    let (x, y) = (v[k * n + p], v[k * n + q]);
                    (v[k * n + p], v[k * n + q]) = (c * x - s * y, s * x + c * y);
                }
                for k in 0..n {
                    let (x, y) = (a[p * n + k], a[q * n + k]);
                    (a[p * n + k], a[q * n + k]) = (c * x - s * y, s * x + c * y);
                }
            }
        }
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&i, &j| a[i * n + i].total_cmp(&a[j * n + j]));
    let values = order.iter().map(|&i| a[i * n + i]).collect();
    let vectors = (0..n * n).map(|place| v[at(place).0 * n + order[at(place).1]]).collect();
    (values, vectors)
}

/// Checks the eigenvalues, `V diag(values) V^T` and `V^T V`.
fn checks(device: &Device, x: &Array<f64>, scale: f64) -> Result<Vec<Check>> {
    let (batch, n) = (x.shape[0], x.shape[1]);
    let (values, vectors) = x.f32(device)?.eigh()?;
    let mut want = Vec::new();
    for matrix in x.data.chunks(n * n) {
        want.extend(eigenvalues(matrix, n));
    }
    let turned = vectors.transpose(1, 2)?;
    let again = vectors.mul(&values.unsqueeze(1)?)?.matmul(&turned)?;
    let identity = Array::from_fn(&[batch, n, n], |at| f64::from(u8::from(at[1] == at[2])));
    let product = turned.matmul(&vectors)?;
    // In one batch, so that the vectors are computed once.
    let mut batch_of_all = device.batch();
    batch_of_all.add(&values)?.add(&again)?.add(&product)?;
    batch_of_all.run()?;
    let by = |size: f64| Tolerance { absolute: size * 1e-5, relative: 0.0 };
    Ok(vec![
        near("values", values, Array::new(&[batch, n], want), by(scale)),
        near("the matrix again", again, x.clone(), by(scale)),
        near("orthonormal", product, identity, by(1.0)),
    ])
}

pub fn cases(suite: &mut Suite) {
    for (batch, n) in
        [(1, 1), (1, 2), (3, 3), (2, 4), (2, 7), (1, 10), (2, 31), (1, 32), (1, 33), (1, 65)]
    {
        let case = suite.add(format!("eigh of {batch} of {n} by {n}"), move |device| {
            checks(device, &symmetric(batch, n, 1), (n as f64).sqrt())
        });
        case.big = n > 10;
    }
    known(suite);
}

fn known(suite: &mut Suite) {
    suite.add("eigh of known matrices", |device| {
        let mut all = Vec::new();
        // The matrix of second differences has the eigenvalues 2 - 2 cos(k pi / (n + 1)).
        let n = 12;
        let difference = Array::from_fn(&[1, n, n], |at| match at[1].abs_diff(at[2]) {
            0 => 2.0,
            1 => -1.0,
            _ => 0.0,
        });
        let angle = |k: usize| (k + 1) as f64 * std::f64::consts::PI / (n + 1) as f64;
        let want = Array::from_fn(&[1, n], |at| 2.0 - 2.0 * angle(at[1]).cos());
        let by = Tolerance { absolute: 4e-6, relative: 0.0 };
        all.push(near("second difference", difference.f32(device)?.eigh()?.0, want, by));
        all.extend(checks(device, &difference, 4.0)?);
        // Ones everywhere: one eigenvalue is n, and all others are 0.
        let ones = Array::new(&[1, 6, 6], vec![1.0; 36]);
        all.extend(checks(device, &ones, 6.0)?);
        let diagonal =
            Array::from_fn(&[1, 5, 5], |at| if at[1] == at[2] { 3.0 - at[1] as f64 } else { 0.0 });
        all.extend(checks(device, &diagonal, 3.0)?);
        all.extend(checks(device, &Array::new(&[1, 4, 4], vec![0.0; 16]), 1.0)?);
        let large = symmetric(1, 6, 3).map(|x| f64::from((x * 1e15) as f32));
        all.extend(checks(device, &large, 3e15)?);
        Ok(all)
    });
    suite.add("eigh of nothing", |device| {
        let (values, vectors) = device.zeros(&[3, 0, 0])?.eigh()?;
        Ok(vec![
            near("values", values, Array::new(&[3, 0], vec![]), Tolerance::EXACT),
            near("vectors", vectors, Array::new(&[3, 0, 0], vec![]), Tolerance::EXACT),
        ])
    });
}
