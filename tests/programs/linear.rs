//! Linear algebra by iteration and by elimination.

use super::plain::{dot, zip, Matrix};
use super::{program, up, Program, Reads};
use crate::shared::array::random;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{Axes, Tensor};

pub fn programs() -> Vec<Program> {
    vec![
        program("power iteration", 30, 1e-4, power, power_wanted),
        program("conjugate gradient", 5, 1e-4, conjugate, conjugate_wanted),
        program("deflation", 16, 1e-3, deflation, deflation_wanted),
        program("Lanczos", 5, 1e-3, lanczos, lanczos_wanted),
        program("elimination with pivots", 6, 1e-3, elimination, elimination_wanted),
        program("Sinkhorn", 15, 1e-4, sinkhorn, sinkhorn_wanted),
        program("PageRank", 20, 1e-5, page_rank, page_rank_wanted),
        program("Floyd-Warshall", 8, 1e-5, shortest, shortest_wanted),
        program("Kalman filter", 25, 1e-4, kalman, kalman_wanted),
        program("Jacobi's method", 20, 1e-4, jacobi, jacobi_wanted),
    ]
}

const N: usize = 24;

/// Returns a symmetric matrix with well separated eigenvalues: `D + small`.
fn symmetric() -> Matrix {
    let noise = Matrix::new(N, N, &random(&[N, N], -0.2, 0.2, 11).data);
    Matrix::from_fn(N, N, |i, j| {
        let diagonal = if i == j { 8.0 * 0.7f64.powi(i as i32) } else { 0.0 };
        f64::from((diagonal + noise.at(i, j) + noise.at(j, i)) as f32)
    })
}

fn start() -> Vec<f64> {
    random(&[N], 0.5, 1.5, 12).data
}

fn length(x: &[f64]) -> f64 {
    dot(x, x).sqrt()
}

async fn power(device: Device, steps: usize) -> Result<Vec<f64>> {
    let a = up(&device, &symmetric().data, &[N, N])?;
    let mut v = up(&device, &start(), &[N])?;
    for _ in 0..steps {
        let next = a.matmul(&v)?;
        v = &next / next.norm_l2(())?;
    }
    let mut reads = Reads::default();
    reads.take(&v.dot(&a.matmul(&v)?)?);
    reads.take(&v);
    reads.all().await
}

fn power_wanted(steps: usize) -> Vec<f64> {
    let (a, mut v) = (symmetric(), start());
    for _ in 0..steps {
        v = a.on(&v);
        let norm = length(&v);
        v.iter_mut().for_each(|v| *v /= norm);
    }
    [vec![dot(&v, &a.on(&v))], v].concat()
}

const LARGE: usize = 48;

/// Returns a positive definite matrix with a condition number of about ten.
fn definite() -> (Matrix, Vec<f64>) {
    let noise = Matrix::new(LARGE, LARGE, &random(&[LARGE, LARGE], -0.05, 0.05, 13).data);
    let a = Matrix::from_fn(LARGE, LARGE, |i, j| {
        let diagonal = if i == j { 1.0 + 8.0 * i as f64 / LARGE as f64 } else { 0.0 };
        f64::from((diagonal + noise.at(i, j) + noise.at(j, i)) as f32)
    });
    (a, random(&[LARGE], -1.0, 1.0, 14).data)
}

async fn conjugate(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (a, b) = definite();
    let (a, b) = (up(&device, &a.data, &[LARGE, LARGE])?, up(&device, &b, &[LARGE])?);
    let mut x = b.zeros_like();
    let (mut r, mut p) = (b.clone(), b.clone());
    let mut rr = r.dot(&r)?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let ap = a.matmul(&p)?;
        let alpha = &rr / p.dot(&ap)?;
        x = &x + &alpha * &p;
        r = &r - &alpha * &ap;
        let after = r.dot(&r)?;
        p = &r + (&after / &rr) * &p;
        rr = after;
        if step % 4 == 3 {
            reads.take(&rr);
        }
    }
    reads.take(&x);
    reads.all().await
}

fn conjugate_wanted(steps: usize) -> Vec<f64> {
    let (a, b) = definite();
    let mut x = vec![0.0; LARGE];
    let (mut r, mut p) = (b.clone(), b);
    let mut read = Vec::new();
    for step in 0..steps {
        let (ap, rr) = (a.on(&p), dot(&r, &r));
        let alpha = rr / dot(&p, &ap);
        x = zip(&x, &p, |x, p| x + alpha * p);
        r = zip(&r, &ap, |r, ap| r - alpha * ap);
        let beta = dot(&r, &r) / rr;
        p = zip(&r, &p, |r, p| r + beta * p);
        if step % 4 == 3 {
            read.push(dot(&r, &r));
        }
    }
    [read, x].concat()
}

/// The number of largest eigenvalues to find, one after the other.
const PAIRS: usize = 3;

