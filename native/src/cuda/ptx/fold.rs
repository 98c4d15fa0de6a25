//! Constant folding and algebraic identities of single operations. All results have the bits that a GPU computes.

use crate::cuda::ptx::half;
use crate::cuda::ptx::ir::{Class, Cmp, Op, Operand, Rounding, Ty};

/// Returns the result of the operation if it is a constant or one of the operands.
pub fn fold(op: Op, args: &[Operand]) -> Option<Operand> {
    let mut bits = [0u64; 3];
    let mut constant = !args.is_empty();
    for (slot, arg) in bits.iter_mut().zip(args) {
        match arg.bits() {
            Some(value) => *slot = value,
            None => constant = false,
        }
    }
    if constant && let Some(value) = evaluate(op, bits, args) {
        return Some(Operand::Const(op.result(args[0].class()), value));
    }
    identity(op, args)
}

/// Evaluates an operation with constant operands.
fn evaluate(op: Op, [a, b, c]: [u64; 3], args: &[Operand]) -> Option<u64> {
    let (x, y) = (a as u32, b as u32);
    Some(match op {
        Op::Add(Ty::U64) => a.wrapping_add(b),
        Op::MulAddWide => u64::from(x).wrapping_mul(u64::from(y)).wrapping_add(c),
        Op::MulHigh => (u64::from(x) * u64::from(y)) >> 32,
        Op::Min(Ty::U64) => a.min(b),
        Op::ShrU64 => a.checked_shr(y).unwrap_or(0),
        Op::Select => {
            if c != 0 {
                a
            } else {
                b
            }
        }
        Op::And => a & b,
        Op::Or => a | b,
        Op::Xor => a ^ b,
        Op::Not => match args[0].class() {
            Class::Pred => a ^ 1,
            Class::B16 => !a & 0xffff,
            Class::B32 => u64::from(!x),
            Class::B64 => !a,
        },
        Op::Shl => u64::from(x.checked_shl(y).unwrap_or(0)),
        Op::Shr(Ty::S32) => u64::from(((x as i32) >> y.min(31)) as u32),
        Op::Shr(_) => u64::from(x.checked_shr(y).unwrap_or(0)),
        Op::Popc => u64::from(x.count_ones()),
        Op::Clz => u64::from(x.leading_zeros()),
        Op::Brev => u64::from(x.reverse_bits()),
        Op::Widen => a & 0xffff,
        Op::Narrow => a & 0xffff,
        Op::Dot4(ty) => u64::from(dot4(ty, x, y, c as u32)),
        Op::Compare(cmp, ty) => u64::from(compare(cmp, ty, a, b)?),
        Op::Convert(from, to) => convert(from, to, a)?,
        Op::Sqrt => f(f32::from_bits(x).sqrt()),
        Op::Round(mode) => f(round(mode, f32::from_bits(x))),
        Op::Add(ty)
        | Op::Sub(ty)
        | Op::Mul(ty)
        | Op::Div(ty)
        | Op::Rem(ty)
        | Op::Min(ty)
        | Op::Max(ty) => arithmetic(op, ty, a, b)?,
        Op::Neg(ty) | Op::Abs(ty) => unary(op, ty, a)?,
        Op::Fma(Ty::F32) => {
            f(f32::from_bits(x).mul_add(f32::from_bits(y), f32::from_bits(c as u32)))
        }
        Op::Fma(Ty::F16) => {
            let [x, y, z] = [a, b, c].map(|bits| f64::from(half::to_f32(bits as u16)));
            // The product of two f16 is exact in f64. The sum may round once more, which is exact enough only if it is exact.
            let sum = x * y + z;
            if sum - x * y == z && sum - z == x * y {
                u64::from(half::from_f64(sum))
            } else {
                return None;
            }
        }
        _ => return None,
    })
}

fn f(value: f32) -> u64 {
    u64::from(value.to_bits())
}

