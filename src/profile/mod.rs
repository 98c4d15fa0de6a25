//! Profiles of a device: its work and its times, as a table for people, JSON for programs, and a trace for viewers. A profile
//! is plain data, which devices create.

#[doc(hidden)] // For its tests.
pub mod json;
mod kernels;
mod recorder;
mod table;
mod trace;

pub use crate::kernel::Work;
pub use kernels::KernelProfile;
pub(crate) use recorder::Recorder;

use crate::backend::{Clock, Info, Times};
use crate::kernel::Plan;
use std::sync::Arc;
use std::time::Duration;

/// A kind of work that the host does for a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Recording operations.
    Record,
    /// Planning kernels from recorded operations.
    Plan,
    /// Compiling kernels to pipelines. In a browser, compiling continues in the background.
    Compile,
    /// Uploading data to the device.
    Upload,
    /// Submitting kernels. On the CPU the time of the kernels themselves is subtracted.
    Submit,
    /// Waiting for the device, in a read or in `synchronize`.
    Wait,
}

impl Phase {
    /// All phases.
    pub const ALL: [Phase; 6] =
        [Phase::Record, Phase::Plan, Phase::Compile, Phase::Upload, Phase::Submit, Phase::Wait];

    /// Returns the name: `recording`, `planning`, `compiling`, `uploading`, `submitting` or `waiting`.
    pub fn name(self) -> &'static str {
        ["recording", "planning", "compiling", "uploading", "submitting", "waiting"][self as usize]
    }
}

/// The highest measured rates of a device, which kernels are compared with.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ceilings {
    /// Bytes per second, read and written, of a kernel that copies.
    pub bytes_per_second: f64,
    /// Floating-point operations per second of a product of two matrices of `f32`.
    pub flops_per_second: f64,
}

/// A phase of the host. Times are nanoseconds since the profile began.
#[derive(Clone, Debug)]
pub(crate) struct Span {
    pub phase: Phase,
    pub label: String,
    pub times: Times,
}

/// A submitted batch.
#[derive(Clone, Debug)]
pub(crate) struct Submission {
    pub batch: Arc<Plan>,
    /// The time of the submission on the host.
    pub host: Times,
    /// The times of the kernels, if known, on the host's clock.
    pub kernels: Vec<Option<Times>>,
    /// The time of the whole batch, if only that is known.
    pub whole: Option<Times>,
}

impl Submission {
    /// Returns the time from the first kernel to the last one, as far as it is known.
    pub fn device(&self) -> Option<Times> {
        let mut all = self.kernels.iter().flatten();
        let &(mut begin, mut end) = all.next().or(self.whole.as_ref())?;
        for &(from, to) in all {
            (begin, end) = (begin.min(from), end.max(to));
        }
        Some((begin, end))
    }
}

/// The work and the times of a device during a profile. It prints as a table.
#[derive(Clone, Debug)]
pub struct Profile {
    info: Info,
    clock: Clock,
    resolution: f64,
    total: u64,
    /// The nanoseconds of each phase.
    host: [u64; Phase::ALL.len()],
    operations: u64,
    kernels: Vec<KernelProfile>,
    spans: Vec<Span>,
    submissions: Vec<Submission>,
    /// The number of kernels in submissions that exceeded the limit.
    dropped: u64,
    ceilings: Option<Ceilings>,
}

impl Profile {
    /// Returns the device.
    pub fn info(&self) -> &Info {
        &self.info
    }

    /// Returns the clock of the kernel times. With [`Clock::Timestamps`], each kernel has a separate pass, which takes longer
    /// than many kernels in one pass.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Returns the resolution of the clock. Browsers round to 65,536 or 100,000 ns. For shorter kernels, only sums over many
    /// runs are meaningful.
    pub fn resolution(&self) -> Duration {
        Duration::from_nanos(self.resolution as u64)
    }

    /// Returns the time from the beginning until all work was done.
    pub fn total(&self) -> Duration {
        Duration::from_nanos(self.total)
    }

    /// Returns the total time of the kernels, or of the submissions if kernels have no times.
    pub fn device_time(&self) -> Duration {
        let times = |of: &Submission| -> u64 {
            let kernels = of.kernels.iter().flatten();
            kernels.chain(&of.whole).map(|(begin, end)| end - begin).sum()
        };
        Duration::from_nanos(self.submissions.iter().map(times).sum())
    }

    /// Returns the time that the host spent in a phase, on all threads. The rest of [`Profile::total`] is spent in the
    /// program itself.
    pub fn host_time(&self, phase: Phase) -> Duration {
        Duration::from_nanos(self.host[phase as usize])
    }

    /// Returns the kernels, sorted by total time, longest first.
    pub fn kernels(&self) -> &[KernelProfile] {
        &self.kernels
    }

    /// Returns the number of recorded operations.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// Returns the number of submitted batches.
    pub fn submissions(&self) -> usize {
        self.submissions.len()
    }

    /// Returns the number of runs of kernels without a time. Either the clock has no kernel times, or there were more than a
    /// million.
    pub fn untimed(&self) -> u64 {
        self.dropped + self.kernels.iter().map(|kernel| kernel.runs - kernel.timed).sum::<u64>()
    }

    /// Returns the highest rates of the device if they were measured
    /// ([`Device::measure_ceilings`](crate::device::Device::measure_ceilings)).
    pub fn ceilings(&self) -> Option<Ceilings> {
        self.ceilings
    }
}
