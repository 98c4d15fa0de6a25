//! Operands, which are tensors or numbers, and Rust's operators for tensors.

use super::{Pointwise, Tensor, Variable};
use crate::dtype::DType;
use crate::error::{Error, Result};
use std::ops;

/// An operand: a tensor, or a number that takes the type of the other operand.
///
/// Tensors convert by reference or by value, variables by reference (as their value), and numbers and `bool` by value.
/// Integers are exact up to 2^53. The operators `+`, `-`, `*`, `/` and `%` accept the same types.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{Device, Preference};
/// let device = Device::with(Preference::Cpu).await?;
/// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
/// let y = x.add(&x)?.mul(x.shape()[0])?;
/// assert_eq!((1.0 - &y / 4.0).read::<f32>().await?, [0.0, -1.0]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub enum Operand {
    Tensor(Tensor),
    Number(f64),
}

impl From<&Tensor> for Operand {
    fn from(tensor: &Tensor) -> Operand {
        Operand::Tensor(tensor.clone())
    }
}

impl From<Tensor> for Operand {
    fn from(tensor: Tensor) -> Operand {
        Operand::Tensor(tensor)
    }
}

impl From<&Variable> for Operand {
    fn from(variable: &Variable) -> Operand {
        Operand::Tensor(variable.value())
    }
}

impl From<&Operand> for Operand {
    fn from(operand: &Operand) -> Operand {
        operand.clone()
    }
}

impl From<bool> for Operand {
    fn from(value: bool) -> Operand {
        Operand::Number(f64::from(u8::from(value)))
    }
}

/// Returns the bits of a number that an operation computes with. Beside `f16` tensors it is an `f32`, as in PyTorch. Otherwise
/// a division by 100,000 would be one by infinity.
pub(super) fn operand_bits(name: &str, dtype: DType, number: f64) -> Result<u32> {
    number_bits(name, if dtype.is_float() { DType::F32 } else { dtype }, number)
}

/// Returns the bits of a number as an element. Rejects numbers that an integer type or `bool` cannot represent.
pub(super) fn number_bits(name: &str, dtype: DType, number: f64) -> Result<u32> {
    let Some((low, high)) = dtype.range() else { return Ok(dtype.bits(number)) };
    if number.fract() != 0.0 || !(low..=high).contains(&number) {
        return Err(Error::dtype(format!(
            "{name}: the number must be a value of dtype {dtype}, got {number}"
        )));
    }
    Ok(dtype.bits(number))
}

/// Applies an operation for a Rust operator. Operators panic where the method returns an error, like those of `ndarray`.
#[track_caller]
fn apply_operator(row: Pointwise, x: &Tensor, y: Operand) -> Tensor {
    match x.apply_row(row, &[y]) {
        Ok(tensor) => tensor,
        Err(error) => panic!("{error}"),
    }
}

/// Applies an operation to a number on the left, which takes the type of the tensor on the right.
#[track_caller]
fn apply_number_first(row: Pointwise, x: f64, y: &Tensor) -> Tensor {
    let name = row.row().name;
    let made = operand_bits(name, y.dtype, x).and_then(|bits| {
        let number = Tensor::adopt(&y.device, y.device.scalar(y.dtype, bits));
        number.apply_row(row, &[y.into()])
    });
    match made {
        Ok(tensor) => tensor,
        Err(error) => panic!("{error}"),
    }
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl From<$number> for Operand {
            fn from(number: $number) -> Operand {
                Operand::Number(number as f64)
            }
        }
    )* };
}
numbers!(f64, f32, i32, u32, i64, u64, isize, usize);

macro_rules! on_the_left {
    ($number:ty: $($trait:ident $method:ident $row:ident;)*) => { $(
        impl ops::$trait<&Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, y: &Tensor) -> Tensor {
                apply_number_first(Pointwise::$row, f64::from(self), y)
            }
        }
        impl ops::$trait<Tensor> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, y: Tensor) -> Tensor {
                apply_number_first(Pointwise::$row, f64::from(self), &y)
            }
        }
        impl ops::$trait<&Variable> for $number {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, y: &Variable) -> Tensor {
                apply_number_first(Pointwise::$row, f64::from(self), &y.value())
            }
        }
    )* };
}
// Only one float type and one integer type. With more, the type of 1.0 in `(1.0 - &x).relu()` would be ambiguous.
on_the_left!(f64: Add add add; Sub sub sub; Mul mul mul; Div div div; Rem rem fmod;);
on_the_left!(i32: Add add add; Sub sub sub; Mul mul mul; Div div div; Rem rem fmod;);

macro_rules! operators {
    ($($trait:ident $method:ident $row:ident $assign:ident $assign_method:ident;)*) => { $(
        impl<R: Into<Operand>> ops::$trait<R> for &Variable {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: R) -> Tensor {
                apply_operator(Pointwise::$row, &self.value(), other.into())
            }
        }
        impl<R: Into<Operand>> ops::$assign<R> for Tensor {
            #[track_caller]
            fn $assign_method(&mut self, other: R) {
                *self = apply_operator(Pointwise::$row, self, other.into());
            }
        }
        impl<R: Into<Operand>> ops::$trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: R) -> Tensor {
                apply_operator(Pointwise::$row, self, other.into())
            }
        }
        impl<R: Into<Operand>> ops::$trait<R> for Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: R) -> Tensor {
                apply_operator(Pointwise::$row, &self, other.into())
            }
        }
    )* };
}
operators! {
    Add add add AddAssign add_assign;
    Sub sub sub SubAssign sub_assign;
    Mul mul mul MulAssign mul_assign;
    Div div div DivAssign div_assign;
    Rem rem fmod RemAssign rem_assign;
}

impl ops::Neg for &Variable {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        self.value().neg()
    }
}

impl ops::Neg for &Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}

impl ops::Neg for Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        Tensor::neg(&self)
    }
}
