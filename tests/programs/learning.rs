//! Other ways of learning: adversarial, through unrolled training, and by trial.

use super::plain::{dot, largest, slopes, softmax, Matrix};
use super::{program, up, Program, Reads};
use crate::shared::array::random;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

pub fn programs() -> Vec<Program> {
    vec![
        program("two optimisers against each other", 20, 1e-3, adversaries, adversaries_wanted),
        program("learning to learn", 4, 1e-3, unrolled, unrolled_wanted),
        program("one of five numbers", 10, 1e-4, numbers, numbers_wanted),
        program("bandit", 50, 1e-3, bandit, bandit_wanted),
        program("Newton's method", 6, 1e-3, newton, newton_wanted),
        program("separable CMA-ES", 6, 1e-3, evolution, evolution_wanted),
    ]
}

const SAMPLES: usize = 8;

fn drawn(step: usize) -> (Vec<f64>, Vec<f64>) {
    let real = random(&[SAMPLES], 1.0, 2.0, 300 + step as u32).data;
    (real, random(&[SAMPLES], -1.0, 1.0, 5300 + step as u32).data)
}

/// Trains a generator of numbers against a discriminator. Both losses are read at each fifth step, before the gradients.
async fn adversaries(device: Device, steps: usize) -> Result<Vec<f64>> {
    let number = |value: f64| up(&device, &[value], &[]);
    let mut maker = [number(1.0)?, number(0.0)?];
    let mut judge = [number(0.1)?, number(-0.1)?, number(0.0)?];
    let made = |z: &Tensor, maker: &[Tensor; 2]| z * &maker[0] + &maker[1];
    let judged = |x: &Tensor, j: &[Tensor; 3]| x * &j[0] + x.square() * &j[1] + &j[2];
    let mut reads = Reads::default();
    for step in 0..steps {
        let (real, z) = drawn(step);
        let (real, z) = (up(&device, &real, &[SAMPLES])?, up(&device, &z, &[SAMPLES])?);
        let fake = made(&z, &maker).detach();
        let both = judged(&real, &judge).neg().softplus() + judged(&fake, &judge).softplus();
        let loss = both.mean(())?;
        if step % 5 == 4 {
            reads.take(&loss);
        }
        let gradients = loss.grad(&[&judge[0], &judge[1], &judge[2]])?;
        for (at, gradient) in judge.iter_mut().zip(gradients) {
            *at = &*at - gradient * 0.1;
        }
        let loss = judged(&made(&z, &maker), &judge).neg().softplus().mean(())?;
        if step % 5 == 4 {
            reads.take(&loss);
        }
        let gradients = loss.grad(&[&maker[0], &maker[1]])?;
        for (at, gradient) in maker.iter_mut().zip(gradients) {
            *at = &*at - gradient * 0.1;
        }
    }
    maker.iter().chain(&judge).for_each(|tensor| reads.take(tensor));
    reads.all().await
}

fn adversaries_wanted(steps: usize) -> Vec<f64> {
    let f32s = |v: [f64; 3]| v.map(|v| f64::from(v as f32));
    let (mut maker, mut judge) = (vec![1.0, 0.0], f32s([0.1, -0.1, 0.0]).to_vec());
    let softplus = |x: f64| (1.0 + x.exp()).ln();
    let judged = |x: f64, j: &[f64]| x * j[0] + x * x * j[1] + j[2];
    let mut read = Vec::new();
    for step in 0..steps {
        let (real, z) = drawn(step);
        let fake: Vec<f64> = z.iter().map(|z| z * maker[0] + maker[1]).collect();
        let loss = |j: &[f64]| {
            let one = |n: usize| softplus(-judged(real[n], j)) + softplus(judged(fake[n], j));
            (0..SAMPLES).map(one).sum::<f64>() / SAMPLES as f64
        };
        let value = loss(&judge);
        let gradient = slopes(&judge, loss);
        judge.iter_mut().zip(gradient).for_each(|(at, g)| *at -= 0.1 * g);
        let loss = |m: &[f64]| {
            let one = |z: &f64| softplus(-judged(z * m[0] + m[1], &judge));
            z.iter().map(one).sum::<f64>() / SAMPLES as f64
        };
        if step % 5 == 4 {
            read.extend([value, loss(&maker)]);
        }
        let gradient = slopes(&maker, loss);
        maker.iter_mut().zip(gradient).for_each(|(at, g)| *at -= 0.1 * g);
    }
    [read, maker, judge].concat()
}

const SEEN: usize = 6;
const WEIGHTS: usize = 3;

/// Returns the training and the validation data.
fn halves() -> [(Matrix, Vec<f64>); 2] {
    [310, 320].map(|seed| {
        let x = Matrix::new(SEEN, WEIGHTS, &random(&[SEEN, WEIGHTS], -1.0, 1.0, seed).data);
        (x, random(&[SEEN], -1.0, 1.0, seed + 1).data)
    })
}

