//! A context and a stream of one GPU, with the loss of the device, memory and modules that are no longer used.

use super::api::{Api, SUCCESS};
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUmemPool_attribute, CUmemoryPool, CUmodule, CUresult, CUstream,
    CUstream_flags,
};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

/// The bytes of freed memory that the driver keeps for later allocations when the stream is idle.
const RELEASE_THRESHOLD: u64 = 256 << 20;
/// The most modules that wait to be unloaded until the stream is idle.
const MAX_RETIRED: usize = 64;

/// Codes after which the context fails every call, or the driver no longer works.
const LOSSES: [CUresult; 20] = [
    CUresult::CUDA_ERROR_NOT_INITIALIZED,
    CUresult::CUDA_ERROR_DEINITIALIZED,
    CUresult::CUDA_ERROR_DEVICE_UNAVAILABLE,
    CUresult::CUDA_ERROR_INVALID_CONTEXT,
    CUresult::CUDA_ERROR_ECC_UNCORRECTABLE,
    CUresult::CUDA_ERROR_NVLINK_UNCORRECTABLE,
    CUresult::CUDA_ERROR_ILLEGAL_ADDRESS,
    CUresult::CUDA_ERROR_LAUNCH_TIMEOUT,
    CUresult::CUDA_ERROR_CONTEXT_IS_DESTROYED,
    CUresult::CUDA_ERROR_ASSERT,
    CUresult::CUDA_ERROR_CONTAINED,
    CUresult::CUDA_ERROR_EXTERNAL_DEVICE,
    CUresult::CUDA_ERROR_HARDWARE_STACK_ERROR,
    CUresult::CUDA_ERROR_ILLEGAL_INSTRUCTION,
    CUresult::CUDA_ERROR_MISALIGNED_ADDRESS,
    CUresult::CUDA_ERROR_INVALID_ADDRESS_SPACE,
    CUresult::CUDA_ERROR_INVALID_PC,
    CUresult::CUDA_ERROR_LAUNCH_FAILED,
    CUresult::CUDA_ERROR_MPS_CLIENT_TERMINATED,
    CUresult::CUDA_ERROR_UNKNOWN,
];
const OUT_OF_MEMORY: u32 = CUresult::CUDA_ERROR_OUT_OF_MEMORY as u32;

/// Locks a mutex, also after another thread panicked. The state behind these locks is never half written.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The primary context of a GPU, which other CUDA code of the process shares, and a stream in it.
pub struct Context {
    api: &'static Api,
    device: CUdevice,
    context: CUcontext,
    stream: CUstream,
    /// The memory pool of the GPU. Without one, allocation and freeing wait for the stream.
    pool: Option<CUmemoryPool>,
    /// The reason why the device was lost.
    lost: OnceLock<String>,
    /// Modules without users, whose kernels may still run.
    retired: Mutex<Vec<Retired>>,
}

/// A module that is to be unloaded.
struct Retired(CUmodule);

// SAFETY: the driver's handles may be used in all threads, and each call makes the context current in its thread.
unsafe impl Send for Context {}
// SAFETY: see above.
unsafe impl Sync for Context {}

impl Context {
    /// Opens the context and a stream of a device.
    ///
    /// # Errors
    /// `Memory`, `DeviceLost` or `InvalidState`. The message names the driver's function and its code.
    pub fn open(api: &'static Api, device: CUdevice, has_pools: bool) -> Result<Context> {
        let mut context = null_mut();
        // SAFETY: the pointer is valid, and the device is one of the driver.
        let code = unsafe { (api.cuDevicePrimaryCtxRetain)(&mut context, device) };
        let (lost, retired) = Default::default();
        let stream = null_mut();
        let mut opened = Context { api, device, context, stream, pool: None, lost, retired };
        if let Err(error) = opened.outcome("cuDevicePrimaryCtxRetain", code) {
            // There is nothing to release.
            std::mem::forget(opened);
            return Err(error);
        }
        let mut stream = null_mut();
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the pointer is valid.
        opened.call("cuStreamCreate", |api| unsafe { (api.cuStreamCreate)(&mut stream, flags) })?;
        opened.stream = stream;
        if has_pools {
            opened.pool = Some(opened.default_pool()?);
        }
        Ok(opened)
    }

    /// Returns the default memory pool of the device, which keeps freed memory up to a threshold from now on.
    fn default_pool(&self) -> Result<CUmemoryPool> {
        let (mut pool, mut threshold) = (null_mut(), RELEASE_THRESHOLD);
        self.call("cuDeviceGetDefaultMemPool", |api| {
            // SAFETY: the pointer is valid.
            unsafe { (api.cuDeviceGetDefaultMemPool)(&mut pool, self.device) }
        })?;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let value = (&raw mut threshold).cast();
        self.call("cuMemPoolSetAttribute", |api| {
            // SAFETY: the value of this attribute is a `u64`.
            unsafe { (api.cuMemPoolSetAttribute)(pool, attribute, value) }
        })?;
        Ok(pool)
    }

    /// Returns the stream.
    pub fn stream(&self) -> CUstream {
        self.stream
    }

