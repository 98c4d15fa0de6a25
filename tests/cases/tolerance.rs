//! How far a result may lie from its value, by name and with the reason. Nothing else widens a comparison.

use super::reference::Reference;
use warpweft::dtype::DType;

/// `|got - want| <= absolute + relative * |want|`. NaN is NaN, and an infinity is itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    pub absolute: f64,
    pub relative: f64,
}

/// Half a unit in the last place of an `f32`, relative.
const F32_HALF_ULP: f64 = 1.0 / (1 << 24) as f64;
/// The same for `f16`.
const F16_HALF_ULP: f64 = 1.0 / (1 << 11) as f64;

impl Tolerance {
    /// The very value: integers, `bool`, comparisons, sums that are exact in any order.
    pub const EXACT: Tolerance = Tolerance { absolute: 0.0, relative: 0.0 };

    /// One operation that is correctly rounded. WGSL allows division 2.5 units in the last place.
    pub const ROUNDED: Tolerance = Tolerance { absolute: 0.0, relative: 5.0 * F32_HALF_ULP };

    /// Some operations of `f32` in a row, a function of exponential kind among them: WGSL allows `exp` 3 + 2|x| units
    /// in the last place, and arguments here lie within 10.
    pub const F32: Tolerance = Tolerance { absolute: 1e-6, relative: 64.0 * F32_HALF_ULP };

    /// Computed in `f32`, rounded once to `f16`. The absolute part is the smallest half.
    pub const F16: Tolerance = Tolerance { absolute: 6e-8, relative: 1.1 * F16_HALF_ULP };

    /// WGSL allows `sin` and `cos` an absolute error of 2^-11 within [-pi, pi], and leaves it open outside; lavapipe
    /// and SwiftShader come near that.
    pub const TRIGONOMETRY: Tolerance = Tolerance { absolute: 1.0 / 2048.0, relative: 0.0 };

    /// A sum of `terms` numbers of size up to `scale` in `f32`, in any order: as many roundings of partial sums, which
    /// random signs keep near the square root of their number in size.
    pub fn sum(terms: usize, scale: f64) -> Tolerance {
        let absolute = (terms.max(1) as f64) * scale * 2.0 * F32_HALF_ULP;
        Tolerance { absolute, relative: 4.0 * F32_HALF_ULP }
    }

    /// Exponentials of sums of products, as in attention and softmax of large arguments: an error in the argument is a
    /// relative error of the result.
    pub fn exponential(argument_error: f64) -> Tolerance {
        Tolerance {
            absolute: 1e-7 + argument_error,
            relative: 64.0 * F32_HALF_ULP + argument_error,
        }
    }

    /// The same computation stored as `dtype`.
    pub fn stored(self, dtype: DType) -> Tolerance {
        match dtype {
            DType::F16 => Tolerance {
                absolute: self.absolute + Tolerance::F16.absolute,
                relative: self.relative + Tolerance::F16.relative,
            },
            _ => self,
        }
    }

    /// Whether `got` is as good as `want`.
    pub fn accepts(self, got: f64, want: f64) -> bool {
        if want.is_nan() || got.is_nan() {
            return want.is_nan() && got.is_nan();
        }
        got == want || (got - want).abs() <= self.absolute + self.relative * want.abs()
    }
}

/// What a device may be wrong by at a point, beside a row's own tolerance.
#[derive(Clone, Copy, Debug)]
pub struct Allowance {
    pub absolute: f64,
    pub relative: f64,
    /// Times the row's own tolerance.
    pub times: f64,
}

/// The CPU has the row's own tolerance: its functions are as good as the formulas are.
const STRICT: Allowance = Allowance { absolute: 0.0, relative: 0.0, times: 1.0 };

/// What WGSL allows for the row called `name` at a point. The numbers are those of its specification, section
/// "Floating Point Accuracy"; a unit in the last place is 2^-23.
pub fn allowance(gpu: bool, name: &str, point: &[f64]) -> Allowance {
    const ULP: f64 = 2.0 * F32_HALF_ULP;
    if !gpu {
        return STRICT;
    }
    // Division and roots may be 2.5 units wrong where the CPU's are half a unit.
    let plain = Allowance { times: 2.5, ..STRICT };
    let x = point[0];
    match name {
        // exp: 3 + 2 |x| units; beyond 128 all is 0 or Inf.
        "exp" | "exp2" | "expm1" | "sinh" | "cosh" | "tanh" | "sigmoid" | "log_sigmoid"
        | "silu" | "mish" | "softplus" | "elu" | "selu" | "celu" | "gelu" | "gelu_tanh" | "erf"
        | "erfc" => Allowance { relative: (3.0 + 2.0 * x.abs().min(128.0)) * ULP, ..plain },
        // pow is exp2(y * log2(x)): the logarithm's 3 units are multiplied by the exponent.
        "pow" => {
            let exponent = (point[1] * x.abs().log2()).abs().min(128.0);
            Allowance { relative: (3.0 + 6.0 * exponent) * ULP, ..plain }
        }
        // log: an absolute 2^-21 within [0.5, 2].
        "log" | "log2" | "log10" if (0.5..=2.0).contains(&x) => {
            Allowance { absolute: (-21f64).exp2(), ..plain }
        }
        // From 3 on the logarithm of x is multiplied by x; below 0.6 it is added.
        "lgamma" if !(0.6..3.0).contains(&x) => {
            Allowance { absolute: (-21f64).exp2(), relative: 12.0 * ULP, ..plain }
        }
        // A third of the logarithm's error.
        "erfinv" => Allowance { relative: 2.0 * ULP, ..plain },
        // sin and cos: an absolute 2^-11 within [-pi, pi] and nothing beyond; reducing the angle loses its last
        // places, and all of them at 1e30.
        "sin" | "cos" => {
            Allowance { absolute: Tolerance::TRIGONOMETRY.absolute + x.abs() * ULP, ..plain }
        }
        "tan" => {
            let absolute = Tolerance::TRIGONOMETRY.absolute + x.abs() * ULP;
            Allowance { absolute: absolute * (1.0 + x.tan().powi(2)), ..plain }
        }
        // Computed by integers.
        "fmod" | "remainder" => STRICT,
        _ => plain,
    }
}

/// Whether `got` is the reference's `want` at `point`, for a result of type `dtype`.
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
    // An exponential whose argument was rounded is off by that much more.
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
