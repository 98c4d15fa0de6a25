//! Inference of models, and simulations in continuous time.

use super::plain::{dot, largest, slopes, softmax, zip, Matrix};
use super::{program, up, Program, Reads};
use crate::shared::array::random;
use warpweft::device::{Device, Preference};
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{AttentionOptions, Axes, Tensor, Variable};

pub fn programs() -> Vec<Program> {
    vec![
        program("decoding with a cache", 6, 1e-4, decode, decode_wanted),
        program("decoding with a cache written in place", 6, 1e-4, in_place, decode_wanted),
        program("decoding with a growing cache", 6, 1e-4, grow, decode_wanted),
        program("beam search", 5, 1e-4, beams, beams_wanted),
        program("encoder with 50 lengths", 50, 1e-4, encoder, encoder_wanted),
        program("neural ODE", 6, 1e-3, ode, ode_wanted),
        program("a thousand particles", 20, 1e-4, particles, particles_wanted),
        program("two devices", 4, 1e-4, two, two_wanted),
    ]
}

const D: usize = 8;
const WORDS: usize = 12;
/// The most words that are decoded.
const LONG: usize = 32;

/// Returns embeddings, and the matrices of queries, keys, values and words.
fn decoder() -> [Matrix; 5] {
    let of = |rows: usize, columns: usize, seed: u32| {
        Matrix::new(rows, columns, &random(&[rows, columns], -1.0, 1.0, seed).data)
    };
    [of(WORDS, D, 91), of(D, D, 92), of(D, D, 93), of(D, D, 94), of(D, WORDS, 95)]
}

fn uploaded(device: &Device) -> Result<Vec<Tensor>> {
    let one = |m: &Matrix| up(device, &m.data, &[m.rows, m.columns]);
    decoder().iter().map(one).collect()
}

/// Returns the position term that is added to an embedding.
fn placed(step: usize) -> f64 {
    0.1 * step as f64
}

/// Returns the next word and the scores of all words, from the cached keys and values.
fn spoken(query: &Tensor, keys: &Tensor, values: &Tensor, words: &Tensor) -> Result<[Tensor; 2]> {
    let weights = (keys.matmul(query)? / (D as f64).sqrt()).softmax(0)?;
    let out = weights.matmul(values)?.matmul(words)?;
    Ok([out.argmax(())?, out])
}

/// Decodes with a cache that has room for all positions. Each step writes its position by a comparison.
async fn decode(device: Device, steps: usize) -> Result<Vec<f64>> {
    let [embedding, q, k, v, words] = &uploaded(&device)?[..] else { unreachable!("five") };
    let place = device.iota(&[LONG, 1], 0)?;
    let (mut keys, mut values) = (device.zeros(&[LONG, D])?, device.zeros(&[LONG, D])?);
    let mut word = device.tensor(&[3i32], &[1])?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let x = embedding.index_select(0, &word)?.reshape([D])? + placed(step);
        let here = place.eq(step)?;
        keys = here.where_cond(x.matmul(k)?, &keys)?;
        values = here.where_cond(x.matmul(v)?, &values)?;
        let hidden = place.gt(step)?.cast(DType::F32)?.reshape([LONG])? * -1e9;
        let scores = keys.matmul(&x.matmul(q)?)? / (D as f64).sqrt() + hidden;
        let out = scores.softmax(0)?.matmul(&values)?.matmul(words)?;
        word = out.argmax(())?.reshape([1])?;
        reads.take(&word);
        reads.take(&out.max(())?);
    }
    reads.all().await
}

