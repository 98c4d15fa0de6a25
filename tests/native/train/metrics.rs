//! Tests metrics against scikit-learn's formulas in 64 bits, over batches of several sizes.

use super::{everywhere, noise};
use crate::suite::Place;
use pollster::block_on;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::Tensor;
use warpweft::train::metrics::*;

const CLASSES: usize = 5;
const ROWS: usize = 97;
const SIZES: [usize; 4] = [40, 1, 33, 23];

/// Returns class scores, some of which are equal, and targets. Class 4 is never the target, and class 3 is rarely predicted.
fn examples() -> (Vec<f32>, Vec<i32>) {
    let mut scores = noise(ROWS * CLASSES, 5);
    for (n, score) in scores.iter_mut().enumerate() {
        *score = (*score * 4.0).round() / 4.0 - if n % CLASSES == 3 { 0.5 } else { 0.0 };
    }
    let targets = noise(ROWS, 6).iter().map(|x| ((x + 1.0) * 2.0) as i32).collect();
    (scores, targets)
}

/// Returns the first of the largest scores of each row.
fn taken(scores: &[f32]) -> Vec<usize> {
    let first =
        |row: &[f32]| (0..CLASSES).fold(0, |best, c| if row[c] > row[best] { c } else { best });
    scores.chunks(CLASSES).map(first).collect()
}

/// Returns a metric over all batches.
fn over(metric: &mut dyn Metric, device: &Device, batches: &[(Tensor, Tensor)]) -> Result<f64> {
    // A reset clears earlier updates.
    let (x, y) = &batches[1];
    metric.update(x, y)?;
    metric.reset();
    for (x, y) in batches {
        metric.update(x, y)?;
        device.submit()?;
    }
    Ok(f64::from(block_on(metric.value()?.item::<f32>())?))
}

fn near(what: &str, got: f64, want: f64) {
    assert!((got - want).abs() <= 2e-6 * (1.0 + want.abs()), "{what}: {got}, not {want}");
}

#[test]
fn metrics_of_classes_are_scikit_learns() {
    let (scores, targets) = examples();
    let predicted = taken(&scores);
    // [true, predicted].
    let mut confusion = [[0.0f64; CLASSES]; CLASSES];
    for (&t, &p) in targets.iter().zip(&predicted) {
        confusion[t as usize][p] += 1.0;
    }
    let right: f64 = (0..CLASSES).map(|c| confusion[c][c]).sum();
    let ratio = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    let column = |c: usize| confusion.iter().map(|row| row[c]).sum::<f64>();
    let row = |c: usize| confusion[c].iter().sum::<f64>();
    let mean = |of: &dyn Fn(usize) -> f64| (0..CLASSES).map(of).sum::<f64>() / CLASSES as f64;
    let precision = |c: usize| ratio(confusion[c][c], column(c));
    let recall = |c: usize| ratio(confusion[c][c], row(c));
    let f1 = |c: usize| ratio(2.0 * precision(c) * recall(c), precision(c) + recall(c));
    let micro = right / ROWS as f64;
    // The argsort of each row is stable, and is read from its end.
    let top = |k: usize| {
        let among = |n: usize| {
            let row = &scores[n * CLASSES..][..CLASSES];
            let mut order: Vec<usize> = (0..CLASSES).collect();
            order.sort_by(|&a, &b| row[a].partial_cmp(&row[b]).expect("numbers"));
            order.iter().rev().take(k).any(|&c| c == targets[n] as usize)
        };
        (0..ROWS).filter(|&n| among(n)).count() as f64 / ROWS as f64
    };
    everywhere("metrics of classes", |device| {
        let mut batches = Vec::new();
        let mut at = 0;
        for size in SIZES {
            let x = &scores[at * CLASSES..(at + size) * CLASSES];
            let x = device.tensor(x, &[size, CLASSES])?;
            batches.push((x, device.tensor(&targets[at..at + size], &[size])?));
            at += size;
        }
        assert_eq!(at, ROWS);
        // The same predictions as classes, with another dtype.
        let classes: Result<Vec<(Tensor, Tensor)>> =
            batches.iter().map(|(x, y)| Ok((x.argmax(1)?, y.cast(DType::U8)?))).collect();
        for batches in [&batches, &classes?] {
            let of = |mut metric: Box<dyn Metric>, want: f64| {
                let got = over(&mut *metric, device, batches)?;
                near(&metric.name(), got, want);
                Ok(())
            };
            of(Box::new(Accuracy::new()), micro)?;
            of(Box::new(Precision::new(CLASSES, Average::Macro)), mean(&precision))?;
            of(Box::new(Recall::new(CLASSES, Average::Macro)), mean(&recall))?;
            of(Box::new(F1::new(CLASSES, Average::Macro)), mean(&f1))?;
            of(Box::new(Precision::new(CLASSES, Average::Micro)), micro)?;
            of(Box::new(Recall::new(CLASSES, Average::Micro)), micro)?;
            of(Box::new(F1::new(CLASSES, Average::Micro)), micro)?;
            let mut counts = ConfusionMatrix::new(CLASSES);
            for (x, y) in batches {
                counts.update(x, y)?;
            }
            let got = block_on(counts.matrix()?.read::<i32>())?;
            assert!(got.iter().map(|&n| f64::from(n)).eq(confusion.iter().flatten().copied()));
        }
        for k in 1..=CLASSES {
            near("top k", over(&mut TopKAccuracy::new(k), device, &batches)?, top(k));
        }
        Ok(())
    });
    // The averages differ for these examples, and some scores are equal.
    assert!((mean(&precision) - micro).abs() > 0.01 && row(4) == 0.0);
    assert_ne!(top(1), micro);
}

