//! Recurrences, in which each step uses the result of the previous one.

use super::plain::{sigmoid, zip, Matrix};
use super::{program, up, Program, Reads};
use crate::shared::array::{random, word};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

pub fn programs() -> Vec<Program> {
    vec![
        program("RNN", 1000, 1e-4, rnn, rnn_wanted),
        program("LSTM", 1000, 1e-4, lstm, lstm_wanted),
        program("hidden Markov model", 60, 1e-4, forward, forward_wanted),
        program("recursive filter", 40, 1e-4, filter, filter_wanted),
        program("edit distance", 8, 0.0, distance, distance_wanted),
        program("logistic map", 30, 1e-3, logistic, logistic_wanted),
        program("attention over a window of states", 24, 1e-4, window, window_wanted),
    ]
}

const H: usize = 8;

fn weights(rows: usize, columns: usize, seed: u32) -> Matrix {
    Matrix::new(rows, columns, &random(&[rows, columns], -0.4, 0.4, seed).data)
}

fn tensor(device: &Device, matrix: &Matrix) -> Result<Tensor> {
    up(device, &matrix.data, &[matrix.rows, matrix.columns])
}

fn input(step: usize) -> Vec<f64> {
    random(&[1, 3], -1.0, 1.0, 500 + step as u32).data
}

/// Runs a recurrent network whose state is read only at the end. All steps are one plan.
async fn rnn(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (w, u) = (tensor(&device, &weights(H, H, 71))?, tensor(&device, &weights(3, H, 72))?);
    let mut h = device.zeros(&[1, H])?;
    for step in 0..steps {
        let x = up(&device, &input(step), &[1, 3])?;
        h = (h.matmul(&w)? + x.matmul(&u)?).tanh();
    }
    let mut reads = Reads::default();
    reads.take(&h);
    reads.all().await
}

fn rnn_wanted(steps: usize) -> Vec<f64> {
    let (w, u) = (weights(H, H, 71), weights(3, H, 72));
    let mut h = Matrix::new(1, H, &[0.0; H]);
    for step in 0..steps {
        let x = Matrix::new(1, 3, &input(step));
        h = h.times(&w).with(&x.times(&u), |a, b| (a + b).tanh());
    }
    h.data
}

/// Runs an LSTM on its own output, and reads it at every hundredth step.
async fn lstm(device: Device, steps: usize) -> Result<Vec<f64>> {
    let w = tensor(&device, &weights(H, 4 * H, 73))?;
    let b = up(&device, &random(&[4 * H], -0.5, 0.5, 74).data, &[4 * H])?;
    let (mut h, mut c) = (device.zeros(&[1, H])?, device.ones(&[1, H])?);
    let mut reads = Reads::default();
    for step in 0..steps {
        let gates = (h.matmul(&w)? + &b).chunk(4, 1)?;
        let keep = gates[1].sigmoid();
        c = keep * &c + gates[0].sigmoid() * gates[2].tanh();
        h = gates[3].sigmoid() * c.tanh();
        if step % 50 == 49 {
            reads.take(&h);
        }
    }
    reads.all().await
}

fn lstm_wanted(steps: usize) -> Vec<f64> {
    let (w, b) = (weights(H, 4 * H, 73), random(&[4 * H], -0.5, 0.5, 74).data);
    let (mut h, mut c) = (Matrix::new(1, H, &[0.0; H]), vec![1.0; H]);
    let mut read = Vec::new();
    for step in 0..steps {
        let gates = zip(&h.times(&w).data, &b, |a, b| a + b);
        for n in 0..H {
            let [i, f, g, o] = [0, 1, 2, 3].map(|gate| gates[gate * H + n]);
            c[n] = sigmoid(f) * c[n] + sigmoid(i) * g.tanh();
            h.data[n] = sigmoid(o) * c[n].tanh();
        }
        if step % 50 == 49 {
            read.extend(&h.data);
        }
    }
    read
}

const STATES: usize = 5;
const SYMBOLS: usize = 3;

/// Returns the transition and the emission probabilities of a hidden Markov model. Rows add up to one.
fn chain() -> (Matrix, Matrix) {
    let normal = |columns: usize, seed: u32| {
        let m = Matrix::new(STATES, columns, &random(&[STATES, columns], 0.1, 1.0, seed).data);
        Matrix::from_fn(STATES, columns, |i, j| {
            f64::from((m.at(i, j) / m.row(i).iter().sum::<f64>()) as f32)
        })
    };
    (normal(STATES, 75), normal(SYMBOLS, 76))
}

fn symbol(step: usize) -> usize {
    word(77, step) as usize % SYMBOLS
}

/// Runs the forward algorithm: the likelihood of the observations, and the states at the end.
async fn forward(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (next, says) = chain();
    let (next, says) = (tensor(&device, &next)?, tensor(&device, &says)?);
    let mut state = device.full(&[STATES], 1.0 / STATES as f64, DType::F32)?;
    let mut likelihood = device.zeros(&[])?;
    for step in 0..steps {
        let all = state.matmul(&next)? * says.select(1, symbol(step) as isize)?;
        let sum = all.sum(())?;
        likelihood += sum.log();
        state = all / sum;
    }
    let mut reads = Reads::default();
    reads.take(&likelihood);
    reads.take(&state);
    reads.all().await
}

fn forward_wanted(steps: usize) -> Vec<f64> {
    let (next, says) = chain();
    let (mut state, mut likelihood) = (vec![1.0 / STATES as f64; STATES], 0.0);
    for step in 0..steps {
        let moved = next.turned().on(&state);
        state = (0..STATES).map(|i| moved[i] * says.at(i, symbol(step))).collect();
        let sum: f64 = state.iter().sum();
        likelihood += sum.ln();
        state.iter_mut().for_each(|p| *p /= sum);
    }
    [vec![likelihood], state].concat()
}

