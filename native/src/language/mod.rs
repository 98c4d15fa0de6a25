//! Language models on the command line: `estimate`, `tokenize`, `generate`, `chat` and `perplexity`.

mod chat;
mod estimate;
mod generate;
mod perplexity;
mod tokenize;

pub use chat::Chat;
pub use estimate::Estimate;
pub use generate::Generate;
pub use perplexity::Perplexity;
pub use tokenize::Tokenize;

use clap::Args;
use serde::Deserialize;
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;
use warpweft_native::model::{LanguageModel, LoadOptions};
use warpweft_native::prelude::*;
use warpweft_native::text::Message;

/// A model, and what it computes on.
#[derive(Args)]
pub struct Model {
    /// A GGUF file
    file: PathBuf,
    /// auto, gpu, low-power, cpu, software, a number from `warpweft devices`, or part of a name
    #[arg(long, env = "WARPWEFT_DEVICE", default_value = "cpu")]
    device: Preference,
    /// Tokens of the longest context [default: what the model was trained for, 4096 at most]
    #[arg(long, value_name = "N")]
    context: Option<usize>,
}

impl Model {
    /// Loads the model: it, and how many seconds that took.
    fn load(&self) -> Result<(LanguageModel, f64)> {
        let begin = Instant::now();
        let device = Device::with_sync(self.device.clone())?;
        let options = LoadOptions { context: self.context };
        let model = LanguageModel::load(&device, BufReader::new(open(&self.file)?), options)?;
        device.wait()?;
        Ok((model, begin.elapsed().as_secs_f64()))
    }
}

/// Opens a file, or says which one cannot be opened.
fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(|error| {
        Error::data(format!("{}: the file must be readable, got {error}", path.display()))
    })
}

/// What a file of messages holds.
#[derive(Deserialize)]
#[serde(untagged)]
enum Messages {
    Plain(Vec<Message>),
    Named { messages: Vec<Message> },
}

/// The messages of a conversation: a JSON file of `[{"role", "content"}, ...]`, or an object whose `messages` they are.
fn messages(path: &Path) -> Result<Vec<Message>> {
    let wrong = |error: serde_json::Error| {
        let must = "the file must be JSON with messages";
        Error::data(format!("{}: {must}, got {error}", path.display()))
    };
    match serde_json::from_reader(BufReader::new(open(path)?)).map_err(wrong)? {
        Messages::Plain(messages) | Messages::Named { messages } => Ok(messages),
    }
}

/// Prints at once. False when nobody reads any more.
fn print(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::data(format!("the output must be writable, got {error}"))),
    }
}

/// The most memory that this process had at once, in bytes, where the system tells.
fn peak_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(1024 * kilobytes)
}
