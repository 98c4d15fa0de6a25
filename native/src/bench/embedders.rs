//! The benchmark of encoders: the time for the vectors of some texts, compared with ONNX Runtime, and the time of each
//! kernel. `gemm` and NumPy compute the products of linear layers alone, so that a miss can be traced to the products.

use super::peers::{of_products, python, Program, NUMPY};
use super::programs::median;
use super::progress;
use super::table::plain;
use super::Options;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::files;
use crate::model::Embedder;
use crate::profile::Profile;
use crate::{DeviceBlocking, TensorBlocking};
use comfy_table::Table;
use std::path::Path;
use std::time::{Duration, Instant};

const ONNX: &str = include_str!("onnx.py");

/// The measurements: texts, and the tokens of each text.
const WORK: [(usize, usize); 3] = [(1, 16), (1, 128), (8, 32)];

/// Returns the time of one call, until its vectors are read.
fn run(embedder: &Embedder, texts: usize, tokens: usize) -> Result<Duration> {
    let text = |text: usize| {
        (0..tokens).map(|n| ((text * tokens + n) * 37 % 1000 + 1000) as u32).collect()
    };
    let texts: Vec<Vec<u32>> = (0..texts).map(text).collect();
    let start = Instant::now();
    embedder.embed_tokens(&texts)?.read_blocking::<f32>()?;
    Ok(start.elapsed())
}

/// Returns the sizes `[m, k, n]` of the products of all linear layers, for this number of rows.
///
/// # Errors
/// `Format` if `config.json` has no sizes.
fn products(path: &Path, rows: usize) -> Result<Vec<[usize; 3]>> {
    let refuse = |got: String| Error::format(format!("bench: config.json must be read, got {got}"));
    let text =
        std::fs::read(path.join("config.json")).map_err(|error| refuse(error.to_string()))?;
    let config: Config =
        serde_json::from_slice(&text).map_err(|error| refuse(error.to_string()))?;
    let Config { hidden_size: width, intermediate_size: inner, num_hidden_layers: layers } = config;
    let square = [rows, width, width];
    let layer = [square, square, square, square, [rows, width, inner], [rows, inner, width]];
    Ok(layer.repeat(layers))
}

#[derive(serde::Deserialize)]
struct Config {
    hidden_size: usize,
    intermediate_size: usize,
    num_hidden_layers: usize,
}

/// Times a model, in turns with ONNX Runtime and NumPy if requested. Returns the medians as a table.
///
/// # Errors
/// If the folder is not a model, or the device or the peer fails.
pub fn measure(device: &Device, path: &Path, options: &Options) -> Result<String> {
    let runs = options.runs.get();
    let embedder = files::load_embedder(device, path)?;
    let mut onnx = match options.onnx.as_deref() {
        None => None,
        Some(python_path) => {
            let mut command = python(python_path, ONNX);
            let threads = std::thread::available_parallelism().map_or(1, usize::from);
            command.arg(path).arg(threads.to_string());
            Some(Program::new("ONNX Runtime", command)?)
        }
    };
    let mut numpy = match options.numpy.as_deref() {
        None => None,
        Some(python_path) => Some(Program::new("NumPy", python(python_path, NUMPY))?),
    };
    let columns = ["texts x tokens", "ms", "ONNX Runtime, ms", "ratio", "gemm, ms", "NumPy, ms"];
    let mut table = plain(&columns, 6);
    let mut kernels = String::new();
    let bar = progress(WORK.len());
    for (texts, tokens) in WORK {
        let name = format!("{texts} x {tokens}");
        bar.set_message(name.clone());
        let sizes = products(path, texts * tokens)?;
        let ones = |count: usize| vec![1.0; count];
        let data: Vec<Vec<Vec<f32>>> =
            sizes.iter().map(|[m, k, n]| vec![ones(m * k), ones(k * n)]).collect();
        let mut peers = of_products(&sizes, &data, numpy.as_mut())?;
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut alone = vec![Vec::new(); peers.len()];
        // The first runs compile, so they are not counted.
        for number in 0..runs + 3 {
            let took = run(&embedder, texts, tokens)?;
            let asked = onnx.as_mut().map(|onnx| onnx.ask(&format!("{texts} {tokens}")));
            let asked = asked.transpose()?;
            let products = peers.iter_mut().map(|peer| peer.time()).collect::<Result<Vec<_>>>()?;
            if number >= 3 {
                ours.push(took);
                theirs.extend(asked.map(|[took]| Duration::from_secs_f64(took)));
                alone.iter_mut().zip(products).for_each(|(all, took)| all.push(took));
            }
        }
        let (_, profile) = device.profile_blocking(|| run(&embedder, texts, tokens))?;
        kernels += &format!("\n{name}\n\n{}\n", kernel_table(&profile));
        let (ours, theirs) = (median(ours), (!theirs.is_empty()).then(|| median(theirs)));
        let mut alone = alone.into_iter().map(|all| format!("{:.2}", median(all)));
        let mut cell = || alone.next().unwrap_or_default();
        let cells = [
            format!("{ours:.2}"),
            theirs.map_or(String::new(), |theirs| format!("{theirs:.2}")),
            theirs.map_or(String::new(), |theirs| format!("{:.2}", theirs / ours)),
            cell(),
            cell(),
        ];
        table.add_row([name].into_iter().chain(cells));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(format!("{}: {}\n\n{table}\n{kernels}", path.display(), device.info().name))
}

/// Returns a table of the kernels of one call.
fn kernel_table(profile: &Profile) -> Table {
    let mut table = plain(&["kernel", "runs", "ms", "GFLOP/s", "GB/s"], 5);
    for kernel in profile.kernels() {
        let seconds = kernel.time.as_secs_f64();
        let rate = kernel.work.flops as f64 / seconds / 1e9;
        let bytes = kernel.bytes_per_second().map_or(f64::NAN, |rate| rate / 1e9);
        let cells = [seconds * 1e3, rate, bytes].map(|x| format!("{x:.2}"));
        let name = format!("{} {}", kernel.kind, kernel.label);
        table.add_row([name, kernel.runs.to_string()].into_iter().chain(cells));
    }
    table
}