async fn deflation(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut a = up(&device, &symmetric().data, &[N, N])?;
    let first = up(&device, &start(), &[N])?;
    let mut found = Vec::new();
    for _ in 0..PAIRS {
        let mut v = first.clone();
        for _ in 0..steps {
            let next = a.matmul(&v)?;
            v = &next / next.square().sum(())?.sqrt();
        }
        let value = v.dot(&a.matmul(&v)?)?;
        a = &a - &value * v.outer(&v)?;
        found.push(value);
    }
    let mut reads = Reads::default();
    reads.take(&Tensor::stack(&found, 0)?);
    reads.all().await
}

fn deflation_wanted(steps: usize) -> Vec<f64> {
    let mut a = symmetric();
    let mut found = Vec::new();
    for _ in 0..PAIRS {
        let mut v = start();
        for _ in 0..steps {
            v = a.on(&v);
            let norm = length(&v);
            v.iter_mut().for_each(|v| *v /= norm);
        }
        let value = dot(&v, &a.on(&v));
        a = Matrix::from_fn(N, N, |i, j| a.at(i, j) - value * v[i] * v[j]);
        found.push(value);
    }
    found
}

/// Returns a matrix with eigenvalues close to each other, so that none is found within a few steps.
fn mixed() -> Matrix {
    let noise = Matrix::new(LARGE, LARGE, &random(&[LARGE, LARGE], -1.0, 1.0, 15).data);
    Matrix::from_fn(LARGE, LARGE, |i, j| noise.at(i, j) + noise.at(j, i))
}

async fn lanczos(device: Device, steps: usize) -> Result<Vec<f64>> {
    let a = up(&device, &mixed().data, &[LARGE, LARGE])?;
    let first = up(&device, &random(&[LARGE], 0.5, 1.5, 16).data, &[LARGE])?;
    let mut v = &first / first.norm_l2(())?;
    let mut before = v.zeros_like();
    let mut beta = device.zeros(&[])?;
    let (mut alphas, mut betas) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        let w = a.matmul(&v)? - &beta * &before;
        let alpha = w.dot(&v)?;
        let w = w - &alpha * &v;
        beta = w.norm_l2(())?;
        before = v;
        v = w / &beta;
        alphas.push(alpha);
        betas.push(beta.clone());
    }
    let mut reads = Reads::default();
    reads.take(&Tensor::stack(&alphas, 0)?);
    reads.take(&Tensor::stack(&betas, 0)?);
    reads.all().await
}

fn lanczos_wanted(steps: usize) -> Vec<f64> {
    let a = mixed();
    let first = random(&[LARGE], 0.5, 1.5, 16).data;
    let norm = length(&first);
    let mut v: Vec<f64> = first.iter().map(|v| v / norm).collect();
    let (mut before, mut beta) = (vec![0.0; LARGE], 0.0);
    let (mut alphas, mut betas) = (Vec::new(), Vec::new());
    for _ in 0..steps {
        let w = zip(&a.on(&v), &before, |w, b| w - beta * b);
        let alpha = dot(&w, &v);
        let w = zip(&w, &v, |w, v| w - alpha * v);
        beta = length(&w);
        before = v;
        v = w.iter().map(|w| w / beta).collect();
        alphas.push(alpha);
        betas.push(beta);
    }
    [alphas, betas].concat()
}

fn pivoted() -> Vec<f64> {
    random(&[N, N], -1.0, 1.0, 17).data
}

/// Eliminates the first columns. The row with the largest element is exchanged and subtracted from those below.
async fn elimination(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut a = up(&device, &pivoted(), &[N, N])?;
    let row = device.iota(&[N], 0)?;
    let mut pivots = Vec::new();
    for k in 0..steps {
        let column = a.select(1, k as isize)?;
        let size = row.ge(k)?.where_cond(column.abs(), -1.0)?;
        let pivot = size.argmax(())?;
        let order = row.eq(k)?.where_cond(&pivot, row.eq(&pivot)?.where_cond(k, &row)?)?;
        a = a.index_select(0, &order)?;
        let top = a.select(0, k as isize)?;
        let factor = a.select(1, k as isize)? / top.select(0, k as isize)?;
        let factor = row.gt(k)?.where_cond(factor, 0.0)?;
        a = &a - factor.outer(&top)?;
        pivots.push(pivot);
    }
    let mut reads = Reads::default();
    reads.take(&Tensor::stack(&pivots, 0)?);
    reads.take(&a);
    reads.all().await
}

