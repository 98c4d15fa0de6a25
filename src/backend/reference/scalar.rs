//! The results of functions, one value at a time. A value has 32 bits, whose meaning depends on its type.

use crate::dtype::{DType, Numbers};
use crate::expr::{Binary, Unary};
use crate::op::Reduction;

/// The bits of a value. `None` was loaded from outside of a buffer and must not be used.
pub type Cell = Option<u32>;

/// Computes `op` of a value of type `dtype`. `None` if `op` is not defined for the type.
pub fn unary(op: Unary, dtype: DType, bits: u32) -> Option<u32> {
    match dtype.numbers() {
        Numbers::Float => unary_f32(op, f32::from_bits(bits)),
        Numbers::Signed => unary_i32(op, bits as i32).map(|x| x as u32),
        Numbers::Unsigned => unary_u32(op, bits),
        Numbers::Bool => (op == Unary::Not).then_some(u32::from(bits == 0)),
    }
}

fn unary_f32(op: Unary, x: f32) -> Option<u32> {
    // The nearest `f32` to the exact result.
    let wide = |f: fn(f64) -> f64| f(f64::from(x)) as f32;
    let value = match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::Trunc => x.trunc(),
        Unary::Exp => wide(f64::exp),
        Unary::Exp2 => wide(f64::exp2),
        Unary::Log => wide(f64::ln),
        Unary::Log2 => wide(f64::log2),
        Unary::Sqrt => x.sqrt(),
        Unary::InverseSqrt => wide(|x| 1.0 / x.sqrt()),
        Unary::Sin => wide(f64::sin),
        Unary::Cos => wide(f64::cos),
        Unary::Tan => wide(f64::tan),
        Unary::Asin => wide(f64::asin),
        Unary::Acos => wide(f64::acos),
        Unary::Atan => wide(f64::atan),
        Unary::IsNan => return Some(u32::from(x.is_nan())),
        Unary::IsInf => return Some(u32::from(x.is_infinite())),
        Unary::SignBit => return Some(u32::from(x.is_sign_negative())),
        Unary::Not => return None,
    };
    Some(value.to_bits())
}

fn unary_i32(op: Unary, x: i32) -> Option<i32> {
    match op {
        Unary::Neg => Some(x.wrapping_neg()),
        Unary::Abs => Some(x.wrapping_abs()),
        Unary::SignBit => Some(i32::from(x < 0)),
        _ => unary_u32(op, x as u32).map(|x| x as i32),
    }
}

/// Computes functions that are the same for signed and unsigned integers. They are whole and finite.
fn unary_u32(op: Unary, x: u32) -> Option<u32> {
    match op {
        Unary::Neg => Some(x.wrapping_neg()),
        Unary::Not => Some(!x),
        Unary::Abs | Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc => Some(x),
        Unary::IsNan | Unary::IsInf | Unary::SignBit => Some(0),
        _ => None,
    }
}

/// Computes `op` of two values of type `dtype`. `None` if `op` is not defined for the type.
pub fn binary(op: Binary, dtype: DType, x: u32, y: u32) -> Option<u32> {
    match dtype.numbers() {
        Numbers::Float => binary_f32(op, f32::from_bits(x), f32::from_bits(y)),
        Numbers::Signed => binary_i32(op, x as i32, y as i32).map(|x| x as u32),
        // Booleans are 0 and 1.
        Numbers::Unsigned | Numbers::Bool => binary_u32(op, x, y),
    }
}

fn binary_f32(op: Binary, x: f32, y: f32) -> Option<u32> {
    let wide = |f: fn(f64, f64) -> f64| f(f64::from(x), f64::from(y)) as f32;
    let value = match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x / y,
        Binary::Rem => x % y,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::Pow => wide(f64::powf),
        Binary::Atan2 => wide(f64::atan2),
        Binary::Lt => return Some(u32::from(x < y)),
        Binary::Le => return Some(u32::from(x <= y)),
        Binary::Eq => return Some(u32::from(x == y)),
        Binary::Ne => return Some(u32::from(x != y)),
        Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr => return None,
    };
    Some(value.to_bits())
}

fn binary_i32(op: Binary, x: i32, y: i32) -> Option<i32> {
    Some(match op {
        Binary::Add => x.wrapping_add(y),
        Binary::Sub => x.wrapping_sub(y),
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div if y == 0 => x,
        Binary::Div => x.wrapping_div(y),
        Binary::Rem if y == 0 => 0,
        Binary::Rem => x.wrapping_rem(y),
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl => x.wrapping_shl(y as u32),
        Binary::Shr => x.wrapping_shr(y as u32),
        Binary::Lt => i32::from(x < y),
        Binary::Le => i32::from(x <= y),
        Binary::Eq => i32::from(x == y),
        Binary::Ne => i32::from(x != y),
        Binary::Pow | Binary::Atan2 => return None,
    })
}

fn binary_u32(op: Binary, x: u32, y: u32) -> Option<u32> {
    Some(match op {
        Binary::Add => x.wrapping_add(y),
        Binary::Sub => x.wrapping_sub(y),
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div => x.checked_div(y).unwrap_or(x),
        Binary::Rem => x.checked_rem(y).unwrap_or(0),
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::Shl => x.wrapping_shl(y),
        Binary::Shr => x.wrapping_shr(y),
        Binary::Lt => u32::from(x < y),
        Binary::Le => u32::from(x <= y),
        Binary::Eq => u32::from(x == y),
        Binary::Ne => u32::from(x != y),
        Binary::Pow | Binary::Atan2 => return None,
    })
}

/// Converts a value. Floats truncate and saturate, NaN becomes 0, and integers wrap. The result has 32 bits, and is rounded or
/// wrapped as if it had been stored.
pub fn cast(from: DType, to: DType, bits: u32) -> u32 {
    let x = f32::from_bits(bits);
    match (from.numbers(), to.numbers()) {
        (Numbers::Float, Numbers::Float) => to.load(to.store(bits)),
        (Numbers::Float, Numbers::Bool) => u32::from(x != 0.0),
        (Numbers::Float, _) => to.bits(f64::from(x)),
        (Numbers::Signed, Numbers::Float) => to.load(to.store((bits as i32 as f32).to_bits())),
        (_, Numbers::Float) => to.load(to.store((bits as f32).to_bits())),
        (_, Numbers::Bool) => u32::from(bits != 0),
        _ => to.load(bits),
    }
}

/// Combines values in order. `None` if the reduction is not defined for the type.
pub fn reduce(op: Reduction, dtype: DType, values: &[u32]) -> Option<u32> {
    let floats = || values.iter().map(|&bits| f32::from_bits(bits));
    let each = op.binary();
    match (op, dtype.compute()) {
        (Reduction::Sum, DType::F32) => {
            Some((floats().map(f64::from).sum::<f64>() as f32).to_bits())
        }
        (Reduction::Prod, DType::F32) => {
            Some((floats().map(f64::from).product::<f64>() as f32).to_bits())
        }
        (Reduction::Max | Reduction::Min, DType::F32) if floats().any(f32::is_nan) => {
            Some(f32::NAN.to_bits())
        }
        _ => values.iter().try_fold(op.identity(dtype), |all, &x| binary(each, dtype, all, x)),
    }
}
