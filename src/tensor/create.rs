//! Tensors from data and from nothing.

use super::pointwise::number_bits;
use super::{within, Tensor};
use crate::device::Device;
use crate::dtype::{f16_to_f32, f32_to_f16, DType, Element};
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Const, Op};
use crate::shape::Shape;

impl Device {
    /// A tensor of these elements, row-major in `shape`.
    ///
    /// # Errors
    /// `Shape` if their number is not the shape's; `Memory`, `Limit`.
    pub fn tensor<T: Element>(&self, data: &[T], shape: &[usize]) -> Result<Tensor> {
        self.tensor_from_bytes(T::DTYPE, &T::to_bytes(data), shape)
    }

    /// A tensor of elements as devices store them: little-endian, `bool` as 32-bit 0 or 1.
    ///
    /// # Errors
    /// As [`Device::tensor`].
    pub fn tensor_from_bytes(&self, dtype: DType, data: &[u8], shape: &[usize]) -> Result<Tensor> {
        let shape = Shape::new("tensor", shape)?;
        if data.len() as u64 != shape.numel() as u64 * dtype.size() as u64 {
            let (have, want) = (data.len() / dtype.size(), shape.numel());
            let message = format!("tensor: {have} elements for shape {shape} of {want}");
            return Err(Error::shape(message));
        }
        Ok(Tensor::adopt(self, self.upload(shape, dtype, data)?))
    }

    fn made(&self, op: Op) -> Result<Tensor> {
        Ok(Tensor::adopt(self, self.record(op, &[])?))
    }

    /// `value` everywhere. The value is part of the program; it is exact for integers up to 2^53.
    ///
    /// # Errors
    /// `Shape`, `Limit`; `DType` for a value that an integer or `bool` cannot hold; `Unsupported` for `f16` on a device
    /// without it.
    pub fn full(&self, dtype: DType, value: f64, shape: &[usize]) -> Result<Tensor> {
        let mut bits = number_bits("full", dtype, value)?;
        if dtype == DType::F16 {
            if !self.limits().f16 {
                let message = format!("full: {} has no f16", self.info().name);
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            bits = f16_to_f32(f32_to_f16(value as f32)).to_bits();
        }
        self.made(Op::Fill { shape: Shape::new("full", shape)?, value: Const { dtype, bits } })
    }

    /// Zeros of type `f32`.
    ///
    /// # Errors
    /// As [`Device::full`].
    pub fn zeros(&self, shape: &[usize]) -> Result<Tensor> {
        within("zeros", || self.full(DType::F32, 0.0, shape))
    }

    /// Ones of type `f32`.
    ///
    /// # Errors
    /// As [`Device::full`].
    pub fn ones(&self, shape: &[usize]) -> Result<Tensor> {
        within("ones", || self.full(DType::F32, 1.0, shape))
    }

    /// The coordinate along `axis`, as `i32`, everywhere in `shape`.
    ///
    /// # Errors
    /// `Shape`, `Limit`.
    pub fn iota(&self, shape: &[usize], axis: isize) -> Result<Tensor> {
        let shape = Shape::new("iota", shape)?;
        let axis = shape.axis("iota", axis)?;
        self.made(Op::Iota { shape, axis })
    }

    /// `start + i * step` for i in 0..count, as `f32`.
    ///
    /// # Errors
    /// `Limit`.
    pub fn arange(&self, start: f64, step: f64, count: usize) -> Result<Tensor> {
        within("arange", || self.iota(&[count], 0)?.cast(DType::F32)?.mul(step)?.add(start))
    }

    /// `count` evenly spaced `f32` values from `start` to `stop`, both included.
    ///
    /// # Errors
    /// `Limit`.
    pub fn linspace(&self, start: f64, stop: f64, count: usize) -> Result<Tensor> {
        let steps = count.saturating_sub(1).max(1) as f64;
        within("linspace", || {
            let at = self.iota(&[count], 0)?.cast(DType::F32)?.div(steps)?;
            // From both ends, so that both are exact.
            at.mul(stop)?.add(&at.mul(-1.0)?.add(1.0)?.mul(start)?)
        })
    }

    /// The `n` by `n` identity matrix, `f32`.
    ///
    /// # Errors
    /// `Limit`.
    pub fn eye(&self, n: usize) -> Result<Tensor> {
        within("eye", || {
            let rows = self.iota(&[n, n], 0)?;
            rows.eq(&self.iota(&[n, n], 1)?)?.cast(DType::F32)
        })
    }
}
