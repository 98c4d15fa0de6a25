//! Floating-point arithmetic in all formats and rounding modes of PTX.
//!
//! The formats narrower than `f64` share one method. The exact result of an operation is `sum + error`, where `sum` is the
//! nearest `f64` and `error` tells on which side of it the exact result is. Rounding that pair to an odd `f64` mantissa keeps
//! this information in the last bit, so a second rounding to the narrow format is exact in every mode. The pair costs a few
//! operations, because products of two `f32` are exact in `f64` and Knuth's two-sum is exact for sums.
//! Example: in `f32`, `1 + 2^-60` has the sum 1 and the error 2^-60. The odd mantissa is `1 + 2^-52`, which `.rp` rounds up.
//! Subnormal results of `f64` in the modes other than `.rn` may differ by one unit in the last place.

/// The rounding modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// `.rn`: to nearest, ties to even.
    Nearest,
    /// `.rna`: to nearest, ties away from zero.
    NearestAway,
    /// `.rz`
    Zero,
    /// `.rm`
    Down,
    /// `.rp`
    Up,
}

/// A binary interchange format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    F16,
    Bf16,
    /// A 32-bit register whose 13 lowest bits are zero.
    Tf32,
    F32,
    F64,
}

impl Format {
    /// The number of mantissa bits without the implicit one.
    fn mantissa(self) -> u32 {
        match self {
            Self::F16 | Self::Tf32 => 10,
            Self::Bf16 => 7,
            Self::F32 => 23,
            Self::F64 => 52,
        }
    }

    fn bias(self) -> i64 {
        match self {
            Self::F16 => 15,
            Self::Bf16 | Self::Tf32 | Self::F32 => 127,
            Self::F64 => 1023,
        }
    }

    /// The width of the register.
    pub fn bits(self) -> u32 {
        match self {
            Self::F16 | Self::Bf16 => 16,
            Self::Tf32 | Self::F32 => 32,
            Self::F64 => 64,
        }
    }

    /// The lowest bits of the register that hold no mantissa.
    fn unused(self) -> u32 {
        if self == Self::Tf32 {
            13
        } else {
            0
        }
    }

    /// The NaN that arithmetic instructions return.
    pub fn nan(self) -> u64 {
        match self {
            Self::F16 | Self::Bf16 => 0x7fff,
            Self::Tf32 | Self::F32 => 0x7fff_ffff,
            Self::F64 => 0x7ff8_0000_0000_0000,
        }
    }

    pub fn sign_bit(self) -> u64 {
        1 << (self.bits() - 1)
    }

    /// The exact value of register bits.
    pub fn decode(self, bits: u64) -> f64 {
        match self {
            Self::F64 => f64::from_bits(bits),
            Self::F32 => f64::from(f32::from_bits(bits as u32)),
            // The tensor cores ignore the 13 lowest bits.
            Self::Tf32 => f64::from(f32::from_bits(bits as u32 & 0xffff_e000)),
            Self::Bf16 => f64::from(f32::from_bits((bits as u32) << 16)),
            Self::F16 => {
                let (exponent, mantissa) = (bits as u32 >> 10 & 31, bits as u32 & 1023);
                let magnitude = f64::from(match exponent {
                    0 => mantissa as f32 / (1 << 24) as f32,
                    31 => f32::from_bits(0x7f80_0000 | mantissa << 13),
                    _ => f32::from_bits((exponent + 112) << 23 | mantissa << 13),
                });
                if bits & 0x8000 != 0 {
                    -magnitude
                } else {
                    magnitude
                }
            }
        }
    }

    /// Whether the bits are a subnormal number.
    pub fn is_subnormal(self, bits: u64) -> bool {
        let magnitude = (bits & (self.sign_bit() - 1)) >> self.unused();
        magnitude != 0 && magnitude >> self.mantissa() == 0
    }

    /// Zero with the sign of `bits` for a subnormal number, and other numbers unchanged.
    pub fn flush(self, bits: u64) -> u64 {
        if self.is_subnormal(bits) {
            bits & self.sign_bit()
        } else {
            bits
        }
    }

