//! The benchmark of programs that run with changing sizes. It measures the cost of a new length, and compares kernels that
//! read their sizes with kernels that have them as constants.

use super::programs::median;
use super::progress;
use super::table::plain;
use crate::device::Device;
use crate::error::Result;
use crate::tensor::{AttentionOptions, NormOptions, Tensor};
use crate::{DeviceBlocking, TensorBlocking};
use comfy_table::Table;
use std::time::Instant;

/// Work of a given size.
type Work = fn(&Device, usize) -> Result<Tensor>;

/// The work, with its name and its size.
const WORK: [(&str, usize, Work); 8] = [
    ("product [n, 512] x [512, 512]", 512, |d, n| {
        some(d, &[n, 512])?.matmul(&some(d, &[512, 512])?)
    }),
    ("product [n, 1024] x [1024, 1024]", 1024, |d, n| {
        some(d, &[n, 1024])?.matmul(&some(d, &[1024, 1024])?)
    }),
    ("product [n, n] x [n, n]", 512, |d, n| some(d, &[n, n])?.matmul(&some(d, &[n, n])?)),
    ("attention [1, 8, n, 64]", 512, |d, n| {
        let q = some(d, &[1, 8, n, 64])?;
        q.attention(&q, &q, AttentionOptions::default())
    }),
    ("convolution [1, 32, n, n], 3 x 3", 64, |d, n| {
        some(d, &[1, 32, n, n])?.conv2d(&some(d, &[32, 32, 3, 3])?, None, Default::default())
    }),
    ("softmax [n, 1024]", 1024, |d, n| some(d, &[n, 1024])?.softmax(-1)),
    ("layer norm [1024, n]", 1024, |d, n| {
        some(d, &[1024, n])?.layer_norm(-1, NormOptions::default())
    }),
    ("gelu of a transposed matrix [n, 1024]", 1024, |d, n| {
        Ok(some(d, &[n, 1024])?.transpose(0, 1)?.gelu())
    }),
];

fn some(device: &Device, shape: &[usize]) -> Result<Tensor> {
    let numel: usize = shape.iter().product();
    let values: Vec<f32> = (0..numel).map(|i| (i % 13) as f32 * 0.1 - 0.6).collect();
    device.tensor(&values, shape)
}

/// Times the work `runs` times, and returns the medians as tables. `open` opens a device with empty caches.
///
/// # Errors
/// The errors of the device.
pub fn measure(open: &dyn Fn() -> Result<Device>, runs: usize) -> Result<String> {
    let mut table = plain(&["kernel", "n", "sizes as constants, ms", "read, ms", "ratio"], 5);
    let bar = progress(WORK.len() + 1);
    for (name, n, work) in WORK {
        bar.set_message(name);
        let (fixed, dynamic) = (open()?, open()?);
        for other in [n - 8, n - 12] {
            work(&dynamic, other)?.run()?;
        }
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        for run in 0..=runs {
            for (device, times) in [(&fixed, &mut theirs), (&dynamic, &mut ours)] {
                let result = work(device, n)?;
                device.synchronize_blocking()?;
                let start = Instant::now();
                result.run()?;
                device.synchronize_blocking()?;
                // The first run compiles, so it is not counted.
                if run > 0 {
                    times.push(start.elapsed());
                }
            }
        }
        let (ours, theirs) = (median(ours), median(theirs));
        let ratio = ours / theirs;
        let times = [theirs, ours, ratio].map(|x| format!("{x:.2}"));
        table.add_row([name.to_string(), n.to_string()].into_iter().chain(times));
        bar.inc(1);
    }
    let new = new_lengths(&open()?, runs.max(20))?;
    bar.finish_and_clear();
    Ok(format!("{table}\n\n{new}\n"))
}

/// Computes six layers of a transformer for a text of `length` words.
fn encoder(device: &Device, length: usize) -> Result<Tensor> {
    let mut x = some(device, &[length, 64])?;
    let (w, up) = (some(device, &[64, 64])?, some(device, &[64, 256])?);
    let down = up.transpose(0, 1)?;
    for _ in 0..6 {
        let h = x.layer_norm(-1, NormOptions::default())?;
        let heads = |x: Tensor| x.reshape(&[1, length, 4, 16])?.permute(&[0, 2, 1, 3]);
        let (q, k, v) = (heads(h.matmul(&w)?)?, heads(h.matmul(&w)?)?, heads(h.matmul(&w)?)?);
        let mixed = q.attention(&k, &v, AttentionOptions::default())?;
        let mixed = mixed.permute(&[0, 2, 1, 3])?.reshape(&[length, 64])?;
        x = x.add(&mixed.matmul(&w)?)?;
        let h = x.layer_norm(-1, NormOptions::default())?;
        x = x.add(&h.matmul(&up)?.gelu().matmul(&down)?)?;
    }
    x.mean(0)
}

/// Times an encoder for many new lengths, and for each of them once more.
fn new_lengths(device: &Device, runs: usize) -> Result<Table> {
    let (mut new, mut known) = (Vec::new(), Vec::new());
    let warm = 12;
    let mut before = device.stats();
    for run in 0..warm + runs {
        if run == warm {
            before = device.stats();
        }
        let length = 100 + run * 37 % 64;
        for times in [&mut new, &mut known] {
            let start = Instant::now();
            let result = encoder(device, length)?;
            result.run()?;
            times.push(start.elapsed());
            result.read_blocking::<f32>()?;
        }
    }
    let after = device.stats();
    let (new, known) = (median(new.split_off(warm)), median(known.split_off(warm)));
    let (plans, pipelines) = (after.plans - before.plans, after.pipelines - before.pipelines);
    let (more, buffers) = (new - known, after.buffers - before.buffers);
    let first = "new lengths, until submitted";
    let head = [first, "known, ms", "new, ms", "more, ms", "plans", "pipelines", "buffers"];
    let mut table = plain(&head, 7);
    let times = [known, new, more].map(|x| format!("{x:.2}"));
    let counts = [plans, pipelines, buffers].map(|x| x.to_string());
    table.add_row([format!("{runs} through 6 layers")].into_iter().chain(times).chain(counts));
    Ok(table)
}
