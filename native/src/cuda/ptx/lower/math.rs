//! The built-in functions of numbers.

use super::operators::scalar_of;
use super::{Lowerer, Value};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Class, Cmp, Op, Operand, Rounding, Ty};
use crate::cuda::ptx::types::Type;
use naga::MathFunction as F;
use std::rc::Rc;

/// The type and the leaves of a value.
pub(super) type Data = (Type, Rc<[Operand]>);

impl Lowerer<'_> {
    /// Calls a built-in function.
    pub(super) fn math(&mut self, fun: F, args: &[Data]) -> Result<Value> {
        if let Some(value) = self.geometry(fun, args)? {
            return Ok(value);
        }
        if let Some(value) = self.packing(fun, args)? {
            return Ok(value);
        }
        let Some((ty, first)) = args.first() else {
            return Err(Error::new("a function has no argument"));
        };
        let scalar = scalar_of(ty)?;
        let mut leaves = Vec::with_capacity(first.len());
        for index in 0..first.len() {
            let at = |arg: &Data| arg.1.get(index).or(arg.1.first()).copied();
            let operands: Option<Vec<Operand>> = args.iter().map(at).collect();
            let operands = operands.ok_or_else(|| Error::new("a value is empty"))?;
            leaves.push(self.math_scalar(fun, scalar, &operands)?);
        }
        Ok(Value::Data(ty.clone(), Rc::from(leaves)))
    }

    /// Calls a function of scalars.
    fn math_scalar(&mut self, fun: F, ty: Ty, args: &[Operand]) -> Result<Operand> {
        let missing = || Error::new("a function has too few arguments");
        let x = *args.first().ok_or_else(missing)?;
        let y = args.get(1).copied();
        match (fun, y) {
            (F::Min, Some(y)) => return Ok(self.min_max(ty, x, y, false)),
            (F::Max, Some(y)) => return Ok(self.min_max(ty, x, y, true)),
            (F::Clamp, Some(low)) => {
                let high = *args.get(2).ok_or_else(missing)?;
                let above = self.min_max(ty, x, low, true);
                return Ok(self.min_max(ty, above, high, false));
            }
            (F::Abs, _) => return Ok(if ty == Ty::U32 { x } else { self.b.op(Op::Abs(ty), &[x]) }),
            (F::Sign, _) => return Ok(self.sign(ty, x)),
            (F::Fma, Some(y)) if ty.is_float() => {
                let z = *args.get(2).ok_or_else(missing)?;
                return Ok(self.b.op(Op::Fma(ty), &[x, y, z]));
            }
            _ => {}
        }
        match ty {
            Ty::F32 => self.math_f32(fun, args),
            Ty::F16 => {
                if let (F::Ldexp, Some(n)) = (fun, y) {
                    return Ok(self.in_f32(&[x], |lowerer, args| lowerer.ldexp(args[0], n)));
                }
                let mut outcome = Err(missing());
                let result = self.in_f32(args, |lowerer, args| {
                    outcome = lowerer.math_f32(fun, args);
                    outcome.as_ref().copied().unwrap_or(Operand::f32(0.0))
                });
                outcome.map(|_| result)
            }
            _ => self.math_integer(fun, ty, args),
        }
    }

    /// Returns the smaller or greater number. Of a NaN and a number, the number.
    pub(super) fn min_max(&mut self, ty: Ty, x: Operand, y: Operand, is_max: bool) -> Operand {
        let op = |ty: Ty| if is_max { Op::Max(ty) } else { Op::Min(ty) };
        if ty == Ty::F16 {
            // `min.f16` needs sm_80. A detour over f32 is exact.
            return self.in_f32(&[x, y], |lowerer, args| lowerer.b.op(op(Ty::F32), args));
        }
        self.b.op(op(ty), &[x, y])
    }

    fn sign(&mut self, ty: Ty, x: Operand) -> Operand {
        let zero = Operand::Const(ty.class(), 0);
        let (one, minus_one) = match ty {
            Ty::F32 => (Operand::f32(1.0), Operand::f32(-1.0)),
            Ty::F16 => (Operand::Const(Class::B16, 0x3c00), Operand::Const(Class::B16, 0xbc00)),
            _ => (Operand::u32(1), Operand::u32(u32::MAX)),
        };
        let is_positive = self.b.op(Op::Compare(Cmp::Gt, ty), &[x, zero]);
        let is_negative = self.b.op(Op::Compare(Cmp::Lt, ty), &[x, zero]);
        let rest = self.b.select(is_negative, minus_one, zero);
        self.b.select(is_positive, one, rest)
    }

    fn math_f32(&mut self, fun: F, args: &[Operand]) -> Result<Operand> {
        let x = args[0];
        let missing = || Error::new("a function has too few arguments");
        let one = Operand::f32(1.0);
        Ok(match fun {
            F::Saturate => {
                let above = self.b.op(Op::Max(Ty::F32), &[x, Operand::f32(0.0)]);
                self.b.op(Op::Min(Ty::F32), &[above, one])
            }
            F::Ceil => self.b.op(Op::Round(Rounding::Up), &[x]),
            F::Floor => self.b.op(Op::Round(Rounding::Down), &[x]),
            F::Round => self.b.op(Op::Round(Rounding::NearestEven), &[x]),
            F::Trunc => self.b.op(Op::Round(Rounding::Zero), &[x]),
            F::Fract => {
                let floor = self.b.op(Op::Round(Rounding::Down), &[x]);
                self.b.sub(x, floor)
            }
            F::Sqrt => self.b.op(Op::Sqrt, &[x]),
            F::InverseSqrt => {
                let root = self.b.op(Op::Sqrt, &[x]);
                self.b.div(one, root)
            }
            F::Exp => self.exp_scaled(x, 0),
            F::Exp2 => self.exp2(x),
            F::Log => self.log(x),
            F::Log2 => self.log2(x),
            F::Sin => self.sine(x, 0),
            F::Cos => self.sine(x, 1),
            F::Tan => self.tan(x),
            F::Asin => self.asin(x),
            F::Acos => self.acos(x),
            F::Atan => self.atan(x),
            F::Sinh => self.sinh(x),
            F::Cosh => self.cosh(x),
            F::Tanh => self.tanh(x),
            F::Asinh => self.asinh(x),
            F::Acosh => self.acosh(x),
            F::Atanh => self.atanh(x),
            F::Radians => self.b.mul(x, Operand::f32(std::f32::consts::PI / 180.0)),
            F::Degrees => self.b.mul(x, Operand::f32(180.0 / std::f32::consts::PI)),
            F::QuantizeToF16 => {
                let half = self.b.op(Op::Convert(Ty::F32, Ty::F16), &[x]);
                self.b.op(Op::Convert(Ty::F16, Ty::F32), &[half])
            }
            F::Atan2 => self.atan2(x, *args.get(1).ok_or_else(missing)?),
            F::Pow => self.pow(x, *args.get(1).ok_or_else(missing)?),
            F::Ldexp => self.ldexp(x, *args.get(1).ok_or_else(missing)?),
            F::Step => {
                let is_above = self.b.cmp(Cmp::Le, x, *args.get(1).ok_or_else(missing)?);
                self.b.select(is_above, one, Operand::f32(0.0))
            }
            F::Mix | F::SmoothStep => {
                let (Some(y), Some(z)) = (args.get(1), args.get(2)) else { return Err(missing()) };
                self.blend(fun, x, *y, *z)
            }
            _ => return Err(Error::new(format!("the function {fun:?} is not supported for f32"))),
        })
    }

    fn blend(&mut self, fun: F, x: Operand, y: Operand, z: Operand) -> Operand {
        let one = Operand::f32(1.0);
        if fun == F::Mix {
            let rest = self.b.sub(one, z);
            let first = self.b.mul(x, rest);
            let second = self.b.mul(y, z);
            return self.b.add(first, second);
        }
        let (above, width) = (self.b.sub(z, x), self.b.sub(y, x));
        let quotient = self.b.div(above, width);
        let t = self.b.op(Op::Max(Ty::F32), &[quotient, Operand::f32(0.0)]);
        let t = self.b.op(Op::Min(Ty::F32), &[t, one]);
        let double = self.b.mul(t, Operand::f32(2.0));
        let rest = self.b.sub(Operand::f32(3.0), double);
        let square = self.b.mul(t, t);
        self.b.mul(square, rest)
    }
}
