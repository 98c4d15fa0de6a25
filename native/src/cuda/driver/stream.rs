//! The stream of a GPU, on NVIDIA's driver.

use super::context::Context;
use super::events::Timestamps;
use super::kernel_cache::KernelCache;
use super::module::Function;
use super::staging::{Download, Downloads, Uploads};
use crate::cuda::ptx;
use crate::cuda::{Launch, Stream};
use crate::error::Result;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

/// A stream on a GPU of NVIDIA.
pub struct DriverStream {
    context: Arc<Context>,
    uploads: Uploads,
    downloads: Arc<Downloads>,
    timestamps: Timestamps,
    /// The compiled kernels on disk, if they are stored.
    cache: Option<KernelCache>,
}

impl DriverStream {
    /// Creates a stream in a context.
    pub fn new(context: Context, cache: Option<KernelCache>) -> DriverStream {
        let (uploads, downloads, timestamps) = Default::default();
        DriverStream { context: Arc::new(context), uploads, downloads, timestamps, cache }
    }
}

impl Stream for DriverStream {
    type Function = Function;
    type Download = Download;

    fn allocate(&self, bytes: u64) -> Result<u64> {
        self.context.allocate(bytes)
    }

    fn free(&self, address: u64) {
        self.context.free(address);
    }

    fn write(&self, address: u64, data: &[u8]) -> Result<()> {
        self.uploads.write(&self.context, address, data)
    }

    fn read(&self, address: u64, len: usize) -> Result<Download> {
        self.downloads.read(&self.context, address, len)
    }

    fn finish(&self, download: Download) -> Result<Vec<u8>> {
        download.finish()
    }

    fn load(&self, kernel: &ptx::Kernel) -> Result<Function> {
        if let Some(cubin) = self.cache.as_ref().and_then(|cache| cache.load(&kernel.ptx)) {
            // The driver may refuse a cubin that another driver has written. It is compiled again then.
            if let Ok(function) = Function::load(&self.context, &cubin, kernel) {
                return Ok(function);
            }
        }
        let cubin = super::module::compile(&self.context, &kernel.ptx)?;
        let function = Function::load(&self.context, &cubin, kernel)?;
        if let Some(cache) = &self.cache {
            cache.store(&kernel.ptx, &cubin);
        }
        Ok(function)
    }

    fn launch(&self, function: &Function, launch: &Launch) -> Result<()> {
        let bindings = launch.bindings.iter();
        let mut values: Vec<u64> = bindings.flat_map(|&(address, len)| [address, len]).collect();
        let parameters = values.iter_mut().map(|value| (&raw mut *value).cast::<c_void>());
        let mut parameters: Vec<*mut c_void> = parameters.collect();
        let ([x, y, z], [w, h, d]) = (launch.grid, launch.workgroup_size);
        let (handle, shared) = (function.handle(), function.dynamic_shared_bytes());
        let (stream, parameters) = (self.context.stream(), parameters.as_mut_ptr());
        self.context.call("cuLaunchKernel", |api| {
            // SAFETY: the kernel has two 64-bit parameters for each binding, which the driver copies. The backend holds the
            // buffers, and frees them on this stream. Kernels access only their buffers.
            unsafe {
                let extra = null_mut();
                (api.cuLaunchKernel)(handle, x, y, z, w, h, d, shared, stream, parameters, extra)
            }
        })
    }

    fn synchronize(&self) -> Result<()> {
        self.context.synchronize()
    }

    fn staging_bytes(&self) -> u64 {
        self.uploads.bytes() + self.downloads.bytes()
    }

    fn has_timestamps(&self) -> bool {
        true
    }

    fn record_timestamp(&self) -> Result<Option<usize>> {
        self.timestamps.record(&self.context)
    }

    fn take_timestamps(&self) -> Result<Vec<u64>> {
        self.timestamps.take()
    }
}
