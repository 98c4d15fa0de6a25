//! The GPU of a rank: its primary context, a stream, and the device memory through which data passes.

use super::api::Cuda;
use super::PIECE_BYTES;
use crate::cuda::driver::api::SUCCESS;
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::sys::{CUcontext, CUdevice, CUresult, CUstream, CUstream_flags};
use std::ptr::null_mut;

const NOT_READY: u32 = CUresult::CUDA_ERROR_NOT_READY as u32;
const OUT_OF_MEMORY: u32 = CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;

/// A number whose bytes are copied as they are.
pub trait Plain: Copy {}

impl Plain for f32 {}
impl Plain for u8 {}

/// The primary context of a GPU, a stream in it, and a buffer.
pub struct Gpu {
    cuda: &'static Cuda,
    /// The rank, for errors.
    who: String,
    device: CUdevice,
    context: CUcontext,
    stream: CUstream,
    address: u64,
    bytes: usize,
}

// SAFETY: the driver's handles may be used in all threads, and each call makes the context current in its thread.
unsafe impl Send for Gpu {}

impl Gpu {
    /// Opens the GPU of a number of the driver. `who` names the rank.
    ///
    /// # Errors
    /// `NoDevice` if the driver has fewer GPUs. `Memory` or `InvalidState` if a call fails.
    pub fn open(cuda: &'static Cuda, ordinal: usize, who: String) -> Result<Gpu> {
        let (context, stream) = (null_mut(), null_mut());
        let mut gpu = Gpu { cuda, who, device: 0, context, stream, address: 0, bytes: 0 };
        let mut count = 0;
        // SAFETY: the pointer is valid, and the driver was started.
        gpu.outcome("cuDeviceGetCount", unsafe { (cuda.cuDeviceGetCount)(&mut count) })?;
        let number =
            i32::try_from(ordinal).ok().filter(|number| *number < count).ok_or_else(|| {
                let message =
                    format!("nccl: the GPU of {} must be below {count}, got {ordinal}", gpu.who);
                Error::new(ErrorKind::NoDevice, message)
            })?;
        // SAFETY: the driver has a device of this number, and the pointer is valid.
        let code = unsafe { (cuda.cuDeviceGet)(&mut gpu.device, number) };
        gpu.outcome("cuDeviceGet", code)?;
        // SAFETY: the pointer is valid, and the device is one of the driver.
        let code = unsafe { (cuda.cuDevicePrimaryCtxRetain)(&mut gpu.context, gpu.device) };
        let retained = gpu.outcome("cuDevicePrimaryCtxRetain", code);
        if retained.is_err() {
            gpu.context = null_mut();
        }
        retained?;
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        let mut stream = null_mut();
        // SAFETY: the pointer is valid.
        gpu.call("cuStreamCreate", |cuda| unsafe { (cuda.cuStreamCreate)(&mut stream, flags) })?;
        gpu.stream = stream;
        Ok(gpu)
    }

    /// Returns the stream.
    pub fn stream(&self) -> CUstream {
        self.stream
    }

    /// Makes calls while the context is current in this thread.
    ///
    /// # Errors
    /// `InvalidState` if the context cannot be made current.
    pub fn within<T>(&self, calls: impl FnOnce() -> T) -> Result<T> {
        // SAFETY: the context was retained.
        let pushed = unsafe { (self.cuda.cuCtxPushCurrent_v2)(self.context) };
        self.outcome("cuCtxPushCurrent", pushed)?;
        let result = calls();
        // SAFETY: the context was pushed above. The thread's earlier context is current again.
        let popped = unsafe { (self.cuda.cuCtxPopCurrent_v2)(&mut null_mut()) };
        self.outcome("cuCtxPopCurrent", popped)?;
        Ok(result)
    }

    fn call(&self, name: &str, call: impl FnOnce(&Cuda) -> u32) -> Result<()> {
        let code = self.within(|| call(self.cuda))?;
        self.outcome(name, code)
    }

