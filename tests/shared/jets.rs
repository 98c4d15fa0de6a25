//! The derivatives of the rows up to the third, in `f64`. Each function is written from its definition in truncated Taylor
//! arithmetic, independent of the library's formulas.

use super::gamma::{self, polygamma};
use super::reference::erfc;
use std::f64::consts::{FRAC_2_SQRT_PI, LN_10, LN_2, PI, SQRT_2};
use std::ops::{Add, Div, Mul, Neg, Sub};

/// A value with its derivatives along three directions. The n-th part is the mixed derivative by the directions whose bits n
/// has. No direction counts twice, so the square of a direction is 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jet(pub [f64; 8]);

impl Jet {
    pub fn constant(value: f64) -> Jet {
        let mut parts = [0.0; 8];
        parts[0] = value;
        Jet(parts)
    }

    fn value(self) -> f64 {
        self.0[0]
    }

    /// Applies a function, given by its value and its first three derivatives at this point.
    fn map(self, derivatives: [f64; 4]) -> Jet {
        let [value, first, second, third] = derivatives;
        let mut moved = self;
        moved.0[0] = 0.0;
        let square = moved * moved;
        let sum = moved.scaled(first) + square.scaled(second / 2.0);
        sum + (square * moved).scaled(third / 6.0) + Jet::constant(value)
    }

    fn scaled(self, by: f64) -> Jet {
        Jet(self.0.map(|part| times(part, by)))
    }

    fn exp(self) -> Jet {
        self.map([self.value().exp(); 4])
    }

    fn ln(self) -> Jet {
        let x = self.value();
        self.map([x.ln(), 1.0 / x, -1.0 / (x * x), 2.0 / (x * x * x)])
    }

    fn ln_1p(self) -> Jet {
        let u = 1.0 + self.value();
        self.map([self.value().ln_1p(), 1.0 / u, -1.0 / (u * u), 2.0 / (u * u * u)])
    }

    fn recip(self) -> Jet {
        let r = 1.0 / self.value();
        self.map([r, -r * r, 2.0 * r * r * r, -6.0 * r * r * r * r])
    }

    fn sqrt(self) -> Jet {
        let x = self.value();
        let r = x.sqrt();
        self.map([r, 0.5 / r, -0.25 / (r * x), 0.375 / (r * x * x)])
    }

    fn sin(self) -> Jet {
        let (s, c) = self.value().sin_cos();
        self.map([s, c, -s, -c])
    }

    fn cos(self) -> Jet {
        let (s, c) = self.value().sin_cos();
        self.map([c, -s, -c, s])
    }

    fn asin(self) -> Jet {
        let x = self.value();
        let u = 1.0 - x * x;
        let r = 1.0 / u.sqrt();
        self.map([x.asin(), r, x * r / u, (1.0 + 2.0 * x * x) * r / (u * u)])
    }

    fn atan(self) -> Jet {
        let x = self.value();
        let r = 1.0 / (1.0 + x * x);
        self.map([x.atan(), r, -2.0 * x * r * r, (6.0 * x * x - 2.0) * r * r * r])
    }

    /// Returns a function with the derivatives of the error function and the given value.
    fn erf(self, value: f64) -> Jet {
        let x = self.value();
        let g = FRAC_2_SQRT_PI * (-x * x).exp();
        self.map([value, g, -2.0 * x * g, (4.0 * x * x - 2.0) * g])
    }

    /// Returns 1 / (1 + e^-x).
    fn sigmoid(self) -> Jet {
        let one = Jet::constant(1.0);
        match self.value() < 0.0 {
            true => self.exp() / (one + self.exp()),
            false => (one + (-self).exp()).recip(),
        }
    }

    /// Returns log(1 + e^x).
    fn softplus(self) -> Jet {
        match self.value() < 0.0 {
            true => self.exp().ln_1p(),
            false => self + (-self).exp().ln_1p(),
        }
    }

