//! Training of networks whose losses are read at each step, at some steps, at the end, or never.

use super::plain::{dot, sigmoid, slopes, Matrix};
use super::{program, up, Program, Reads};
use crate::shared::array::random;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::tensor::{PoolOptions, Tensor, Variable};

pub fn programs() -> Vec<Program> {
    vec![
        program("MLP with all losses read", 20, 1e-4, |d, n| mlp(d, n, 1), |n| mlp_wanted(n, 1)),
        program("MLP with no loss read", 20, 1e-4, |d, n| mlp(d, n, 0), |n| mlp_wanted(n, 0)),
        program(
            "MLP with each tenth loss read",
            20,
            1e-4,
            |d, n| mlp(d, n, 10),
            |n| mlp_wanted(n, 10),
        ),
        program("CNN with all losses read", 10, 1e-4, |d, n| cnn(d, n, 1), |n| cnn_wanted(n, 1)),
        program("CNN with no loss read", 10, 1e-4, |d, n| cnn(d, n, 0), |n| cnn_wanted(n, 0)),
        program(
            "CNN with each tenth loss read",
            10,
            1e-4,
            |d, n| cnn(d, n, 10),
            |n| cnn_wanted(n, 10),
        ),
        program("Adam by hand", 16, 1e-3, adam, adam_wanted),
        program("momentum with variables", 20, 1e-4, momentum, momentum_wanted),
        program("batches with a norm", 12, 1e-3, normed, normed_wanted),
        program("gradients through a sequence", 100, 1e-4, sequence, sequence_wanted),
    ]
}

/// Whether the loss of a step is read, with a read at each `every`-th step. 0 means never.
fn is_read(step: usize, every: usize) -> bool {
    every > 0 && step % every == every - 1
}

/// Runs plain gradient descent with finite differences. Returns the losses that are read, and the parameters at the end.
fn descended(
    mut at: Vec<f64>,
    rate: f64,
    (steps, every): (usize, usize),
    loss: impl Fn(&[f64]) -> f64,
) -> Vec<f64> {
    let mut read = Vec::new();
    for step in 0..steps {
        if is_read(step, every) {
            read.push(loss(&at));
        }
        let gradient = slopes(&at, &loss);
        at.iter_mut().zip(gradient).for_each(|(w, g)| *w -= rate * g);
    }
    [read, at].concat()
}

/// Runs gradient descent with plain tensors. A loss is read before its gradient is taken.
async fn descend(
    mut at: Vec<Tensor>,
    rate: f64,
    (steps, every): (usize, usize),
    loss: impl Fn(&[Tensor]) -> Result<Tensor>,
) -> Result<Vec<f64>> {
    let mut reads = Reads::default();
    for step in 0..steps {
        let loss = loss(&at)?;
        if is_read(step, every) {
            reads.take(&loss);
        }
        let gradients = loss.grad(&at.iter().collect::<Vec<_>>())?;
        at = at.iter().zip(gradients).map(|(w, g)| w - g * rate).collect();
    }
    at.iter().for_each(|tensor| reads.take(tensor));
    reads.all().await
}

/// Splits the parameters into tensors of these shapes.
fn cut(device: &Device, parameters: &[f64], shapes: &[&[usize]]) -> Result<Vec<Tensor>> {
    let mut rest = parameters;
    let mut tensors = Vec::new();
    for shape in shapes {
        let (these, others) = rest.split_at(shape.iter().product());
        tensors.push(up(device, these, shape)?);
        rest = others;
    }
    Ok(tensors)
}

const POINTS: usize = 16;
const WIDE: usize = 6;

fn points() -> (Matrix, Vec<f64>) {
    let x = Matrix::new(POINTS, 2, &random(&[POINTS, 2], -1.0, 1.0, 121).data);
    let target = (0..POINTS).map(|i| f64::from((x.at(i, 0) * x.at(i, 1)) as f32)).collect();
    (x, target)
}

fn small(count: usize, seed: u32) -> Vec<f64> {
    random(&[count], -0.7, 0.7, seed).data
}

async fn mlp(device: Device, steps: usize, every: usize) -> Result<Vec<f64>> {
    let (x, target) = points();
    let (x, target) = (up(&device, &x.data, &[POINTS, 2])?, up(&device, &target, &[POINTS, 1])?);
    let shapes: [&[usize]; 4] = [&[2, WIDE], &[WIDE], &[WIDE, 1], &[1]];
    let start = cut(&device, &small(4 * WIDE + 1, 122), &shapes)?;
    descend(start, 0.2, (steps, every), |w| {
        let hidden = (x.matmul(&w[0])? + &w[1]).tanh();
        (hidden.matmul(&w[2])? + &w[3] - &target).square().mean(())
    })
    .await
}

