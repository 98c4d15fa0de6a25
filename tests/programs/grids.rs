//! Programs on grids, images and signals.

use super::plain::Matrix;
use super::{program, up, Program, Reads};
use crate::shared::array::{integers, random};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{PadMode, PoolOptions, Resize, Tensor};

pub fn programs() -> Vec<Program> {
    vec![
        program("Game of Life", 10, 0.0, life, life_wanted),
        program("Mandelbrot", 8, 0.0, mandelbrot, mandelbrot_wanted),
        program("heat equation", 20, 1e-5, heat, heat_wanted),
        program("wave equation", 20, 1e-4, wave, wave_wanted),
        program("FFT by hand", 4, 1e-3, fourier, fourier_wanted),
        program("image pyramid", 4, 1e-5, pyramid, pyramid_wanted),
        program("reaction and diffusion", 20, 1e-4, reaction, reaction_wanted),
        program("blurs", 6, 1e-4, blurs, blurs_wanted),
    ]
}

const SIDE: usize = 20;

/// Returns the element `down` rows and `right` columns away, with wrap-around.
fn around(field: &Matrix, i: usize, j: usize, down: isize, right: isize) -> f64 {
    let at = |n: usize, by: isize, of: usize| (n as isize + by).rem_euclid(of as isize) as usize;
    field.at(at(i, down, field.rows), at(j, right, field.columns))
}

fn alive() -> Matrix {
    Matrix::new(SIDE, SIDE, &integers(&[SIDE, SIDE], 0, 1, 31).data)
}

async fn life(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut cells = up(&device, &alive().data, &[SIDE, SIDE])?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let rows = cells.roll(-1, 0)? + &cells + cells.roll(1, 0)?;
        let near = rows.roll(-1, 1)? + &rows + rows.roll(1, 1)? - &cells;
        let stays = near.eq(2.0)?.logical_and(cells.gt(0.5)?)?;
        cells = near.eq(3.0)?.logical_or(stays)?.cast(DType::F32)?;
        if step % 5 == 4 {
            reads.take(&cells.sum(())?);
        }
    }
    reads.take(&cells);
    reads.all().await
}

fn life_wanted(steps: usize) -> Vec<f64> {
    let (mut cells, mut read) = (alive(), Vec::new());
    for step in 0..steps {
        cells = Matrix::from_fn(SIDE, SIDE, |i, j| {
            let mut near = -cells.at(i, j);
            for (down, right) in (-1..=1).flat_map(|d| (-1..=1).map(move |r| (d, r))) {
                near += around(&cells, i, j, down, right);
            }
            f64::from(u8::from(near == 3.0 || near == 2.0 && cells.at(i, j) == 1.0))
        });
        if step % 5 == 4 {
            read.push(cells.data.iter().sum());
        }
    }
    [read, cells.data].concat()
}

/// Returns a point of the plane. No point is near the border of the set.
fn point(i: usize, j: usize) -> (f64, f64) {
    (-2.0 + 0.25 * j as f64 + 0.03125, -1.25 + 0.25 * i as f64 + 0.015625)
}

async fn mandelbrot(device: Device, steps: usize) -> Result<Vec<f64>> {
    let shape = [11, 12];
    let column = device.iota(&shape, 1)?.cast(DType::F32)?;
    let row = device.iota(&shape, 0)?.cast(DType::F32)?;
    let (x, y) = (column * 0.25 + (0.03125 - 2.0), row * 0.25 + (0.015625 - 1.25));
    let (mut a, mut b) = (x.zeros_like(), x.zeros_like());
    let mut count = x.zeros_like();
    for _ in 0..steps {
        let inside = (a.square() + b.square()).le(4.0)?;
        let next = a.square() - b.square() + &x;
        b = inside.where_cond(&a * &b * 2.0 + &y, &b)?;
        a = inside.where_cond(&next, &a)?;
        count = &count + inside.cast(DType::F32)?;
    }
    let mut reads = Reads::default();
    reads.take(&count);
    reads.all().await
}

