//! Kernels: PTX is compiled to a cubin, machine code for one GPU, and loaded as a module.

use super::context::Context;
use crate::cuda::ptx;
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::sys::{
    CUfunction, CUfunction_attribute, CUjitInputType, CUjit_option, CUlinkState, CUmodule,
};
use std::ffi::{c_void, CString};
use std::ptr::null_mut;
use std::slice::from_raw_parts;
use std::sync::Arc;

/// The bytes of the log of the driver's compiler.
const LOG_BYTES: usize = 8 << 10;

/// A loaded kernel. Its module is unloaded once it is dropped and none of its launches runs.
pub struct Function {
    context: Arc<Context>,
    module: CUmodule,
    function: CUfunction,
    dynamic_shared_bytes: u32,
}

// SAFETY: the driver's handles may be used in all threads.
unsafe impl Send for Function {}
// SAFETY: see above.
unsafe impl Sync for Function {}

impl Function {
    /// Loads a cubin, and finds its kernel.
    ///
    /// # Errors
    /// `InvalidState` if the driver refuses the cubin; `Memory`; `DeviceLost`.
    pub fn load(context: &Arc<Context>, cubin: &[u8], kernel: &ptx::Kernel) -> Result<Function> {
        let (mut module, mut function) = (null_mut(), null_mut());
        let (image, none) = (cubin.as_ptr().cast(), null_mut());
        context.call("cuModuleLoadDataEx", |api| {
            // SAFETY: the image is a cubin, which has its length inside. It comes from the driver, or from a checked file.
            unsafe { (api.cuModuleLoadDataEx)(&mut module, image, 0, none, null_mut()) }
        })?;
        let dynamic_shared_bytes = kernel.dynamic_shared_bytes;
        let mut loaded =
            Function { context: context.clone(), module, function, dynamic_shared_bytes };
        let name = text(&kernel.symbol)?;
        context.call("cuModuleGetFunction", |api| {
            // SAFETY: the name ends with a zero.
            unsafe { (api.cuModuleGetFunction)(&mut function, module, name.as_ptr()) }
        })?;
        loaded.function = function;
        if dynamic_shared_bytes > 0 {
            let attribute = CUfunction_attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
            context.call("cuFuncSetAttribute", |api| {
                // SAFETY: the function was found above.
                unsafe {
                    (api.cuFuncSetAttribute)(function, attribute, dynamic_shared_bytes as i32)
                }
            })?;
        }
        Ok(loaded)
    }

    /// Returns the driver's handle.
    pub fn handle(&self) -> CUfunction {
        self.function
    }

    /// Returns the bytes of workgroup memory that a launch requests.
    pub fn dynamic_shared_bytes(&self) -> u32 {
        self.dynamic_shared_bytes
    }
}

impl Drop for Function {
    fn drop(&mut self) {
        self.context.retire(self.module);
    }
}

/// Returns a text that ends with a zero.
fn text(text: &str) -> Result<CString> {
    let message = || Error::state("cuda: a kernel must be text, got a zero in it");
    CString::new(text).map_err(|_| message())
}

/// A run of the driver's linker, which compiles and links PTX. It owns the cubin.
struct Link<'a> {
    context: &'a Context,
    link: CUlinkState,
}

impl Drop for Link<'_> {
    fn drop(&mut self) {
        let link = self.link;
        // SAFETY: the link was created, and its cubin was copied.
        drop(self.context.call("cuLinkDestroy", |api| unsafe { (api.cuLinkDestroy)(link) }));
    }
}

/// Compiles PTX for the GPU of a context. Returns the cubin.
///
/// # Errors
/// `InvalidState` with the log of the driver's compiler; `Memory`; `DeviceLost`.
pub fn compile(context: &Context, ptx: &str) -> Result<Vec<u8>> {
    // The driver writes the log until the link is destroyed, so the log is dropped last.
    let mut log = vec![0u8; LOG_BYTES];
    let compiled = linked(context, &text(ptx)?, &mut log);
    compiled.map_err(|error| {
        let end = log.iter().position(|byte| *byte == 0).unwrap_or(LOG_BYTES);
        let log = String::from_utf8_lossy(&log[..end]);
        match error.kind() {
            ErrorKind::InvalidState if !log.trim().is_empty() => {
                Error::state(format!("{}; its log: {}", error.message(), log.trim()))
            }
            _ => error,
        }
    })
}

fn linked(context: &Context, ptx: &CString, log: &mut [u8]) -> Result<Vec<u8>> {
    let mut options =
        [CUjit_option::CU_JIT_ERROR_LOG_BUFFER, CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES];
    // The driver reads a number from the bits of its pointer.
    let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
    let (count, options, values) = (2, options.as_mut_ptr(), values.as_mut_ptr());
    let mut link = null_mut();
    context.call("cuLinkCreate", |api| {
        // SAFETY: the options and the log live longer than the link.
        unsafe { (api.cuLinkCreate_v2)(count, options, values, &mut link) }
    })?;
    let link = Link { context, link };
    let bytes = ptx.as_bytes_with_nul();
    let (kind, data) = (CUjitInputType::CU_JIT_INPUT_PTX, bytes.as_ptr().cast_mut().cast());
    let (name, none) = (c"kernel".as_ptr(), null_mut());
    context.call("cuLinkAddData", |api| {
        // SAFETY: the driver only reads the text, which has its length and ends with a zero.
        unsafe {
            let none_too = null_mut();
            (api.cuLinkAddData_v2)(link.link, kind, data, bytes.len(), name, 0, none, none_too)
        }
    })?;
    let (mut cubin, mut len) = (null_mut(), 0);
    context.call("cuLinkComplete", |api| {
        // SAFETY: the pointers are valid.
        unsafe { (api.cuLinkComplete)(link.link, &mut cubin, &mut len) }
    })?;
    if cubin.is_null() {
        return Err(Error::state("cuda: cuLinkComplete must return a cubin, got a null pointer"));
    }
    // SAFETY: the link owns the cubin, and lives until the end of this function.
    Ok(unsafe { from_raw_parts(cubin.cast::<u8>(), len) }.to_vec())
}
