//! Language models on the command line: `estimate`, `tokenize`, `generate`, `chat`, `perplexity` and `embed`.

mod chat;
mod embed;
mod estimate;
mod generate;
mod perplexity;
mod tokenize;

pub use chat::Chat;
pub use embed::Embed;
pub use estimate::Estimate;
pub use generate::Generate;
pub use perplexity::Perplexity;
pub use tokenize::Tokenize;

use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use pollster::block_on;
use serde::Deserialize;
use std::fs::File;
use std::future::ready;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use warpweft_native::backend::cpu::CpuBackend;
use warpweft_native::backend::{DeviceKind, Pending};
use warpweft_native::files;
use warpweft_native::model::{LanguageModel, LoadOptions};
use warpweft_native::prelude::*;
use warpweft_native::tensor::PackedArithmetic;
use warpweft_native::text::Message;

/// The device that a model is on.
#[derive(Args)]
pub struct On {
    /// auto, gpu, low-power, cpu, software, a number from `warpweft devices`, or part of a name
    #[arg(long, env = "WARPWEFT_DEVICE", default_value = "cpu")]
    device: Preference,
    /// Threads of the CPU [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    threads: Option<u16>,
}

/// A model, and what it computes on.
#[derive(Args)]
pub struct Model {
    /// A GGUF file, or a folder with `config.json` and safetensors files
    file: PathBuf,
    #[command(flatten)]
    on: On,
    /// The length of the longest context, in tokens [default: what the model was trained for, 4096 at most]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    context: Option<u32>,
    /// The type of the key-value cache [default: f16 if the device supports it]
    #[arg(long, value_enum)]
    kv: Option<Kv>,
    /// exact, or int8: on the CPU, round the inputs of products with the weights to 8 bits, which is faster
    #[arg(long, default_value = "exact")]
    arithmetic: PackedArithmetic,
}

#[derive(Clone, Copy, ValueEnum)]
enum Kv {
    F16,
    F32,
}

impl On {
    /// Opens the device.
    ///
    /// # Errors
    /// If no device is available, or threads are set for a device without them.
    fn device(&self) -> Result<Device> {
        let device = Device::with_blocking(self.device.clone())?;
        match self.threads {
            None => Ok(device),
            Some(threads) if device.info().kind == DeviceKind::Cpu => {
                let backend = CpuBackend::with_threads(usize::from(threads));
                Ok(Device::from_backend(Box::new(backend), None))
            }
            Some(_) => {
                let name = &device.info().name;
                Err(Error::argument(format!("--threads: the device must be the CPU, got {name}")))
            }
        }
    }
}

impl Model {
    fn options(&self) -> LoadOptions {
        let cache = self.kv.map(|kv| match kv {
            Kv::F16 => DType::F16,
            Kv::F32 => DType::F32,
        });
        let context = self.context.map(|tokens| tokens as usize);
        LoadOptions { context, cache, arithmetic: self.arithmetic }
    }

    /// Loads the model. Returns the model and the seconds for loading. A bar shows the progress on a terminal.
    fn load(&self) -> Result<(LanguageModel, f64)> {
        let begin = Instant::now();
        let device = self.on.device()?;
        let (file, options) = (self.file.clone(), self.options());
        // The function is called again after a lost device.
        let load = move |device| Box::pin(ready(load_shown(&device, &file, options))) as Pending<_>;
        let model = block_on(LanguageModel::reloadable(&device, load))?;
        device.synchronize_blocking()?;
        Ok((model, begin.elapsed().as_secs_f64()))
    }
}

/// Loads a model, and shows the progress.
fn load_shown(device: &Device, file: &Path, options: LoadOptions) -> Result<LanguageModel> {
    let files = files::open_model(file)?;
    let bar = ProgressBar::new(files.bytes()); // Nothing is shown where standard error is no terminal.
    let style = "{msg} [{bar:30}] {bytes} of {total_bytes}, {eta} left";
    bar.set_style(ProgressStyle::with_template(style).expect("the template is well formed"));
    bar.set_message("loading");
    let files = files.map(|file| bar.wrap_read(file));
    let model = block_on(LanguageModel::load_files(device, files, options));
    bar.finish_and_clear();
    model
}

/// Opens a file. The error names the file.
fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| {
        Error::argument(format!("{}: the file must be readable, got {error}", path.display()))
    })
}

/// The contents of a file of messages.
#[derive(Deserialize)]
#[serde(untagged)]
enum Messages {
    Plain(Vec<Message>),
    Named { messages: Vec<Message> },
}

/// Reads the messages of a conversation. The file is JSON, either `[{"role", "content"}, ...]` or an object with that list as
/// `messages`.
fn messages(path: &Path) -> Result<Vec<Message>> {
    let wrong = |error: serde_json::Error| {
        let must = "the file must be JSON with messages";
        Error::format(format!("{}: {must}, got {error}", path.display()))
    };
    match serde_json::from_reader(BufReader::new(open(path)?)).map_err(wrong)? {
        Messages::Plain(messages) | Messages::Named { messages } => Ok(messages),
    }
}

/// Prints and flushes. Returns false if the output was closed.
fn print(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::state(format!("the output must be writable, got {error}"))),
    }
}

/// Returns the peak memory of this process in bytes, if the system reports it.
fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(1024 * kilobytes)
}
