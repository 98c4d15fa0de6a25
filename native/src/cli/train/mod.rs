//! `warpweft train`: trains small networks on built-in data or on a user's file, and saves them.

mod chars;
mod digits;
mod mlp;
mod plot;

use clap::{Args, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Instant;
use warpweft_native::distributed::{World, WorldInit};
use warpweft_native::files;
use warpweft_native::nn::Module;
use warpweft_native::prelude::*;
use warpweft_native::train::{Epoch, Trainer};

/// What is trained.
#[derive(Subcommand)]
pub enum Net {
    /// Two classes of points, shaped as two moons, by three dense layers (2-16-16-1)
    ///
    /// --data is an .npz file with `x`, two floats for each point, and `y`, 0 or 1 for each.
    Mlp(Options),
    /// Handwritten digits of 8 x 8, by two convolutions and two dense layers
    ///
    /// --data is an .npz file with `images`, 8 x 8 numbers from 0 to 16 for each, and `labels`, an integer for each. Every
    /// fifth image is used for validation.
    Digits(Options),
    /// The next character of a text, by a small transformer
    ///
    /// --data is a text file; the default is the text of this project's documentation. The last tenth is used for validation.
    Chars(Options),
}

/// How it is trained, and what is written.
#[derive(Args)]
pub struct Options {
    /// Train on this file instead of the built-in data
    #[arg(long, value_name = "FILE")]
    data: Option<PathBuf>,
    /// Save the weights to this safetensors file after each epoch, with all that --resume needs
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Save only the weights to this safetensors file at the end: a third of what --out writes
    #[arg(long, value_name = "FILE")]
    weights: Option<PathBuf>,
    /// The number of epochs, including those of --resume
    #[arg(long)]
    epochs: Option<u64>,
    /// The learning rate
    #[arg(long, value_parser = rate)]
    lr: Option<f64>,
    /// The seed of the initial weights and of the order of the examples
    #[arg(long, default_value_t = 0)]
    seed: u32,
    /// Continue from a file that --out wrote, with the same options and data
    #[arg(long, value_name = "FILE")]
    resume: Option<PathBuf>,
    /// Draw the losses of all epochs to this file
    #[arg(long, value_name = "FILE")]
    loss_svg: Option<PathBuf>,
    /// Train together with the other processes that `mpirun` started, each on its share of the data
    #[arg(long)]
    data_parallel: bool,
    /// auto, gpu, low-power, cpu, software, a number from `warpweft devices`, or part of a name
    #[arg(long, env = "WARPWEFT_DEVICE", default_value = "auto")]
    device: Preference,
}

fn rate(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(rate) if rate.is_finite() && rate >= 0.0 => Ok(rate),
        _ => Err("the rate must be at least 0".into()),
    }
}

/// Trains the chosen network.
///
/// # Errors
/// The errors of the device and the files. `InvalidState` if losses are not finite.
pub fn run(net: &Net) -> Result<()> {
    let (Net::Mlp(options) | Net::Digits(options) | Net::Chars(options)) = net;
    let world = if options.data_parallel { World::init()? } else { World::single() };
    let trained = run_on(net, options, &world);
    trained.inspect_err(|error| world.fail(&error.to_string()))
}

/// Trains as one rank of a world.
fn run_on(net: &Net, options: &Options, world: &World) -> Result<()> {
    let device = Device::with_blocking(options.device.clone())?;
    let (rank, ranks) = (world.rank(), world.size());
    let place = if ranks > 1 { format!("rank {rank} of {ranks}: ") } else { String::new() };
    println!("{place}{} ({})", device.info().name, device.info().backend);
    if let Some(why) = device.fallback() {
        println!("{place}{why}");
    }
    match net {
        Net::Mlp(_) => mlp::run(&device, options, world),
        Net::Digits(_) => digits::run(&device, options, world),
        Net::Chars(_) => chars::run(&device, options, world),
    }
}

