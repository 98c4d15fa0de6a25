//! One method per row of the table, and casts.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::op::{Op, Pointwise, Types};
use crate::pointwise_rows;
use crate::tensor::{number_bits, within, Operand, State, Tensor};

macro_rules! define_methods {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident($($arg:ident),+ $(; $($parameter:ident = $usual:literal),+)?)
        $(-> $result:ident)?: $types:ident, $domain:expr => $formula:expr $(, gradient |$y:ident| $gradient:expr)?;)*) => {
        $( define_methods!(
            @$kind $name [$($arg),+] [$($($parameter $usual),+)?] [$types $($result)?] [$($doc),+]
        ); )*
    };
    (@unary $name:ident [$x:ident] [$($parameter:ident $usual:literal),*] [$types:ident $($result:ident)?]
        [$($doc:literal),+]) => {
        #[cfg_attr(feature = "js", warpweft_macros::js)]
        impl Tensor {
            $(#[doc = $doc])+
            $(#[doc = concat!("\nThe default of `", stringify!($parameter), "` is ", $usual, ".")])*
            #[cfg_attr(feature = "js", js(default($($parameter = $usual),*) $(, dtype = $result)?))]
            pub fn $name(&self $(, $parameter: f64)*) -> Tensor {
                let made = self.row(Pointwise::$name, &[$(Operand::Number($parameter)),*]);
                made.unwrap_or_else(|error| Tensor::failed(self, error))
            }
        }
    };
    (@binary $name:ident [$x:ident, $y:ident] [$($parameter:ident $usual:literal),*] [$types:ident $($result:ident)?]
        [$($doc:literal),+]) => {
        #[cfg_attr(feature = "js", warpweft_macros::js)]
        impl Tensor {
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// `Shape` if the operands do not broadcast, `DType` if their types do not go together.
            #[cfg_attr(feature = "js", js(default($($parameter = $usual),*) $(, dtype = $result)?))]
            pub fn $name(&self, $y: impl Into<Operand> $(, $parameter: f64)*) -> Result<Tensor> {
                self.row(Pointwise::$name, &[$y.into() $(, Operand::Number($parameter))*])
            }
        }
    };
    // JavaScript may leave a limit out.
    (@ternary clamp [$x:ident, $y:ident, $z:ident] [] [$types:ident] [$($doc:literal),+]) => {
        impl Tensor {
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// `Shape` if the operands do not broadcast, `DType` if their types do not go together.
            pub fn clamp(&self, $y: impl Into<Operand>, $z: impl Into<Operand>) -> Result<Tensor> {
                self.row(Pointwise::clamp, &[$y.into(), $z.into()])
            }
        }
    };
    (@ternary $name:ident [$x:ident, $y:ident, $z:ident] [] [$types:ident] [$($doc:literal),+]) => {
        #[cfg_attr(feature = "js", warpweft_macros::js)]
        impl Tensor {
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// `Shape` if the operands do not broadcast, `DType` if their types do not go together.
            #[cfg_attr(feature = "js", js(types = $types))]
            pub fn $name(&self, $y: impl Into<Operand>, $z: impl Into<Operand>) -> Result<Tensor> {
                self.row(Pointwise::$name, &[$y.into(), $z.into()])
            }
        }
    };
}

pointwise_rows!(define_methods);

/// Records a row of the table, by its name: its operands, the first of which is a tensor, then its parameters.
///
/// # Errors
/// `Shape` if the operands do not broadcast, `DType` if their types do not go together, `Data` if they are not as many
/// as the row takes or the first is a number.
pub fn pointwise(row: Pointwise, operands: &[Operand]) -> Result<Tensor> {
    match operands {
        [Operand::Tensor(first), others @ ..] => first.row(row, others),
        _ => {
            let name = row.row().name;
            Err(Error::data(format!(
                "{name}: the first operand must be a tensor, got a number or nothing"
            )))
        }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Records a row of the table with this as its first operand.
    // The methods are many, and each only calls this.
    #[inline(never)]
    pub(in crate::tensor) fn row(&self, row: Pointwise, others: &[Operand]) -> Result<Tensor> {
        let name = row.row().name;
        if others.len() + 1 != row.row().arity() {
            let (have, want) = (others.len() + 1, row.row().arity());
            return Err(Error::data(format!("{name}: there must be {want} operands, got {have}")));
        }
        match (row, self.dtype.is_float()) {
            (Pointwise::div, false) => return self.true_quotient(others),
            (Pointwise::floor_divide, true) => return self.floor_quotient(others),
            _ => {}
        }
        // A condition's type says nothing about the numbers it chooses from.
        let typed = match row.row().types {
            Types::Select => match others {
                [Operand::Tensor(x), _] | [_, Operand::Tensor(x)] => x.dtype,
                _ => DType::F32,
            },
            _ => self.dtype,
        };
        let mut tensors: Vec<Tensor> = Vec::with_capacity(others.len());
        for other in others {
            tensors.push(match other {
                Operand::Tensor(tensor) => tensor.clone(),
                Operand::Number(number) => {
                    let node = self.device.scalar(typed, number_bits(name, typed, *number)?);
                    Tensor::adopt(&self.device, node)
                }
            });
        }
        self.apply(Op::Pointwise(row), &tensors.iter().collect::<Vec<_>>())
    }

    /// The quotient of what is not of floats.
    fn true_quotient(&self, others: &[Operand]) -> Result<Tensor> {
        let float = |other: &Operand| match other {
            Operand::Tensor(tensor) if !tensor.dtype.is_float() => {
                tensor.cast(DType::F32).map(Operand::from)
            }
            other => Ok(other.clone()),
        };
        let others: Vec<Operand> = others.iter().map(float).collect::<Result<_>>()?;
        within("div", || self.cast(DType::F32)?.row(Pointwise::div, &others))
    }

    /// The quotient of floats, rounded down. What the remainder leaves is a multiple of the divisor, so the quotient is an
    /// integer but for rounding; where the divisor is 0 there is no remainder.
    fn floor_quotient(&self, others: &[Operand]) -> Result<Tensor> {
        let [divisor] = others else { unreachable!("it takes two operands") };
        within("floor_divide", || {
            let quotient = self.div(divisor.clone())?;
            let whole = self.sub(self.remainder(divisor.clone())?)?.div(divisor.clone())?.round();
            let rounded = whole.is_nan().where_cond(quotient.floor(), whole)?;
            Ok(rounded)
        })
    }

    /// Converts the elements: floats to integers truncate towards zero and saturate, NaN becomes 0; integers to integers keep
    /// their low bits; to `bool`, what is not 0 is true.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[-1.5f32, f32::NAN, 300.0], &[3])?;
    /// assert_eq!(x.cast(DType::U8)?.read::<u8>().await?, [0, 0, 255]);
    /// let x = device.tensor(&[-1i32, 300], &[2])?;
    /// assert_eq!(x.cast(DType::U8)?.read::<u8>().await?, [255, 44]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
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

    /// The same bits read as another type of as many: `f32`, `i32` or `u32`. Nothing is converted: the `u32` of `1.0` is
    /// `0x3f800000`. PyTorch's `view(dtype)`, JAX's `bitcast_convert_type`. It has no gradient. GPUs may make
    /// subnormal numbers 0, and change which NaN a NaN is.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, -2.0], &[2])?;
    /// assert_eq!(x.bitcast(DType::U32)?.read::<u32>().await?, [0x3f80_0000, 0xc000_0000]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `DType` for other types.
    pub fn bitcast(&self, dtype: DType) -> Result<Tensor> {
        self.apply(Op::Bitcast(dtype), &[])
    }

    /// Records an operation with a number that the user passed as its second operand.
    pub(super) fn with_number(&self, op: Op, number: f64, others: &[&Tensor]) -> Result<Tensor> {
        let bits = number_bits(op.name(), self.dtype, number)?;
        let node: NodeId = self.device.scalar(self.dtype, bits);
        let scalar = Tensor::adopt(&self.device, node);
        self.apply(op, &[&[&scalar], others].concat())
    }
}