/// Decodes with a cache in variables. Each step writes its position, and reads the positions so far.
async fn in_place(device: Device, steps: usize) -> Result<Vec<f64>> {
    let [embedding, q, k, v, words] = &uploaded(&device)?[..] else { unreachable!("five") };
    let cache = || Ok(Variable::new(&device.zeros(&[1, 1, LONG, D])?));
    let (keys, values) = (cache()?, cache()?);
    let mut word = device.tensor(&[3i32], &[1])?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let x = embedding.index_select(0, &word)? + placed(step);
        let row = |m: &Tensor| x.matmul(m)?.reshape([1, 1, 1, D]);
        keys.assign_slice(2, step as isize, &row(k)?)?;
        values.assign_slice(2, step as isize, &row(v)?)?;
        let options = AttentionOptions { kv_length: Some(step + 1), ..Default::default() };
        let mixed = row(q)?.attention(&keys.value(), &values.value(), options)?;
        let out = mixed.reshape([D])?.matmul(words)?;
        word = out.argmax(())?.reshape([1])?;
        reads.take(&word);
        reads.take(&out.max(())?);
    }
    reads.all().await
}

/// Decodes with a cache that grows at each step.
async fn grow(device: Device, steps: usize) -> Result<Vec<f64>> {
    let [embedding, q, k, v, words] = &uploaded(&device)?[..] else { unreachable!("five") };
    let mut cache: Option<(Tensor, Tensor)> = None;
    let mut word = device.tensor(&[3i32], &[1])?;
    let mut reads = Reads::default();
    for step in 0..steps {
        let x = embedding.index_select(0, &word)? + placed(step);
        let (key, value) = (x.matmul(k)?, x.matmul(v)?);
        let (keys, values) = match &cache {
            Some((keys, values)) => {
                (Tensor::concat(&[keys, &key], 0)?, Tensor::concat(&[values, &value], 0)?)
            }
            None => (key, value),
        };
        let query = x.matmul(q)?.reshape([D])?;
        let [next, out] = spoken(&query, &keys, &values, words)?;
        cache = Some((keys, values));
        word = next.reshape([1])?;
        reads.take(&word);
        reads.take(&out.max(())?);
    }
    reads.all().await
}

fn decode_wanted(steps: usize) -> Vec<f64> {
    let [embedding, q, k, v, words] = decoder().map(|m| m.turned());
    let embedding = embedding.turned();
    let (mut keys, mut values, mut word, mut read) = (Vec::new(), Vec::new(), 3, Vec::new());
    for step in 0..steps {
        let x: Vec<f64> = embedding.row(word).iter().map(|e| e + placed(step)).collect();
        keys.extend(k.on(&x));
        values.extend(v.on(&x));
        let seen = Matrix::new(step + 1, D, &keys);
        let scores: Vec<f64> = seen.on(&q.on(&x)).iter().map(|s| s / (D as f64).sqrt()).collect();
        let mixed = Matrix::new(step + 1, D, &values).turned().on(&softmax(&scores));
        let out = words.on(&mixed);
        word = largest(&out);
        read.extend([word as f64, out[word]]);
    }
    read
}

const BEAMS: usize = 3;

/// Returns the log-probabilities that a word follows another.
fn follows() -> Matrix {
    let m = Matrix::new(WORDS, WORDS, &random(&[WORDS, WORDS], -2.0, 2.0, 96).data);
    Matrix::from_fn(WORDS, WORDS, |i, j| f64::from(softmax(m.row(i))[j].ln() as f32))
}

/// Searches the most likely sentences with a beam. Returns their likelihoods, and the predecessor of each word.
async fn beams(device: Device, steps: usize) -> Result<Vec<f64>> {
    let follows = up(&device, &follows().data, &[WORDS, WORDS])?;
    let mut scores = up(&device, &[0.0, -1.0, -2.0], &[BEAMS])?;
    let mut ends = device.tensor(&[0i32, 1, 2], &[BEAMS])?;
    let mut chosen = Vec::new();
    for _ in 0..steps {
        let all = scores.unsqueeze(1)? + follows.index_select(0, &ends)?;
        let (best, at) = all.ravel().topk(BEAMS, 0, true)?;
        let from = at.floor_divide(WORDS)?;
        ends = at.sub(from.mul(WORDS)?)?;
        scores = best;
        chosen.push(from);
    }
    let mut reads = Reads::default();
    reads.take(&scores);
    reads.take(&ends);
    reads.take(&Tensor::stack(&chosen, 0)?);
    reads.all().await
}