fn mandelbrot_wanted(steps: usize) -> Vec<f64> {
    let count = |x: f64, y: f64| {
        let (mut a, mut b, mut count) = (0.0, 0.0, 0.0);
        for _ in 0..steps {
            if a * a + b * b > 4.0 {
                break;
            }
            (a, b) = (a * a - b * b + x, 2.0 * a * b + y);
            count += 1.0;
        }
        count
    };
    Matrix::from_fn(11, 12, |i, j| count(point(i, j).0, point(i, j).1)).data
}

fn warm() -> Matrix {
    Matrix::new(SIDE, SIDE, &random(&[SIDE, SIDE], 0.0, 1.0, 32).data)
}

/// Returns the sum of the neighbors minus four times the center, with zeros outside.
fn laplacian(u: &Tensor) -> Result<Tensor> {
    let (h, w) = (u.shape()[0] as isize, u.shape()[1] as isize);
    let wide = u.pad([(1usize, 1), (1, 1)], 0.0)?;
    let near = wide.slice(0, 0..h)?.slice(1, 1..w + 1)?
        + wide.slice(0, 2..h + 2)?.slice(1, 1..w + 1)?
        + wide.slice(0, 1..h + 1)?.slice(1, 0..w)?
        + wide.slice(0, 1..h + 1)?.slice(1, 2..w + 2)?;
    Ok(near - u * 4.0)
}

fn plain_laplacian(u: &Matrix) -> Matrix {
    Matrix::from_fn(u.rows, u.columns, |i, j| {
        let mut sum = -4.0 * u.at(i, j);
        if i > 0 {
            sum += u.at(i - 1, j);
        }
        if j > 0 {
            sum += u.at(i, j - 1);
        }
        if i + 1 < u.rows {
            sum += u.at(i + 1, j);
        }
        if j + 1 < u.columns {
            sum += u.at(i, j + 1);
        }
        sum
    })
}

async fn heat(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut u = up(&device, &warm().data, &[SIDE, SIDE])?;
    for _ in 0..steps {
        u = &u + laplacian(&u)? * 0.2;
    }
    let mut reads = Reads::default();
    reads.take(&u);
    reads.all().await
}

fn heat_wanted(steps: usize) -> Vec<f64> {
    let mut u = warm();
    for _ in 0..steps {
        u = u.with(&plain_laplacian(&u), |u, l| u + 0.2 * l);
    }
    u.data
}

/// Simulates a wave, and reads its energy at every tenth step.
async fn wave(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut u = up(&device, &warm().data, &[SIDE, SIDE])?;
    let mut before = u.clone();
    let mut reads = Reads::default();
    for step in 0..steps {
        let next = &u * 2.0 - &before + laplacian(&u)? * 0.1;
        before = u;
        u = next;
        if step % 10 == 9 {
            reads.take(&(&u - &before).square().mean(())?);
        }
    }
    reads.take(&u);
    reads.all().await
}

fn wave_wanted(steps: usize) -> Vec<f64> {
    let mut u = warm();
    let (mut before, mut read) = (u.clone(), Vec::new());
    for step in 0..steps {
        let next =
            u.with(&before, |u, b| 2.0 * u - b).with(&plain_laplacian(&u), |u, l| u + 0.1 * l);
        before = u;
        u = next;
        if step % 10 == 9 {
            let moved = u.with(&before, |u, b| (u - b) * (u - b));
            read.push(moved.data.iter().sum::<f64>() / (SIDE * SIDE) as f64);
        }
    }
    [read, u.data].concat()
}

/// The number of elements of a signal.
const SIGNAL: usize = 64;

fn signal(step: usize) -> Vec<f64> {
    random(&[SIGNAL], -1.0, 1.0, 40 + step as u32).data
}

