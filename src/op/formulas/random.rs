//! Random bits as a function of a counter and a key. The functions use additions, shifts and exclusive ors of 32-bit words,
//! so every device computes the same bits.

use crate::dtype::DType;
use crate::expr::Expr;

/// Threefry-2x32 with 20 rounds. Returns two random words for a counter of two words and a key of two words (Salmon, Moraes,
/// Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
pub fn threefry(counter: [Expr; 2], key: [Expr; 2]) -> [Expr; 2] {
    const ROTATIONS: [[f64; 4]; 2] = [[13.0, 15.0, 26.0, 6.0], [17.0, 29.0, 16.0, 24.0]];
    let parity = xor(xor(key[0], key[1]), Expr::lit(f64::from(0x1bd1_1bda_u32)));
    let keys = [key[0], key[1], parity];
    let (mut x, mut y) = (counter[0] + keys[0], counter[1] + keys[1]);
    for group in 0..5 {
        for rotation in ROTATIONS[group % 2] {
            x = x + y;
            y = xor(rotate_left(y, rotation), x);
        }
        x = x + keys[(group + 1) % 3];
        y = y + keys[(group + 2) % 3] + (group + 1) as f64;
    }
    [x, y]
}

/// Exclusive or. A constant 0 is removed.
fn xor(x: Expr, y: Expr) -> Expr {
    match (x.literal(), y.literal()) {
        (Some(0.0), _) => y,
        (_, Some(0.0)) => x,
        _ => x.xor(y),
    }
}

/// Rotates 32 bits. A constant 0 stays 0.
fn rotate_left(x: Expr, count: f64) -> Expr {
    match x.literal() {
        Some(0.0) => x,
        _ => x.shl(count).or(x.shr(32.0 - count)),
    }
}

/// Returns the first word of [`threefry`] for the counter `(counter, 0)` and the key `(key, 0)`.
pub fn random_bits(counter: Expr, key: Expr) -> Expr {
    let zero = || Expr::lit(0.0);
    let [first, _] = threefry([counter, zero()], [key, zero()]);
    first
}

/// Returns the top 24 bits divided by 2^24. Every result is exact and below 1.
pub fn unit_float(bits: Expr) -> Expr {
    bits.shr(8.0).cast(DType::F32) * (1.0 / 16_777_216.0)
}
