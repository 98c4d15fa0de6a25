//! Tests softmax and the normalizations.

use super::array::{random, Array};
use super::check::{near, Suite};
use super::tolerance::Tolerance;
use warpweft::tensor::{NormOptions, RmsNormOptions};

/// Applies `f` to each row along `axes`. `f` returns as many values as it takes.
pub fn rows(x: &Array<f64>, axes: &[usize], f: impl Fn(&[f64]) -> Vec<f64>) -> Array<f64> {
    let rank = x.shape.len();
    let kept: Vec<usize> = (0..rank).filter(|a| !axes.contains(a)).collect();
    let order = [&kept[..], axes].concat();
    let turned = x.permute(&order);
    let length: usize = axes.iter().map(|&a| x.shape[a]).product();
    let data = turned.data.chunks(length.max(1)).flat_map(f).collect();
    let mut back = vec![0; rank];
    order.iter().enumerate().for_each(|(to, &from)| back[from] = to);
    Array::new(&turned.shape, data).permute(&back)
}

pub fn log_softmax(x: &[f64]) -> Vec<f64> {
    let max = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total = x.iter().map(|x| (x - max).exp()).sum::<f64>().ln();
    x.iter().map(|x| x - max - total).collect()
}

pub fn softmax(x: &[f64]) -> Vec<f64> {
    log_softmax(x).into_iter().map(f64::exp).collect()
}

pub fn layer_norm(x: &[f64]) -> Vec<f64> {
    let count = x.len() as f64;
    let mean = x.iter().sum::<f64>() / count;
    let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    x.iter().map(|x| (x - mean) / (variance + 1e-5).sqrt()).collect()
}

pub fn rms_norm(x: &[f64]) -> Vec<f64> {
    let mean = x.iter().map(|x| x * x).sum::<f64>() / x.len() as f64;
    x.iter().map(|x| x / (mean + 1e-6).sqrt()).collect()
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("norm");
    softmaxes(&mut suite);
    extremes(&mut suite);
    norms(&mut suite);
    by_channel(&mut suite);
    blocks(&mut suite);
    suite
}

fn softmaxes(suite: &mut Suite) {
    const SHAPES: &[(&[usize], &[isize])] = &[
        (&[1], &[0]),
        (&[33], &[0]),
        (&[3, 4, 5], &[0, 1, 2, -1]),
        (&[7, 65], &[0, 1]),
        (&[5, 257], &[0, 1]),
        (&[2, 3, 2, 3], &[0, 1, 2, 3]),
        (&[300, 7], &[0, 1]),
        (&[2, 1000], &[1]),
        (&[1, 4097], &[1]),
        (&[0, 4], &[1]),
        (&[4, 0], &[0]),
    ];
    for &(shape, axes) in SHAPES {
        suite.add(format!("softmax and log_softmax of {shape:?}"), move |device| {
            let x = random(shape, -8.0, 8.0, 1);
            let a = x.f32(device)?;
            let mut checks = Vec::new();
            for &axis in axes {
                let at = axis.rem_euclid(shape.len() as isize) as usize;
                let by = Tolerance { absolute: 4e-6, ..Tolerance::F32 };
                let name = |what| format!("{what} along {axis}");
                let want = rows(&x, &[at], softmax);
                checks.push(near(name("softmax"), a.softmax(axis)?, want, Tolerance::F32));
                let want = rows(&x, &[at], log_softmax);
                checks.push(near(name("log_softmax"), a.log_softmax(axis)?, want, by));
            }
            Ok(checks)
        });
    }
    suite.add("a row of 100,000", |device| {
        let x = random(&[1, 100_000], -8.0, 8.0, 2);
        let a = x.f32(device)?;
        let by = Tolerance { absolute: 4e-6, ..Tolerance::F32 };
        Ok(vec![
            near("softmax", a.softmax(1)?, rows(&x, &[1], softmax), Tolerance::F32),
            near("log_softmax", a.log_softmax(1)?, rows(&x, &[1], log_softmax), by),
        ])
    });
    suite.add("of a transpose and of a sum", |device| {
        let (x, y) = (random(&[9, 12], -4.0, 4.0, 3), random(&[12], -4.0, 4.0, 4));
        let a = x.f32(device)?;
        let turned = rows(&x.permute(&[1, 0]), &[1], softmax);
        let shifted = rows(&x.zip(&y, |x, y| 2.0 * x + y), &[1], softmax);
        let sum = a.mul(2.0)?.add(&y.f32(device)?)?;
        Ok(vec![
            near("of the transpose", a.transpose(0, 1)?.softmax(1)?, turned, Tolerance::F32),
            near("of 2 x + y", sum.softmax(-1)?, shifted, Tolerance::F32),
        ])
    });
}

