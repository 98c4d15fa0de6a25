//! The functions of NCCL, and of the CUDA driver, which provides memory and streams for it.

use crate::cuda::driver::api::{missing, Api as Driver, SUCCESS};
use crate::cuda::driver::functions::functions;
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::sys as driver;
use cudarc::nccl::sys as nccl;
use driver::{CUresult, CUstream};
use libloading::Library;
use nccl::{
    cudaStream_t, ncclComm_t, ncclConfig_t, ncclDataType_t, ncclRedOp_t, ncclResult_t, ncclUniqueId,
};
use std::ffi::{c_char, c_int, c_void, CStr};
use std::ops::Deref;
use std::sync::OnceLock;

/// The names of NCCL's library. Development packages install the second one, as a link.
const NCCL_LIBRARIES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// The oldest version of NCCL that works, 2.18.
const OLDEST_VERSION: i32 = 21800;

/// The result of a call of NCCL that continues in the background.
pub const IN_PROGRESS: u32 = ncclResult_t::ncclInProgress as u32;

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
    /// The function of the driver that only this engine calls.
    Polling, driver -> CUresult;
    cuStreamQuery(stream: CUstream);
}

/// The driver, with the function above.
pub struct Cuda {
    driver: &'static Driver,
    polling: Polling,
}

impl Cuda {
    fn load() -> std::result::Result<Cuda, String> {
        let driver = Driver::get()?;
        let polling = Polling::find(driver.library()).map_err(missing)?;
        Ok(Cuda { driver, polling })
    }

    /// Whether the work of a stream is done, as the code of `cuStreamQuery`.
    ///
    /// # Safety
    /// The stream must exist, and its context must be current.
    pub unsafe fn query(&self, stream: CUstream) -> u32 {
        // SAFETY: see above.
        unsafe { (self.polling.cuStreamQuery)(stream) }
    }
}

impl Deref for Cuda {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        self.driver
    }
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

/// Opens NCCL's library, by the first name that exists. It stays until the process ends.
fn open() -> Result<&'static Library> {
    let mut reasons = Vec::new();
    for name in NCCL_LIBRARIES {
        // SAFETY: loading the library runs NVIDIA's initializers, which have no preconditions.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(Box::leak(Box::new(library))),
            // The text of the system is the source of the error.
            Err(error) => {
                let source = std::error::Error::source(&error).map(ToString::to_string);
                reasons.push(source.unwrap_or_else(|| error.to_string()));
            }
        }
    }
    let (names, reasons) = (NCCL_LIBRARIES.join(" or "), reasons.join("; "));
    Err(unsupported(format!("nccl: NCCL must be installed as {names}, got: {reasons}")))
}

fn unsupported(message: String) -> Error {
    Error::new(ErrorKind::Unsupported, message)
}

fn load() -> Result<Api> {
    let library = open()?;
    let missing = |name: &str| {
        unsupported(format!("nccl: NCCL must be 2.18 or later, got one without {name}"))
    };
    let nccl = Nccl::find(library).map_err(missing)?;
    // SAFETY: the symbol is NCCL's function, which takes an enum of the size of a number.
    let text_of = unsafe { library.get(b"ncclGetErrorString\0") };
    let text_of = *text_of.map_err(|_| missing("ncclGetErrorString"))?;
    let cuda = Cuda::load()
        .map_err(|why| unsupported(format!("nccl: NVIDIA's driver must work, got: {why}")))?;
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
    Ok(api)
}
