//! The rows of the pointwise table, written a second time in `f64` and in integers, with their tolerances.

use super::gamma;
use std::f64::consts::{FRAC_2_SQRT_PI, PI};

/// A function of operands and parameters.
pub type Function = fn(&[f64]) -> f64;

/// The step size of a finite difference.
#[derive(Clone, Copy, PartialEq)]
pub enum Step {
    /// 1e-4, for functions that change over distances of about 1.
    Absolute,
    /// 1e-4 of the argument, for functions that change over distances of about |x|.
    Relative,
    /// 1e-4 of the largest argument.
    Joint,
}

/// The expected value of a row, and its tolerance.
#[derive(Clone, Copy)]
pub struct Reference {
    pub value: Function,
    /// The relative tolerance of values.
    pub rel: f64,
    /// The relative tolerance of derivatives.
    pub slope_rel: f64,
    /// For terms that cancel: the magnitude of the largest term. An error of 2e-7 times this magnitude is allowed.
    pub scale: Option<Function>,
    /// Like `scale`, for derivatives.
    pub slope_scale: Option<Function>,
    /// Whether the tolerance grows with |log value|, as it does if the argument of an exponential is rounded.
    pub tail: bool,
    /// Values below this may be 0, because products with a subnormal number may be flushed to 0.
    pub tiny: f64,
    /// The factor below the largest number from which overflow is allowed.
    pub headroom: f64,
    pub step: Step,
    /// The points at which a finite difference is meaningful. `None` means everywhere.
    pub smooth: Option<fn(&[f64]) -> bool>,
}

impl Reference {
    fn slope_rel(self, slope_rel: f64) -> Reference {
        Reference { slope_rel, ..self }
    }
    fn scale(self, scale: Function) -> Reference {
        Reference { scale: Some(scale), ..self }
    }
    fn slope_scale(self, scale: Function) -> Reference {
        Reference { slope_scale: Some(scale), ..self }
    }
    fn tail(self) -> Reference {
        Reference { tail: true, ..self }
    }
    fn tiny(self, tiny: f64) -> Reference {
        Reference { tiny, ..self }
    }
    fn headroom(self, headroom: f64) -> Reference {
        Reference { headroom, ..self }
    }
    fn relative(self) -> Reference {
        Reference { step: Step::Relative, ..self }
    }
    fn joint(self) -> Reference {
        Reference { step: Step::Joint, ..self }
    }
    fn smooth(self, smooth: fn(&[f64]) -> bool) -> Reference {
        Reference { smooth: Some(smooth), ..self }
    }
}

/// Returns the usual reference: a tolerance of four units in the last place.
fn of(value: Function) -> Reference {
    Reference {
        value,
        rel: 5e-7,
        slope_rel: 1e-6,
        scale: None,
        slope_scale: None,
        tail: false,
        tiny: 2.0 * f64::from(f32::MIN_POSITIVE),
        headroom: 1.0 + 1e-5,
        step: Step::Absolute,
        smooth: None,
    }
}

/// Returns the reference of a row that takes floats.
pub fn float(name: &str) -> Option<Reference> {
    unary(name).or_else(|| activation(name)).or_else(|| several(name))
}

/// Returns the derivative by argument `n` from finite differences of fourth order, with its uncertainty. Returns `None` at
/// kinks, jumps and the edge of the domain.
pub fn slope(reference: &Reference, point: &[f64], n: usize) -> Option<(f64, f64)> {
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
    // At a kink, the two one-sided differences differ. Next to a kink, the two stencils differ.
    let (left, right) = ((here - before) / h, (after - here) / h);
    let bend = (left - right).abs();
    let kink = bend > 1e-2 * (left.abs() + right.abs()) && bend > 50.0 * h / largest.max(1.0);
    let near_kink = (value - finer).abs() > 1e-7 * value.abs() + 10.0 * noise;
    let clear = h > 0.0 && !kink && !near_kink && value.is_finite();
    clear.then_some((value, noise))
}

