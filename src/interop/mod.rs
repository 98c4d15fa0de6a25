//! An app's own GPU: its wgpu device, and buffers that the app and tensors share, without copies.
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
//! // ... on which tensors live, too.
//! let device = warpweft::device::Device::from_wgpu(&adapter, gpu.clone(), queue.clone())?;
//! let heights = device.linspace(0.0, 1.0, 256)?.mul(6.0)?.sin();
//! let buffer = heights.wgpu_buffer()?;
//! // The app's shaders read what was computed. No byte was copied, and nothing waited.
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
//! [`wgpu`] is re-exported here: its major version is part of this crate's.
//!
//! # Who owns what
//! What the app made stays the app's: neither its device nor its buffers are ever destroyed here, or used for anything but
//! the tensors that were made of them. A buffer is held as long as such a tensor is.
//!
//! What the app is told by wgpu stays as it is: the callbacks for errors that nobody caught and for the loss of the device
//! are not touched. Calls made here are inside error scopes of their own. Natively a thread polls the device while something
//! is awaited, so that callbacks of the app's may come on it.
//!
//! # Order
//! Work is done in the order in which it is submitted, the app's and that of tensors alike. Operations on tensors are
//! submitted where something is read, flushed or shown by [`Tensor::wgpu_buffer`]; what the app records then and submits
//! afterwards sees it.

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
    /// A device on the one that an app opened with wgpu. It has the features and limits that the app asked for: with
    /// `SHADER_F16` and `SUBGROUP` among the features, and with what the adapter has of storage buffers and their sizes,
    /// kernels do more at once. The app goes on using its device and queue, which outlive this one.
    ///
    /// # Errors
    /// `NoDevice` where the device cannot compute or is not of that adapter, `Limit` where it was opened with too little; the
    /// message says what is needed.
    pub fn from_wgpu(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Result<Device> {
        let backend = WgpuBackend::lent(adapter, device, queue)?;
        Ok(Device::from_backend(Box::new(backend), None))
    }

    /// A tensor of what lies in an app's buffer, from its beginning, row-major; `bool` as 32-bit 0 or 1. Nothing is copied.
    ///
    /// The buffer needs the usages `STORAGE` and `COPY_SRC`, and as many bytes as the tensor, rounded up to a multiple of 16:
    /// kernels read whole vectors.
    ///
    /// A tensor does not change, so what it is computed into may be computed early, late or again. Whoever writes to the
    /// buffer afterwards makes a tensor of it anew, which costs next to nothing, best as the value of a
    /// [`Variable`](crate::tensor::Variable); what the old one is needed for is run before.
    ///
    /// The buffer must be of the same [`wgpu::Instance`] as the device: wgpu takes those of others for its own or panics.
    ///
    /// # Errors
    /// `InvalidArgument` where the buffer is too small, lacks a usage, was destroyed or is another device's (in a browser
    /// reading tells of the last two); `Unsupported` where this device is no GPU, or has no `f16`; `Shape`, `Limit`.
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
    /// queue.write_buffer(&places, 0, &[1; 16]); // The app writes,
    /// seen.assign(&tensor()?)?;                 // and says so.
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
    /// The buffer that the tensor lies in, for shaders of the app's that read it: on the device's own [`wgpu::Device`], which
    /// is the app's after [`Device::from_wgpu`]. The tensor is computed if it was not, and all work for it submitted, so that
    /// what is submitted next sees it; nothing waits. Elements are row-major without gaps, `bool` as 32-bit 0 or 1.
    ///
    /// The buffer may be longer than the tensor, and is to be read alone: other tensors may be computed from it. It has the
    /// usages `STORAGE`, `COPY_SRC` and `COPY_DST`, or those of the app's own buffer that the tensor was made of.
    ///
    /// # Errors
    /// `Unsupported` where the device is no GPU; `Limit`, `Memory`; what went wrong on the device, as far as that is known:
    /// in a browser the next read tells of the rest.
    pub fn wgpu_buffer(&self) -> Result<WgpuBuffer> {
        let backend = gpu(self.device(), "wgpu_buffer")?;
        let id = self.device().buffer_of(self.node()?)?;
        Ok(WgpuBuffer { buffer: backend.show(id)?, tensor: self.clone() })
    }
}

/// The GPU that a device is.
fn gpu<'a>(device: &'a Device, name: &str) -> Result<&'a WgpuBackend> {
    device.backend().ok_or_else(|| {
        let message = format!("{name}: the device must be a GPU, got {}", device.info().name);
        Error::new(ErrorKind::Unsupported, message)
    })
}

/// The buffer that a tensor lies in, which stays there, and is used for nothing else, until this is dropped. It derefs to the
/// [`wgpu::Buffer`].
#[derive(Clone)]
pub struct WgpuBuffer {
    buffer: wgpu::Buffer,
    tensor: Tensor,
}

impl WgpuBuffer {
    /// The tensor's extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        self.tensor.shape()
    }

    /// The type of its elements.
    pub fn dtype(&self) -> DType {
        self.tensor.dtype()
    }

    /// Bytes of the buffer that are the tensor's, from its beginning.
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