fn elimination_wanted(steps: usize) -> Vec<f64> {
    let mut a = pivoted();
    let mut pivots = Vec::new();
    for k in 0..steps {
        let pivot =
            (k..N).fold(
                k,
                |best, i| {
                    if a[i * N + k].abs() > a[best * N + k].abs() {
                        i
                    } else {
                        best
                    }
                },
            );
        for j in 0..N {
            a.swap(k * N + j, pivot * N + j);
        }
        for i in k + 1..N {
            let factor = a[i * N + k] / a[k * N + k];
            for j in 0..N {
                a[i * N + j] -= factor * a[k * N + j];
            }
        }
        pivots.push(pivot as f64);
    }
    [pivots, a].concat()
}

async fn sinkhorn(device: Device, steps: usize) -> Result<Vec<f64>> {
    let cost = up(&device, &random(&[12, 10], 0.0, 1.0, 18).data, &[12, 10])?;
    let kernel = (cost.neg() / 0.2).exp();
    let mut v = device.ones(&[10])?;
    let mut u = device.ones(&[12])?;
    for _ in 0..steps {
        u = (1.0 / 12.0) / kernel.matmul(&v)?;
        v = (1.0 / 10.0) / kernel.transpose(0, 1)?.matmul(&u)?;
    }
    let plan = u.unsqueeze(1)? * &kernel * &v;
    let mut reads = Reads::default();
    reads.take(&plan);
    reads.take(&(&plan * &cost).sum(())?);
    reads.all().await
}

fn sinkhorn_wanted(steps: usize) -> Vec<f64> {
    let cost = Matrix::new(12, 10, &random(&[12, 10], 0.0, 1.0, 18).data);
    let kernel = cost.map(|c| (-c / 0.2).exp());
    let (mut u, mut v) = (vec![1.0; 12], vec![1.0; 10]);
    for _ in 0..steps {
        u = kernel.on(&v).iter().map(|s| 1.0 / 12.0 / s).collect();
        v = kernel.turned().on(&u).iter().map(|s| 1.0 / 10.0 / s).collect();
    }
    let plan = Matrix::from_fn(12, 10, |i, j| u[i] * kernel.at(i, j) * v[j]);
    let total = dot(&plan.data, &cost.data);
    [plan.data, vec![total]].concat()
}

/// Returns the links between pages. Columns are normalized where they are used.
fn links() -> Matrix {
    let some = Matrix::new(30, 30, &random(&[30, 30], 0.0, 1.0, 19).data);
    Matrix::from_fn(30, 30, |i, j| f64::from(u8::from(some.at(i, j) < 0.2 || i == (j + 1) % 30)))
}

async fn page_rank(device: Device, steps: usize) -> Result<Vec<f64>> {
    let links = up(&device, &links().data, &[30, 30])?;
    let moves = &links / links.sum(Axes::from(0).keepdim(true))?;
    let mut rank = device.full(&[30], 1.0 / 30.0, DType::F32)?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let next = 0.85 * moves.matmul(&rank)? + 0.15 / 30.0;
        if step % 5 == 4 {
            reads.take(&next.sub(&rank)?.norm_l1(())?);
        }
        rank = next;
    }
    reads.take(&(rank * 30.0));
    reads.all().await
}

fn page_rank_wanted(steps: usize) -> Vec<f64> {
    let links = links();
    let sums: Vec<f64> = (0..30).map(|j| (0..30).map(|i| links.at(i, j)).sum()).collect();
    let moves = Matrix::from_fn(30, 30, |i, j| links.at(i, j) / sums[j]);
    let (mut rank, mut read) = (vec![1.0 / 30.0; 30], Vec::new());
    for step in 0..steps {
        let next: Vec<f64> = moves.on(&rank).iter().map(|r| 0.85 * r + 0.15 / 30.0).collect();
        if step % 5 == 4 {
            read.push(zip(&next, &rank, |a, b| (a - b).abs()).iter().sum());
        }
        rank = next;
    }
    [read, rank.iter().map(|r| r * 30.0).collect()].concat()
}

const TOWNS: usize = 32;

fn roads() -> Matrix {
    let some = Matrix::new(TOWNS, TOWNS, &random(&[TOWNS, TOWNS], 1.0, 9.0, 20).data);
    Matrix::from_fn(TOWNS, TOWNS, |i, j| match (i == j, some.at(i, j) < 3.0) {
        (true, _) => 0.0,
        (_, true) => some.at(i, j),
        _ => 50.0,
    })
}

/// Returns the shortest paths through the first `steps` towns.
async fn shortest(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut ways = up(&device, &roads().data, &[TOWNS, TOWNS])?;
    for k in 0..steps as isize {
        ways = ways.minimum(ways.slice(1, k..k + 1)? + ways.slice(0, k..k + 1)?)?;
    }
    let mut reads = Reads::default();
    reads.take(&ways);
    reads.all().await
}

fn shortest_wanted(steps: usize) -> Vec<f64> {
    let mut ways = roads();
    for k in 0..steps {
        ways =
            Matrix::from_fn(TOWNS, TOWNS, |i, j| ways.at(i, j).min(ways.at(i, k) + ways.at(k, j)));
    }
    ways.data
}