    /// Returns (1 - e^-2x) / (1 + e^-2x).
    fn tanh(self) -> Jet {
        if self.value() < 0.0 {
            return -(-self).tanh();
        }
        let (one, e) = (Jet::constant(1.0), self.scaled(-2.0).exp());
        // The value comes from `f64::tanh`, because the difference has no digits left.
        let mut tanh = (one - e) / (one + e);
        tanh.0[0] = self.value().tanh();
        tanh
    }

    /// Returns the absolute value. The derivative at 0 is 0.
    fn abs(self) -> Jet {
        match self.value() {
            0.0 => Jet::constant(0.0),
            x if x < 0.0 => -self,
            _ => self,
        }
    }
}

/// Returns a product in which 0 times infinity is 0.
fn times(x: f64, y: f64) -> f64 {
    if x == 0.0 || y == 0.0 {
        0.0
    } else {
        x * y
    }
}

impl Add for Jet {
    type Output = Jet;
    fn add(self, other: Jet) -> Jet {
        Jet(std::array::from_fn(|n| self.0[n] + other.0[n]))
    }
}

impl Neg for Jet {
    type Output = Jet;
    fn neg(self) -> Jet {
        Jet(self.0.map(|part| -part))
    }
}

impl Sub for Jet {
    type Output = Jet;
    fn sub(self, other: Jet) -> Jet {
        self + -other
    }
}

impl Mul for Jet {
    type Output = Jet;
    fn mul(self, other: Jet) -> Jet {
        let part = |all: usize| {
            let subsets = (0..8).filter(|some| some & !all == 0);
            subsets.map(|some| times(self.0[some], other.0[all ^ some])).sum()
        };
        Jet(std::array::from_fn(part))
    }
}

impl Div for Jet {
    type Output = Jet;
    // The product with the reciprocal.
    #[allow(clippy::suspicious_arithmetic_impl)]
    fn div(self, other: Jet) -> Jet {
        self * other.recip()
    }
}

/// Returns the derivatives of a row at a point along up to three directions. Each direction is the number of an argument. The
/// n-th part is the derivative by the directions whose bits n has.
///
/// At a kink, the derivative follows PyTorch. It is the derivative of
/// - 0, for `abs`, `copysign` and `hypot` at 0, `atan2` at (0, 0), and functions that round or compare;
/// - the constant, for `relu`, `relu6`, `hard_tanh`, `hard_sigmoid`, `hardshrink` and `softshrink` at their corners, and for
///   `threshold` at its threshold; the piece outside, for `hard_swish`; the line, `alpha x`, for `leaky_relu`, `elu`, `celu`
///   and `selu` at 0;
/// - the mean of both, for `minimum` and `maximum` where the operands are equal; `x`, for `clamp` at the limits.
///
/// Returns NaN where no derivative exists, and `None` for a row that is not listed here.
pub fn derivatives(name: &str, point: &[f64], directions: &[usize]) -> Option<[f64; 8]> {
    let moved = |(n, &value): (usize, &f64)| {
        let mut jet = Jet::constant(value);
        for (at, _) in directions.iter().enumerate().filter(|(_, direction)| **direction == n) {
            jet.0[1 << at] = 1.0;
        }
        jet
    };
    let arguments: Vec<Jet> = point.iter().enumerate().map(moved).collect();
    if name == "pow" && point[0] == 0.0 {
        return Some(power_of_zero(arguments[0], point[1], directions));
    }
    let jet = unary(name, arguments[0])
        .or_else(|| activation(name, &arguments))
        .or_else(|| several(name, &arguments))?;
    let mut parts = jet.0;
    if name == "pow" && point[0] < 0.0 {
        // The logarithm of the base does not exist.
        for (part, value) in parts.iter_mut().enumerate() {
            if directions.iter().enumerate().any(|(at, &n)| part >> at & 1 == 1 && n == 1) {
                *value = f64::NAN;
            }
        }
    }
    Some(parts)
}

