//! The costs of a program, their bounds, and the known exceptions.

use warpweft::device::{Device, Stats};

/// The costs of one run of a program.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub kernels: u64,
    pub submits: u64,
    /// The number of new plans.
    pub plans: u64,
    /// The number of new pipelines.
    pub pipelines: u64,
    /// The bytes and nodes at the end that did not exist before the run.
    pub left: u64,
    /// The peak of used bytes, in this run or an earlier one.
    pub peak: u64,
    /// The characters of the longest kernel in the last submission, or 0 if kernels have no source.
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

/// The kernels allowed beyond twice those of eager execution, for the beginning and end of a short program.
const KERNELS: u64 = 8;
/// The kernels allowed beyond four times as many for four times the steps, and beyond half of the eager kernels of the steps. A
/// computation that fits in one kernel may not fit when it is four times as long, and batches may be split unevenly.
const UNEVEN: u64 = 16;
/// The submissions allowed beyond four times as many for four times the steps, because reads may be uneven.
const READS: u64 = 4;
/// The plans and pipelines allowed beyond those of half the steps. The first and last rounds, and a shorter batch before the
/// last read, differ from the others.
const ENDS: u64 = 4;
/// The bytes allowed beyond twice the peak of eager execution, and beyond four times as many for four times the steps. Small
/// buffers are rounded up to 256 bytes.
const ROUNDED: u64 = 1 << 16;
/// The most characters of a kernel's source.
const TEXT: u64 = 30_000;

/// Returns the bounds that `ours` exceeds, at the sizes in [`super::SIZES`]. `theirs` is eager execution at the first two
/// sizes.
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
            // Extrapolates from half the steps and all steps.
            None => of(&theirs[1]) + 6 * of(&theirs[1]).saturating_sub(of(&theirs[0])),
        };
        let kernels = 2 * each(|counts| counts.kernels) + KERNELS;
        most("kernels", size.into(), counts.kernels, kernels);
        most("submits", size.into(), counts.submits, each(|counts| counts.submits));
        most("left", size.into(), counts.left, 0);
        most("text", size.into(), counts.text, TEXT);
        most("plans", size.into(), counts.plans, ours[0].plans + ENDS);
        // A backend without sources prepares the kernels of every plan again.
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

/// Returns the counts at all sizes, with those of eager execution in parentheses.
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

/// The bounds that programs are known to exceed.
pub struct Known {
    pub programs: &'static [&'static str],
    pub places: &'static [&'static str],
    pub quantities: &'static [&'static str],
    /// The number of [`super::SIZES`] at which they run, because more would take too long.
    pub sizes: usize,
}

/// Programs that run for fewer steps than usual.
pub const SHORTER: &[(&str, usize)] = &[];

const ALL: usize = super::SIZES.len();
const GPUS: &[&str] = &["wgpu", "webgpu"];

/// All known exceptions. An exception that is no longer needed fails until it is removed.
pub const KNOWN: &[Known] = &[
    // Each step has another length of the cache, so each needs a new plan.
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
    // A short program is one or two kernels. A longer one has different kernels at the beginning, in the middle and at the end.
    Known {
        programs: &["elimination with pivots", "Floyd-Warshall"],
        places: GPUS,
        quantities: &["pipelines"],
        sizes: ALL,
    },
];
