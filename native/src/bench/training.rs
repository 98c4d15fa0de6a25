//! What a step of training costs: forward, backward and Adam's update, the loss read in each; beside PyTorch where there is a
//! Python that has it.

use super::peers::Python;
use super::programs::median;
use super::progress;
use super::table::plain;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::nn::{
    Conv2d, CrossEntropyOptions, Embedding, Generator, Layer, Linear, Lstm, Module,
    RecurrentOptions, Sequential, TransformerEncoderLayer, TransformerOptions,
};
use crate::optim::{Adam, Optimizer};
use crate::tensor::{ConvOptions, Padding, PoolOptions, Tensor};
use crate::{DeviceSync, TensorSync};
use std::time::{Duration, Instant};

const SCRIPT: &str = include_str!("training.py");

/// The models, and how many examples a step has.
const MODELS: [(&str, &str); 5] = [
    ("mlp-64", "784 -> 512 -> 256 -> 10, 64 examples"),
    ("mlp-512", "the same, 512 examples"),
    ("cnn-64", "two convolutions and two dense layers on 28 x 28, 64 examples"),
    ("lstm-32", "LSTM of 128 over 100 steps, 32 examples"),
    ("transformer-8", "4 layers of width 256, 128 tokens, 8 examples"),
];

/// A model, an input and the classes it is to learn.
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

/// A step, and its loss.
fn step(work: &Work, optimizer: &mut Optimizer) -> Result<(Duration, f32)> {
    let start = Instant::now();
    let scores = work.model.forward(&work.x)?;
    let loss = scores.cross_entropy(&work.y, None, CrossEntropyOptions::default())?;
    optimizer.minimize(&loss)?;
    let loss = loss.item_sync::<f32>()?;
    Ok((start.elapsed(), loss))
}

/// Times each model's steps; the medians, as a table.
///
/// # Errors
/// Those of the device; `Data` if a loss does not fall, or the Python does not answer.
pub fn measure(device: &Device, runs: usize, torch: Option<&str>) -> Result<String> {
    let mut python = torch.map(|path| Python::new(path, SCRIPT)).transpose()?;
    let header =
        ["model", "ms a step", "first", "submits", "kernels", "peak MB", "PyTorch", "ratio"];
    let mut table = plain(&header, 8);
    let bar = progress(MODELS.len());
    for (name, about) in MODELS {
        bar.set_message(name);
        table.add_row(row(device, runs, (name, about), python.as_mut())?);
        device.trim();
        bar.inc(1);
    }
    bar.finish_and_clear();
    let info = device.info();
    Ok(format!("{} ({})\n\n{table}\n", info.name, info.backend))
}

/// One model. What is new in the first steps is not timed: variables are read from the second on, plans known from the third.
fn row(
    device: &Device,
    runs: usize,
    (name, about): (&str, &str),
    mut python: Option<&mut Python>,
) -> Result<[String; 8]> {
    const WARM: usize = 4;
    let work = make(device, name)?;
    let mut optimizer = Optimizer::new(Adam::new(1e-4), &work.model.parameters())?;
    device.wait()?;
    let (first, begun) = step(&work, &mut optimizer)?;
    for _ in 1..WARM {
        step(&work, &mut optimizer)?;
    }
    if let Some(python) = &mut python {
        python.ask(&format!("new {name}"))?;
        (0..WARM).try_for_each(|_| python.ask("step").map(drop))?;
    }
    let (mut ours, mut theirs, mut last) = (Vec::new(), Vec::new(), begun);
    let before = device.stats();
    for _ in 0..runs {
        let (time, loss) = step(&work, &mut optimizer)?;
        ours.push(time);
        last = loss;
        if let Some(python) = &mut python {
            theirs.push(Duration::from_secs_f64(python.ask("step")?));
        }
    }
    let after = device.stats();
    if last.is_nan() || last >= begun {
        return Err(Error::data(format!("bench: {name}: the loss went from {begun} to {last}")));
    }
    let each = |now: u64, then: u64| format!("{:.1}", (now - then) as f64 / runs as f64);
    let ms = median(ours);
    let (peer, ratio) = match theirs.is_empty() {
        true => (String::new(), String::new()),
        false => {
            let peer = median(theirs);
            (format!("{peer:.2}"), format!("{:.2}", peer / ms))
        }
    };
    Ok([
        format!("{name}: {about}"),
        format!("{ms:.2}"),
        format!("{:.0}", first.as_secs_f64() * 1e3),
        each(after.submits, before.submits),
        each(after.kernels, before.kernels),
        format!("{:.1}", after.peak_bytes as f64 / 1e6),
        peer,
        ratio,
    ])
}
