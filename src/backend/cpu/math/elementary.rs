//! Elementary functions of one `f32`, without branches, so that loops over them are vectorized.

/// From this value on, all floats are integers.
const WHOLE: f32 = 8_388_608.0;

/// Returns the nearest integer, ties to even. Keeps the sign of zero.
#[inline(always)]
pub fn round(x: f32) -> f32 {
    // Adding and subtracting 2^23 removes the fraction, and rounds as the processor does.
    let rounded = (x.abs() + WHOLE - WHOLE).copysign(x);
    if x.abs() < WHOLE {
        rounded
    } else {
        x
    }
}

/// Returns the largest integer not above `x`.
#[inline(always)]
pub fn floor(x: f32) -> f32 {
    let near = round(x);
    let lower = if near > x { near - 1.0 } else { near };
    lower.copysign(x)
}

/// Returns the smallest integer not below `x`.
#[inline(always)]
pub fn ceil(x: f32) -> f32 {
    let near = round(x);
    let upper = if near < x { near + 1.0 } else { near };
    upper.copysign(x)
}

/// Returns the integer part.
#[inline(always)]
pub fn trunc(x: f32) -> f32 {
    floor(x.abs()).copysign(x)
}

// ln 2 in two parts. Products of the first part with small integers are exact.
const LN2_HIGH: f32 = 0.693_359_4;
const LN2_LOW: f32 = -2.121_944_4e-4;

// Adding 1.5 * 2^23 rounds to an integer, which is then in the low bits.
const SHIFT: f32 = 12_582_912.0;

/// Returns e to the x, within two units in the last place. Out of range it is 0 or infinity, and NaN stays NaN.
#[inline(always)]
pub fn exp(x: f32) -> f32 {
    let bounded = bound(x, -104.0, 89.0);
    let shifted = bounded * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    power(shifted, bounded - n * LN2_HIGH - n * LN2_LOW)
}

/// Returns 2 to the x, with the accuracy of [`exp`].
#[inline(always)]
pub fn exp2(x: f32) -> f32 {
    let bounded = bound(x, -151.0, 129.0);
    let shifted = bounded + SHIFT;
    power(shifted, (bounded - (shifted - SHIFT)) * std::f32::consts::LN_2)
}

/// Clamps `x` to bounds. NaN stays NaN.
#[inline(always)]
fn bound(x: f32, low: f32, high: f32) -> f32 {
    let x = if x > high { high } else { x };
    if x < low {
        low
    } else {
        x
    }
}

/// Returns 2^n e^r, where n is the integer in the low bits of `shifted` and |r| is at most ln 2 / 2.
#[inline(always)]
fn power(shifted: f32, r: f32) -> f32 {
    // (e^r - 1 - r) / r^2, a minimax fit of e^r (error 5e-11 before rounding).
    let mut p = 1.979_024e-4;
    p = p * r + 1.394_475_8e-3;
    p = p * r + 8.333_498e-3;
    p = p * r + 4.166_629_5e-2;
    p = p * r + 1.666_666_6e-1;
    p = p * r + 0.5;
    let e = p * (r * r) + r + 1.0;
    // 2^n is applied in two steps, so that subnormal results are correct.
    let n = shifted.to_bits().wrapping_sub(SHIFT.to_bits()) as i32;
    let half = n >> 1;
    let two_to = |n: i32| f32::from_bits((n.wrapping_add(127) << 23) as u32);
    e * two_to(half) * two_to(n - half)
}

/// Returns the natural logarithm, within two units in the last place. It is -infinity at 0, and NaN below.
#[inline(always)]
pub fn log(x: f32) -> f32 {
    let (n, f, r) = log_parts(x);
    log_edges(x, r + n * LN2_LOW + f + n * LN2_HIGH)
}

/// Returns the logarithm to base 2, exact for powers of 2.
#[inline(always)]
pub fn log2(x: f32) -> f32 {
    let (n, f, r) = log_parts(x);
    log_edges(x, (r + f) * std::f32::consts::LOG2_E + n)
}

/// Splits x = 2^n (1 + f) with 1 + f between the square roots of 1/2 and of 2, and ln(1 + f) = f + r.
#[inline(always)]
fn log_parts(x: f32) -> (f32, f32, f32) {
    let tiny = x < f32::MIN_POSITIVE;
    let scaled = if tiny { x * 33_554_432.0 } else { x };
    let root_of_half = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    let n = (scaled.to_bits().wrapping_sub(root_of_half) as i32) >> 23;
    let f = f32::from_bits(scaled.to_bits().wrapping_sub((n << 23) as u32)) - 1.0;
    // (ln(1 + f) - f + f^2 / 2) / f^3, a minimax fit of the logarithm's relative error (8e-10).
    let mut p = 6.757_635_6e-2;
    p = p * f - 1.169_437_5e-1;
    p = p * f + 1.189_350_4e-1;
    p = p * f - 1.240_307_5e-1;
    p = p * f + 1.421_855_4e-1;
    p = p * f - 1.666_809e-1;
    p = p * f + 2.000_216_7e-1;
    p = p * f - 2.500_001e-1;
    p = p * f + 3.333_331e-1;
    let square = f * f;
    (n as f32 - if tiny { 25.0 } else { 0.0 }, f, f * square * p - 0.5 * square)
}

#[inline(always)]
fn log_edges(x: f32, log: f32) -> f32 {
    let log = if x == f32::INFINITY { x } else { log };
    let log = if x == 0.0 { f32::NEG_INFINITY } else { log };
    if x >= 0.0 {
        log
    } else {
        f32::NAN
    }
}

/// Converts an `f16` to the bits of its value as `f32`.
#[inline(always)]
pub fn from_half(half: u16) -> u32 {
    let half = u32::from(half);
    let (sign, magnitude) = ((half & 0x8000) << 16, (half & 0x7fff) << 13);
    // The bias of the exponent grows by 112. A product does this for subnormal numbers, too.
    let scaled = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let infinite = magnitude >= 0x0f80_0000;
    sign | if infinite { magnitude | 0x7f80_0000 } else { scaled.to_bits() }
}

/// Converts the bits of an `f32` to the nearest `f16`, ties to even. Large numbers become infinity.
#[inline(always)]
pub fn to_half(bits: u32) -> u16 {
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    let round = 0xfff + (magnitude >> 13 & 1);
    let normal = magnitude.wrapping_add(round).wrapping_sub(112 << 23) >> 13;
    // A subnormal number is a multiple of 2^-24. Added to 1/2, the multiple is in the low bits.
    let low = if magnitude < 0x3880_0000 { magnitude } else { 0 };
    let subnormal = (f32::from_bits(low) + 0.5).to_bits() - 0x3f00_0000;
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let bounded = if magnitude >= 0x477f_f000 { 0x7c00 } else { finite };
    let half = if magnitude > 0x7f80_0000 { 0x7e00 } else { bounded };
    (sign | half) as u16
}
