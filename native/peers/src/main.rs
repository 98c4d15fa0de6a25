//! Steps of training in burn and in candle, for `warpweft bench --training --peers`.
//!
//! `list KIND` prints which peers run on that kind of device, one a line. `NAME KIND` is one of them: it answers each line
//! that it reads. To `new MODEL` by the number of the model's parameters, to `step` by the seconds that it took and the
//! loss, to both by `-` if it cannot.

mod in_burn;
mod in_candle;

use std::error::Error;
use std::io::{stdin, stdout, Write};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::time::Instant;

type Result<T> = std::result::Result<T, Box<dyn Error + Send + Sync>>;

/// A model with its optimiser and its data.
trait Training {
    /// How many numbers are learnt.
    fn parameters(&self) -> usize;

    /// Forward, cross-entropy, backward and Adam's update; the loss.
    fn step(&mut self) -> Result<f32>;
}

/// The peers that run on a kind of device: `cpu`, or one of GPUs.
fn peers(kind: &str) -> &'static [&'static str] {
    match kind {
        "cpu" => &["burn-flex", "burn-ndarray", "candle"],
        _ => &["burn-wgpu"],
    }
}

/// `mlp-64` is a kind of model and how many examples a step has.
fn make(peer: &str, device: &str, model: &str) -> Result<Box<dyn Training>> {
    let (kind, batch) = model.split_once('-').ok_or("a model is `KIND-EXAMPLES`")?;
    let batch = batch.parse()?;
    match peer {
        "candle" => in_candle::make(kind, batch),
        _ => in_burn::make(in_burn::device(peer, device)?, kind, batch),
    }
}

/// What `work` gives; says why where there is nothing. What a peer cannot do may be a panic, which says so itself.
fn attempt<T>(work: impl FnOnce() -> Result<T>) -> Option<T> {
    let result = catch_unwind(AssertUnwindSafe(work)).ok()?;
    result.inspect_err(|error| eprintln!("{error}")).ok()
}

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [peer, device] = &words[..] else { return Err("usage: list KIND, or PEER KIND".into()) };
    if peer == "list" {
        peers(device).iter().for_each(|name| println!("{name}"));
        return Ok(());
    }
    let mut training: Option<Box<dyn Training>> = None;
    for line in stdin().lines() {
        let line = line?;
        let answer = match line.strip_prefix("new ") {
            Some(model) => {
                // The memory of the one before is free again first.
                drop(training.take());
                training = attempt(|| make(peer, device, model));
                training.as_ref().map(|training| training.parameters().to_string())
            }
            None => {
                let start = Instant::now();
                let loss = training.as_mut().and_then(|training| attempt(|| training.step()));
                loss.map(|loss| format!("{} {loss}", start.elapsed().as_secs_f64()))
            }
        };
        println!("{}", answer.as_deref().unwrap_or("-"));
        stdout().flush()?;
    }
    Ok(())
}
