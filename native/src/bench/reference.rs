//! The reference of the benchmark: the cases as plain `f64` loops, at sampled elements. Results are compared with it before
//! they are timed.

use super::cases::Kind;

/// The largest difference from the reference, relative to the largest sampled value. Sums of the device are in `f32`.
pub const NEAR: f64 = 1e-3;

const SAMPLED: usize = 64;

/// Returns the reason why a result of `kind` on `data` is wrong, or `None` if it is correct.
pub fn wrong(kind: &Kind, data: &[Vec<f32>], result: &[f32]) -> Option<String> {
    let size: usize = kind.output().iter().product();
    if result.len() != size {
        return Some(format!("{} elements instead of {size}", result.len()));
    }
    let spread = (0..SAMPLED).map(|i| {
        let part = (i as f64 * 0.618_033_988_7 + 0.37) % 1.0;
        (part * size as f64) as usize
    });
    let indices: Vec<usize> = [0, size - 1].into_iter().chain(spread).collect();
    let wanted: Vec<f64> = value(kind, data, &indices);
    let largest = wanted.iter().fold(0.0, |most: f64, want| most.max(want.abs()));
    let mut pairs = indices.iter().zip(&wanted);
    // A NaN is not near any number.
    let near = |at: usize, want: f64| (f64::from(result[at]) - want).abs() <= NEAR * largest;
    let (at, want) = pairs.find(|&(&at, &want)| !near(at, want))?;
    Some(format!("element {at} is {} instead of {want}", result[*at]))
}

/// Computes the values at `indices`.
fn value(kind: &Kind, data: &[Vec<f32>], indices: &[usize]) -> Vec<f64> {
    let x = |i: usize| f64::from(data[0][i]);
    let each = |f: &dyn Fn(usize) -> f64| indices.iter().map(|&at| f(at)).collect();
    match kind {
        &Kind::Matmul { .. } => each(&|at| product(kind, data, at)),
        &Kind::Conv { .. } => each(&|at| convolved(kind, data, at)),
        &Kind::Attention { .. } => each(&|at| attended(kind, data, at)),
        &Kind::Softmax { columns, .. } => each(&|at| {
            let row = row(&data[0], at / columns, columns);
            softmax(&row)[at % columns]
        }),
        &Kind::LayerNorm { columns, .. } => each(&|at| {
            let row = row(&data[0], at / columns, columns);
            let mean = row.iter().sum::<f64>() / columns as f64;
            let square = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / columns as f64;
            let (weight, bias) = (data[1][at % columns], data[2][at % columns]);
            (row[at % columns] - mean) / (square + 1e-5).sqrt() * f64::from(weight)
                + f64::from(bias)
        }),
        &Kind::RmsNorm { columns, .. } => each(&|at| {
            let row = row(&data[0], at / columns, columns);
            let square = row.iter().map(|x| x * x).sum::<f64>() / columns as f64;
            row[at % columns] / (square + 1e-6).sqrt() * f64::from(data[1][at % columns])
        }),
        &Kind::Sum { rows, columns, axis } => each(&|at| match axis {
            Some(0) => (0..rows).map(|i| x(i * columns + at)).sum(),
            Some(_) => (0..columns).map(|j| x(at * columns + j)).sum(),
            None => data[0].iter().map(|&x| f64::from(x)).sum(),
        }),
        &Kind::Sort { columns, .. } => {
            let mut sorted = data[0].clone();
            sorted.chunks_mut(columns).for_each(|row| row.sort_by(f32::total_cmp));
            each(&|at| f64::from(sorted[at]))
        }
        &Kind::TopK { .. } => {
            let mut sorted = data[0].clone();
            sorted.sort_by(|a, b| b.total_cmp(a));
            each(&|at| f64::from(sorted[at]))
        }
        &Kind::Pointwise { .. } => each(&|at| {
            let inner = 1.0 / (1.0 + (-(x(at) * 1.1 + 0.1).max(0.0) * 0.5).exp());
            (inner - 0.25).powi(2) + 1.0
        }),
        &Kind::Copy { .. } => each(&|at| -x(at)),
        Kind::Permute { shape, order } => {
            let output = kind.output();
            each(&|at| {
                let (mut from, mut rest) = (0, at);
                for axis in (0..order.len()).rev() {
                    let stride: usize = shape[order[axis] + 1..].iter().product();
                    from += rest % output[axis] * stride;
                    rest /= output[axis];
                }
                x(from)
            })
        }
        &Kind::Adds { times, .. } => each(&|at| x(at) + times as f64 * f64::from(data[1][at])),
        Kind::Mlp { rows, widths } => {
            let all = layers(*rows, widths, data);
            each(&|at| all[at])
        }
        &Kind::Transfer { .. } => each(&|at| x(at) + 1.0),
    }
}