fn mlp_wanted(steps: usize, every: usize) -> Vec<f64> {
    let (x, target) = points();
    descended(small(4 * WIDE + 1, 122), 0.2, (steps, every), |w| {
        let mut sum = 0.0;
        for (i, target) in target.iter().enumerate() {
            let mut out = w[4 * WIDE];
            for n in 0..WIDE {
                let into = x.at(i, 0) * w[n] + x.at(i, 1) * w[WIDE + n] + w[2 * WIDE + n];
                out += into.tanh() * w[3 * WIDE + n];
            }
            sum += (out - target).powi(2);
        }
        sum / POINTS as f64
    })
}

const BATCH: usize = 4;
const EDGE: usize = 6;

fn pictures() -> (Vec<f64>, Vec<f64>) {
    let x = random(&[BATCH, EDGE, EDGE], -1.0, 1.0, 123).data;
    (x, random(&[BATCH], -1.0, 1.0, 124).data)
}

/// Two windows of 3 x 3, means of 2 x 2, and a layer of eight.
const CNN: usize = 18 + 2 + 8 + 1;

async fn cnn(device: Device, steps: usize, every: usize) -> Result<Vec<f64>> {
    let (x, target) = pictures();
    let x = up(&device, &x, &[BATCH, 1, EDGE, EDGE])?;
    let target = up(&device, &target, &[BATCH])?;
    let start = cut(&device, &small(CNN, 125), &[&[2, 1, 3, 3], &[2], &[8], &[]])?;
    descend(start, 0.2, (steps, every), |w| {
        let seen = x.conv2d(&w[0], Some(&w[1]), Default::default())?.tanh();
        let small = seen.avg_pool(PoolOptions::new([2, 2]))?.reshape([BATCH, 8])?;
        (small.matmul(&w[2])? + &w[3] - &target).square().mean(())
    })
    .await
}

fn cnn_wanted(steps: usize, every: usize) -> Vec<f64> {
    let (x, target) = pictures();
    descended(small(CNN, 125), 0.2, (steps, every), |w| {
        let mut sum = 0.0;
        for n in 0..BATCH {
            let mut out = w[CNN - 1];
            for channel in 0..2 {
                for (i, j) in (0..4).flat_map(|i| (0..4).map(move |j| (i, j))) {
                    let mut seen = w[18 + channel];
                    for (a, b) in (0..3).flat_map(|a| (0..3).map(move |b| (a, b))) {
                        let pixel = x[(n * EDGE + i + a) * EDGE + j + b];
                        seen += pixel * w[channel * 9 + a * 3 + b];
                    }
                    out += seen.tanh() / 4.0 * w[20 + channel * 4 + i / 2 * 2 + j / 2];
                }
            }
            sum += (out - target[n]).powi(2);
        }
        sum / BATCH as f64
    })
}

const ROWS: usize = 20;
const FEATURES: usize = 5;

/// Returns the examples, and their classes.
fn classes() -> (Matrix, Vec<f64>) {
    let x = Matrix::new(ROWS, FEATURES, &random(&[ROWS, FEATURES], -1.0, 1.0, 126).data);
    let of = |i: usize| f64::from(u8::from(x.at(i, 0) + 0.5 * x.at(i, 1) - x.at(i, 3) > 0.1));
    let y = (0..ROWS).map(of).collect();
    (x, y)
}

/// Returns the cross entropy of a logistic model, from the weights and the bias, which is last.
fn entropy(w: &[f64]) -> f64 {
    let (x, y) = classes();
    let one = |i: usize| {
        let z = dot(x.row(i), &w[..FEATURES]) + w[FEATURES];
        (1.0 + z.exp()).ln() - y[i] * z
    };
    (0..ROWS).map(one).sum::<f64>() / ROWS as f64
}

/// Runs Adam with tensors as moments. The losses are kept in a list until the end.
async fn adam(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (x, y) = classes();
    let (x, y) = (up(&device, &x.data, &[ROWS, FEATURES])?, up(&device, &y, &[ROWS])?);
    let mut at = cut(&device, &small(FEATURES + 1, 127), &[&[FEATURES], &[]])?;
    let mut m: Vec<Tensor> = at.iter().map(Tensor::zeros_like).collect();
    let mut v = m.clone();
    let mut losses = Vec::new();
    for step in 1..=steps {
        let z = x.matmul(&at[0])? + &at[1];
        let loss = (z.softplus() - &y * &z).mean(())?;
        let gradients = loss.grad(&[&at[0], &at[1]])?;
        losses.push(loss);
        for (n, g) in gradients.iter().enumerate() {
            m[n] = &m[n] * 0.9 + g * 0.1;
            v[n] = &v[n] * 0.99 + g.square() * 0.01;
            let (m, v) = (
                &m[n] / (1.0 - 0.9f64.powi(step as i32)),
                &v[n] / (1.0 - 0.99f64.powi(step as i32)),
            );
            at[n] = &at[n] - m / (v.sqrt() + 1e-3) * 0.05;
        }
    }
    let mut reads = Reads::default();
    losses.iter().chain(&at).for_each(|tensor| reads.take(tensor));
    reads.all().await
}

