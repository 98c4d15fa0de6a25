//! The recorder of a profile.

use super::kernels::kernels;
use super::{Ceilings, Phase, Profile, Span, Submission};
use crate::backend::{Clock, Info, RunsTimes, Times};
use crate::kernel::Plan;
use std::sync::Arc;
use web_time::Instant;

/// The most spans, and the most kernels of submissions, that are stored. Only sums are kept of the others.
const MOST: usize = 1 << 20;

/// The events of a device during a profile.
pub(crate) struct Recorder {
    since: Instant,
    clock: Clock,
    host: [u64; Phase::ALL.len()],
    operations: u64,
    spans: Vec<Span>,
    submissions: Vec<Submission>,
    /// The number of kernels in the submissions.
    kernels: usize,
    dropped: u64,
}

impl Recorder {
    /// Starts a recorder. Times count from `since`, and `clock` measures the kernels.
    pub fn new(since: Instant, clock: Clock) -> Recorder {
        let (host, operations, spans, submissions, kernels, dropped) = Default::default();
        Recorder { since, clock, host, operations, spans, submissions, kernels, dropped }
    }

    /// Returns the nanoseconds since the beginning.
    pub fn at(&self, moment: Instant) -> u64 {
        moment.saturating_duration_since(self.since).as_nanos() as u64
    }

    /// Counts a recorded operation.
    pub fn recorded(&mut self, begun: Instant) {
        self.operations += 1;
        self.host[Phase::Record as usize] += begun.elapsed().as_nanos() as u64;
    }

    /// Adds the time from `begun` until now to a phase.
    pub fn spent(&mut self, phase: Phase, begun: Instant, label: impl FnOnce() -> String) {
        let times = (self.at(begun), self.at(Instant::now()));
        self.host[phase as usize] += times.1 - times.0;
        if self.spans.len() < MOST {
            self.spans.push(Span { phase, label: label(), times });
        }
    }

    /// Adds a submitted batch.
    pub fn submitted(&mut self, batch: &Arc<Plan>, begun: Instant) {
        let host = (self.at(begun), self.at(Instant::now()));
        self.host[Phase::Submit as usize] += host.1 - host.0;
        if self.kernels + batch.dispatches.len() > MOST {
            self.dropped += batch.dispatches.len() as u64;
            return;
        }
        self.kernels += batch.dispatches.len();
        let batch = batch.clone();
        self.submissions.push(Submission { batch, host, kernels: Vec::new(), whole: None });
    }

    /// Whether no batch was submitted.
    pub fn is_idle(&self) -> bool {
        self.submissions.is_empty()
    }

    /// Creates the profile after all work is done.
    pub fn finish(
        mut self,
        end: Instant,
        info: &Info,
        times: RunsTimes,
        ceilings: Option<Ceilings>,
    ) -> Profile {
        let total = self.at(end);
        for (submission, times) in self.submissions.iter_mut().zip(times.runs) {
            (submission.kernels, submission.whole) = (times.kernels, times.whole);
        }
        match self.clock {
            Clock::Timestamps => align(&mut self.submissions),
            Clock::Host => {
                // With this clock, kernels run during the submission, so their time is subtracted from it.
                let all = self.submissions.iter().flat_map(|s| s.kernels.iter().flatten());
                let kernels: u64 = all.map(|(begin, end)| end - begin).sum();
                let submit = &mut self.host[Phase::Submit as usize];
                *submit = submit.saturating_sub(kernels);
            }
            Clock::Submissions => queue(&mut self.submissions),
            Clock::None => {}
        }
        Profile {
            info: info.clone(),
            clock: self.clock,
            resolution: times.resolution,
            total,
            host: self.host,
            operations: self.operations,
            kernels: kernels(&self.submissions),
            spans: self.spans,
            submissions: self.submissions,
            dropped: self.dropped,
            ceilings,
        }
    }
}

/// Aligns the device's clock with the host's. No kernel begins before its submission, and at least one begins exactly then.
fn align(submissions: &mut [Submission]) {
    let latest = |of: &Submission| {
        let (begin, _) = of.device()?;
        Some(i128::from(of.host.0) - i128::from(begin))
    };
    let Some(shift) = submissions.iter().filter_map(latest).max() else { return };
    let moved = |time: u64| (i128::from(time) + shift).max(0) as u64;
    for times in submissions.iter_mut().flat_map(|of| of.kernels.iter_mut().flatten()) {
        *times = (moved(times.0), moved(times.1));
    }
}

/// Sets the begin of submissions if only their ends are known. Each begins when the previous one is done.
fn queue(submissions: &mut [Submission]) {
    let mut before = 0;
    for whole in submissions.iter_mut().filter_map(|of| of.whole.as_mut()) {
        let (begin, end): Times = *whole;
        *whole = (begin.max(before).min(end), end);
        before = before.max(end);
    }
}
