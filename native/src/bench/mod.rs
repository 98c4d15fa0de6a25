//! The native benchmark: the browser's cases on a device of choice, and on the CPU beside peers.
//!
//! Each case is checked once against plain `f64` loops, then timed with its peers in turns, so that what else the
//! machine does meets all alike. `cargo bench` and `warpweft bench` are this.

mod cases;
mod lengths;
mod peers;
mod programs;
mod ready;
mod reference;
mod table;

pub use cases::{all, Case, Input, Kind};
pub use ready::Ready;
pub use reference::wrong;

use crate::backend::DeviceKind;
use crate::device::{Device, Preference};
use crate::error::{Error, Result};
use crate::{DeviceSync, TensorSync};
use peers::Numpy;
use std::time::{Duration, Instant};
use table::{Row, Times};

/// What the command line takes.
pub const HELP: &str = "\
    --device WORD        cpu, gpu, software, ... (otherwise as WARPWEFT_DEVICE says)
    --only NAME,NAME     cases by name, or by the beginning of one
    --runs N             timed runs of each case (9)
    --json FILE          writes the figures there too
    --numpy PYTHON       on the CPU: times OpenBLAS by this Python's NumPy too
    --list               the cases
    --heavy              with the heavy ones
    --programs           instead of cases, what programs cost beside their kernels
    --lengths            instead of cases, what programs cost that come with other sizes
";

/// What is to be done.
#[derive(Debug, Default)]
pub struct Options {
    pub device: Option<String>,
    pub only: Vec<String>,
    pub runs: Option<usize>,
    pub json: Option<String>,
    pub numpy: Option<String>,
    pub list: bool,
    pub heavy: bool,
    pub programs: bool,
    pub lengths: bool,
}

impl Options {
    /// From the words of a command line; what is wrong with them otherwise.
    ///
    /// # Errors
    /// A text that names the word.
    pub fn parse(words: &[String]) -> std::result::Result<Options, String> {
        let mut options = Options::default();
        let mut words = words.iter();
        while let Some(word) = words.next() {
            let mut next = || words.next().cloned().ok_or_else(|| format!("{word}: of what?"));
            match word.as_str() {
                "--device" => options.device = Some(next()?),
                "--only" => options.only = next()?.split(',').map(str::to_string).collect(),
                "--runs" => {
                    let runs = next()?.parse().ok().filter(|&runs| runs > 0);
                    options.runs = Some(runs.ok_or("--runs: a number from 1 on")?);
                }
                "--json" => options.json = Some(next()?),
                "--numpy" => options.numpy = Some(next()?),
                "--list" => options.list = true,
                "--heavy" => options.heavy = true,
                "--programs" => options.programs = true,
                "--lengths" => options.lengths = true,
                // What cargo says to every benchmark.
                "--bench" => {}
                other => return Err(format!("no such option: {other}")),
            }
        }
        Ok(options)
    }

    fn cases(&self) -> Result<Vec<Case>> {
        let named = |case: &Case| self.only.iter().any(|name| case.name.starts_with(&name[..]));
        let chosen = |case: &Case| match self.only.is_empty() {
            true => self.heavy || !case.heavy,
            false => named(case),
        };
        let unknown = |name: &&String| !all().iter().any(|case| case.name.starts_with(&name[..]));
        if let Some(name) = self.only.iter().find(unknown) {
            return Err(Error::data(format!("bench: no such case: {name}")));
        }
        Ok(all().into_iter().filter(chosen).collect())
    }
}

/// Runs the cases, and prints what came of them.
///
/// # Errors
/// Those of the device; `Data` if there is no such case, a file cannot be written, or a result was wrong.
pub fn run(options: &Options) -> Result<()> {
    let cases = options.cases()?;
    if options.list {
        cases.iter().for_each(|case| println!("{}", case.name));
        return Ok(());
    }
    let preference = match &options.device {
        Some(word) => Preference::parse(word),
        None => Preference::from_environment()?,
    };
    let runs = options.runs.unwrap_or(9);
    if options.lengths {
        print!("{}", lengths::measure(&|| Device::with_sync(preference.clone()), runs)?);
        return Ok(());
    }
    let device = Device::with_sync(preference)?;
    if options.programs {
        print!("{}", programs::measure(&device, runs)?);
        return Ok(());
    }
    let on_cpu = device.info().kind == DeviceKind::Cpu && device.info().backend == "cpu";
    let mut numpy = match &options.numpy {
        Some(python) if on_cpu => Some(Numpy::new(python)?),
        _ => None,
    };
    let mut rows = Vec::new();
    for case in &cases {
        eprintln!("{}", case.name);
        let numpy = numpy.as_mut();
        let row = measure(case, &device, options.runs.unwrap_or(9), on_cpu, numpy);
        rows.push(row.unwrap_or_else(|error| Row::failed(case, error.to_string())));
        device.trim();
    }
    print!("{}", table::markdown(device.info(), &rows));
    if let Some(file) = &options.json {
        std::fs::write(file, table::json(device.info(), &rows))
            .map_err(|error| Error::data(format!("bench: {file}: {error}")))?;
    }
    match rows.iter().filter(|row| row.failure.is_some()).count() {
        0 => Ok(()),
        wrong => Err(Error::data(format!("bench: {wrong} of {} cases failed", rows.len()))),
    }
}

/// Shortest time that is worth looking at: what takes less is done several times.
const LONG: Duration = Duration::from_millis(4);

fn measure(
    case: &Case,
    device: &Device,
    runs: usize,
    on_cpu: bool,
    numpy: Option<&mut Numpy>,
) -> Result<Row> {
    let data = case.kind.data(&case.name);
    let ready = Ready::new(&case.kind, device, data.clone())?;
    let start = Instant::now();
    let result = ready.step()?;
    ready.wait(&result)?;
    let first = start.elapsed();
    if let Some(wrong) = wrong(&case.kind, &data, &result.read_sync()?) {
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
        // Once to wake the threads and to have the data near: whose turn follows a pause would pay for it.
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
