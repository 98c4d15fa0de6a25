//! Unpacking and dequantizing of packed low-bit weights.
//!
//! A word holds several numbers, and scales turn them into real numbers. Everything is index arithmetic and bit
//! operations, which a matrix product computes while it reads the words. The unpacked numbers therefore need no memory.

use crate::dtype::{DType, FLOATS};
use crate::error::{Error, Result};
use crate::tensor::{with_op_name, Tensor};

/// Options of [`Tensor::dequantize`].
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, Default)]
pub struct DequantizeOptions<'a> {
    /// The integers that mean 0, in the shape of the scale. The default is 0 everywhere.
    pub zero_point: Option<&'a Tensor>,
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Unpacks fields of `bits` bits (1, 2, 4, 8 or 16) from the words along the last axis, lowest first, as `i32`:
    /// `u32 [.., n] -> i32 [.., 32 n / bits]`.
    ///
    /// With `signed`, fields are in two's complement. Fields of 8 bits are the bytes of the words in memory order.
    /// Nothing is computed or stored until a kernel reads the result. A matrix product reads the words.
    ///
    /// # Errors
    /// `DType` unless the tensor is `u32`; `Shape` at rank 0; `InvalidArgument` for other numbers of bits; `Limit`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let words = device.tensor(&[0xFE21_0080_u32], &[1])?;
    /// assert_eq!(words.unpack(8, true)?.read::<i32>().await?, [-128, 0, 33, -2]);
    /// assert_eq!(words.unpack(16, false)?.read::<i32>().await?, [0x80, 0xFE21]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(default(signed = false), dtype = I32))]
    pub fn unpack(&self, bits: u32, signed: bool) -> Result<Tensor> {
        self.extract_fields("unpack", bits, signed)
    }

    /// Unpacks `bf16` numbers from the words along the last axis, the lower half first: `u32 [.., n] -> f32 [.., 2 n]`.
    /// The result is exact, because `bf16` is the upper half of `f32`.
    ///
    /// # Errors
    /// `DType` unless the tensor is `u32`; `Shape` at rank 0; `Limit`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let words = device.tensor(&[0xC020_3F80_u32], &[1])?;
    /// assert_eq!(words.unpack_bf16()?.read::<f32>().await?, [1.0, -2.5]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(dtype = F32))]
    pub fn unpack_bf16(&self) -> Result<Tensor> {
        let halves = self.extract_fields("unpack_bf16", 16, false)?;
        with_op_name("unpack_bf16", || {
            let half = self.device.constant(&[], 16.0, DType::U32)?;
            halves.cast(DType::U32)?.bitwise_left_shift(&half)?.bitcast(DType::F32)
        })
    }

    /// Converts quantized integers to real numbers: `(x - zero_point) * scale`, of the scale's type.
    ///
    /// `scale` and `zero_point` have the same shape, with at most as many axes as this tensor, aligned at the last axis.
    /// Each of their extents divides the tensor's, and each number applies to a block of neighbors. `[]` is one scale for
    /// all, `[n, 1]` is one for each row, and `[n, k / 32]` is one for each 32 elements in the rows of `[n, k]`.
    ///
    /// # Errors
    /// `DType` unless this tensor is `i32`, the scale a float and the zero point `i32`; `Shape` if an extent does not
    /// divide.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::DequantizeOptions};
    /// let device = Device::with(Preference::Cpu).await?;
    /// // One row of a matrix of eight 4-bit numbers, in groups of four.
    /// let weights = device.tensor(&[0x7654_3210_u32], &[1, 1])?.unpack(4, true)?;
    /// let scale = device.tensor(&[0.5f32, 10.0], &[1, 2])?;
    /// let row = weights.dequantize(&scale, DequantizeOptions::default())?;
    /// assert_eq!(row.read::<f32>().await?, [0.0, 0.5, 1.0, 1.5, 40.0, 50.0, 60.0, 70.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(spread(options), returns = "Tensor"))]
    pub fn dequantize(&self, scale: &Tensor, options: DequantizeOptions<'_>) -> Result<Tensor> {
        let DequantizeOptions { zero_point } = options;
        let zero_dtype = zero_point.map_or(DType::I32, |zero| zero.dtype);
        if (self.dtype, zero_dtype) != (DType::I32, DType::I32) || !scale.dtype.is_float() {
            let message = format!(
                "dequantize: input, scale and zero point must be i32, {FLOATS} and i32, got {}, {} and {zero_dtype}",
                self.dtype, scale.dtype
            );
            return Err(Error::dtype(message));
        }
        if let Some(zero) = zero_point.filter(|zero| zero.shape != scale.shape) {
            let must = "scale and zero point must have one shape";
            return Err(Error::shapes("dequantize", must, &scale.shape, &zero.shape));
        }
        with_op_name("dequantize", || {
            let scale = self.expand_blocks(scale)?;
            let shifted = match zero_point {
                Some(zero) => self.sub(&self.expand_blocks(zero)?)?,
                None => self.clone(),
            };
            shifted.cast(scale.dtype)?.mul(&scale)
        })
    }

    /// Repeats the elements of `part` until it has the extents of this tensor.
    fn expand_blocks(&self, part: &Tensor) -> Result<Tensor> {
        let mut dims = vec![1; self.rank().saturating_sub(part.rank())];
        dims.extend_from_slice(&part.shape);
        let divides = |(&few, &many): (&usize, &usize)| few > 0 && many % few == 0 || few == many;
        if dims.len() != self.rank() || !dims.iter().zip(self.shape.iter()).all(divides) {
            let must = "the extents of the scale must divide those of the input";
            return Err(Error::shapes("dequantize", must, &self.shape, &part.shape));
        }
        let mut spread = part.reshape(&dims)?;
        for axis in 0..dims.len() {
            let (few, many) = (dims[axis], self.shape[axis]);
            // A single number broadcasts without being repeated.
            if few == many || few == 1 {
                continue;
            }
            let before: usize = dims[..axis].iter().product();
            let after: usize = dims[axis + 1..].iter().product();
            dims[axis] = many;
            let flat = spread.reshape(&[before, few, 1, after])?;
            spread = flat.expand(&[before, few, many / few, after])?.reshape(&dims)?;
        }
        Ok(spread)
    }

    fn extract_fields(&self, name: &str, bits: u32, signed: bool) -> Result<Tensor> {
        if self.dtype != DType::U32 {
            return Err(Error::wrong_dtype(name, "u32", self.dtype));
        }
        if ![1, 2, 4, 8, 16].contains(&bits) {
            let message = format!("{name}: bits must be 1, 2, 4, 8 or 16, got {bits}");
            return Err(Error::argument(message));
        }
        let Some((&words, before)) = self.shape.split_last() else {
            return Err(Error::wrong_shape(
                name,
                "the input must have rank 1 or more",
                &self.shape,
            ));
        };
        with_op_name(name, || {
            let (fields, width) = (32 / bits, bits as i32);
            let mut dims = before.to_vec();
            dims.push(words.saturating_mul(fields as usize));
            // The shape is [rows, words, fields], so that any rank is possible.
            let rows: usize = before.iter().product();
            let word = self.reshape(&[rows, words, 1])?;
            let first = self.device.iota(&[fields as usize], 0)?;
            // Constants are known when the kernel is compiled, unlike numbers that are data.
            let known = |value: i32| self.device.constant(&[], f64::from(value), DType::I32);
            let above = known(32 - width)?;
            // Shifts the field to the top of the word and then to the bottom. An arithmetic shift copies the sign.
            let up = above.sub(&first.mul(&known(width)?)?)?;
            let spread = if signed {
                word.cast(DType::I32)?.bitwise_left_shift(&up)?.bitwise_right_shift(&above)?
            } else {
                word.bitwise_left_shift(&up.cast(DType::U32)?)?
                    .bitwise_right_shift(&above.cast(DType::U32)?)?
                    .cast(DType::I32)?
            };
            spread.reshape(&dims)
        })
    }
}
