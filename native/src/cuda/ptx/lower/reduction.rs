//! The reduction of an angle to an eighth of a turn: `|x| = n pi/2 + r` with `|r| <= pi/4`.
//!
//! For `|x| < 2^16`, `n pi/2` is subtracted in three parts, each with one `fma` (Cody and Waite). The first difference is
//! exact, because it is a multiple of 2^-23 below 1.
//!
//! Beyond that, `|x| 2/pi` is computed modulo 4 with integers (Payne and Hanek). With `|x| = m 2^s` for a 24-bit integer `m`,
//! the bits of `2/pi` with weights of at least `2^(2-s)` only add multiples of 4, so they are skipped. Of the next 96 bits `W`,
//! the product `m W` modulo 2^96 is the angle in units of 2^-94 quarter turns.

use super::Lowerer;
use crate::cuda::ptx::ir::{Class, Cmp, Inst, Op, Operand, Rounding, Ty};

/// `pi/2` as a sum.
const HALF_PI: [f32; 3] = [std::f32::consts::FRAC_PI_2, -4.371139e-8, -1.7151245e-15];
/// The bits of `2/pi` after the point, after a word of zeros.
const TWO_OVER_PI: [u32; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];
/// The angle from which integers are used.
const LARGE: f32 = 65_536.0;

impl Lowerer<'_> {
    /// Returns the number of quarter turns as an integer, modulo 4 in its lower bits, and the rest of the angle.
    pub(super) fn reduce_angle(&mut self, size: Operand) -> (Operand, Operand) {
        let turns = self.b.mul(size, Operand::f32(std::f32::consts::FRAC_2_PI));
        let n = self.b.op(Op::Round(Rounding::NearestEven), &[turns]);
        let mut r = size;
        for part in HALF_PI {
            r = self.b.fma(n, Operand::f32(-part), r);
        }
        let n = self.b.op(Op::Convert(Ty::F32, Ty::S32), &[n]);
        let is_small = self.b.cmp(Cmp::Lt, size, Operand::f32(LARGE));
        match is_small.bits() {
            Some(0) => return self.reduce_large(size),
            Some(_) => return (n, r),
            None => {}
        }
        let is_uniform = self.b.is_uniform(size);
        let (quarter, rest) =
            (self.b.reg(Class::B32, is_uniform), self.b.reg(Class::B32, is_uniform));
        let end = self.b.label();
        self.b.emit(Inst::Copies(vec![(quarter, n), (rest, r)]));
        self.b.emit(Inst::Jump { label: end, condition: Some((is_small, true)) });
        let (n, r) = self.reduce_large(size);
        self.b.emit(Inst::Copies(vec![(quarter, n), (rest, r)]));
        self.b.place(end);
        (Operand::Reg(quarter), Operand::Reg(rest))
    }

    fn reduce_large(&mut self, size: Operand) -> (Operand, Operand) {
        let b = &mut self.b;
        let exponent = b.op(Op::Shr(Ty::U32), &[size, Operand::u32(23)]);
        let fraction = b.op(Op::And, &[size, Operand::u32(0x7f_ffff)]);
        let m = b.op(Op::Or, &[fraction, Operand::u32(0x80_0000)]);
        // The first bit of the window, counted from the word of zeros.
        let offset = b.op(Op::Sub(Ty::U32), &[exponent, Operand::u32(120)]);
        let word = b.op(Op::Shr(Ty::U32), &[offset, Operand::u32(5)]);
        let shift = b.op(Op::And, &[offset, Operand::u32(31)]);
        let mut words = [Operand::u32(0); 4];
        for (at, chosen) in words.iter_mut().enumerate() {
            *chosen = Operand::u32(TWO_OVER_PI[at]);
            for first in 1..5 {
                let is_first = b.op(Op::Compare(Cmp::Eq, Ty::U32), &[word, Operand::u32(first)]);
                *chosen =
                    b.select(is_first, Operand::u32(TWO_OVER_PI[at + first as usize]), *chosen);
            }
        }
        let [w0, w1, w2] = [0, 1, 2].map(|at| self.shift_pair(words[at], words[at + 1], shift));
        let b = &mut self.b;
        let p2 = b.op(Op::Mul(Ty::U32), &[m, w2]);
        let carry = b.op(Op::MulHigh, &[m, w2]);
        let middle = b.op(Op::Mul(Ty::U32), &[m, w1]);
        let p1 = b.op(Op::Add(Ty::U32), &[middle, carry]);
        let overflows = b.op(Op::Compare(Cmp::Lt, Ty::U32), &[p1, carry]);
        let overflow = b.select(overflows, Operand::u32(1), Operand::u32(0));
        let carry = b.op(Op::MulHigh, &[m, w1]);
        let carry = b.op(Op::Add(Ty::U32), &[carry, overflow]);
        let top = b.op(Op::Mul(Ty::U32), &[m, w0]);
        let p0 = b.op(Op::Add(Ty::U32), &[top, carry]);
        // Two bits are whole quarter turns. The rest is a signed fraction, so half a quarter turn or more counts as one.
        let whole = b.op(Op::Shr(Ty::U32), &[p0, Operand::u32(30)]);
        let two = Operand::u32(2);
        let (f0, f1) = (self.shift_pair(p0, p1, two), self.shift_pair(p1, p2, two));
        let b = &mut self.b;
        let up = b.op(Op::Shr(Ty::U32), &[f0, Operand::u32(31)]);
        let n = b.op(Op::Add(Ty::U32), &[whole, up]);
        let mask = b.op(Op::Shr(Ty::S32), &[f0, Operand::u32(31)]);
        // The size of the fraction, apart from its last bit.
        let f0 = b.op(Op::Xor, &[f0, mask]);
        let f1 = b.op(Op::Xor, &[f1, mask]);
        let zeros = b.op(Op::Clz, &[f0]);
        let zeros = b.op(Op::Min(Ty::U32), &[zeros, Operand::u32(31)]);
        let high = self.shift_pair(f0, f1, zeros);
        let b = &mut self.b;
        let number = b.op(Op::Convert(Ty::U32, Ty::F32), &[high]);
        let exponent = b.op(Op::Sub(Ty::U32), &[Operand::u32(127 - 32), zeros]);
        let scale = b.op(Op::Shl, &[exponent, Operand::u32(23)]);
        let fraction = b.mul(number, scale);
        let r = b.mul(fraction, Operand::f32(HALF_PI[0]));
        let sign = b.op(Op::And, &[mask, Operand::u32(0x8000_0000)]);
        (n, b.op(Op::Xor, &[r, sign]))
    }

    /// Returns the upper word of a pair that is shifted to the left by fewer than 32 bits.
    fn shift_pair(&mut self, high: Operand, low: Operand, shift: Operand) -> Operand {
        let b = &mut self.b;
        let upper = b.op(Op::Shl, &[high, shift]);
        let half = b.op(Op::Shr(Ty::U32), &[low, Operand::u32(1)]);
        let rest = b.op(Op::Sub(Ty::U32), &[Operand::u32(31), shift]);
        let lower = b.op(Op::Shr(Ty::U32), &[half, rest]);
        b.op(Op::Or, &[upper, lower])
    }
}