fn adam_wanted(steps: usize) -> Vec<f64> {
    let mut at = small(FEATURES + 1, 127);
    let (mut m, mut v) = (vec![0.0; FEATURES + 1], vec![0.0; FEATURES + 1]);
    let mut losses = Vec::new();
    for step in 1..=steps as i32 {
        losses.push(entropy(&at));
        for (n, g) in slopes(&at, entropy).into_iter().enumerate() {
            m[n] = 0.9 * m[n] + 0.1 * g;
            v[n] = 0.99 * v[n] + 0.01 * g * g;
            let (m, v) = (m[n] / (1.0 - 0.9f64.powi(step)), v[n] / (1.0 - 0.99f64.powi(step)));
            at[n] -= 0.05 * m / (v.sqrt() + 1e-3);
        }
    }
    [losses, at].concat()
}

/// Runs momentum with a submission at the end of each step, and reads the loss at each fifth.
async fn momentum(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (x, y) = classes();
    let (x, y) = (up(&device, &x.data, &[ROWS, FEATURES])?, up(&device, &y, &[ROWS])?);
    let at = cut(&device, &small(FEATURES + 1, 128), &[&[FEATURES], &[]])?;
    let moves: Vec<Variable> = at.iter().map(|t| Variable::new(&t.zeros_like())).collect();
    let at: Vec<Variable> = at.iter().map(Variable::new).collect();
    let mut reads = Reads::default();
    for step in 0..steps {
        let z = x.matmul(&at[0].value())? + at[1].value();
        let loss = (z.softplus() - &y * &z).mean(())?;
        loss.backward(&[&at[0], &at[1]])?;
        for (at, moves) in at.iter().zip(&moves) {
            let gradient = at.take_gradient().expect("backward left one");
            moves.assign(&(moves.value() * 0.8 - gradient * 0.3))?;
            at.assign(&(at.value() + moves.value()))?;
        }
        device.submit()?;
        if is_read(step, 5) {
            reads.take(&loss);
        }
    }
    at.iter().for_each(|at| reads.take(&at.value()));
    reads.all().await
}

fn momentum_wanted(steps: usize) -> Vec<f64> {
    let mut at = small(FEATURES + 1, 128);
    let (mut moves, mut losses) = (vec![0.0; FEATURES + 1], Vec::new());
    for step in 0..steps {
        if is_read(step, 5) {
            losses.push(entropy(&at));
        }
        for (n, g) in slopes(&at, entropy).into_iter().enumerate() {
            moves[n] = 0.8 * moves[n] - 0.3 * g;
            at[n] += moves[n];
        }
    }
    [losses, at].concat()
}

fn batch(step: usize) -> Matrix {
    Matrix::new(BATCH, 3, &random(&[BATCH, 3], -1.0, 1.0, 130 + step as u32).data)
}

/// Trains on a new, normalized batch at each step, with a running mean that is not trained.
async fn normed(device: Device, steps: usize) -> Result<Vec<f64>> {
    let mut w = up(&device, &small(3, 129), &[3])?;
    let mut mean = device.zeros(&[3])?;
    let mut losses = Vec::new();
    for step in 0..steps {
        let x = up(&device, &batch(step).data, &[BATCH, 3])?;
        mean = &mean * 0.9 + x.mean(0)? * 0.1;
        let even = (&x - x.mean(0)?) / (x.var(0, 0.0)? + 1e-2).sqrt();
        let loss = (even.matmul(&w)?.sigmoid() - x.select(1, 0)?).square().mean(())?;
        let gradient = loss.grad(&[&w])?.remove(0);
        w = &w - gradient * 0.5;
        losses.push(loss);
    }
    let mut reads = Reads::default();
    reads.take(&Tensor::stack(&losses, 0)?);
    reads.take(&w);
    reads.take(&mean);
    reads.all().await
}