fn arithmetic(op: Op, ty: Ty, a: u64, b: u64) -> Option<u64> {
    let (x, y) = (a as u32, b as u32);
    let (i, j) = (x as i32, y as i32);
    Some(match ty {
        Ty::F32 => {
            let (x, y) = (f32::from_bits(x), f32::from_bits(y));
            f(float_arithmetic(op, x, y)?)
        }
        Ty::F16 => {
            // One operation in f32 and then rounding is the correctly rounded f16 result.
            let (x, y) = (half::to_f32(a as u16), half::to_f32(b as u16));
            u64::from(half::from_f64(f64::from(float_arithmetic(op, x, y)?)))
        }
        Ty::U32 => u64::from(match op {
            Op::Add(_) => x.wrapping_add(y),
            Op::Sub(_) => x.wrapping_sub(y),
            Op::Mul(_) => x.wrapping_mul(y),
            Op::Div(_) => x.checked_div(y)?,
            Op::Rem(_) => x.checked_rem(y)?,
            Op::Min(_) => x.min(y),
            Op::Max(_) => x.max(y),
            _ => return None,
        }),
        Ty::S32 => u64::from(match op {
            Op::Add(_) => i.wrapping_add(j),
            Op::Sub(_) => i.wrapping_sub(j),
            Op::Mul(_) => i.wrapping_mul(j),
            Op::Div(_) => i.checked_div(j)?,
            Op::Rem(_) => i.checked_rem(j)?,
            Op::Min(_) => i.min(j),
            Op::Max(_) => i.max(j),
            _ => return None,
        } as u32),
        _ => return None,
    })
}

fn float_arithmetic(op: Op, x: f32, y: f32) -> Option<f32> {
    Some(match op {
        Op::Add(_) => x + y,
        Op::Sub(_) => x - y,
        Op::Mul(_) => x * y,
        Op::Div(_) => x / y,
        // Rust leaves the sign of a zero open where PTX orders -0 below +0.
        Op::Min(_) if x == y => {
            if x.is_sign_negative() {
                x
            } else {
                y
            }
        }
        Op::Max(_) if x == y => {
            if x.is_sign_negative() {
                y
            } else {
                x
            }
        }
        Op::Min(_) => x.min(y),
        Op::Max(_) => x.max(y),
        _ => return None,
    })
}

fn unary(op: Op, ty: Ty, a: u64) -> Option<u64> {
    let x = a as u32;
    Some(match (op, ty) {
        (Op::Neg(_), Ty::F32) => u64::from(x ^ 0x8000_0000),
        (Op::Neg(_), Ty::F16) => (a ^ 0x8000) & 0xffff,
        (Op::Neg(_), Ty::S32 | Ty::U32) => u64::from(x.wrapping_neg()),
        (Op::Abs(_), Ty::F32) => u64::from(x & 0x7fff_ffff),
        (Op::Abs(_), Ty::F16) => a & 0x7fff,
        (Op::Abs(_), Ty::S32) => u64::from((x as i32).wrapping_abs() as u32),
        _ => return None,
    })
}

fn compare(cmp: Cmp, ty: Ty, a: u64, b: u64) -> Option<bool> {
    fn test<T: PartialOrd>(cmp: Cmp, a: T, b: T) -> bool {
        match cmp {
            Cmp::Eq => a == b,
            Cmp::Ne => a != b,
            Cmp::Lt => a < b,
            Cmp::Le => a <= b,
            Cmp::Gt => a > b,
            Cmp::Ge => a >= b,
        }
    }
    Some(match ty {
        Ty::F32 => test(cmp, f32::from_bits(a as u32), f32::from_bits(b as u32)),
        Ty::F16 => test(cmp, half::to_f32(a as u16), half::to_f32(b as u16)),
        Ty::S32 => test(cmp, a as i32, b as i32),
        Ty::U32 => test(cmp, a as u32, b as u32),
        Ty::U64 => test(cmp, a, b),
        Ty::Pred => return None,
    })
}

fn convert(from: Ty, to: Ty, a: u64) -> Option<u64> {
    let x = a as u32;
    Some(match (from, to) {
        (Ty::F16, Ty::F32) => f(half::to_f32(a as u16)),
        (Ty::F32, Ty::F16) => u64::from(half::from_f64(f64::from(f32::from_bits(x)))),
        (Ty::U32, Ty::F32) => f(x as f32),
        (Ty::S32, Ty::F32) => f(x as i32 as f32),
        (Ty::F32, Ty::U32) => u64::from(f32::from_bits(x) as u32),
        (Ty::F32, Ty::S32) => u64::from(f32::from_bits(x) as i32 as u32),
        (Ty::U32, Ty::U64) => u64::from(x),
        (Ty::U64, Ty::U32) => u64::from(x),
        _ => return None,
    })
}

