//! Computing on the wgpu device of an app. The app and tensors share buffers without copies.
//!
//! ```
//! use warpweft::interop::wgpu;
//! # pollster::block_on(async {
//! // The app has a device...
//! let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
//! # let adapter = instance.request_adapter(&Default::default()).await;
//! # let Ok(adapter) = adapter else { return Ok(()) };
//! # /*
//! let adapter = instance.request_adapter(&Default::default()).await?;
//! # */
//! let (gpu, queue) = adapter.request_device(&Default::default()).await.expect("it opens");
//! // ... which also holds tensors.
//! let device = warpweft::device::Device::from_wgpu(&adapter, gpu.clone(), queue.clone())?;
//! let heights = device.linspace(0.0, 1.0, 256)?.mul(6.0)?.sin();
//! let buffer = heights.wgpu_buffer()?;
//! // The app's shaders read the result. No byte was copied, and nothing waited.
//! let mut encoder = gpu.create_command_encoder(&Default::default());
//! # let vertices = gpu.create_buffer(&wgpu::BufferDescriptor {
//! #     label: None, size: 1024, usage: wgpu::BufferUsages::COPY_DST, mapped_at_creation: false,
//! # });
//! encoder.copy_buffer_to_buffer(&buffer, 0, &vertices, 0, buffer.byte_len());
//! queue.submit([encoder.finish()]);
//! # // Some drivers crash where a program ends while they work.
//! # gpu.poll(wgpu::PollType::wait_indefinitely()).expect("it ends");
//! # Ok::<(), warpweft::error::Error>(())
//! # }).unwrap();
//! ```
//!
//! [`wgpu`] is re-exported here. A new major version of wgpu is a new major version of this crate.
//!
//! # Ownership
//! The library never destroys the app's device or buffers. It uses a buffer only for the tensor that was made from it, and
//! holds the buffer as long as this tensor.
//!
//! The app's callbacks for uncaught errors and for a lost device stay in place, because the library's calls are inside separate
//! error scopes. Natively, a thread polls the device while a future is awaited, so the app's callbacks may run on that thread.
//!
//! # Order
//! The work of the app and of tensors runs in the order of submission. Operations on tensors are submitted by a read, by
//! [`Device::submit`] or by [`Tensor::wgpu_buffer`]. Work that the app submits later sees their results.

pub use ::wgpu;

use crate::backend::wgpu::WgpuBackend;
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::shape::Shape;
use crate::tensor::Tensor;
use std::fmt;
use std::ops::Deref;
use wgpu::BufferUsages;

