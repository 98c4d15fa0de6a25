//! What running a program is counted by, what that may be, and where it is known to be more.

use warpweft::device::{Device, Stats};

/// What one run of a program took.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub kernels: u64,
    pub submits: u64,
    /// Made anew.
    pub plans: u64,
    /// Compiled anew.
    pub pipelines: u64,
    /// Bytes in use and nodes alive at the end that were not before.
    pub left: u64,
    /// The most bytes in use at once, in this run or an earlier one.
    pub peak: u64,
    /// Characters of the longest kernel that was submitted last; 0 where kernels have no text.
    pub text: u64,
}

impl Counts {
    pub fn between(before: Stats, device: &Device) -> Counts {
        let after = device.stats();
        let plan = device.last_plan();
        let texts = plan.iter().flat_map(|plan| {
            (0..plan.dispatches.len()).filter_map(move |kernel| device.kernel_source(plan, kernel))
        });
        Counts {
            kernels: after.kernels - before.kernels,
            submits: after.submits - before.submits,
            plans: after.plans - before.plans,
            pipelines: after.pipelines - before.pipelines,
            left: after.used_bytes.saturating_sub(before.used_bytes)
                + after.nodes.saturating_sub(before.nodes),
            peak: after.peak_bytes,
            text: texts.map(|text| text.len() as u64).max().unwrap_or(0),
        }
    }
}

/// Kernels beyond twice those of running each operation by itself: what begins and ends a short program.
const KERNELS: u64 = 8;
/// Kernels beyond four times as many for four times the steps, and beyond half of those of running each operation of the
/// steps by itself: what fits one kernel may not when it is four times as long, and stretches need not come out even.
const UNEVEN: u64 = 16;
/// Submissions beyond four times as many for four times the steps: reads need not come out even.
const READS: u64 = 4;
/// Plans and pipelines beyond those of half the steps: first and last rounds, and a shorter stretch before the last read,
/// are unlike those between.
const ENDS: u64 = 4;
/// Bytes beyond twice the peak of running each operation by itself, and beyond four times as many for four times the
/// steps: small buffers are rounded up to 256 bytes.
const ROUNDED: u64 = 1 << 16;
/// Characters of a kernel's text.
const TEXT: u64 = 30_000;

/// What `ours` exceeds, at sizes as in [`super::SIZES`]; `theirs` ran every operation by itself, at the first two.
pub fn exceeded(ours: &[Counts], theirs: &[Counts]) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    let mut most = |quantity: &'static str, what: String, got: u64, most: u64| {
        if got > most {
            found.push((quantity, format!("{what}: {got} instead of {most} at most")));
        }
    };
    for (n, counts) in ours.iter().enumerate() {
        let size = ["half the steps", "the steps", "four times the steps"][n];
        let each = |of: fn(&Counts) -> u64| match theirs.get(n) {
            Some(counts) => of(counts),
            // As many more for each step as from half of them to all.
            None => of(&theirs[1]) + 6 * of(&theirs[1]).saturating_sub(of(&theirs[0])),
        };
        let kernels = 2 * each(|counts| counts.kernels) + KERNELS;
        most("kernels", size.into(), counts.kernels, kernels);
        most("submits", size.into(), counts.submits, each(|counts| counts.submits));
        most("left", size.into(), counts.left, 0);
        most("text", size.into(), counts.text, TEXT);
        most("plans", size.into(), counts.plans, ours[0].plans + ENDS);
        // A machine without text makes the kernels of every plan ready anew.
        let pipelines = if counts.text > 0 { counts.pipelines } else { 0 };
        most("pipelines", size.into(), pipelines, ours[0].pipelines + ENDS);
    }
    let [_, one, ..] = ours else { return found };
    most("peak", "the steps".into(), one.peak, 2 * theirs[1].peak + ROUNDED);
    if let [_, one, four] = ours {
        let what = || "from the steps to four times as many".to_string();
        let uneven = theirs[1].kernels / 2 + UNEVEN;
        most("growing kernels", what(), four.kernels, 4 * one.kernels + uneven);
        most("growing submits", what(), four.submits, 4 * one.submits + READS);
        most("growing peak", what(), four.peak, 4 * one.peak + ROUNDED);
    }
    found
}

/// The counts at all sizes, and in parentheses of every operation by itself.
pub fn row(ours: &[Counts], theirs: &[Counts]) -> String {
    let list = |name: &str, of: fn(&Counts) -> u64| {
        let all = |counts: &[Counts]| {
            counts.iter().map(|counts| of(counts).to_string()).collect::<Vec<_>>().join(" ")
        };
        format!("{name} {} ({})", all(ours), all(theirs))
    };
    let columns = [
        list("kernels", |counts| counts.kernels),
        list("submits", |counts| counts.submits),
        list("plans", |counts| counts.plans),
        list("pipelines", |counts| counts.pipelines),
        list("peak", |counts| counts.peak),
        list("text", |counts| counts.text),
    ];
    columns.join(", ")
}

/// What programs are known to exceed.
pub struct Known {
    pub programs: &'static [&'static str],
    pub places: &'static [&'static str],
    pub quantities: &'static [&'static str],
    /// At how many of the [`super::SIZES`] they are run, where more take too long.
    pub sizes: usize,
}

/// Programs that are run for fewer steps than is usual.
pub const SHORTER: &[(&str, usize)] = &[];

const ALL: usize = super::SIZES.len();
const GPUS: &[&str] = &["wgpu", "webgpu"];

/// All that is known to be exceeded; what is mended fails until it is taken out.
pub const KNOWN: &[Known] = &[
    // Another length of the cache in each step is another plan.
    Known {
        programs: &["decoding with a growing cache"],
        places: &["cpu", "wgpu", "webgpu"],
        quantities: &["plans"],
        sizes: ALL,
    },
    Known {
        programs: &["streaming statistics"],
        places: &["cpu", "wgpu", "webgpu"],
        quantities: &["peak"],
        sizes: ALL,
    },
    // A short program is a kernel or two; of a longer one the first, those between and the last differ.
    Known {
        programs: &["elimination with pivots", "Floyd-Warshall"],
        places: GPUS,
        quantities: &["pipelines"],
        sizes: ALL,
    },
];