fn beams_wanted(steps: usize) -> Vec<f64> {
    let follows = follows();
    let (mut scores, mut ends) = (vec![0.0, -1.0, -2.0], vec![0, 1, 2]);
    let mut chosen = Vec::new();
    for _ in 0..steps {
        let mut all = Vec::new();
        for beam in 0..BEAMS {
            for word in 0..WORDS {
                all.push((scores[beam] + follows.at(ends[beam], word), beam, word));
            }
        }
        all.sort_by(|a, b| b.0.total_cmp(&a.0));
        scores = all.iter().take(BEAMS).map(|best| best.0).collect();
        ends = all.iter().take(BEAMS).map(|best| best.2).collect();
        chosen.extend(all.iter().take(BEAMS).map(|best| best.1 as f64));
    }
    [scores, ends.iter().map(|&end| end as f64).collect(), chosen].concat()
}

/// Returns a length. Each length from 1 to 50 occurs, and then again.
fn long(step: usize) -> usize {
    1 + (7 * step) % 50
}

fn sentence(step: usize) -> Matrix {
    let shape = [long(step), D];
    Matrix::new(shape[0], shape[1], &random(&shape, -1.0, 1.0, 1000 + step as u32).data)
}

/// Encodes one sentence at each step: a layer of attention, a dense layer, and the mean.
async fn encoder(device: Device, steps: usize) -> Result<Vec<f64>> {
    let [_, q, k, v, _] = &uploaded(&device)?[..] else { unreachable!("five") };
    let mut reads = Reads::default();
    for step in 0..steps {
        let x = up(&device, &sentence(step).data, &[long(step), D])?;
        let scores = x.matmul(q)?.matmul(&x.matmul(k)?.transpose(0, 1)?)? / (D as f64).sqrt();
        let mixed = scores.softmax(-1)?.matmul(&x.matmul(v)?)?;
        reads.take(&(mixed + x).tanh().mean(0)?);
    }
    reads.all().await
}

fn encoder_wanted(steps: usize) -> Vec<f64> {
    let [_, q, k, v, _] = decoder();
    let mut read = Vec::new();
    for step in 0..steps {
        let x = sentence(step);
        let scores = x.times(&q).times(&x.times(&k).turned()).map(|s| s / (D as f64).sqrt());
        let rows: Vec<f64> = (0..x.rows).flat_map(|i| softmax(scores.row(i))).collect();
        let mixed = Matrix::new(x.rows, x.rows, &rows).times(&x.times(&v));
        let out = mixed.with(&x, |m, x| (m + x).tanh());
        read.extend((0..D).map(|j| (0..x.rows).map(|i| out.at(i, j)).sum::<f64>() / x.rows as f64));
    }
    read
}

const FIELD: usize = 3;

fn field() -> (Vec<f64>, Vec<f64>) {
    let w = random(&[FIELD, FIELD], -1.0, 1.0, 97).data;
    (w, random(&[FIELD], -1.0, 1.0, 98).data)
}

/// Integrates a field that a layer defines with Runge-Kutta steps. Returns the end, and its gradient by the layer. All steps
/// are one plan.
async fn ode(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (w, x) = field();
    let (w, mut x) = (up(&device, &w, &[FIELD, FIELD])?, up(&device, &x, &[FIELD])?);
    let moves = |x: &Tensor| -> Result<Tensor> { Ok(w.matmul(x)?.tanh()) };
    for _ in 0..steps {
        let a = moves(&x)?;
        let b = moves(&(&x + &a * 0.05))?;
        let c = moves(&(&x + &b * 0.05))?;
        let d = moves(&(&x + &c * 0.1))?;
        x = &x + (a + b * 2.0 + c * 2.0 + d) * (0.1 / 6.0);
    }
    let loss = x.square().sum(())?;
    let gradient = loss.grad(&[&w])?.remove(0);
    let mut batch = device.batch();
    batch.add(&x)?.add(&gradient)?.run()?;
    let mut reads = Reads::default();
    reads.take(&x);
    reads.take(&gradient);
    reads.all().await
}

