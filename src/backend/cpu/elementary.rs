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
    // The Taylor-like minimax polynomial of (e^r - 1 - r) / r^2.
    let mut p = 1.987_569_1e-4;
    p = p * r + 1.398_2e-3;
    p = p * r + 8.333_452e-3;
    p = p * r + 4.166_579_6e-2;
    p = p * r + 1.666_666_5e-1;
    p = p * r + 0.5;
    let e = p * (r * r) + r + 1.0;
    // 2^n in two steps, so that results below the smallest normal number come out right.
    let whole = shifted.to_bits().wrapping_sub(SHIFT.to_bits()) as i32;
    let half = whole >> 1;
    let power = |n: i32| f32::from_bits((n.wrapping_add(127) << 23) as u32);
    e * power(half) * power(whole - half)
}
