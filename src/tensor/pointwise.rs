//! One method per row of the table, casts, and operators.

use super::{State, Tensor};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::op::{Op, Pointwise, Types};
use crate::pointwise_rows;
use std::ops;

/// An operand: a tensor, or a number that takes the tensors' type.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    Tensor(&'a Tensor),
    Number(f64),
}

impl<'a> From<&'a Tensor> for Value<'a> {
    fn from(tensor: &'a Tensor) -> Value<'a> {
        Value::Tensor(tensor)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => { $(
        impl From<$number> for Value<'_> {
            fn from(number: $number) -> Self {
                Value::Number(f64::from(number))
            }
        }
    )* };
}
numbers!(f64, f32, i32, u32);

macro_rules! define_methods {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident($($arg:ident),+ $(; $($parameter:ident = $usual:literal),+)?):
        $types:ident, $domain:expr => $formula:expr $(, gradient |$y:ident| $gradient:expr)?;)*) => {
        impl Tensor { $(
            define_methods!(@$kind $name [$($arg),+] [$($($parameter $usual),+)?] [$($doc),+]);
        )* }
    };
    (@unary $name:ident [$x:ident] [$($parameter:ident $usual:literal),*] [$($doc:literal),+]) => {
        $(#[doc = $doc])+
        $(#[doc = concat!("\n`", stringify!($parameter), "` is usually ", $usual, ".")])*
        pub fn $name(&self $(, $parameter: f64)*) -> Tensor {
            let values = [Value::Tensor(self) $(, Value::Number($parameter))*];
            pointwise(Pointwise::$name, &values).unwrap_or_else(|error| Tensor::failed(self, error))
        }
    };
    (@binary $name:ident [$x:ident, $y:ident] [$($parameter:ident $usual:literal),*] [$($doc:literal),+]) => {
        $(#[doc = $doc])+
        ///
        /// # Errors
        /// `Shape` if the operands do not broadcast, `DType` if their types do not go together.
        pub fn $name<'a>(&self, $y: impl Into<Value<'a>> $(, $parameter: f64)*) -> Result<Tensor> {
            let values = [Value::Tensor(self), $y.into() $(, Value::Number($parameter))*];
            pointwise(Pointwise::$name, &values)
        }
    };
    (@ternary $name:ident [$x:ident, $y:ident, $z:ident] [] [$($doc:literal),+]) => {
        $(#[doc = $doc])+
        ///
        /// # Errors
        /// `Shape` if the operands do not broadcast, `DType` if their types do not go together.
        pub fn $name<'a>(&self, $y: impl Into<Value<'a>>, $z: impl Into<Value<'a>>) -> Result<Tensor> {
            pointwise(Pointwise::$name, &[Value::Tensor(self), $y.into(), $z.into()])
        }
    };
}

pointwise_rows!(define_methods);

/// Records a row of the table, by its name: its operands, the first of which is a tensor, then its parameters.
///
/// # Errors
/// `Shape` if the operands do not broadcast, `DType` if their types do not go together, `Data` if they are not as many
/// as the row takes or the first is a number.
pub fn pointwise(row: Pointwise, values: &[Value]) -> Result<Tensor> {
    let name = row.row().name;
    let Some(Value::Tensor(first)) = values.first() else {
        return Err(Error::data(format!("{name}: the first operand is not a tensor")));
    };
    if values.len() != row.row().arity() {
        let (have, want) = (values.len(), row.row().arity());
        return Err(Error::data(format!("{name}: {have} values instead of {want}")));
    }
    let device = &first.device;
    // A condition's type says nothing about the numbers it chooses from.
    let typed = match row.row().types {
        Types::Select => match values[1..] {
            [Value::Tensor(x), _] | [_, Value::Tensor(x)] => x.dtype,
            _ => DType::F32,
        },
        _ => first.dtype,
    };
    let mut others: Vec<Tensor> = Vec::with_capacity(values.len() - 1);
    for value in &values[1..] {
        others.push(match value {
            Value::Tensor(tensor) => (*tensor).clone(),
            Value::Number(number) => {
                let node = device.scalar(typed, number_bits(name, typed, *number)?);
                Tensor::adopt(device, node)
            }
        });
    }
    first.apply(Op::Pointwise(row), &others.iter().collect::<Vec<_>>())
}

/// The bits of a number as an element; refuses numbers an integer or `bool` cannot hold.
pub(super) fn number_bits(name: &str, dtype: DType, number: f64) -> Result<u32> {
    let (low, high) = match dtype {
        DType::F32 | DType::F16 => return Ok(dtype.bits(number)),
        DType::I32 => (f64::from(i32::MIN), f64::from(i32::MAX)),
        DType::U32 => (0.0, f64::from(u32::MAX)),
        DType::Bool => (0.0, 1.0),
    };
    if number.fract() != 0.0 || !(low..=high).contains(&number) {
        return Err(Error::dtype(format!("{name}: {number} is not a value of type {dtype}")));
    }
    Ok(dtype.bits(number))
}

impl Tensor {
    /// Converts the elements: floats to integers truncate towards zero and saturate, NaN becomes 0; to `bool`, what is
    /// not 0 is true.
    ///
    /// # Errors
    /// `Unsupported` for `f16` on a device without it.
    pub fn cast(&self, dtype: DType) -> Result<Tensor> {
        if dtype == self.dtype {
            return match &self.state {
                State::Node(_) => Ok(self.clone()),
                State::Failed(error) => Err(error.clone()),
            };
        }
        self.apply(Op::Cast(dtype), &[])
    }

    /// Records an operation with a number that the user passed as its last operand.
    pub(super) fn with_number(&self, op: Op, others: &[&Tensor], number: f64) -> Result<Tensor> {
        let bits = number_bits(op.name(), self.dtype, number)?;
        let node: NodeId = self.device.scalar(self.dtype, bits);
        let scalar = Tensor::adopt(&self.device, node);
        self.apply(op, &[others, &[&scalar]].concat())
    }
}

/// Operators panic where the method would return an error, as those of arrays do.
macro_rules! operators {
    ($($trait:ident $method:ident $row:ident;)*) => { $(
        impl<'a, R: Into<Value<'a>>> ops::$trait<R> for &Tensor {
            type Output = Tensor;
            #[track_caller]
            fn $method(self, other: R) -> Tensor {
                match pointwise(Pointwise::$row, &[Value::Tensor(self), other.into()]) {
                    Ok(tensor) => tensor,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    )* };
}
operators!(Add add add; Sub sub sub; Mul mul mul; Div div div; Rem rem rem;);

impl ops::Neg for &Tensor {
    type Output = Tensor;
    fn neg(self) -> Tensor {
        Tensor::neg(self)
    }
}
