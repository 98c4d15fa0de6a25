//! Compares the functions that the CPU backend computes as a unit with their separate instructions.

use super::*;
use warpweft::expr::Expr;
use warpweft::op::{Function, Pointwise};

/// Returns numbers of all magnitudes and kinds.
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

/// Returns two programs of a function with instructions before and after it. One calls the function and stores only the result.
/// The other has its instructions and stores every float on the way, so that none is fused.
fn programs(function: &Function) -> [Builder; 2] {
    let build = |called: bool| {
        let mut b = Builder::default();
        let x = load(&mut b, 0, 0, &[1]);
        let scaled = b.expr(Expr::arg(0) * 1.5 - 0.25, &[x]);
        let value = match called {
            true => {
                b.push(Inst::Call(function.clone(), [scaled].into_iter().collect(), DType::F32))
            }
            false => b.function(function, &[scaled], DType::F32),
        };
        let last = b.expr(Expr::arg(0) + Expr::arg(1), &[value, x]);
        (b, last)
    };
    let (mut together, last) = build(true);
    put(&mut together, 0, &[1], last);
    let (mut apart, last) = build(false);
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
fn functions_give_the_bits_of_their_instructions() {
    let all = [
        Function::Row(Pointwise::sigmoid),
        Function::Row(Pointwise::silu),
        Function::Row(Pointwise::tanh),
        Function::Row(Pointwise::softplus),
        Function::Row(Pointwise::erf),
        Function::Row(Pointwise::gelu),
        Function::Row(Pointwise::gelu_tanh),
        // The derivative of `softplus` is itself a row.
        Function::Formula(Pointwise::softplus.row().derivative(0)),
        Function::Formula(Pointwise::sigmoid.row().derivative(0)),
        Function::Formula(Pointwise::tanh.row().derivative(0)),
        // Functions without a special implementation.
        Function::Row(Pointwise::mish),
        Function::Formula(Pointwise::silu.row().derivative(0)),
    ];
    for function in all {
        for n in [1, 31, 33, 257, 1025, 5000] {
            let x = words_of(&mixed(n));
            let [together, apart] = programs(&function);
            let outputs = apart.len();
            let found = run_words(kernel(&[n], 1, together), &[&x], n);
            let backend = CpuBackend::new();
            let wanted = try_run(&backend, kernel(&[n], 1, apart), &[&x], &vec![n; outputs], &[]);
            let wanted = wanted.unwrap().remove(0);
            for (i, (&found, &wanted)) in found.iter().zip(&wanted).enumerate() {
                let nan = |word: u32| f32::from_bits(word).is_nan();
                let same = found == wanted || nan(found) && nan(wanted);
                let x = f32::from_bits(x[i]);
                assert!(same, "{function:?} of {x}, {i} of {n}: {found:08x} is not {wanted:08x}");
            }
        }
    }
}
