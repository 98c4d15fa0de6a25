//! Advice for programs that are slow because the library was compiled without optimizations, as in a user's `dev` profile.

use super::print;
use std::sync::atomic::{AtomicU64, Ordering};
use web_time::Duration;

/// The time in batches, in microseconds, after which the advice is printed.
const PATIENCE: u64 = 500_000;

/// The time in batches so far, in microseconds.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Adds the time of a batch. Prints the advice once, when batches have taken long and the code is not optimized.
pub(crate) fn spend(time: Duration) {
    // The build script sets it.
    if !cfg!(unoptimized) {
        return;
    }
    let time = time.as_micros() as u64;
    let before = SPENT.fetch_add(time, Ordering::Relaxed);
    if before < PATIENCE && before + time >= PATIENCE {
        print(format_args!(
            "warpweft: compiled without optimizations, so tensors are slow; add to Cargo.toml:\n\
             [profile.dev.package.\"*\"]\nopt-level = 2"
        ));
    }
}
