//! Conversion of tensors from and to plain data, `ndarray` arrays (feature `ndarray`) and images of `image` (feature
//! `image`). With the feature `serde`, a [`TensorData`] can be written in every format of serde.
//!
//! ```
//! # pollster::block_on(async {
//! # use warpweft::device::{Device, Preference};
//! use warpweft::data::{TensorData, Values};
//!
//! let device = Device::with(Preference::Cpu).await?;
//! let data = device.tensor(&[1.0f32, 2.0], &[2])?.exp().to_data().await?;
//! assert_eq!(data.shape(), [2]);
//! assert!(matches!(data.values(), Values::F32(values) if values.len() == 2));
//! let again = device.tensor_from_data(&data)?;
//! assert_eq!(again.to_data().await?, data);
//! # Ok::<(), warpweft::error::Error>(()) }).unwrap();
//! ```

#[cfg(feature = "image")]
mod image;
#[cfg(feature = "ndarray")]
mod ndarray;

use crate::alloc::try_vec;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use half::f16;
use std::future::Future;

/// A shape with its values, row-major, on the host. It is the result of a read, and needs no device.
///
/// With the feature `serde`, the format is `{"shape": [2], "values": {"f32": [1.0, 2.0]}}`. An `f16` is written as its 16
/// bits. Values that do not fill the shape are rejected when they are deserialized. JSON has no infinities and no NaN, so it
/// refuses to read them. Use this for small data, and safetensors for weights.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "Unchecked"))]
pub struct TensorData {
    shape: Vec<usize>,
    values: Values,
}

/// Values of one type.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[allow(missing_docs)]
#[non_exhaustive]
pub enum Values {
    F32(Vec<f32>),
    F16(Vec<f16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    Bool(Vec<bool>),
    I8(Vec<i8>),
    U8(Vec<u8>),
    I16(Vec<i16>),
    U16(Vec<u16>),
}

impl Values {
    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        match self {
            Values::F32(_) => DType::F32,
            Values::F16(_) => DType::F16,
            Values::I32(_) => DType::I32,
            Values::U32(_) => DType::U32,
            Values::Bool(_) => DType::Bool,
            Values::I8(_) => DType::I8,
            Values::U8(_) => DType::U8,
            Values::I16(_) => DType::I16,
            Values::U16(_) => DType::U16,
        }
    }

    /// Returns the number of values.
    pub fn len(&self) -> usize {
        match self {
            Values::F32(values) => values.len(),
            Values::F16(values) => values.len(),
            Values::I32(values) => values.len(),
            Values::U32(values) => values.len(),
            Values::Bool(values) => values.len(),
            Values::I8(values) => values.len(),
            Values::U8(values) => values.len(),
            Values::I16(values) => values.len(),
            Values::U16(values) => values.len(),
        }
    }

    /// Whether the list of values is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Deserialized data before its check. The values may not fill the shape.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
struct Unchecked {
    shape: Vec<usize>,
    values: Values,
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for TensorData {
    type Error = Error;
    fn try_from(read: Unchecked) -> Result<TensorData> {
        TensorData::new(&read.shape, read.values)
    }
}

impl TensorData {
    /// Combines a shape and its values.
    ///
    /// # Errors
    /// `Shape` if the values do not fill the shape.
    pub fn new(shape: &[usize], values: Values) -> Result<TensorData> {
        let numel = shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
        if numel != Some(values.len()) {
            let message = format!(
                "data: the values must fill the shape, got {} values for shape {shape:?}",
                values.len()
            );
            return Err(Error::shape(message));
        }
        Ok(TensorData { shape: shape.to_vec(), values })
    }

    /// Returns the shape.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the values, row-major.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// Returns the values without the shape.
    pub fn into_values(self) -> Values {
        self.values
    }
}

impl Device {
    /// Creates a tensor from data.
    ///
    /// # Errors
    /// The errors of [`Device::tensor`].
    pub fn tensor_from_data(&self, data: &TensorData) -> Result<Tensor> {
        match &data.values {
            Values::F32(values) => self.tensor(values, &data.shape),
            Values::F16(values) => self.tensor(values, &data.shape),
            Values::I32(values) => self.tensor(values, &data.shape),
            Values::U32(values) => self.tensor(values, &data.shape),
            Values::Bool(values) => self.tensor(values, &data.shape),
            Values::I8(values) => self.tensor(values, &data.shape),
            Values::U8(values) => self.tensor(values, &data.shape),
            Values::I16(values) => self.tensor(values, &data.shape),
            Values::U16(values) => self.tensor(values, &data.shape),
        }
    }
}

impl Tensor {
    /// Reads shape, type and values to the host.
    ///
    /// # Errors
    /// The errors of [`Tensor::read`].
    pub fn to_data(&self) -> impl Future<Output = Result<TensorData>> + 'static + use<> {
        let (shape, dtype, read) = (self.shape().to_vec(), self.dtype(), self.read_bytes());
        async move {
            let bytes = read.await?;
            let values = match dtype {
                DType::F32 => Values::F32(decoded(dtype, &bytes)?),
                DType::F16 => Values::F16(decoded(dtype, &bytes)?),
                DType::I32 => Values::I32(decoded(dtype, &bytes)?),
                DType::U32 => Values::U32(decoded(dtype, &bytes)?),
                DType::Bool => Values::Bool(decoded(dtype, &bytes)?),
                DType::I8 => Values::I8(decoded(dtype, &bytes)?),
                DType::U8 => Values::U8(decoded(dtype, &bytes)?),
                DType::I16 => Values::I16(decoded(dtype, &bytes)?),
                DType::U16 => Values::U16(decoded(dtype, &bytes)?),
            };
            TensorData::new(&shape, values)
        }
    }
}

/// Decodes stored bytes to values.
fn decoded<T: Element>(dtype: DType, bytes: &[u8]) -> Result<Vec<T>> {
    let mut values = try_vec("to_data", bytes.len() / dtype.size())?;
    match T::from_bytes(dtype, bytes, &mut values) {
        true => Ok(values),
        false => Err(Error::dtype(format!(
            "to_data: the type must be that of the tensor, {dtype}, got {}",
            T::DTYPE
        ))),
    }
}
