//! The native benchmark. It runs the browser's cases on a chosen device, and on the CPU compares them with peers.
//!
//! Each case is checked once against plain `f64` loops. Then it is timed in turns with its peers, so that other load on the
//! machine affects all of them equally. `cargo bench` and `warpweft bench` run this benchmark.

mod cases;
mod embedders;
mod lengths;
mod models;
mod peers;
mod programs;
mod ready;
mod reference;
mod table;
mod training;

pub use cases::{all, Case, Input, Kind};
pub use ready::Ready;
pub use reference::wrong;

use crate::backend::DeviceKind;
use crate::device::{Device, Preference};
use crate::error::{Error, Result};
use crate::tensor::PackedArithmetic;
use crate::{DeviceBlocking, TensorBlocking};
use clap::Parser;
use indicatif::{ProgressBar, ProgressStyle};
use peers::{python, Program, NUMPY};
use std::ffi::OsString;
use std::iter::once;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use table::{Row, Times};

/// What is to be done.
#[derive(Debug, Parser)]
#[command(name = "bench", about = "Time the cases of the benchmark on a device")]
pub struct Options {
    /// auto, gpu, low-power, cpu, software, a number from `warpweft devices`, or part of a name
    #[arg(long, env = "WARPWEFT_DEVICE", default_value = "auto")]
    pub device: Preference,
    /// Cases by name, or by the beginning of a name
    #[arg(long, value_name = "NAME,NAME", value_delimiter = ',')]
    pub only: Vec<String>,
    /// Timed runs of each case
    #[arg(long, value_name = "N", default_value = "9")]
    pub runs: NonZeroUsize,
    /// Also write the figures to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// On the CPU: also time OpenBLAS by this Python's NumPy
    #[arg(long, value_name = "PYTHON")]
    pub numpy: Option<String>,
    /// Print the names of the cases
    #[arg(long)]
    pub list: bool,
    /// Also run the heavy cases
    #[arg(long)]
    pub heavy: bool,
    /// Instead of cases: the overhead of programs, apart from their kernels
    #[arg(long)]
    pub programs: bool,
    /// Instead of cases: the cost of programs whose sizes change
    #[arg(long, conflicts_with = "programs")]
    pub lengths: bool,
    /// Instead of cases: the cost of training steps
    #[arg(long, conflicts_with_all = ["programs", "lengths"])]
    pub training: bool,
    /// With --training: also time PyTorch by this Python
    #[arg(long, value_name = "PYTHON", requires = "training")]
    pub torch: Option<String>,
    /// With --training: also time the peers of this program (that of native/peers has burn and candle)
    #[arg(long, value_name = "PROGRAM", requires = "training")]
    pub peers: Option<String>,
    /// Instead of cases: how fast a language model reads prompts and generates tokens
    #[arg(long, value_name = "GGUF", conflicts_with_all = ["programs", "lengths", "training"])]
    pub model: Option<PathBuf>,
    /// With --model: also time llama.cpp by this Python, which must have llama-cpp-python
    #[arg(long, value_name = "PYTHON", requires = "model")]
    pub llama: Option<String>,
    /// Instead of cases: how long an encoder, the folder of a model, takes for texts
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["programs", "lengths", "training", "model"])]
    pub embedder: Option<PathBuf>,
    /// With --embedder: also time ONNX Runtime by this Python, which must have torch, transformers, onnxscript and onnxruntime
    #[arg(long, value_name = "PYTHON", requires = "embedder")]
    pub onnx: Option<String>,
    /// Instead of cases: products with packed matrices of each format
    #[arg(long, conflicts_with_all = ["programs", "lengths", "training", "model", "embedder"])]
    pub formats: bool,
    /// With --model or --formats: exact, or int8
    #[arg(long, default_value = "exact")]
    pub arithmetic: PackedArithmetic,
    // Cargo passes this option to every benchmark.
    #[arg(long = "bench", hide = true)]
    cargo: bool,
}

impl Options {
    /// Parses a command line, without the program's name.
    ///
    /// # Errors
    /// The error of clap, for an unknown option or a request for help.
    pub fn of<W: Into<OsString> + Clone>(
        words: impl IntoIterator<Item = W>,
    ) -> std::result::Result<Options, clap::Error> {
        let words = words.into_iter().map(Into::into);
        Options::try_parse_from(once(OsString::from("bench")).chain(words))
    }

    fn cases(&self) -> Result<Vec<Case>> {
        let named = |case: &Case| self.only.iter().any(|name| case.name.starts_with(&name[..]));
        let chosen = |case: &Case| match self.only.is_empty() {
            true => self.heavy || !case.heavy,
            false => named(case),
        };
        let unknown = |name: &&String| !all().iter().any(|case| case.name.starts_with(&name[..]));
        if let Some(name) = self.only.iter().find(unknown) {
            return Err(Error::argument(format!(
                "bench: the case must be known, got {name}; --list shows all"
            )));
        }
        Ok(all().into_iter().filter(chosen).collect())
    }
}