impl Device {
    /// Opens a device on an app's wgpu device, with the features and limits that the app requested. Kernels are faster with the
    /// features `SHADER_F16` and `SUBGROUP`, and with the adapter's limits of storage buffers and buffer sizes. The app may
    /// continue to use its device and queue.
    ///
    /// # Errors
    /// `NoDevice` if the device cannot compute or is not of that adapter. `Limit` if it was opened with lower limits than
    /// needed; the message has them.
    pub fn from_wgpu(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Result<Device> {
        let backend = WgpuBackend::lent(adapter, device, queue)?;
        Ok(Device::from_backend(Box::new(backend), None))
    }

    /// Makes a tensor from the beginning of an app's buffer, without copying. Elements are row-major. `bool` is `u32`, 0 or 1.
    ///
    /// The buffer needs the usages `STORAGE` and `COPY_SRC`. Its size must be at least that of the tensor, rounded up to a
    /// multiple of 16 bytes, because kernels read whole vectors.
    ///
    /// The library assumes that a tensor does not change, and may compute with it early, late or again. Before the app writes
    /// to the buffer, run everything that needs the old contents. Then call this method again, which costs almost nothing, and
    /// assign the new tensor to a [`Variable`](crate::tensor::Variable).
    ///
    /// The buffer must be of the same [`wgpu::Instance`] as the device. With a buffer of another instance, wgpu panics or uses
    /// another buffer.
    ///
    /// # Errors
    /// `InvalidArgument` if the buffer is too small, lacks a usage, was destroyed or belongs to another device. In a browser,
    /// the last two are errors of the next read. `Unsupported` if this device is not a GPU, or has no `f16`. `Shape`, `Limit`.
    ///
    /// ```
    /// # use warpweft::{dtype::DType, interop::wgpu, tensor::Variable};
    /// # pollster::block_on(async {
    /// # let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    /// # let Ok(adapter) = instance.request_adapter(&Default::default()).await else { return Ok(()) };
    /// # let (gpu, queue) = adapter.request_device(&Default::default()).await.expect("it opens");
    /// # let device = warpweft::device::Device::from_wgpu(&adapter, gpu.clone(), queue.clone())?;
    /// let places = gpu.create_buffer(&wgpu::BufferDescriptor {
    ///     label: None,
    ///     size: 16,
    ///     usage: wgpu::BufferUsages::STORAGE | wgpu::BufferUsages::COPY_SRC | wgpu::BufferUsages::COPY_DST,
    ///     mapped_at_creation: false,
    /// });
    /// let tensor = || device.tensor_from_wgpu(&places, DType::U32, &[2, 2]);
    /// let seen = Variable::new(&tensor()?);
    /// queue.write_buffer(&places, 0, &[1; 16]); // The app writes to the buffer.
    /// seen.assign(&tensor()?)?;                 // The variable takes the new contents.
    /// assert_eq!(seen.value().max(&[])?.item::<u32>().await?, 0x01010101);
    /// # Ok::<(), warpweft::error::Error>(())
    /// # }).unwrap();
    /// ```
    pub fn tensor_from_wgpu(
        &self,
        buffer: &wgpu::Buffer,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor> {
        let name = "tensor_from_wgpu";
        let backend = gpu(self, name)?;
        let shape = Shape::new(name, shape)?;
        let needed = [(BufferUsages::STORAGE, "STORAGE"), (BufferUsages::COPY_SRC, "COPY_SRC")];
        if let Some((_, lacks)) = needed.iter().find(|(usage, _)| !buffer.usage().contains(*usage))
        {
            let usage = buffer.usage();
            let message = format!("{name}: the buffer must have the usage {lacks}, got {usage:?}");
            return Err(Error::argument(message));
        }
        let needed = (shape.numel() as u64 * dtype.size() as u64).max(1).next_multiple_of(16);
        if buffer.size() < needed {
            let message = format!(
                "{name}: the buffer must have at least {needed} bytes, in a multiple of 16, for {shape} of {dtype}, got {}",
                buffer.size()
            );
            return Err(Error::argument(message));
        }
        let node = self.source_in(name, (shape, dtype), || backend.take(buffer))?;
        Ok(Tensor::adopt(self, node))
    }
}

impl Tensor {
    /// Returns the buffer of the tensor, which shaders of the app may read. After [`Device::from_wgpu`], it is a buffer of the
    /// app's [`wgpu::Device`]. All work for the tensor is submitted, so later submissions see its values. Nothing waits.
    /// Elements are row-major without gaps. `bool` is a 32-bit 0 or 1.
    ///
    /// The buffer may be longer than the tensor. Do not write to it, because other tensors may be computed from it. It has the
    /// usages `STORAGE`, `COPY_SRC` and `COPY_DST`, or those of the app's buffer that the tensor was made from.
    ///
    /// # Errors
    /// `Unsupported` if the device is not a GPU. `Limit`, `Memory`. Errors of the device that are known already; in a browser,
    /// the next read returns the others.
    pub fn wgpu_buffer(&self) -> Result<WgpuBuffer> {
        let backend = gpu(self.device(), "wgpu_buffer")?;
        let id = self.device().buffer_of(self.node()?)?;
        Ok(WgpuBuffer { buffer: backend.show(id)?, tensor: self.clone() })
    }
}

/// Returns the GPU backend of a device.
fn gpu<'a>(device: &'a Device, name: &str) -> Result<&'a WgpuBackend> {
    device.backend().ok_or_else(|| {
        let message = format!("{name}: the device must be a GPU, got {}", device.info().name);
        Error::new(ErrorKind::Unsupported, message)
    })
}

/// The buffer of a tensor. It is not freed or reused until this value is dropped. `Deref` gives the [`wgpu::Buffer`].
#[derive(Clone)]
pub struct WgpuBuffer {
    buffer: wgpu::Buffer,
    tensor: Tensor,
}

impl WgpuBuffer {
    /// Returns the shape of the tensor.
    pub fn shape(&self) -> &[usize] {
        self.tensor.shape()
    }

    /// Returns the type of the elements.
    pub fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// Returns the size of the tensor in bytes. The tensor is at the beginning of the buffer.
    pub fn byte_len(&self) -> u64 {
        self.tensor.numel() as u64 * self.dtype().size() as u64
    }
}

impl Deref for WgpuBuffer {
    type Target = wgpu::Buffer;
    fn deref(&self) -> &wgpu::Buffer {
        &self.buffer
    }
}

impl fmt::Debug for WgpuBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WgpuBuffer({} bytes of {:?})", self.byte_len(), self.tensor)
    }
}
