//! The benchmark of language models: the speed of prompts and of generated tokens, compared with llama.cpp. It also measures
//! each kernel's share in a token's time, and products with packed matrices of each format.

use super::peers::{python, Program};
use super::programs::median;
use super::progress;
use super::table::plain;
use super::Options;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::model::{Context, LanguageModel, LoadOptions};
use crate::profile::{KernelProfile, Phase};
use crate::tensor::PackedFormat;
use crate::tensor::PackedTensor;
use crate::DeviceBlocking;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

const LLAMA: &str = include_str!("llama.py");

/// The number of tokens that are generated in a measurement.
const TOKENS: usize = 32;

/// The measurements: the name, whether tokens are added one by one, the tokens before the clock starts, and the timed tokens.
const WORK: [(&str, bool, usize, usize); 4] = [
    ("prompt of 128", false, 0, 128),
    ("prompt of 512", false, 0, 512),
    ("tokens from 0 on", true, 0, TOKENS),
    ("tokens from 512 on", true, 512, TOKENS),
];

/// Returns the n-th token of a meaningless text.
fn token(n: usize) -> u32 {
    (n * 37 % 1000 + 10) as u32
}

fn tokens(first: usize, count: usize) -> Vec<u32> {
    (first..first + count).map(token).collect()
}

/// Returns the time of a measurement, including the logits of each step.
fn run(context: &mut Context, singly: bool, first: usize, count: usize) -> Result<Duration> {
    let device = context.model().device().clone();
    context.truncate(0);
    if first > 0 {
        context.add(&tokens(0, first))?.run()?;
        device.synchronize_blocking()?;
    }
    let start = Instant::now();
    let new = tokens(first, count);
    for part in new.chunks(if singly { 1 } else { count }) {
        context.add(part)?.run()?;
        device.synchronize_blocking()?;
    }
    Ok(start.elapsed())
}

/// Times a model, in turns with llama.cpp if requested. Returns the medians as a table.
///
/// # Errors
/// If the file is not a model, or the device or the peer fails.
pub fn measure(device: &Device, path: &Path, options: &Options) -> Result<String> {
    let (peer, runs, arithmetic) =
        (options.llama.as_deref(), options.runs.get(), options.arithmetic);
    let file = File::open(path).map_err(|error| {
        Error::argument(format!("{}: the file must be readable, got {error}", path.display()))
    })?;
    let load = LoadOptions { context: Some(1024), arithmetic, ..LoadOptions::default() };
    let model = LanguageModel::load(device, BufReader::new(file), load)?;
    let mut llama = match peer {
        None => None,
        Some(python_path) => {
            let mut command = python(python_path, LLAMA);
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            command.arg(path).arg(threads.to_string());
            Some(Program::new("llama.cpp", command)?)
        }
    };
    let mut context = model.context()?;
    let mut table = plain(&["work", "tokens/s", "llama.cpp", "ratio"], 4);
    let bar = progress(WORK.len());
    for (name, singly, first, count) in WORK {
        bar.set_message(name);
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first run compiles, so it is not counted.
        for number in 0..=runs {
            let took = run(&mut context, singly, first, count)?;
            let word = if singly { "tokens" } else { "prompt" };
            let asked = llama.as_mut().map(|llama| llama.ask(&format!("{word} {first} {count}")));
            if number > 0 {
                ours.push(took);
                theirs.extend(asked.transpose()?.map(|[took]| Duration::from_secs_f64(took)));
            }
        }
        let per_second = |times| count as f64 / median(times) * 1e3;
        let (ours, theirs) = (per_second(ours), (!theirs.is_empty()).then(|| per_second(theirs)));
        let cells = [Some(ours), theirs].map(|x| x.map_or(String::new(), |x| format!("{x:.1}")));
        let ratio = theirs.map_or(String::new(), |theirs| format!("{:.2}", ours / theirs));
        table.add_row([name.to_string()].into_iter().chain(cells).chain([ratio]));
        bar.inc(1);
    }
    bar.finish_and_clear();
    let (name, about) = (path.display(), &device.info().name);
    let (tokens, prompt) = (share(&mut context)?, products(&mut context)?);
    Ok(format!("{name}: {about}\n\n{table}\n\n{tokens}\n{prompt}"))
}

