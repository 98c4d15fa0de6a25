//! The codes of errors, with NVIDIA's numbers and names.

use std::ffi::CStr;

/// The result of a call that failed.
pub type Code = u32;

pub const INVALID_VALUE: Code = 1;
pub const OUT_OF_MEMORY: Code = 2;
pub const NOT_INITIALIZED: Code = 3;
pub const NO_DEVICE: Code = 100;
pub const INVALID_DEVICE: Code = 101;
pub const INVALID_IMAGE: Code = 200;
pub const INVALID_CONTEXT: Code = 201;
pub const INVALID_PTX: Code = 218;
pub const INVALID_HANDLE: Code = 400;
pub const NOT_FOUND: Code = 500;
pub const NOT_READY: Code = 600;
pub const ILLEGAL_ADDRESS: Code = 700;
const LAUNCH_FAILED: Code = 719;
const SYSTEM_DRIVER_MISMATCH: Code = 803;
const UNKNOWN: Code = 999;

/// Returns the name of a code, if it is known.
pub fn name(code: Code) -> Option<&'static CStr> {
    Some(match code {
        INVALID_VALUE => c"CUDA_ERROR_INVALID_VALUE",
        OUT_OF_MEMORY => c"CUDA_ERROR_OUT_OF_MEMORY",
        NOT_INITIALIZED => c"CUDA_ERROR_NOT_INITIALIZED",
        NO_DEVICE => c"CUDA_ERROR_NO_DEVICE",
        INVALID_DEVICE => c"CUDA_ERROR_INVALID_DEVICE",
        INVALID_IMAGE => c"CUDA_ERROR_INVALID_IMAGE",
        INVALID_CONTEXT => c"CUDA_ERROR_INVALID_CONTEXT",
        INVALID_PTX => c"CUDA_ERROR_INVALID_PTX",
        INVALID_HANDLE => c"CUDA_ERROR_INVALID_HANDLE",
        NOT_FOUND => c"CUDA_ERROR_NOT_FOUND",
        NOT_READY => c"CUDA_ERROR_NOT_READY",
        ILLEGAL_ADDRESS => c"CUDA_ERROR_ILLEGAL_ADDRESS",
        LAUNCH_FAILED => c"CUDA_ERROR_LAUNCH_FAILED",
        SYSTEM_DRIVER_MISMATCH => c"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH",
        UNKNOWN => c"CUDA_ERROR_UNKNOWN",
        _ => return None,
    })
}

/// Whether all later calls in the context fail with the code.
pub fn is_sticky(code: Code) -> bool {
    (ILLEGAL_ADDRESS..=LAUNCH_FAILED).contains(&code) || code == UNKNOWN
}