fn extremes(suite: &mut Suite) {
    suite.add("softmax of extremes", |device| {
        let inf = f64::INFINITY;
        let data = [
            [1e4, 0.0, -1e4],
            [1e30, 1e30, -1e30],
            [-inf, 0.0, 0.0],
            [-inf, -inf, 3.0],
            [5.0, 5.0, 5.0],
            [-1e30, -1e30, -1e30],
            [1e-30, 0.0, -1e-30],
            [88.0, 89.0, -104.0],
        ];
        let x = Array::new(&[8, 3], data.concat()).rounded(warpweft::dtype::DType::F32);
        let a = x.f32(device)?;
        Ok(vec![
            near("softmax", a.softmax(-1)?, rows(&x, &[1], softmax), Tolerance::F32),
            near("log_softmax", a.log_softmax(-1)?, rows(&x, &[1], log_softmax), Tolerance::F32),
        ])
    });
}

fn norms(suite: &mut Suite) {
    const SHAPES: &[(&[usize], &[usize])] = &[
        (&[33], &[0]),
        (&[5, 65], &[1]),
        (&[65, 5], &[0]),
        (&[3, 4, 5], &[1, 2]),
        (&[3, 4, 5], &[0, 2]),
        (&[2, 9, 256], &[2]),
        (&[2, 3, 4, 4], &[2, 3]),
        (&[2, 5000], &[1]),
        (&[4, 1], &[1]),
    ];
    for &(shape, axes) in SHAPES {
        suite.add(format!("layer_norm and rms_norm of {shape:?} over {axes:?}"), move |device| {
            let x = random(shape, -3.0, 5.0, 5);
            let a = x.f32(device)?;
            let over: Vec<isize> = axes.iter().map(|&a| a as isize).collect();
            let last = &shape[shape.len() - 1..];
            let (w, b) = (random(last, 0.5, 2.0, 6), random(last, -1.0, 1.0, 7));
            let (weight, bias) = (w.f32(device)?, b.f32(device)?);
            let by = Tolerance { absolute: 1e-5, ..Tolerance::F32 };
            let normal = rows(&x, axes, layer_norm);
            let root = rows(&x, axes, rms_norm);
            let scaled = normal.zip(&w, |x, w| x * w);
            let whole = scaled.zip(&b, |x, b| x + b);
            let plain = a.layer_norm(&over, NormOptions::default())?;
            let full = a.layer_norm(
                &over,
                NormOptions { weight: Some(&weight), bias: Some(&bias), ..Default::default() },
            )?;
            Ok(vec![
                near("layer_norm", plain, normal, by),
                near("layer_norm, weight and bias", full, whole, by),
                near(
                    "rms_norm",
                    a.rms_norm(&over, RmsNormOptions { eps: 1e-6, ..Default::default() })?,
                    root.clone(),
                    by,
                ),
                near(
                    "rms_norm, weight",
                    a.rms_norm(&over, RmsNormOptions { weight: Some(&weight), eps: 1e-6 })?,
                    root.zip(&w, |x, w| x * w),
                    by,
                ),
            ])
        });
    }
    suite.add("layer_norm of equal elements", |device| {
        let a = device.full(&[2, 8], 3.0, warpweft::dtype::DType::F32)?;
        let want = Array::new(&[2, 8], vec![0.0; 16]);
        Ok(vec![near(
            "layer_norm",
            a.layer_norm(&[1], NormOptions::default())?,
            want,
            Tolerance::EXACT,
        )])
    });
}