const CHANNELS: usize = 6;

fn sound(step: usize) -> Vec<f64> {
    random(&[CHANNELS], -1.0, 1.0, 900 + step as u32).data
}

/// Runs a filter whose outputs depend on the two previous ones. Recomputing them would double the work with every step.
async fn filter(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (mut last, mut before) = (device.zeros(&[CHANNELS])?, device.zeros(&[CHANNELS])?);
    let mut out = Vec::new();
    for step in 0..steps {
        let x = up(&device, &sound(step), &[CHANNELS])?;
        let y = x * 0.2 + &last * 1.2 - &before * 0.5;
        out.push(y.clone());
        before = last;
        last = y;
    }
    let mut reads = Reads::default();
    reads.take(&Tensor::stack(&out, 0)?);
    reads.all().await
}

fn filter_wanted(steps: usize) -> Vec<f64> {
    let (mut last, mut before) = (vec![0.0; CHANNELS], vec![0.0; CHANNELS]);
    let mut out = Vec::new();
    for step in 0..steps {
        let rest = zip(&last, &before, |l, b| 1.2 * l - 0.5 * b);
        let y = zip(&sound(step), &rest, |x, r| 0.2 * x + r);
        out.extend(&y);
        before = last;
        last = y;
    }
    out
}

/// The number of letters of the longer word.
const LETTERS: usize = 24;

fn letter(seed: u32, at: usize) -> i32 {
    (word(seed, at) % 4) as i32
}

/// Computes the edit distance of the first `steps` letters of one word to another, row by row. The dependency on the left
/// neighbor is a running minimum.
async fn distance(device: Device, steps: usize) -> Result<Vec<f64>> {
    let longer: Vec<i32> = (0..LETTERS).map(|at| letter(78, at)).collect();
    let longer = device.tensor(&longer, &[LETTERS])?;
    let place = device.arange(LETTERS as f64 + 1.0)?;
    let mut row = place.clone();
    for step in 0..steps {
        let differs = longer.ne(letter(79, step))?.cast(DType::F32)?;
        let (left, here) = (row.slice(0, ..-1)?, row.slice(0, 1..)?);
        let best = (left + differs).minimum(here + 1.0)?;
        let first = device.full(&[1], step as f64 + 1.0, DType::F32)?;
        let open = Tensor::concat(&[first, best], 0)?;
        row = (open - &place).cummin(0)? + &place;
    }
    let mut reads = Reads::default();
    reads.take(&row);
    reads.all().await
}

fn distance_wanted(steps: usize) -> Vec<f64> {
    let mut row: Vec<f64> = (0..=LETTERS).map(|at| at as f64).collect();
    for step in 0..steps {
        let mut next = vec![step as f64 + 1.0];
        for at in 0..LETTERS {
            let differs = f64::from(u8::from(letter(78, at) != letter(79, step)));
            next.push((row[at] + differs).min(row[at + 1] + 1.0).min(next[at] + 1.0));
        }
        row = next;
    }
    row
}

/// Iterates `r x (1 - x)` at rates for which it converges.
async fn logistic(device: Device, steps: usize) -> Result<Vec<f64>> {
    let rate = device.linspace(1.5, 2.9, 16)?;
    let mut x = device.full(&[16], 0.3, DType::F32)?;
    for _ in 0..steps {
        x = &rate * &x * (1.0 - &x);
    }
    let mut reads = Reads::default();
    reads.take(&x);
    reads.all().await
}

fn logistic_wanted(steps: usize) -> Vec<f64> {
    let mut x = vec![0.3; 16];
    for _ in 0..steps {
        for (n, x) in x.iter_mut().enumerate() {
            *x *= (1.5 + 1.4 * n as f64 / 15.0) * (1.0 - *x);
        }
    }
    x
}

/// The number of states that each step reads.
const BACK: usize = 4;

/// Computes each state from the last few, weighted by their similarity to the last one. The program keeps them in a list.
async fn window(device: Device, steps: usize) -> Result<Vec<f64>> {
    let w = tensor(&device, &weights(H, H, 80))?;
    let mut states: Vec<Tensor> = Vec::new();
    for n in 0..BACK {
        states.push(up(&device, &random(&[H], -1.0, 1.0, 81 + n as u32).data, &[H])?);
    }
    let mut reads = Reads::default();
    for step in 0..steps {
        let seen = Tensor::stack(&states, 0)?;
        let weights = seen.matmul(&states[BACK - 1])?.softmax(0)?;
        let next = (weights.matmul(&seen)?.matmul(&w)? + &states[0]).tanh();
        states.remove(0);
        states.push(next);
        if step % 6 == 5 {
            reads.take(&states[BACK - 1]);
        }
    }
    reads.take(&states[BACK - 1]);
    reads.all().await
}

fn window_wanted(steps: usize) -> Vec<f64> {
    let w = weights(H, H, 80).turned();
    let mut states: Vec<Vec<f64>> =
        (0..BACK).map(|n| random(&[H], -1.0, 1.0, 81 + n as u32).data).collect();
    let mut read = Vec::new();
    for step in 0..steps {
        let seen = Matrix::new(BACK, H, &states.concat());
        let weights = super::plain::softmax(&seen.on(&states[BACK - 1]));
        let mixed = w.on(&seen.turned().on(&weights));
        let next = zip(&mixed, &states[0], |m, s| (m + s).tanh());
        states.remove(0);
        states.push(next);
        if step % 6 == 5 {
            read.extend(&states[BACK - 1]);
        }
    }
    [read, states[BACK - 1].clone()].concat()
}
