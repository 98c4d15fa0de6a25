//! Times of kernels, for profiles.

/// The clock that measures the times of kernels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Clock {
    /// The machine's clock, read before and after each kernel (timestamp queries). Each kernel then has a separate pass. The
    /// zero of this clock is arbitrary.
    Timestamps,
    /// The host's clock, read before and after each kernel, if the host computes the kernels.
    Host,
    /// The host's clock, from the submission of a batch until it is reported as done. Times of single kernels are unknown.
    Submissions,
    /// No clock.
    #[default]
    None,
}

impl Clock {
    /// Returns the clock as a word: `timestamps`, `host`, `submissions`, `none`.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Timestamps => "timestamps",
            Clock::Host => "host",
            Clock::Submissions => "submissions",
            Clock::None => "none",
        }
    }
}

/// The start and the end of something, in nanoseconds.
pub type Times = (u64, u64);

/// The times of one run of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// The times of each dispatch. `None` for dispatches that did nothing or were not timed.
    pub kernels: Vec<Option<Times>>,
    /// The time of the whole run, if the times of its kernels are unknown.
    pub whole: Option<Times>,
}

/// The runs since the last call, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunsTimes {
    pub runs: Vec<RunTimes>,
    /// The resolution of the clock in nanoseconds, estimated from these times.
    pub resolution: f64,
}

/// Estimates the resolution of a timestamp clock in nanoseconds from these timestamps, whose unit is `period` nanoseconds.
/// Browsers round timestamps of the GPU: Chromium to 65,536 ns, others to 100 us.
///
/// ```
/// use warpweft::backend::resolution;
///
/// assert_eq!(resolution(&[131_072, 65_536 * 9, 0], 1.0), 65_536.0);
/// assert_eq!(resolution(&[100_000, 700_000], 1.0), 100_000.0);
/// assert_eq!(resolution(&[131_072, 131_073], 1.0), 1.0);
/// assert_eq!(resolution(&[], 10.0), 10.0);
/// ```
pub fn resolution(stamps: &[u64], period: f64) -> f64 {
    let all = |step: u64| !stamps.is_empty() && stamps.iter().all(|stamp| stamp % step == 0);
    match [65_536, 100_000].into_iter().find(|&step| all(step)) {
        Some(step) => step as f64 * period,
        None => period,
    }
}