/// Returns a noisy observation of a point in the plane with constant velocity.
fn seen(step: usize) -> [f64; 2] {
    let noise = random(&[2], -0.5, 0.5, 100 + step as u32).data;
    let t = step as f64;
    [0.3 * t + noise[0], 2.0 - 0.1 * t + noise[1]].map(|v| f64::from(v as f32))
}

/// Returns the transition matrix of the state, and the observation matrix.
fn motion() -> (Matrix, Matrix) {
    let next = Matrix::from_fn(4, 4, |i, j| f64::from(u8::from(i == j || j == i + 2)));
    let view = Matrix::from_fn(2, 4, |i, j| f64::from(u8::from(i == j)));
    (next, view)
}

/// The process and measurement noise.
const NOISE: (f64, f64) = (0.01, 0.25);

async fn kalman(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (f, h) = motion();
    let (f, h) = (up(&device, &f.data, &[4, 4])?, up(&device, &h.data, &[2, 4])?);
    let (q, r) = (device.eye(4)? * NOISE.0, device.eye(2)? * NOISE.1);
    let mut x = device.zeros(&[4])?;
    let mut p = device.eye(4)?;
    let mut reads = Reads::default();
    for step in 0..steps {
        x = f.matmul(&x)?;
        p = f.matmul(&p)?.matmul(&f.transpose(0, 1)?)? + &q;
        let seen = up(&device, &seen(step), &[2])?;
        let ph = p.matmul(&h.transpose(0, 1)?)?;
        let s = h.matmul(&ph)? + &r;
        let gain = ph.matmul(&inverse(&s)?)?;
        x = &x + gain.matmul(&(seen - h.matmul(&x)?))?;
        p = (device.eye(4)? - gain.matmul(&h)?).matmul(&p)?;
        if step % 5 == 4 {
            reads.take(&x);
        }
    }
    reads.take(&p);
    reads.all().await
}

/// Returns the inverse of a 2 x 2 matrix.
fn inverse(s: &Tensor) -> Result<Tensor> {
    let at = |i: isize, j: isize| s.select(0, i)?.select(0, j);
    let (a, b, c, d) = (at(0, 0)?, at(0, 1)?, at(1, 0)?, at(1, 1)?);
    let turned = Tensor::stack(&[d.clone(), b.neg(), c.neg(), a.clone()], 0)?;
    Ok(turned.reshape([2, 2])? / (&a * &d - &b * &c))
}

fn kalman_wanted(steps: usize) -> Vec<f64> {
    let (f, h) = motion();
    let (mut x, mut p) = (vec![0.0; 4], Matrix::eye(4));
    let mut read = Vec::new();
    for step in 0..steps {
        x = f.on(&x);
        p = f.times(&p).times(&f.turned()).with(&Matrix::eye(4), |p, e| p + NOISE.0 * e);
        let ph = p.times(&h.turned());
        let s = h.times(&ph).with(&Matrix::eye(2), |s, e| s + NOISE.1 * e);
        let (a, b, c, d) = (s.at(0, 0), s.at(0, 1), s.at(1, 0), s.at(1, 1));
        let inverse = Matrix::new(2, 2, &[d, -b, -c, a]).map(|v| v / (a * d - b * c));
        let gain = ph.times(&inverse);
        let off = zip(&seen(step), &h.on(&x), |z, x| z - x);
        x = zip(&x, &gain.on(&off), |x, k| x + k);
        p = Matrix::eye(4).with(&gain.times(&h), |e, k| e - k).times(&p);
        if step % 5 == 4 {
            read.extend(&x);
        }
    }
    [read, p.data].concat()
}

/// Solves for the diagonal. The other terms use the values of the previous step.
async fn jacobi(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (a, b) = definite();
    let (a, b) = (up(&device, &a.data, &[LARGE, LARGE])?, up(&device, &b, &[LARGE])?);
    let diagonal = a.diag(0)?;
    let mut x = device.zeros(&[LARGE])?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let rest = &b - a.matmul(&x)?;
        if step % 10 == 9 {
            reads.take(&rest.norm_linf(())?);
        }
        x = &x + rest / &diagonal * 0.5;
    }
    reads.take(&x);
    reads.all().await
}

fn jacobi_wanted(steps: usize) -> Vec<f64> {
    let (a, b) = definite();
    let mut x = vec![0.0; LARGE];
    let mut read = Vec::new();
    for step in 0..steps {
        let rest = zip(&b, &a.on(&x), |b, a| b - a);
        if step % 10 == 9 {
            read.push(rest.iter().fold(0.0, |most: f64, r| most.max(r.abs())));
        }
        x = (0..LARGE).map(|i| x[i] + 0.5 * rest[i] / a.at(i, i)).collect();
    }
    [read, x].concat()
}
