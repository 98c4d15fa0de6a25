//! The benchmark of training steps: forward, backward and Adam's update, with a read of the loss in each step. Peers are
//! PyTorch, if a Python has it, and the libraries of another program (`native/peers`: burn and candle).

use super::peers::{python, Program};
use super::programs::median;
use super::progress;
use super::table::plain;
use crate::backend::DeviceKind;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::nn::{
    Conv2d, CrossEntropyOptions, Embedding, Generator, Layer, Linear, Lstm, Module,
    RecurrentOptions, Sequential, TransformerEncoderLayer, TransformerOptions,
};
use crate::optim::{Adam, Optimizer};
use crate::tensor::{ConvOptions, Padding, PoolOptions, Tensor};
use crate::{DeviceBlocking, TensorBlocking};
use std::process::Command;
use std::time::{Duration, Instant};

const SCRIPT: &str = include_str!("training.py");

/// The models, and the number of examples in a step.
const MODELS: [(&str, &str); 5] = [
    ("mlp-64", "784 -> 512 -> 256 -> 10, 64 examples"),
    ("mlp-512", "the same, 512 examples"),
    ("cnn-64", "two convolutions and two dense layers on 28 x 28, 64 examples"),
    ("lstm-32", "LSTM of 128 over 100 steps, 32 examples"),
    ("transformer-8", "4 layers of width 256, 128 tokens, 8 examples"),
];

/// A model with an input and the classes that it learns.
struct Work {
    model: Sequential,
    x: Tensor,
    y: Tensor,
}

fn relu(x: &Tensor) -> Result<Tensor> {
    Ok(x.relu())
}

fn mlp(generator: &Generator) -> Result<Sequential> {
    Ok(Sequential::new()
        .push(Linear::new(generator, 784, 512)?)
        .push(relu)
        .push(Linear::new(generator, 512, 256)?)
        .push(relu)
        .push(Linear::new(generator, 256, 10)?))
}

fn cnn(generator: &Generator) -> Result<Sequential> {
    let same = ConvOptions { padding: Padding::Same, ..ConvOptions::default() };
    let pool = |x: &Tensor| x.max_pool(PoolOptions::new([2, 2]));
    Ok(Sequential::new()
        .push(Conv2d::new(generator, 1, 16, [3, 3], same)?)
        .push(relu)
        .push(pool)
        .push(Conv2d::new(generator, 16, 32, [3, 3], same)?)
        .push(relu)
        .push(pool)
        .push(|x: &Tensor| x.flatten(1..))
        .push(Linear::new(generator, 32 * 49, 128)?)
        .push(relu)
        .push(Linear::new(generator, 128, 10)?))
}

fn lstm(generator: &Generator) -> Result<Sequential> {
    Ok(Sequential::new()
        .push(Lstm::new(generator, 64, 128, RecurrentOptions::default())?)
        .push(|x: &Tensor| x.select(1, -1))
        .push(Linear::new(generator, 128, 10)?))
}

fn transformer(generator: &Generator) -> Result<Sequential> {
    let options = TransformerOptions { dim_feedforward: 1024, dropout: 0.0, ..Default::default() };
    let mut model = Sequential::new().push(Embedding::new(generator, 256, 256)?);
    for _ in 0..4 {
        model = model.push(TransformerEncoderLayer::new(generator, 256, 4, options)?);
    }
    Ok(model.push(Linear::new(generator, 256, 256)?).push(|x: &Tensor| x.flatten(0..2)))
}

fn make(device: &Device, name: &str) -> Result<Work> {
    let generator = Generator::new(device, 0);
    let (kind, batch) = name.split_once('-').unwrap_or((name, "1"));
    let batch: usize = batch.parse().unwrap_or(1);
    let counted = |count: usize, step: i32, classes: i32| {
        device.arange(count as f64)?.cast(DType::I32)?.mul(step)?.remainder(classes)
    };
    let noise = |shape: &[usize]| device.normal(shape, 0.0, 1.0, 1);
    let (model, x) = match kind {
        "mlp" => (mlp(&generator)?, noise(&[batch, 784])?),
        "cnn" => (cnn(&generator)?, noise(&[batch, 1, 28, 28])?),
        "lstm" => (lstm(&generator)?, noise(&[batch, 100, 64])?),
        _ => {
            let text = counted(batch * 128, 7, 256)?;
            let y = text.add(1)?.remainder(256)?;
            return Ok(Work {
                model: transformer(&generator)?,
                x: text.reshape(&[batch, 128])?,
                y,
            });
        }
    };
    Ok(Work { model, x, y: counted(batch, 1, 10)? })
}

/// Runs a step. Returns its time and its loss.
fn step(work: &Work, optimizer: &mut Optimizer) -> Result<(Duration, f32)> {
    let start = Instant::now();
    let scores = work.model.forward(&work.x)?;
    let loss = scores.cross_entropy(&work.y, CrossEntropyOptions::default())?;
    optimizer.minimize(&loss)?;
    let loss = loss.item_blocking::<f32>()?;
    Ok((start.elapsed(), loss))
}

