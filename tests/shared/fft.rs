//! Tests Fourier transforms, compared with sums in `f64`.

use super::array::{random, Array};
use super::check::{near, Suite};
use super::grad::holds;
use super::tolerance::Tolerance;
use std::f64::consts::TAU;
use warpweft::dtype::DType;
use warpweft::tensor::{FftNorm, FftOptions};

/// Computes the transforms of the rows of `[rows, n, 2]` by the definition.
fn dft(x: &Array<f64>, sign: f64) -> Array<f64> {
    let (rows, n) = (x.shape[0], x.shape[1]);
    let roots: Vec<(f64, f64)> =
        (0..n).map(|k| (sign * TAU * k as f64 / n as f64).sin_cos()).collect();
    let mut data = Vec::with_capacity(2 * rows * n);
    for row in x.data.chunks(2 * n) {
        for k in 0..n {
            let (mut re, mut im) = (0.0, 0.0);
            for (j, pair) in row.chunks(2).enumerate() {
                let (sin, cos) = roots[j * k % n];
                re += pair[0] * cos - pair[1] * sin;
                im += pair[0] * sin + pair[1] * cos;
            }
            data.extend([re, im]);
        }
    }
    Array::new(&[rows, n, 2], data)
}

/// Converts real numbers to complex numbers.
fn complex(x: &Array<f64>) -> Array<f64> {
    let shape = [&x.shape[..], &[2]].concat();
    Array::new(&shape, x.data.iter().flat_map(|&x| [x, 0.0]).collect())
}

/// The tolerance of results that are sums of `n` numbers up to 1.
fn by(n: usize, scale: f64) -> Tolerance {
    Tolerance { absolute: scale * 1e-6 * (n as f64).sqrt(), relative: 1e-6 }
}

const BACK: FftNorm = FftNorm::Backward;

pub fn cases() -> Suite {
    let mut suite = Suite::new("fft");
    let lengths = (1..=17).chain([31, 32, 60, 64, 65, 67, 97, 100, 127, 128, 131, 134, 1000, 1024]);
    for n in lengths {
        let case = suite.add(format!("of {n} numbers"), move |device| {
            let x = random(&[3, n, 2], -1.0, 1.0, 1);
            let a = x.f32(device)?;
            let (forward, back) = (dft(&x, -1.0), dft(&x, 1.0).map(|x| x / n as f64));
            let real = x.slice(2, 0, 1, 1).squeeze(&[2]);
            let half = dft(&complex(&real), -1.0).slice(1, 0, n / 2 + 1, 1);
            let spectrum = half.map(|x| f64::from(x as f32));
            let again = spectrum.f32(device)?.irfft(FftOptions {
                n: Some(n),
                norm: BACK,
                ..Default::default()
            })?;
            Ok(vec![
                near("fft", a.fft(FftOptions::default())?, forward, by(n, 1.0)),
                near("ifft", a.ifft(FftOptions::default())?, back, by(n, 1.0 / n as f64)),
                near("rfft", real.f32(device)?.rfft(FftOptions::default())?, half, by(n, 1.0)),
                near("irfft", again, real, by(n, 0.5)),
            ])
        });
        case.big = n > 200;
    }
    axes(&mut suite);
    gradients(&mut suite);
    suite
}

