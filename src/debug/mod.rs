//! The one knob for whoever looks for what is wrong or slow: `WARPWEFT_DEBUG` natively, [`set_debug`] everywhere.

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

/// What can be printed, watched, or switched off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Debug {
    /// `graph`: the recorded operations of each batch before it is planned.
    Graph = 1,
    /// `plan`: the kernels that a batch is planned as.
    Plan = 2,
    /// `kernel`: the text of these kernels, where the device compiles one.
    Kernel = 4,
    /// `time`: after each read and each `sync` the profile of what ran since the last: a table.
    Time = 8,
    /// `memory`: where each tensor is made, for [`Device::memory`](crate::device::Device::memory).
    Memory = 16,
    /// `no-donation`: no result takes the memory of an old value. Results, gradients and errors are the same with and without.
    NoDonation = 32,
    /// `no-flat`: optimizers keep each parameter in memory of its own. Results are the same to rounding.
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

/// Nobody has said anything yet.
const UNKNOWN: u16 = 1 << 15;
static SET: AtomicU16 = AtomicU16::new(UNKNOWN);

/// Who prints; natively nobody need be said.
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

/// Sets these from now on, for all devices: any words of [`Debug`](enum@Debug) with commas between, or nothing.
/// Natively `WARPWEFT_DEBUG` says the same at the start, and what is
/// printed goes to the standard error; in a browser to the console.
///
/// ```
/// warpweft::debug::set_debug("plan, kernel")?;
/// warpweft::debug::set_debug("")?;
/// # Ok::<(), warpweft::error::Error>(())
/// ```
///
/// # Errors
/// `InvalidArgument` for any other word.
pub fn set_debug(words: &str) -> Result<()> {
    SET.store(parse(words)?, Ordering::Relaxed);
    Ok(())
}

/// Whether this is set.
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

/// Prints by this from now on: the first who says so.
#[cfg(all(target_arch = "wasm32", feature = "js"))]
pub(crate) fn print_by(printer: fn(&str)) {
    let _ = PRINTER.set(printer);
}

/// Prints a text of some lines.
pub(crate) fn print(text: Arguments<'_>) {
    match PRINTER.get() {
        Some(printer) => printer(&text.to_string()),
        None => eprintln!("{text}"),
    }
}