fn unary(name: &str) -> Option<Reference> {
    Some(match name {
        "abs" => of(|a| a[0].abs()),
        "neg" => of(|a| 0.0 - a[0]),
        "sign" => of(|a| if a[0] == 0.0 { 0.0 } else { a[0].signum() }),
        "sign_bit" => of(|a| flag(a[0].is_sign_negative())),
        "floor" => of(|a| a[0].floor()).smooth(steps_seen),
        "ceil" => of(|a| a[0].ceil()).smooth(steps_seen),
        "round" => of(|a| {
            let below = a[0].floor();
            let rest = a[0] - below;
            let up = rest > 0.5 || rest == 0.5 && below % 2.0 != 0.0;
            below + flag(up)
        })
        .smooth(steps_seen),
        "trunc" => of(|a| if a[0] < 0.0 { a[0].ceil() } else { a[0].floor() }).smooth(steps_seen),
        "fract" => of(|a| a[0].rem_euclid(1.0)).smooth(steps_seen),
        "reciprocal" => of(|a| a[0].powi(-1)).relative(),
        "square" => of(|a| a[0].powi(2)),
        "sqrt" => of(|a| a[0].sqrt()).relative(),
        "rsqrt" => of(|a| a[0].powf(-0.5)).relative(),
        "exp" => of(|a| a[0].exp()),
        "exp2" => of(|a| a[0].exp2()),
        "expm1" => of(|a| a[0].exp_m1()),
        "log" => of(|a| a[0].ln()).relative(),
        "log2" => of(|a| a[0].log2()).relative(),
        "log10" => of(|a| a[0].log10()).relative(),
        "log1p" => of(|a| a[0].ln_1p()),
        "sin" => of(|a| a[0].sin()).slope_scale(|_| 1.0),
        "cos" => of(|a| a[0].cos()).slope_scale(|_| 1.0),
        "tan" => of(|a| a[0].tan()).slope_rel(2e-6),
        "asin" => of(|a| a[0].asin()),
        // Near 0 in x, the difference to pi / 2 does not lose digits, because the result is near pi / 2.
        "acos" => of(|a| a[0].acos()),
        "atan" => of(|a| a[0].atan()),
        "sinh" => of(|a| a[0].sinh()),
        "cosh" => of(|a| a[0].cosh()),
        "tanh" => of(|a| a[0].tanh()),
        "asinh" => of(|a| a[0].signum() * a[0].abs().asinh()),
        "acosh" => of(|a| {
            let d = if a[0] < 1.0 { f64::NAN } else { a[0] - 1.0 };
            (d + (d * (a[0] + 1.0)).sqrt()).ln_1p()
        }),
        "atanh" => of(|a| 0.5 * (a[0].ln_1p() - (-a[0]).ln_1p())),
        "erf" => of(|a| erf(a[0])),
        "erfc" => of(|a| erfc(a[0])).tail(),
        "logit" => of(|a| (a[0] / (1.0 - a[0])).ln()).relative(),
        "erfinv" => of(|a| gamma::erfinv(a[0])).slope_rel(5e-6),
        // Below 0, `lgamma` is a difference of logarithms.
        "lgamma" => {
            of(|a| gamma::lgamma(a[0])).scale(gamma::lgamma_terms).slope_scale(gamma::digamma_terms)
        }
        "digamma" => of(|a| gamma::polygamma(0, a[0])).scale(gamma::digamma_terms),
        "is_nan" => of(|a| flag(a[0].is_nan())),
        "is_inf" => of(|a| flag(a[0].is_infinite())),
        "is_finite" => of(|a| flag(a[0].is_finite())),
        _ => return None,
    })
}

fn activation(name: &str) -> Option<Reference> {
    Some(match name {
        "relu" => of(|a| if a[0] > 0.0 { a[0] } else { 0.0 }),
        "relu6" => of(|a| a[0].clamp(0.0, 6.0)),
        "leaky_relu" => of(|a| if a[0] > 0.0 { a[0] } else { a[1] * a[0] }),
        "elu" => of(|a| if a[0] > 0.0 { a[0] } else { a[1] * a[0].exp_m1() }),
        "selu" => of(|a| {
            let inner = if a[0] > 0.0 { a[0] } else { 1.6732632423543772 * a[0].exp_m1() };
            1.0507009873554805 * inner
        }),
        // The derivative by alpha, e^z - 1 - z e^z, is z^2 / 2 near 0. Both terms lose digits.
        "celu" => of(|a| if a[0] > 0.0 { a[0] } else { a[1] * (a[0] / a[1]).exp_m1() })
            .slope_scale(|a| (a[0] / a[1]).abs().min(1.0)),
        "sigmoid" => of(|a| sigmoid(a[0])),
        "hard_sigmoid" => of(|a| (a[0] / 6.0 + 0.5).clamp(0.0, 1.0)).scale(|_| 1e-6),
        "log_sigmoid" => of(|a| -softplus(-a[0])),
        "silu" => {
            of(|a| a[0] * sigmoid(a[0])).slope_scale(|a| a[0].abs().exp().recip()).tiny(1e-35)
        }
        "hard_swish" => of(|a| a[0] * (a[0] / 6.0 + 0.5).clamp(0.0, 1.0)).slope_scale(|_| 1.0),
        "gelu" => of(|a| a[0] * 0.5 * erfc(-a[0] * 0.5f64.sqrt()))
            .tail()
            .slope_scale(|a| a[0].abs() * (-0.5 * a[0] * a[0]).exp())
            .tiny(1e-35),
        "gelu_tanh" => of(|a| {
            let u = (2.0 / PI).sqrt() * (a[0] + 0.044715 * a[0].powi(3));
            a[0] * sigmoid(2.0 * u)
        })
        .tail()
        .slope_scale(|a| {
            let u = (2.0 / PI).sqrt() * (a[0] + 0.044715 * a[0].powi(3));
            a[0].abs() * (1.0 + a[0] * a[0]) * (-2.0 * u.abs()).exp()
        })
        .tiny(1e-35),
        "mish" => of(|a| a[0] * softplus(a[0]).tanh())
            .slope_scale(|a| a[0].abs().exp().recip())
            .tiny(1e-35),
        "softplus" => of(|a| softplus(a[0])),
        "softsign" => of(|a| a[0] / (1.0 + a[0].abs())),
        "hard_tanh" => of(|a| a[0].max(a[1]).min(a[2])),
        "hardshrink" => of(|a| if a[0] > a[1] || a[0] < -a[1] { a[0] } else { 0.0 }),
        "softshrink" => of(|a| (a[0] - a[1]).max(0.0) + (a[0] + a[1]).min(0.0)),
        "threshold" => of(|a| if a[0] > a[1] { a[0] } else { a[2] }),
        _ => return None,
    })
}