    /// Rounds to the format and returns register bits.
    pub fn encode(self, value: f64, mode: Rounding) -> u64 {
        match self {
            Self::F64 => return value.to_bits(),
            Self::F32 if mode == Rounding::Nearest && !value.is_nan() => {
                return u64::from((value as f32).to_bits())
            }
            _ => {}
        }
        if value.is_nan() {
            return self.nan();
        }
        let sign = if value.is_sign_negative() { self.sign_bit() } else { 0 };
        let mantissa_bits = self.mantissa();
        let exponents = if self == Self::F16 { 31_u64 } else { 255 };
        let infinity = (exponents << mantissa_bits) << self.unused();
        if value.is_infinite() {
            return sign | infinity;
        }
        if value == 0.0 {
            return sign;
        }
        let bits = value.to_bits();
        let field = ((bits >> 52) & 0x7ff) as i64;
        let fraction = bits & ((1 << 52) - 1);
        let (whole, exponent) =
            if field == 0 { (fraction, -1022) } else { (fraction | 1 << 52, field - 1023) };
        let smallest = 1 - self.bias();
        let shift = (52 - i64::from(mantissa_bits) + (smallest - exponent).max(0)).min(63) as u32;
        let (kept, dropped, half) =
            (whole >> shift, whole & ((1 << shift) - 1), 1_u64 << (shift - 1));
        let up = match mode {
            Rounding::Nearest => dropped > half || dropped == half && kept & 1 == 1,
            Rounding::NearestAway => dropped >= half,
            Rounding::Zero => false,
            Rounding::Down => sign != 0 && dropped != 0,
            Rounding::Up => sign == 0 && dropped != 0,
        };
        let base = if exponent < smallest {
            0
        } else {
            ((exponent + self.bias() - 1) as u64) << mantissa_bits
        };
        let result = (base + kept + u64::from(up)) << self.unused();
        if result < infinity {
            return sign | result;
        }
        let to_infinity = match mode {
            Rounding::Nearest | Rounding::NearestAway => true,
            Rounding::Zero => false,
            Rounding::Down => sign != 0,
            Rounding::Up => sign == 0,
        };
        sign | if to_infinity { infinity } else { infinity - (1 << self.unused()) }
    }
}

/// The operations with exact rounding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Add,
    Subtract,
    Multiply,
    Fma,
    Divide,
    Reciprocal,
    SquareRoot,
}

/// The nearest sum and its error.
fn two_sum(a: f64, b: f64) -> (f64, f64) {
    let sum = a + b;
    let part = sum - a;
    (sum, (a - (sum - part)) + (b - part))
}

/// The nearest `f64` of a result, and a number with the sign of what is missing.
fn with_error(operation: Operation, a: f64, b: f64, c: f64) -> (f64, f64) {
    match operation {
        Operation::Add => two_sum(a, b),
        Operation::Subtract => two_sum(a, -b),
        Operation::Multiply => {
            let product = a * b;
            (product, a.mul_add(b, -product))
        }
        Operation::Fma => {
            let product = a * b;
            let low = a.mul_add(b, -product);
            let (sum, error) = two_sum(product, c);
            if low == 0.0 || !sum.is_finite() {
                return (sum, error);
            }
            let result = a.mul_add(b, c);
            (result, (sum - result) + (error + low))
        }
        Operation::Divide => {
            let quotient = a / b;
            (quotient, (-quotient).mul_add(b, a) * b.signum())
        }
        Operation::Reciprocal => with_error(Operation::Divide, 1.0, a, c),
        Operation::SquareRoot => {
            let root = a.sqrt();
            (root, (-root).mul_add(root, a))
        }
    }
}

/// The neighbor of `sum` with an odd mantissa, on the side of the error.
fn to_odd(sum: f64, error: f64) -> f64 {
    if error == 0.0 || error.is_nan() || !sum.is_finite() || sum == 0.0 || sum.to_bits() & 1 == 1 {
        sum
    } else if error > 0.0 {
        sum.next_up()
    } else {
        sum.next_down()
    }
}

/// Rounds an `f64` result in a mode other than to nearest.
fn directed(sum: f64, error: f64, mode: Rounding, is_finite: bool) -> f64 {
    if sum.is_infinite() && is_finite {
        let stays = match mode {
            Rounding::Zero => false,
            Rounding::Down => sum < 0.0,
            Rounding::Up => sum > 0.0,
            _ => true,
        };
        return if stays { sum } else { f64::MAX.copysign(sum) };
    }
    if sum.is_nan() || sum.is_infinite() || error.is_nan() {
        return sum;
    }
    match mode {
        Rounding::Down if error < 0.0 => sum.next_down(),
        Rounding::Up if error > 0.0 => sum.next_up(),
        Rounding::Zero if sum > 0.0 && error < 0.0 => sum.next_down(),
        Rounding::Zero if sum < 0.0 && error > 0.0 => sum.next_up(),
        _ => sum,
    }
}

