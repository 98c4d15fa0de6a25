//! Fallible allocation, and the amount of memory that the system has.

use crate::error::{Error, ErrorKind, Result};

/// The least bytes for which the available memory is checked first, because the check reads a file.
const MIN_CHECKED_BYTES: u64 = 1 << 28;

/// Appends copies of elements to a list, and allocates more memory if it must.
///
/// # Errors
/// `Memory`, and the message names `what`.
#[cfg(feature = "io")]
pub fn try_extend<T: Copy>(what: &str, list: &mut Vec<T>, more: &[T]) -> Result<()> {
    if list.capacity() - list.len() < more.len() {
        let bytes = size_of_val(more) as u64;
        check_available(what, bytes)?;
        list.try_reserve(more.len()).map_err(|error| too_large(what, bytes, &error.to_string()))?;
    }
    list.extend_from_slice(more);
    Ok(())
}

/// Returns a copy of a list.
///
/// # Errors
/// `Memory`, and the message names `what`.
#[cfg(feature = "io")]
pub fn try_copy<T: Copy>(what: &str, list: &[T]) -> Result<Vec<T>> {
    let mut copy = try_vec(what, list.len())?;
    copy.extend_from_slice(list);
    Ok(copy)
}

/// Allocates an empty list with capacity for `count` elements.
///
/// # Errors
/// `Memory`, and the message names `what`.
pub fn try_vec<T>(what: &str, count: usize) -> Result<Vec<T>> {
    let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
    check_available(what, bytes)?;
    let mut memory = Vec::new();
    memory.try_reserve_exact(count).map_err(|error| too_large(what, bytes, &error.to_string()))?;
    Ok(memory)
}

/// Rejects an allocation of more bytes than are available.
fn check_available(what: &str, bytes: u64) -> Result<()> {
    // Linux overcommits: the allocation would succeed, and the OOM killer would end the process on first touch.
    if bytes >= MIN_CHECKED_BYTES {
        if let Some(free) = available_bytes().filter(|&free| bytes > free) {
            return Err(too_large(what, bytes, &format!("{free} are available")));
        }
    }
    Ok(())
}

fn too_large(what: &str, bytes: u64, why: &str) -> Error {
    let must = "the bytes must fit into memory";
    Error::new(ErrorKind::Memory, format!("{what}: {must}, got {bytes}: {why}"))
}

/// The bytes of memory that are available without swapping. `None` if the system does not report them.
pub fn available_bytes() -> Option<u64> {
    meminfo("MemAvailable:")
}

/// The bytes of installed memory. `None` if the system does not report them.
#[cfg(feature = "cpu")]
pub fn total_bytes() -> Option<u64> {
    meminfo("MemTotal:")
}

/// Reads a field of Linux's `/proc/meminfo`, in bytes.
fn meminfo(field: &str) -> Option<u64> {
    if cfg!(not(target_os = "linux")) {
        return None;
    }
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(field))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    kilobytes.checked_mul(1024)
}
