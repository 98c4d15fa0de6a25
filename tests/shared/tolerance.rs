//! Tolerances of results, by name and with the reason. No test uses a wider one.

use super::reference::Reference;
use warpweft::dtype::DType;

/// Accepts `|got - want| <= absolute + relative * |want|`. NaN matches NaN, and an infinity matches itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    pub absolute: f64,
    pub relative: f64,
}

/// Half a unit in the last place of an `f32`, relative.
const F32_HALF_ULP: f64 = 1.0 / (1 << 24) as f64;
/// Half a unit in the last place of an `f16`, relative.
const F16_HALF_ULP: f64 = 1.0 / (1 << 11) as f64;

impl Tolerance {
    /// For exact results: integers, `bool`, comparisons, sums that are exact in any order.
    pub const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0 };

    /// For one operation that is correctly rounded. WGSL allows division an error of 2.5 units in the last place.
    pub const ROUNDED: Tolerance = Tolerance { absolute: 0.0, relative: 5.0 * F32_HALF_ULP };

    /// For some `f32` operations in a row, including an exponential. WGSL allows `exp` an error of 3 + 2|x| units in the last
    /// place, and arguments in the tests are within 10.
    pub const F32: Tolerance = Tolerance { absolute: 1e-6, relative: 64.0 * F32_HALF_ULP };

    /// For results computed in `f32` and rounded once to `f16`. The absolute part is the smallest `f16`.
    pub const F16: Tolerance = Tolerance { absolute: 6e-8, relative: 1.1 * F16_HALF_ULP };

    /// For `sin` and `cos`. WGSL allows an absolute error of 2^-11 within [-pi, pi], and any error outside. lavapipe and
    /// SwiftShader come near that.
    pub const TRIGONOMETRY: Tolerance = Tolerance { absolute: 1.0 / 2048.0, relative: 0.0 };

    /// For a sum of `terms` numbers of magnitude up to `scale` in `f32`, in any order. Each partial sum is rounded. With random
    /// signs, the magnitude of partial sums stays near the square root of their number.
    pub fn sum(terms: usize, scale: f64) -> Tolerance {
        let absolute = (terms.max(1) as f64) * scale * 2.0 * F32_HALF_ULP;
        Tolerance { absolute, relative: 4.0 * F32_HALF_ULP }
    }

    /// For exponentials of sums of products, as in attention and softmax of large arguments. An error in the argument is a
    /// relative error of the result.
    pub fn exponential(argument_error: f64) -> Tolerance {
        Tolerance {
            absolute: 1e-7 + argument_error,
            relative: 64.0 * F32_HALF_ULP + argument_error,
        }
    }

    /// Returns the tolerance of the same computation stored as `dtype`.
    pub fn stored(self, dtype: DType) -> Tolerance {
        match dtype {
            DType::F16 => Tolerance {
                absolute: self.absolute + Tolerance::F16.absolute,
                relative: self.relative + Tolerance::F16.relative,
            },
            _ => self,
        }
    }

    /// Whether `got` is close enough to `want`.
    pub fn accepts(self, got: f64, want: f64) -> bool {
        if want.is_nan() || got.is_nan() {
            return want.is_nan() && got.is_nan();
        }
        got == want || (got - want).abs() <= self.absolute + self.relative * want.abs()
    }
}

/// The error that a device may have at a point, in addition to the row's tolerance.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    pub absolute: f64,
    pub relative: f64,
    /// A factor on the row's tolerance.
    pub times: f64,
}

/// For the CPU: only the row's tolerance, because its functions are as exact as the formulas.
const STRICT: Allowance = Allowance { absolute: 0.0, relative: 0.0, times: 1.0 };

/// Returns the error that WGSL allows for the row called `name` at a point. The numbers are from section "Floating Point
/// Accuracy" of the specification. A unit in the last place is 2^-23.
pub fn allowance(gpu: bool, name: &str, point: &[f64]) -> Allowance {
    const ULP: f64 = 2.0 * F32_HALF_ULP;
    if !gpu {
        return STRICT;
    }
    // Division and roots may be off by 2.5 units, compared with half a unit on the CPU.
    let plain = Allowance { times: 2.5, ..STRICT };
    let x = point[0];
    match name {
        // exp: 3 + 2 |x| units. Beyond 128, all results are 0 or Inf.
        "exp" | "exp2" | "expm1" | "sinh" | "cosh" | "tanh" | "sigmoid" | "log_sigmoid"
        | "silu" | "mish" | "softplus" | "elu" | "selu" | "celu" | "gelu" | "gelu_tanh" | "erf"
        | "erfc" => Allowance { relative: (3.0 + 2.0 * x.abs().min(128.0)) * ULP, ..plain },
        // pow is exp2(y * log2(x)), so the exponent multiplies the 3 units of the logarithm.
        "pow" => {
            let exponent = (point[1] * x.abs().log2()).abs().min(128.0);
            Allowance { relative: (3.0 + 6.0 * exponent) * ULP, ..plain }
        }
        // log: an absolute 2^-21 within [0.5, 2].
        "log" | "log2" | "log10" if (0.5..=2.0).contains(&x) => {
            Allowance { absolute: (-21f64).exp2(), ..plain }
        }
        // From 3 on, x multiplies its logarithm. Below 0.6, the logarithm is added.
        "lgamma" if !(0.6..3.0).contains(&x) => {
            Allowance { absolute: (-21f64).exp2(), relative: 12.0 * ULP, ..plain }
        }
        // A third of the logarithm's error.
        "erfinv" => Allowance { relative: 2.0 * ULP, ..plain },
        // sin and cos: an absolute 2^-11 within [-pi, pi] and no bound outside. Reducing the angle loses the last places, and
        // all of them at 1e30.
        "sin" | "cos" => {
            Allowance { absolute: Tolerance::TRIGONOMETRY.absolute + x.abs() * ULP, ..plain }
        }
        "tan" => {
            let absolute = Tolerance::TRIGONOMETRY.absolute + x.abs() * ULP;
            Allowance { absolute: absolute * (1.0 + x.tan().powi(2)), ..plain }
        }
        // Computed with integers.
        "fmod" | "remainder" => STRICT,
        _ => plain,
    }
}

/// Whether `got` is the reference's `want` at `point`, for a result of dtype `dtype`.
pub fn agrees(
    reference: &Reference,
    allowed: &Allowance,
    dtype: DType,
    point: &[f64],
    got: f64,
    want: f64,
) -> bool {
    if want.is_nan() || got.is_nan() {
        return want.is_nan() && got.is_nan();
    }
    let (largest, smallest, ulp) = match dtype {
        DType::F16 => (65_504.0, 6.2e-5, Tolerance::F16.relative),
        _ => (f64::from(f32::MAX), reference.tiny, 0.0),
    };
    // Rounding the argument of an exponential increases the error by this factor.
    let tail = if reference.tail && want != 0.0 { 1.0 + want.abs().ln().abs() / 4.0 } else { 1.0 };
    let scale = reference.scale.map_or(0.0, |scale| 2e-7 * scale(point));
    let relative = (reference.rel * allowed.times * tail + allowed.relative + ulp) * want.abs();
    let difference = (got - want).abs();
    let overflow = want.abs() * reference.headroom > largest;
    difference <= relative + allowed.absolute + scale * allowed.times
        || got == want
        || overflow && got.abs() >= largest * (1.0 - 1e-3) && got.signum() == want.signum()
        || want.abs() < smallest && got.abs() < 2.0 * smallest
}
