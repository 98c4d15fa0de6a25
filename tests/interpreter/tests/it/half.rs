//! Half and bf16 arithmetic against rounding of exact `f64` values.

use crate::common::{address, run, Random};
use ptx_interpreter::{Argument, Launch, Memory};

const N: usize = 128;

/// The values of all finite numbers of a format, in order, from zero up.
fn table(is_half: bool) -> Vec<f64> {
    let (bits, bias, end) = if is_half { (10, 15, 0x7c00) } else { (7, 127, 0x7f80) };
    (0..end)
        .map(|v: i32| {
            let (e, m) = (v >> bits, f64::from(v & ((1 << bits) - 1)));
            let one = f64::from(1 << bits);
            if e == 0 {
                m / one * 2f64.powi(1 - bias)
            } else {
                (1.0 + m / one) * 2f64.powi(e - bias)
            }
        })
        .collect()
}

/// A format, by a table of its values.
struct Format {
    values: Vec<f64>,
}

impl Format {
    fn new(is_half: bool) -> Self {
        Self { values: table(is_half) }
    }

    fn value(&self, bits: u16) -> f64 {
        let magnitude = self.values.get(usize::from(bits & 0x7fff)).copied();
        let special =
            if usize::from(bits & 0x7fff) == self.values.len() { f64::INFINITY } else { f64::NAN };
        magnitude.unwrap_or(special) * if bits & 0x8000 == 0 { 1.0 } else { -1.0 }
    }

    /// Searches the table for the two neighbors of a number. `mode`: n, z, d or u.
    fn round(&self, x: f64, mode: char) -> u16 {
        if x.is_nan() {
            return 0x7fff;
        }
        let sign = if x.is_sign_negative() { 0x8000 } else { 0 };
        let at = self.values.partition_point(|v| *v <= x.abs());
        let below = at - 1;
        let last = self.values.len();
        let step = self.values[last - 1] - self.values[last - 2];
        let above = if at < last { self.values[at] } else { self.values[last - 1] + step };
        let exact = self.values[below] == x.abs();
        let (low, high) = (x.abs() - self.values[below], above - x.abs());
        let up = match mode {
            'n' => low > high || low == high && below % 2 == 1,
            'z' => x.is_infinite(),
            'd' => sign != 0 && !exact,
            _ => sign == 0 && !exact,
        };
        sign | (below + usize::from(up || x.is_infinite())) as u16
    }
}

fn inputs(seed: u64) -> Vec<u16> {
    let mut random = Random(seed);
    let special =
        [0, 0x8000, 1, 0x3ff, 0x400, 0x3c00, 0xbc00, 0x3c01, 0x3f80, 0x7bff, 0x4000, 0x83ff];
    (0..2 * N)
        .map(|_| match random.next() % 4 {
            0 => special[random.next() as usize % special.len()],
            1 => ((0x3800 + random.next() % 0x900) | (random.next() & 0x8000)) as u16,
            _ => (random.next() & 0xffff) as u16,
        })
        .map(|bits| if bits & 0x7c00 == 0x7c00 { bits & 0xbfff } else { bits })
        .collect()
}

fn min(a: f64, b: f64) -> f64 {
    if a < b || a == b && a.is_sign_negative() {
        a
    } else {
        b
    }
}

/// Sum that is exact, or rounded to an odd mantissa so that a second rounding is right.
fn sum(a: f64, b: f64) -> f64 {
    let s = a + b;
    let t = s - a;
    let e = (a - (s - t)) + (b - t);
    if e == 0.0 || s.to_bits() & 1 == 1 {
        s
    } else if (e > 0.0) == (s > 0.0) {
        f64::from_bits(s.to_bits() + 1)
    } else {
        f64::from_bits(s.to_bits() - 1)
    }
}

fn setup(outs: usize) -> impl Fn(&mut Memory) -> Vec<Argument> {
    move |m| {
        let (a, b) = (m.alloc_u16(&inputs(1)), m.alloc_u16(&inputs(2)));
        vec![
            Argument::U32(N as u32),
            Argument::Pointer(a),
            Argument::Pointer(b),
            Argument::Pointer(m.alloc(N * outs * 4)),
        ]
    }
}

fn same(got: u16, want: u16, what: &str) {
    let is_nan = |v: u16| v & 0x7fff == 0x7fff;
    assert!(got == want || is_nan(got) && is_nan(want), "{what}: got {got:#06x}, want {want:#06x}");
}