/// Differentiates through gradient descent, by its learning rate and its weight decay.
async fn unrolled(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut data = Vec::new();
    for (x, y) in halves() {
        data.push((up(&device, &x.data, &[SEEN, WEIGHTS])?, up(&device, &y, &[SEEN])?));
    }
    let (rate, decay) = (up(&device, &[0.125], &[])?, up(&device, &[0.25], &[])?);
    let mut w = up(&device, &[0.5, -0.5, 0.25], &[WEIGHTS])?;
    for _ in 0..steps {
        let off = (data[0].0.matmul(&w)? - &data[0].1).square().mean(())?;
        let loss = off + &decay * w.square().square().sum(())?;
        w = &w - &rate * loss.grad(&[&w])?.remove(0);
    }
    let outer = (data[1].0.matmul(&w)? - &data[1].1).square().mean(())?;
    let gradients = outer.grad(&[&rate, &decay])?;
    let mut batch = device.batch();
    batch.add(&outer)?.add(&gradients[0])?.add(&gradients[1])?.run()?;
    let mut reads = Reads::default();
    reads.take(&outer);
    gradients.iter().for_each(|gradient| reads.take(gradient));
    reads.all().await
}

fn unrolled_wanted(steps: usize) -> Vec<f64> {
    let [(x, y), (judged, wanted)] = halves();
    let outer = |by: &[f64]| {
        let mut w = vec![0.5, -0.5, 0.25];
        for _ in 0..steps {
            let off: Vec<f64> = x.on(&w).iter().zip(&y).map(|(a, b)| a - b).collect();
            let pull = x.turned().on(&off);
            for (w, pull) in w.iter_mut().zip(pull) {
                *w -= by[0] * (2.0 * pull / SEEN as f64 + by[1] * 4.0 * w.powi(3));
            }
        }
        let off: Vec<f64> = judged.on(&w).iter().zip(&wanted).map(|(a, b)| a - b).collect();
        dot(&off, &off) / SEEN as f64
    };
    [vec![outer(&[0.125, 0.25])], slopes(&[0.125, 0.25], outer)].concat()
}

/// Makes one class less likely at each step.
async fn numbers(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut l = up(&device, &[0.1, -0.3, 0.5, 0.0, 0.2], &[5])?;
    for step in 0..steps {
        let one = l.log_softmax(0)?.select(0, (step % 5) as isize)?;
        l = &l - one.grad(&[&l])?.remove(0) * 0.25;
    }
    let mut reads = Reads::default();
    reads.take(&l);
    reads.all().await
}

fn numbers_wanted(steps: usize) -> Vec<f64> {
    let mut l = vec![0.1, -0.3, 0.5, 0.0, 0.2];
    for step in 0..steps {
        let likely = softmax(&l);
        for (n, l) in l.iter_mut().enumerate() {
            *l -= 0.25 * (f64::from(u8::from(n == step % 5)) - likely[n]);
        }
    }
    l
}

const ARMS: usize = 5;
const PAYS: [f64; ARMS] = [0.2, 0.9, 0.5, -0.3, 0.1];

/// Returns Gumbel noise. The largest preference with this noise is a sample of their softmax.
fn gumbel(step: usize) -> Vec<f64> {
    let noise = random(&[ARMS], 0.05, 0.95, 400 + step as u32).data;
    noise.iter().map(|u| f64::from(-(-u.ln()).ln() as f32)).collect()
}

/// Updates preferences by the difference of the reward from the average (a gradient bandit).
async fn bandit(device: Device, steps: usize) -> Result<Vec<f64>> {
    let pays = up(&device, &PAYS, &[ARMS])?;
    let mut liked = device.zeros(&[ARMS])?;
    let mut usual = device.zeros(&[])?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let arm = (&liked + up(&device, &gumbel(step), &[ARMS])?).argmax(())?;
        let won = pays.index_select(0, &arm)?;
        let better = &won - &usual;
        liked = &liked + (arm.one_hot(ARMS)? - liked.softmax(0)?) * &better * 0.3;
        usual = &usual + better * 0.1;
        if step % 10 == 9 {
            reads.take(&arm);
        }
    }
    reads.take(&liked);
    reads.take(&usual);
    reads.all().await
}

fn bandit_wanted(steps: usize) -> Vec<f64> {
    let pays = PAYS.map(|pay| f64::from(pay as f32));
    let (mut liked, mut usual, mut read) = (vec![0.0; ARMS], 0.0, Vec::new());
    for step in 0..steps {
        let noisy: Vec<f64> = liked.iter().zip(gumbel(step)).map(|(l, g)| l + g).collect();
        let arm = largest(&noisy);
        let better = pays[arm] - usual;
        let likely = softmax(&liked);
        for n in 0..ARMS {
            liked[n] += 0.3 * better * (f64::from(u8::from(n == arm)) - likely[n]);
        }
        usual += 0.1 * better;
        if step % 10 == 9 {
            read.push(arm as f64);
        }
    }
    [read, liked, vec![usual]].concat()
}

