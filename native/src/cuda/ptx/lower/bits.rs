//! Built-in functions of integers.

use super::Lowerer;
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Cmp, Op, Operand, Ty};
use naga::MathFunction as F;

impl Lowerer<'_> {
    pub(super) fn math_integer(&mut self, fun: F, ty: Ty, args: &[Operand]) -> Result<Operand> {
        let x = args[0];
        let b = &mut self.b;
        let all = Operand::u32(u32::MAX);
        let last = Operand::u32(31);
        Ok(match fun {
            F::CountOneBits => b.op(Op::Popc, &[x]),
            F::CountLeadingZeros => b.op(Op::Clz, &[x]),
            F::ReverseBits => b.op(Op::Brev, &[x]),
            F::CountTrailingZeros => {
                let reversed = b.op(Op::Brev, &[x]);
                b.op(Op::Clz, &[reversed])
            }
            // Without a bit, 31 - 32 is the result -1 that WGSL demands.
            F::FirstTrailingBit => {
                let minus = b.op(Op::Neg(Ty::S32), &[x]);
                let lowest = b.op(Op::And, &[x, minus]);
                let zeros = b.op(Op::Clz, &[lowest]);
                b.op(Op::Sub(Ty::U32), &[last, zeros])
            }
            F::FirstLeadingBit => {
                let bits = if ty == Ty::S32 {
                    // The first bit that differs from the sign.
                    let sign = b.op(Op::Shr(Ty::S32), &[x, last]);
                    b.op(Op::Xor, &[x, sign])
                } else {
                    x
                };
                let zeros = b.op(Op::Clz, &[bits]);
                b.op(Op::Sub(Ty::U32), &[last, zeros])
            }
            F::ExtractBits => {
                let (Some(offset), Some(count)) = (args.get(1), args.get(2)) else {
                    return Err(few());
                };
                let (offset, count) = self.bit_range(*offset, *count);
                let b = &mut self.b;
                let end = b.op(Op::Add(Ty::U32), &[offset, count]);
                let width = Operand::u32(32);
                let left = b.op(Op::Sub(Ty::U32), &[width, end]);
                let right = b.op(Op::Sub(Ty::U32), &[width, count]);
                // A count of zero would shift by 32.
                let right = b.op(Op::Min(Ty::U32), &[right, last]);
                let left = b.op(Op::Min(Ty::U32), &[left, last]);
                let shifted = b.op(Op::Shl, &[x, left]);
                let bits = b.op(Op::Shr(ty), &[shifted, right]);
                let is_empty = b.op(Op::Compare(Cmp::Eq, Ty::U32), &[count, Operand::u32(0)]);
                b.select(is_empty, Operand::u32(0), bits)
            }
            F::InsertBits => {
                let (Some(new), Some(offset), Some(count)) =
                    (args.get(1), args.get(2), args.get(3))
                else {
                    return Err(few());
                };
                let (offset, count) = self.bit_range(*offset, *count);
                let b = &mut self.b;
                let rest = b.op(Op::Sub(Ty::U32), &[Operand::u32(32), count]);
                let rest = b.op(Op::Min(Ty::U32), &[rest, last]);
                let ones = b.op(Op::Shr(Ty::U32), &[all, rest]);
                let is_empty = b.op(Op::Compare(Cmp::Eq, Ty::U32), &[count, Operand::u32(0)]);
                let ones = b.select(is_empty, Operand::u32(0), ones);
                let offset = b.op(Op::Min(Ty::U32), &[offset, last]);
                let mask = b.op(Op::Shl, &[ones, offset]);
                let new = b.op(Op::Shl, &[*new, offset]);
                let new = b.op(Op::And, &[new, mask]);
                let outside = b.op(Op::Not, &[mask]);
                let old = b.op(Op::And, &[x, outside]);
                b.op(Op::Or, &[old, new])
            }
            _ => {
                return Err(Error::new(format!(
                    "the function {fun:?} is not supported for integers"
                )))
            }
        })
    }

    /// Limits a range of bits to the 32 bits of a number.
    fn bit_range(&mut self, offset: Operand, count: Operand) -> (Operand, Operand) {
        let width = Operand::u32(32);
        let offset = self.b.op(Op::Min(Ty::U32), &[offset, width]);
        let most = self.b.op(Op::Sub(Ty::U32), &[width, offset]);
        (offset, self.b.op(Op::Min(Ty::U32), &[count, most]))
    }
}

fn few() -> Error {
    Error::new("a function has too few arguments")
}
