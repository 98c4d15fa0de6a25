//! Encoders: how long the vectors of some texts take, beside ONNX Runtime, and how much of that is products of matrices.

use super::peers::{python, Program};
use super::programs::median;
use super::progress;
use super::table::plain;
use super::Options;
use crate::device::Device;
use crate::error::Result;
use crate::files;
use crate::model::Embedder;
use crate::{DeviceSync, TensorSync};
use std::path::Path;
use std::time::{Duration, Instant};

const ONNX: &str = include_str!("onnx.py");

/// The measurements: texts, and tokens of each.
const WORK: [(usize, usize); 3] = [(1, 16), (1, 128), (8, 32)];

/// The time of one call, until its vectors are read.
fn run(embedder: &Embedder, texts: usize, tokens: usize) -> Result<Duration> {
    let text = |text: usize| {
        (0..tokens).map(|n| ((text * tokens + n) * 37 % 1000 + 1000) as u32).collect()
    };
    let texts: Vec<Vec<u32>> = (0..texts).map(text).collect();
    let start = Instant::now();
    embedder.embed_tokens(&texts)?.read_sync::<f32>()?;
    Ok(start.elapsed())
}

/// Times a model, and ONNX Runtime in turns with it if that is asked for; the medians as a table.
///
/// # Errors
/// If the folder is no model, or the device or the peer fails.
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
    let columns = ["texts x tokens", "ms", "ONNX Runtime, ms", "ratio", "products, of the time"];
    let mut table = plain(&columns, columns.len());
    let bar = progress(WORK.len());
    for (texts, tokens) in WORK {
        let name = format!("{texts} x {tokens}");
        bar.set_message(name.clone());
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        // The first runs compile.
        for number in 0..runs + 3 {
            let took = run(&embedder, texts, tokens)?;
            let asked = onnx.as_mut().map(|onnx| onnx.ask(&format!("{texts} {tokens}")));
            let asked = asked.transpose()?;
            if number >= 3 {
                ours.push(took);
                theirs.extend(asked.map(|[took]| Duration::from_secs_f64(took)));
            }
        }
        let (_, profile) = device.profile_sync(|| run(&embedder, texts, tokens))?;
        let products = profile.kernels().iter().filter(|kernel| kernel.kind == "matmul");
        let products: Duration = products.map(|kernel| kernel.time).sum();
        let share = products.as_secs_f64() / profile.total().as_secs_f64();
        let (ours, theirs) = (median(ours), (!theirs.is_empty()).then(|| median(theirs)));
        let cells = [
            format!("{ours:.2}"),
            theirs.map_or(String::new(), |theirs| format!("{theirs:.2}")),
            theirs.map_or(String::new(), |theirs| format!("{:.2}", theirs / ours)),
            format!("{share:.2}"),
        ];
        table.add_row([name].into_iter().chain(cells));
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(format!("{}: {}\n\n{table}\n", path.display(), device.info().name))
}