    /// Makes calls while the context is current in this thread, and returns their code.
    fn code(&self, calls: impl FnOnce(&Api) -> u32) -> u32 {
        // SAFETY: the context was retained.
        let pushed = unsafe { (self.api.cuCtxPushCurrent_v2)(self.context) };
        if pushed != SUCCESS {
            return pushed;
        }
        let code = calls(self.api);
        let mut popped = null_mut();
        // SAFETY: the context was pushed above. The thread's earlier context is current again.
        let code_of_pop = unsafe { (self.api.cuCtxPopCurrent_v2)(&mut popped) };
        if code == SUCCESS {
            code_of_pop
        } else {
            code
        }
    }

    /// Makes a call while the context is current in this thread. `name` is the name of the function.
    ///
    /// # Errors
    /// `Memory` if memory is short; `DeviceLost` if the device is lost, now or since an earlier call; otherwise `InvalidState`.
    pub fn call(&self, name: &str, call: impl FnOnce(&Api) -> u32) -> Result<()> {
        self.check()?;
        let code = self.code(call);
        self.outcome(name, code)
    }

    /// Returns an error if the device is lost.
    pub fn check(&self) -> Result<()> {
        match self.lost.get() {
            None => Ok(()),
            Some(why) => {
                let message = format!("cuda: the device was lost: {why}");
                Err(Error::new(ErrorKind::DeviceLost, message))
            }
        }
    }

    /// Converts the code of a call. Codes of a lost device are remembered.
    fn outcome(&self, name: &str, code: u32) -> Result<()> {
        match code {
            SUCCESS => Ok(()),
            OUT_OF_MEMORY => {
                let got = self.api.name(code);
                let message = format!("cuda: {name} must find enough memory, got {got}");
                Err(Error::new(ErrorKind::Memory, message))
            }
            code if LOSSES.iter().any(|loss| *loss as u32 == code) => {
                self.lost.get_or_init(|| format!("{name} returned {}", self.api.name(code)));
                self.check()
            }
            code => {
                Err(Error::state(format!("cuda: {name} must succeed, got {}", self.api.name(code))))
            }
        }
    }

    /// Allocates device memory after the work submitted so far.
    ///
    /// # Errors
    /// `Memory` or `DeviceLost`.
    pub fn allocate(&self, bytes: u64) -> Result<u64> {
        let len = usize::try_from(bytes).unwrap_or(usize::MAX);
        let mut address = 0;
        let Some(pool) = self.pool else {
            // SAFETY: the pointer is valid.
            self.call("cuMemAlloc", |api| unsafe { (api.cuMemAlloc_v2)(&mut address, len) })?;
            return Ok(address);
        };
        let mut allocate = || {
            self.call("cuMemAllocAsync", |api| {
                // SAFETY: the pointer is valid.
                unsafe { (api.cuMemAllocAsync)(&mut address, len, self.stream) }
            })
        };
        match allocate() {
            Err(error) if error.kind() == ErrorKind::Memory => {
                // Work that frees memory may still run, and the pool may hold memory in pieces that are too small.
                self.synchronize()?;
                // SAFETY: the pool is that of the device.
                self.call("cuMemPoolTrimTo", |api| unsafe { (api.cuMemPoolTrimTo)(pool, 0) })?;
                allocate()?;
            }
            allocated => allocated?,
        }
        Ok(address)
    }

    /// Frees device memory after the work submitted so far. On a lost device, the memory is freed with the context.
    pub fn free(&self, address: u64) {
        if self.pool.is_some() {
            // SAFETY: the backend frees what it allocated here, once, and submits no more work that uses it.
            let freed = self.call("cuMemFreeAsync", |api| unsafe {
                (api.cuMemFreeAsync)(address, self.stream)
            });
            // An error of earlier work is returned by the next call that can fail.
            return drop(freed);
        }
        if self.synchronize().is_ok() {
            // SAFETY: see above. No work uses the memory, because the stream is idle.
            let freed = self.call("cuMemFree", |api| unsafe { (api.cuMemFree_v2)(address) });
            drop(freed);
        }
    }

    /// Waits until the stream is idle, and unloads modules that nothing uses.
    ///
    /// # Errors
    /// `DeviceLost`, also because of earlier work.
    pub fn synchronize(&self) -> Result<()> {
        // Modules that retire from now on may have kernels that start after the wait.
        let retired = std::mem::take(&mut *lock(&self.retired));
        // SAFETY: the stream is that of the context.
        let waited = self
            .call("cuStreamSynchronize", |api| unsafe { (api.cuStreamSynchronize)(self.stream) });
        for Retired(module) in retired {
            // SAFETY: nothing refers to the module, and none of its kernels runs. On a lost device, no call is made.
            drop(self.call("cuModuleUnload", |api| unsafe { (api.cuModuleUnload)(module) }));
        }
        waited
    }

    /// Unloads a module once the stream is idle.
    pub fn retire(&self, module: CUmodule) {
        let count = {
            let mut retired = lock(&self.retired);
            retired.push(Retired(module));
            retired.len()
        };
        if count > MAX_RETIRED {
            // The next call that can fail returns the error.
            drop(self.synchronize());
        }
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        drop(self.synchronize());
        if !self.stream.is_null() {
            // SAFETY: nothing uses the stream any more.
            self.code(|api| unsafe { (api.cuStreamDestroy_v2)(self.stream) });
        }
        // SAFETY: the context was retained once.
        unsafe { (self.api.cuDevicePrimaryCtxRelease_v2)(self.device) };
    }
}
