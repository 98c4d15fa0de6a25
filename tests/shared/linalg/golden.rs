//! Tests values and gradients against NumPy and JAX in 64 bits. `tests/golden/linalg.py` writes the numbers.

use super::super::array::Array;
use super::super::check::{near, Check, Suite};
use super::super::golden::arrays;
use super::super::tolerance::Tolerance;
use std::collections::{HashMap, HashSet};
use warpweft::error::Result;
use warpweft::tensor::{MatrixNorm, Tensor};

const FILE: &str = include_str!("../../golden/linalg.txt");

/// The tolerance in `f32`. The condition number multiplies the rounding error, once more for each derivative. It is below some
/// hundreds here.
fn by(want: &Array<f64>, times: f64) -> Tolerance {
    let size = want.data.iter().fold(1.0f64, |most, x| most.max(x.abs()));
    Tolerance { absolute: times * 2e-6 * size, relative: 0.0 }
}

/// The computation of a case from its inputs, by their names.
type Build = fn(&HashMap<String, Tensor>) -> Result<Vec<Tensor>>;

/// Adds a case of the file: results, gradients and second derivatives.
pub fn like(
    suite: &mut Suite,
    case: &str,
    times: f64,
    build: impl Fn(&HashMap<String, Tensor>) -> Result<Vec<Tensor>> + 'static,
) {
    let case = case.to_string();
    suite.add(format!("like NumPy and JAX: {case}"), move |device| {
        let arrays = arrays(FILE, &case);
        let mut inputs = HashMap::new();
        for (name, array) in &arrays {
            let result = name.starts_with('y') || name.contains(' ') || name.starts_with('w');
            if !result {
                inputs.insert(name.clone(), array.f32(device)?);
            }
        }
        let mut names: Vec<&String> = inputs.keys().collect();
        names.sort();
        let results = build(&inputs)?;
        let mut checks: Vec<Check> = Vec::new();
        let mut loss: Option<Tensor> = None;
        for (n, result) in results.iter().enumerate() {
            let want = arrays[&format!("y{n}")].clone();
            let part = result.mul(arrays[&format!("w{n}")].f32(device)?)?.sum(())?;
            loss = Some(match loss {
                Some(loss) => loss.add(part)?,
                None => part,
            });
            let allowed = by(&want, times);
            checks.push(near(format!("result {n}"), result.clone(), want, allowed));
        }
        let wrt: Vec<&Tensor> = names.iter().map(|name| &inputs[*name]).collect();
        let gradients = loss.expect("a result").grad(&wrt)?;
        let mut across: Option<Tensor> = None;
        for (name, gradient) in names.iter().zip(gradients) {
            let want = arrays[&format!("d {name}")].clone();
            if let Some(other) = arrays.get(&format!("v {name}")) {
                let part = gradient.mul(other.f32(device)?)?.sum(())?;
                across = Some(match across {
                    Some(across) => across.add(part)?,
                    None => part,
                });
            }
            let allowed = by(&want, 4.0 * times);
            checks.push(near(format!("by {name}"), gradient, want, allowed));
        }
        if let Some(across) = across {
            for (name, gradient) in names.iter().zip(across.grad(&wrt)?) {
                let want = arrays[&format!("dd {name}")].clone();
                let allowed = by(&want, 16.0 * times);
                checks.push(near(format!("twice by {name}"), gradient, want, allowed));
            }
        }
        Ok(checks)
    });
}

/// Adds all cases whose names begin with `begin`.
fn all(suite: &mut Suite, begin: &str, times: f64, build: Build) {
    let mut seen = HashSet::new();
    for case in FILE.lines().filter_map(|line| line.split('|').next()) {
        if case.starts_with(begin) && seen.insert(case) {
            like(suite, case, times, build);
        }
    }
    assert!(!seen.is_empty(), "{begin}");
}

pub fn cases(suite: &mut Suite) {
    all(suite, "inv ", 4.0, |x| Ok(vec![x["a"].inv()?]));
    all(suite, "det ", 4.0, |x| Ok(vec![x["a"].det()?]));
    all(suite, "slogdet ", 4.0, |x| {
        let (sign, log) = x["a"].slogdet()?;
        Ok(vec![sign, log])
    });
    all(suite, "solve ", 4.0, |x| Ok(vec![x["a"].solve(&x["b"])?]));
    all(suite, "solve_triangular lower", 4.0, |x| {
        Ok(vec![x["a"].solve_triangular(&x["b"], false)?])
    });
    all(suite, "solve_triangular upper", 4.0, |x| {
        Ok(vec![x["a"].solve_triangular(&x["b"], true)?])
    });
    all(suite, "cholesky ", 4.0, |x| Ok(vec![x["a"].cholesky()?]));
    all(suite, "qr ", 8.0, |x| {
        let (q, r) = x["a"].qr()?;
        Ok(vec![q, r])
    });
    all(suite, "lstsq ", 16.0, |x| Ok(vec![x["a"].lstsq(&x["b"])?]));
    let norms: [(&str, Build); 8] = [
        ("fro", |x| Ok(vec![x["a"].matrix_norm(MatrixNorm::Frobenius)?])),
        ("nuc", |x| Ok(vec![x["a"].matrix_norm(MatrixNorm::Nuclear)?])),
        ("1", |x| Ok(vec![x["a"].matrix_norm(MatrixNorm::One)?])),
        ("-1", |x| Ok(vec![x["a"].matrix_norm(MatrixNorm::NegOne)?])),
        ("2", |x| Ok(vec![x["a"].matrix_norm(MatrixNorm::Two)?])),
        ("-2", |x| Ok(vec![x["a"].matrix_norm(MatrixNorm::NegTwo)?])),
        ("inf", |x| Ok(vec![x["a"].matrix_norm(MatrixNorm::Inf)?])),
        ("-inf", |x| Ok(vec![x["a"].matrix_norm(MatrixNorm::NegInf)?])),
    ];
    for (order, build) in norms {
        all(suite, &format!("norm {order} "), 8.0, build);
    }
}

/// Returns the equations of the file, each with its number of operands.
pub fn equations() -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for case in FILE.lines().filter_map(|line| line.split('|').next()?.strip_prefix("einsum ")) {
        if found.last().is_none_or(|last| last != case) {
            found.push(case.to_string());
        }
    }
    found
}
