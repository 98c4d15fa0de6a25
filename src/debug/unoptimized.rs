//! Advice for programs that are slow because the library was compiled without optimizations, as in a user's `dev` profile.

use super::print;
use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use web_time::{Duration, Instant};

/// The time in batches, in microseconds, after which the code checks whether it is optimized.
const PATIENCE: u64 = 500_000;

/// The time in batches so far, in microseconds.
static SPENT: AtomicU64 = AtomicU64::new(0);

/// Adds the time of a batch. Prints the advice once, when batches have taken long and the code is not optimized.
pub(crate) fn spend(time: Duration) {
    if !cfg!(debug_assertions) || cfg!(target_arch = "wasm32") {
        return;
    }
    let time = time.as_micros() as u64;
    let before = SPENT.fetch_add(time, Ordering::Relaxed);
    if before < PATIENCE && before + time >= PATIENCE && is_unoptimized() {
        print(format_args!(
            "warpweft: compiled without optimizations, so tensors are slow; add to Cargo.toml:\n\
             [profile.dev.package.\"*\"]\nopt-level = 2"
        ));
    }
}

/// Returns whether a plain loop is as slow as without optimizations: about 10 ns per iteration instead of 1 ns.
fn is_unoptimized() -> bool {
    const TURNS: u32 = 100_000;
    let turn = |sum: u32, n: u32| black_box(sum.wrapping_mul(31).wrapping_add(n));
    let time = || {
        let begun = Instant::now();
        black_box((0..TURNS).fold(0, turn));
        begun.elapsed()
    };
    // The shortest of five, because other programs may use the machine.
    (0..5).map(|_| time()).min().is_some_and(|least| least > Duration::from_nanos(5) * TURNS)
}
