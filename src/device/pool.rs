//! Buffers that are not in use, kept for the next one who needs such a size.

use crate::backend::{Backend, BufferId};
use crate::error::{ErrorKind, Result};

/// Free buffers. Work on a device runs in order, so a buffer may be handed on as soon as the work that uses it
/// has been submitted.
#[derive(Default)]
pub struct Pool {
    vacant: Vec<Held>,
    /// Given back since memory ran out, but from before: machines say late that a buffer never came to be, so these are
    /// not handed on.
    stale: Vec<BufferId>,
    /// How often memory ran out.
    shortages: u64,
    /// Bytes that lie here unused.
    pub pooled: u64,
    /// Bytes that are in use now.
    pub used: u64,
    /// The most bytes that were ever in use at once.
    pub peak: u64,
}

/// A buffer with the size it was made with.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pub buffer: BufferId,
    pub bytes: u64,
    shortages: u64,
    /// An app's buffer, which is not handed on. Its bytes are not counted.
    lent: bool,
}

impl Held {
    /// An app's buffer.
    #[cfg(feature = "wgpu-interop")]
    pub fn lent(buffer: BufferId) -> Held {
        Held { buffer, bytes: 0, shortages: 0, lent: true }
    }
}

/// Eight sizes per doubling: at most an eighth is wasted, and sizes that differ a little share buffers. Close to the
/// largest buffer of the machine, `most`, no size is rounded.
fn class(bytes: u64, most: u64) -> u64 {
    let step = (bytes.next_power_of_two() / 16).max(256);
    let class = bytes.next_multiple_of(step);
    if class > most {
        bytes
    } else {
        class
    }
}

impl Pool {
    /// A buffer of at least `bytes` bytes with any contents.
    pub fn take(&mut self, backend: &dyn Backend, bytes: u64) -> Result<Held> {
        self.free_stale(backend);
        let bytes = class(bytes, backend.limits().binding_bytes);
        // One up to a half larger will do: of the smallest, the one used last.
        let mut near: Option<usize> = None;
        for (at, held) in self.vacant.iter().enumerate() {
            let least = near.map_or(bytes + bytes / 2, |near| self.vacant[near].bytes);
            if bytes <= held.bytes && held.bytes <= least {
                near = Some(at);
            }
        }
        let held = match near {
            Some(at) => {
                let held = self.vacant.remove(at);
                self.pooled -= held.bytes;
                held
            }
            None => {
                let buffer = self.allocate(backend, bytes)?;
                Held { buffer, bytes, shortages: self.shortages, lent: false }
            }
        };
        self.used += held.bytes;
        self.peak = self.peak.max(self.used);
        Ok(held)
    }

    /// Where memory is short, what lies unused is given back first.
    fn allocate(&mut self, backend: &dyn Backend, bytes: u64) -> Result<BufferId> {
        match backend.allocate(bytes) {
            Err(error) if error.kind() == ErrorKind::Memory && self.pooled > 0 => {
                self.trim(backend);
                backend.allocate(bytes)
            }
            other => other,
        }
    }

    /// The buffer is not needed any more.
    pub fn give(&mut self, backend: &dyn Backend, held: Held) {
        self.used -= held.bytes;
        if held.lent {
            backend.free(held.buffer);
        } else if held.shortages == self.shortages {
            self.vacant.push(held);
            self.pooled += held.bytes;
        } else {
            self.stale.push(held.buffer);
        }
    }

    /// Memory ran out some time ago: no buffer there is now will be handed on.
    pub fn distrust(&mut self, backend: &dyn Backend) {
        self.shortages += 1;
        self.trim(backend);
    }

    fn free_stale(&mut self, backend: &dyn Backend) {
        for buffer in std::mem::take(&mut self.stale) {
            backend.free(buffer);
        }
    }

    /// Gives everything unused back to the system.
    pub fn trim(&mut self, backend: &dyn Backend) {
        for held in std::mem::take(&mut self.vacant) {
            backend.free(held.buffer);
        }
        self.pooled = 0;
        self.free_stale(backend);
    }
}
