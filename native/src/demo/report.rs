//! What came of the demo's work: figures, a table of them, JSON, and whether they are right.

use super::{attention, image, Results, HEIGHT, WIDTH};
use std::fmt::Write;
use warpweft_native::backend::{DeviceKind, Info};
use warpweft_native::prelude::*;

/// How far a value may lie from the CPU's: they are between 0 and 1, or of that size.
const NEAR: f64 = 1e-4;
/// How far a sum of attention weights may lie from 1.
const SUM: f64 = 1e-5;

/// A device's figures. Differences are the largest ones from the CPU's values.
pub struct Report {
    info: Info,
    image_ms: f64,
    image_mean: f64,
    image_samples: Vec<f32>,
    image_difference: f64,
    /// Name, mean and difference of each filter alone.
    filters: Vec<(&'static str, f64, f64)>,
    attention_ms: f64,
    attention_mean: f64,
    attention_samples: Vec<f32>,
    attention_difference: f64,
    /// How far the sum of a row of weights is from 1, at most.
    row_sums: f64,
    /// How far the two ways of attention are apart.
    fused_difference: f64,
}

/// Figures of all devices, each against the last.
pub fn compare(devices: &[Device], results: &[Results]) -> Vec<Report> {
    let Some(cpu) = results.last() else { return Vec::new() };
    let report = |(device, results): (&Device, &Results)| {
        let alone = results.filters.iter().zip(&cpu.filters);
        let sums = results.weights.chunks(results.words).map(|row| row.iter().sum::<f32>());
        Report {
            info: device.info().clone(),
            image_ms: results.image_ms,
            image_mean: mean(&results.image),
            image_samples: samples(&results.image),
            image_difference: difference(&results.image, &cpu.image),
            filters: alone.map(|((name, a), (_, b))| (*name, mean(a), difference(a, b))).collect(),
            attention_ms: results.attention_ms,
            attention_mean: mean(&results.fused),
            attention_samples: samples(&results.fused),
            attention_difference: difference(&results.weights, &cpu.weights)
                .max(difference(&results.fused, &cpu.fused)),
            row_sums: sums.fold(0.0, |most, sum| largest(most, f64::from(sum) - 1.0)),
            fused_difference: difference(&results.fused, &results.composed),
        }
    };
    devices.iter().zip(results).map(report).collect()
}

fn mean(values: &[f32]) -> f64 {
    values.iter().map(|&v| f64::from(v)).sum::<f64>() / values.len() as f64
}

/// 64 values, evenly spread.
fn samples(values: &[f32]) -> Vec<f32> {
    (0..64).map(|i| values[i * values.len() / 64]).collect()
}

/// The larger magnitude, and NaN where one is NaN.
fn largest(most: f64, value: f64) -> f64 {
    if value.abs() > most || value.is_nan() {
        value.abs()
    } else {
        most
    }
}

fn difference(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).fold(0.0, |most, (&a, &b)| largest(most, f64::from(a) - f64::from(b)))
}

/// One line per device.
pub fn table(reports: &[Report]) -> String {
    let mut text = format!(
        "picture of {WIDTH} x {HEIGHT} through {} filters; attention over {} words\n",
        image::USUAL.len(),
        attention::words(attention::SENTENCE).len()
    );
    let heads = ["image ms", "attention ms", "mean", "difference from the CPU"];
    text += &format!("{:<44}{:>12}{:>14}{:>10}  {}\n", "", heads[0], heads[1], heads[2], heads[3]);
    for r in reports {
        let software = if r.info.kind == DeviceKind::Software { " (software)" } else { "" };
        let name = format!("{}: {}{software}", r.info.backend, r.info.name);
        let worst = r.image_difference.max(r.attention_difference);
        let _ = writeln!(
            text,
            "{name:<44}{:>12.2}{:>14.2}{:>10.5}  {worst:.1e}",
            r.image_ms, r.attention_ms, r.image_mean
        );
    }
    text
}

