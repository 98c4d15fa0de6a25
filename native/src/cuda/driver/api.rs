//! The functions of the CUDA driver that the backend calls, from the library that NVIDIA's driver installs.

use super::functions::functions;
use cudarc::driver::sys;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::ops::Deref;
use std::sync::OnceLock;
use sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction,
    CUfunction_attribute, CUjitInputType, CUjit_option, CUlinkState, CUmemPool_attribute,
    CUmemoryPool, CUmodule, CUresult, CUstream,
};

/// The name of the library.
#[cfg(windows)]
pub const LIBRARY: &str = "nvcuda.dll";
/// The name of the library.
#[cfg(not(windows))]
pub const LIBRARY: &str = "libcuda.so.1";

/// The result of a call that did not fail.
pub const SUCCESS: u32 = CUresult::CUDA_SUCCESS as u32;

functions! {
    /// The functions of the driver.
    Functions, sys -> CUresult;
    cuInit(flags: c_uint);
    cuGetErrorName(code: CUresult, text: *mut *const c_char);
    cuGetErrorString(code: CUresult, text: *mut *const c_char);
    cuDriverGetVersion(version: *mut c_int);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut CUdevice, number: c_int);
    cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
    cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
    cuDeviceGetDefaultMemPool(pool: *mut CUmemoryPool, device: CUdevice);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxPushCurrent_v2(context: CUcontext);
    cuCtxPopCurrent_v2(context: *mut CUcontext);
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuEventCreate(event: *mut CUevent, flags: c_uint);
    cuEventDestroy_v2(event: CUevent);
    cuEventRecord(event: CUevent, stream: CUstream);
    cuEventSynchronize(event: CUevent);
    cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
    cuMemPoolSetAttribute(pool: CUmemoryPool, attribute: CUmemPool_attribute, value: *mut c_void);
    cuMemPoolTrimTo(pool: CUmemoryPool, bytes_to_keep: usize);
    cuMemAllocAsync(address: *mut CUdeviceptr, bytes: usize, stream: CUstream);
    cuMemFreeAsync(address: CUdeviceptr, stream: CUstream);
    cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(address: CUdeviceptr);
    cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(pointer: *mut c_void);
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
    cuLinkCreate_v2(count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void, link: *mut CUlinkState);
    cuLinkAddData_v2(link: CUlinkState, kind: CUjitInputType, data: *mut c_void, bytes: usize, name: *const c_char,
        count: c_uint, options: *mut CUjit_option, values: *mut *mut c_void);
    cuLinkComplete(link: CUlinkState, cubin: *mut *mut c_void, bytes: *mut usize);
    cuLinkDestroy(link: CUlinkState);
    cuModuleLoadDataEx(module: *mut CUmodule, image: *const c_void, count: c_uint, options: *mut CUjit_option,
        values: *mut *mut c_void);
    cuModuleUnload(module: CUmodule);
    cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
    cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
    cuLaunchKernel(function: CUfunction, grid_x: c_uint, grid_y: c_uint, grid_z: c_uint, block_x: c_uint, block_y: c_uint,
        block_z: c_uint, shared_bytes: c_uint, stream: CUstream, parameters: *mut *mut c_void, extra: *mut *mut c_void);
}

/// The loaded driver.
pub struct Api {
    functions: Functions,
    library: &'static Library,
}

impl Deref for Api {
    type Target = Functions;

    fn deref(&self) -> &Functions {
        &self.functions
    }
}

/// Describes a function that an old driver lacks.
pub fn missing(symbol: &str) -> String {
    format!("{LIBRARY} has no function {symbol}; update NVIDIA's driver")
}

/// Loads the library and starts the driver once. The reason of a failure is kept.
fn load() -> Result<Api, String> {
    // SAFETY: loading the library runs NVIDIA's initializers, which have no preconditions.
    let library = match unsafe { Library::new(LIBRARY) } {
        Ok(library) => library,
        Err(error) => return Err(why_not_loaded(&error)),
    };
    // The driver cannot be unloaded safely, so the library stays until the process ends.
    let library = Box::leak(Box::new(library));
    let api = Api { functions: Functions::find(library).map_err(missing)?, library };
    // SAFETY: cuInit may be called at any time.
    let code = unsafe { (api.cuInit)(0) };
    match code {
        SUCCESS => Ok(api),
        code if code == CUresult::CUDA_ERROR_NO_DEVICE as u32 => Err(NO_DEVICE.to_string()),
        code => Err(format!("{LIBRARY} does not start: cuInit returned {}", api.name(code))),
    }
}

/// The reason without a GPU of NVIDIA.
pub const NO_DEVICE: &str = "NVIDIA's driver is installed, but it finds no GPU";

fn why_not_loaded(error: &libloading::Error) -> String {
    use libloading::Error::{DlOpen, LoadLibraryExW};
    // The texts of the systems. Another file that is missing means that the library is broken. On Windows, 126 means either.
    let (text, is_absent) = match error {
        DlOpen { source } => {
            let text = source.to_string();
            let is_absent = text.to_lowercase().contains("no such file") && text.contains(LIBRARY);
            (text, is_absent)
        }
        LoadLibraryExW { source } => (source.to_string(), format!("{source:?}") == "126"),
        error => (error.to_string(), false),
    };
    match is_absent {
        true => format!("NVIDIA's driver is not installed ({LIBRARY} was not found)"),
        false => format!("{LIBRARY} was found, but cannot be loaded: {text}"),
    }
}

impl Api {
    /// Returns the functions of the driver, which is started at the first call, or the reason why there are none.
    pub fn get() -> Result<&'static Api, &'static str> {
        static API: OnceLock<Result<Api, String>> = OnceLock::new();
        API.get_or_init(load).as_ref().map_err(|why| why.as_str())
    }

    /// Returns the library.
    pub fn library(&self) -> &'static Library {
        self.library
    }

    /// Returns the name, the number and the description of a code, as in `CUDA_ERROR_NO_DEVICE (100): no CUDA-capable device is
    /// detected`.
    pub fn name(&self, code: u32) -> String {
        let texts = [self.cuGetErrorName, self.cuGetErrorString].map(|text_of| {
            let mut text = std::ptr::null();
            // SAFETY: the parameter of NVIDIA's function is a number, which may be unknown to it, so any code is passed as
            // such. The text is a constant of the library.
            let known = unsafe {
                let text_of: unsafe extern "C" fn(u32, *mut *const c_char) -> u32 =
                    std::mem::transmute(text_of);
                text_of(code, &mut text) == SUCCESS && !text.is_null()
            };
            // SAFETY: see above.
            known.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
        });
        match texts {
            [Some(name), Some(text)] => format!("{name} ({code}): {text}"),
            [Some(name), None] => format!("{name} ({code})"),
            _ => format!("code {code}"),
        }
    }
}
