//! Pointers that callers pass. Their contents are valid during a call, as NVIDIA's documentation demands.

use crate::codes::{Code, INVALID_VALUE};
use std::ffi::{c_char, CStr};
use std::ptr::copy_nonoverlapping;
use std::slice::from_raw_parts;

/// A pointer to a value, or to the first of several, which a call reads or writes.
#[repr(transparent)]
pub struct Out<T>(*mut T);

impl<T> From<&mut T> for Out<T> {
    fn from(value: &mut T) -> Out<T> {
        Out(value)
    }
}

impl<T> Out<T> {
    /// Writes the value.
    pub fn put(&self, value: T) -> Result<(), Code> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes a pointer to a value of this type.
        unsafe { self.0.write(value) };
        Ok(())
    }

    /// Reads the value. `None` for a null pointer.
    pub fn get(&self) -> Option<T> {
        self.at(0)
    }

    /// Reads the n-th value. `None` for a null pointer.
    pub fn at(&self, n: usize) -> Option<T> {
        // SAFETY: the caller passes a pointer to more than `n` values of this type, which are numbers or pointers.
        (!self.0.is_null()).then(|| unsafe { self.0.add(n).read() })
    }
}

/// A pointer to bytes of the host.
#[repr(transparent)]
pub struct Bytes(*mut u8);

impl From<&mut [u8]> for Bytes {
    fn from(bytes: &mut [u8]) -> Bytes {
        Bytes(bytes.as_mut_ptr())
    }
}

impl Bytes {
    /// Returns the address.
    pub fn address(&self) -> usize {
        self.0 as usize
    }

    /// Reads bytes.
    pub fn read(&self, len: usize) -> Result<Vec<u8>, Code> {
        read(self.address(), len)
    }

    /// Writes a text and a zero into `len` bytes. A long text is truncated.
    pub fn write_text(&self, len: usize, text: &str) -> Result<(), Code> {
        let kept = text.len().min(len.checked_sub(1).ok_or(INVALID_VALUE)?);
        let mut bytes = text.as_bytes()[..kept].to_vec();
        bytes.push(0);
        write(self.address(), &bytes)
    }
}

/// Reads bytes of the host, which a caller has passed or which were pinned.
pub fn read(address: usize, len: usize) -> Result<Vec<u8>, Code> {
    if address == 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: the caller guarantees these bytes until the work that uses them is done.
    Ok(unsafe { from_raw_parts(address as *const u8, len) }.to_vec())
}

/// Writes bytes of the host, which a caller has passed or which were pinned.
pub fn write(address: usize, bytes: &[u8]) -> Result<(), Code> {
    if address == 0 {
        return Err(INVALID_VALUE);
    }
    // SAFETY: see above.
    unsafe { copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len()) };
    Ok(())
}

/// A text that ends with a zero.
#[repr(transparent)]
pub struct Text(*const c_char);

impl Text {
    /// Reads the text.
    pub fn get(&self) -> Result<String, Code> {
        if self.0.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: the caller passes a text that ends with a zero.
        Ok(unsafe { CStr::from_ptr(self.0) }.to_string_lossy().into_owned())
    }
}