fn moved(w: &[f64], steps: usize) -> Vec<f64> {
    let w = Matrix::new(FIELD, FIELD, w);
    let moves = |x: &[f64]| -> Vec<f64> { w.on(x).iter().map(|v| v.tanh()).collect() };
    let further = |x: &[f64], v: &[f64], t: f64| zip(x, v, |x, v| x + t * v);
    let mut x = field().1;
    for _ in 0..steps {
        let a = moves(&x);
        let b = moves(&further(&x, &a, 0.05));
        let c = moves(&further(&x, &b, 0.05));
        let d = moves(&further(&x, &c, 0.1));
        x = (0..FIELD).map(|i| x[i] + (a[i] + 2.0 * b[i] + 2.0 * c[i] + d[i]) / 60.0).collect();
    }
    x
}

fn ode_wanted(steps: usize) -> Vec<f64> {
    let gradient = slopes(&field().0, |w| {
        let x = moved(w, steps);
        dot(&x, &x)
    });
    [moved(&field().0, steps), gradient].concat()
}

const MANY: usize = 1000;

fn cloud() -> (Vec<f64>, Vec<f64>) {
    (random(&[MANY, 3], -1.0, 1.0, 99).data, random(&[MANY, 3], -0.5, 0.5, 100).data)
}

/// Simulates particles with springs to their center, drag, and a soft floor. Reads the energy at every tenth step.
async fn particles(device: Device, steps: usize) -> Result<Vec<f64>> {
    let (x, v) = cloud();
    let (mut x, mut v) = (up(&device, &x, &[MANY, 3])?, up(&device, &v, &[MANY, 3])?);
    let mut reads = Reads::default();
    for step in 0..steps {
        let middle = x.mean(Axes::from(0).keepdim(true))?;
        let below = (-0.5 - &x).relu() * 20.0;
        let force = (&middle - &x) * 2.0 - &v * 0.3 + below;
        v = &v + force * 0.02;
        x = &x + &v * 0.02;
        if step % 10 == 9 {
            reads.take(&v.square().sum(1)?.mean(())?);
        }
    }
    reads.take(&x.slice(0, ..20)?);
    reads.all().await
}

fn particles_wanted(steps: usize) -> Vec<f64> {
    let (mut x, mut v) = cloud();
    let mut read = Vec::new();
    for step in 0..steps {
        let mut middle = [0.0; 3];
        x.iter().enumerate().for_each(|(n, x)| middle[n % 3] += x / MANY as f64);
        for n in 0..x.len() {
            let below = 20.0 * (-0.5 - x[n]).max(0.0);
            v[n] += 0.02 * (2.0 * (middle[n % 3] - x[n]) - 0.3 * v[n] + below);
        }
        x = zip(&x, &v, |x, v| x + 0.02 * v);
        if step % 10 == 9 {
            read.push(dot(&v, &v) / MANY as f64);
        }
    }
    [read, x[..60].to_vec()].concat()
}

/// Alternates between two devices. The next step has to wait for each move.
async fn two(device: Device, steps: usize) -> Result<Vec<f64>> {
    let other = Device::with(Preference::Cpu).await?;
    let w = random(&[D, D], -0.5, 0.5, 101).data;
    let (here, there) = (up(&device, &w, &[D, D])?, up(&other, &w, &[D, D])?);
    let mut x = device.ones(&[D])?;
    let mut reads = Reads::default();
    for _ in 0..steps {
        let y = here.matmul(&x)?.tanh().to(&other).await?;
        let z = there.matmul(&y)? + 0.5;
        reads.take(&z.sum(())?);
        x = z.to(&device).await?;
    }
    reads.take(&x);
    reads.all().await
}

fn two_wanted(steps: usize) -> Vec<f64> {
    let w = Matrix::new(D, D, &random(&[D, D], -0.5, 0.5, 101).data);
    let (mut x, mut read) = (vec![1.0; D], Vec::new());
    for _ in 0..steps {
        let y: Vec<f64> = w.on(&x).iter().map(|v| v.tanh()).collect();
        x = w.on(&y).iter().map(|v| v + 0.5).collect();
        read.push(x.iter().sum());
    }
    [read, x].concat()
}
