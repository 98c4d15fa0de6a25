//! The error of each function in units of the last place (ULP), measured with the interpreter.

use crate::common::{evaluate, ulp, words};

/// Runs a function of one argument and returns its largest error.
fn measure(expression: &str, inputs: &[f32], exact: impl Fn(f64) -> f64) -> (f64, f32) {
    let rows: Vec<[u32; 3]> = inputs.iter().map(|x| [x.to_bits(), 0, 0]).collect();
    let results = evaluate("f32", "f32", expression, &rows);
    let errors =
        inputs.iter().zip(results).map(|(x, y)| (ulp(f32::from_bits(y), exact(f64::from(*x))), *x));
    errors.fold((0.0, 0.0), |worst, error| if error.0 > worst.0 { error } else { worst })
}

/// Numbers spread over an interval, and special numbers.
fn range(from: f32, to: f32) -> Vec<f32> {
    let random = words(3000, 7);
    let mut inputs: Vec<f32> =
        random.iter().map(|bits| from + (to - from) * (*bits as f32 / 4_294_967_296.0)).collect();
    inputs.extend([
        0.0,
        -0.0,
        1.0,
        -1.0,
        0.5,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        f32::MIN_POSITIVE,
        1e-40,
        -1e-40,
    ]);
    inputs.extend([f32::MAX, f32::MIN, 1e-10, 0.1, 2.0, 3.0, 4.0, 10.0]);
    inputs
}

/// Numbers of all exponents.
fn all() -> Vec<f32> {
    let mut inputs: Vec<f32> = words(4000, 3).into_iter().map(f32::from_bits).collect();
    inputs.extend(range(-4.0, 4.0));
    inputs
}

#[test]
fn functions_are_as_accurate_as_documented() {
    type Exact = fn(f64) -> f64;
    let near = |x: f32| range(-x, x);
    let table: Vec<(&str, Vec<f32>, Exact, f64)> = vec![
        ("exp(a)", near(105.0), f64::exp, 1.0),
        ("exp2(a)", near(152.0), f64::exp2, 1.0),
        ("log(a)", all(), f64::ln, 1.0),
        ("log(a)", range(0.5, 2.0), f64::ln, 1.0),
        ("log2(a)", all(), f64::log2, 2.0),
        ("log2(a)", range(0.5, 2.0), f64::log2, 2.0),
        ("sin(a)", near(100.0), f64::sin, 2.0),
        ("sin(a)", near(60_000.0), f64::sin, 2.0),
        ("cos(a)", near(100.0), f64::cos, 2.0),
        ("cos(a)", near(60_000.0), f64::cos, 2.0),
        ("tan(a)", near(60_000.0), f64::tan, 4.0),
        ("sin(a)", all(), f64::sin, 2.0),
        ("cos(a)", all(), f64::cos, 2.0),
        ("tan(a)", all(), f64::tan, 4.0),
        ("asin(a)", near(1.0), f64::asin, 3.0),
        ("acos(a)", near(1.0), f64::acos, 2.0),
        ("atan(a)", all(), f64::atan, 2.0),
        ("sinh(a)", near(90.0), f64::sinh, 2.0),
        ("sinh(a)", near(1.5), f64::sinh, 2.0),
        ("cosh(a)", near(90.0), f64::cosh, 2.0),
        ("tanh(a)", near(10.0), f64::tanh, 2.0),
        ("tanh(a)", near(0.7), f64::tanh, 2.0),
        ("asinh(a)", all(), f64::asinh, 4.0),
        ("acosh(a)", all(), f64::acosh, 4.0),
        ("atanh(a)", near(1.0), f64::atanh, 4.0),
        ("sqrt(a)", all(), f64::sqrt, 0.5),
        ("inverseSqrt(a)", all(), |x| 1.0 / x.sqrt(), 2.0),
        ("1.0 / a", all(), |x| 1.0 / x, 0.5),
        ("floor(a)", all(), f64::floor, 0.0),
        ("ceil(a)", all(), f64::ceil, 0.0),
        ("round(a)", all(), f64::round_ties_even, 0.0),
        ("trunc(a)", all(), f64::trunc, 0.0),
        ("degrees(a)", near(10.0), f64::to_degrees, 2.0),
        ("radians(a)", near(1000.0), f64::to_radians, 1.0),
    ];
    let mut failures = Vec::new();
    for (expression, inputs, exact, limit) in table {
        let (error, at) = measure(expression, &inputs, exact);
        println!("{expression:16} {error:.3} ULP at {at:e}");
        // Half a unit is exact rounding, and the reference itself rounds.
        if error > limit + 1e-6 {
            failures.push(format!("{expression}: {error} ULP at {at:e}, allowed {limit}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn powers_and_angles_are_accurate() {
    let random = words(8000, 11);
    let unit = |bits: u32| bits as f32 / 4_294_967_296.0;
    let mut rows = Vec::new();
    for pair in random.chunks(2) {
        let x = (20.0 * (unit(pair[0]) - 0.5)).exp();
        rows.push([x.to_bits(), (16.0 * (unit(pair[1]) - 0.5)).to_bits(), 0]);
        rows.push([(0.5 + unit(pair[0])).to_bits(), (200.0 * (unit(pair[1]) - 0.5)).to_bits(), 0]);
    }
    let specials = [0.0f32, 1.0, 2.0, 0.5, f32::INFINITY, f32::NAN, 1e-40, f32::MAX, -0.0];
    for x in specials {
        for y in specials.into_iter().chain([-1.0, -2.0, f32::NEG_INFINITY, 3.0]) {
            rows.push([x.to_bits(), y.to_bits(), 0]);
        }
    }
    let check = |expression: &str, limit: f64, exact: fn(f64, f64) -> f64| {
        let results = evaluate("f32", "f32", expression, &rows);
        let mut worst = (0.0, 0.0, 0.0);
        for (row, result) in rows.iter().zip(results) {
            let [x, y] = [row[0], row[1]].map(f32::from_bits);
            let error = ulp(f32::from_bits(result), exact(f64::from(x), f64::from(y)));
            if error > worst.0 {
                worst = (error, x, y);
            }
        }
        println!("{expression}: {} ULP at {:e} {:e}", worst.0, worst.1, worst.2);
        assert!(worst.0 <= limit, "{expression}: {} ULP at {:e}, {:e}", worst.0, worst.1, worst.2);
    };
    check("pow(a, b)", 2.0, |x, y| if x == 0.0 { x.abs().powf(y) } else { x.powf(y) });
    check("atan2(b, a)", 3.0, |x, y| y.atan2(x));
    check("atan2(b, -a)", 3.0, |x, y| y.atan2(-x));
    check("ldexp(a, i32(b))", 0.5, |x, y| {
        let n = (y as i32).clamp(-400, 400);
        x * 2f64.powi(n / 2) * 2f64.powi(n - n / 2)
    });
}
