//! Clusters, nearest neighbors and streaming statistics.

use super::plain::{zip, Matrix};
use super::{program, up, Program, Reads};
use crate::shared::array::{integers, random};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::Axes;

pub fn programs() -> Vec<Program> {
    vec![
        program("k-means", 8, 1e-4, means, means_wanted),
        program("EM with its likelihood read", 8, 1e-3, mixture, mixture_wanted),
        program("nearest neighbours", 5, 1e-4, neighbours, neighbours_wanted),
        program("streaming statistics", 10_000, 1e-3, streaming, streaming_wanted),
        program("histogram of batches", 16, 0.0, histogram, histogram_wanted),
    ]
}

const POINTS: usize = 60;
const GROUPS: usize = 4;

/// Returns points around four centers.
fn points() -> Matrix {
    let noise = Matrix::new(POINTS, 2, &random(&[POINTS, 2], -1.0, 1.0, 201).data);
    let middle = |i: usize, j: usize| [[0.0, 0.0], [3.0, 0.5], [0.5, 3.0], [3.5, 3.5]][i % 4][j];
    Matrix::from_fn(POINTS, 2, |i, j| f64::from((middle(i, j) + noise.at(i, j)) as f32))
}

async fn means(device: Device, steps: usize) -> Result<Vec<f64>> {
    let x = up(&device, &points().data, &[POINTS, 2])?;
    let mut middles = x.slice(0, ..GROUPS as isize)?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let off = (x.unsqueeze(1)? - middles.unsqueeze(0)?).square().sum(-1)?;
        if step % 4 == 3 {
            reads.take(&off.min(1)?.mean(())?);
        }
        let of = off.argmin(1)?.one_hot(GROUPS)?;
        let count = of.sum(Axes::from(0))?.unsqueeze(1)?;
        middles = of.transpose(0, 1)?.matmul(&x)? / count;
    }
    reads.take(&middles);
    reads.all().await
}

fn means_wanted(steps: usize) -> Vec<f64> {
    let x = points();
    let mut middles = Matrix::new(GROUPS, 2, &x.data[..2 * GROUPS]);
    let mut read = Vec::new();
    for step in 0..steps {
        let (mut sums, mut counts, mut off) = ([[0.0; 2]; GROUPS], [0.0; GROUPS], 0.0);
        for i in 0..POINTS {
            let far = |g: usize| {
                (x.at(i, 0) - middles.at(g, 0)).powi(2) + (x.at(i, 1) - middles.at(g, 1)).powi(2)
            };
            let near = (0..GROUPS).fold(0, |best, g| if far(g) < far(best) { g } else { best });
            off += far(near) / POINTS as f64;
            counts[near] += 1.0;
            sums[near][0] += x.at(i, 0);
            sums[near][1] += x.at(i, 1);
        }
        if step % 4 == 3 {
            read.push(off);
        }
        middles = Matrix::from_fn(GROUPS, 2, |g, j| sums[g][j] / counts[g]);
    }
    [read, middles.data].concat()
}

const SAMPLES: usize = 40;

/// Returns samples around -1 and around 2.
fn samples() -> Vec<f64> {
    let noise = random(&[SAMPLES], -1.0, 1.0, 202).data;
    let at = |n: usize| if n.is_multiple_of(3) { -1.0 } else { 2.0 };
    (0..SAMPLES).map(|n| f64::from((noise[n] + at(n)) as f32)).collect()
}

/// Fits a mixture of two normal distributions, and reads the likelihood at each step.
async fn mixture(device: Device, steps: usize) -> Result<Vec<f64>> {
    let x = up(&device, &samples(), &[SAMPLES, 1])?;
    let (mut mean, mut var) = (up(&device, &[-0.5, 0.5], &[2])?, device.ones(&[2])?);
    let mut share = device.full(&[2], 0.5, DType::F32)?;
    let mut reads = Reads::default();
    for _ in 0..steps {
        let off = (&x - &mean).square() / &var;
        let log = share.log() - (off + var.log() + std::f64::consts::TAU.ln()) * 0.5;
        let all = log.logsumexp(Axes::from(1).keepdim(true))?;
        reads.take(&all.mean(())?);
        let of = (log - all).exp();
        let count = of.sum(0)?;
        mean = (&of * &x).sum(0)? / &count;
        var = (&of * (&x - &mean).square()).sum(0)? / &count + 1e-3;
        share = count / SAMPLES;
    }
    reads.take(&mean);
    reads.take(&var);
    reads.take(&share);
    reads.all().await
}

fn mixture_wanted(steps: usize) -> Vec<f64> {
    let x = samples();
    let (mut mean, mut var, mut share) = ([-0.5, 0.5], [1.0f64; 2], [0.5; 2]);
    let mut read = Vec::new();
    for _ in 0..steps {
        let density = |x: f64, g: usize| {
            let scale = (std::f64::consts::TAU * var[g]).sqrt();
            share[g] * (-0.5 * (x - mean[g]).powi(2) / var[g]).exp() / scale
        };
        let all: Vec<f64> = x.iter().map(|&x| density(x, 0) + density(x, 1)).collect();
        read.push(all.iter().map(|p| p.ln()).sum::<f64>() / SAMPLES as f64);
        let of: [Vec<f64>; 2] = [0, 1].map(|g| zip(&x, &all, |x, all| density(x, g) / all));
        for g in 0..2 {
            let count: f64 = of[g].iter().sum();
            mean[g] = zip(&of[g], &x, |w, x| w * x).iter().sum::<f64>() / count;
            let off = zip(&of[g], &x, |w, x| w * (x - mean[g]).powi(2));
            var[g] = off.iter().sum::<f64>() / count + 1e-3;
            share[g] = count / SAMPLES as f64;
        }
    }
    [read, mean.to_vec(), var.to_vec(), share.to_vec()].concat()
}