    fn outcome(&self, name: &str, code: u32) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        let kind = match code {
            OUT_OF_MEMORY => ErrorKind::Memory,
            _ => ErrorKind::InvalidState,
        };
        let (who, got) = (&self.who, self.cuda.name(code));
        Err(Error::new(kind, format!("nccl: {name} must succeed on {who}, got {got}")))
    }

    /// Returns the address of a buffer of at least as many bytes. It grows up to the bytes of a piece. Its contents are lost
    /// when it grows. The stream must be idle.
    ///
    /// # Errors
    /// `Memory`, or `InvalidState` if a call fails.
    pub fn buffer(&mut self, bytes: usize) -> Result<u64> {
        assert!(bytes <= PIECE_BYTES, "a piece fits");
        if bytes > self.bytes {
            self.free()?;
            let (mut address, bytes) = (0, bytes.next_power_of_two());
            // SAFETY: the pointer is valid.
            self.call("cuMemAlloc", |cuda| unsafe { (cuda.cuMemAlloc_v2)(&mut address, bytes) })?;
            (self.address, self.bytes) = (address, bytes);
        }
        Ok(self.address)
    }

    fn free(&mut self) -> Result<()> {
        let address = std::mem::take(&mut self.address);
        if std::mem::take(&mut self.bytes) == 0 {
            return Ok(());
        }
        // SAFETY: the memory was allocated by `buffer`, and is freed once.
        self.call("cuMemFree", |cuda| unsafe { (cuda.cuMemFree_v2)(address) })
    }

    /// Copies values to the buffer, from `offset` bytes on, and waits.
    ///
    /// # Errors
    /// `InvalidState` if a call fails.
    pub fn upload<T: Plain>(&self, offset: usize, values: &[T]) -> Result<()> {
        let (bytes, stream) = (size_of_val(values), self.stream);
        assert!(offset + bytes <= self.bytes, "the values fit into the buffer");
        let (to, from) = (self.address + offset as u64, values.as_ptr().cast());
        self.call("cuMemcpyHtoDAsync", |cuda| {
            // SAFETY: the range is in the buffer, and the values are borrowed until the copy is done, below.
            unsafe { (cuda.cuMemcpyHtoDAsync_v2)(to, from, bytes, stream) }
        })?;
        self.synchronize()
    }

    /// Copies values from the buffer, from `offset` bytes on, and waits.
    ///
    /// # Errors
    /// `InvalidState` if a call fails.
    pub fn download<T: Plain>(&self, offset: usize, values: &mut [T]) -> Result<()> {
        let (bytes, stream) = (size_of_val(values), self.stream);
        assert!(offset + bytes <= self.bytes, "the values are in the buffer");
        let (to, from) = (values.as_mut_ptr().cast(), self.address + offset as u64);
        self.call("cuMemcpyDtoHAsync", |cuda| {
            // SAFETY: the range is in the buffer, and the values are borrowed until the copy is done, below. All bytes are
            // numbers.
            unsafe { (cuda.cuMemcpyDtoHAsync_v2)(to, from, bytes, stream) }
        })?;
        self.synchronize()
    }

    /// Waits for copies. The stream has no other work, so no other rank is waited for.
    fn synchronize(&self) -> Result<()> {
        let stream = self.stream;
        // SAFETY: the stream is that of the context.
        self.call("cuStreamSynchronize", |cuda| unsafe { (cuda.cuStreamSynchronize)(stream) })
    }

    /// Whether the work of the stream is done.
    ///
    /// # Errors
    /// `InvalidState` if the work failed.
    pub fn is_idle(&self) -> Result<bool> {
        // SAFETY: the stream is that of the context.
        match self.within(|| unsafe { self.cuda.query(self.stream) })? {
            NOT_READY => Ok(false),
            code => self.outcome("cuStreamQuery", code).map(|()| true),
        }
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if self.context.is_null() {
            return;
        }
        // Errors of earlier work have been returned.
        self.free().ok();
        if !self.stream.is_null() {
            let stream = self.stream;
            // SAFETY: nothing uses the stream any more.
            self.call("cuStreamDestroy", |cuda| unsafe { (cuda.cuStreamDestroy_v2)(stream) }).ok();
        }
        // SAFETY: the context was retained once.
        unsafe { (self.cuda.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}
