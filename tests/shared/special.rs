//! Tests special functions and the step function, values and derivatives, against SciPy and NumPy in 64 bits.
//! `tests/golden/special.py` writes the numbers.

use super::call::call;
use super::check::{near, Suite};
use super::golden::arrays;
use super::tolerance::Tolerance;
use warpweft::tensor::Operand;

const FILE: &str = include_str!("../golden/special.txt");

pub fn cases() -> Suite {
    let mut suite = Suite::new("special");
    for name in ["lgamma", "digamma", "erfinv", "heaviside"] {
        suite.add(format!("{name} like SciPy and NumPy"), move |device| {
            let arrays = arrays(FILE, name);
            let x = arrays["x"].f32(device)?;
            let others = match arrays.get("values") {
                Some(values) => vec![Operand::from(values.f32(device)?)],
                None => Vec::new(),
            };
            let y = call(name, &x, &others, &[])?;
            let slope = y.vjp(&y.ones_like(), &[&x])?.remove(0);
            Ok(vec![
                near("values", y, arrays["y"].clone(), Tolerance::F32),
                near("derivatives", slope, arrays["d x"].clone(), Tolerance::F32),
            ])
        });
    }
    suite
}