fn round(mode: Rounding, x: f32) -> f32 {
    match mode {
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
        Rounding::Zero => x.trunc(),
        Rounding::NearestEven => x.round_ties_even(),
    }
}

fn dot4(ty: Ty, x: u32, y: u32, c: u32) -> u32 {
    let product = |a: u8, b: u8| match ty {
        Ty::S32 => (i32::from(a as i8) * i32::from(b as i8)) as u32,
        _ => u32::from(a) * u32::from(b),
    };
    let pairs = x.to_le_bytes().into_iter().zip(y.to_le_bytes());
    pairs.fold(c, |sum, (a, b)| sum.wrapping_add(product(a, b)))
}

/// Applies identities that hold for all operands, such as `x + 0` of integers.
fn identity(op: Op, args: &[Operand]) -> Option<Operand> {
    let first = *args.first()?;
    let second = args.get(1).copied().unwrap_or(first);
    let (a, b) = (first.bits(), second.bits());
    let integer = |ty: Ty| matches!(ty, Ty::U32 | Ty::S32 | Ty::U64);
    match op {
        Op::Add(ty) if integer(ty) && b == Some(0) => Some(first),
        Op::Add(ty) if integer(ty) && a == Some(0) => Some(second),
        Op::Sub(ty) if integer(ty) && b == Some(0) => Some(first),
        Op::Sub(ty) if integer(ty) && first == second => Some(Operand::u32(0)),
        Op::Mul(ty) if integer(ty) && (a == Some(0) || b == Some(0)) => Some(Operand::u32(0)),
        Op::Mul(ty) if integer(ty) && b == Some(1) => Some(first),
        Op::Mul(ty) if integer(ty) && a == Some(1) => Some(second),
        Op::Mul(Ty::F32) if b == Some(f(1.0)) => Some(first),
        Op::Mul(Ty::F32) if a == Some(f(1.0)) => Some(second),
        Op::MulAddWide if a == Some(0) || b == Some(0) => args.get(2).copied(),
        Op::Div(ty) if integer(ty) && b == Some(1) => Some(first),
        Op::Rem(Ty::U32 | Ty::S32) if b == Some(1) => Some(Operand::u32(0)),
        Op::Shl | Op::Shr(_) | Op::ShrU64 if b == Some(0) => Some(first),
        Op::Min(ty) | Op::Max(ty) if ty != Ty::F16 && first == second => Some(first),
        Op::Min(Ty::U32) if a == Some(0) || b == Some(0) => Some(Operand::u32(0)),
        Op::Max(Ty::U32) if b == Some(0) => Some(first),
        Op::Max(Ty::U32) if a == Some(0) => Some(second),
        Op::And | Op::Or if first == second => Some(first),
        Op::And if a == Some(0) || b == Some(0) => Some(Operand::Const(first.class(), 0)),
        Op::And if b == Some(ones(first.class())) => Some(first),
        Op::And if a == Some(ones(first.class())) => Some(second),
        Op::Or if b == Some(ones(first.class())) => Some(second),
        Op::Or if a == Some(ones(first.class())) => Some(first),
        Op::Or | Op::Xor if b == Some(0) => Some(first),
        Op::Or | Op::Xor if a == Some(0) => Some(second),
        Op::Select if first == second => Some(first),
        Op::Select => match args.get(2)?.bits()? {
            0 => Some(second),
            _ => Some(first),
        },
        Op::Compare(Cmp::Lt, Ty::U32) if b == Some(0) => Some(Operand::bool(false)),
        Op::Compare(Cmp::Ge, Ty::U32) if b == Some(0) => Some(Operand::bool(true)),
        _ => None,
    }
}

fn ones(class: Class) -> u64 {
    match class {
        Class::Pred => 1,
        Class::B16 => 0xffff,
        Class::B32 => 0xffff_ffff,
        Class::B64 => u64::MAX,
    }
}
