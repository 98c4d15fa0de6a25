//! Elementwise operations: one method for each row of the table, casts, and operations composed of rows.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::op::{Op, Pointwise, Types};
use crate::pointwise_rows;
use crate::tensor::{number_bits, operand_bits, with_op_name, Axes, Operand, State, Tensor};

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
                let made = self.apply_row(Pointwise::$name, &[$(Operand::Number($parameter)),*]);
                made.unwrap_or_else(|error| Tensor::failed(self, error))
            }
        }
    };
    // The quotient of integers is a float.
    (@binary div [$x:ident, $y:ident] [] [$types:ident] [$($doc:literal),+]) => {
        #[cfg_attr(feature = "js", warpweft_macros::js)]
        impl Tensor {
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// `Shape` if the operands do not broadcast; `DType` if their types do not fit together.
            #[cfg_attr(feature = "js", js(returns = "Tensor<QuotientOf[D]>"))]
            pub fn div(&self, $y: impl Into<Operand>) -> Result<Tensor> {
                self.apply_row(Pointwise::div, &[$y.into()])
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
            /// `Shape` if the operands do not broadcast; `DType` if their types do not fit together.
            #[cfg_attr(feature = "js", js(default($($parameter = $usual),*) $(, dtype = $result)?))]
            pub fn $name(&self, $y: impl Into<Operand> $(, $parameter: f64)*) -> Result<Tensor> {
                self.apply_row(Pointwise::$name, &[$y.into() $(, Operand::Number($parameter))*])
            }
        }
    };
    // JavaScript may omit a limit, so its `clamp` is written by hand.
    (@ternary clamp [$x:ident, $y:ident, $z:ident] [] [$types:ident] [$($doc:literal),+]) => {
        impl Tensor {
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// `Shape` if the operands do not broadcast; `DType` if their types do not fit together.
            pub fn clamp(&self, $y: impl Into<Operand>, $z: impl Into<Operand>) -> Result<Tensor> {
                self.apply_row(Pointwise::clamp, &[$y.into(), $z.into()])
            }
        }
    };
    (@ternary $name:ident [$x:ident, $y:ident, $z:ident] [] [$types:ident] [$($doc:literal),+]) => {
        #[cfg_attr(feature = "js", warpweft_macros::js)]
        impl Tensor {
            $(#[doc = $doc])+
            ///
            /// # Errors
            /// `Shape` if the operands do not broadcast; `DType` if their types do not fit together.
            #[cfg_attr(feature = "js", js(types = $types))]
            pub fn $name(&self, $y: impl Into<Operand>, $z: impl Into<Operand>) -> Result<Tensor> {
                self.apply_row(Pointwise::$name, &[$y.into(), $z.into()])
            }
        }
    };
}

pointwise_rows!(define_methods);

/// Records a row of the table by its name. The operands come first, of which the first is a tensor, and then the
/// parameters.
///
/// # Errors
/// `Shape` if the operands do not broadcast; `DType` if their types do not fit together; `InvalidArgument` if their number is
/// wrong or the first one is a number.
pub fn pointwise(row: Pointwise, operands: &[Operand]) -> Result<Tensor> {
    match operands {
        [Operand::Tensor(first), others @ ..] => first.apply_row(row, others),
        _ => {
            let name = row.row().name;
            Err(Error::argument(format!(
                "{name}: the first operand must be a tensor, got a number or nothing"
            )))
        }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    // Not inlined, because each of the many methods only calls this function.
    /// Records a row of the table with this tensor as the first operand.
    #[inline(never)]
    pub(in crate::tensor) fn apply_row(
        &self,
        row: Pointwise,
        others: &[Operand],
    ) -> Result<Tensor> {
        let name = row.row().name;
        if others.len() + 1 != row.row().arity() {
            let (have, want) = (others.len() + 1, row.row().arity());
            return Err(Error::argument(format!(
                "{name}: there must be {want} operands, got {have}"
            )));
        }
        match (row, self.dtype.is_float()) {
            (Pointwise::div, false) => return self.true_quotient(others),
            (Pointwise::floor_divide, true) => return self.floor_quotient(others),
            _ => {}
        }
        // The condition is `bool`, so numbers take the type of the tensor that it selects from.
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
                    // Comparisons compare elements, so `x.eq(0.1)` is true for the `f16` nearest to 0.1.
                    let bits = match row.row().result {
                        Some(DType::Bool) => number_bits(name, typed, *number)?,
                        _ => operand_bits(name, typed, *number)?,
                    };
                    Tensor::adopt(&self.device, self.device.scalar(typed, bits))
                }
            });
        }
        self.apply(Op::Pointwise(row), &tensors.iter().collect::<Vec<_>>())
    }

    /// Returns the second operand of an operation that computes with this tensor as `f32`. Rejects a tensor of another type.
    fn operand_in_f32(&self, name: &str, other: &Operand) -> Result<Operand> {
        match other {
            Operand::Tensor(tensor) => {
                self.check_same_dtype(name, &[tensor])?;
                tensor.cast(self.dtype.compute()).map(Operand::from)
            }
            number => Ok(number.clone()),
        }
    }

    /// Divides operands that are not floats as `f32`.
    fn true_quotient(&self, others: &[Operand]) -> Result<Tensor> {
        let float = |other: &Operand| match other {
            Operand::Tensor(tensor) if !tensor.dtype.is_float() => {
                tensor.cast(DType::F32).map(Operand::from)
            }
            other => Ok(other.clone()),
        };
        let others: Vec<Operand> = others.iter().map(float).collect::<Result<_>>()?;
        with_op_name("div", || self.cast(DType::F32)?.apply_row(Pointwise::div, &others))
    }

    /// Returns the quotient of floats, rounded down. Subtracting the remainder with the sign of `x` leaves a multiple of the
    /// divisor, so its quotient only needs rounding to an integer. It was rounded towards 0, so 1 is subtracted if the
    /// remainder and the divisor have different signs. If the divisor is 0, the result is the plain quotient.
    fn floor_quotient(&self, others: &[Operand]) -> Result<Tensor> {
        let [divisor] = others else { unreachable!("it takes two operands") };
        with_op_name("floor_divide", || {
            let divisor = match self.operand_in_f32("floor_divide", divisor)? {
                Operand::Tensor(divisor) => divisor,
                Operand::Number(divisor) => {
                    let bits = operand_bits("floor_divide", DType::F32, divisor)?;
                    Tensor::adopt(&self.device, self.device.scalar(DType::F32, bits))
                }
            };
            self.compute_in_f32(|x| {
                let rest = x.fmod(&divisor)?;
                let whole = x.sub(&rest)?.div(&divisor)?.round();
                let apart = rest.sign_bit().logical_xor(divisor.sign_bit())?;
                let apart = apart.logical_and(rest.ne(0.0)?)?;
                let whole = apart.where_cond(whole.sub(1.0)?, whole)?;
                // Rounding does not change the quotient, but makes its gradient 0.
                divisor.eq(0.0)?.where_cond(x.div(&divisor)?.floor(), whole)
            })
        })
    }

    /// Converts the elements to another type. Floats become integers by truncation, which saturates, and NaN becomes 0.
    /// Integers keep their low bits. Everything except 0 becomes `true`.
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

    /// Reinterprets the bits as another 32-bit type: `f32`, `i32` or `u32`. The `u32` of `1.0` is `0x3f800000`.
    /// (`view(dtype)` in PyTorch, `bitcast_convert_type` in JAX.)
    ///
    /// It has no gradient. GPUs may flush subnormal numbers to 0, and may change the bits of a NaN.
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

    /// Records an operation whose second operand is a number from the caller.
    pub(super) fn with_number(&self, op: Op, number: f64, others: &[&Tensor]) -> Result<Tensor> {
        let bits = number_bits(op.name(), self.dtype, number)?;
        let node: NodeId = self.device.scalar(self.dtype, bits);
        let scalar = Tensor::adopt(&self.device, node);
        self.apply(op, &[&[&scalar], others].concat())
    }

    /// Limits elements to at least `min`. NaN stays NaN. The gradient passes to the larger operand, or half to each if
    /// they are equal.
    ///
    /// # Errors
    /// The errors of [`Tensor::maximum`].
    pub fn clamp_min(&self, min: impl Into<Operand>) -> Result<Tensor> {
        with_op_name("clamp_min", || self.maximum(min))
    }

    /// Limits elements to at most `max`. NaN stays NaN. The gradient passes to the smaller operand, or half to each if
    /// they are equal.
    ///
    /// # Errors
    /// The errors of [`Tensor::minimum`].
    pub fn clamp_max(&self, max: impl Into<Operand>) -> Result<Tensor> {
        with_op_name("clamp_max", || self.minimum(max))
    }

    /// Returns `x` if it is positive, otherwise `weight * x`. The weight is one number, or one for each channel (axis 1).
    /// He et al. 2015.
    ///
    /// # Errors
    /// `Shape` if the weight has another shape; `DType` unless both have one float type.
    pub fn prelu(&self, weight: &Tensor) -> Result<Tensor> {
        self.check_float("prelu")?;
        let channels = self.shape.get(1).copied().unwrap_or(1);
        let mut dims = vec![1; self.rank().saturating_sub(1).max(1)];
        dims[0] = weight.numel();
        if weight.rank() > 1 || weight.numel() != 1 && weight.numel() != channels {
            let must = "the weight must be one number, or one for each channel (axis 1)";
            return Err(Error::shapes("prelu", must, &self.shape, &weight.shape));
        }
        with_op_name("prelu", || {
            let weight =
                if weight.numel() == 1 { weight.reshape(())? } else { weight.reshape(dims)? };
            self.gt(0.0)?.where_cond(self, self.mul(weight)?)
        })
    }

    /// Applies a gated linear unit: the first half of an axis times the sigmoid of the second half. Dauphin et al. 2016.
    ///
    /// # Errors
    /// `Shape` if the axis does not exist or has an odd extent; `DType` unless the tensor is a float.
    #[cfg_attr(feature = "js", js(default(axis = -1)))]
    pub fn glu(&self, axis: isize) -> Result<Tensor> {
        let at = self.shape.axis("glu", axis)?;
        self.check_float("glu")?;
        let half = (self.shape[at] / 2) as isize;
        if !self.shape[at].is_multiple_of(2) {
            let message =
                format!("glu: the extent of axis {axis} must be even, got shape {}", self.shape);
            return Err(Error::shape(message));
        }
        with_op_name("glu", || {
            self.compute_in_f32(|x| {
                x.slice_static(axis, ..half, 1)?.mul(x.slice_static(axis, half.., 1)?.sigmoid())
            })
        })
    }

    /// Returns whether elements are close to those of another tensor: `|x - y| <= atol + rtol * |y|`.
    ///
    /// An infinity is close to itself, and NaN is close to nothing. NumPy and PyTorch use the tolerances `rtol` 1e-5
    /// and `atol` 1e-8.
    ///
    /// # Errors
    /// `Shape` if the operands do not broadcast; `DType` unless both have one float type.
    #[doc(alias = "isclose")]
    #[cfg_attr(feature = "js", js(options(rtol = 1e-5, atol = 1e-8), dtype = Bool))]
    pub fn is_close(&self, other: impl Into<Operand>, rtol: f64, atol: f64) -> Result<Tensor> {
        let name = "is_close";
        self.check_float(name)?;
        let other = other.into();
        with_op_name(name, || {
            let other = match other {
                Operand::Tensor(tensor) => tensor,
                Operand::Number(number) => self.device.full(&[], number, self.dtype)?,
            };
            self.check_same_dtype(name, &[&other])?;
            let wide = self.dtype.compute();
            let (x, other) = (self.cast(wide)?, other.cast(wide)?);
            let allowed = other.abs().mul(rtol)?.add(atol)?;
            let near = x.sub(&other)?.abs().le(allowed)?.logical_and(other.is_finite())?;
            near.logical_or(x.eq(&other)?)
        })
    }

    /// Returns one `bool`: whether all elements are close to those of another tensor, as in [`Tensor::is_close`].
    ///
    /// # Errors
    /// The errors of [`Tensor::is_close`].
    #[doc(alias = "allclose")]
    #[cfg_attr(feature = "js", js(options(rtol = 1e-5, atol = 1e-8), dtype = Bool))]
    pub fn all_close(&self, other: impl Into<Operand>, rtol: f64, atol: f64) -> Result<Tensor> {
        with_op_name("all_close", || self.is_close(other, rtol, atol)?.all(Axes::default()))
    }

    /// Replaces NaN by `nan`, infinity by `posinf`, and negative infinity by `neginf`. Finite `posinf` and `neginf` are limited
    /// to the range of the type. The gradient of replaced elements is 0.
    ///
    /// # Errors
    /// `DType` unless the tensor is a float.
    #[cfg_attr(feature = "js", js(options(nan = 0.0, posinf = 3.4028234663852886e38)))]
    #[cfg_attr(feature = "js", js(options(neginf = -3.4028234663852886e38)))]
    pub fn nan_to_num(&self, nan: f64, posinf: f64, neginf: f64) -> Result<Tensor> {
        let name = "nan_to_num";
        self.check_float(name)?;
        // The default is the greatest `f32`, which is infinite as `f16`.
        let most = if self.dtype == DType::F16 { 65504.0 } else { f64::from(f32::MAX) };
        let limited = |x: f64| if x.is_finite() { x.clamp(-most, most) } else { x };
        let (posinf, neginf) = (limited(posinf), limited(neginf));
        with_op_name(name, || {
            let least = self.is_inf().logical_and(self.lt(0.0)?)?;
            let rest = self.is_inf().where_cond(posinf, self)?;
            self.is_nan().where_cond(nan, least.where_cond(neginf, rest)?)
        })
    }

    /// Returns `log(e^x + e^y)` without overflow.
    ///
    /// # Errors
    /// `Shape` if the operands do not broadcast; `DType` unless both have one float type.
    pub fn logaddexp(&self, other: impl Into<Operand>) -> Result<Tensor> {
        let name = "logaddexp";
        self.check_float(name)?;
        let other = other.into();
        with_op_name(name, || {
            let other = self.operand_in_f32(name, &other)?;
            self.compute_in_f32(|x| {
                let most = x.maximum(&other)?.into_detached()?;
                // If both are -Inf, or one is +Inf, subtract 0 instead of the maximum.
                let from = most.is_inf().where_cond(0.0, &most)?;
                let y = from.neg().add(&other)?.exp();
                x.sub(&from)?.exp().add(y)?.log().add(&from)
            })
        })
    }
}