/// A trainer with the options and texts for a run.
struct Work<'a, M> {
    trainer: Trainer<M>,
    options: &'a Options,
    world: &'a World,
    /// The architecture as JSON, for readers of the file.
    architecture: serde_json::Value,
    /// The default number of epochs.
    epochs: u64,
    /// The number of batches in an epoch.
    steps: usize,
    /// The number of examples in a batch.
    batch: usize,
}

impl<M: Module> Work<'_, M> {
    /// Resumes from a file if requested, trains, and writes the files. Returns the trained model.
    fn run(self) -> Result<M> {
        let Work { trainer, options, world, architecture, epochs, steps, batch } = self;
        let epochs = options.epochs.unwrap_or(epochs);
        let mut trainer = trainer.epochs(epochs).data_parallel(world)?;
        let steps = steps.div_ceil(world.size());
        // Rank 0 speaks for all.
        let speaks = world.rank() == 0;
        let notes = BTreeMap::from([("architecture".to_string(), architecture.to_string())]);
        if let Some(file) = &options.resume {
            let found = files::load_checkpoint(file, &mut trainer)?;
            if found.get("architecture") != notes.get("architecture") {
                return Err(Error::format(format!(
                    "train: {} must be of this net, got another",
                    file.display()
                )));
            }
            if speaks {
                let (epochs, steps) = (trainer.history().len(), trainer.steps());
                println!("{}: {epochs} epochs, {steps} steps", file.display());
            }
        }
        if speaks {
            let parameters = trainer.model.parameter_count();
            println!("{parameters} parameters, {epochs} epochs of {steps} steps");
        }
        let bar = match speaks {
            true => ProgressBar::new(epochs * steps as u64).with_style(style()),
            false => ProgressBar::hidden(),
        };
        bar.set_position(trainer.steps());
        let (begun, before) = (Instant::now(), trainer.steps());
        while let Some(step) = trainer.next_step_blocking()? {
            bar.set_position(step.step + 1);
            let examples = (step.step + 1 - before) * (batch * world.size()) as u64;
            let rate = examples as f64 / begun.elapsed().as_secs_f64();
            bar.set_message(format!("{rate:.0} examples/s"));
            let Some(epoch) = &step.ended else { continue };
            if speaks {
                bar.suspend(|| println!("{}", line(epoch)));
            }
            if let Some(file) = &options.out {
                files::save_checkpoint(file, &trainer, &notes)?;
            }
        }
        bar.finish_and_clear();
        if !speaks {
            return Ok(trainer.model);
        }
        if let Some(file) = &options.out {
            println!("saved to {}", file.display());
        }
        if let Some(file) = &options.weights {
            files::save_safetensors(file, &trainer.model.state_dict(), &notes)?;
            println!("weights saved to {}", file.display());
        }
        if let Some(file) = &options.loss_svg {
            std::fs::write(file, plot::losses(trainer.history())).map_err(|error| {
                Error::argument(format!("train: {} must be writable, got {error}", file.display()))
            })?;
        }
        Ok(trainer.model)
    }
}

/// Describes a layer of an architecture whose weights are `name.weight` and `name.bias` in the file.
fn learnt(layer: &str, name: &str, inputs: usize, outputs: usize) -> serde_json::Value {
    serde_json::json!({ "layer": layer, "name": name, "inputs": inputs, "outputs": outputs })
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} steps, {msg}, {eta} left");
    style.expect("the template is well formed")
}

/// Formats the result of an epoch as a line.
fn line(epoch: &Epoch) -> String {
    let mut line = format!("epoch {}: loss {:.4}", epoch.epoch + 1, epoch.loss);
    if let Some(scores) = &epoch.validation {
        line += &format!(", validation {:.4}", scores.loss);
        for (name, value) in &scores.metrics {
            line += &format!(", {name} {value:.4}");
        }
    }
    line + &format!(" ({:.1} s)", epoch.seconds)
}