fn unary(name: &str, x: Jet) -> Option<Jet> {
    let (v, one) = (x.value(), Jet::constant(1.0));
    Some(match name {
        "abs" => x.abs(),
        "neg" => -x,
        "sign" => Jet::constant(if v == 0.0 { 0.0 } else { v.signum() }),
        "floor" | "ceil" | "round" | "trunc" => Jet::constant(f64::NAN).map([0.0; 4]),
        "fract" => x,
        "reciprocal" => x.recip(),
        "square" => x * x,
        "sqrt" => x.sqrt(),
        "rsqrt" => x.sqrt().recip(),
        "exp" => x.exp(),
        "exp2" => x.scaled(LN_2).exp(),
        "expm1" => x.exp() - one,
        "log" => x.ln(),
        "log2" => x.ln().scaled(1.0 / LN_2),
        "log10" => x.ln().scaled(1.0 / LN_10),
        "log1p" => x.ln_1p(),
        "sin" => x.sin(),
        "cos" => x.cos(),
        "tan" => x.sin() / x.cos(),
        "asin" => x.asin(),
        "acos" => Jet::constant(PI / 2.0) - x.asin(),
        "atan" => x.atan(),
        "sinh" => x.map([v.sinh(), v.cosh(), v.sinh(), v.cosh()]),
        "cosh" => x.map([v.cosh(), v.sinh(), v.cosh(), v.sinh()]),
        "tanh" => x.tanh(),
        "asinh" if v < 0.0 => -(-x + (x * x + one).sqrt()).ln(),
        "asinh" => (x + (x * x + one).sqrt()).ln(),
        "acosh" => (x + ((x - one) * (x + one)).sqrt()).ln(),
        "logit" => x.ln() - (one - x).ln(),
        "atanh" => (x.ln_1p() - (-x).ln_1p()).scaled(0.5),
        "erf" => x.erf(1.0 - erfc(v)),
        "erfc" => -x.erf(-erfc(v)),
        "erfinv" => {
            let y = gamma::erfinv(v);
            let s = (y * y).exp() / FRAC_2_SQRT_PI;
            x.map([y, s, 2.0 * y * s * s, (2.0 + 8.0 * y * y) * s * s * s])
        }
        "lgamma" => x.map([gamma::lgamma(v), polygamma(0, v), polygamma(1, v), polygamma(2, v)]),
        "digamma" => x.map([0, 1, 2, 3].map(|n| polygamma(n, v))),
        _ => return None,
    })
}

fn activation(name: &str, a: &[Jet]) -> Option<Jet> {
    let (x, v, one) = (a[0], a[0].value(), Jet::constant(1.0));
    // 0 up to one corner, 1 from the other corner on, linear in between.
    let ramp = |from: f64, to: f64| match v {
        _ if v <= from => Jet::constant(from),
        _ if v >= to => Jet::constant(to),
        _ => x,
    };
    let sixth = 1.0 / 6.0;
    Some(match name {
        "relu" => ramp(0.0, f64::INFINITY),
        "relu6" => ramp(0.0, 6.0),
        "hard_tanh" => ramp(a[1].value(), a[2].value()),
        "hard_sigmoid" => (ramp(-3.0, 3.0) + Jet::constant(3.0)).scaled(sixth),
        "hard_swish" if v >= 3.0 => x,
        "hard_swish" => x * (ramp(-3.0, 3.0) + Jet::constant(3.0)).scaled(sixth),
        "leaky_relu" if v > 0.0 => x,
        "leaky_relu" => a[1] * x,
        "elu" | "celu" | "selu" => {
            let alpha = if name == "selu" { Jet::constant(1.6732632423543772) } else { a[1] };
            let scale = if name == "selu" { 1.0507009873554805 } else { 1.0 };
            let inner = if name == "celu" { x / alpha } else { x };
            let piece = match v {
                _ if v > 0.0 => x,
                0.0 => alpha * inner,
                _ => alpha * (inner.exp() - one),
            };
            piece.scaled(scale)
        }
        "hardshrink" | "softshrink" if v.abs() <= a[1].value() => Jet::constant(0.0),
        "hardshrink" => x,
        "softshrink" => x - a[1].scaled(v.signum()),
        "threshold" if v <= a[1].value() => a[2],
        "threshold" => x,
        "sigmoid" => x.sigmoid(),
        "log_sigmoid" => -(-x).softplus(),
        "softplus" => x.softplus(),
        "silu" => x * x.sigmoid(),
        // Half of erfc(-x / sqrt(2)) is the normal distribution function.
        "gelu" => {
            let z = x.scaled(-1.0 / SQRT_2);
            x * -z.erf(-erfc(z.value())).scaled(0.5)
        }
        "gelu_tanh" => {
            let u = (x + (x * x * x).scaled(0.044715)).scaled((2.0 / PI).sqrt());
            x * u.scaled(2.0).sigmoid()
        }
        "mish" => x * x.softplus().tanh(),
        "softsign" => x / (one + x.abs()),
        _ => return None,
    })
}