fn several(name: &str) -> Option<Reference> {
    Some(match name {
        "add" => of(|a| a[0] + a[1]),
        "sub" => of(|a| a[0] - a[1]),
        "mul" => of(|a| a[0] * a[1]),
        "div" => of(|a| a[0] / a[1]).relative(),
        "fmod" => of(|a| a[0] % a[1]).smooth(few_periods),
        "remainder" => of(floor_mod).scale(|a| a[1].abs()).tiny(1e-36).smooth(few_periods),
        // The exponent y - 1 is rounded, and log x multiplies this error. For small y, y x^(y-1) overflows on the way.
        "pow" => of(|a| a[0].powf(a[1])).relative().slope_rel(1e-5).headroom(1e4).tiny(1e-34),
        "minimum" => of(|a| if a[0] <= a[1] { a[0] } else { a[1] }),
        "maximum" => of(|a| if a[0] >= a[1] { a[0] } else { a[1] }),
        "atan2" => of(|a| a[0].atan2(a[1])).joint(),
        "hypot" => of(|a| a[0].hypot(a[1])).joint().smooth(|a| a[0].hypot(a[1]) < 3.4e38),
        "copysign" => of(|a| a[0].copysign(a[1])),
        "heaviside" => of(|a| match a[0] {
            x if x > 0.0 => 1.0,
            x if x < 0.0 => 0.0,
            _ => a[1],
        }),
        "squared_difference" => of(|a| (a[0] - a[1]).powi(2)).joint(),
        "eq" => of(|a| flag(a[0] == a[1])),
        "ne" => of(|a| flag(a[0] != a[1])),
        "lt" => of(|a| flag(a[0] < a[1])),
        "le" => of(|a| flag(a[0] <= a[1])),
        "gt" => of(|a| flag(a[0] > a[1])),
        "ge" => of(|a| flag(a[0] >= a[1])),
        "where_cond" => of(|a| if a[0] != 0.0 { a[1] } else { a[2] }),
        "clamp" => of(|a| a[0].max(a[1]).min(a[2])).smooth(|a| a[1] + 1e-3 < a[2]),
        "fma" => of(|a| a[0].mul_add(a[1], a[2])).scale(|a| (a[0] * a[1]).abs()),
        "lerp" => of(|a| {
            // From the nearer end, because otherwise the larger end absorbs the difference.
            let d = a[1] - a[0];
            if a[2] < 0.5 {
                a[0] + a[2] * d
            } else {
                a[1] - (1.0 - a[2]) * d
            }
        })
        .scale(|a| a[0].abs().max(a[1].abs()) * (1.0 + a[2].abs())),
        _ => return None,
    })
}

