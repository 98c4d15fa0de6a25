//! The Jinja environment, configured as in Hugging Face's `transformers`, with limits.

use super::json;
use crate::error::{Error, Result};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Kwargs, Serde};
use minijinja::{Environment, ErrorKind, UndefinedBehavior};
use serde_json::Value;
use web_time::{SystemTime, UNIX_EPOCH};

/// The most steps of a template. They also limit its memory, to 64 bytes for each step. A message takes about a hundred
/// steps.
const MAX_STEPS: u64 = 4_000_000;
/// The most nested loops, conditions and calls. A call counts as ten.
const MAX_DEPTH: usize = 200;
/// The most bytes of a template's text.
const MAX_SOURCE: usize = 1 << 20;

fn wrong(why: impl std::fmt::Display) -> Error {
    Error::format(format!("chat template: {why}"))
}

/// Returns the error for messages that the template does not render.
fn rejected(why: impl std::fmt::Display) -> Error {
    Error::argument(format!("chat template: {why}"))
}

/// Creates an environment with one template.
pub(super) fn environment(name: &'static str, source: &str) -> Result<Environment<'static>> {
    if source.len() > MAX_SOURCE {
        let length = source.len();
        return Err(wrong(format!("the text must have at most {MAX_SOURCE} bytes, got {length}")));
    }
    let mut all = Environment::new();
    let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
    all.set_syntax(syntax.map_err(|error| wrong(shown(&error)))?);
    all.set_undefined_behavior(UndefinedBehavior::Lenient);
    all.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
    all.set_recursion_limit(MAX_DEPTH);
    all.set_fuel(Some(MAX_STEPS));
    all.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
    all.add_function("raise_exception", |message: String| -> std::result::Result<(), _> {
        Err::<(), _>(minijinja::Error::new(ErrorKind::InvalidOperation, message))
    });
    all.add_filter("tojson", |value: minijinja::Value, options: Kwargs| {
        json::filter(&value, &options)
    });
    all.add_template_owned(name, with_generation_as_if(source))
        .map_err(|error| wrong(format!("the text must be Jinja, got {}", shown(&error))))?;
    Ok(all)
}

/// Renders a template.
pub(super) fn render(
    environment: &Environment<'static>,
    name: &str,
    context: &Value,
    now: Option<i64>,
) -> Result<String> {
    let mut environment = environment.clone();
    environment.add_function("strftime_now", move |format: &str| formatted(now, format));
    let template = environment.get_template(name).map_err(|error| wrong(shown(&error)))?;
    template.render(minijinja::Value::from(Serde(context))).map_err(|error| match error.kind() {
        ErrorKind::OutOfFuel => rejected(format!("it must end within {MAX_STEPS} steps, got more")),
        _ => rejected(format!("it must accept the messages, got {}", shown(&error))),
    })
}

/// Formats an error with its line.
fn shown(error: &minijinja::Error) -> String {
    let what = error.detail().map_or_else(|| error.kind().to_string(), str::to_string);
    match error.line() {
        Some(line) => format!("{what} (line {line})"),
        None => what,
    }
}

/// Rewrites `{% generation %}` as a condition that always holds. The tag marks the assistant's part for training.
fn with_generation_as_if(source: &str) -> String {
    let mut out = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        let Some(end) = tag.find("%}") else { break };
        let inner = &tag[2..end];
        let word = inner.trim_matches(['-', '+', ' ', '\t', '\n', '\r']);
        let by = match word {
            "generation" => Some("if true"),
            "endgeneration" => Some("endif"),
            _ => None,
        };
        out.push_str(before);
        match by {
            Some(by) => out.push_str(&format!("{{%{}%}}", inner.replace(word, by))),
            None => out.push_str(&tag[..end + 2]),
        }
        rest = &tag[end + 2..];
    }
    out + rest
}

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Returns the seconds since 1970 in UTC.
pub(super) fn seconds() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
}

/// Formats a time in UTC with the letters of C's `strftime`.
fn formatted(now: Option<i64>, format: &str) -> String {
    // Only years of four digits have a calendar.
    let seconds = now.unwrap_or_else(seconds).clamp(-62_135_596_800, 253_402_300_799);
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (hour, minute) = (second / 3600, second / 60 % 60);
    let (year, month, day) = civil(days);
    let weekday = (days + 4).rem_euclid(7) as usize;
    let month_name = MONTHS[(month - 1) as usize];
    let day_of_year = days - days_before(year) + 1;
    let twelve = (hour + 11) % 12 + 1;
    let mut out = String::new();
    let mut letters = format.chars();
    while let Some(c) = letters.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut letter = letters.next();
        let is_bare = letter == Some('-');
        if is_bare {
            letter = letters.next();
        }
        let number = |value: i64, width: usize| match is_bare {
            true => value.to_string(),
            false => format!("{value:0width$}"),
        };
        match letter {
            Some('Y') => out.push_str(&year.to_string()),
            Some('y') => out.push_str(&number(year.rem_euclid(100), 2)),
            Some('m') => out.push_str(&number(month, 2)),
            Some('d') => out.push_str(&number(day, 2)),
            Some('e') => out.push_str(&format!("{day:2}")),
            Some('j') => out.push_str(&number(day_of_year, 3)),
            Some('H') => out.push_str(&number(hour, 2)),
            Some('I') => out.push_str(&number(twelve, 2)),
            Some('M') => out.push_str(&number(minute, 2)),
            Some('S') => out.push_str(&number(second % 60, 2)),
            Some('p') => out.push_str(if hour < 12 { "AM" } else { "PM" }),
            Some('B') => out.push_str(month_name),
            Some('b' | 'h') => out.push_str(&month_name[..3]),
            Some('A') => out.push_str(DAYS[weekday]),
            Some('a') => out.push_str(&DAYS[weekday][..3]),
            Some('F') => out.push_str(&format!("{year}-{month:02}-{day:02}")),
            Some('T') => out.push_str(&format!("{hour:02}:{minute:02}:{:02}", second % 60)),
            Some('Z') => out.push_str("UTC"),
            Some('z') => out.push_str("+0000"),
            Some('%') => out.push('%'),
            Some(other) => out.extend(['%', other]),
            None => out.push('%'),
        }
    }
    out
}

/// Returns the days from 1970 to the beginning of a year.
fn days_before(year: i64) -> i64 {
    let last = year - 1;
    last * 365 + last.div_euclid(4) - last.div_euclid(100) + last.div_euclid(400) - 719_162
}

/// Converts a number of days since 1970 to year, month and day.
fn civil(days: i64) -> (i64, i64, i64) {
    let mut year = 1970 + days.div_euclid(366);
    while days_before(year + 1) <= days {
        year += 1;
    }
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut day = days - days_before(year);
    let mut month = 1;
    for length in lengths {
        if day < length {
            break;
        }
        day -= length;
        month += 1;
    }
    (year, month, day + 1)
}