fn axes(suite: &mut Suite) {
    suite.add("along other axes, cut and filled", |device| {
        let x = random(&[3, 6, 4, 2], -1.0, 1.0, 2);
        let a = x.f32(device)?;
        let along = |x: &Array<f64>, sign: f64| {
            // Moves axis 1 to the end and back.
            let (n, rows) = (x.shape[1], x.shape[0] * x.shape[2]);
            let lines = x.permute(&[0, 2, 1, 3]).reshape(&[rows, n, 2]);
            let done = dft(&lines, sign).reshape(&[x.shape[0], x.shape[2], n, 2]);
            done.permute(&[0, 2, 1, 3])
        };
        let filled = x.pad(&[(0, 0), (0, 3), (0, 0), (0, 0)], 0.0);
        let root = 6f64.sqrt();
        let (ortho, forward) = (FftNorm::Ortho, FftNorm::Forward);
        let want = along(&x, -1.0);
        let of = |axis, n, norm| a.fft(FftOptions { n, axis, norm });
        let (usual, back) = (FftNorm::default(), FftOptions { axis: 1, norm: ortho, n: None });
        let unscaled = FftOptions { axis: 1, norm: forward, n: None };
        Ok(vec![
            near("axis 1", of(1, None, usual)?, want.clone(), by(6, 1.0)),
            near("axis -2", of(-2, None, usual)?, want.clone(), by(6, 1.0)),
            near("cut", of(1, Some(4), usual)?, along(&x.slice(1, 0, 4, 1), -1.0), by(4, 1.0)),
            near("filled", of(1, Some(9), usual)?, along(&filled, -1.0), by(9, 1.0)),
            near("ortho", of(1, None, ortho)?, want.map(|x| x / root), by(6, 1.0)),
            near("forward", of(1, None, forward)?, want.map(|x| x / 6.0), by(6, 1.0)),
            near("back", of(1, None, ortho)?.ifft(back)?, x.clone(), by(6, 1.0)),
            near("as it was", a.ifft(unscaled)?, along(&x, 1.0), by(6, 1.0)),
        ])
    });
    suite.add("real numbers along other axes", |device| {
        let x = random(&[5, 3], -1.0, 1.0, 3);
        let a = x.f32(device)?;
        let done = dft(&complex(&x.permute(&[1, 0])), -1.0).slice(1, 0, 3, 1);
        let half = a.rfft(FftOptions { axis: 0, ..Default::default() })?;
        Ok(vec![
            near("rfft", half.clone(), done.permute(&[1, 0, 2]), by(5, 1.0)),
            near(
                "irfft",
                half.irfft(FftOptions { n: Some(5), axis: 0, ..Default::default() })?,
                x,
                by(5, 1.0),
            ),
        ])
    });
    suite.add("of two axes", |device| {
        let x = random(&[2, 6, 5, 2], -1.0, 1.0, 4);
        let first = dft(&x.reshape(&[12, 5, 2]), -1.0).reshape(&[2, 6, 5, 2]);
        let lines = first.permute(&[0, 2, 1, 3]).reshape(&[10, 6, 2]);
        let want = dft(&lines, -1.0).reshape(&[2, 5, 6, 2]).permute(&[0, 2, 1, 3]);
        let done = x.f32(device)?.fft2(BACK)?;
        let squares = Array::from_fn(&x.shape, |at| {
            let part = |n: usize| x.at(&[at[0], at[1], at[2], n]);
            match at[3] {
                0 => part(0) * part(0) - part(1) * part(1),
                _ => 2.0 * part(0) * part(1),
            }
        });
        Ok(vec![
            near("fft2", done.clone(), want, by(30, 1.0)),
            near("ifft2", done.ifft2(BACK)?, x.clone(), by(30, 1.0)),
            near("products", x.f32(device)?.complex_mul(&x.f32(device)?)?, squares, by(1, 2.0)),
        ])
    });
    suite
        .add("halves", |device| {
            let x = random(&[1, 8, 2], -1.0, 1.0, 5);
            let done = x.on(device, DType::F16)?.fft(FftOptions::default())?;
            let by = Tolerance { absolute: 1e-2, relative: 0.0 };
            assert_eq!(done.dtype(), DType::F16);
            Ok(vec![near("fft", done.cast(DType::F32)?, dft(&x, -1.0), by)])
        })
        .half();
}

fn gradients(suite: &mut Suite) {
    for n in [1, 4, 5, 66, 131] {
        holds(
            suite,
            format!("the gradient of fft of {n}"),
            vec![random(&[1, n, 2], -1.0, 1.0, 6)],
            |x| x[0].fft(FftOptions::default()),
            |x| dft(&x[0], -1.0),
        );
        holds(
            suite,
            format!("the gradient of rfft of {n}"),
            vec![random(&[1, n], -1.0, 1.0, 7)],
            |x| x[0].rfft(FftOptions::default()),
            move |x| dft(&complex(&x[0]), -1.0).slice(1, 0, n / 2 + 1, 1),
        );
        holds(
            suite,
            format!("the gradient of irfft of {n}"),
            vec![random(&[1, n / 2 + 1, 2], -1.0, 1.0, 8)],
            move |x| x[0].irfft(FftOptions { n: Some(n), ..Default::default() }),
            move |x| {
                let whole = Array::from_fn(&[1, n, 2], |at| {
                    let (k, turned) = (at[1], n - at[1]);
                    let alone = k == 0 || 2 * k == n;
                    match at[2] {
                        0 => x[0].at(&[0, k.min(turned), 0]),
                        _ if alone => 0.0,
                        _ if k < turned => x[0].at(&[0, k, 1]),
                        _ => -x[0].at(&[0, turned, 1]),
                    }
                });
                dft(&whole, 1.0).slice(2, 0, 1, 1).squeeze(&[2]).map(|x| x / n as f64)
            },
        );
    }
}