/// Computes the spectrum of a signal at each step with six rounds of butterflies (Stockham's order, which needs no bit
/// reversal).
async fn fourier(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut reads = Reads::default();
    for step in 0..steps {
        let mut re = up(&device, &signal(step), &[SIGNAL])?;
        let mut im = re.zeros_like();
        let (mut half, mut width) = (SIGNAL / 2, 1);
        while half > 0 {
            let (cos, sin) = turns(&device, half)?;
            let pair = |x: &Tensor, at: isize| x.reshape([2, half, width])?.select(0, at);
            let (ar, ai, br, bi) = (pair(&re, 0)?, pair(&im, 0)?, pair(&re, 1)?, pair(&im, 1)?);
            let (dr, di) = (&ar - &br, &ai - &bi);
            let low = [&ar + &br, &ai + &bi];
            let high = [&dr * &cos + &di * &sin, &di * &cos - &dr * &sin];
            let joined = |n: usize| Tensor::stack(&[&low[n], &high[n]], 1)?.reshape([SIGNAL]);
            (re, im) = (joined(0)?, joined(1)?);
            (half, width) = (half / 2, width * 2);
        }
        reads.take(&(re.square() + im.square()));
    }
    reads.all().await
}

/// Returns cosines and sines of fractions of a half turn, as data, because the functions of devices are not exact.
fn turns(device: &Device, parts: usize) -> Result<(Tensor, Tensor)> {
    let angle = |k: usize| std::f64::consts::PI * k as f64 / parts as f64;
    let of = |f: fn(f64) -> f64| {
        up(device, &(0..parts).map(|k| f(angle(k))).collect::<Vec<_>>(), &[parts, 1])
    };
    Ok((of(f64::cos)?, of(f64::sin)?))
}

fn fourier_wanted(steps: usize) -> Vec<f64> {
    let mut read = Vec::new();
    for step in 0..steps {
        let signal = signal(step);
        for k in 0..SIGNAL {
            let (mut re, mut im) = (0.0, 0.0);
            for (n, v) in signal.iter().enumerate() {
                let angle = -std::f64::consts::TAU * (k * n % SIGNAL) as f64 / SIGNAL as f64;
                re += v * angle.cos();
                im += v * angle.sin();
            }
            read.push(re * re + im * im);
        }
    }
    read
}

const PICTURE: usize = 16;

fn picture(step: usize) -> Matrix {
    Matrix::new(PICTURE, PICTURE, &random(&[PICTURE, PICTURE], 0.0, 1.0, 60 + step as u32).data)
}

/// Computes a Laplacian pyramid of an image at each step: the difference of every level from the next smaller one, and the
/// smallest level.
async fn pyramid(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut reads = Reads::default();
    for step in 0..steps {
        let mut level = up(&device, &picture(step).data, &[1, 1, PICTURE, PICTURE])?;
        while level.shape()[2] > 2 {
            let size = level.shape()[2];
            let small = level.avg_pool(PoolOptions::new([2, 2]))?;
            let large = small.resize(&[size, size], Resize::Nearest)?;
            reads.take(&(&level - large).abs().mean(())?);
            level = small;
        }
        reads.take(&level);
    }
    reads.all().await
}

fn pyramid_wanted(steps: usize) -> Vec<f64> {
    let mut read = Vec::new();
    for step in 0..steps {
        let mut level = picture(step);
        while level.rows > 2 {
            let half = level.rows / 2;
            let small = Matrix::from_fn(half, half, |i, j| {
                let at = |di: usize, dj: usize| level.at(2 * i + di, 2 * j + dj);
                (at(0, 0) + at(0, 1) + at(1, 0) + at(1, 1)) / 4.0
            });
            let off = Matrix::from_fn(level.rows, level.rows, |i, j| {
                (level.at(i, j) - small.at(i / 2, j / 2)).abs()
            });
            read.push(off.data.iter().sum::<f64>() / off.data.len() as f64);
            level = small;
        }
        read.extend(level.data);
    }
    read
}