fn normed_wanted(steps: usize) -> Vec<f64> {
    let mut w = small(3, 129);
    let (mut mean, mut losses) = (vec![0.0; 3], Vec::new());
    for step in 0..steps {
        let x = batch(step);
        let mut even = x.clone();
        for (j, mean) in mean.iter_mut().enumerate() {
            let column: Vec<f64> = (0..BATCH).map(|i| x.at(i, j)).collect();
            let middle = column.iter().sum::<f64>() / BATCH as f64;
            let var = column.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / BATCH as f64;
            *mean = 0.9 * *mean + 0.1 * middle;
            for i in 0..BATCH {
                even.data[i * 3 + j] = (x.at(i, j) - middle) / (var + 1e-2).sqrt();
            }
        }
        let loss = |w: &[f64]| {
            let one = |i: usize| (sigmoid(dot(even.row(i), w)) - x.at(i, 0)).powi(2);
            (0..BATCH).map(one).sum::<f64>() / BATCH as f64
        };
        losses.push(loss(&w));
        let gradient = slopes(&w, loss);
        w.iter_mut().zip(gradient).for_each(|(w, g)| *w -= 0.5 * g);
    }
    [losses, w, mean].concat()
}

/// The sequences that are trained at once, and the numbers of each step.
const SEQUENCES: usize = 2;
const STATE: usize = 6;

/// Returns two weights, a bias and the inputs of all steps.
fn sequence_data(steps: usize) -> [Vec<f64>; 4] {
    [
        random(&[STATE, STATE], -0.5, 0.5, 211).data,
        random(&[STATE, STATE], -0.5, 0.5, 212).data,
        random(&[STATE], -0.5, 0.5, 213).data,
        random(&[steps, SEQUENCES, STATE], -1.0, 1.0, 214).data,
    ]
}

/// Runs a recurrent network whose inputs are slices of one tensor. Returns its loss, and the gradients by all inputs and
/// parameters.
async fn sequence(device: Device, steps: usize) -> Result<Vec<f64>> {
    let [w, u, b, x] = sequence_data(steps);
    let (w, u) = (up(&device, &w, &[STATE, STATE])?, up(&device, &u, &[STATE, STATE])?);
    let (b, x) = (up(&device, &b, &[STATE])?, up(&device, &x, &[steps, SEQUENCES, STATE])?);
    let mut h = device.zeros(&[SEQUENCES, STATE])?;
    let mut states = Vec::new();
    for step in 0..steps {
        h = (x.select(0, step as isize)?.matmul(&w)? + h.matmul(&u)? + &b).tanh();
        states.push(h.clone());
    }
    let loss = Tensor::stack(&states, 0)?.square().mean(())?;
    let mut reads = Reads::default();
    reads.take(&loss);
    for gradient in loss.grad(&[&w, &u, &b, &x])? {
        reads.take(&gradient);
    }
    reads.all().await
}

/// Computes backpropagation through time (Werbos 1990), written out.
fn sequence_wanted(steps: usize) -> Vec<f64> {
    let [w, u, b, x] = sequence_data(steps);
    let (w, u) = (Matrix::new(STATE, STATE, &w), Matrix::new(STATE, STATE, &u));
    let inputs: Vec<Matrix> =
        x.chunks(SEQUENCES * STATE).map(|x| Matrix::new(SEQUENCES, STATE, x)).collect();
    let mut states = vec![Matrix::new(SEQUENCES, STATE, &[0.0; SEQUENCES * STATE])];
    for (step, x) in inputs.iter().enumerate() {
        let sum = x.times(&w).with(&states[step].times(&u), |a, b| a + b);
        states.push(Matrix::from_fn(SEQUENCES, STATE, |i, j| (sum.at(i, j) + b[j]).tanh()));
    }
    let count = (steps * SEQUENCES * STATE) as f64;
    let loss = states.iter().flat_map(|h| &h.data).map(|h| h * h).sum::<f64>() / count;
    let zero = Matrix::new(STATE, STATE, &[0.0; STATE * STATE]);
    let (mut by_w, mut by_u, mut by_b) = (zero.clone(), zero, vec![0.0; STATE]);
    let mut by_x = vec![Vec::new(); steps];
    // The gradient by a state, from the following steps.
    let mut later = Matrix::new(SEQUENCES, STATE, &[0.0; SEQUENCES * STATE]);
    for step in (0..steps).rev() {
        let h = &states[step + 1];
        let by_h = h.with(&later, |h, later| 2.0 * h / count + later);
        let by_sum = by_h.with(h, |g, h| g * (1.0 - h * h));
        by_w = by_w.with(&inputs[step].turned().times(&by_sum), |a, b| a + b);
        by_u = by_u.with(&states[step].turned().times(&by_sum), |a, b| a + b);
        (0..SEQUENCES).for_each(|i| by_b.iter_mut().zip(by_sum.row(i)).for_each(|(b, g)| *b += g));
        by_x[step] = by_sum.times(&w.turned()).data;
        later = by_sum.times(&u.turned());
    }
    [vec![loss], by_w.data, by_u.data, by_b, by_x.concat()].concat()
}