/// Runs the cases and prints the results.
///
/// # Errors
/// The errors of the device. `InvalidArgument` if a named case does not exist or a file cannot be written. `InvalidState` if a
/// result is wrong.
pub fn run(options: &Options) -> Result<()> {
    let cases = options.cases()?;
    if options.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        return Ok(());
    }
    let (preference, runs) = (&options.device, options.runs.get());
    if options.lengths {
        print!("{}", lengths::measure(&|| Device::with_blocking(preference.clone()), runs)?);
        return Ok(());
    }
    let device = Device::with_blocking(preference.clone())?;
    if options.programs {
        print!("{}", programs::measure(&device, runs)?);
        return Ok(());
    }
    if options.training {
        let (torch, program) = (options.torch.as_deref(), options.peers.as_deref());
        let mut peers = training::peers(device.info().kind, torch, program)?;
        print!("{}", training::measure(&device, runs, &mut peers)?);
        return Ok(());
    }
    if let Some(path) = &options.model {
        print!("{}", models::measure(&device, path, options)?);
        return Ok(());
    }
    if let Some(path) = &options.embedder {
        print!("{}", embedders::measure(&device, path, options)?);
        return Ok(());
    }
    if options.formats {
        print!("{}", models::formats(&device, options)?);
        return Ok(());
    }
    let on_cpu = device.info().kind == DeviceKind::Cpu && device.info().backend == "cpu";
    let mut numpy = match &options.numpy {
        Some(path) if on_cpu => Some(Program::new("NumPy", python(path, NUMPY))?),
        _ => None,
    };
    let mut rows = Vec::new();
    let bar = progress(cases.len());
    for case in &cases {
        bar.set_message(case.name.clone());
        let row = measure(case, &device, runs, on_cpu, numpy.as_mut());
        rows.push(row.unwrap_or_else(|error| Row::failed(case, error.to_string())));
        device.trim();
        bar.inc(1);
    }
    bar.finish_and_clear();
    print!("{}", table::markdown(device.info(), &rows));
    if let Some(file) = &options.json {
        std::fs::write(file, table::json(device.info(), &rows)).map_err(|error| {
            Error::argument(format!("bench: {} must be writable, got {error}", file.display()))
        })?;
    }
    match rows.iter().filter(|row| row.failure.is_some()).count() {
        0 => Ok(()),
        wrong => Err(Error::state(format!("bench: {wrong} of {} cases failed", rows.len()))),
    }
}

/// Creates a progress bar for the terminal.
pub(crate) fn progress(steps: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("{elapsed:>4} [{bar:30}] {pos}/{len} {msg}");
    ProgressBar::new(steps as u64).with_style(style.expect("the template is well formed"))
}

/// The shortest time that is measured. Shorter steps are repeated.
const LONG: Duration = Duration::from_millis(4);

fn measure(
    case: &Case,
    device: &Device,
    runs: usize,
    on_cpu: bool,
    numpy: Option<&mut Program>,
) -> Result<Row> {
    let data = case.kind.data(&case.name);
    let ready = Ready::new(&case.kind, device, data.clone())?;
    let start = Instant::now();
    let result = ready.step()?;
    ready.wait(&result)?;
    let first = start.elapsed();
    if let Some(wrong) = wrong(&case.kind, &data, &result.read_blocking()?) {
        return Ok(Row::failed(case, wrong));
    }
    drop(result);
    let mut peers = if on_cpu { peers::of(&case.kind, &data, numpy)? } else { Vec::new() };
    let step = || -> Result<Duration> {
        let start = Instant::now();
        ready.wait(&ready.step()?)?;
        Ok(start.elapsed())
    };
    let often = repetitions(step()?);
    let mut times = vec![Times::new("warpweft")];
    let mut often_each = Vec::new();
    for peer in &mut peers {
        peer.time()?;
        often_each.push(repetitions(peer.time()?));
        times.push(Times::new(peer.name()));
    }
    for _ in 0..runs {
        // An untimed run wakes the threads and loads the data into caches, because a step after a pause would be slower.
        step()?;
        let start = Instant::now();
        let results = (0..often).map(|_| ready.step()).collect::<Result<Vec<_>>>()?;
        results.iter().try_for_each(|result| ready.wait(result))?;
        times[0].push(start.elapsed() / often);
        for ((peer, &often), times) in peers.iter_mut().zip(&often_each).zip(&mut times[1..]) {
            peer.time()?;
            let mut all = Duration::ZERO;
            for _ in 0..often {
                all += peer.time()?;
            }
            times.push(all / often);
        }
    }
    Ok(Row::new(case, first, times))
}

fn repetitions(one: Duration) -> u32 {
    (LONG.as_secs_f64() / one.as_secs_f64().max(1e-6)).ceil().clamp(1.0, 64.0) as u32
}
