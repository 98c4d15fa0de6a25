//! Draws a graph as SVG.

use super::layout::{layout, Layout};
use super::ComputationGraph;
use std::fmt::Write;

/// The width of a character and the height of a line of the font.
const LETTER: (f64, f64) = (7.3, 16.0);
/// The distance between a box and its text.
const PADDING: f64 = 8.0;

impl ComputationGraph {
    /// Returns the graph as self-contained SVG, for a file that ends in `.svg` or for a part of a page.
    pub fn svg(&self) -> String {
        let texts: Vec<Vec<String>> = self.nodes.iter().map(|node| node.lines()).collect();
        let mut sizes = Vec::with_capacity(texts.len());
        for lines in &texts {
            let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            let height = lines.len() as f64 * LETTER.1 + PADDING;
            sizes.push((longest as f64 * LETTER.0 + 2.0 * PADDING, height));
        }
        let inputs: Vec<Vec<usize>> = self.nodes.iter().map(|node| node.inputs.clone()).collect();
        let Layout { size: (width, height), boxes, edges } = layout(&sizes, &inputs);
        let mut text = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width:.0}\" height=\"{height:.0}\" \
             viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"monospace\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n"
        );
        // Writing to a string cannot fail.
        for (_, points) in edges {
            let mut path = format!("M{:.1} {:.1}", points[0].0, points[0].1);
            for pair in points.windows(2) {
                let ((a, b), (c, d)) = (pair[0], pair[1]);
                let middle = (a + c) / 2.0;
                let _ = write!(path, " C{middle:.1} {b:.1} {middle:.1} {d:.1} {c:.1} {d:.1}");
            }
            let (x, y) = points[points.len() - 1];
            let _ = writeln!(text, "<path d=\"{path}\" fill=\"none\" stroke=\"#888\"/>");
            let _ = writeln!(text, "<path d=\"M{x:.1} {y:.1} l-6 -3.5 v7 z\" fill=\"#888\"/>");
        }
        for (((x, y), size), (node, lines)) in
            boxes.into_iter().zip(sizes).zip(self.nodes.iter().zip(texts))
        {
            let fill = match (&node.name, node.inputs.is_empty()) {
                (Some(_), true) => "#d5e8d4",
                (Some(_), false) => "#fff2cc",
                (None, true) => "#eee",
                (None, false) => "#dae8fc",
            };
            let _ = writeln!(
                text,
                "<rect x=\"{x:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{:.1}\" rx=\"4\" \
                 fill=\"{fill}\" stroke=\"#555\"/>",
                size.0, size.1
            );
            for (n, line) in lines.iter().enumerate() {
                let (x, y) = (x + PADDING, y + LETTER.1 * (n as f64 + 1.0) - 1.0);
                let weight = if n == 0 { " font-weight=\"bold\"" } else { "" };
                let line = escaped(line);
                let _ = writeln!(text, "<text x=\"{x:.1}\" y=\"{y:.1}\"{weight}>{line}</text>");
            }
        }
        text.push_str("</svg>\n");
        text
    }
}

/// Escapes text for XML. Characters that XML does not allow are dropped.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => (),
            c => safe.push(c),
        }
    }
    safe
}
