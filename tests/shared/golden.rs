//! Reads files of arrays that the scripts in `tests/golden` write. A line has a case, a name, a shape and elements.

use super::array::Array;
use std::collections::HashMap;

/// Returns the arrays of a case by name.
pub fn arrays(file: &str, case: &str) -> HashMap<String, Array<f64>> {
    let lines = file.lines().filter_map(|line| {
        let mut fields = line.split('|');
        (fields.next()? == case).then(|| {
            let mut next = || fields.next().expect("four fields");
            let name = next().to_string();
            let numbers = |text: &str, by: char| {
                let parts = text.split(by).filter(|part| !part.is_empty());
                parts.map(|part| part.parse::<f64>().expect("a number")).collect::<Vec<f64>>()
            };
            let shape: Vec<usize> = numbers(next(), ',').iter().map(|&d| d as usize).collect();
            (name, Array::new(&shape, numbers(next(), ' ')))
        })
    });
    lines.collect()
}
