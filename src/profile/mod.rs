//! What a device did, and how long it took: a table for people, JSON for programs, a trace for viewers. Plain data; devices
//! make it.

#[doc(hidden)] // For its tests.
pub mod json;
mod kernels;
mod recorder;
mod table;
mod trace;

pub use kernels::KernelProfile;
pub(crate) use recorder::Recorder;

use crate::backend::{Clock, Info, Times};
use crate::kernel::Plan;
use std::sync::Arc;
use std::time::Duration;

/// What the host does on a device's behalf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Operations are recorded.
    Record,
    /// Recorded operations become kernels.
    Plan,
    /// Kernels become pipelines; in a browser that goes on behind it.
    Compile,
    /// Data goes to the device.
    Upload,
    /// Kernels are handed over; of the CPU this is what is left of it without the kernels themselves.
    Submit,
    /// A read, or `sync`, waits for the device.
    Wait,
}

impl Phase {
    /// All of them.
    pub const ALL: [Phase; 6] =
        [Phase::Record, Phase::Plan, Phase::Compile, Phase::Upload, Phase::Submit, Phase::Wait];

    /// The word for it: `recording`, `planning`, `compiling`, `uploading`, `submitting`, `waiting`.
    pub fn name(self) -> &'static str {
        ["recording", "planning", "compiling", "uploading", "submitting", "waiting"][self as usize]
    }
}

/// The fastest that a device was measured at: what kernels are held against.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes per second, read and written, of a kernel that copies.
    pub bytes_per_second: f64,
    /// Floating-point operations per second of a product of two matrices of `f32`.
    pub flops_per_second: f64,
}

/// Something the host did: its nanoseconds since the profile began.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub phase: Phase,
    pub label: String,
    pub times: Times,
}

/// A batch that was submitted.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    pub batch: Arc<Plan>,
    /// While it was handed over.
    pub host: Times,
    /// While its kernels ran, where that is known, on the host's clock.
    pub kernels: Vec<Option<Times>>,
    /// While it ran, where that alone is known.
    pub whole: Option<Times>,
}

impl Submission {
    /// While it was at work on the device, as far as is known.
    pub fn device(&self) -> Option<Times> {
        let mut all = self.kernels.iter().flatten();
        let &(mut begin, mut end) = all.next().or(self.whole.as_ref())?;
        for &(from, to) in all {
            (begin, end) = (begin.min(from), end.max(to));
        }
        Some((begin, end))
    }
}

/// What a device did while something was profiled. It prints as a table.
#[derive(Clone, Debug)]
pub struct Profile {
    info: Info,
    clock: Clock,
    resolution: f64,
    total: u64,
    /// Nanoseconds of each phase.
    host: [u64; Phase::ALL.len()],
    operations: u64,
    kernels: Vec<KernelProfile>,
    spans: Vec<Span>,
    submissions: Vec<Submission>,
    /// Submissions and spans that there was no room for.
    dropped: u64,
    ceilings: Option<Ceilings>,
}

impl Profile {
    /// The device.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// What the times of kernels were taken by. By [`Clock::Timestamps`] each kernel had a pass of its own, which takes
    /// longer than many in one.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The time between two that the clock tells apart. Browsers round to 65,536 or 100,000 ns: of kernels that take less only
    /// sums over many runs mean something.
    pub fn resolution(&self) -> Duration {
        Duration::from_nanos(self.resolution as u64)
    }

    /// From the beginning until all work was done.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total)
    }

    /// What the kernels took together; without times of kernels, the submissions.
    pub fn device_time(&self) -> Duration {
        let times = |of: &Submission| -> u64 {
            let kernels = of.kernels.iter().flatten();
            kernels.chain(&of.whole).map(|(begin, end)| end - begin).sum()
        };
        Duration::from_nanos(self.submissions.iter().map(times).sum())
    }

    /// What the host took for a phase, all threads together. What is left of [`Profile::total`] is the program's own.
    pub fn host_time(&self, phase: Phase) -> Duration {
        Duration::from_nanos(self.host[phase as usize])
    }

    /// The kernels, what took longest first.
    pub fn kernels(&self) -> &[KernelProfile] {
        &self.kernels
    }

    /// Operations recorded.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Batches submitted.
    pub fn submissions(&self) -> usize {
        self.submissions.len()
    }

    /// Runs of kernels without a time: their clock has none, or there were more than a million.
    pub fn untimed(&self) -> u64 {
        self.dropped + self.kernels.iter().map(|kernel| kernel.runs - kernel.timed).sum::<u64>()
    }

    /// What the device can do at most, if that was measured
    /// ([`Device::measure_ceilings`](crate::device::Device::measure_ceilings)).
    pub fn ceilings(&self) -> Option<Ceilings> {
        self.ceilings
    }
}
