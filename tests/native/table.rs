//! Tests the pointwise table against its reference: values and derivatives in `f32` at extreme and at random points, dtypes,
//! docs, random bits. No device is needed.

mod higher;
mod machine;

use crate::shared::reference::{self, slope, Reference};
use machine::{grid, Arithmetic, Machine, Points, ARITHMETICS};
use warpweft::dtype::DType;
use warpweft::error::ErrorKind;
use warpweft::expr::Expr;
use warpweft::op::formulas::threefry;
use warpweft::op::pointwise::TABLE;
use warpweft::op::{Pointwise, Row, Types};

/// Magnitudes at which every row is tested, with both signs.
const EXTREMES: [f32; 16] =
    [0.0, 1e-37, 1e-30, 1e-4, 0.3, 1.0, 3.0, 10.0, 20.0, 30.0, 88.0, 89.0, 100.0, 1e4, 1e30, 3e38];

const RANDOM_POINTS: usize = 2000;

fn extremes() -> Vec<f32> {
    EXTREMES.iter().flat_map(|&x| [x, -x]).collect()
}

/// Returns the dtypes of the row's operands, all `dtype`, then of its parameters.
fn argument_types(row: &Row, dtype: DType) -> Vec<DType> {
    let mut types = vec![dtype; row.arity()];
    if row.types == Types::Select {
        types[0] = DType::Bool;
    }
    types
}

/// Returns the bits of the arguments of a row over floats. A condition is true above 0.5.
fn float_bits(row: &Row, point: &[f64]) -> Vec<u32> {
    let types = argument_types(row, DType::F32);
    let bits = |(&x, t): (&f64, DType)| match t {
        DType::Bool => u32::from(x > 0.5),
        _ => (x as f32).to_bits(),
    };
    point.iter().zip(types).map(bits).collect()
}

