//! The `warpweft` program: which devices there are, and the demo.

mod demo;

use std::process::ExitCode;
use warpweft_native::bench;
use warpweft_native::prelude::*;

const HELP: &str = "\
warpweft: tensor compute on whatever GPU is in front of you

    warpweft devices              the devices here; * marks the one taken unasked
    warpweft demo [--json FILE]   filters a picture and runs an attention block, on the GPU and on the CPU
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
