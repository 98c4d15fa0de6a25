//! The benchmark of overhead: the time for recording and planning, and for a read in every step, without the time of kernels.

use super::progress;
use super::table::plain;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::{AttentionOptions, NormOptions, Tensor, Variable};
use crate::{DeviceBlocking, TensorBlocking};
use std::time::{Duration, Instant};

/// A program with its name.
type Work<'a> = (&'a str, &'a dyn Fn() -> Result<()>);

/// A function that records about `count` operations on vectors of a width.
type Record = fn(&Device, usize, usize) -> Result<Tensor>;

const SHAPES: [(&str, Record); 5] = [
    ("chain", |device, width, count| chain(&ones(device, &[width])?, count)),
    ("left fold", |device, width, count| {
        let parts = parts(device, width, count)?;
        parts[1..].iter().try_fold(parts[0].clone(), |sum, part| sum.add(part))
    }),
    ("balanced tree", |device, width, count| {
        let mut parts = parts(device, width, count)?;
        while parts.len() > 1 {
            let pair = |pair: &[Tensor]| match pair {
                [a, b] => a.add(b),
                rest => Ok(rest[0].clone()),
            };
            parts = parts.chunks(2).map(pair).collect::<Result<_>>()?;
        }
        Ok(parts.remove(0))
    }),
    ("recurrent network", |device, width, count| {
        let (w, x) = (ones(device, &[width, width])?, ones(device, &[1, width])?);
        (0..count / 3).try_fold(x.clone(), |h, _| Ok(h.matmul(&w)?.add(&x)?.tanh()))
    }),
    ("diamonds", |device, width, count| {
        let x = ones(device, &[width])?;
        (0..count / 3).try_fold(x, |x, _| x.sin().mul(&x.cos()))
    }),
];

fn ones(device: &Device, shape: &[usize]) -> Result<Tensor> {
    device.tensor(&vec![1.0f32; shape.iter().product()], shape)
}

fn parts(device: &Device, width: usize, count: usize) -> Result<Vec<Tensor>> {
    let part = ones(device, &[width])?;
    let other = ones(device, &[width])?;
    Ok((0..=count).map(|n| if n % 2 == 0 { part.clone() } else { other.clone() }).collect())
}

fn chain(x: &Tensor, count: usize) -> Result<Tensor> {
    (0..count).try_fold(x.clone(), |x, n| x.add(n as f32))
}

/// Records layers of a transformer on four positions.
fn transformer(device: &Device, width: usize, layers: usize) -> Result<Tensor> {
    let w = ones(device, &[width, width])?;
    (0..layers).try_fold(ones(device, &[1, 2, 4, width])?, |x, _| {
        let h = x.layer_norm(&[-1], NormOptions::default())?;
        let (q, k, v) = (h.matmul(&w)?, h.matmul(&w)?, h.matmul(&w)?);
        let x = x.add(&q.attention(&k, &v, AttentionOptions::default())?.matmul(&w)?)?;
        let h = x.layer_norm(&[-1], NormOptions::default())?;
        x.add(&h.matmul(&w)?.gelu().matmul(&w)?)
    })
}

fn power_iteration(device: &Device, steps: usize, run: bool) -> Result<()> {
    let a = ones(device, &[64, 64])?;
    let mut x = ones(device, &[64, 1])?;
    for _ in 0..steps {
        let y = a.matmul(&x)?;
        let norm = y.norm_l2(&[])?;
        x = y.div(&norm)?;
        if run {
            x.run()?;
        }
        norm.item_blocking::<f32>()?;
    }
    Ok(())
}

fn training(device: &Device, steps: usize, read: bool) -> Result<()> {
    let x = ones(device, &[64, 32])?;
    let first = Variable::new(&ones(device, &[32, 64])?.mul(0.01)?);
    let second = Variable::new(&ones(device, &[64, 8])?.mul(0.01)?);
    for step in 0..steps {
        let loss = x.matmul(&first.value())?.tanh().matmul(&second.value())?.square().mean(&[])?;
        loss.backward(&[&first, &second])?;
        for variable in [&first, &second] {
            let gradient = variable.take_gradient().expect("backward left one");
            variable.assign(&variable.value().sub(&gradient.mul(0.01)?)?)?;
        }
        if read || step + 1 == steps {
            loss.item_blocking::<f32>()?;
        } else {
            device.submit()?;
        }
    }
    Ok(())
}

/// The heads and the width of the decoded model, and the positions that are filled at the end.
const HEADS: usize = 8;
const WIDTH: usize = 64;
const FILLED: usize = 128;

/// Creates keys and values of `positions` positions.
fn caches(device: &Device, positions: usize) -> Result<[Variable; 2]> {
    let cache = || Ok(Variable::new(&device.zeros(&[1, HEADS, positions, WIDTH])?));
    Ok([cache()?, cache()?])
}

