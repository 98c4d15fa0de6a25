//! The results of the benchmark, as a table and as JSON.

use super::cases::Case;
use crate::backend::Info;
use comfy_table::{presets, CellAlignment, Table};
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// The times of warpweft or of a peer for a case.
pub struct Times {
    pub name: &'static str,
    seconds: Vec<f64>,
}

impl Times {
    /// Creates an empty list of times.
    pub fn new(name: &'static str) -> Times {
        Times { name, seconds: Vec::new() }
    }

    /// Adds a time.
    pub fn push(&mut self, time: Duration) {
        self.seconds.push(time.as_secs_f64());
        self.seconds.sort_by(f64::total_cmp);
    }

    fn at(&self, part: f64) -> f64 {
        let last = self.seconds.len().saturating_sub(1);
        self.seconds.get((last as f64 * part).round() as usize).copied().unwrap_or(f64::NAN)
    }

    fn median(&self) -> f64 {
        self.at(0.5)
    }

    /// Returns half of the interquartile range.
    fn spread(&self) -> f64 {
        (self.at(0.75) - self.at(0.25)) / 2.0
    }
}

/// The result of a case.
pub struct Row {
    name: String,
    operations: Option<f64>,
    bytes: f64,
    first: Duration,
    /// The times, with warpweft's first.
    times: Vec<Times>,
    pub failure: Option<String>,
    small: bool,
}

impl Row {
    /// Creates the result of a case from its times.
    pub fn new(case: &Case, first: Duration, times: Vec<Times>) -> Row {
        Row {
            name: case.name.clone(),
            operations: case.kind.operations(),
            bytes: case.kind.bytes() as f64,
            first,
            times,
            failure: None,
            small: case.kind.bytes() < 1 << 20,
        }
    }

    /// Creates the result of a case that failed or was wrong.
    pub fn failed(case: &Case, why: String) -> Row {
        Row { failure: Some(why), ..Row::new(case, Duration::ZERO, Vec::new()) }
    }

    fn median(&self) -> f64 {
        self.times.first().map_or(f64::NAN, Times::median)
    }

    fn unit(&self) -> &'static str {
        if self.operations.is_some() {
            "GFLOP/s"
        } else {
            "GB/s"
        }
    }

    /// Returns billions of operations or of bytes per second.
    fn rate(&self) -> f64 {
        self.operations.unwrap_or(self.bytes) / self.median() / 1e9
    }
}

/// Returns the best rate of a product and of a copy in these rows.
fn ceilings(rows: &[Row]) -> [f64; 2] {
    let best = |counts: &dyn Fn(&Row) -> bool| {
        let rates = rows.iter().filter(|row| row.failure.is_none() && counts(row)).map(Row::rate);
        rates.fold(f64::NAN, f64::max)
    };
    [best(&|row| row.name.starts_with("matmul")), best(&|row| row.name == "copy")]
}

fn share(row: &Row, [product, copy]: [f64; 2]) -> f64 {
    row.rate() / if row.operations.is_some() { product } else { copy }
}

/// Creates a Markdown table that is readable in a terminal. Columns are right-aligned, except the first one and those from
/// `left` on.
pub fn plain(header: &[&str], left: usize) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::ASCII_MARKDOWN).set_header(header);
    for column in table.column_iter_mut().skip(1).take(left.saturating_sub(1)) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// Formats the rows as text.
pub fn markdown(info: &Info, rows: &[Row]) -> String {
    let ceilings = ceilings(rows);
    let header = ["case", "ms", "rate", "of the ceiling", "peers: ms (peer / warpweft)"];
    let mut table = plain(&header, 4);
    for row in rows {
        let Some(own) = row.times.first().filter(|_| row.failure.is_none()) else {
            table.add_row([&row.name, "fails", "", "", ""]);
            continue;
        };
        // The memory rate of a small case is meaningless.
        let (rate, part) = match row.small && row.operations.is_none() {
            true => (String::new(), String::new()),
            false => {
                let share = share(row, ceilings);
                let part = if share.is_nan() { String::new() } else { format!("{share:.2}") };
                (format!("{:.1} {}", row.rate(), row.unit()), part)
            }
        };
        let peer = |peer: &Times| {
            let (time, ratio) = (peer.median() * 1e3, peer.median() / own.median());
            format!("{} {} ({ratio:.2})", peer.name, digits(time))
        };
        let peers: Vec<String> = row.times[1..].iter().map(peer).collect();
        let time = format!("{} ±{}", digits(own.median() * 1e3), digits(own.spread() * 1e3));
        table.add_row([row.name.clone(), time, rate, part, peers.join(", ")]);
    }
    let mut text = format!("{}: {}\n\n{table}\n", info.backend, info.name);
    for row in rows {
        if let Some(why) = &row.failure {
            text += &format!("\n{}: {why}\n", row.name);
        }
    }
    text
}

/// Formats a number with three significant digits.
fn digits(x: f64) -> String {
    match x {
        x if x >= 100.0 => format!("{x:.0}"),
        x if x >= 10.0 => format!("{x:.1}"),
        x if x >= 1.0 => format!("{x:.2}"),
        x => format!("{x:.3}"),
    }
}

/// The figures as JSON. NaN becomes `null`.
#[derive(Serialize)]
struct Figures<'a> {
    device: &'a str,
    backend: &'a str,
    cases: Vec<CaseFigures<'a>>,
}

#[derive(Serialize)]
struct CaseFigures<'a> {
    name: &'a str,
    first_ms: f64,
    rate: f64,
    unit: &'a str,
    share: f64,
    failure: &'a Option<String>,
    times: BTreeMap<&'a str, TimeFigures>,
}

#[derive(Serialize)]
struct TimeFigures {
    ms: f64,
    spread: f64,
}

/// Formats the rows as JSON.
pub fn json(info: &Info, rows: &[Row]) -> String {
    let ceilings = ceilings(rows);
    let figures =
        |times: &'_ Times| TimeFigures { ms: times.median() * 1e3, spread: times.spread() * 1e3 };
    let case = |row| {
        let Row { name, first, failure, times, .. }: &Row = row;
        CaseFigures {
            name,
            first_ms: first.as_secs_f64() * 1e3,
            rate: row.rate(),
            unit: row.unit(),
            share: share(row, ceilings),
            failure,
            times: times.iter().map(|times| (times.name, figures(times))).collect(),
        }
    };
    let cases = rows.iter().map(case).collect();
    let figures = Figures { device: &info.name, backend: info.backend, cases };
    serde_json::to_string_pretty(&figures).expect("texts and numbers") + "\n"
}