/// Returns the points at which a row over floats is tested: all combinations of extremes, random points of its domain, and for
/// one operand random magnitudes from 4e-6 to 64. `f32` represents all of them exactly.
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
    // Formulas switch branches at various magnitudes.
    for _ in 0..RANDOM_POINTS * usize::from(row.operands.len() == 1) {
        let sign = if random.bits() & 1 == 0 { 1.0 } else { -1.0 };
        let mut point = vec![f64::from((sign * random.between((-6.0, 2.0)).exp2().powi(3)) as f32)];
        point.extend(row.parameters.iter().map(|p| f64::from(p.1 as f32)));
        points.push(point);
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

/// Returns the rows over floats with their references.
fn float_rows() -> Vec<(&'static Row, Reference)> {
    let rows = TABLE.iter().filter(|row| takes(row, DType::F32));
    rows.map(|row| (row, reference::float(row.name).expect(row.name))).collect()
}

/// Converts a result to a number. `bool` is 0 or 1.
fn number(machine: &Machine, bits: u32) -> f64 {
    match machine.dtype() {
        DType::Bool => f64::from(bits),
        DType::F32 => f64::from(f32::from_bits(bits)),
        other => panic!("{other} out of floats"),
    }
}

/// Whether `got` is `want` in `f32`: within `tolerance`, infinite on overflow, about 0 on underflow.
fn agrees(reference: &Reference, got: f64, want: f64, tolerance: f64) -> bool {
    const LARGEST: f64 = f32::MAX as f64;
    if want.is_nan() || got.is_nan() {
        return want.is_nan() && got.is_nan();
    }
    let overflow = got.is_infinite() && got.signum() == want.signum();
    (got - want).abs() <= tolerance + 2.0 * f64::from(f32::MIN_POSITIVE)
        || want.abs() * reference.headroom > LARGEST && overflow
        || want.abs() > LARGEST && got.abs() >= LARGEST
        || want.abs() < reference.tiny && got.abs() < reference.tiny
}

/// Returns the factor by which the tolerance of an exponential grows with its logarithm.
fn tail(reference: &Reference, want: f64) -> f64 {
    let logarithm = if reference.tail && want != 0.0 { want.abs().ln().abs() } else { 0.0 };
    1.0 + logarithm / 4.0
}

/// Returns the allowed error of a row's value.
fn value_tolerance(reference: &Reference, point: &[f64], want: f64, arithmetic: Arithmetic) -> f64 {
    let rel = reference.rel * tail(reference, want);
    let scale = reference.scale.map_or(0.0, |scale| scale(point));
    let coarse = if arithmetic == Arithmetic::Coarse { 2.5 } else { 1.0 };
    coarse * (rel * want.abs() + 2e-7 * scale)
}

/// The point with the largest error of a row.
struct Worst {
    relative: f64,
    count: usize,
    first: String,
}

#[test]
fn values_in_f32_are_the_functions() {
    let mut failures = String::new();
    for (row, reference) in float_rows() {
        let machine = Machine::new(row.expr(), &argument_types(row, DType::F32));
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
                } else if want.abs() > 1e-35 && want.is_finite() && got.is_finite() {
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

/// Whether the derivative does not exist: that of a power of a negative number by the exponent, which is NaN.
fn is_undefined(row: &Row, point: &[f64], n: usize) -> bool {
    row.name == "pow" && n == 1 && point[0] < 0.0
}

#[test]
fn derivatives_in_f32_are_the_functions_slopes() {
    let mut failures = String::new();
    for (row, reference) in float_rows() {
        for n in 0..row.arity() {
            let machine = Machine::new(row.derivative(n), &argument_types(row, DType::F32));
            if row.types == Types::Select && n == 0 {
                continue;
            }
            for arithmetic in ARITHMETICS {
                let (mut count, mut first, mut checked, mut worst) = (0, String::new(), 0, 0.0f64);
                for point in float_points(row) {
                    if !(reference.value)(&point).is_finite() || is_undefined(row, &point, n) {
                        continue;
                    }
                    let got = number(&machine, machine.run(&float_bits(row, &point), arithmetic));
                    let fine = match slope(&reference, &point, n) {
                        Some((want, noise)) => {
                            checked += 1;
                            let scale = reference.slope_scale.map_or(0.0, |scale| scale(&point));
                            let rel = reference.slope_rel * tail(&reference, want);
                            let base = rel * want.abs() + 4e-7 * scale;
                            let coarse = if arithmetic == Arithmetic::Coarse { 2.5 } else { 1.0 };
                            let fine = agrees(&reference, got, want, coarse * base + noise);
                            let relative = ((got - want).abs() - noise) / want.abs();
                            if fine && relative.is_finite() && want.abs() > 1e-35 {
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
                    failures +=
                        &format!("\n{} by {n} ({arithmetic:?}), {count}: {first}", row.name);
                }
                assert!(checked > RANDOM_POINTS / 2, "{}: {checked} slopes compared", row.name);
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// A row, its arguments and its value.
const CHOSEN_VALUES: &[(&str, &[f64], f64)] = &[
    ("sign", &[-0.0], -0.0),
    ("lgamma", &[0.0], INF),
    ("lgamma", &[-0.0], INF),
    ("lgamma", &[1.0], -0.0),
    ("lgamma", &[2.0], 0.0),
    ("lgamma", &[-3.0], INF),
    ("lgamma", &[-1e30], INF),
    ("lgamma", &[INF], INF),
    ("lgamma", &[-INF], INF),
    ("lgamma", &[NAN], NAN),
    ("digamma", &[0.0], -INF),
    ("digamma", &[-0.0], INF),
    ("digamma", &[-3.0], NAN),
    ("digamma", &[-1e30], NAN),
    ("digamma", &[INF], INF),
    ("digamma", &[-INF], NAN),
    ("digamma", &[NAN], NAN),
    ("erfinv", &[-0.0], -0.0),
    ("erfinv", &[1.0], INF),
    ("erfinv", &[-1.0], -INF),
    ("erfinv", &[1.0000001], NAN),
    ("erfinv", &[-INF], NAN),
    ("erfinv", &[NAN], NAN),
    ("logit", &[0.0], -INF),
    ("logit", &[-0.0], -INF),
    ("logit", &[0.5], 0.0),
    ("logit", &[0.50000006], 2.384185933124e-7),
    ("logit", &[1.0], INF),
    ("logit", &[-1e-30], NAN),
    ("logit", &[1.0000001], NAN),
    ("logit", &[NAN], NAN),
    ("hardshrink", &[0.5, 0.5], 0.0),
    ("hardshrink", &[-0.5, 0.5], 0.0),
    ("hardshrink", &[-0.50000006, 0.5], -0.50000006),
    ("hardshrink", &[NAN, 0.5], NAN),
    ("softshrink", &[0.5, 0.5], 0.0),
    ("softshrink", &[-0.5, 0.5], 0.0),
    ("softshrink", &[-0.75, 0.5], -0.25),
    ("softshrink", &[-INF, 0.5], -INF),
    ("softshrink", &[NAN, 0.5], NAN),
    ("threshold", &[0.5, 0.5, 2.0], 2.0),
    ("threshold", &[0.50000006, 0.5, 2.0], 0.50000006),
    ("threshold", &[NAN, 0.5, 2.0], NAN),
    ("heaviside", &[-0.0, 0.5], 0.5),
    ("heaviside", &[-1e-30, 0.5], 0.0),
    ("heaviside", &[INF, 0.5], 1.0),
    ("heaviside", &[-INF, 0.5], 0.0),
    ("heaviside", &[0.0, NAN], NAN),
    ("heaviside", &[1.0, NAN], 1.0),
    ("heaviside", &[NAN, 0.5], NAN),
    ("sign", &[NAN], NAN),
    ("fract", &[-0.25], 0.75),
    ("round", &[2.5], 2.0),
    ("round", &[-3.5], -4.0),
    ("sign_bit", &[-0.0], 1.0),
    ("is_finite", &[INF], 0.0),
    ("is_finite", &[NAN], 0.0),
    ("is_inf", &[-INF], 1.0),
    ("is_nan", &[NAN], 1.0),
    ("minimum", &[NAN, 1.0], NAN),
    ("minimum", &[1.0, NAN], NAN),
    ("maximum", &[NAN, 1.0], NAN),
    ("maximum", &[1.0, NAN], NAN),
    ("clamp", &[NAN, 0.0, 1.0], NAN),
    ("clamp", &[5.0, 2.0, 1.0], 1.0),
    ("relu", &[-0.0], 0.0),
    ("copysign", &[2.0, -0.0], -2.0),
    ("copysign", &[-0.0, 1.0], 0.0),
    ("pow", &[0.0, 0.0], 1.0),
    ("pow", &[NAN, 0.0], 1.0),
    ("pow", &[1.0, NAN], 1.0),
    ("pow", &[0.0, -2.0], INF),
    ("pow", &[-0.0, -3.0], -INF),
    ("pow", &[-0.0, 3.0], -0.0),
    ("pow", &[-2.0, 3.0], -8.0),
    ("pow", &[-2.0, -2.0], 0.25),
    ("pow", &[-2.0, 0.5], NAN),
    ("pow", &[-0.0, 0.5], 0.0),
    ("pow", &[-1.0, 16_777_217.0], 1.0),
    ("remainder", &[-7.0, 3.0], 2.0),
    ("remainder", &[7.0, -3.0], -2.0),
    ("fmod", &[-7.0, 3.0], -1.0),
    ("atan2", &[0.0, -0.0], std::f64::consts::PI),
    ("atan2", &[-0.0, -1.0], -std::f64::consts::PI),
    ("atan2", &[INF, INF], std::f64::consts::FRAC_PI_4),
    ("atan2", &[1.0, NAN], NAN),
    ("hypot", &[INF, -INF], INF),
    ("hypot", &[NAN, 1.0], NAN),
    ("hypot", &[1.0, NAN], NAN),
    ("lerp", &[0.1, 0.7, 1.0], 0.7),
    ("lerp", &[0.1, 0.7, 0.0], 0.1),
    ("sinh", &[89.25], 2.882388485453482e+38),
    ("cosh", &[-89.25], 2.882388485453482e+38),
    ("acosh", &[3e38], 89.289_993_003_001_8),
    ("asinh", &[-3e38], -89.289_993_003_001_8),
    ("hypot", &[2e38, 2e38], 2.828_427_124_746_19e38),
    ("atanh", &[1.0], INF),
    ("atanh", &[-1.0], -INF),
    ("log1p", &[-1.0], -INF),
    ("log", &[0.0], -INF),
    ("eq", &[NAN, NAN], 0.0),
    ("ne", &[NAN, NAN], 1.0),
    ("ge", &[NAN, 0.0], 0.0),
];

/// A row, its arguments and its derivatives.
const CHOSEN_SLOPES: &[(&str, &[f64], &[f64])] = &[
    ("abs", &[0.0], &[0.0]),
    ("sign", &[0.0], &[0.0]),
    ("heaviside", &[0.0, 0.5], &[0.0, 1.0]),
    ("heaviside", &[2.0, 0.5], &[0.0, 0.0]),
    ("erfinv", &[1.0], &[INF]),
    ("logit", &[0.5], &[4.0]),
    ("logit", &[0.0], &[INF]),
    ("logit", &[1.0], &[INF]),
    ("logit", &[1.5], &[NAN]),
    ("logit", &[-0.5], &[NAN]),
    ("hardshrink", &[0.5, 0.5], &[0.0, 0.0]),
    ("hardshrink", &[-0.75, 0.5], &[1.0, 0.0]),
    ("softshrink", &[-0.5, 0.5], &[0.0, 0.0]),
    ("softshrink", &[0.75, 0.5], &[1.0, -1.0]),
    ("softshrink", &[-0.75, 0.5], &[1.0, 1.0]),
    ("threshold", &[0.5, 0.5, 2.0], &[0.0, 0.0, 1.0]),
    ("threshold", &[0.75, 0.5, 2.0], &[1.0, 0.0, 0.0]),
    ("lgamma", &[0.0], &[-INF]),
    ("relu", &[0.0], &[0.0]),
    ("relu", &[-0.0], &[0.0]),
    ("relu6", &[0.0], &[0.0]),
    ("relu6", &[6.0], &[0.0]),
    ("leaky_relu", &[0.0, 0.25], &[0.25, 0.0]),
    ("elu", &[0.0, 2.0], &[2.0, 0.0]),
    ("softsign", &[0.0], &[1.0]),
    ("sqrt", &[0.0], &[INF]),
    ("rsqrt", &[0.0], &[-INF]),
    ("reciprocal", &[0.0], &[-INF]),
    ("acosh", &[1.0], &[INF]),
    ("asin", &[1.0], &[INF]),
    ("acos", &[-1.0], &[-INF]),
    ("minimum", &[1.0, 1.0], &[0.5, 0.5]),
    ("maximum", &[1.0, 1.0], &[0.5, 0.5]),
    ("minimum", &[2.0, 1.0], &[0.0, 1.0]),
    ("maximum", &[2.0, 1.0], &[1.0, 0.0]),
    ("clamp", &[0.0, 0.0, 1.0], &[1.0, 0.0, 0.0]),
    ("clamp", &[1.0, 0.0, 1.0], &[1.0, 0.0, 0.0]),
    ("clamp", &[2.0, 0.0, 1.0], &[0.0, 0.0, 1.0]),
    ("clamp", &[-2.0, 0.0, 1.0], &[0.0, 1.0, 0.0]),
    ("where_cond", &[1.0, 2.0, 3.0], &[0.0, 1.0, 0.0]),
    ("where_cond", &[0.0, 2.0, 3.0], &[0.0, 0.0, 1.0]),
    ("hypot", &[0.0, 0.0], &[0.0, 0.0]),
    ("atan2", &[0.0, 0.0], &[0.0, 0.0]),
    ("pow", &[0.0, 0.0], &[0.0, 0.0]),
    ("pow", &[0.0, 1.0], &[1.0, 0.0]),
    ("pow", &[0.0, 2.0], &[0.0, 0.0]),
    ("pow", &[0.0, 0.5], &[INF, 0.0]),
    ("pow", &[-3.0, 2.0], &[-6.0, NAN]),
];

/// Tests values that are conventions: at kinks, at poles, at signed zeros and at NaN.
#[test]
fn conventions_hold() {
    for arithmetic in [Arithmetic::Exact, Arithmetic::Contracted] {
        for (name, point, want) in CHOSEN_VALUES {
            let got = at(name, |row| row.expr(), point, arithmetic);
            let sign = want.is_nan() || got.is_sign_negative() == want.is_sign_negative();
            assert!(close(got, *want) && sign, "{name}{point:?}: got {got:?}, not {want:?}");
        }
        for (name, point, want) in CHOSEN_SLOPES {
            for (n, want) in want.iter().enumerate() {
                let got = at(name, |row| row.derivative(n), point, arithmetic);
                assert!(close(got, *want), "{name}{point:?} by {n}: got {got:?}, not {want:?}");
            }
        }
    }
}

/// Evaluates an expression of the row called `name`, in `f32`.
fn at(name: &str, expr: impl Fn(&Row) -> Expr, point: &[f64], arithmetic: Arithmetic) -> f64 {
    let row = Pointwise::named(name).expect(name).row();
    let machine = Machine::new(expr(row), &argument_types(row, DType::F32));
    number(&machine, machine.run(&float_bits(row, point), arithmetic))
}

fn close(got: f64, want: f64) -> bool {
    got == want || got.is_nan() && want.is_nan() || (got - want).abs() < 5e-7 * want.abs()
}

/// Tests that every row from floats to floats propagates NaN, because a lost NaN hides errors.
#[test]
fn nan_stays_nan() {
    for (row, _) in float_rows() {
        let types = argument_types(row, DType::F32);
        let machine = Machine::new(row.expr(), &types);
        if machine.dtype() == DType::Bool {
            continue;
        }
        let operands = (0..row.operands.len()).filter(|&n| types[n] == DType::F32);
        for n in operands {
            // Arguments that do not matter: the power of 1, only the sign, the branch not chosen, limits.
            let ignored = matches!(
                (row.name, n),
                ("copysign" | "clamp" | "heaviside", 1) | ("clamp" | "where_cond", 2)
            );
            let mut point = vec![0.75; row.arity()];
            point[n] = f64::NAN;
            let got = number(&machine, machine.run(&float_bits(row, &point), Arithmetic::Exact));
            assert!(got.is_nan() || ignored, "{} of NaN as operand {n} is {got}", row.name);
        }
    }
}

/// Tests that odd functions keep the sign of 0 and are exactly odd.
#[test]
fn odd_functions_are_odd() {
    let names =
        "neg sin tan asin atan sinh tanh asinh atanh erf erfinv softsign trunc round expm1 log1p sqrt";
    for name in names.split_whitespace() {
        let row = Pointwise::named(name).expect(name).row();
        let machine = Machine::new(row.expr(), &[DType::F32]);
        let at = |x: f32| machine.run(&[x.to_bits()], Arithmetic::Exact);
        let odd = !matches!(name, "expm1" | "log1p" | "sqrt");
        assert_eq!(at(-0.0), at(0.0) ^ 0x8000_0000, "{name}(-0)");
        let mut random = Points::new(name);
        for _ in 0..RANDOM_POINTS * usize::from(odd && !matches!(name, "atanh" | "erfinv")) {
            let x = random.between((-2.0, 2.0)) as f32;
            let (a, b) = (f32::from_bits(at(x)), f32::from_bits(at(-x)));
            assert!(a == -b || a.is_nan() && b.is_nan(), "{name}({x}) = {a}, {name}(-{x}) = {b}");
        }
    }
}

#[test]
fn integers_are_exact() {
    let interesting = [0u32, 1, 2, 3, 5, 7, 31, 32, 33, 100, 0x7fff_ffff, 0x8000_0000, 0xffff_ffff];
    let mut rows = 0;
    for row in TABLE {
        for dtype in [DType::I32, DType::U32, DType::Bool] {
            if !takes(row, dtype) || ["random_bits", "unit_float"].contains(&row.name) {
                continue;
            }
            rows += 1;
            let meaning = reference::integer(row.name).expect(row.name);
            let types = argument_types(row, dtype);
            let machine = Machine::new(row.expr(), &types);
            let mut points = grid(&interesting, row.arity());
            let mut random = Points::new(row.name);
            points.extend(
                (0..RANDOM_POINTS)
                    .map(|_| (0..row.arity()).map(|_| random.bits() as u32).collect::<Vec<u32>>()),
            );
            for mut point in points {
                for (bits, dtype) in point.iter_mut().zip(&types) {
                    *bits = if *dtype == DType::Bool { *bits & 1 } else { *bits };
                }
                let value = |(&bits, dtype): (&u32, &DType)| match dtype {
                    DType::I32 => i64::from(bits as i32),
                    _ => i64::from(bits),
                };
                let values: Vec<i64> = point.iter().zip(&types).map(value).collect();
                let mut want = meaning(&values) as u32;
                if machine.dtype() == DType::Bool {
                    want &= 1;
                }
                let got = machine.run(&point, Arithmetic::Exact);
                assert_eq!(got, want, "{} of {dtype} {values:?}", row.name);
            }
        }
    }
    assert!(rows > 50, "{rows} rows over integers");
}

#[test]
fn the_table_is_complete() {
    let mut there: Vec<&str> = TABLE.iter().map(|row| row.name).collect();
    there.sort_unstable();
    assert!(there.windows(2).all(|pair| pair[0] != pair[1]), "a name is there twice");
    assert_eq!(Pointwise::ALL.len(), TABLE.len());
    for (pointwise, row) in Pointwise::ALL.iter().zip(TABLE) {
        let name = row.name;
        assert_eq!(pointwise.row().name, name);
        assert_eq!(Pointwise::named(name), Some(*pointwise));
        let doc = row.doc.trim();
        let starts = doc.starts_with(|c: char| c.is_uppercase() || c == '`' || c.is_ascii_digit());
        assert!(doc.len() > 10 && starts && doc.ends_with('.'), "{name}: {doc}");
        assert!(!row.domain.is_empty() && row.domain.len() <= row.arity(), "{name}: its domain");
        assert!(row.domain.iter().all(|(low, high)| low < high), "{name}: its domain");
        let integers = row.types == Types::U32;
        let referenced = reference::float(name).is_some() || reference::integer(name).is_some();
        assert!(referenced || integers, "{name} has no reference");
    }
    assert_eq!(Pointwise::named("no_such_row"), None);
}

/// Tests that formulas are short, because they are printed into every shader that uses them.
#[test]
fn formulas_are_short() {
    for row in TABLE {
        let dtype = if row.types == Types::U32 { DType::U32 } else { DType::F32 };
        if !takes(row, dtype) {
            continue;
        }
        let limit = match row.name {
            "random_bits" => 160,
            "lgamma" | "digamma" => 80,
            _ => 50,
        };
        let types = argument_types(row, dtype);
        let machines = [row.expr(), row.derivative(0)].map(|expr| Machine::new(expr, &types));
        for machine in machines {
            assert!(machine.len() <= limit, "{}: {} instructions", row.name, machine.len());
        }
    }
}

/// Returns the dtypes that each row takes, written a second time.
fn accepted(name: &str) -> &'static [DType] {
    use DType::{Bool, F16, F32, I32, U32};
    match name {
        "abs" | "neg" | "sign" => &[F32, F16, I32],
        "square" | "add" | "sub" | "mul" | "fmod" | "remainder" | "minimum" | "maximum"
        | "squared_difference" | "heaviside" | "lt" | "le" | "gt" | "ge" | "clamp" | "fma" => {
            &[F32, F16, I32, U32]
        }
        "eq" | "ne" | "where_cond" => &[F32, F16, I32, U32, Bool],
        "logical_not" | "logical_and" | "logical_or" | "logical_xor" => &[Bool],
        "bitwise_not" | "bitwise_and" | "bitwise_or" | "bitwise_xor" => &[I32, U32, Bool],
        "floor_divide" | "bitwise_left_shift" | "bitwise_right_shift" => &[I32, U32],
        "random_bits" | "unit_float" => &[U32],
        _ => &[F32, F16],
    }
}

#[test]
fn types_are_refused_by_name() {
    let all = [DType::F32, DType::F16, DType::I32, DType::U32, DType::Bool];
    let tests = "eq ne lt le gt ge is_nan is_inf is_finite sign_bit";
    for row in TABLE {
        let mut refused = 0;
        for types in grid(&all, row.operands.len()) {
            let values = if row.types == Types::Select { &types[1..] } else { &types[..] };
            let condition = row.types != Types::Select || types[0] == DType::Bool;
            let alike = values.iter().all(|t| *t == values[0]);
            let fits = condition && alike && accepted(row.name).contains(&values[0]);
            match row.dtype(&types) {
                Ok(dtype) => {
                    assert!(fits, "{} took {types:?}", row.name);
                    let bool = tests.split(' ').any(|name| name == row.name);
                    let want = match row.name {
                        "unit_float" => DType::F32,
                        _ if bool => DType::Bool,
                        _ => values[0],
                    };
                    assert_eq!(dtype, want, "{} of {types:?}", row.name);
                }
                Err(error) => {
                    refused += 1;
                    assert!(!fits, "{} refused {types:?}", row.name);
                    assert_eq!(error.kind(), ErrorKind::DType);
                    let message = error.message();
                    assert!(message.starts_with(&format!("{}: ", row.name)), "{message}");
                    assert!(all.iter().any(|t| message.contains(t.name())), "{message}");
                }
            }
        }
        assert!(refused >= if row.operands.len() == 1 { 1 } else { 3 }, "{}", row.name);
    }
}

fn words(expr: Expr, arguments: &[u32]) -> u32 {
    let types = vec![DType::U32; arguments.len()];
    Machine::new(expr, &types).run(arguments, Arithmetic::Exact)
}

/// Tests the vectors that the authors of Threefry publish with their library, Random123: counter, key, result.
#[test]
fn threefry_gives_the_known_answers() {
    let vectors = [
        ([0, 0], [0, 0], [0x6b20_0159, 0x99ba_4efe]),
        ([u32::MAX; 2], [u32::MAX; 2], [0x1cb9_96fc, 0xbb00_2be7]),
        ([0x243f_6a88, 0x85a3_08d3], [0x1319_8a2e, 0x0370_7344], [0xc492_3a9c, 0x483d_f7a0]),
    ];
    let [x, y] = threefry([Expr::arg(0), Expr::arg(1)], [Expr::arg(2), Expr::arg(3)]);
    for (counter, key, want) in vectors {
        let arguments = [counter[0], counter[1], key[0], key[1]];
        assert_eq!([words(x, &arguments), words(y, &arguments)], want);
        assert_eq!(reference::threefry(counter, key), want);
    }
}

#[test]
fn random_bits_are_the_first_word() {
    let machine = Machine::new(Pointwise::random_bits.row().expr(), &[DType::U32; 2]);
    let mut random = Points::new("random_bits");
    assert_eq!(machine.run(&[0, 0], Arithmetic::Exact), 0x6b20_0159);
    for _ in 0..RANDOM_POINTS {
        let (counter, key) = (random.bits() as u32, random.bits() as u32);
        let [want, _] = reference::threefry([counter, 0], [key, 0]);
        assert_eq!(machine.run(&[counter, key], Arithmetic::Exact), want);
    }
}

/// Tests the mean, variance, neighbors, bits and single flips of uniform numbers, each within five standard deviations.
#[test]
fn random_bits_are_balanced() {
    const COUNT: u32 = 1 << 16;
    let n = f64::from(COUNT);
    let bits = Machine::new(Pointwise::random_bits.row().expr(), &[DType::U32; 2]);
    let unit = Machine::new(Pointwise::unit_float.row().expr(), &[DType::U32]);
    for key in [0, 1, 0xdead_beef] {
        let draw = |counter: u32| bits.run(&[counter, key], Arithmetic::Exact);
        let words: Vec<u32> = (0..COUNT).map(draw).collect();
        let uniform = |&w: &u32| f64::from(f32::from_bits(unit.run(&[w], Arithmetic::Exact)));
        let numbers: Vec<f64> = words.iter().map(uniform).collect();
        assert!(numbers.iter().all(|x| (0.0..1.0).contains(x)));
        let centred: Vec<f64> = numbers.iter().map(|x| x - 0.5).collect();
        let mean = centred.iter().sum::<f64>() / n;
        assert!(mean.abs() < 5.0 / (12.0 * n).sqrt(), "mean {mean}");
        let variance = centred.iter().map(|x| x * x).sum::<f64>() / n;
        assert!((variance - 1.0 / 12.0).abs() < 5.0 / (180.0 * n).sqrt(), "variance {variance}");
        let neighbours = centred.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / n;
        assert!(neighbours.abs() < 5.0 / (12.0 * n.sqrt()), "covariance {neighbours}");
        for bit in 0..32 {
            let ones = words.iter().filter(|w| *w >> bit & 1 == 1).count() as f64;
            assert!((ones - n / 2.0).abs() < 5.0 * n.sqrt() / 2.0, "bit {bit}: {ones}");
            let flipped = (0..1024).map(|c| (draw(c) ^ draw(c ^ 1 << bit)).count_ones());
            let changed = f64::from(flipped.sum::<u32>()) / 1024.0;
            assert!((changed - 16.0).abs() < 5.0 * 8f64.sqrt() / 32.0, "flip {bit}: {changed}");
        }
    }
    let top = |w: u32| f32::from_bits(unit.run(&[w], Arithmetic::Exact));
    assert_eq!([top(0), top(0xff), top(0x100)], [0.0, 0.0, 1.0 / 16_777_216.0]);
    assert_eq!(top(u32::MAX), 1.0 - 1.0 / 16_777_216.0);
}

/// Tests that the second derivative is a number where value and slope are finite. The very largest and smallest arguments are
/// excluded, because 2 x and 1 / x (for angles 1 / x^2) are not finite there.
#[test]
fn second_derivatives_are_numbers() {
    let mut failures = String::new();
    for (row, reference) in float_rows() {
        let types = argument_types(row, DType::F32);
        let smallest = if row.name == "atan2" { 1e-18 } else { 2e-37 };
        for n in 0..row.arity() {
            let slope = row.derivative(n);
            let first = Machine::new(slope, &types);
            for m in 0..row.arity() {
                let second = Machine::new(slope.derivative(m), &types);
                let ordinary = |x: &f64| *x == 0.0 || (smallest..1e38).contains(&x.abs());
                for point in float_points(row) {
                    let bits = float_bits(row, &point);
                    let value =
                        |machine: &Machine| number(machine, machine.run(&bits, Arithmetic::Exact));
                    let finite = (reference.value)(&point).is_finite() && value(&first).is_finite();
                    let is_undefined = is_undefined(row, &point, n) || is_undefined(row, &point, m);
                    let finite = finite && !is_undefined && point.iter().all(ordinary);
                    if finite && value(&second).is_nan() {
                        failures += &format!("\n{} by {n} and {m} at {point:?}", row.name);
                        break;
                    }
                }
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
}