/// Runs the last `steps` steps of decoding, until `FILLED` positions are filled.
fn decoding(device: &Device, [keys, values]: &[Variable; 2], steps: usize) -> Result<()> {
    let w = ones(device, &[HEADS * WIDTH, HEADS * WIDTH])?.mul(1e-3)?;
    let mut x = ones(device, &[1, HEADS * WIDTH])?;
    for position in FILLED - steps..FILLED {
        let row = x.matmul(&w)?.reshape([1, HEADS, 1, WIDTH])?;
        keys.assign_slice(2, position as isize, &row)?;
        values.assign_slice(2, position as isize, &row)?;
        let options = AttentionOptions { kv_length: Some(position + 1), ..Default::default() };
        let mixed = row.attention(&keys.value(), &values.value(), options)?;
        // Detached, because gradients of the first step would need the earlier caches, which would be a copy.
        x = x.add(mixed.reshape([1, HEADS * WIDTH])?)?.detach();
        x.run()?;
    }
    device.synchronize_blocking()
}

/// Times each program `runs` times, and returns the medians as tables.
///
/// # Errors
/// The errors of the device.
pub fn measure(device: &Device, runs: usize) -> Result<String> {
    let info = device.info();
    let mut plans = plain(&["planning", "operations", "kernels", "ms", "us per operation"], 5);
    let bar = progress(3 * SHAPES.len() + 5);
    for (name, record) in SHAPES {
        for count in [1_000, 10_000, 100_000] {
            bar.set_message(name);
            plans.add_row(planning(name, runs, &|width| record(device, width, count))?);
            bar.inc(1);
        }
    }
    let layers = "48 transformer layers";
    plans.add_row(planning(layers, runs, &|width| transformer(device, width, 48))?);
    bar.inc(1);
    let mut programs = plain(&["program", "ms", "beside", "ms", "ratio"], 0);
    let x = ones(device, &[16])?;
    let inputs: [(&[usize], DType); 1] = [(&[16], DType::F32)];
    let program = device.compile(&inputs, |x| Ok(vec![chain(&x[0], 1_000)?]))?;
    let (long, short) = (caches(device, 4096)?, caches(device, FILLED)?);
    let work: [[Work<'_>; 2]; 4] = [
        [
            ("1,000 known operations on as many numbers, recorded and read", &|| {
                chain(&x, 1_000)?.read_blocking::<f32>().map(drop)
            }),
            ("compiled, run and read", &|| program.run(&[&x])?[0].read_blocking::<f32>().map(drop)),
        ],
        [
            ("power iteration, each of 200 norms read", &|| power_iteration(device, 200, false)),
            ("with `run` in each step", &|| power_iteration(device, 200, true)),
        ],
        [
            ("training, each of 100 losses read", &|| training(device, 100, true)),
            ("only the last", &|| training(device, 100, false)),
        ],
        [
            ("100 steps of decoding, 128 of 4,096 positions used", &|| {
                decoding(device, &long, 100)
            }),
            ("128 of 128", &|| decoding(device, &short, 100)),
        ],
    ];
    for [(name, one), (other, two)] in work {
        bar.set_message(name.to_string());
        // The first run is not timed, because it plans and compiles.
        one()?;
        two()?;
        device.synchronize_blocking()?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for _ in 0..runs {
            ours.push(time(one)?);
            theirs.push(time(two)?);
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let ratio = ours / theirs;
        let [ours, theirs, ratio] = [ours, theirs, ratio].map(|x| format!("{x:.2}"));
        programs.add_row([name, &ours, other, &theirs, &ratio]);
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(format!("{} ({})\n\n{plans}\n\n{programs}\n", info.name, info.backend))
}

/// Returns a row with the time for planning. Each run has a new width, so no plan is cached.
fn planning(
    name: &str,
    runs: usize,
    record: &dyn Fn(usize) -> Result<Tensor>,
) -> Result<[String; 5]> {
    let (mut times, mut operations, mut kernels) = (Vec::new(), 0, 0);
    for run in 0..runs.min(5) {
        let result = record(16 + 4 * run)?;
        let mut batch = result.device().batch();
        batch.add(&result)?;
        let start = Instant::now();
        let plan = batch.plan()?;
        times.push(start.elapsed());
        (operations, kernels) = (plan.operations, plan.dispatches.len());
    }
    let ms = median(times);
    let each = ms * 1e3 / operations as f64;
    let [ms, each] = [ms, each].map(|x| format!("{x:.2}"));
    Ok([name.to_string(), operations.to_string(), kernels.to_string(), ms, each])
}

fn time(work: &dyn Fn() -> Result<()>) -> Result<Duration> {
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// Returns the median in milliseconds.
pub fn median(mut times: Vec<Duration>) -> f64 {
    times.sort_unstable();
    times[times.len() / 2].as_secs_f64() * 1e3
}
