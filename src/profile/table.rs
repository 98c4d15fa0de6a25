//! Profiles as a table for people.

use super::{Ceilings, KernelProfile, Phase, Profile};
use crate::backend::Clock;
use std::fmt;
use std::time::Duration;

/// A time with three digits: `1.23 ms`.
struct Time(Duration);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = self.0.as_secs_f64();
        let (value, unit) = match seconds {
            s if s >= 1.0 => (s, "s"),
            s if s >= 1e-3 => (s * 1e3, "ms"),
            s if s >= 1e-6 => (s * 1e6, "us"),
            s => (s * 1e9, "ns"),
        };
        digits(value, unit, f)
    }
}

/// An amount with three digits: `12.3 GB/s`.
struct Amount(f64, &'static str);

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let powers = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
        let (power, letter) = powers.into_iter().find(|(p, _)| self.0 >= *p).unwrap_or((1.0, ""));
        digits(self.0 / power, &format!("{letter}{}", self.1), f)
    }
}

fn digits(value: f64, unit: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let places = match value {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    f.pad(&format!("{value:.places$} {unit}"))
}

/// Formats a part of a whole as percent.
fn percent(part: f64, whole: f64) -> String {
    match whole > 0.0 {
        true => format!("{:.0}%", 100.0 * part / whole),
        false => String::new(),
    }
}

const HEADS: [&str; 9] =
    ["time", "share", "runs", "mean", "bytes a run", "speed", "of copy", "flops", "of product"];

impl Profile {
    /// Formats a line of the table.
    fn row(&self, kernel: &KernelProfile, all: f64) -> [String; HEADS.len()] {
        let untimed = kernel.timed == 0;
        let or_dash = |text: String| if untimed { "-".to_string() } else { text };
        let bytes = Amount(kernel.work.bytes() as f64 / kernel.runs.max(1) as f64, "B");
        let most = if kernel.work.exact { "" } else { "<= " };
        let rate = |rate: Option<f64>, unit| match rate {
            Some(rate) => Amount(rate, unit).to_string(),
            None => "-".to_string(),
        };
        let share = |rate: Option<f64>, of: fn(&Ceilings) -> f64| {
            let both = rate.zip(self.ceilings.as_ref());
            both.map_or("-".to_string(), |(rate, most)| percent(rate, of(most)))
        };
        let (speed, flops) = (kernel.bytes_per_second(), kernel.flops_per_second());
        [
            or_dash(Time(kernel.time).to_string()),
            or_dash(percent(kernel.time.as_secs_f64(), all)),
            kernel.runs.to_string(),
            or_dash(Time(kernel.mean()).to_string()),
            format!("{most}{bytes}"),
            rate(speed, "B/s"),
            share(speed, |most| most.bytes_per_second),
            rate(flops, "FLOP/s"),
            share(flops, |most| most.flops_per_second),
        ]
    }

    fn head(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (device, total) = (self.device_time(), self.total());
        writeln!(f, "{} ({})", self.info.name, self.info.backend)?;
        write!(f, "{} in all, {} of it on the device;", Time(total), Time(device))?;
        let mut rest = self.total;
        for phase in Phase::ALL {
            rest = rest.saturating_sub(self.host[phase as usize]);
            write!(f, " {} {},", phase.name(), Time(self.host_time(phase)))?;
        }
        if self.clock == Clock::Host {
            rest = rest.saturating_sub(device.as_nanos() as u64);
        }
        writeln!(f, " the rest {}", Time(Duration::from_nanos(rest)))?;
        let runs: u64 = self.kernels.iter().map(|kernel| kernel.runs).sum();
        let (operations, submissions) = (self.operations, self.submissions.len());
        writeln!(
            f,
            "{operations} operations recorded, {submissions} submissions, {runs} kernels run"
        )
    }

    /// Writes a note on the accuracy of the times.
    fn foot(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.clock {
            Clock::Timestamps => write!(
                f,
                "times by the device's timestamps, in steps of {}; each kernel had a pass of its own, which takes longer",
                Time(self.resolution())
            )?,
            Clock::Host => write!(f, "times by the host's clock, which computes the kernels itself")?,
            Clock::Submissions => write!(
                f,
                "the device has no timestamps: whole submissions were timed, by the host's clock"
            )?,
            Clock::None => write!(f, "the device tells no times")?,
        }
        writeln!(f)?;
        if self.untimed() > 0 && self.clock != Clock::Submissions {
            writeln!(f, "{} runs of kernels have no time", self.untimed())?;
        }
        if self.kernels.iter().any(|kernel| !kernel.work.exact) {
            writeln!(
                f,
                "<= bytes: at most so many, because data or conditions decide what is read"
            )?;
        }
        match self.ceilings {
            Some(Ceilings { bytes_per_second, flops_per_second }) => writeln!(
                f,
                "measured: a copy {}, a product of f32 {}",
                Amount(bytes_per_second, "B/s"),
                Amount(flops_per_second, "FLOP/s")
            ),
            None => Ok(()),
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.head(f)?;
        let all = self.kernels.iter().map(|kernel| kernel.time.as_secs_f64()).sum();
        let rows: Vec<_> = self.kernels.iter().map(|kernel| self.row(kernel, all)).collect();
        let shown = |n: usize| self.ceilings.is_some() || !HEADS[n].starts_with("of ");
        let width = |n: usize| {
            let widths = rows.iter().map(|row| row[n].chars().count());
            widths.max().unwrap_or(0).max(HEADS[n].len())
        };
        let columns: Vec<(usize, usize)> =
            (0..HEADS.len()).filter(|&n| shown(n)).map(|n| (n, width(n))).collect();
        for &(n, width) in &columns {
            write!(f, "{:>width$}  ", HEADS[n])?;
        }
        writeln!(f, "kernel")?;
        for (row, kernel) in rows.iter().zip(&self.kernels) {
            for &(n, width) in &columns {
                write!(f, "{:>width$}  ", row[n])?;
            }
            writeln!(f, "{} {}", kernel.kind, kernel.label)?;
        }
        self.foot(f)
    }
}
