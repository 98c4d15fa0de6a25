//! The CUDA library functions in single and double precision, conversions and rounding modes.

use crate::common::{address, golden, run, Random, ARCHITECTURES};
use ptx_interpreter::{Argument, Launch, Memory, Module};

const N: usize = 400;

fn pair() -> (Vec<f32>, Vec<f32>) {
    let mut x = Random(1).floats(N, -30.0, 30.0);
    let mut y = Random(2).floats(N, 0.01, 50.0);
    x[..4].copy_from_slice(&[0.0, -1.0, 1.0, 0.5]);
    y[..3].copy_from_slice(&[1.0, 2.0, 1e-30]);
    (x, y)
}

/// The error function by its series or by a continued fraction.
fn erf(x: f64) -> f64 {
    if x.abs() > 3.0 {
        let (z, mut f) = (x.abs(), 0.0);
        for k in (1..200).rev() {
            f = f64::from(k) / 2.0 / (z + f);
        }
        return (1.0 - (-z * z).exp() / std::f64::consts::PI.sqrt() / (z + f)).copysign(x);
    }
    let (mut sum, mut term) = (0.0, x);
    for n in 0..100 {
        sum += term / f64::from(2 * n + 1);
        term *= -x * x / f64::from(n + 1);
    }
    sum * 2.0 / std::f64::consts::PI.sqrt()
}

fn erfc(x: f64) -> f64 {
    if x < 2.0 {
        return 1.0 - erf(x);
    }
    let mut f = 0.0;
    for k in (1..200).rev() {
        f = f64::from(k) / 2.0 / (x + f);
    }
    (-x * x).exp() / std::f64::consts::PI.sqrt() / (x + f)
}

/// Checks with an error in units in the last place of the result.
fn check(got: f32, want: f64, ulp: f64, what: &str) {
    let nearest = want as f32;
    let unit = f64::from(nearest.abs().next_up() - nearest.abs()).max(1e-45);
    let error = (f64::from(got) - want).abs() / unit;
    let same = got == nearest || got.is_nan() && nearest.is_nan() || error <= ulp;
    assert!(same, "{what}: got {got:e}, want {want:e}, {error} ulp");
}

#[test]
fn functions() {
    let (x, y) = pair();
    let setup = |m: &mut Memory| {
        let (px, py) = (m.alloc_f32(&x), m.alloc_f32(&y));
        vec![
            Argument::U32(N as u32),
            Argument::Pointer(px),
            Argument::Pointer(py),
            Argument::Pointer(m.alloc(N * 80)),
        ]
    };
    run(("math", "functions"), &Launch::linear(4, 128), setup, |m, args, _| {
        let out = m.read_f32(address(&args[3]), N * 20).unwrap();
        for i in 0..N {
            let (a, b) = (f64::from(x[i]), f64::from(y[i]));
            // The error bounds are those of the CUDA programming guide, plus half a unit of the comparison.
            let (fa, fb) = (x[i], y[i]);
            let round = if (fa.abs() % 1.0) == 0.5 { fa.trunc() + fa.signum() } else { fa.round() };
            let table = [
                (a.exp(), 1.5),
                (b.ln(), 1.5),
                (a.sin(), 2.5),
                (a.cos(), 2.5),
                (b.powf(f64::from(fa * 0.25)), 4.5),
                (erf(a), 2.5),
                (a.tanh(), 2.5),
                (b.sqrt(), 0.5),
                (a / b, 0.5),
                (1.0 / b.sqrt(), 2.5),
                (a.tan(), 4.5),
                (a.atan2(b), 3.5),
                (f64::from(fa % fb), 0.5),
                (
                    f64::from(fa.floor() + fb.ceil() + fa.round_ties_even() + fb.trunc() + round),
                    0.5,
                ),
                (a.exp2(), 2.5),
                (b.log2(), 1.5),
                (b.ln_1p(), 1.5),
                (a.cbrt(), 1.5),
                (f64::from(fa / 40.0).asin(), 2.5),
                (erfc(f64::from(fa * 0.25)), 4.5),
            ];
            for (k, (want, ulp)) in table.into_iter().enumerate() {
                check(out[i * 20 + k], want, ulp, &format!("function {k} of {a:e} and {b:e}"));
            }
        }
    });
}