fn by_channel(suite: &mut Suite) {
    const SHAPES: &[(&[usize], usize)] = &[
        (&[2, 6, 5, 7], 3),
        (&[3, 4], 2),
        (&[1, 33, 9], 11),
        (&[2, 2, 1, 3, 65], 1),
        (&[0, 4, 3], 2),
    ];
    for &(shape, groups) in SHAPES {
        suite.add(format!("batch, group and instance norm of {shape:?}"), move |device| {
            let x = random(shape, -3.0, 5.0, 11);
            let channels = shape[1];
            let one = |low, high, seed| random(&[channels], low, high, seed);
            let (mean, variance) = (one(-1.0, 1.0, 12), one(0.5, 2.0, 13));
            let (w, b) = (one(0.5, 2.0, 14), one(-1.0, 1.0, 15));
            let column = |a: &Array<f64>| {
                let mut dims = vec![1; shape.len() - 1];
                dims[0] = channels;
                a.reshape(&dims)
            };
            let affine =
                |x: &Array<f64>| x.zip(&column(&w), |x, w| x * w).zip(&column(&b), |x, b| x + b);
            let centred = x.zip(&column(&mean), |x, m| x - m);
            let batch = centred.zip(&column(&variance), |x, v| x / (v + 1e-5).sqrt());
            let grouped = |groups: usize| {
                let each = x.data.len() / (shape[0] * groups).max(1);
                rows(&x.reshape(&[shape[0], groups, each]), &[2], layer_norm).reshape(shape)
            };
            let a = x.f32(device)?;
            let (m, v, weight, bias) =
                (mean.f32(device)?, variance.f32(device)?, w.f32(device)?, b.f32(device)?);
            let (weight, bias) = (Some(&weight), Some(&bias));
            let by = Tolerance { absolute: 1e-5, ..Tolerance::F32 };
            Ok(vec![
                near("batch", a.batch_norm(&m, &v, NormOptions::default())?, batch.clone(), by),
                near(
                    "batch, affine",
                    a.batch_norm(&m, &v, NormOptions { weight, bias, ..Default::default() })?,
                    affine(&batch),
                    by,
                ),
                near("group", a.group_norm(groups, NormOptions::default())?, grouped(groups), by),
                near(
                    "group, affine",
                    a.group_norm(groups, NormOptions { weight, bias, ..Default::default() })?,
                    affine(&grouped(groups)),
                    by,
                ),
                near(
                    "instance",
                    a.instance_norm(NormOptions { weight, bias, ..Default::default() })?,
                    affine(&grouped(channels)),
                    by,
                ),
            ])
        });
    }
}

fn blocks(suite: &mut Suite) {
    suite.add("a norm of a residual, both read", |device| {
        let (x, y) = (random(&[6, 40], -3.0, 3.0, 8), random(&[6, 40], -3.0, 3.0, 9));
        let sum = x.f32(device)?.add(&y.f32(device)?)?;
        let normal = sum.layer_norm(&[-1], NormOptions::default())?;
        let want = x.zip(&y, |x, y| x + y);
        let by = Tolerance { absolute: 1e-5, ..Tolerance::F32 };
        Ok(vec![
            near("norm", normal, rows(&want, &[1], layer_norm), by),
            near("sum", sum, want, Tolerance::ROUNDED),
        ])
    });
    suite.steps("a norm and its input in one batch", |device| async move {
        let (x, y) = (random(&[6, 40], -3.0, 3.0, 8), random(&[6, 40], -3.0, 3.0, 9));
        let said = super::check::said;
        let sum = x.f32(&device).and_then(|x| x.add(&y.f32(&device)?)).map_err(said)?;
        let normal = sum.layer_norm(&[-1], NormOptions::default()).map_err(said)?;
        let mut batch = device.batch();
        batch.add(&normal).and_then(|b| b.add(&sum)).map_err(said)?;
        batch.run().map_err(said)?;
        let want = x.zip(&y, |x, y| x + y);
        let by = Tolerance { absolute: 1e-5, ..Tolerance::F32 };
        near("norm", normal, rows(&want, &[1], layer_norm), by).run().await?;
        near("sum", sum, want, Tolerance::ROUNDED).run().await
    });
}