/// All figures, as `npm run demo` reads them.
pub fn json(hash: u32, reports: &[Report]) -> String {
    let devices: Vec<String> = reports.iter().map(device_json).collect();
    format!(
        "{{\n\"picture\": {{\"width\": {WIDTH}, \"height\": {HEIGHT}, \"hash\": {hash}}},\n\"devices\": [\n{}\n]\n}}\n",
        devices.join(",\n")
    )
}

fn device_json(r: &Report) -> String {
    let Info { backend, name, kind, .. } = &r.info;
    let software = *kind == DeviceKind::Software;
    let filters: Vec<String> = r
        .filters
        .iter()
        .map(|(name, mean, most)| {
            let (mean, most) = (number(*mean), number(*most));
            format!("\"{name}\": {{\"mean\": {mean}, \"difference\": {most}}}")
        })
        .collect();
    let image = format!(
        "{{\"ms\": {}, \"mean\": {}, \"difference\": {}, \"samples\": {}}}",
        number(r.image_ms),
        number(r.image_mean),
        number(r.image_difference),
        numbers(&r.image_samples)
    );
    let attention = format!(
        "{{\"ms\": {}, \"mean\": {}, \"difference\": {}, \"rowSums\": {}, \"fused\": {}, \"samples\": {}}}",
        number(r.attention_ms),
        number(r.attention_mean),
        number(r.attention_difference),
        number(r.row_sums),
        number(r.fused_difference),
        numbers(&r.attention_samples)
    );
    format!(
        "{{\"where\": \"native\", \"backend\": \"{backend}\", \"name\": {}, \"software\": {software},\n\
         \"image\": {image},\n\"filters\": {{{}}},\n\"attention\": {attention}}}",
        quoted(name),
        filters.join(", ")
    )
}

/// A number as JSON has it: there is no NaN.
fn number(value: f64) -> String {
    if value.is_finite() {
        value.to_string()
    } else {
        "null".to_string()
    }
}

fn numbers(values: &[f32]) -> String {
    let values: Vec<String> = values.iter().map(|&v| number(f64::from(v))).collect();
    format!("[{}]", values.join(", "))
}

fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => quoted += &format!("\\u{:04x}", c as u32),
            c => quoted.push(c),
        }
    }
    quoted + "\""
}

/// Whether the figures are what they must be.
///
/// # Errors
/// `Data`, with everything that is wrong.
pub fn check(reports: &[Report]) -> Result<()> {
    let mut wrong = Vec::new();
    for r in reports {
        let mut at_most = |what: &str, value: f64, limit: f64| {
            // NaN is not at most anything.
            if value.is_nan() || value > limit {
                wrong.push(format!("{}: {what} is {value:.1e}, over {limit:.0e}", r.info.name));
            }
        };
        at_most("the image's difference from the CPU", r.image_difference, NEAR);
        for (name, _, difference) in &r.filters {
            at_most(&format!("{name}'s difference from the CPU"), *difference, NEAR);
        }
        at_most("the attention's difference from the CPU", r.attention_difference, NEAR);
        at_most("the distance of a sum of weights from 1", r.row_sums, SUM);
        at_most("the distance of the two ways of attention", r.fused_difference, NEAR);
    }
    if wrong.is_empty() {
        return Ok(());
    }
    Err(Error::data(format!("demo: {}", wrong.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::{difference, number, quoted};

    #[test]
    fn a_nan_is_a_difference() {
        assert!(difference(&[0.0, f32::NAN, 1.0], &[0.0; 3]).is_nan());
        assert_eq!(difference(&[0.5, 1.0], &[0.5, 3.0]), 2.0);
    }

    #[test]
    fn json_has_no_strange_characters() {
        assert_eq!(quoted("a \"b\"\n\\"), r#""a \"b\"\u000a\\""#);
        assert_eq!(number(f64::NAN), "null");
        assert_eq!(number(0.25), "0.25");
    }
}
