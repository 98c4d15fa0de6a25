//! The `warpweft` program: which devices there are, and the demo.

mod demo;

use std::process::ExitCode;
use warpweft_native::prelude::*;
use warpweft_native::{bench, tuned};

const HELP: &str = "\
warpweft: tensor compute on whatever GPU is in front of you

    warpweft devices              the devices here; * marks the one taken unasked
    warpweft demo [--json FILE]   filters a picture and runs an attention block, on the GPU and on the CPU
    warpweft tune                 measures which kernels are fastest on the device, and keeps that for programs to come
    warpweft bench [OPTIONS]      times the cases of the benchmark on a device; `warpweft bench --help`: the options
    warpweft help                 this text

WARPWEFT_DEVICE chooses a device: auto, gpu, low-power, cpu, software, a number from `warpweft devices`, or part of a
device's name.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words[..] {
        ["devices"] => devices(),
        ["demo"] => demo::run(None),
        ["demo", "--json", file] => demo::run(Some(file)),
        ["tune"] => tune(),
        ["bench", "--help"] => {
            print!("{}", bench::HELP);
            Ok(())
        }
        ["bench", ..] => match bench::Options::parse(&arguments[1..]) {
            Ok(options) => bench::run(&options),
            Err(what) => return misused(&format!("bench: {what}")),
        },
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        [] => return misused("no command"),
        _ => return misused(&format!("no such command: {}", words.join(" "))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("warpweft: {error}");
            ExitCode::FAILURE
        }
    }
}

fn misused(what: &str) -> ExitCode {
    eprint!("warpweft: {what}\n\n{HELP}");
    ExitCode::from(2)
}

fn tune() -> Result<()> {
    let device = Device::new_sync()?;
    println!("{} ({})", device.info().name, device.info().backend);
    if let Some(why) = device.fallback() {
        println!("{why}");
    }
    let tuned = device.tune_sync(true)?;
    let mut work = "";
    for figure in &tuned.figures {
        if figure.work != work {
            work = figure.work;
            println!("\n{work}");
        }
        let time = match figure.milliseconds {
            Some(milliseconds) => format!("{milliseconds:10.3} ms"),
            None => "             -".to_string(),
        };
        println!("{time}  {}", figure.config);
    }
    match tuned.figures.is_empty() {
        true => println!("there is nothing to choose from"),
        false => println!("\nfastest: {}", tuned.config),
    }
    if let Some(store) = tuned::Store::usual().filter(|_| !tuned.figures.is_empty()) {
        println!("kept in {}", store.file.display());
    }
    Ok(())
}

fn devices() -> Result<()> {
    let found = Device::discover_sync();
    for (index, device) in found.iter().enumerate() {
        println!("{index} {device}");
        let details = [&device.info.vendor, &device.info.driver].map(|word| word.trim());
        let details: Vec<&str> = details.into_iter().filter(|word| !word.is_empty()).collect();
        if !details.is_empty() {
            println!("      {}", details.join(", "));
        }
    }
    if found.is_empty() {
        let message = "devices: there is none, not even the CPU";
        return Err(Error::new(ErrorKind::NoDevice, message));
    }
    Ok(())
}
