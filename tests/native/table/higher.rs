//! Tests higher derivatives of every row by its operands, up to three times, as formulas in `f32`, against Taylor arithmetic in
//! `f64`.

use super::machine::{grid, Arithmetic, Machine};
use super::{argument_types, float_bits, number, takes};
use crate::shared::jets::derivatives;
use warpweft::dtype::DType;
use warpweft::op::pointwise::TABLE;
use warpweft::op::{Row, Types};

/// Magnitudes for rows of one operand, with both signs: 0, close to 0, points where formulas switch branches, the corners of
/// activations, and far out.
const PLACES: [f32; 34] = [
    0.0,
    1e-30,
    1e-10,
    1e-4,
    0.01,
    0.3,
    1.0 / 3.0,
    0.42,
    0.499,
    0.5,
    0.547,
    0.6,
    0.707,
    0.75,
    0.9,
    1.0,
    1.0001,
    1.25,
    1.5,
    2.0,
    3.0,
    4.0,
    6.0,
    8.0,
    10.0,
    12.0,
    12.5,
    20.0,
    20.001,
    30.0,
    88.0,
    100.0,
    1e4,
    1e9,
];

/// Magnitudes for rows of two operands, in all pairs: ties, and whole and fractional powers.
const PAIRS: [f32; 13] = [0.0, 1e-30, 1e-10, 1e-4, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 30.0, 100.0, 1e4];

/// Magnitudes for rows of three operands.
const TRIPLES: [f32; 6] = [0.0, 1e-4, 0.5, 1.0, 2.0, 100.0];

fn points(row: &Row) -> Vec<Vec<f64>> {
    let values = match row.operands.len() {
        1 => &PLACES[..],
        2 => &PAIRS[..],
        _ => &TRIPLES[..],
    };
    let both: Vec<f64> = values.iter().flat_map(|&x| [f64::from(x), -f64::from(x)]).collect();
    let mut points = grid(&both, row.operands.len());
    for point in &mut points {
        if row.types == Types::Select {
            point[0] = f64::from(u8::from(point[0] > 0.5));
        }
        point.extend(row.parameters.iter().map(|parameter| f64::from(parameter.1 as f32)));
    }
    points
}

/// Whether the function has derivatives at the point, and `f64` can represent them. A power of 0 or of a negative
/// number has some.
fn has_derivatives(name: &str, point: &[f64]) -> bool {
    let x = point[0];
    match name {
        "reciprocal" => x != 0.0,
        "sqrt" | "rsqrt" | "log" | "log2" | "log10" => x > 0.0,
        "log1p" => x > -1.0,
        "asin" | "acos" | "atanh" | "erfinv" => x.abs() < 1.0,
        "lgamma" | "digamma" => x > 0.0 || x.floor() != x,
        "logit" => x > 0.0 && x < 1.0,
        "acosh" => x > 1.0,
        // Larger arguments give infinity.
        "exp" | "exp2" | "expm1" | "sinh" | "cosh" => x.abs() < 700.0,
        "div" | "fmod" | "remainder" => point[1] != 0.0,
        "pow" if (x.abs().ln() * (point[1] - 3.0)).abs() > 600.0 => false,
        // x^(y-2) exceeds the range of `f32`, but y times x^(y-2) does not.
        "pow" if x.abs() < 1e-20 && point[1] != 0.0 && point[1].abs() < 1e-20 => false,
        "pow" => x >= 0.0 || point[1].fract() == 0.0,
        _ => true,
    }
}

/// Returns all ways to choose up to three operands, in any order.
fn orders(operands: usize) -> Vec<Vec<usize>> {
    let numbers: Vec<usize> = (0..operands).collect();
    (1..=3).flat_map(|count| grid(&numbers, count)).collect()
}

/// Returns the size of the terms that a derivative may be a sum of. This is the size of the neighboring derivatives, or, if it
/// is less, their size times the distance to 0, by which the derivatives of powers differ.
fn size(name: &str, point: &[f64], order: &[usize]) -> f64 {
    let mut directions = order.to_vec();
    directions.resize(3, order[order.len() - 1]);
    let parts = derivatives(name, point, &directions).expect(name);
    let wanted = (1 << order.len()) - 1;
    let (mut plain, mut scaled) = (0.0f64, 0.0f64);
    for some in 1..8 {
        // By the directions that it lacks and those that it has too often.
        let product = |parts: usize| -> f64 {
            (0..3).filter(|at| parts >> at & 1 == 1).map(|at| point[directions[at]].abs()).product()
        };
        plain = plain.max(parts[some].abs());
        scaled = scaled.max(parts[some].abs() * product(some & !wanted) / product(wanted & !some));
    }
    plain.min(scaled)
}

#[test]
fn derivatives_to_the_third_are_the_functions() {
    let (mut failures, mut wrong, mut rows) = (String::new(), 0, 0);
    for row in TABLE.iter().filter(|row| takes(row, DType::F32)) {
        let types = argument_types(row, DType::F32);
        if Machine::new(row.expr(), &types).dtype() != DType::F32 {
            continue;
        }
        rows += 1;
        let (mut worst, mut count, mut compared) = (String::new(), 0, 0);
        for order in orders(row.operands.len()) {
            if row.types == Types::Select && order.contains(&0) {
                continue;
            }
            let first = row.derivative(order[0]);
            let formula = order[1..].iter().fold(first, |formula, &n| formula.derivative(n));
            let machine = Machine::new(formula, &types);
            for point in points(row) {
                let parts = derivatives(row.name, &point, &order).expect(row.name);
                let want = parts[(1 << order.len()) - 1];
                let some = row.name == "pow" && point[0] <= 0.0;
                if !has_derivatives(row.name, &point) || some && want.is_nan() {
                    continue;
                }
                assert!(want.is_finite(), "the {order:?} derivative of {} at {point:?}", row.name);
                compared += 1;
                let allowed = 2e-5 * want.abs() + 2e-6 * size(row.name, &point, &order) + 1e-34;
                let bits = float_bits(row, &point);
                for (arithmetic, more) in [(Arithmetic::Exact, 1.0), (Arithmetic::Coarse, 4.0)] {
                    let got = number(&machine, machine.run(&bits, arithmetic));
                    let large = want.abs() * 1.001 > f64::from(f32::MAX);
                    let overflows = large && got.is_infinite() && got.signum() == want.signum();
                    // Written so that NaN fails.
                    if !((got - want).abs() <= more * allowed || overflows) {
                        count += 1;
                        if worst.is_empty() {
                            worst = format!("by {order:?} at {point:?}: got {got:e}, not {want:e}");
                        }
                    }
                }
            }
        }
        assert!(compared > 30, "{}: {compared} compared", row.name);
        if count > 0 {
            wrong += 1;
            failures += &format!("\n{}, {count} of {compared}: {worst}", row.name);
        }
    }
    assert!(rows > 60, "{rows} rows");
    assert!(failures.is_empty(), "{wrong} rows of {rows}{failures}");
}
