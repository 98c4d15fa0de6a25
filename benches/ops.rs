//! `cargo bench`: the same as `warpweft bench`, with the words after `--`.

use std::process::ExitCode;
use warpweft_native::bench::{run, Options, HELP};

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let options = match Options::parse(&words) {
        Ok(options) => options,
        Err(wrong) => {
            eprint!("{wrong}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
