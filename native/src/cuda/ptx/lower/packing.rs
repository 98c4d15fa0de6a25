//! Built-in functions that pack several numbers into 32 bits, and products of packed bytes.

use super::math::Data;
use super::{Lowerer, Value};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Op, Operand, Rounding, Ty};
use crate::cuda::ptx::types::Type;
use naga::MathFunction as F;
use std::rc::Rc;

impl Lowerer<'_> {
    /// Calls a function that packs or unpacks. Returns `None` if it is another function.
    pub(super) fn packing(&mut self, fun: F, args: &[Data]) -> Result<Option<Value>> {
        let Some((_, x)) = args.first() else {
            return Err(Error::new("a function has no argument"));
        };
        let first = x.first().copied().ok_or_else(|| Error::new("a value is empty"))?;
        let word = |value: Operand, ty: Ty| Some(Value::Data(Type::Scalar(ty), Rc::from([value])));
        let vector = |leaves: Vec<Operand>, ty: Ty| {
            Some(Value::Data(Type::Vector(leaves.len() as u32, ty), Rc::from(leaves)))
        };
        Ok(match fun {
            F::Dot4I8Packed | F::Dot4U8Packed => {
                let Some(second) = args.get(1).and_then(|arg| arg.1.first()) else {
                    return Err(Error::new("a function has too few arguments"));
                };
                let ty = if fun == F::Dot4I8Packed { Ty::S32 } else { Ty::U32 };
                word(self.b.op(Op::Dot4(ty), &[first, *second, Operand::u32(0)]), ty)
            }
            F::Pack4x8snorm => word(self.pack_normalized(x, 8, -1.0, 127.0), Ty::U32),
            F::Pack4x8unorm => word(self.pack_normalized(x, 8, 0.0, 255.0), Ty::U32),
            F::Pack2x16snorm => word(self.pack_normalized(x, 16, -1.0, 32_767.0), Ty::U32),
            F::Pack2x16unorm => word(self.pack_normalized(x, 16, 0.0, 65_535.0), Ty::U32),
            F::Pack2x16float => {
                let halves: Vec<Operand> = x
                    .iter()
                    .map(|leaf| {
                        let half = self.b.op(Op::Convert(Ty::F32, Ty::F16), &[*leaf]);
                        self.b.op(Op::Widen, &[half])
                    })
                    .collect();
                word(self.join_fields(&halves, 16), Ty::U32)
            }
            F::Pack4xI8 | F::Pack4xU8 => word(self.join_fields(x, 8), Ty::U32),
            F::Pack4xI8Clamp => word(self.pack_clamped(x, Ty::S32, -128i32 as u32, 127), Ty::U32),
            F::Pack4xU8Clamp => word(self.pack_clamped(x, Ty::U32, 0, 255), Ty::U32),
            F::Unpack4x8snorm => vector(self.unpack_normalized(first, 8, Ty::S32, 127.0), Ty::F32),
            F::Unpack4x8unorm => vector(self.unpack_normalized(first, 8, Ty::U32, 255.0), Ty::F32),
            F::Unpack2x16snorm => {
                vector(self.unpack_normalized(first, 16, Ty::S32, 32_767.0), Ty::F32)
            }
            F::Unpack2x16unorm => {
                vector(self.unpack_normalized(first, 16, Ty::U32, 65_535.0), Ty::F32)
            }
            F::Unpack2x16float => {
                let halves = self.split_fields(first, 16, Ty::U32);
                let numbers = halves.into_iter().map(|half| {
                    let half = self.b.op(Op::Narrow, &[half]);
                    self.b.op(Op::Convert(Ty::F16, Ty::F32), &[half])
                });
                vector(numbers.collect(), Ty::F32)
            }
            F::Unpack4xI8 => vector(self.split_fields(first, 8, Ty::S32), Ty::S32),
            F::Unpack4xU8 => vector(self.split_fields(first, 8, Ty::U32), Ty::U32),
            _ => None,
        })
    }

    /// Packs numbers from `least` to 1 as multiples of `1 / scale`.
    fn pack_normalized(&mut self, x: &[Operand], bits: u32, least: f32, scale: f32) -> Operand {
        let fields: Vec<Operand> = x
            .iter()
            .map(|leaf| {
                let b = &mut self.b;
                let above = b.op(Op::Max(Ty::F32), &[*leaf, Operand::f32(least)]);
                let inside = b.op(Op::Min(Ty::F32), &[above, Operand::f32(1.0)]);
                let scaled = b.mul(inside, Operand::f32(scale));
                let shifted = b.add(scaled, Operand::f32(0.5));
                let whole = b.op(Op::Round(Rounding::Down), &[shifted]);
                b.op(Op::Convert(Ty::F32, Ty::S32), &[whole])
            })
            .collect();
        self.join_fields(&fields, bits)
    }

    fn unpack_normalized(&mut self, word: Operand, bits: u32, ty: Ty, scale: f32) -> Vec<Operand> {
        let fields = self.split_fields(word, bits, ty);
        fields
            .into_iter()
            .map(|field| {
                let number = self.b.op(Op::Convert(ty, Ty::F32), &[field]);
                let number = self.b.div(number, Operand::f32(scale));
                match ty {
                    Ty::S32 => self.b.op(Op::Max(Ty::F32), &[number, Operand::f32(-1.0)]),
                    _ => number,
                }
            })
            .collect()
    }

    fn pack_clamped(&mut self, x: &[Operand], ty: Ty, least: u32, most: u32) -> Operand {
        let fields: Vec<Operand> = x
            .iter()
            .map(|leaf| {
                let above = self.b.op(Op::Max(ty), &[*leaf, Operand::u32(least)]);
                self.b.op(Op::Min(ty), &[above, Operand::u32(most)])
            })
            .collect();
        self.join_fields(&fields, 8)
    }

    /// Joins the lower bits of integers, the first one lowest.
    fn join_fields(&mut self, fields: &[Operand], bits: u32) -> Operand {
        let mask = Operand::u32((1 << bits) - 1);
        fields.iter().enumerate().fold(Operand::u32(0), |sum, (at, field)| {
            let field = self.b.op(Op::And, &[*field, mask]);
            let shifted = self.b.op(Op::Shl, &[field, Operand::u32(bits * at as u32)]);
            self.b.op(Op::Or, &[sum, shifted])
        })
    }

    /// Splits a word into integers, the lowest bits first.
    fn split_fields(&mut self, word: Operand, bits: u32, ty: Ty) -> Vec<Operand> {
        let down = Operand::u32(32 - bits);
        (0..32 / bits)
            .map(|at| {
                let up = Operand::u32(32 - bits - bits * at);
                let top = self.b.op(Op::Shl, &[word, up]);
                self.b.op(Op::Shr(ty), &[top, down])
            })
            .collect()
    }
}
