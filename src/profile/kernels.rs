//! The time and the work of each kernel.

use super::Submission;
use crate::kernel::{Plan, Work};
use crate::sorted;
use rustc_hash::FxHashMap;
use std::time::Duration;

/// All runs of a kernel, or of kernels with one label.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelProfile {
    /// The kind: `map`, `row`, `matmul`, `packed_matmul`, `conv2d`, `attention`, `order` (sorting) or `shader`.
    pub kind: &'static str,
    /// The operations of the kernel, such as `matmul[8,4]x[4,2] + add + relu`.
    pub label: String,
    /// The number of runs.
    pub runs: u64,
    /// The number of runs with a time.
    pub timed: u64,
    /// The total time of the runs with a time.
    pub time: Duration,
    /// The total work of all runs. If the bytes are exact, they are the least memory traffic, which counts repeated reads
    /// once.
    pub work: Work,
}

impl KernelProfile {
    /// Returns the mean time of a run.
    pub fn mean(&self) -> Duration {
        self.time / u32::try_from(self.timed.max(1)).unwrap_or(u32::MAX)
    }

    /// Returns the part of `amount`, the work of all runs, that was done in a second. Returns `None` if no run has a time.
    fn rate(&self, amount: u64) -> Option<f64> {
        let seconds = self.time.as_secs_f64();
        let timed = amount as f64 * self.timed as f64 / self.runs.max(1) as f64;
        (seconds > 0.0).then(|| timed / seconds)
    }

    /// Returns the bytes read and written per second.
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.rate(self.work.bytes())
    }

    /// Returns the floating-point operations per second.
    pub fn flops_per_second(&self) -> Option<f64> {
        self.rate(self.work.flops)
    }
}

/// Collects the kernels of submissions, sorted by total time, longest first.
pub(super) fn kernels(submissions: &[Submission]) -> Vec<KernelProfile> {
    // The work of a batch's kernels is computed once for each plan, which is found by its address.
    let mut works: FxHashMap<*const Plan, Vec<Work>> = FxHashMap::default();
    let mut places: FxHashMap<(&'static str, &str), usize> = FxHashMap::default();
    let mut all: Vec<KernelProfile> = Vec::new();
    for Submission { batch, kernels, .. } in submissions {
        let works = works.entry(std::sync::Arc::as_ptr(batch)).or_insert_with(|| {
            batch.dispatches.iter().map(|dispatch| dispatch.work(&batch.slots)).collect()
        });
        for (n, dispatch) in batch.dispatches.iter().enumerate() {
            let (kind, label) = (dispatch.kernel.kind(), dispatch.label.as_str());
            let place = *places.entry((kind, label)).or_insert_with(|| {
                let work = Work { exact: true, ..Work::default() };
                let label = label.to_string();
                all.push(KernelProfile { kind, label, work, ..KernelProfile::default() });
                all.len() - 1
            });
            let (kernel, work) = (&mut all[place], &works[n]);
            kernel.runs += 1;
            kernel.work.flops = kernel.work.flops.saturating_add(work.flops);
            kernel.work.read = kernel.work.read.saturating_add(work.read);
            kernel.work.written = kernel.work.written.saturating_add(work.written);
            kernel.work.exact &= work.exact;
            if let Some(Some((begin, end))) = kernels.get(n) {
                kernel.timed += 1;
                kernel.time += Duration::from_nanos(end - begin);
            }
        }
    }
    sorted::by_key(&mut all, |kernel| std::cmp::Reverse(kernel.time));
    all
}
