//! Conversions between `f16`, as bits, and wider types.

/// Returns the number with these bits.
pub fn to_f32(bits: u16) -> f32 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let exponent = i32::from(bits >> 10 & 31);
    let fraction = f32::from(bits & 0x3ff);
    match exponent {
        31 if fraction != 0.0 => f32::NAN,
        31 => sign * f32::INFINITY,
        0 => sign * fraction * 2f32.powi(-24),
        _ => sign * (1024.0 + fraction) * 2f32.powi(exponent - 25),
    }
}

/// Rounds to the nearest `f16`, ties to even, and returns its bits.
pub fn from_f64(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    if size.is_nan() {
        return 0x7fff;
    }
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // The exponent of the last place, at least that of subnormal numbers.
    let exponent = (((size.to_bits() >> 52) as i32) - 1023).max(-14) - 10;
    let units = (size * 2f64.powi(-exponent)).round_ties_even() as u16;
    // A normal number has the unit 1024, which adds one to the exponent field. Rounding up to 2048 carries into it.
    sign | (((exponent + 24) as u16) << 10).wrapping_add(units)
}