#[test]
fn doubles() {
    let (x, y) = pair();
    let bytes = |v: &[f32]| {
        v.iter().flat_map(|v| (f64::from(*v) * 1.001).to_le_bytes()).collect::<Vec<u8>>()
    };
    let setup = |m: &mut Memory| {
        let (px, py) = (m.alloc_bytes(&bytes(&x)), m.alloc_bytes(&bytes(&y)));
        vec![
            Argument::U32(N as u32),
            Argument::Pointer(px),
            Argument::Pointer(py),
            Argument::Pointer(m.alloc(N * 96)),
        ]
    };
    run(("math", "doubles"), &Launch::linear(4, 128), setup, |m, args, _| {
        let out = m.read(address(&args[3]), N * 96).unwrap();
        let out: Vec<f64> =
            out.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect();
        for i in 0..N {
            let (a, b) = (f64::from(x[i]) * 1.001, f64::from(y[i]) * 1.001);
            let want = [
                a + b,
                // PTX without `.rn` allows a fused multiply-add here. The interpreter does not fuse.
                a * b - a,
                a / b,
                b.sqrt(),
                a.exp(),
                b.ln(),
                a.sin(),
                b.powf(1.75),
                a.mul_add(b, -a),
                1.0 / b,
                a.floor() + b.round_ties_even(),
                a.min(b) + a.max(-b),
            ];
            for (k, want) in want.into_iter().enumerate() {
                let got = out[i * 12 + k];
                let unit = want.abs().next_up() - want.abs();
                let ulp = if (4..8).contains(&k) { 3.0 } else { 0.0 };
                assert!(
                    (got - want).abs() <= ulp * unit,
                    "function {k} of {a:e} and {b:e}: got {got:e}, want {want:e}"
                );
            }
        }
    });
}

#[test]
fn conversions() {
    let mut random = Random(6);
    let mut x: Vec<f32> = (0..90).map(|_| f32::from_bits(random.next())).collect();
    x.extend([
        0.5,
        1.5,
        2.5,
        -0.5,
        -1.5,
        3e9,
        -3e9,
        1e19,
        -1e19,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        255.9,
        1e-40,
    ]);
    let y: Vec<f64> =
        x.iter().map(|v| f64::from(*v) * 1.3).map(|v| if v.is_nan() { 7.5 } else { v }).collect();
    let z: Vec<u32> = crate::common::special_integers(x.len(), 7);
    let n = x.len();
    let ybytes: Vec<u8> = y.iter().flat_map(|v| v.to_le_bytes()).collect();
    let setup = |m: &mut Memory| {
        let (px, py, pz) = (m.alloc_f32(&x), m.alloc_bytes(&ybytes), m.alloc_u32(&z));
        let mut all = vec![Argument::U32(n as u32)];
        all.extend([px, py, pz, m.alloc(n * 112), m.alloc(n * 32)].map(Argument::Pointer));
        all
    };
    run(("math", "conversions"), &Launch::linear(1, 128), setup, |m, args, _| {
        let out = m.read(address(&args[4]), n * 112).unwrap();
        let out: Vec<i64> =
            out.chunks_exact(8).map(|c| i64::from_le_bytes(c.try_into().unwrap())).collect();
        let fout = m.read_f32(address(&args[5]), n * 8).unwrap();
        for i in 0..n {
            let (a, b, c) = (x[i], y[i], z[i] as i32);
            // A NaN becomes 1 << 63 in 64 bits, and zero in 32 bits.
            let long = if a.is_nan() { i64::MIN } else { a as i64 };
            let want = [
                i64::from(a as i32),
                i64::from(a as u32),
                long,
                i64::from(a.round_ties_even() as i32),
                i64::from(a.floor() as i32),
                i64::from(a.ceil() as u32),
                i64::from(b as i32),
                b as i64,
                b.round_ties_even() as i64,
                b as u64 as i64,
                i64::from(c as i16),
                i64::from(c as u8),
                i64::from(a as i32 as i8),
                i64::from(a.to_bits() as i32),
            ];
            assert_eq!(out[i * 14..i * 14 + 14], want, "{a:e} {b:e} {c}");
            let exact = f64::from(c);
            let toward = |w: f64, up: bool| {
                let near = w as f32;
                match (f64::from(near) < w, f64::from(near) > w) {
                    (true, _) if up => near.next_up(),
                    (_, true) if !up => near.next_down(),
                    _ => near,
                }
            };
            let want = [
                c as f32,
                c as u32 as f32,
                b as f32,
                toward(exact, c < 0),
                toward(b, true),
                (i64::from(c).wrapping_mul(1234567891)) as f32,
                toward(f64::from(c as u32), false),
                toward(exact, true),
            ];
            for (k, want) in want.into_iter().enumerate() {
                let got = fout[i * 8 + k];
                assert!(
                    got.to_bits() == want.to_bits() || got.is_nan() && want.is_nan(),
                    "{k}: {got:e} {want:e} {b:e} {c}"
                );
            }
        }
    });
}

/// A float near an exact value: `exact` compares the exact value with a float.
fn directed(
    exact: impl Fn(f64) -> std::cmp::Ordering,
    near: f32,
    mode: char,
    negative: bool,
) -> f32 {
    use std::cmp::Ordering::{Greater, Less};
    let order = exact(f64::from(near));
    let down = mode == 'd' || mode == 'z' && !negative;
    match order {
        Less if down => near.next_down(),
        Greater if !down => near.next_up(),
        _ => near,
    }
}

