//! What came of the benchmark, as a table and as JSON.

use super::cases::Case;
use crate::backend::Info;
use std::fmt::Write;
use std::time::Duration;

/// The times of one who runs a case.
pub struct Times {
    pub name: &'static str,
    seconds: Vec<f64>,
}

impl Times {
    /// No times yet.
    pub fn new(name: &'static str) -> Times {
        Times { name, seconds: Vec::new() }
    }

    /// One more.
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

    /// Half the width of the middle half.
    fn spread(&self) -> f64 {
        (self.at(0.75) - self.at(0.25)) / 2.0
    }
}

/// What came of a case.
pub struct Row {
    name: String,
    operations: Option<f64>,
    bytes: f64,
    first: Duration,
    /// warpweft's first.
    times: Vec<Times>,
    pub failure: Option<String>,
    small: bool,
}

impl Row {
    /// A case with its times.
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

    /// A case that was refused or wrong.
    pub fn failed(case: &Case, why: String) -> Row {
        Row { failure: Some(why), ..Row::new(case, Duration::ZERO, Vec::new()) }
    }

    fn median(&self) -> f64 {
        self.times.first().map_or(f64::NAN, Times::median)
    }

    /// Billions of operations, or of bytes, in a second.
    fn rate(&self) -> f64 {
        self.operations.unwrap_or(self.bytes) / self.median() / 1e9
    }
}

/// The best rate of a product, and of memory, in these rows.
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

/// A table in Markdown.
pub fn markdown(info: &Info, rows: &[Row]) -> String {
    let ceilings = ceilings(rows);
    let mut text = format!("{}: {}\n\n", info.backend, info.name);
    text.push_str("| case | ms | rate | of the ceiling | peers: ms (peer / warpweft) |\n");
    text.push_str("| --- | ---: | ---: | ---: | --- |\n");
    for row in rows {
        let Some(own) = row.times.first().filter(|_| row.failure.is_none()) else {
            let _ = writeln!(text, "| {} | fails | | | |", row.name);
            continue;
        };
        let unit = if row.operations.is_some() { "GFLOP/s" } else { "GB/s" };
        // Of what is small the rate says nothing.
        let (rate, part) = match row.small && row.operations.is_none() {
            true => (String::new(), String::new()),
            false => {
                let share = share(row, ceilings);
                let part = if share.is_nan() { String::new() } else { format!("{share:.2}") };
                (format!("{:.1} {unit}", row.rate()), part)
            }
        };
        let peer = |peer: &Times| {
            let (time, ratio) = (peer.median() * 1e3, peer.median() / own.median());
            format!("{} {} ({ratio:.2})", peer.name, digits(time))
        };
        let peers: Vec<String> = row.times[1..].iter().map(peer).collect();
        let (time, spread) = (digits(own.median() * 1e3), digits(own.spread() * 1e3));
        let (name, peers) = (&row.name, peers.join(", "));
        let _ = writeln!(text, "| {name} | {time} ±{spread} | {rate} | {part} | {peers} |");
    }
    for row in rows {
        if let Some(why) = &row.failure {
            let _ = writeln!(text, "\n{}: {why}", row.name);
        }
    }
    text
}

/// Three digits that matter.
fn digits(x: f64) -> String {
    match x {
        x if x >= 100.0 => format!("{x:.0}"),
        x if x >= 10.0 => format!("{x:.1}"),
        x if x >= 1.0 => format!("{x:.2}"),
        x => format!("{x:.3}"),
    }
}

/// The same for programs.
pub fn json(info: &Info, rows: &[Row]) -> String {
    let ceilings = ceilings(rows);
    let number = |x: f64| if x.is_finite() { format!("{x:.4}") } else { "null".to_string() };
    let mut text = format!(
        "{{\n  \"device\": {},\n  \"backend\": {},\n  \"cases\": [",
        quoted(&info.name),
        quoted(info.backend)
    );
    for (at, row) in rows.iter().enumerate() {
        let times = row.times.iter().map(|times| {
            let (median, spread) = (number(times.median() * 1e3), number(times.spread() * 1e3));
            format!("{}: {{\"ms\": {median}, \"spread\": {spread}}}", quoted(times.name))
        });
        let unit = if row.operations.is_some() { "GFLOP/s" } else { "GB/s" };
        let _ = write!(
            text,
            "{}\n    {{\"name\": {}, \"first_ms\": {}, \"rate\": {}, \"unit\": \"{unit}\", \"share\": {}, \
             \"failure\": {}, \"times\": {{{}}}}}",
            if at == 0 { "" } else { "," },
            quoted(&row.name),
            number(row.first.as_secs_f64() * 1e3),
            number(row.rate()),
            number(share(row, ceilings)),
            row.failure.as_ref().map_or("null".to_string(), |why| quoted(why)),
            times.collect::<Vec<String>>().join(", ")
        );
    }
    text.push_str("\n  ]\n}\n");
    text
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' | '\\' => quoted.extend(['\\', letter]),
            letter if letter < ' ' => quoted.push(' '),
            letter => quoted.push(letter),
        }
    }
    quoted + "\""
}