/// Solves eight equations. The second derivative of each is the gradient of the gradient's sum.
async fn newton(device: Device, steps: usize) -> Result<Vec<f64>> {
    let goal = device.linspace(0.5, 2.0, 8)?;
    let mut x = device.ones(&[8])?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let loss = (x.square().square() * 0.25 + x.exp() - &goal * &x).sum(())?;
        let slope = loss.grad(&[&x])?.remove(0);
        let bend = slope.sum(())?.grad(&[&x])?.remove(0);
        x = &x - slope / bend * 0.5;
        if step % 2 == 1 {
            reads.take(&loss);
        }
    }
    reads.take(&x);
    reads.all().await
}

fn newton_wanted(steps: usize) -> Vec<f64> {
    let goal: Vec<f64> = (0..8).map(|n| 0.5 + 1.5 * f64::from(n) / 7.0).collect();
    let (mut x, mut read) = (vec![1.0f64; 8], Vec::new());
    for step in 0..steps {
        let one = |(x, goal): (&f64, &f64)| 0.25 * x.powi(4) + x.exp() - goal * x;
        let loss: f64 = x.iter().zip(&goal).map(one).sum();
        for (x, goal) in x.iter_mut().zip(&goal) {
            *x -= 0.5 * (x.powi(3) + x.exp() - goal) / (3.0 * x.powi(2) + x.exp());
        }
        if step % 2 == 1 {
            read.push(loss);
        }
    }
    [read, x].concat()
}

const DIM: usize = 4;
const BEST: usize = 4;
const GOAL: [f64; DIM] = [1.0, -0.5, 0.25, 2.0];
const SCALE: [f64; DIM] = [1.0, 2.0, 3.0, 4.0];
const WEIGHED: [f64; BEST] = [0.5, 0.25, 0.125, 0.125];

fn tried(step: usize) -> Vec<f64> {
    random(&[2 * BEST, DIM], -1.5, 1.5, 450 + step as u32).data
}

/// Moves the mean, the spread along each axis and the step size by the better half of the samples (an evolution strategy).
async fn evolution(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (goal, scale) = (up(&device, &GOAL, &[DIM])?, up(&device, &SCALE, &[DIM])?);
    let weights = up(&device, &WEIGHED, &[BEST])?;
    let (mut middle, mut spread) = (device.zeros(&[DIM])?, device.ones(&[DIM])?);
    let (mut path, mut size) = (device.zeros(&[DIM])?, up(&device, &[0.5], &[])?);
    let mut reads = Reads::default();
    for step in 0..steps {
        let z = up(&device, &tried(step), &[2 * BEST, DIM])?;
        let x = &middle + &size * spread.sqrt() * &z;
        let cost = ((&x - &goal) * &scale).square().sum(1)?;
        let (_, order) = cost.topk(BEST, 0, false)?;
        let best = z.index_select(0, &order)?;
        let mean = weights.matmul(&best)?;
        middle = &middle + &size * spread.sqrt() * &mean;
        spread = &spread * (weights.matmul(&best.square())? * 0.2 + 0.8);
        path = &path * 0.7 + &mean * 0.7;
        size = &size * ((path.norm_l2(())? - 0.8) * 0.3).exp();
        if step % 3 == 2 {
            reads.take(&cost.min(())?);
        }
    }
    reads.take(&middle);
    reads.take(&size);
    reads.all().await
}

fn evolution_wanted(steps: usize) -> Vec<f64> {
    let (mut middle, mut spread, mut path, mut size) =
        (vec![0.0; DIM], vec![1.0f64; DIM], vec![0.0; DIM], 0.5f64);
    let mut read = Vec::new();
    for step in 0..steps {
        let z = Matrix::new(2 * BEST, DIM, &tried(step));
        let cost = |i: usize| -> f64 {
            let at = |j: usize| middle[j] + size * spread[j].sqrt() * z.at(i, j);
            (0..DIM).map(|j| ((at(j) - GOAL[j]) * SCALE[j]).powi(2)).sum()
        };
        let mut order: Vec<(f64, usize)> = (0..2 * BEST).map(|i| (cost(i), i)).collect();
        order.sort_by(|a, b| a.0.total_cmp(&b.0));
        if step % 3 == 2 {
            read.push(order[0].0);
        }
        for j in 0..DIM {
            let over = |f: fn(f64) -> f64| -> f64 {
                (0..BEST).map(|n| WEIGHED[n] * f(z.at(order[n].1, j))).sum()
            };
            let mean = over(|z| z);
            middle[j] += size * spread[j].sqrt() * mean;
            spread[j] *= 0.8 + 0.2 * over(|z| z * z);
            path[j] = 0.7 * path[j] + 0.7 * mean;
        }
        size *= ((dot(&path, &path).sqrt() - 0.8) * 0.3).exp();
    }
    [read, middle, vec![size]].concat()
}
