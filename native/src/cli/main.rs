//! The `warpweft` program. Its commands list devices, run the demo, train small networks, measure kernels and run the
//! benchmark. For language models, they show files, generate text, and compute the vectors of texts.

mod demo;
mod devices;
mod inspect;
mod language;
mod ptx;
mod train;
mod tune;

use clap::{Args, CommandFactory, Parser, Subcommand};
use clap_complete::Shell;
use std::path::PathBuf;
use std::process::ExitCode;
use warpweft_native::bench;
use warpweft_native::prelude::*;

const EXAMPLES: &str = "\
Examples:
  warpweft devices                             the devices, and which one is the default
  warpweft demo --device cpu                   image filters and attention, timed and compared
  warpweft train digits --out digits.safetensors --loss-svg loss.svg
  warpweft bench --only matmul,conv --runs 5   some cases, each five times
  warpweft bench --device gpu --json out.json  all cases, the figures as JSON too
  warpweft inspect model.gguf                  metadata, tensors and formats of a language model
  warpweft chat model.gguf                     a conversation with a language model
  warpweft generate model.gguf --prompt \"Once upon a time\" --max-tokens 50
  warpweft embed all-MiniLM-L6-v2 \"A cat sits.\"  the vector of a text, by an encoder
  warpweft ptx shader.wgsl --sm 90             the shader as PTX
  warpweft completions bash > ~/.local/share/bash-completion/completions/warpweft

The device is chosen by --device or by WARPWEFT_DEVICE: auto, gpu, low-power, cpu, software, a number
from `warpweft devices`, the name of a backend (vulkan), or part of a device's name. The default is auto,
or cpu for the commands that run language models.";

/// Tensor computations on the GPU, or on the CPU if there is none.
#[derive(Parser)]
#[command(name = "warpweft", version, after_help = EXAMPLES, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the devices, what each can do, and why it is not the default
    Devices {
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Filter a picture and run an attention block, on a device and on the CPU, and compare
    Demo {
        #[command(flatten)]
        on: On,
        /// Write the figures to this file, as JSON
        #[arg(long, value_name = "FILE")]
        json: Option<PathBuf>,
    },
    /// Train a small net on built-in data or your own, and save it
    #[command(subcommand)]
    Train(train::Net),
    /// Measure which kernels are fastest on a device, and save the result for later programs
    ///
    /// The result is stored in the system's cache folder, or in the folder that WARPWEFT_CACHE names. Programs that open a
    /// device with the blocking calls of the crate warpweft-native use it.
    Tune {
        #[command(flatten)]
        on: On,
    },
    /// Show the metadata, tensors, formats and sizes of a language model: a GGUF file or a folder
    Inspect {
        /// A GGUF file, or a folder with `config.json` and safetensors files
        file: PathBuf,
        /// Print JSON instead of tables, with all metadata
        #[arg(long)]
        json: bool,
    },
    /// Talk to a language model with a chat template: a GGUF file or a folder
    Chat(language::Chat),
    /// Continue a text with a language model
    Generate(language::Generate),
    /// Print how much memory a language model will take
    Estimate(language::Estimate),
    /// Print the tokens of a text or of a conversation
    Tokenize(language::Tokenize),
    /// Print how well a language model predicts a text
    Perplexity(language::Perplexity),
    /// Print the vectors that an encoder makes of texts, one line of JSON for each
    Embed(language::Embed),
    /// Time the cases of the benchmark on a device, each checked first against plain f64 loops
    Bench(bench::Options),
    /// Translate a WGSL compute shader to PTX, the assembly language of NVIDIA GPUs
    Ptx(ptx::Ptx),
    /// Print a script that completes warpweft's commands and options in a shell
    Completions { shell: Shell },
}

/// What a command computes on.
#[derive(Args)]
struct On {
    /// auto, gpu, low-power, cpu, software, a number from `warpweft devices`, or part of a name
    #[arg(long, env = "WARPWEFT_DEVICE", default_value = "auto")]
    device: Preference,
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Devices { json } => devices::run(json),
        Command::Demo { on, json } => demo::run(on.device, json.as_deref()),
        Command::Train(net) => train::run(&net),
        Command::Tune { on } => tune::run(on.device),
        Command::Bench(options) => bench::run(&options),
        Command::Inspect { file, json } => inspect::run(&file, json),
        Command::Chat(chat) => chat.run(),
        Command::Generate(generate) => generate.run(),
        Command::Estimate(estimate) => estimate.run(),
        Command::Tokenize(tokenize) => tokenize.run(),
        Command::Perplexity(perplexity) => perplexity.run(),
        Command::Embed(embed) => embed.run(),
        Command::Ptx(ptx) => ptx.run(),
        Command::Completions { shell } => {
            let mut command = Cli::command();
            clap_complete::generate(shell, &mut command, "warpweft", &mut std::io::stdout());
            Ok(())
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("warpweft: {error}");
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_commands_are_well_formed() {
        Cli::command().debug_assert();
    }
}