const NEAR: usize = 5;
const ASKED: usize = 6;

fn known() -> (Matrix, Vec<f64>) {
    let x = Matrix::new(POINTS, 3, &random(&[POINTS, 3], -1.0, 1.0, 203).data);
    (x, integers(&[POINTS], 0, 2, 204).data)
}

fn asked(step: usize) -> Matrix {
    Matrix::new(ASKED, 3, &random(&[ASKED, 3], -1.0, 1.0, 210 + step as u32).data)
}

/// Classifies a few points at each step: the distances of the nearest neighbors, and the most frequent class among them.
async fn neighbours(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (x, class) = known();
    let (x, class) = (up(&device, &x.data, &[POINTS, 3])?, up(&device, &class, &[POINTS])?);
    let class = class.cast(DType::I32)?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let asked = up(&device, &asked(step).data, &[ASKED, 1, 3])?;
        let off = (asked - &x).square().sum(-1)?;
        let (far, at) = off.topk(NEAR, 1, false)?;
        let votes = class.index_select(0, &at)?.one_hot(3)?.sum(1)?;
        reads.take(&far.mean(1)?);
        reads.take(&votes.argmax(1)?);
    }
    reads.all().await
}

fn neighbours_wanted(steps: usize) -> Vec<f64> {
    let (x, class) = known();
    let mut read = Vec::new();
    for step in 0..steps {
        let asked = asked(step);
        let (mut means, mut classes) = (Vec::new(), Vec::new());
        for i in 0..ASKED {
            let far = |n: usize| (0..3).map(|j| (asked.at(i, j) - x.at(n, j)).powi(2)).sum::<f64>();
            let mut all: Vec<(f64, usize)> = (0..POINTS).map(|n| (far(n), n)).collect();
            all.sort_by(|a, b| a.0.total_cmp(&b.0));
            let mut votes = [0.0; 3];
            all[..NEAR].iter().for_each(|near| votes[class[near.1] as usize] += 1.0);
            means.push(all[..NEAR].iter().map(|near| near.0).sum::<f64>() / NEAR as f64);
            classes.push(super::plain::largest(&votes) as f64);
        }
        read.extend(means);
        read.extend(classes);
    }
    read
}

const FIELDS: usize = 4;

fn row(step: usize) -> Vec<f64> {
    random(&[FIELDS], -1.0, 3.0, 10_000 + step as u32).data
}

/// Computes mean and variance by Welford's method, and reads them at every hundredth round.
async fn streaming(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (mut mean, mut squares) = (device.zeros(&[FIELDS])?, device.zeros(&[FIELDS])?);
    let mut reads = Reads::default();
    for step in 0..steps {
        let x = up(&device, &row(step), &[FIELDS])?;
        let off = &x - &mean;
        mean = &mean + &off / (step as f64 + 1.0);
        squares = &squares + off * (&x - &mean);
        if step % 50 == 49 {
            reads.take(&mean);
            reads.take(&(&squares / (step as f64 + 1.0)));
        }
    }
    reads.all().await
}

fn streaming_wanted(steps: usize) -> Vec<f64> {
    let (mut sums, mut squares, mut read) = ([0.0; FIELDS], [0.0; FIELDS], Vec::new());
    for step in 0..steps {
        for (n, x) in row(step).into_iter().enumerate() {
            sums[n] += x;
            squares[n] += x * x;
        }
        if step % 50 == 49 {
            let count = step as f64 + 1.0;
            read.extend(sums.map(|sum| sum / count));
            read.extend((0..FIELDS).map(|n| squares[n] / count - (sums[n] / count).powi(2)));
        }
    }
    read
}

const BINS: usize = 8;

fn counted(step: usize) -> Vec<f64> {
    integers(&[SAMPLES], 0, BINS as i32 - 1, 220 + step as u32).data
}

/// Adds up a histogram batch by batch, and reads the largest bin at each fourth.
async fn histogram(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut counts = device.zeros(&[BINS])?;
    let ones = device.ones(&[SAMPLES])?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let of: Vec<i32> = counted(step).iter().map(|&v| v as i32).collect();
        let of = device.tensor(&of, &[SAMPLES])?;
        counts = counts.scatter_add(0, &of, &ones)?;
        if step % 4 == 3 {
            reads.take(&counts.argmax(())?);
        }
    }
    reads.take(&counts);
    reads.all().await
}

fn histogram_wanted(steps: usize) -> Vec<f64> {
    let (mut counts, mut read) = (vec![0.0; BINS], Vec::new());
    for step in 0..steps {
        counted(step).iter().for_each(|&v| counts[v as usize] += 1.0);
        if step % 4 == 3 {
            read.push(super::plain::largest(&counts) as f64);
        }
    }
    [read, counts].concat()
}
