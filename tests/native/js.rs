//! Tests what the JavaScript API takes from the pointwise table.

use std::path::Path;
use warpweft::dtype::DType;
use warpweft::op::pointwise::{Types, TABLE};

/// Converts `leaky_relu` to the name in JavaScript. `where` is a keyword in Rust.
fn camel(name: &str) -> String {
    let mut words = name.trim_end_matches("_cond").split('_');
    let mut joined = words.next().unwrap_or_default().to_string();
    for word in words {
        joined += &word[..1].to_uppercase();
        joined += &word[1..];
    }
    joined
}

fn read(path: &str) -> String {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Checks that the page's cases call every row by its name in JavaScript.
#[test]
fn pages_try_every_row() {
    let cases = read("www/tests/cases/pointwise.js") + &read("www/tests/cases/reference.js");
    let words: Vec<&str> =
        cases.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    let untried: Vec<String> = TABLE
        .iter()
        .map(|row| camel(row.name))
        .filter(|name| !words.contains(&&name[..]))
        .collect();
    assert!(untried.is_empty(), "no page tries {untried:?}");
}

/// Returns the dtypes that a row takes.
fn taken(types: Types) -> Vec<DType> {
    let (float, int) = ([DType::F32, DType::F16], [DType::I32, DType::U32]);
    match types {
        Types::Float => float.to_vec(),
        Types::Number => [float, int].concat(),
        Types::Signed => vec![DType::F32, DType::F16, DType::I32],
        Types::Int => int.to_vec(),
        Types::Bool => vec![DType::Bool],
        Types::Bits => vec![DType::I32, DType::U32, DType::Bool],
        Types::Any | Types::Select => vec![DType::F32, DType::I32, DType::Bool],
        Types::U32 => vec![DType::U32],
    }
}

/// Checks that the result dtype that a row declares for TypeScript is the actual dtype.
#[test]
fn results_have_the_types_that_rows_say() {
    for row in TABLE {
        for dtype in taken(row.types) {
            let mut operands = vec![dtype; row.operands.len()];
            if row.types == Types::Select {
                operands[0] = DType::Bool;
            }
            let found = row.dtype(&operands).expect("it takes these");
            assert_eq!(found, row.result.unwrap_or(dtype), "{} of {dtype}", row.name);
        }
    }
}
