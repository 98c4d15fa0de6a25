//! The functions of NCCL, and the functions of the CUDA driver that place memory and streams for it.
//!
//! Both libraries are loaded at run time, so that one program runs with and without them. Types and constants come from
//! `cudarc`. Its functions are not called, because they panic without the library, do not look for `libnccl.so.2`, and return
//! enums, which must not have the codes of later versions.

use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::sys as driver;
use cudarc::nccl::sys as nccl;
use driver::{CUcontext, CUdevice, CUdeviceptr, CUresult, CUstream};
use libloading::Library;
use nccl::{
    cudaStream_t, ncclComm_t, ncclConfig_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId,
};
use std::ffi::{c_char, c_int, c_uint, c_void, CStr};
use std::sync::OnceLock;

/// The names of NCCL's library. Development packages install the second one, as a link.
const NCCL_LIBRARIES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// The name of the driver's library.
const DRIVER_LIBRARY: &str = "libcuda.so.1";
/// The oldest version of NCCL that works, 2.18.
const OLDEST_VERSION: i32 = 21800;

/// The result of a call that did not fail, in both libraries.
pub const SUCCESS: u32 = 0;
/// The result of a call of NCCL that continues in the background.
pub const IN_PROGRESS: u32 = ncclResult_t::ncclInProgress as u32;

/// Declares a table of functions, and the function that finds them. The signatures must be those of `cudarc`, whose results are
/// an enum of the same size.
macro_rules! functions {
    ($(#[$doc:meta])* $table:ident, $sys:ident -> $result:ident; $($name:ident($($argument:ident: $type:ty),*);)*) => {
        $(#[$doc])*
        #[allow(non_snake_case)]
        pub struct $table {
            $(pub $name: unsafe extern "C" fn($($argument: $type),*) -> u32,)*
        }

        $(const _: unsafe fn($($type),*) -> $result = $sys::$name;)*

        impl $table {
            /// Finds all functions in a library, or returns the name of a missing one.
            fn find(library: &'static Library) -> std::result::Result<$table, &'static str> {
                Ok($table {
                    $($name: {
                        // SAFETY: the symbol is NVIDIA's function, and its signature was compared with that of `cudarc` above.
                        let symbol = unsafe { library.get(concat!(stringify!($name), "\0").as_bytes()) };
                        *symbol.map_err(|_| stringify!($name))?
                    },)*
                })
            }
        }
    };
}

functions! {
    /// The functions of NCCL. Each returns a code, 0 for success.
    Nccl, nccl -> ncclResult_t;
    ncclGetVersion(version: *mut c_int);
    ncclGetUniqueId(id: *mut ncclUniqueId);
    ncclCommInitRankConfig(communicator: *mut ncclComm_t, size: c_int, id: ncclUniqueId, rank: c_int,
        config: *mut ncclConfig_t);
    ncclCommGetAsyncError(communicator: ncclComm_t, code: *mut ncclResult_t);
    ncclCommFinalize(communicator: ncclComm_t);
    ncclCommDestroy(communicator: ncclComm_t);
    ncclCommAbort(communicator: ncclComm_t);
    ncclAllReduce(from: *const c_void, to: *mut c_void, count: usize, of: ncclDataType_t, reduction: ncclRedOp_t,
        communicator: ncclComm_t, stream: cudaStream_t);
    ncclBroadcast(from: *const c_void, to: *mut c_void, count: usize, of: ncclDataType_t, root: c_int,
        communicator: ncclComm_t, stream: cudaStream_t);
    ncclAllGather(from: *const c_void, to: *mut c_void, count: usize, of: ncclDataType_t, communicator: ncclComm_t,
        stream: cudaStream_t);
    ncclReduceScatter(from: *const c_void, to: *mut c_void, count: usize, of: ncclDataType_t, reduction: ncclRedOp_t,
        communicator: ncclComm_t, stream: cudaStream_t);
}

functions! {
    /// The functions of the CUDA driver. Each returns a code, 0 for success.
    Cuda, driver -> CUresult;
    cuInit(flags: c_uint);
    cuGetErrorName(code: CUresult, text: *mut *const c_char);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut CUdevice, number: c_int);
    cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
    cuDevicePrimaryCtxRelease_v2(device: CUdevice);
    cuCtxPushCurrent_v2(context: CUcontext);
    cuCtxPopCurrent_v2(context: *mut CUcontext);
    cuStreamCreate(stream: *mut CUstream, flags: c_uint);
    cuStreamDestroy_v2(stream: CUstream);
    cuStreamQuery(stream: CUstream);
    cuStreamSynchronize(stream: CUstream);
    cuMemAlloc_v2(address: *mut CUdeviceptr, bytes: usize);
    cuMemFree_v2(address: CUdeviceptr);
    cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, bytes: usize, stream: CUstream);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, bytes: usize, stream: CUstream);
}

