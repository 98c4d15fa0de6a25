//! The communicator: NCCL's connection to the other ranks.

use super::api::{Api, IN_PROGRESS};
use super::gpu::Gpu;
use crate::cuda::driver::api::SUCCESS;
use crate::error::{Error, Result};
use cudarc::nccl::sys::{ncclComm_t, ncclConfig_t, ncclResult_t, ncclUniqueId};
use std::ffi::c_char;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};

/// The bytes of the id by which the ranks of a communicator find each other.
pub const ID_BYTES: usize = 128;
/// The number by which NCCL recognizes a configuration.
const CONFIG_MAGIC: u32 = 0xcafe_beef;
/// The version of NCCL that has exactly the options of [`ncclConfig_t`], 2.18. Later versions accept it.
const CONFIG_VERSION: u32 = 21800;
/// The value of an option that is not set.
const NOT_SET: i32 = i32::MIN;

/// A communicator. Its calls return at once, and go on in the background, because NCCL allows an abort only then.
pub struct Communicator {
    api: &'static Api,
    /// The rank, for errors.
    who: String,
    /// Null after the end.
    handle: ncclComm_t,
}

// SAFETY: NCCL's handles may be used in all threads, one after the other.
unsafe impl Send for Communicator {}

/// Creates the id of a new communicator.
///
/// # Errors
/// `InvalidState` if NCCL fails.
pub fn new_id(api: &Api, who: &str) -> Result<Vec<u8>> {
    let mut id = ncclUniqueId { internal: [0; ID_BYTES] };
    // SAFETY: the pointer is valid.
    let code = unsafe { (api.nccl.ncclGetUniqueId)(&mut id) };
    outcome(api, who, "ncclGetUniqueId", code)?;
    Ok(id.internal.map(|byte| byte as u8).to_vec())
}

/// Converts the code of a call.
fn outcome(api: &Api, who: &str, name: &str, code: u32) -> Result<()> {
    match code {
        SUCCESS | IN_PROGRESS => Ok(()),
        code => {
            let got = api.nccl_error(code);
            let remedy = "NCCL_DEBUG=INFO logs the reason";
            Err(Error::state(format!("nccl: {name} must succeed on {who}, got {got}; {remedy}")))
        }
    }
}

impl Communicator {
    /// Starts to connect the ranks. It is done once [`is_ready`](Communicator::is_ready).
    ///
    /// # Errors
    /// `InvalidState` if NCCL fails.
    pub fn start(
        api: &'static Api,
        gpu: &Gpu,
        id: &[u8; ID_BYTES],
        [rank, size]: [usize; 2],
        who: String,
    ) -> Result<Communicator> {
        let id = ncclUniqueId { internal: id.map(|byte| byte as c_char) };
        let mut config = ncclConfig_t {
            size: size_of::<ncclConfig_t>(),
            magic: CONFIG_MAGIC,
            version: CONFIG_VERSION,
            blocking: 0,
            cgaClusterSize: NOT_SET,
            minCTAs: NOT_SET,
            maxCTAs: NOT_SET,
            netName: null(),
            splitShare: NOT_SET,
        };
        let mut started = Communicator { api, who, handle: null_mut() };
        let [rank, size] = [rank, size].map(|number| number as i32);
        let code = gpu.within(|| {
            let start = api.nccl.ncclCommInitRankConfig;
            // SAFETY: the pointers are valid, and the context of the GPU is current.
            unsafe { start(&mut started.handle, size, id, rank, &mut config) }
        })?;
        // After an error, the handle may be null or that of a communicator that must be aborted.
        match started.outcome("ncclCommInitRankConfig", code) {
            Ok(()) => Ok(started),
            Err(error) => {
                started.abort(gpu);
                Err(error)
            }
        }
    }

    /// Returns the handle.
    pub fn handle(&self) -> ncclComm_t {
        self.handle
    }

    /// Converts the code of a call.
    ///
    /// # Errors
    /// `InvalidState` if the call failed.
    pub fn outcome(&self, name: &str, code: u32) -> Result<()> {
        outcome(self.api, &self.who, name, code)
    }

    /// Whether the latest call, named `name`, no longer continues in the background. Its work is then on the stream.
    ///
    /// # Errors
    /// `InvalidState` if the communicator failed.
    pub fn is_ready(&self, name: &str) -> Result<bool> {
        // The code may be one of a later version, so it is read as a number.
        let mut state = MaybeUninit::<u32>::zeroed();
        let to = state.as_mut_ptr().cast::<ncclResult_t>();
        // SAFETY: the communicator exists, and the pointer is valid.
        let code = unsafe { (self.api.nccl.ncclCommGetAsyncError)(self.handle, to) };
        self.outcome("ncclCommGetAsyncError", code)?;
        // SAFETY: all bytes were initialized.
        let state = unsafe { state.assume_init() };
        self.outcome(name, state).map(|()| state == SUCCESS)
    }

    /// Starts to finish the work of the communicator. It is done once [`is_ready`](Communicator::is_ready).
    ///
    /// # Errors
    /// `InvalidState` if NCCL fails.
    pub fn finalize(&self, gpu: &Gpu) -> Result<()> {
        // SAFETY: the communicator exists.
        let code = gpu.within(|| unsafe { (self.api.nccl.ncclCommFinalize)(self.handle) })?;
        self.outcome("ncclCommFinalize", code)
    }

    /// Frees the communicator, which was finalized.
    pub fn destroy(&mut self, gpu: &Gpu) {
        self.end(gpu, self.api.nccl.ncclCommDestroy);
    }

    /// Stops the work of the communicator, and frees it.
    pub fn abort(&mut self, gpu: &Gpu) {
        self.end(gpu, self.api.nccl.ncclCommAbort);
    }

    fn end(&mut self, gpu: &Gpu, end: unsafe extern "C" fn(ncclComm_t) -> u32) {
        let handle = std::mem::replace(&mut self.handle, null_mut());
        if !handle.is_null() {
            // An error cannot be handled. SAFETY: the communicator exists, and is freed once.
            gpu.within(|| unsafe { end(handle) }).ok();
        }
    }
}
