//! The pointwise table against its meaning: values and derivatives in `f32` at extreme and at random points, types,
//! docs, random bits. No device is needed.

mod machine;
mod reference;

use machine::{grid, Arithmetic, Machine, Points, ARITHMETICS};
use reference::{Reference, Step};
use warpweft::dtype::DType;
use warpweft::error::ErrorKind;
use warpweft::expr::Expr;
use warpweft::op::formulas::threefry;
use warpweft::op::pointwise::TABLE;
use warpweft::op::{Pointwise, Row, Types};

/// Magnitudes at which every row is walked, both signs each.
const EXTREMES: [f32; 13] = [0.0, 1e-30, 1e-4, 0.3, 1.0, 3.0, 10.0, 30.0, 88.0, 89.0, 100.0, 1e4, 1e30];

const RANDOM_POINTS: usize = 2000;

/// Every row there must be.
const NAMES: &str = "abs neg sign sign_bit floor ceil round trunc fract exp exp2 expm1 log log2 log10 log1p sqrt rsqrt
    recip square sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh erf erfc relu relu6 leaky_relu elu selu
    celu sigmoid hard_sigmoid log_sigmoid silu hard_swish gelu gelu_tanh mish softplus softsign is_nan is_inf is_finite
    logical_not bitwise_not hard_tanh clamp add sub mul div rem floor_mod pow minimum maximum atan2 hypot copysign eq
    ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor shl shr squared_difference
    select fma lerp random_bits unit_float";

fn extremes() -> Vec<f32> {
    EXTREMES.iter().flat_map(|&x| [x, -x]).collect()
}

/// The row's operands of type `dtype`, then its parameters.
fn argument_types(row: &Row, dtype: DType) -> Vec<DType> {
    let mut types = vec![dtype; row.arity()];
    if row.types == Types::Select {
        types[0] = DType::Bool;
    }
    types
}

/// Argument bits for a row over floats; a condition is true above 0.5.
fn float_bits(row: &Row, point: &[f64]) -> Vec<u32> {
    let types = argument_types(row, DType::F32);
    let bits = |(&x, t): (&f64, DType)| match t {
        DType::Bool => u32::from(x > 0.5),
        _ => (x as f32).to_bits(),
    };
    point.iter().zip(types).map(bits).collect()
}

/// The points a row over floats is tested at: all combinations of extremes, and random ones of its domain. All are
/// exact in `f32`.
fn float_points(row: &Row) -> Vec<Vec<f64>> {
    let widen = |point: Vec<f32>| point.into_iter().map(f64::from).collect::<Vec<f64>>();
    let mut points: Vec<Vec<f64>> =
        grid(&extremes(), row.operands.len()).into_iter().map(widen).collect();
    for point in &mut points {
        point.extend(row.parameters.iter().map(|p| f64::from(p.1 as f32)));
    }
    let mut random = Points::new(row.name);
    let range = |n: usize| *row.domain.get(n).or(row.domain.last()).expect("a domain");
    for _ in 0..RANDOM_POINTS {
        let point = (0..row.arity()).map(|n| f64::from(random.between(range(n)) as f32));
        points.push(point.collect());
    }
    for point in &mut points {
        if row.types == Types::Select {
            point[0] = f64::from(u8::from(point[0] > 0.5));
        }
    }
    points
}

fn takes(row: &Row, dtype: DType) -> bool {
    row.dtype(&argument_types(row, dtype)[..row.operands.len()]).is_ok()
}

/// The rows over floats with their references.
fn float_rows() -> Vec<(&'static Row, Reference)> {
    let rows = TABLE.iter().filter(|row| takes(row, DType::F32));
    rows.map(|row| (row, reference::float(row.name).expect(row.name))).collect()
}

/// A result as a number: `bool` is 0 or 1.
fn number(machine: &Machine, bits: u32) -> f64 {
    match machine.dtype() {
        DType::Bool => f64::from(bits),
        DType::F32 => f64::from(f32::from_bits(bits)),
        other => panic!("{other} out of floats"),
    }
}

/// Whether `got` is `want` in `f32`: within `tolerance`, infinite where that overflows, about 0 where it underflows.
fn agrees(reference: &Reference, got: f64, want: f64, tolerance: f64) -> bool {
    const LARGEST: f64 = f32::MAX as f64;
    if want.is_nan() || got.is_nan() {
        return want.is_nan() && got.is_nan();
    }
    let overflow = got.is_infinite() && got.signum() == want.signum();
    (got - want).abs() <= tolerance
        || want.abs() * reference.headroom > LARGEST && overflow
        || want.abs() > LARGEST && got.abs() >= LARGEST
        || want.abs() < reference.tiny && got.abs() < reference.tiny
}

/// What a row's value may be off by.
fn value_tolerance(reference: &Reference, point: &[f64], want: f64, arithmetic: Arithmetic) -> f64 {
    let logarithm = if reference.tail && want != 0.0 { want.abs().ln().abs() } else { 0.0 };
    let rel = reference.rel * (1.0 + logarithm / 4.0);
    let scale = reference.scale.map_or(0.0, |scale| scale(point));
    let coarse = if arithmetic == Arithmetic::Coarse { 2.5 } else { 1.0 };
    coarse * (rel * want.abs() + 2e-7 * scale)
}