/// The loaded functions.
pub struct Api {
    pub nccl: Nccl,
    pub cuda: Cuda,
    /// `ncclGetErrorString`. Its parameter is a number, because later versions have more codes.
    text_of: unsafe extern "C" fn(u32) -> *const c_char,
}

impl Api {
    /// Returns the functions of both libraries, which are loaded at the first call.
    ///
    /// # Errors
    /// `Unsupported` if a library is missing, or too old. The error is kept.
    pub fn get() -> Result<&'static Api> {
        static API: OnceLock<Result<Api>> = OnceLock::new();
        API.get_or_init(load).as_ref().map_err(Error::clone)
    }

    /// Returns the description and the number of a code of NCCL, as in `unhandled system error (2)`.
    pub fn nccl_error(&self, code: u32) -> String {
        // SAFETY: any number may be passed.
        let text = unsafe { (self.text_of)(code) };
        if text.is_null() {
            return format!("code {code}");
        }
        // SAFETY: the text is a constant of the library.
        format!("{} ({code})", unsafe { CStr::from_ptr(text) }.to_string_lossy())
    }
}

impl Cuda {
    /// Returns the name and the number of a code of the driver, as in `CUDA_ERROR_NO_DEVICE (100)`.
    pub fn error(&self, code: u32) -> String {
        let mut text = std::ptr::null();
        // SAFETY: the parameter of NVIDIA's function is a number, which may be unknown to it, so any code is passed as such.
        // The text is a constant of the library.
        let known = unsafe {
            let name_of: unsafe extern "C" fn(u32, *mut *const c_char) -> u32 =
                std::mem::transmute(self.cuGetErrorName);
            name_of(code, &mut text) == SUCCESS && !text.is_null()
        };
        match known {
            // SAFETY: see above.
            true => format!("{} ({code})", unsafe { CStr::from_ptr(text) }.to_string_lossy()),
            false => format!("code {code}"),
        }
    }
}

/// Opens the first library that exists. It stays until the process ends.
fn open(product: &str, names: &[&str]) -> Result<&'static Library> {
    let mut reasons = Vec::new();
    for name in names {
        // SAFETY: loading the library runs NVIDIA's initializers, which have no preconditions.
        match unsafe { Library::new(*name) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            // The text of the system is the source of the error.
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                reasons.push(source.unwrap_or_else(|| error.to_string()));
            }
        }
    }
    let (names, reasons) = (names.join(" or "), reasons.join("; "));
    Err(unsupported(format!("nccl: {product} must be installed as {names}, got: {reasons}")))
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

fn load() -> Result<Api> {
    let library = open("NCCL", &NCCL_LIBRARIES)?;
    let missing = |name: &str| {
        unsupported(format!("nccl: NCCL must be 2.18 or later, got one without {name}"))
    };
    let nccl = Nccl::find(library).map_err(missing)?;
    // SAFETY: the symbol is NCCL's function, which takes an enum of the size of a number.
    let text_of = unsafe { library.get(b"ncclGetErrorString\0") };
    let text_of = *text_of.map_err(|_| missing("ncclGetErrorString"))?;
    let library = open("NVIDIA's driver", &[DRIVER_LIBRARY])?;
    let missing = |name: &str| {
        unsupported(format!("nccl: NVIDIA's driver must have {name}; update the driver"))
    };
    let cuda = Cuda::find(library).map_err(missing)?;
    let api = Api { nccl, cuda, text_of };
    let mut version = 0;
    // SAFETY: the pointer is valid.
    let code = unsafe { (api.nccl.ncclGetVersion)(&mut version) };
    if code != SUCCESS {
        let got = api.nccl_error(code);
        return Err(unsupported(format!("nccl: ncclGetVersion must succeed, got {got}")));
    }
    if version < OLDEST_VERSION {
        // Versions before 2.9 have fewer digits.
        let unit = if version < 10_000 { 1000 } else { 10_000 };
        let got = format!("{}.{}.{}", version / unit, version % unit / 100, version % 100);
        return Err(unsupported(format!("nccl: NCCL must be 2.18 or later, got {got}")));
    }
    // SAFETY: cuInit may be called at any time.
    match unsafe { (api.cuda.cuInit)(0) } {
        SUCCESS => Ok(api),
        code => {
            let got = api.cuda.error(code);
            Err(unsupported(format!("nccl: cuInit must succeed, got {got}")))
        }
    }
}