/// Simulates two substances that diffuse around the ends of the grid and react (Gray and Scott).
async fn reaction(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (mut u, mut v) = (up(&device, &warm().data, &[SIDE, SIDE])?, device.zeros(&[SIDE, SIDE])?);
    v = &v + u.gt(0.5)?.cast(DType::F32)? * 0.5;
    let spread = |x: &Tensor| -> Result<Tensor> {
        Ok(x.roll(1, 0)? + x.roll(-1, 0)? + x.roll(1, 1)? + x.roll(-1, 1)? - x * 4.0)
    };
    let mut reads = Reads::default();
    for step in 0..steps {
        let both = &u * v.square();
        let next = &u + spread(&u)? * 0.16 - &both + (1.0 - &u) * 0.035;
        v = &v + spread(&v)? * 0.08 + &both - &v * 0.1;
        u = next;
        if step % 10 == 9 {
            reads.take(&v.mean(())?);
        }
    }
    reads.take(&u);
    reads.all().await
}

fn reaction_wanted(steps: usize) -> Vec<f64> {
    let mut u = warm();
    let mut v = u.map(|u| if u > 0.5 { 0.5 } else { 0.0 });
    let spread = |x: &Matrix| {
        Matrix::from_fn(SIDE, SIDE, |i, j| {
            let at = |down, right| around(x, i, j, down, right);
            at(-1, 0) + at(1, 0) + at(0, -1) + at(0, 1) - 4.0 * x.at(i, j)
        })
    };
    let mut read = Vec::new();
    for step in 0..steps {
        let both = u.with(&v, |u, v| u * v * v);
        let next = u.with(&spread(&u), |u, s| u + 0.16 * s + (1.0 - u) * 0.035);
        v = v.with(&spread(&v), |v, s| v + 0.08 * s - 0.1 * v).with(&both, |v, b| v + b);
        u = next.with(&both, |u, b| u - b);
        if step % 10 == 9 {
            read.push(v.data.iter().sum::<f64>() / v.data.len() as f64);
        }
    }
    [read, u.data].concat()
}

/// Blurs images repeatedly with a fixed window and mirrored edges, and reads the largest element.
async fn blurs(device: Device, steps: usize) -> Result<Vec<f64>> {
    let weights = [1.0, 2.0, 1.0, 2.0, 4.0, 2.0, 1.0, 2.0, 1.0].map(|w| w / 16.0);
    let window = up(&device, &weights, &[1, 1, 3, 3])?;
    let first: Vec<f64> = (0..2).flat_map(|n| picture(n).data).collect();
    let mut pictures = up(&device, &first, &[2, 1, PICTURE, PICTURE])?;
    let mut most = Vec::new();
    for _ in 0..steps {
        let wide = pictures.pad_with([(0, 0), (0, 0), (1, 1), (1, 1)], PadMode::Symmetric)?;
        pictures = wide.conv2d(&window, None, Default::default())?;
        most.push(pictures.max(())?);
    }
    let mut reads = Reads::default();
    most.iter().for_each(|most| reads.take(most));
    reads.take(&pictures);
    reads.all().await
}

fn blurs_wanted(steps: usize) -> Vec<f64> {
    let mut pictures = [picture(0), picture(1)];
    let mut most = Vec::new();
    let clamp = |n: isize| n.clamp(0, PICTURE as isize - 1) as usize;
    for _ in 0..steps {
        pictures = pictures.map(|picture| {
            Matrix::from_fn(PICTURE, PICTURE, |i, j| {
                let mut sum = 0.0;
                for (down, right) in (-1..=1).flat_map(|d| (-1..=1).map(move |r| (d, r))) {
                    let weight = ((2 - isize::abs(down)) * (2 - isize::abs(right))) as f64;
                    let at = (clamp(i as isize + down), clamp(j as isize + right));
                    sum += weight / 16.0 * picture.at(at.0, at.1);
                }
                sum
            })
        });
        let all = pictures.iter().flat_map(|picture| picture.data.iter().copied());
        most.push(all.fold(f64::NEG_INFINITY, f64::max));
    }
    let all: Vec<f64> = pictures.iter().flat_map(|picture| picture.data.clone()).collect();
    [most, all].concat()
}