/// Starts the peers: PyTorch, if a Python has it, and the peers of a program.
///
/// # Errors
/// If they cannot be started.
pub fn peers(kind: DeviceKind, torch: Option<&str>, program: Option<&str>) -> Result<Vec<Program>> {
    let mut peers = Vec::new();
    if let Some(path) = torch {
        peers.extend(Program::listed(|| python(path, SCRIPT), kind)?);
    }
    if let Some(path) = program {
        peers.extend(Program::listed(|| Command::new(path), kind)?);
    }
    Ok(peers)
}

/// A participant that trains a model, with the time of each step.
struct Learner<'a> {
    name: String,
    step: Box<dyn FnMut() -> Result<(Duration, f32)> + 'a>,
    first: Duration,
    times: Vec<Duration>,
    losses: [f32; 2],
}

impl<'a> Learner<'a> {
    /// Runs the first steps, which are not timed. Variables are read from the second step on, and plans are cached from the
    /// third step on.
    fn new(
        name: String,
        mut step: impl FnMut() -> Result<(Duration, f32)> + 'a,
    ) -> Result<Learner<'a>> {
        let (first, loss) = step()?;
        (1..4).try_for_each(|_| step().map(drop))?;
        let step = Box::new(step);
        Ok(Learner { name, step, first, times: Vec::new(), losses: [loss; 2] })
    }

    /// Creates a participant from another program that trains the same model.
    fn other(peer: &'a mut Program, model: &str, parameters: usize) -> Result<Learner<'a>> {
        let name = format!("{}: {model}", peer.name);
        let [count] = peer.ask(&format!("new {model}"))?;
        if count != parameters as f64 {
            let why = format!("bench: {name} must have {parameters} parameters, got {count}");
            return Err(Error::format(why));
        }
        Learner::new(name, move || {
            let [seconds, loss] = peer.ask("step")?;
            Ok((Duration::from_secs_f64(seconds), loss as f32))
        })
    }

    fn turn(&mut self) -> Result<()> {
        let (time, loss) = (self.step)()?;
        self.times.push(time);
        self.losses[1] = loss;
        Ok(())
    }

    /// Returns the median of a step in milliseconds, or an error if the loss does not decrease.
    fn median(self) -> Result<f64> {
        let [begun, last] = self.losses;
        if last.is_nan() || last >= begun {
            let why = format!("bench: {} must lower the loss from {begun}, got {last}", self.name);
            return Err(Error::state(why));
        }
        Ok(median(self.times))
    }
}

/// Returns the result of a peer. Prints the error of a peer that fails, which the table also marks.
fn ok_or_print<T>(result: Result<T>) -> Option<T> {
    result.inspect_err(|error| eprintln!("{error}")).ok()
}

/// Times each model's steps, and returns the medians as a table.
///
/// # Errors
/// The errors of the device. `InvalidState` if a loss does not decrease.
pub fn measure(device: &Device, runs: usize, peers: &mut [Program]) -> Result<String> {
    let beside: Vec<String> =
        peers.iter().map(|peer| format!("{}: ms (ratio)", peer.name)).collect();
    let mut header = vec!["model", "ms a step", "first", "submits", "kernels", "peak MB"];
    header.extend(beside.iter().map(String::as_str));
    let mut table = plain(&header, header.len());
    let bar = progress(MODELS.len());
    for (name, about) in MODELS {
        bar.set_message(name);
        table.add_row(row(device, runs, (name, about), peers)?);
        device.trim();
        bar.inc(1);
    }
    bar.finish_and_clear();
    let info = device.info();
    Ok(format!("{} ({})\n\n{table}\n", info.name, info.backend))
}

/// Times one model with all participants in turns.
fn row(
    device: &Device,
    runs: usize,
    (name, about): (&str, &str),
    peers: &mut [Program],
) -> Result<Vec<String>> {
    let work = make(device, name)?;
    let parameters = work.model.parameter_count();
    let mut optimizer = Optimizer::new(Adam::new(1e-4), &work.model.parameters())?;
    device.synchronize_blocking()?;
    let mut own = Learner::new(name.into(), || step(&work, &mut optimizer))?;
    let other = |peer| ok_or_print(Learner::other(peer, name, parameters));
    let mut others: Vec<Option<Learner>> = peers.iter_mut().map(other).collect();
    let before = device.stats();
    for _ in 0..runs {
        own.turn()?;
        for other in &mut others {
            *other = other.take().and_then(|mut other| ok_or_print(other.turn().map(|()| other)));
        }
    }
    let after = device.stats();
    let each = |now: u64, then: u64| format!("{:.1}", (now - then) as f64 / runs as f64);
    let first = own.first.as_secs_f64() * 1e3;
    let ms = own.median()?;
    let mut row = vec![
        format!("{name}: {about}"),
        format!("{ms:.2}"),
        format!("{first:.0}"),
        each(after.submits, before.submits),
        each(after.kernels, before.kernels),
        format!("{:.1}", after.peak_bytes as f64 / 1e6),
    ];
    row.extend(others.into_iter().map(|other| {
        match other.and_then(|other| ok_or_print(other.median())) {
            Some(peer) => format!("{peer:.2} ({:.2})", peer / ms),
            None => "-".into(),
        }
    }));
    Ok(row)
}
