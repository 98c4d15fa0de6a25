//! Creates tensors from data, from one value and from ranges.

use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Const, Op};
use crate::shape::Shape;
use crate::tensor::{number_bits, with_op_name, Tensor, TensorSpec};
use std::borrow::Borrow;

fn no_memory(elements: usize) -> Error {
    Error::new(
        ErrorKind::Memory,
        format!("tensor: the elements must fit into memory, got {elements}"),
    )
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Device {
    /// Creates a tensor of these elements, row-major in `shape`.
    ///
    /// # Errors
    /// `Shape` if the number of elements is not that of the shape; `Memory`; `Limit`.
    #[cfg_attr(feature = "js", js(skip))]
    pub fn tensor<T: Element>(&self, data: &[T], shape: &[usize]) -> Result<Tensor> {
        let bytes = T::to_bytes(data).ok_or_else(|| no_memory(data.len()))?;
        self.tensor_from_bytes(&bytes, shape, T::DTYPE)
    }

    /// Creates a tensor from bytes as devices store them: little-endian, `bool` as 32 bits, true unless all are 0.
    ///
    /// # Errors
    /// The errors of [`Device::tensor`].
    #[cfg_attr(feature = "js", js(skip))]
    pub fn tensor_from_bytes(&self, data: &[u8], shape: &[usize], dtype: DType) -> Result<Tensor> {
        let shape = Shape::new("tensor", shape)?;
        if data.len() as u64 != shape.numel() as u64 * dtype.size() as u64 {
            let (want, have) = (shape.numel(), data.len() / dtype.size());
            let rest = match data.len() % dtype.size() {
                0 => String::new(),
                bytes => format!(" and {bytes} bytes"),
            };
            let message = format!(
                "tensor: the data must have {want} elements for shape {shape}, got {have}{rest}"
            );
            return Err(Error::shape(message));
        }
        let node = match dtype {
            DType::Bool => {
                let (mut truths, count) = (Vec::new(), shape.numel());
                truths.try_reserve_exact(count).map_err(|_| no_memory(count))?;
                truths.extend(data.chunks_exact(4).map(|word| word != [0; 4]));
                let bytes = bool::to_bytes(&truths).ok_or_else(|| no_memory(count))?;
                self.upload(shape, dtype, &bytes)?
            }
            _ => self.upload(shape, dtype, data)?,
        };
        Ok(Tensor::adopt(self, node))
    }

    fn record_source(&self, op: Op) -> Result<Tensor> {
        Ok(Tensor::adopt(self, self.record(op, &[])?))
    }

    /// Creates a tensor with `value` in all elements, exact for integers up to 2^53. The value is data, so another value
    /// reuses the plan.
    ///
    /// # Errors
    /// `Shape`; `Limit`; `DType` if an integer or `bool` cannot represent the value; `Unsupported` for `f16` on a device
    /// without it.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType};
    /// let device = Device::with(Preference::Cpu).await?;
    /// assert_eq!(device.full(&[3], 7.0, DType::I32)?.read::<i32>().await?, [7, 7, 7]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(skip))]
    pub fn full(&self, shape: &[usize], value: f64, dtype: DType) -> Result<Tensor> {
        let Const { bits, .. } = self.element(value, dtype)?;
        let number = Tensor::adopt(self, self.scalar(dtype, bits));
        number.apply(Op::Expand(Shape::new("full", shape)?), &[])
    }

    /// Creates a tensor of equal elements. The value is part of the structure of the plan.
    pub(super) fn constant(&self, shape: &[usize], value: f64, dtype: DType) -> Result<Tensor> {
        let value = self.element(value, dtype)?;
        self.record_source(Op::Fill { shape: Shape::new("full", shape)?, value })
    }

    /// Converts a number to an element of the type.
    fn element(&self, value: f64, dtype: DType) -> Result<Const> {
        let name = "full";
        let bits = number_bits(name, dtype, value)?;
        if dtype == DType::F16 && !self.limits().f16 {
            let message = format!("{name}: the device must have f16, got {}", self.info().name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        Ok(Const { dtype, bits })
    }

    /// Creates zeros of type `f32`, or of the type given with the shape.
    ///
    /// # Errors
    /// `Shape`; `Limit`; `Unsupported` for `f16` on a device without it.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType};
    /// let device = Device::with(Preference::Cpu).await?;
    /// assert_eq!(device.zeros(&[2])?.read::<f32>().await?, [0.0, 0.0]);
    /// assert_eq!(device.zeros((&[2], DType::I32))?.read::<i32>().await?, [0, 0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn zeros(&self, shape: impl Into<TensorSpec>) -> Result<Tensor> {
        let TensorSpec { dims, dtype } = shape.into();
        with_op_name("zeros", || self.constant(&dims, 0.0, dtype))
    }

    /// Creates ones of type `f32`, or of the type given with the shape.
    ///
    /// # Errors
    /// The errors of [`Device::zeros`].
    pub fn ones(&self, shape: impl Into<TensorSpec>) -> Result<Tensor> {
        let TensorSpec { dims, dtype } = shape.into();
        with_op_name("ones", || self.constant(&dims, 1.0, dtype))
    }

    /// Creates a tensor in which each element is its coordinate along `axis`, as `i32`.
    ///
    /// # Errors
    /// `Shape`; `Limit`.
    #[cfg_attr(feature = "js", js(dtype = I32))]
    pub fn iota(&self, shape: &[usize], axis: isize) -> Result<Tensor> {
        let shape = Shape::new("iota", shape)?;
        let axis = shape.axis("iota", axis)?;
        self.record_source(Op::Iota { shape, axis })
    }

    /// Creates the whole numbers from 0 up to, but not including, `end`, as `f32`.
    ///
    /// # Errors
    /// `Limit`; `InvalidArgument` unless `end` is finite.
    #[cfg_attr(feature = "js", js(skip))]
    pub fn arange(&self, end: f64) -> Result<Tensor> {
        self.arange_of(0.0, end, 1.0, DType::F32)
    }

    /// Creates the numbers `start + i * step` up to, but not including, `end`, as `f32`. A negative `step` counts down.
    ///
    /// # Errors
    /// `Limit`; `InvalidArgument` unless all are finite and the step is not 0.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.arange_step(1.0, 2.0, 0.25)?;
    /// assert_eq!(x.read::<f32>().await?, [1.0, 1.25, 1.5, 1.75]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(skip))]
    pub fn arange_step(&self, start: f64, end: f64, step: f64) -> Result<Tensor> {
        self.arange_of(start, end, step, DType::F32)
    }

    /// Creates a range like [`Device::arange_step`], of any numeric type. Integers are exact.
    pub(crate) fn arange_of(
        &self,
        start: f64,
        end: f64,
        step: f64,
        dtype: DType,
    ) -> Result<Tensor> {
        let count = ((end - start) / step).ceil().max(0.0);
        if !(start.is_finite() && end.is_finite() && step.is_finite()) || step == 0.0 {
            let message = format!("arange: start, end and step must be finite, and step not 0, got {start}, {end} and {step}");
            return Err(Error::argument(message));
        }
        with_op_name("arange", || {
            let position = self.iota(&[count as usize], 0)?.cast(dtype)?;
            if dtype.is_int() {
                // Integers wrap around, so a negative step also works for unsigned types.
                number_bits("arange", dtype, step.abs())?;
                let node = self.scalar(dtype, step as i64 as u32);
                return position.mul(Tensor::adopt(self, node))?.add(start);
            }
            position.mul(step)?.add(start)
        })
    }

    /// Creates `count` evenly spaced values from `start` to `stop`, including both. The type is `f32`, or the one given
    /// with the count.
    ///
    /// # Errors
    /// `Limit`; `Shape` if the count is not one number; `Unsupported` for `f16` on a device without it.
    pub fn linspace(&self, start: f64, stop: f64, count: impl Into<TensorSpec>) -> Result<Tensor> {
        let TensorSpec { dims, dtype } = count.into();
        let &[count] = &dims[..] else {
            return Err(Error::wrong_shape("linspace", "the shape must have one axis", &dims));
        };
        let steps = count.saturating_sub(1).max(1) as f64;
        with_op_name("linspace", || {
            let at = self.iota(&[count], 0)?.cast(DType::F32)?.div(steps)?;
            // Interpolates from both ends, so that both are exact.
            at.mul(stop)?.add(&at.mul(-1.0)?.add(1.0)?.mul(start)?)?.cast(dtype)
        })
    }

    /// Creates the identity matrix. One number is the size of a square matrix, and two are the numbers of rows and
    /// columns. The type is `f32`, or the one given with the size.
    ///
    /// # Errors
    /// `Limit`; `Shape` for other numbers of extents; `Unsupported` for `f16` on a device without it.
    pub fn eye(&self, size: impl Into<TensorSpec>) -> Result<Tensor> {
        let TensorSpec { dims, dtype } = size.into();
        let shape = match dims[..] {
            [n] => [n, n],
            [rows, columns] => [rows, columns],
            _ => {
                return Err(Error::wrong_shape("eye", "the shape must have one axis or two", &dims))
            }
        };
        with_op_name("eye", || self.iota(&shape, 0)?.eq(self.iota(&shape, 1)?)?.cast(dtype))
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns zeros of this shape and type.
    pub fn zeros_like(&self) -> Tensor {
        self.full_like_named("zeros_like", 0.0).unwrap_or_else(|error| Tensor::failed(self, error))
    }

    /// Returns ones of this shape and type.
    pub fn ones_like(&self) -> Tensor {
        self.full_like_named("ones_like", 1.0).unwrap_or_else(|error| Tensor::failed(self, error))
    }

    /// Returns a tensor of this shape and type with `value` in all elements.
    ///
    /// # Errors
    /// `DType` if an integer or `bool` cannot represent the value.
    pub fn full_like(&self, value: f64) -> Result<Tensor> {
        self.node()?;
        with_op_name("full_like", || self.device.full(&self.shape, value, self.dtype))
    }

    pub(in crate::tensor) fn full_like_named(&self, name: &str, value: f64) -> Result<Tensor> {
        self.node()?;
        with_op_name(name, || self.device.constant(&self.shape, value, self.dtype))
    }

    /// Returns the coordinates of the points of a grid, from vectors of coordinates along its axes.
    ///
    /// The result has one tensor for each axis, and each has the shape of the grid. The first vector varies along the
    /// first axis (`indexing="ij"` in NumPy and PyTorch).
    ///
    /// # Errors
    /// `Shape` unless all have rank 1, or for more than 8 vectors; `Limit`.
    #[cfg_attr(feature = "js", js(returns = "Tensor<T>[]"))]
    pub fn meshgrid<T: Borrow<Tensor>>(tensors: &[T]) -> Result<Vec<Tensor>> {
        let name = "meshgrid";
        let all: Vec<&Tensor> = tensors.iter().map(Borrow::borrow).collect();
        if let Some(other) = all.iter().find(|tensor| tensor.rank() != 1) {
            let message = format!("{name}: the input must be a vector, got shape {}", other.shape);
            return Err(Error::shape(message));
        }
        let dims: Vec<usize> = all.iter().map(|tensor| tensor.numel()).collect();
        let spread = |(axis, tensor): (usize, &&Tensor)| {
            let mut own = vec![1; dims.len()];
            own[axis] = dims[axis];
            with_op_name(name, || tensor.reshape(&own)?.expand(&dims))
        };
        all.iter().enumerate().map(spread).collect()
    }
}
