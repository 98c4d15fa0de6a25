//! Functions of one `f32` written without branches, so that loops over them become vector code.

/// Above this all floats are whole.
const WHOLE: f32 = 8_388_608.0;

/// The nearest whole number, ties to even; keeps the sign of zero.
#[inline(always)]
pub(super) fn round(x: f32) -> f32 {
    // Adding and taking away 2^23 leaves no room for a fraction, and rounds as the machine does.
    let rounded = (x.abs() + WHOLE - WHOLE).copysign(x);
    if x.abs() < WHOLE {
        rounded
    } else {
        x
    }
}

/// The nearest whole number not above.
#[inline(always)]
pub(super) fn floor(x: f32) -> f32 {
    let near = round(x);
    let lower = if near > x { near - 1.0 } else { near };
    lower.copysign(x)
}

/// The nearest whole number not below.
#[inline(always)]
pub(super) fn ceil(x: f32) -> f32 {
    let near = round(x);
    let upper = if near < x { near + 1.0 } else { near };
    upper.copysign(x)
}

/// The whole part.
#[inline(always)]
pub(super) fn trunc(x: f32) -> f32 {
    floor(x.abs()).copysign(x)
}

/// e to the x, within two units in the last place; 0 and infinity beyond the range, NaN of NaN.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    // x = n ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts so that r is exact enough.
    const LN2_HIGH: f32 = 0.693_359_4;
    const LN2_LOW: f32 = -2.121_944_4e-4;
    // Adding 1.5 * 2^23 rounds to a whole number and leaves it in the low bits.
    const SHIFT: f32 = 12_582_912.0;
    let bounded = if x > 89.0 { 89.0 } else { x };
    let bounded = if bounded < -104.0 { -104.0 } else { bounded };
    let shifted = bounded * std::f32::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let r = bounded - n * LN2_HIGH - n * LN2_LOW;
    // (e^r - 1 - r) / r^2, fitted for the least largest error in e^r (5e-11 before rounding).
    let mut p = 1.979_024e-4;
    p = p * r + 1.394_475_8e-3;
    p = p * r + 8.333_498e-3;
    p = p * r + 4.166_629_5e-2;
    p = p * r + 1.666_666_6e-1;
    p = p * r + 0.5;
    let e = p * (r * r) + r + 1.0;
    // 2^n in two steps, so that results below the smallest normal number come out right.
    let whole = shifted.to_bits().wrapping_sub(SHIFT.to_bits()) as i32;
    let half = whole >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) << 23) as u32);
    e * power(half) * power(whole - half)
}

/// The bits of a half's value as `f32`.
#[inline(always)]
pub(super) fn from_half(half: u16) -> u32 {
    let half = u32::from(half);
    let (sign, magnitude) = ((half & 0x8000) << 16, (half & 0x7fff) << 13);
    // The exponent's bias grows by 112; as a product this is right for subnormals too.
    let scaled = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let infinite = magnitude >= 0x0f80_0000;
    sign | if infinite { magnitude | 0x7f80_0000 } else { scaled.to_bits() }
}

/// The nearest half to an `f32` given by its bits, ties to even; too large becomes infinity.
#[inline(always)]
pub(super) fn to_half(bits: u32) -> u16 {
    let (sign, magnitude) = (bits >> 16 & 0x8000, bits & 0x7fff_ffff);
    let round = 0xfff + (magnitude >> 13 & 1);
    let normal = magnitude.wrapping_add(round).wrapping_sub(112 << 23) >> 13;
    // Added to a half, the multiple of 2^-24 that a subnormal is lies in the low bits.
    let low = if magnitude < 0x3880_0000 { magnitude } else { 0 };
    let subnormal = (f32::from_bits(low) + 0.5).to_bits() - 0x3f00_0000;
    let finite = if magnitude < 0x3880_0000 { subnormal } else { normal };
    let bounded = if magnitude >= 0x477f_f000 { 0x7c00 } else { finite };
    let half = if magnitude > 0x7f80_0000 { 0x7e00 } else { bounded };
    (sign | half) as u16
}
