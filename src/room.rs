//! Memory that may not be there.

use crate::error::{Error, ErrorKind, Result};

/// Bytes from which on it is worth asking how much there is.
const LARGE: u64 = 1 << 28;

/// An empty list with room for `count` elements.
///
/// # Errors
/// `Memory`, in the name of `what`.
pub fn room<T>(what: &str, count: usize) -> Result<Vec<T>> {
    let bytes = (count as u64).saturating_mul(size_of::<T>() as u64);
    let refuse = |why: String| {
        Error::new(
            ErrorKind::Memory,
            format!("{what}: the bytes must fit into memory, got {bytes}: {why}"),
        )
    };
    // Where the system promises more than it has, it kills whoever comes to collect.
    if bytes >= LARGE {
        if let Some(free) = available().filter(|&free| bytes > free) {
            return Err(refuse(format!("{free} are available")));
        }
    }
    let mut memory = Vec::new();
    memory.try_reserve_exact(count).map_err(|error| refuse(error.to_string()))?;
    Ok(memory)
}

/// The bytes that can be had, where the system says.
pub fn available() -> Option<u64> {
    #[cfg(target_os = "linux")]
    {
        let text = std::fs::read_to_string("/proc/meminfo").ok()?;
        let line = text.lines().find(|line| line.starts_with("MemAvailable:"))?;
        let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
        Some(kilobytes.saturating_mul(1024))
    }
    #[cfg(not(target_os = "linux"))]
    None
}
