//! `cargo bench`: runs `warpweft bench` with the arguments after `--`.

use std::process::ExitCode;
use warpweft_native::bench::{run, Options};

fn main() -> ExitCode {
    let options = Options::of(std::env::args_os().skip(1)).unwrap_or_else(|error| error.exit());
    match run(&options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