/// Returns a table of the kernels' shares in the time of tokens.
fn share(context: &mut Context) -> Result<String> {
    let device = context.model().device().clone();
    run(context, true, 0, TOKENS)?;
    let (_, profile) = device.profile_blocking(|| run(context, true, 0, TOKENS))?;
    let each = |time: Duration| time.as_secs_f64() * 1e3 / TOKENS as f64;
    let mut table = plain(&["kernels of a token", "runs", "ms", "GB/s"], 4);
    for kernel in profile.kernels() {
        let rate = kernel.bytes_per_second().map_or(f64::NAN, |rate| rate / 1e9);
        let runs = kernel.runs as f64 / TOKENS as f64;
        let name = format!("{} {}", kernel.kind, kernel.label);
        let cells =
            [format!("{runs:.1}"), format!("{:.3}", each(kernel.time)), format!("{rate:.1}")];
        table.add_row([name].into_iter().chain(cells));
    }
    let outside = profile.total().saturating_sub(profile.device_time());
    let phases =
        Phase::ALL.map(|phase| format!("{} {:.2}", phase.name(), each(profile.host_time(phase))));
    let (outside, total, phases) = (each(outside), each(profile.total()), phases.join(", "));
    let operations = profile.operations() / TOKENS as u64;
    let runs =
        profile.kernels().iter().map(|kernel| kernel.runs).sum::<u64>() as f64 / TOKENS as f64;
    let layers = runs / context.model().config().layers as f64;
    let each = outside / runs * 1e3;
    Ok(format!(
        "{table}\n\n{outside:.2} of {total:.2} ms are outside of kernels, for {operations} operations: {phases}.\n\
         These are {runs:.0} kernels, {layers:.1} for each layer; {each:.2} us for each are outside of it.\n"
    ))
}

/// Returns the share of packed products in the time of a prompt of 512 tokens. Also compares their speed with ordinary `f32`
/// products of the shapes in the model's layers.
fn products(context: &mut Context) -> Result<String> {
    const COUNT: usize = 512;
    let (device, config) = (context.model().device().clone(), context.model().config().clone());
    let (_, profile) = device.profile_blocking(|| run(context, false, 0, COUNT))?;
    let packed = |kernel: &&KernelProfile| kernel.kind == "packed_matmul";
    let (time, flops) = profile
        .kernels()
        .iter()
        .filter(packed)
        .fold((Duration::ZERO, 0), |(time, flops), it| (time + it.time, flops + it.work.flops));
    let heads = (config.heads + 2 * config.kv_heads) * config.head_size;
    let shapes = [
        (config.width, heads),
        (config.heads * config.head_size, config.width),
        (config.width, 2 * config.feed_forward),
        (config.feed_forward, config.width),
    ];
    let (mut plain, mut plain_flops) = (0.0, 0.0);
    for (inputs, outputs) in shapes {
        let x = device.uniform(&[COUNT, inputs], -1.0, 1.0, 1)?;
        let weights = device.uniform(&[outputs, inputs], -1.0, 1.0, 2)?;
        x.run()?;
        weights.run()?;
        let mut times = Vec::new();
        for _ in 0..5 {
            let product = x.matmul(&weights.permute(&[1, 0])?)?;
            let start = Instant::now();
            product.run()?;
            device.synchronize_blocking()?;
            times.push(start.elapsed());
        }
        plain += median(times) * 1e-3;
        plain_flops += (2 * COUNT * inputs * outputs) as f64;
    }
    let share = time.as_secs_f64() / profile.total().as_secs_f64();
    let (ours, theirs) = (flops as f64 / time.as_secs_f64() / 1e9, plain_flops / plain / 1e9);
    let ratio = ours / theirs;
    Ok(format!(
        "In a prompt of {COUNT}, packed products are {share:.2} of the time, at {ours:.1} GFLOP/s. Products of these shapes \
         with weights in f32: {theirs:.1} GFLOP/s, so the ratio is {ratio:.2}.\n"
    ))
}

/// The rows and columns of the matrix of each format.
const SHAPE: [usize; 2] = [4096, 4096];

/// Times products of one row, and of 512 rows, with matrices of each format. Returns the medians as a table.
///
/// # Errors
/// The errors of the device.
pub fn formats(device: &Device, options: &Options) -> Result<String> {
    let (runs, arithmetic) = (options.runs.get(), options.arithmetic);
    let [rows, columns] = SHAPE;
    let mut table = plain(&["format", "1 row, ms", "GB/s", "512 rows, ms", "GFLOP/s"], 5);
    let bar = progress(PackedFormat::ALL.len());
    for format in PackedFormat::ALL {
        bar.set_message(format.name());
        // The bits are exponents near the middle, so that each format has numbers near 1.
        let words = vec![0x3c3c_3c3c_u32; rows * format.row_words(columns)];
        let matrix = PackedTensor::new(device, format, SHAPE, &words)?.with_arithmetic(arithmetic);
        let time = |m: usize| {
            let x = device.full(&[m, columns], 0.5, crate::dtype::DType::F32)?;
            x.run()?;
            let mut times = Vec::new();
            for number in 0..=runs {
                let product = matrix.linear(&x)?;
                device.synchronize_blocking()?;
                let start = Instant::now();
                product.run()?;
                device.synchronize_blocking()?;
                if number > 0 {
                    times.push(start.elapsed());
                }
            }
            Ok::<f64, Error>(median(times))
        };
        let (few, many) = (time(1)?, time(512)?);
        let bytes = matrix.bytes() as f64 / few / 1e6;
        let operations = (2 * 512 * rows * columns) as f64 / many / 1e6;
        let cells = [few, bytes, many, operations].map(|x| format!("{x:.2}"));
        table.add_row([format.name().to_string()].into_iter().chain(cells));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(format!("Matrices of {rows} x {columns}, {}\n\n{table}\n", device.info().name))
}
