//! Reads one tensor or several tensors at once.

use super::Tensor;
use crate::device::{read_callback, Device, ReadRequest, Take};
use crate::dtype::{DType, Element};
use crate::error::{Error, Result};
use std::future::Future;

/// Appends the elements that the bytes represent.
fn elements<T: Element>(dtype: DType, bytes: &[u8], into: &mut Vec<T>) -> Result<()> {
    match T::from_bytes(dtype, bytes, into) {
        true => Ok(()),
        false => Err(Error::dtype(format!(
            "read: the type must be that of the tensor, {dtype}, got {}",
            T::DTYPE
        ))),
    }
}

/// Appends bytes as they are.
fn stored(_: DType, bytes: &[u8], into: &mut Vec<u8>) -> Result<()> {
    into.extend_from_slice(bytes);
    Ok(())
}

/// A tensor, the first element to read, and the number of elements.
type Part<'a> = (&'a Tensor, usize, usize);

/// All of a tensor.
fn whole(tensor: &Tensor) -> Part<'_> {
    (tensor, 0, tensor.numel())
}

/// Reads parts of tensors. The operations that they need are submitted as one batch before this returns. `append` turns
/// bytes into items, and `each` is the number of items per element, for the allocation.
fn begin<T: Send + 'static>(
    device: &Device,
    parts: &[Part<'_>],
    each: fn(DType) -> usize,
    append: fn(DType, &[u8], &mut Vec<T>) -> Result<()>,
) -> impl Future<Output = Result<Vec<Vec<T>>>> + 'static + use<T> {
    let begun = || {
        let (mut wanted, mut all) = (Vec::new(), Vec::new());
        for &(tensor, start, len) in parts {
            if !device.is_same(&tensor.device) {
                return Err(Error::wrong_device("read", "a tensor"));
            }
            let dtype = tensor.dtype;
            let count = len.saturating_mul(each(dtype));
            let (take, taken) = read_callback(count, move |bytes, into| append(dtype, bytes, into));
            wanted.push(tensor.wanted(start, len, take)?);
            all.push(taken);
        }
        Ok((device.read_nodes(wanted)?, all))
    };
    let begun = begun();
    async move {
        let (read, all) = begun?;
        read.await?;
        let mut results = Vec::with_capacity(all.len());
        for taken in all {
            results.push(taken.get()?);
        }
        Ok(results)
    }
}

/// Returns the only result of reading one part.
async fn only<T>(read: impl Future<Output = Result<Vec<Vec<T>>>>) -> Result<Vec<T>> {
    let all = read.await?;
    all.into_iter()
        .next()
        .ok_or_else(|| Error::state("read: the device must return a value, got none"))
}

impl Device {
    /// Reads all elements of several tensors of one type, row-major and in order.
    ///
    /// The tensors are computed as one batch and copied in one submission. A tensor that is listed twice is read twice.
    /// For tensors of different types, use [`Device::read_bytes`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0], &[3])?;
    /// let all = device.read::<f32>(&[&x.mul(2.0)?, &x.sum(&[])?]).await?;
    /// assert_eq!(all, [vec![2.0, 4.0, 6.0], vec![6.0]]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if a tensor is on another device; the errors of [`Tensor::read`].
    pub fn read<T: Element>(
        &self,
        tensors: &[&Tensor],
    ) -> impl Future<Output = Result<Vec<Vec<T>>>> + 'static + use<T> {
        let parts: Vec<Part<'_>> = tensors.iter().map(|tensor| whole(tensor)).collect();
        begin(self, &parts, |_| 1, elements)
    }

    /// Reads all elements of several tensors of any types, as the device stores them: little-endian, `bool` as 32-bit 0
    /// or 1.
    ///
    /// # Errors
    /// The errors of [`Device::read`].
    pub fn read_bytes(
        &self,
        tensors: &[&Tensor],
    ) -> impl Future<Output = Result<Vec<Vec<u8>>>> + 'static + use<> {
        let parts: Vec<Part<'_>> = tensors.iter().map(|tensor| whole(tensor)).collect();
        begin(self, &parts, DType::size, stored)
    }
}

impl Tensor {
    /// Reads all elements, row-major. The operations that the tensor needs are submitted as one batch before this
    /// returns, and the future waits for them.
    ///
    /// # Errors
    /// `DType` if `T` is not the tensor's type (`f16` reads as `f32`); `Memory` if the elements do not fit into memory;
    /// any error of the device.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, -2.0], &[2])?;
    /// let y: Vec<f32> = x.relu().read().await?;
    /// assert_eq!(y, [1.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn read<T: Element>(&self) -> impl Future<Output = Result<Vec<T>>> + 'static + use<T> {
        self.read_range(0, self.numel())
    }

    /// Reads `len` elements from the element `start` on, row-major.
    ///
    /// # Errors
    /// `Shape` if the range is not inside the tensor; the errors of [`Tensor::read`].
    pub fn read_range<T: Element>(
        &self,
        start: usize,
        len: usize,
    ) -> impl Future<Output = Result<Vec<T>>> + 'static + use<T> {
        only(begin(&self.device, &[(self, start, len)], |_| 1, elements))
    }

    /// Reads the only element of a tensor.
    ///
    /// # Errors
    /// `Shape` unless the tensor has exactly one element; the errors of [`Tensor::read`].
    pub fn item<T: Element>(&self) -> impl Future<Output = Result<T>> + 'static + use<T> {
        let shape = self.shape;
        let read = self.read::<T>();
        async move {
            match read.await?.as_slice() {
                [one] => Ok(*one),
                _ => Err(Error::shape(format!(
                    "item: the tensor must have one element, got shape {shape}"
                ))),
            }
        }
    }

    /// Reads the elements as the device stores them: little-endian, `bool` as 32-bit 0 or 1.
    ///
    /// # Errors
    /// The errors of [`Tensor::read`].
    pub fn read_bytes(&self) -> impl Future<Output = Result<Vec<u8>>> + 'static + use<> {
        self.read_bytes_range(0, self.numel())
    }

    /// Reads `len` elements from the element `start` on, as the device stores them.
    ///
    /// # Errors
    /// The errors of [`Tensor::read_range`].
    pub fn read_bytes_range(
        &self,
        start: usize,
        len: usize,
    ) -> impl Future<Output = Result<Vec<u8>>> + 'static + use<> {
        only(begin(&self.device, &[(self, start, len)], DType::size, stored))
    }

    /// Returns a request for a range of elements, whose bytes are passed to `take`.
    pub(crate) fn wanted(&self, start: usize, len: usize, take: Take) -> Result<ReadRequest> {
        if start.checked_add(len).is_none_or(|end| end > self.numel()) {
            let shape = &self.shape;
            let message = format!(
                "read: the range must be inside shape {shape}, got {len} elements from {start} on"
            );
            return Err(Error::shape(message));
        }
        Ok(ReadRequest { node: self.node()?, start, len, take })
    }
}
