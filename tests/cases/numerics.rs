//! Numerical facts that hold on every backend: long sums, statistics of large numbers, NaN and infinity, remainders.
//!
//! Expected values are computed in `f64` from the `f32` numbers that the tensors hold.

use super::array::{word, Array};
use super::check::{exact, Suite};
use warpweft::dtype::DType;

pub fn cases() -> Suite {
    let mut suite = Suite::new("numerics");
    remainders(&mut suite);
    suite
}

/// Remainders are exact, however many digits the quotient has: C's `fmodf`, and Python's `%`.
fn remainders(suite: &mut Suite) {
    for dtype in [DType::F32, DType::F16] {
        let case = suite.add(format!("remainders of large quotients, {dtype}"), move |device| {
            let (low, high) = if dtype == DType::F16 { (-10, 15) } else { (-60, 120) };
            // Numbers of all sizes, both signs.
            let number = |seed: u32, n: usize| {
                let fraction = 1.0 + f64::from(word(seed, n) >> 9) / f64::from(1 << 23);
                let exponent = low + (word(seed + 1, n) % (high - low) as u32) as i32;
                let sign = if word(seed + 2, n) & 1 == 0 { 1.0 } else { -1.0 };
                sign * fraction * f64::from(exponent).exp2()
            };
            let column = |seed: u32| {
                let values = (0..1000).map(|n| number(seed, n)).collect();
                Array::new(&[1000], values).rounded(dtype)
            };
            let (x, y) = (column(1), column(5));
            let (a, b) = (x.on(device, dtype)?, y.on(device, dtype)?);
            let floor = |x: f64, y: f64| {
                let rest = x % y;
                let apart = rest != 0.0 && (rest < 0.0) != (y < 0.0);
                if apart {
                    rest + y
                } else {
                    rest
                }
            };
            let wide = device.arange(1000.0)?.mul(16_777.0)?.cast(dtype)?;
            let places = Array::new(&[1000], (0..1000).map(|n| f64::from(n) * 16_777.0).collect());
            let tenth = f64::from(0.1f32);
            let places = places.rounded(dtype).map(|x| x % tenth).rounded(dtype);
            Ok(vec![
                exact("fmod", a.fmod(&b)?, dtype, x.zip(&y, |x, y| x % y)),
                exact("remainder", a.remainder(&b)?, dtype, x.zip(&y, floor).rounded(dtype)),
                exact("by a number", wide.fmod(0.1)?, dtype, places),
            ])
        });
        if dtype == DType::F16 {
            case.half();
        }
    }
}
