//! The chart of losses, written as SVG without a library.

use std::fmt::Write as _;
use warpweft_native::train::Epoch;

const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 360.0;
/// The margin around the lines, for labels.
const MARGIN: f64 = 48.0;
/// The color of each line.
const COLOURS: [&str; 2] = ["#1f6feb", "#d1242f"];

/// Draws the losses of all epochs, in training and in validation.
pub fn losses(history: &[Epoch]) -> String {
    let training = history.iter().map(|epoch| epoch.loss).collect();
    let validation = history.iter().filter_map(|epoch| epoch.get("validation_loss")).collect();
    let lines: [(&str, Vec<f64>); 2] = [("training", training), ("validation", validation)];
    let all = || lines.iter().flat_map(|(_, line)| line).copied().filter(|loss| loss.is_finite());
    // The axis begins at 0, so that heights can be compared.
    let (low, high) = (all().fold(0.0, f64::min), all().fold(f64::MIN_POSITIVE, f64::max));
    let last = history.len().saturating_sub(1).max(1) as f64;
    let x = |n: usize| MARGIN + n as f64 / last * (WIDTH - 2.0 * MARGIN);
    let y = |loss: f64| HEIGHT - MARGIN - (loss - low) / (high - low) * (HEIGHT - 2.0 * MARGIN);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>Loss by epoch</title>\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    let right = WIDTH - MARGIN;
    for part in 0..=4 {
        let loss = low + (high - low) * f64::from(part) / 4.0;
        let (at, beside) = (y(loss), MARGIN - 6.0);
        let _ = writeln!(
            svg,
            "<path d=\"M{MARGIN} {at:.1}H{right}\" stroke=\"#ddd\"/>\
             <text x=\"{beside}\" y=\"{:.1}\" text-anchor=\"end\">{loss:.3}</text>",
            at + 4.0
        );
    }
    let (middle, below) = (WIDTH / 2.0, HEIGHT - MARGIN / 3.0);
    let _ = writeln!(
        svg,
        "<text x=\"{middle}\" y=\"{below}\" text-anchor=\"middle\">epochs 1 to {}</text>",
        history.len()
    );
    for (n, ((name, line), colour)) in lines.iter().zip(COLOURS).enumerate() {
        let points: Vec<String> = line
            .iter()
            .enumerate()
            .filter(|(_, loss)| loss.is_finite())
            .map(|(n, &loss)| format!("{:.1},{:.1}", x(n), y(loss)))
            .collect();
        if points.is_empty() {
            continue;
        }
        let (left, top) = (right - 80.0, MARGIN / 2.0 + 16.0 * n as f64);
        let _ = writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{left}\" y=\"{top}\" fill=\"{colour}\">{name}</text>",
            points.join(" ")
        );
    }
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::losses;
    use warpweft_native::train::{Epoch, Scores};

    #[test]
    fn a_point_for_each_loss() {
        let epoch = |loss: f64, validation: Option<f64>| Epoch {
            epoch: 0,
            steps: 1,
            loss,
            validation: validation.map(|loss| Scores { loss, metrics: Vec::new() }),
            lr: 0.1,
            seconds: 1.0,
        };
        let svg = losses(&[epoch(4.0, Some(2.0)), epoch(2.0, None), epoch(0.0, Some(f64::NAN))]);
        // The largest loss is 48 below the top, and 0 is 48 above the bottom of 360.
        assert!(svg.contains("points=\"48.0,48.0 320.0,180.0 592.0,312.0\""), "{svg}");
        assert!(svg.contains("points=\"48.0,180.0\""), "{svg}");
        assert!(losses(&[]).ends_with("</svg>\n"));
        assert!(!losses(&[epoch(0.0, None)]).contains("NaN"));
    }
}
