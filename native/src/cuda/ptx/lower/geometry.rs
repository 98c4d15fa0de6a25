//! Built-in functions of whole vectors and matrices, and functions with structures as results.

use super::math::Data;
use super::operators::scalar_of;
use super::{Lowerer, Value};
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::ir::{Cmp, Op, Operand, Rounding, Ty};
use crate::cuda::ptx::types::Type;
use naga::MathFunction as F;
use std::rc::Rc;

impl Lowerer<'_> {
    /// Calls a function of vectors or matrices. Returns `None` if it is another function.
    pub(super) fn geometry(&mut self, fun: F, args: &[Data]) -> Result<Option<Value>> {
        let is_geometry = matches!(
            fun,
            F::Dot
                | F::Outer
                | F::Cross
                | F::Distance
                | F::Length
                | F::Normalize
                | F::FaceForward
                | F::Reflect
        ) || matches!(
            fun,
            F::Refract | F::Transpose | F::Determinant | F::Modf | F::Frexp | F::Inverse
        );
        if !is_geometry {
            return Ok(None);
        }
        let Some((ty, _)) = args.first() else {
            return Err(Error::new("a function has no argument"));
        };
        if scalar_of(ty)? != Ty::F16 {
            return self.geometry_f32(fun, args).map(Some);
        }
        // Functions of f16 are computed in f32.
        let wide: Vec<Data> = args
            .iter()
            .map(|(ty, leaves)| {
                let leaves = leaves
                    .iter()
                    .map(|leaf| self.b.op(Op::Convert(Ty::F16, Ty::F32), &[*leaf]))
                    .collect();
                (ty.with_scalar(Ty::F32), leaves)
            })
            .collect();
        let Value::Data(ty, leaves) = self.geometry_f32(fun, &wide)? else { return Ok(None) };
        let types = ty.leaf_types()?;
        let leaves: Vec<Operand> = leaves
            .iter()
            .zip(&types)
            .map(|(leaf, scalar)| match scalar {
                Ty::F32 => self.b.op(Op::Convert(Ty::F32, Ty::F16), &[*leaf]),
                _ => *leaf,
            })
            .collect();
        let ty = match &ty {
            Type::Struct(_) => result_structure(&args[0].0, fun),
            ty => ty.with_scalar(Ty::F16),
        };
        Ok(Some(Value::Data(ty, Rc::from(leaves))))
    }

    fn geometry_f32(&mut self, fun: F, args: &[Data]) -> Result<Value> {
        let (ty, x) = (args[0].0.clone(), Rc::clone(&args[0].1));
        let scalar = scalar_of(&ty)?;
        let y = args.get(1).map(|arg| Rc::clone(&arg.1));
        let single = |value: Operand| Value::Data(Type::Scalar(scalar), Rc::from([value]));
        let vector = |leaves: Vec<Operand>| Value::Data(ty.clone(), Rc::from(leaves));
        let missing = || Error::new("a function has too few arguments");
        Ok(match fun {
            F::Dot => single(self.dot(scalar, &x, &y.ok_or_else(missing)?)),
            F::Length => single(self.length(&x)),
            F::Distance => {
                let difference = self.zip(Op::Sub(Ty::F32), &x, &y.ok_or_else(missing)?);
                single(self.length(&difference))
            }
            F::Normalize => {
                let length = self.length(&x);
                vector(x.iter().map(|leaf| self.b.div(*leaf, length)).collect())
            }
            F::Cross => vector(self.cross(&x, &y.ok_or_else(missing)?)?),
            F::Outer => {
                let y = y.ok_or_else(missing)?;
                let leaves: Vec<Operand> = y
                    .iter()
                    .flat_map(|b| x.iter().map(move |a| (*a, *b)))
                    .map(|(a, b)| self.b.mul(a, b))
                    .collect();
                Value::Data(Type::Matrix(y.len() as u32, x.len() as u32, scalar), Rc::from(leaves))
            }
            F::Transpose => {
                let Type::Matrix(columns, rows, _) = ty else {
                    return Err(Error::new("transpose takes a matrix"));
                };
                let at = |row: u32, column: u32| x[(column * rows + row) as usize];
                let leaves: Vec<Operand> = (0..rows)
                    .flat_map(|row| (0..columns).map(move |column| at(row, column)))
                    .collect();
                Value::Data(Type::Matrix(rows, columns, scalar), Rc::from(leaves))
            }
            F::Determinant => {
                let columns: Vec<usize> = (0..(x.len() as f64).sqrt() as usize).collect();
                single(self.determinant(&x, columns.len(), 0, &columns))
            }
            F::FaceForward => {
                let (normal, at) = (y.ok_or_else(missing)?, args.get(2).ok_or_else(missing)?);
                let dot = self.dot(Ty::F32, &normal, &at.1);
                let is_negative = self.b.cmp(Cmp::Lt, dot, Operand::f32(0.0));
                let leaves = x.iter().map(|leaf| {
                    let opposite = self.b.neg(*leaf);
                    self.b.select(is_negative, *leaf, opposite)
                });
                vector(leaves.collect())
            }
            F::Reflect => {
                let normal = y.ok_or_else(missing)?;
                let dot = self.dot(Ty::F32, &normal, &x);
                let double = self.b.mul(dot, Operand::f32(2.0));
                let leaves = x.iter().zip(normal.iter()).map(|(leaf, normal)| {
                    let part = self.b.mul(double, *normal);
                    self.b.sub(*leaf, part)
                });
                vector(leaves.collect())
            }
            F::Refract => {
                let eta = args.get(2).and_then(|arg| arg.1.first()).ok_or_else(missing)?;
                vector(self.refract(&x, &y.ok_or_else(missing)?, *eta))
            }
            F::Modf | F::Frexp => {
                let parts: Vec<[Operand; 2]> = x
                    .iter()
                    .map(|leaf| if fun == F::Modf { self.modf(*leaf) } else { self.frexp(*leaf) })
                    .collect();
                let leaves =
                    (0..2).flat_map(|part| parts.iter().map(move |parts| parts[part])).collect();
                Value::Data(result_structure(&ty, fun), leaves)
            }
            _ => return Err(Error::new(format!("the function {fun:?} is not supported"))),
        })
    }

    fn dot(&mut self, ty: Ty, x: &[Operand], y: &[Operand]) -> Operand {
        self.dot_product(ty, x.iter().copied().zip(y.iter().copied()))
    }

    fn length(&mut self, x: &[Operand]) -> Operand {
        if let [x] = x {
            return self.b.abs(*x);
        }
        let square = self.dot(Ty::F32, x, x);
        self.b.op(Op::Sqrt, &[square])
    }

    fn zip(&mut self, op: Op, x: &[Operand], y: &[Operand]) -> Vec<Operand> {
        x.iter().zip(y).map(|(x, y)| self.b.op(op, &[*x, *y])).collect()
    }

    fn cross(&mut self, x: &[Operand], y: &[Operand]) -> Result<Vec<Operand>> {
        let ([x0, x1, x2], [y0, y1, y2]) = (x, y) else {
            return Err(Error::new("cross takes vectors of three numbers"));
        };
        let pairs = [[x1, y2, x2, y1], [x2, y0, x0, y2], [x0, y1, x1, y0]];
        Ok(pairs
            .into_iter()
            .map(|[a, b, c, d]| {
                let (first, second) = (self.b.mul(*a, *b), self.b.mul(*c, *d));
                self.b.sub(first, second)
            })
            .collect())
    }

    /// Returns the determinant of the rows from `row` on and of some columns, by expansion.
    fn determinant(
        &mut self,
        m: &[Operand],
        size: usize,
        row: usize,
        columns: &[usize],
    ) -> Operand {
        let at = |column: usize| m.get(column * size + row).copied().unwrap_or(Operand::f32(0.0));
        if let [column] = columns {
            return at(*column);
        }
        let mut sum = None;
        for (index, column) in columns.iter().enumerate() {
            let rest: Vec<usize> =
                columns.iter().copied().filter(|other| other != column).collect();
            let minor = self.determinant(m, size, row + 1, &rest);
            let product = self.b.mul(at(*column), minor);
            sum = Some(match sum {
                None => product,
                Some(sum) if index % 2 == 0 => self.b.add(sum, product),
                Some(sum) => self.b.sub(sum, product),
            });
        }
        sum.unwrap_or(Operand::f32(1.0))
    }

    fn refract(&mut self, x: &[Operand], normal: &[Operand], eta: Operand) -> Vec<Operand> {
        let one = Operand::f32(1.0);
        let dot = self.dot(Ty::F32, normal, x);
        let b = &mut self.b;
        let square = b.mul(dot, dot);
        let rest = b.sub(one, square);
        let eta_square = b.mul(eta, eta);
        let scaled = b.mul(eta_square, rest);
        let k = b.sub(one, scaled);
        let root = b.op(Op::Sqrt, &[k]);
        let along = b.mul(eta, dot);
        let factor = b.add(along, root);
        let is_total = b.cmp(Cmp::Lt, k, Operand::f32(0.0));
        x.iter()
            .zip(normal)
            .map(|(x, normal)| {
                let first = b.mul(eta, *x);
                let second = b.mul(factor, *normal);
                let difference = b.sub(first, second);
                b.select(is_total, Operand::f32(0.0), difference)
            })
            .collect()
    }

    /// Returns the fraction and the whole part.
    fn modf(&mut self, x: Operand) -> [Operand; 2] {
        let whole = self.b.op(Op::Round(Rounding::Zero), &[x]);
        let fraction = self.b.sub(x, whole);
        let size = self.b.abs(x);
        let is_infinite = self.b.cmp(Cmp::Eq, size, Operand::f32(f32::INFINITY));
        [self.b.select(is_infinite, Operand::f32(0.0), fraction), whole]
    }

    /// Returns a fraction of 1/2 up to 1, and the exponent. Zero, infinity and NaN have the exponent 0.
    fn frexp(&mut self, x: Operand) -> [Operand; 2] {
        let b = &mut self.b;
        let size = b.abs(x);
        let is_small = b.cmp(Cmp::Lt, size, Operand::f32(f32::MIN_POSITIVE));
        let scaled = b.mul(x, Operand::f32(16_777_216.0));
        let bits = b.select(is_small, scaled, x);
        let field = b.op(Op::Shr(Ty::U32), &[bits, Operand::u32(23)]);
        let field = b.op(Op::And, &[field, Operand::u32(255)]);
        let bias = b.select(is_small, Operand::u32(126 + 24), Operand::u32(126));
        let exponent = b.op(Op::Sub(Ty::S32), &[field, bias]);
        let kept = b.op(Op::And, &[bits, Operand::u32(0x807f_ffff)]);
        let fraction = b.op(Op::Or, &[kept, Operand::u32(0x3f00_0000)]);
        let is_finite = b.cmp(Cmp::Lt, size, Operand::f32(f32::INFINITY));
        let is_zero = b.cmp(Cmp::Eq, x, Operand::f32(0.0));
        let is_number = b.op(Op::Not, &[is_zero]);
        let is_number = b.op(Op::And, &[is_number, is_finite]);
        [b.select(is_number, fraction, x), b.select(is_number, exponent, Operand::u32(0))]
    }
}

/// Returns the structure that `modf` or `frexp` returns.
fn result_structure(ty: &Type, fun: F) -> Type {
    let second = if fun == F::Modf { ty.clone() } else { ty.with_scalar(Ty::S32) };
    Type::structure(vec![ty.clone(), second])
}