/// Runs an operation on register bits, with rounding but without flushing and saturation.
pub fn arithmetic(operation: Operation, format: Format, mode: Rounding, bits: [u64; 3]) -> u64 {
    let [a, b, c] = bits.map(|value| format.decode(value));
    let (mut sum, error) = with_error(operation, a, b, c);
    let cancels = match operation {
        Operation::Add => a != 0.0 || a.is_sign_negative() != b.is_sign_negative(),
        Operation::Subtract => a != 0.0 || a.is_sign_negative() == b.is_sign_negative(),
        Operation::Fma => c != 0.0 || (a * b).is_sign_negative() != c.is_sign_negative(),
        _ => false,
    };
    // An exact zero of operands with unlike signs is negative if rounding is downwards.
    if mode == Rounding::Down && sum == 0.0 && error == 0.0 && cancels {
        sum = -0.0;
    }
    if format == Format::F64 {
        if mode == Rounding::Nearest {
            return if operation == Operation::Fma { a.mul_add(b, c) } else { sum }.to_bits();
        }
        let is_finite = a.is_finite() && b.is_finite() && c.is_finite();
        return directed(
            sum,
            error,
            mode,
            is_finite && !(operation == Operation::Divide && b == 0.0),
        )
        .to_bits();
    }
    format.encode(to_odd(sum, error), mode)
}

/// Rounds an exact value, given as the nearest `f64` and a number with the sign of what is missing.
pub fn round_pair(format: Format, mode: Rounding, sum: f64, error: f64) -> u64 {
    if format == Format::F64 {
        return directed(sum, error, mode, true).to_bits();
    }
    format.encode(to_odd(sum, error), mode)
}

/// Clamps to [0, 1]. NaN becomes zero.
pub fn saturate(format: Format, bits: u64) -> u64 {
    let value = format.decode(bits);
    if value > 1.0 {
        format.encode(1.0, Rounding::Nearest)
    } else if value > 0.0 {
        bits
    } else {
        0
    }
}

/// The smaller or larger operand. A NaN is ignored unless both are NaN or `keeps_nan` is set. -0 is less than +0.
pub fn extremum(format: Format, is_max: bool, keeps_nan: bool, a: u64, b: u64) -> u64 {
    let (x, y) = (format.decode(a), format.decode(b));
    if x.is_nan() || y.is_nan() {
        return match (x.is_nan(), y.is_nan()) {
            (true, false) if !keeps_nan => b,
            (false, true) if !keeps_nan => a,
            _ => format.nan(),
        };
    }
    let first_is_less = x < y || x == y && a & format.sign_bit() != 0;
    if first_is_less == is_max {
        b
    } else {
        a
    }
}

/// The documented error of an approximate instruction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Units in the last place of the result.
    Ulp(u64),
    Absolute(f64),
    Relative(f64),
    /// Absolute if the operand is in (1/2, 2), and relative outside.
    Logarithm(f64),
}

/// Rounds an approximate result. A seed moves the result by the documented error, up or down.
pub fn approximate(
    format: Format,
    bound: Bound,
    seed: Option<u64>,
    operand: u64,
    value: f64,
) -> u64 {
    let exact = format.encode(value, Rounding::Nearest);
    let Some(seed) = seed else { return exact };
    if value == 0.0
        || !value.is_finite()
        || format.decode(exact) == 0.0
        || format.decode(exact).is_infinite()
    {
        return exact;
    }
    let sign = if mix(seed ^ operand.rotate_left(17) ^ exact) & 1 == 0 { 1.0 } else { -1.0 };
    let moved = match bound {
        // Adjacent bit patterns are adjacent numbers. Steps that leave the finite numbers are not taken.
        Bound::Ulp(ulp) => {
            let next = if sign > 0.0 { exact.wrapping_add(ulp) } else { exact.wrapping_sub(ulp) };
            let valid = format.decode(next).is_finite() && (next ^ exact) & format.sign_bit() == 0;
            return if valid { next } else { exact };
        }
        Bound::Absolute(error) => value + sign * error,
        Bound::Relative(error) => value * (1.0 + sign * error),
        Bound::Logarithm(error) => {
            let operand = format.decode(operand);
            if operand > 0.5 && operand < 2.0 {
                value + sign * error
            } else {
                value * (1.0 + sign * error)
            }
        }
    };
    format.encode(moved, Rounding::Nearest)
}

/// A hash of 64 bits.
pub fn mix(value: u64) -> u64 {
    let mut x = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}
