//! The cases that every backend runs. The expected values come from plain Rust in `f64`. `tests/native/suite.rs` compiles them
//! natively, and `tests/browser/main.rs` compiles them for browsers.

pub mod arguments;
pub mod array;
pub mod attention;
pub mod batches;
pub mod broadcast;
pub mod call;
pub mod casts;
pub mod check;
pub mod composed;
pub mod conv2d;
pub mod conv_nd;
pub mod corners;
pub mod create;
pub mod custom;
pub mod custom_shaders;
pub mod eager;
pub mod einsum;
pub mod fft;
pub mod form;
pub mod fuzz;
pub mod gamma;
pub mod golden;
pub mod grad;
pub mod half;
pub mod in_place;
pub mod indices;
pub mod jets;
pub mod large;
pub mod layers;
pub mod linalg;
pub mod losses;
pub mod matmul;
pub mod movement;
pub mod narrow;
pub mod norm;
pub mod numbers;
pub mod numerics;
pub mod optimisers;
pub mod packed;
pub mod packed_matrices;
pub mod pointwise;
pub mod pool;
pub mod profile;
pub mod random;
pub mod ranks;
pub mod readings;
pub mod reduce;
// Only the tests of the pointwise table use the derivatives of this module.
#[allow(dead_code)]
pub mod reference;
pub mod refusals;
pub mod sampling;
pub mod scan;
pub mod scatter;
pub mod sort;
pub mod special;
pub mod statistics;
pub mod tolerance;
pub mod transposition;
pub mod variables;
pub mod views;

pub use check::Case;
use check::Suite;
use warpweft::device::Device;

/// A group of related cases.
pub struct Group {
    pub name: &'static str,
    pub cases: fn() -> Suite,
}

/// Passes the list of all groups to a macro. The name of a group is the name of its module.
macro_rules! with_groups {
    ($macro:ident) => {
        $macro! {
            arguments attention batches broadcast casts composed conv2d conv_nd corners create custom einsum fft fuzz grad
            half in_place large layers linalg losses matmul movement narrow norm numbers numerics optimisers packed
            packed_matrices pointwise pool random ranks readings reduce refusals sampling scan scatter sort special
            statistics variables views
        }
    };
}
pub(crate) use with_groups;

macro_rules! groups {
    ($($name:ident)*) => {
        /// All groups.
        pub const GROUPS: &[Group] =
            &[$(Group { name: stringify!($name), cases: $name::cases }),*];
    };
}
with_groups!(groups);

/// Returns every case.
pub fn all() -> Vec<Case> {
    GROUPS.iter().flat_map(|group| (group.cases)().cases).collect()
}

/// The results of cases on a device.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub ran: usize,
    /// The number of cases that were skipped because the device has no `f16`.
    pub without_half: usize,
    /// The number of cases that were skipped because they are too large for this platform.
    pub too_big: usize,
    /// Failed cases: the name and the message.
    pub failures: Vec<String>,
}

impl Report {
    /// Adds another report's counts and failures.
    pub fn join(&mut self, other: Report) {
        self.ran += other.ran;
        self.without_half += other.without_half;
        self.too_big += other.too_big;
        self.failures.extend(other.failures);
    }

    /// Returns a text with the numbers of cases that ran and that were skipped, with reasons.
    pub fn count(&self) -> String {
        let mut count = format!("{}", self.ran);
        if self.without_half > 0 {
            count += &format!(" ({} not: no f16)", self.without_half);
        }
        if self.too_big > 0 {
            count += &format!(" ({} not: too large here)", self.too_big);
        }
        count
    }
}

/// Runs one case if the device supports it. Runs `big` cases only on request.
pub async fn run(device: &Device, case: &Case, big: bool, report: &mut Report) {
    if case.half && !device.limits().f16 {
        report.without_half += 1;
        return;
    }
    if case.big && !big {
        report.too_big += 1;
        return;
    }
    report.ran += 1;
    if let Err(what) = (case.run)(device.clone()).await {
        report.failures.push(format!("{}: {what}", case.name));
    }
}

/// Reports memory and nodes that remain although no handle holds them.
pub fn leftovers(device: &Device) -> Option<String> {
    let stats = device.stats();
    let clean = stats.nodes == 0 && stats.used_bytes == 0;
    (!clean).then(|| format!("{} nodes and {} bytes are left", stats.nodes, stats.used_bytes))
}