#[test]
fn rounding_modes() {
    let x = Random(3).floats(N, -100.0, 100.0);
    let y = Random(4).floats(N, 0.001, 3.0);
    let setup = |m: &mut Memory| {
        let mut all = vec![Argument::U32(N as u32)];
        all.extend(
            [m.alloc_f32(&x), m.alloc_f32(&y), m.alloc(N * 56), m.alloc(N * 48)]
                .map(Argument::Pointer),
        );
        all
    };
    run(("math", "rounding"), &Launch::linear(4, 128), setup, |m, args, _| {
        let out = m.read_f32(address(&args[3]), N * 14).unwrap();
        let wide = m.read(address(&args[4]), N * 48).unwrap();
        let wide: Vec<f64> =
            wide.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect();
        for i in 0..N {
            let (fa, fb) = (x[i], y[i]);
            let (a, b) = (f64::from(fa), f64::from(fb));
            let sum =
                |m| directed(|v| (a - v + b).partial_cmp(&0.0).unwrap(), fa + fb, m, a + b < 0.0);
            let product = |m| directed(|v| (a * b).partial_cmp(&v).unwrap(), fa * fb, m, a < 0.0);
            let fma = |m| {
                directed(
                    |v| a.mul_add(b, a - v).partial_cmp(&0.0).unwrap(),
                    fa.mul_add(fb, fa),
                    m,
                    a < 0.0,
                )
            };
            let quotient = |m| directed(|v| a.partial_cmp(&(v * b)).unwrap(), fa / fb, m, a < 0.0);
            let root = directed(|v| b.partial_cmp(&(v * v)).unwrap(), fb.sqrt(), 'd', false);
            let reciprocal =
                directed(|v| 1f64.partial_cmp(&(v * b)).unwrap(), 1.0 / fb, 'u', false);
            let want = [
                sum('z'),
                sum('d'),
                sum('u'),
                product('z'),
                product('d'),
                product('u'),
                fma('z'),
                fma('d'),
                fma('u'),
                quotient('z'),
                quotient('u'),
                root,
                reciprocal,
                fa.clamp(0.0, 1.0),
            ];
            for (k, want) in want.into_iter().enumerate() {
                assert_eq!(out[i * 14 + k], want, "operation {k} of {fa:e} and {fb:e}");
            }
            let (p, q) = (a.mul_add(0.0, f64::from(fa) * 1.1), f64::from(fb) * 0.7);
            let d = &wide[i * 6..i * 6 + 6];
            let is_next = |got: f64, near: f64| {
                got == near || got == near.next_up() || got == near.next_down()
            };
            assert!(is_next(d[0], p + q) && d[0].abs() <= (p + q).abs());
            assert!(d[1] >= p + q && is_next(d[1], p + q));
            assert!(p.mul_add(q, -d[2]) >= 0.0 && is_next(d[2], p * q), "product down");
            assert!(is_next(d[3], p.mul_add(q, p)) && d[3] >= p.mul_add(q, p), "fma up");
            assert!((-d[4]).mul_add(q, p) >= 0.0 && is_next(d[4], p / q), "quotient down");
            assert!((-d[5]).mul_add(d[5], q) <= 0.0 && is_next(d[5], q.sqrt()), "root up");
        }
    });
}

#[test]
fn approximate_functions_and_perturbation() {
    let (x, y) = (Random(1).floats(N, -3.0, 3.0), Random(2).floats(N, 0.01, 50.0));
    for architecture in ARCHITECTURES {
        let module = Module::parse(&golden("fast", architecture)).unwrap();
        let mut plain = Vec::new();
        for perturb in [None, Some(1), Some(2)] {
            let mut m = Memory::new();
            let (px, py, out) = (m.alloc_f32(&x), m.alloc_f32(&y), m.alloc(N * 32));
            let mut args = vec![Argument::U32(N as u32)];
            args.extend([px, py, out].map(Argument::Pointer));
            let launch = Launch::linear(4, 128).with(|options| options.perturb = perturb);
            let report = module.run("fast_functions", &launch, &mut m, &args).unwrap();
            assert!(report.count("ex2.approx.f32").threads > 0, "{:?}", report.opcodes);
            let got = m.read_f32(out, N * 8).unwrap();
            for i in 0..N {
                let (a, b) = (f64::from(x[i]), f64::from(y[i]));
                let want =
                    [a.exp(), b.ln(), a.sin(), a.cos(), a / b, b.sqrt(), 1.0 / b.sqrt(), a.tanh()];
                for (k, want) in want.into_iter().enumerate() {
                    let tolerance = if perturb.is_none() && k < 7 { 3e-7 } else { 2e-6 }
                        + if k == 7 { 6e-4 } else { 0.0 };
                    let error = (f64::from(got[i * 8 + k]) - want).abs();
                    let scale = if (1..4).contains(&k) { 1f64.max(want.abs()) } else { want.abs() };
                    assert!(
                        error <= tolerance * scale,
                        "function {k} of {a:e} and {b:e}: error {error:e}, want {want:e}"
                    );
                }
            }
            if perturb.is_none() {
                plain = got;
            } else {
                let moved = plain.iter().zip(&got).filter(|(a, b)| a != b).count();
                assert!(moved > N * 4, "a perturbed run must differ, got {moved} other values");
            }
        }
    }
}
