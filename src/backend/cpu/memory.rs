//! Memory that may not be there.

use crate::error::{Error, ErrorKind, Result};

/// `words` zeros.
pub(super) fn zeroed(words: usize) -> Result<Vec<u32>> {
    let refuse = |why: &str| {
        let bytes = (words as u64).saturating_mul(4);
        Error::new(ErrorKind::Memory, format!("cpu: no memory for {bytes} bytes: {why}"))
    };
    // Where the system promises more than it has, it kills whoever comes to collect.
    if let Some(free) = available().filter(|_| words >= LARGE) {
        if words as u64 > free / 4 {
            return Err(refuse(&format!("{free} are available")));
        }
    }
    let mut memory = Vec::new();
    memory.try_reserve_exact(words).map_err(|error| refuse(&error.to_string()))?;
    memory.resize(words, 0);
    Ok(memory)
}

/// Words that begin where a line of the cache does: vectors of them then never lie in two lines.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    memory: Vec<u32>,
    first: usize,
}

impl Lines {
    /// All words there are.
    pub fn words(&self) -> &[u32] {
        &self.memory[self.first..]
    }

    /// The same to write to; `width` words of them anew if there are fewer than `len`.
    pub fn room(&mut self, len: usize, width: usize) -> &mut [u32] {
        if self.memory.len() - self.first < len {
            self.memory = vec![0; width + LINE];
            // Where it cannot be known, it is slower and nothing else.
            self.first = self.memory.as_ptr().align_offset(4 * LINE).min(LINE);
        }
        &mut self.memory[self.first..]
    }
}

/// Words of a line of the cache.
const LINE: usize = 16;

/// Words from which on it is worth asking how much there is.
const LARGE: usize = 1 << 26;

/// The bytes that can be had, where the system says.
fn available() -> Option<u64> {
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