fn row(data: &[f32], row: usize, columns: usize) -> Vec<f64> {
    data[row * columns..(row + 1) * columns].iter().map(|&x| f64::from(x)).collect()
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let top = row.iter().fold(f64::NEG_INFINITY, |top, &x| top.max(x));
    let powers: Vec<f64> = row.iter().map(|x| (x - top).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| power / sum).collect()
}

fn product(kind: &Kind, data: &[Vec<f32>], at: usize) -> f64 {
    let &Kind::Matmul { m, k, n, turned, .. } = kind else { return f64::NAN };
    let (matrix, i, j) = (at / (m * n), at / n % m, at % n);
    let one = |l: usize| {
        let left = if turned[0] { l * m + i } else { i * k + l };
        let right = if turned[1] { j * k + l } else { l * n + j };
        f64::from(data[0][matrix * m * k + left]) * f64::from(data[1][matrix * k * n + right])
    };
    (0..k).map(one).sum()
}

fn convolved(kind: &Kind, data: &[Vec<f32>], at: usize) -> f64 {
    let &Kind::Conv { channels, size, filters, window, stride, groups } = kind else {
        return f64::NAN;
    };
    let (width, depth) = (kind.output()[3], channels / groups);
    let (filter, row, column) = (at / (width * width), at / width % width, at % width);
    let first = filter / (filters / groups) * depth;
    let one = |tap: usize| {
        let (channel, ky, kx) = (tap / (window * window), tap / window % window, tap % window);
        let (y, z) = (row * stride + ky, column * stride + kx);
        let inside = |index: usize| (window / 2..size + window / 2).contains(&index);
        if !inside(y) || !inside(z) {
            return 0.0;
        }
        let index = ((first + channel) * size + y - window / 2) * size + z - window / 2;
        let weight = data[1][filter * depth * window * window + tap];
        f64::from(data[0][index]) * f64::from(weight)
    };
    (0..depth * window * window).map(one).sum()
}

fn attended(kind: &Kind, data: &[Vec<f32>], at: usize) -> f64 {
    let &Kind::Attention { queries, keys, width, causal, .. } = kind else { return f64::NAN };
    let (query, head) = (at / width, at / width / queries);
    let seen = if causal { query % queries + 1 + keys - queries } else { keys };
    let q = row(&data[0], query, width);
    let score = |key: usize| {
        let k = row(&data[1], head * keys + key, width);
        q.iter().zip(&k).map(|(q, k)| q * k).sum::<f64>() / (width as f64).sqrt()
    };
    let weights = softmax(&(0..seen).map(score).collect::<Vec<f64>>());
    let v = |key: usize| f64::from(data[2][(head * keys + key) * width + at % width]);
    weights.iter().enumerate().map(|(key, weight)| weight * v(key)).sum()
}

fn layers(rows: usize, widths: &[usize], data: &[Vec<f32>]) -> Vec<f64> {
    let mut values: Vec<f64> = data[0].iter().map(|&x| f64::from(x)).collect();
    for layer in 1..widths.len() {
        let (inner, columns) = (widths[layer - 1], widths[layer]);
        let (weights, bias) = (&data[2 * layer - 1], &data[2 * layer]);
        let mut next = vec![0.0; rows * columns];
        for (row, next) in next.chunks_mut(columns).enumerate() {
            for k in 0..inner {
                let line = &weights[k * columns..(k + 1) * columns];
                let x = values[row * inner + k];
                next.iter_mut().zip(line).for_each(|(sum, &w)| *sum += x * f64::from(w));
            }
            for (x, &bias) in next.iter_mut().zip(bias) {
                *x += f64::from(bias);
                *x = if layer + 1 < widths.len() { x.max(0.0) } else { *x };
            }
        }
        values = next;
    }
    values
}
