//! When kernels ran, for who profiles.

/// What the times of kernels are taken by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The machine's own: it notes the time before and after each kernel (timestamp queries), each of which then has a pass of
    /// its own. Its zero is anything.
    Timestamps,
    /// The host's, read before and after each kernel: where the host computes them.
    Host,
    /// The host's, from the submission of a batch until the host hears that it is done: of kernels nothing is known.
    Submissions,
    /// There is none.
    #[default]
    None,
}

impl Clock {
    /// The word for it: `timestamps`, `host`, `submissions`, `none`.
    pub fn name(self) -> &'static str {
        match self {
            Clock::Timestamps => "timestamps",
            Clock::Host => "host",
            Clock::Submissions => "submissions",
            Clock::None => "none",
        }
    }
}

/// When something began and ended, in nanoseconds.
pub type Times = (u64, u64);

/// When a run of a batch was at work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunTimes {
    /// For each dispatch; none for those that had nothing to do or were not timed.
    pub kernels: Vec<Option<Times>>,
    /// All of it, where nothing is known of its kernels.
    pub whole: Option<Times>,
}

/// The runs since they were asked for last, in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunsTimes {
    pub runs: Vec<RunTimes>,
    /// The nanoseconds between two times that the clock tells apart, as far as can be told from these.
    pub resolution: f64,
}

/// The nanoseconds between two times that a clock of timestamps tells apart, as far as can be told from these, of which each
/// unit is `period` nanoseconds. Browsers round what the GPU says: Chromium to 65,536 ns, others to 100 us.
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