fn several(name: &str, a: &[Jet]) -> Option<Jet> {
    let (x, y) = (a[0], *a.get(1)?);
    let (v, w, one) = (x.value(), y.value(), Jet::constant(1.0));
    let mean = (x + y).scaled(0.5);
    Some(match name {
        "add" => x + y,
        "sub" => x - y,
        "mul" => x * y,
        "div" => x / y,
        "fmod" => x - y.scaled((v / w).trunc()),
        "remainder" => x - y.scaled((v / w).floor()),
        "pow" => {
            let odd = v < 0.0 && w % 2.0 != 0.0;
            // x^y = |v|^y (x / v)^y, and the power of 1 + u is a binomial series. Nothing cancels.
            let (mut rest, mut series, mut term) = (y, one, one);
            let u = x.scaled(1.0 / v) - one;
            for n in 1..4 {
                term = term * rest.scaled(1.0 / f64::from(n)) * u;
                series = series + term;
                rest = rest - one;
            }
            let power = y.scaled(v.abs().ln()).exp() * series;
            let sign = if v < 0.0 && w.fract() != 0.0 { f64::NAN } else { 1.0 };
            power.scaled(if odd { -sign } else { sign })
        }
        "minimum" | "maximum" if v == w => mean,
        "minimum" => {
            if v < w {
                x
            } else {
                y
            }
        }
        "maximum" => {
            if v > w {
                x
            } else {
                y
            }
        }
        // Uses the quotient that is at most 1.
        "atan2" => match v.abs() <= w.abs() {
            _ if v == 0.0 && w == 0.0 => Jet::constant(0.0),
            true => (x / y).atan(),
            false => -(y / x).atan(),
        },
        "hypot" if v == 0.0 && w == 0.0 => Jet::constant(0.0),
        // Uses the quotient that is at most 1.
        "hypot" if v.abs() < w.abs() => several(name, &[y, x])?,
        "hypot" => x.abs() * (one + (y / x) * (y / x)).sqrt(),
        "heaviside" if v == 0.0 => y,
        "heaviside" => Jet::constant(if v > 0.0 { 1.0 } else { 0.0 }),
        "copysign" => x.abs().scaled(1f64.copysign(w)),
        "squared_difference" => (x - y) * (x - y),
        "where_cond" => {
            if v != 0.0 {
                y
            } else {
                a[2]
            }
        }
        "clamp" => {
            let top = a[2];
            match () {
                _ if w > top.value() || v > top.value() => top,
                _ if v < w => y,
                _ => x,
            }
        }
        "fma" => x * y + a[2],
        "lerp" => x + a[2] * (y - x),
        _ => return None,
    })
}

/// Returns the derivatives of 0^y: by the base, those of the monomial; by the exponent, 0 where the power tends to 0.
fn power_of_zero(x: Jet, y: f64, directions: &[usize]) -> [f64; 8] {
    let whole = y >= 0.0 && y.fract() == 0.0;
    let monomial = match whole && y <= 3.0 {
        true => (0..y as u32).fold(Jet::constant(1.0), |power, _| power * x),
        false => Jet::constant(0.0),
    };
    std::array::from_fn(|part| {
        let along = |n: usize| {
            let is = |at: &usize| part >> at & 1 == 1 && directions[*at] == n;
            (0..directions.len()).filter(is).count() as f64
        };
        match along(1) == 0.0 {
            _ if y > along(0) => monomial.0[part],
            true if whole => monomial.0[part],
            _ => f64::NAN,
        }
    })
}