/// Where a row is wrong, the worst point says by how much.
struct Worst {
    relative: f64,
    count: usize,
    first: String,
}

#[test]
fn values_in_f32_are_the_functions() {
    let mut failures = String::new();
    for (row, reference) in float_rows() {
        let machine = Machine::new(&row.expr(), &argument_types(row, DType::F32));
        for arithmetic in ARITHMETICS {
            let mut worst = Worst { relative: 0.0, count: 0, first: String::new() };
            for point in float_points(row) {
                let bits = machine.run(&float_bits(row, &point), arithmetic);
                let (got, want) = (number(&machine, bits), (reference.value)(&point));
                let tolerance = value_tolerance(&reference, &point, want, arithmetic);
                if !agrees(&reference, got, want, tolerance) {
                    worst.count += 1;
                    if worst.first.is_empty() {
                        worst.first = format!("{point:?}: got {got:e}, not {want:e}");
                    }
                } else if want != 0.0 && want.is_finite() && got.is_finite() {
                    worst.relative = worst.relative.max((got / want - 1.0).abs());
                }
            }
            if std::env::var("WARPWEFT_TABLE").is_ok() {
                println!("{:20} {arithmetic:?} {:.1e}", row.name, worst.relative);
            }
            if worst.count > 0 {
                let (name, count, first) = (row.name, worst.count, worst.first);
                failures += &format!("\n{name} ({arithmetic:?}), {count} points: {first}");
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

/// The derivative by argument `n` by finite differences of fourth order, with its own uncertainty; `None` at kinks,
/// jumps and the edge of where the function is defined.
fn slope(reference: &Reference, point: &[f64], n: usize) -> Option<(f64, f64)> {
    if reference.smooth.is_some_and(|smooth| !smooth(point)) {
        return None;
    }
    let largest = point.iter().fold(0.0f64, |m, x| m.max(x.abs()));
    let h = match reference.step {
        Step::Absolute => f64::max(1e-4, 1e-6 * point[n].abs()),
        Step::Relative => 1e-4 * point[n].abs(),
        Step::Joint => 1e-4 * largest,
    };
    let at = |steps: f64| {
        let mut moved = point.to_vec();
        moved[n] += steps * h;
        (reference.value)(&moved)
    };
    let stencil = |unit: f64| {
        let [far_left, left, right, far_right] = [-2.0, -1.0, 1.0, 2.0].map(|s| at(s * unit));
        (far_left - far_right + 8.0 * (right - left)) / (12.0 * h * unit)
    };
    let (value, finer) = (stencil(1.0), stencil(0.3));
    let (before, here, after) = (at(-1.0), at(0.0), at(1.0));
    let size = before.abs().max(here.abs()).max(after.abs());
    let noise = 1e-15 * size / h + 1e-10 * value.abs();
    // At a kink the two sides differ; next to one the two stencils do.
    let (left, right) = ((here - before) / h, (after - here) / h);
    let bend = (left - right).abs();
    let kink = bend > 1e-2 * (left.abs() + right.abs()) && bend > 50.0 * h;
    let near_kink = (value - finer).abs() > 1e-6 * value.abs() + 10.0 * noise;
    let clear = h > 0.0 && !kink && !near_kink && value.is_finite();
    clear.then_some((value, noise))
}

#[test]
fn derivatives_in_f32_are_the_functions_slopes() {
    let mut failures = String::new();
    for (row, reference) in float_rows() {
        for n in 0..row.arity() {
            let machine = Machine::new(&row.derivative(n), &argument_types(row, DType::F32));
            if row.types == Types::Select && n == 0 {
                continue;
            }
            for arithmetic in ARITHMETICS {
                let (mut count, mut first, mut checked, mut worst) = (0, String::new(), 0, 0.0f64);
                for point in float_points(row) {
                    if !(reference.value)(&point).is_finite() {
                        continue;
                    }
                    let got = number(&machine, machine.run(&float_bits(row, &point), arithmetic));
                    let fine = match slope(&reference, &point, n) {
                        Some((want, noise)) => {
                            checked += 1;
                            let scale = reference.slope_scale.map_or(0.0, |scale| scale(&point));
                            let base = reference.slope_rel * want.abs() + 4e-7 * scale;
                            let coarse = if arithmetic == Arithmetic::Coarse { 2.5 } else { 1.0 };
                            let fine = agrees(&reference, got, want, coarse * base + noise);
                            let relative = ((got - want).abs() - noise) / want.abs();
                            if fine && relative.is_finite() {
                                worst = worst.max(relative);
                            }
                            if !fine && first.is_empty() {
                                first = format!("{point:?}: got {got:e}, not {want:e}");
                            }
                            fine
                        }
                        None => {
                            if got.is_nan() && first.is_empty() {
                                first = format!("{point:?}: got {got:e}");
                            }
                            !got.is_nan()
                        }
                    };
                    count += usize::from(!fine);
                }
                if std::env::var("WARPWEFT_TABLE").is_ok() {
                    println!("{:20} d{n} {arithmetic:?} {checked} {worst:.1e}", row.name);
                }
                if count > 0 {
                    failures += &format!("\n{} by {n} ({arithmetic:?}), {count}: {first}", row.name);
                }
                assert!(checked > RANDOM_POINTS / 2, "{}: {checked} slopes compared", row.name);
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