#[test]
fn metrics_of_numbers_are_scikit_learns() {
    const COLUMNS: usize = 3;
    let apart = noise(ROWS * COLUMNS, 8);
    // Far from 0, where sums of squares would lose all digits. The second column is constant.
    let target: Vec<f32> = noise(ROWS * COLUMNS, 7)
        .iter()
        .enumerate()
        .map(|(n, x)| if n % COLUMNS == 1 { 3.0 } else { 1000.0 + x * 2.0 })
        .collect();
    let prediction: Vec<f32> = target.iter().zip(&apart).map(|(y, d)| y + d * 0.5).collect();
    let wide = |x: &[f32]| x.iter().map(|&x| f64::from(x)).collect::<Vec<f64>>();
    let (p, t) = (wide(&prediction), wide(&target));
    let all = (ROWS * COLUMNS) as f64;
    let mae = p.iter().zip(&t).map(|(p, t)| (p - t).abs()).sum::<f64>() / all;
    let mse = p.iter().zip(&t).map(|(p, t)| (p - t) * (p - t)).sum::<f64>() / all;
    let r2 = |c: usize| {
        let column = |x: &[f64]| x.iter().skip(c).step_by(COLUMNS).copied().collect::<Vec<_>>();
        let (p, t) = (column(&p), column(&t));
        let mean = t.iter().sum::<f64>() / t.len() as f64;
        let around: f64 = t.iter().map(|t| (t - mean) * (t - mean)).sum();
        let apart: f64 = p.iter().zip(&t).map(|(p, t)| (p - t) * (p - t)).sum();
        if around == 0.0 {
            f64::from(u8::from(apart == 0.0))
        } else {
            1.0 - apart / around
        }
    };
    let r2 = (0..COLUMNS).map(r2).sum::<f64>() / COLUMNS as f64;
    everywhere("metrics of numbers", |device| {
        let mut batches = Vec::new();
        let mut at = 0;
        for size in SIZES {
            let part = |x: &[f32]| {
                device.tensor(&x[at * COLUMNS..(at + size) * COLUMNS], &[size, COLUMNS])
            };
            batches.push((part(&prediction)?, part(&target)?));
            at += size;
        }
        near("mae", over(&mut MeanAbsoluteError::new(), device, &batches)?, mae);
        near("mse", over(&mut MeanSquaredError::new(), device, &batches)?, mse);
        near("r2", over(&mut R2::new(), device, &batches)?, r2);
        let exact: Vec<_> = batches.iter().map(|(_, y)| (y.clone(), y.clone())).collect();
        near("r2 of what is met", over(&mut R2::new(), device, &exact)?, 1.0);
        let one = [batches[1].clone(), batches[1].clone()];
        let mut single = R2::new();
        single.update(&one[0].0, &one[0].1)?;
        assert!(block_on(single.value()?.item::<f32>())?.is_nan());
        Ok(())
    });
}

#[test]
fn what_is_no_prediction_is_refused_or_wrong() {
    let device = Place::Cpu.open().expect("the CPU is there");
    let scores = device.tensor(&[0.5f32, f32::NAN, 0.1, 0.2], &[2, 2]).expect("scores");
    let target = device.tensor(&[1i32, 7], &[2]).expect("classes");
    // NaN is the largest, but is not in the top k. 7 is not a class.
    let value = |metric: &mut dyn Metric| {
        metric.update(&scores, &target).expect("taken");
        block_on(metric.value().expect("a value").item::<f32>()).expect("read")
    };
    assert_eq!(value(&mut TopKAccuracy::new(1)), 0.0);
    assert_eq!(value(&mut TopKAccuracy::new(2)), 0.0);
    let mut confusion = ConfusionMatrix::new(2);
    confusion.update(&scores, &target).expect("taken");
    let odd = device.tensor(&[2i32, -1], &[2]).expect("classes");
    confusion.update(&odd, &device.tensor(&[0i32, 1], &[2]).expect("classes")).expect("taken");
    let read = block_on(confusion.matrix().expect("counts").read::<i32>()).expect("read");
    assert_eq!(read, [0, 0, 0, 1]);

    let kind = |done: Result<()>| done.expect_err("refused").kind();
    let flat = scores.reshape(&[4]).expect("a line");
    assert_eq!(kind(Accuracy::new().update(&flat, &target)), ErrorKind::Shape);
    assert_eq!(kind(Accuracy::new().update(&scores, &scores)), ErrorKind::DType);
    assert_eq!(kind(TopKAccuracy::new(1).update(&target, &target)), ErrorKind::Shape);
    assert_eq!(kind(ConfusionMatrix::new(3).update(&scores, &target)), ErrorKind::Shape);
    assert_eq!(kind(MeanSquaredError::new().update(&scores, &flat)), ErrorKind::Shape);
    assert_eq!(kind(R2::new().update(&target, &target)), ErrorKind::DType);
    let error = Precision::new(3, Average::Macro).update(&scores, &target).expect_err("refused");
    assert!(
        error.message().starts_with("precision: scores must have 3 classes, got shape [2, 2]"),
        "{error}"
    );
    for metric in [&Accuracy::new() as &dyn Metric, &R2::new(), &F1::new(2, Average::Micro)] {
        let error = metric.value().expect_err("nothing yet");
        assert!(error.message().ends_with(": there must be a batch, got none"), "{error}");
    }
}