/// Returns the reference of a row that takes integers or `bool`, before wrapping to 32 bits.
pub fn integer(name: &str) -> Option<fn(&[i64]) -> i64> {
    Some(match name {
        "abs" => |a| a[0].abs(),
        "neg" => |a| -a[0],
        "sign" => |a| a[0].signum(),
        "square" => |a| a[0].wrapping_mul(a[0]),
        "add" => |a| a[0] + a[1],
        "sub" => |a| a[0] - a[1],
        "mul" => |a| a[0].wrapping_mul(a[1]),
        "fmod" => |a| if a[1] == 0 { 0 } else { a[0] % a[1] },
        "remainder" => |a| floor_remainder(a[0], a[1]),
        // An integer divided by 0 is the integer.
        "floor_divide" => |a| match a[1] {
            0 => a[0],
            y => (a[0] - floor_remainder(a[0], y)) / y,
        },
        "heaviside" => |a| if a[0] == 0 { a[1] } else { i64::from(a[0] > 0) },
        "minimum" => |a| a[0].min(a[1]),
        "maximum" => |a| a[0].max(a[1]),
        "squared_difference" => |a| (a[0] - a[1]).wrapping_mul(a[0] - a[1]),
        "eq" => |a| i64::from(a[0] == a[1]),
        "ne" => |a| i64::from(a[0] != a[1]),
        "lt" => |a| i64::from(a[0] < a[1]),
        "le" => |a| i64::from(a[0] <= a[1]),
        "gt" => |a| i64::from(a[0] > a[1]),
        "ge" => |a| i64::from(a[0] >= a[1]),
        "logical_not" => |a| 1 - a[0],
        "logical_and" | "bitwise_and" => |a| a[0] & a[1],
        "logical_or" | "bitwise_or" => |a| a[0] | a[1],
        "logical_xor" | "bitwise_xor" => |a| a[0] ^ a[1],
        "bitwise_left_shift" => |a| a[0] << (a[1] & 31),
        "bitwise_right_shift" => |a| a[0] >> (a[1] & 31),
        "where_cond" => |a| if a[0] != 0 { a[1] } else { a[2] },
        "clamp" => |a| a[0].max(a[1]).min(a[2]),
        "fma" => |a| a[0].wrapping_mul(a[1]).wrapping_add(a[2]),
        // -1 - x inverts all bits. For `bool`, 1 - x is the last bit of this value.
        "bitwise_not" => |a| -1 - a[0],
        _ => return None,
    })
}

/// Computes Threefry-2x32-20 from the pseudo-code of the paper.
pub fn threefry(counter: [u32; 2], key: [u32; 2]) -> [u32; 2] {
    let schedule = [key[0], key[1], 0x1bd1_1bda ^ key[0] ^ key[1]];
    let rotations = [13, 15, 26, 6, 17, 29, 16, 24];
    let mut state = [counter[0].wrapping_add(key[0]), counter[1].wrapping_add(key[1])];
    for round in 0..20u32 {
        state[0] = state[0].wrapping_add(state[1]);
        state[1] = state[1].rotate_left(rotations[round as usize % 8]) ^ state[0];
        if round % 4 == 3 {
            let injection = round / 4 + 1;
            state[0] = state[0].wrapping_add(schedule[injection as usize % 3]);
            let second = schedule[(injection as usize + 1) % 3].wrapping_add(injection);
            state[1] = state[1].wrapping_add(second);
        }
    }
    state
}

fn flag(value: bool) -> f64 {
    f64::from(u8::from(value))
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

fn softplus(x: f64) -> f64 {
    if x > 30.0 {
        x + (-x).exp()
    } else {
        x.exp().ln_1p()
    }
}

fn floor_mod(a: &[f64]) -> f64 {
    let r = a[0] % a[1];
    if r != 0.0 && (r < 0.0) != (a[1] < 0.0) {
        r + a[1]
    } else {
        r
    }
}

/// Returns the remainder with the sign of the divisor. The remainder by 0 is 0.
fn floor_remainder(x: i64, y: i64) -> i64 {
    if y == 0 {
        return 0;
    }
    let euclid = x.rem_euclid(y);
    if y < 0 && euclid != 0 {
        euclid + y
    } else {
        euclid
    }
}

/// Whether a finite difference does not skip integers.
fn steps_seen(a: &[f64]) -> bool {
    a[0].abs() < 1e6
}

/// Whether the remainder does not jump between the points of a finite difference.
fn few_periods(a: &[f64]) -> bool {
    a[1].abs() > 0.1 && (a[0] / a[1]).abs() < 1e3
}

/// Computes erf by its series of positive terms, 2 / sqrt(pi) e^(-x^2) sum 2^n x^(2n+1) / (2n+1)!!.
pub fn erf(x: f64) -> f64 {
    if x.abs() > 3.0 {
        return x.signum() * (1.0 - erfc(x.abs()));
    }
    let (mut term, mut sum, mut n) = (x, x, 0.0);
    while term.abs() > 1e-18 * sum.abs() {
        n += 1.0;
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
    }
    FRAC_2_SQRT_PI * (-x * x).exp() * sum
}

/// Computes erfc. Above 3, uses the continued fraction e^(-x^2) / sqrt(pi) / (x + 1/2 / (x + 1 / (x + 3/2 / ...))).
pub fn erfc(x: f64) -> f64 {
    if x <= 3.0 {
        return 1.0 - erf(x);
    }
    let fraction = (1..=200).rev().fold(x, |f, n| x + 0.5 * f64::from(n) / f);
    (-x * x).exp() * FRAC_2_SQRT_PI / 2.0 / fraction
}
