//! Debug output and debug modes. `WARPWEFT_DEBUG` sets them natively, and [`set_debug`] on every platform.

mod place;
mod unoptimized;

#[cfg(all(target_arch = "wasm32", feature = "js"))]
pub(crate) use place::place_by;
pub(crate) use place::Place;
pub(crate) use unoptimized::spend;

use crate::error::{Error, Result};
use std::fmt::Arguments;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::OnceLock;

/// A debug output or a debug mode, with its name in `WARPWEFT_DEBUG`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Debug {
    /// `graph`: prints the recorded operations of each batch before it is planned.
    Graph = 1,
    /// `plan`: prints the kernels of each plan.
    Plan = 2,
    /// `kernel`: prints the source of these kernels, if the device compiles one.
    Kernel = 4,
    /// `time`: prints a profile after each read and each `synchronize`, of everything that ran since the last one.
    Time = 8,
    /// `memory`: records where each tensor is made, for [`Device::memory`](crate::device::Device::memory).
    Memory = 16,
    /// `no-donation`: results never reuse the memory of an old value. Results, gradients and errors do not change.
    NoDonation = 32,
    /// `no-flat`: optimizers keep each parameter in a separate buffer. Results differ only by rounding.
    NoFlat = 64,
    /// `eager`: devices that are opened run each operation when it is recorded, as
    /// [`Device::run_eagerly`](crate::device::Device::run_eagerly).
    Eager = 128,
    /// `check`: the graph and each planned batch are validated, as debug builds do.
    Check = 256,
}

const ALL: [(&str, Debug); 9] = [
    ("graph", Debug::Graph),
    ("plan", Debug::Plan),
    ("kernel", Debug::Kernel),
    ("time", Debug::Time),
    ("memory", Debug::Memory),
    ("no-donation", Debug::NoDonation),
    ("no-flat", Debug::NoFlat),
    ("eager", Debug::Eager),
    ("check", Debug::Check),
];

/// The value of [`SET`] before the first use.
const UNKNOWN: u16 = 1 << 15;
static SET: AtomicU16 = AtomicU16::new(UNKNOWN);

/// The function that prints, set by JavaScript. Natively, text goes to standard error.
static PRINTER: OnceLock<fn(&str)> = OnceLock::new();

fn parse(words: &str) -> Result<u16> {
    let mut set = 0;
    for word in words.split([',', ' ', '|']).filter(|word| !word.is_empty()) {
        let Some((_, found)) = ALL.iter().find(|(name, _)| *name == word) else {
            let names: Vec<&str> = ALL.iter().map(|(name, _)| *name).collect();
            let message =
                format!("debug: a word must be one of {}, got `{word}`", names.join(", "));
            return Err(Error::argument(message));
        };
        set |= *found as u16;
    }
    Ok(set)
}

/// Sets the debug words ([`Debug`](enum@Debug)) for all devices, separated by commas. An empty text turns all of them off.
/// Natively, `WARPWEFT_DEBUG` has the initial words, and output goes to standard error. In a browser it goes to the console.
///
/// ```
/// warpweft::debug::set_debug("plan, kernel")?;
/// warpweft::debug::set_debug("")?;
/// # Ok::<(), warpweft::error::Error>(())
/// ```
///
/// # Errors
/// `InvalidArgument` for an unknown word.
pub fn set_debug(words: &str) -> Result<()> {
    SET.store(parse(words)?, Ordering::Relaxed);
    Ok(())
}

/// Returns whether a word is set.
pub(crate) fn shows(what: Debug) -> bool {
    let mut set = SET.load(Ordering::Relaxed);
    if set == UNKNOWN {
        let words = std::env::var("WARPWEFT_DEBUG").unwrap_or_default();
        set = parse(&words).unwrap_or_else(|error| {
            print(format_args!("WARPWEFT_DEBUG: {}", error.message()));
            0
        });
        SET.store(set, Ordering::Relaxed);
    }
    set & what as u16 != 0
}

/// Sets the function that prints. Later calls have no effect.
#[cfg(all(target_arch = "wasm32", feature = "js"))]
pub(crate) fn print_by(printer: fn(&str)) {
    let _ = PRINTER.set(printer);
}

/// Prints a text, which may have several lines.
pub(crate) fn print(text: Arguments<'_>) {
    match PRINTER.get() {
        Some(printer) => printer(&text.to_string()),
        None => eprintln!("{text}"),
    }
}
