//! What the CPU backend computes as one function, against its instructions one by one.

use super::*;
use warpweft::expr::Expr;
use warpweft::op::formulas;

/// Numbers of all sizes and kinds.
fn mixed(count: usize) -> Vec<f32> {
    let special = [
        0.0,
        -0.0,
        f32::NAN,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::MIN_POSITIVE,
        -1e-40,
        1e-45,
        f32::MAX,
        f32::MIN,
        0.547,
        -0.707,
        88.0,
        -104.5,
    ];
    let scales = [1.0, 1e-3, 10.0, 100.0, 1e-20];
    let each = |(i, x): (usize, f32)| match i % 3 {
        0 if i / 3 < special.len() => special[i / 3],
        _ => x * scales[i % scales.len()],
    };
    noise(count, 9).into_iter().enumerate().map(each).collect()
}

/// A formula of one value.
type Formula = fn(Expr) -> Expr;

/// Programs of a formula, with something before and after it: one that stores the result alone, and one that stores
/// every float on the way, so that no instruction is done along with another.
fn programs(formula: Formula) -> [Builder; 2] {
    let build = || {
        let mut b = Builder::default();
        let x = load(&mut b, 0, 0, &[1]);
        let scaled = b.expr(Expr::arg(0) * 1.5 - 0.25, &[x]);
        let value = b.expr(formula(Expr::arg(0)), &[scaled]);
        let last = b.expr(Expr::arg(0) + Expr::arg(1), &[value, x]);
        (b, last)
    };
    let (mut together, last) = build();
    put(&mut together, 0, &[1], last);
    let (mut apart, last) = build();
    put(&mut apart, 0, &[1], last);
    let mut output = 1;
    for value in 0..last {
        if apart.dtype(value) == DType::F32 {
            put(&mut apart, output, &[1], value);
            output += 1;
        }
    }
    [together, apart]
}

#[test]
fn formulas_as_one_function_give_the_bits_of_their_instructions() {
    let all: [(&str, Formula); 9] = [
        ("sigmoid", formulas::sigmoid),
        ("silu", formulas::silu),
        ("tanh", formulas::tanh),
        ("softplus", formulas::softplus),
        ("erf", formulas::erf),
        ("gelu", formulas::gelu),
        ("gelu_tanh", formulas::gelu_tanh),
        // Of which a part is known, or a part is used twice.
        ("silu_slope", formulas::silu_slope),
        ("two sigmoids", |x| formulas::sigmoid(x) * formulas::sigmoid(-x)),
    ];
    for (name, formula) in all {
        for n in [1, 31, 33, 257, 1025, 5000] {
            let x = words_of(&mixed(n));
            let [together, apart] = programs(formula);
            let outputs = apart.len();
            let found = run_words(kernel(&[n], 1, together), &[&x], n);
            let backend = CpuBackend::new();
            let wanted = try_run(&backend, kernel(&[n], 1, apart), &[&x], &vec![n; outputs], &[]);
            let wanted = wanted.unwrap().remove(0);
            for (i, (&found, &wanted)) in found.iter().zip(&wanted).enumerate() {
                let nan = |word: u32| f32::from_bits(word).is_nan();
                let same = found == wanted || nan(found) && nan(wanted);
                let x = f32::from_bits(x[i]);
                assert!(same, "{name} of {x}, {i} of {n}: {found:08x} is not {wanted:08x}");
            }
        }
    }
}
