//! The report of the demo: figures, a table, JSON, and checks.

use super::{attention, image, Results, HEIGHT, WIDTH};
use comfy_table::{presets, CellAlignment, Table};
use serde_json::{json, Map, Value};
use warpweft_native::backend::{DeviceKind, Info};
use warpweft_native::prelude::*;

/// The largest difference of a value from the CPU's. Values are about 1 or smaller.
const NEAR: f64 = 1e-4;
/// The largest difference of a sum of attention weights from 1.
const SUM: f64 = 1e-5;

/// The figures of a device. Differences are the largest ones from the CPU's values.
pub struct Report {
    info: Info,
    image_ms: f64,
    image_mean: f64,
    image_samples: Vec<f32>,
    image_difference: f64,
    /// The name, mean and difference of each filter alone.
    filters: Vec<(&'static str, f64, f64)>,
    attention_ms: f64,
    attention_mean: f64,
    attention_samples: Vec<f32>,
    attention_difference: f64,
    /// The largest difference of the sum of a row of weights from 1.
    row_sums: f64,
    /// The largest difference between the two ways to compute attention.
    fused_difference: f64,
}

/// Computes the figures of all devices, each compared with the last one.
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

/// Returns 64 values, evenly spread.
fn samples(values: &[f32]) -> Vec<f32> {
    (0..64).map(|i| values[i * values.len() / 64]).collect()
}

/// Returns the larger magnitude, or NaN if a number is NaN.
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

/// Formats a table with one line for each device.
pub fn table(reports: &[Report]) -> String {
    let mut table = Table::new();
    let head = ["device", "image ms", "attention ms", "mean", "difference from the CPU"];
    table.load_preset(presets::NOTHING).set_header(head);
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    for r in reports {
        let software = if r.info.kind == DeviceKind::Software { " (software)" } else { "" };
        let worst = r.image_difference.max(r.attention_difference);
        table.add_row([
            format!("{}: {}{software}", r.info.backend, r.info.name),
            format!("{:.2}", r.image_ms),
            format!("{:.2}", r.attention_ms),
            format!("{:.5}", r.image_mean),
            format!("{worst:.1e}"),
        ]);
    }
    format!(
        "picture of {WIDTH} x {HEIGHT} through {} filters; attention over {} words\n\n{table}\n",
        image::USUAL.len(),
        attention::words(attention::SENTENCE).len()
    )
}

/// Formats all figures as JSON for `npm run demo`. JSON has no NaN, so it becomes `null`.
pub fn json(hash: u32, reports: &[Report]) -> String {
    let figures = json!({
        "picture": { "width": WIDTH, "height": HEIGHT, "hash": hash },
        "devices": reports.iter().map(device_json).collect::<Vec<Value>>(),
    });
    format!("{figures:#}\n")
}

fn device_json(r: &Report) -> Value {
    let filters: Map<String, Value> = r
        .filters
        .iter()
        .map(|(name, mean, most)| (name.to_string(), json!({ "mean": mean, "difference": most })))
        .collect();
    json!({
        "where": "native",
        "backend": r.info.backend,
        "name": r.info.name,
        "software": r.info.kind == DeviceKind::Software,
        "image": {
            "ms": r.image_ms,
            "mean": r.image_mean,
            "difference": r.image_difference,
            "samples": r.image_samples,
        },
        "filters": filters,
        "attention": {
            "ms": r.attention_ms,
            "mean": r.attention_mean,
            "difference": r.attention_difference,
            "rowSums": r.row_sums,
            "fused": r.fused_difference,
            "samples": r.attention_samples,
        },
    })
}

/// Checks the figures.
///
/// # Errors
/// `InvalidState`, with every problem.
pub fn check(reports: &[Report]) -> Result<()> {
    let mut wrong = Vec::new();
    for r in reports {
        let mut at_most = |quantity: &str, value: f64, limit: f64| {
            // A NaN compares as false, so it is tested separately.
            if value.is_nan() || value > limit {
                wrong.push(format!("{}: {quantity} is {value:.1e}, over {limit:.0e}", r.info.name));
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
    Err(Error::state(format!("demo: {}", wrong.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::difference;

    #[test]
    fn a_nan_is_a_difference() {
        assert!(difference(&[0.0, f32::NAN, 1.0], &[0.0; 3]).is_nan());
        assert_eq!(difference(&[0.5, 1.0], &[0.5, 3.0]), 2.0);
    }
}