#[test]
fn half_math() {
    let (a, b, f) = (inputs(1), inputs(2), Format::new(true));
    run(("half", "half_math"), &Launch::linear(1, 128), setup(10), |m, args, report| {
        let out = m.read_u16(address(&args[3]), N * 20).unwrap();
        for i in 0..N {
            for half in 0..2 {
                let (x, y) = (f.value(a[i * 2 + half]), f.value(b[i * 2 + half]));
                let results = [
                    sum(x, y),
                    x * y,
                    sum(x * y, x),
                    sum(x, -y),
                    -min(-x, -y),
                    min(x, y),
                    -x,
                    x.abs(),
                ];
                for (k, exact) in results.iter().enumerate() {
                    let what = format!("result {k} of {x:e} and {y:e}");
                    same(out[(i * 10 + k) * 2 + half], f.round(*exact, 'n'), &what);
                }
            }
            let [x, y] = [&a, &b].map(|v| [f.value(v[i * 2]), f.value(v[i * 2 + 1])]);
            let quotient = f.round(f64::from(x[0] as f32 / y[0] as f32), 'n');
            same(out[(i * 10 + 8) * 2], quotient, "quotient");
            same(
                out[(i * 10 + 8) * 2 + 1],
                f.round(f64::from((y[1].abs() as f32).sqrt()), 'n'),
                "root",
            );
            let first = if x[0] > y[0] { a[i * 2] } else { b[i * 2 + 1] };
            let second = if x[1] <= y[1] { sum(x[0], y[1]) } else { x[1] * y[0] };
            same(out[(i * 10 + 9) * 2], first, "greater");
            same(out[(i * 10 + 9) * 2 + 1], f.round(second, 'n'), "less or equal");
        }
        assert!(report.count("fma.f16x2").threads == N as u64, "{:?}", report.opcodes);
    });
}

#[test]
fn bf16_math() {
    let (a, b, f) = (inputs(1), inputs(2), Format::new(false));
    run(("half", "bf16_math"), &Launch::linear(1, 128), setup(8), |m, args, _| {
        let out = m.read_u16(address(&args[3]), N * 16).unwrap();
        for i in 0..N {
            for half in 0..2 {
                let (x, y) = (f.value(a[i * 2 + half]), f.value(b[i * 2 + half]));
                let results =
                    [sum(x, y), x * y, sum(x * y, x), sum(x, -y), -min(-x, -y), min(x, y)];
                for (k, exact) in results.iter().enumerate() {
                    let what = format!("result {k} of {x:e} and {y:e}");
                    same(out[(i * 8 + k) * 2 + half], f.round(*exact, 'n'), &what);
                }
            }
            let [x, y] = [&a, &b].map(|v| [f.value(v[i * 2]), f.value(v[i * 2 + 1])]);
            same(out[(i * 8 + 6) * 2], f.round(f64::from(x[0] as f32 * 1.2345), 'n'), "scaled");
            same(out[(i * 8 + 6) * 2 + 1], f.round(f64::from(y[1] as f32 + 3.0), 'n'), "shifted");
            same(out[(i * 8 + 7) * 2], if x[0] < y[0] { a[i * 2] } else { b[i * 2 + 1] }, "less");
            same(
                out[(i * 8 + 7) * 2 + 1],
                if x[1] >= y[1] { a[i * 2 + 1] } else { b[i * 2] },
                "greater or equal",
            );
        }
    });
}

#[test]
fn half_conversions() {
    let mut random = Random(5);
    let mut x: Vec<f32> =
        (0..480).map(|_| f32::from_bits(random.next() & 0x8fff_ffff | 0x3000_0000)).collect();
    x.extend([
        0.0,
        -0.0,
        65504.0,
        65519.9,
        65520.0,
        -70000.0,
        1e30,
        f32::INFINITY,
        f32::NEG_INFINITY,
        f32::NAN,
        6e-8,
        1e-10,
    ]);
    x.extend([2.5, 3.5, -2.5, 0.5]);
    let (half, bf16) = (Format::new(true), Format::new(false));
    let n = x.len();
    let setup = |m: &mut Memory| {
        vec![
            Argument::U32(n as u32),
            Argument::Pointer(m.alloc_f32(&x)),
            Argument::Pointer(m.alloc(n * 16)),
        ]
    };
    run(("half", "half_convert"), &Launch::linear(4, 128), setup, |m, args, _| {
        let out = m.read_u16(address(&args[2]), n * 8).unwrap();
        for (i, &v) in x.iter().enumerate() {
            let got = &out[i * 8..i * 8 + 8];
            let w = f64::from(v);
            for (k, mode) in ['n', 'z', 'd', 'u'].into_iter().enumerate() {
                same(got[k], half.round(w, mode), &format!("{v:e} in mode {mode}"));
            }
            same(got[4], bf16.round(w, 'n'), "bf16");
            same(got[5], bf16.round(w, 'z'), "bf16 to zero");
            let nearest = half.value(half.round(w, 'n')).round_ties_even();
            assert_eq!(got[6], nearest as i32 as u16, "integer of {v:e}");
            same(got[7], half.round(f64::from(v as i32), 'n'), "half of an integer");
        }
    });
}
