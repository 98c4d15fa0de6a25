//! The memory pool: unused buffers, kept for later requests of about the same size.
//!
//! Problem: allocating device memory is slow, and a loop requests the same sizes in every step. But memory that was needed only
//! once must not be kept forever.
//!
//! Idea: a freed buffer is reused as soon as the work that uses it was submitted, because work on a device runs in order. Sizes
//! are rounded to a few classes. Used and pooled bytes together are limited to a quarter more than the recent peak.
//!
//! Cost: taking or returning a buffer takes constant time. There are at most a few hundred sizes, and each has a list.
//!
//! Example: a request of 1,000 bytes is rounded to 1,024. It also accepts a free buffer of up to 1,280 bytes.

use crate::backend::{Backend, BufferId};
use crate::error::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, VecDeque};

/// The pool of free buffers.
pub struct Pool {
    /// Free buffers by size. Each list has the most recently returned one at its end.
    vacant: BTreeMap<u64, VecDeque<Vacant>>,
    /// Buffers returned while a batch is prepared. They are held back, because the batch may read them.
    waiting: Option<Vec<PooledBuffer>>,
    /// Buffers from before memory ran out, returned since then. Backends report late that an allocation failed, so these
    /// buffers may not exist and are not reused.
    stale: Vec<PooledBuffer>,
    /// The number of times that memory ran out.
    shortages: u64,
    /// The number of buffers returned to the pool so far.
    given: u64,
    /// The most bytes in use at once, in the current and in the previous period of `LATELY` calls.
    recent: [u64; 2],
    /// Calls in the current period.
    calls: u32,
    /// The most pooled bytes.
    pub most: u64,
    /// The most allocated bytes, used and pooled, if limited.
    pub limit: Option<u64>,
    /// Unused bytes in the pool.
    pub pooled: u64,
    /// Bytes in use now.
    pub used: u64,
    /// Bytes in use now, by [`Purpose`].
    used_of: [u64; 3],
    /// The most bytes ever in use at once.
    pub peak: u64,
    /// The bytes at the peak, by [`Purpose`].
    pub peak_of: [u64; 3],
    /// A description of the work that reached the peak.
    pub peak_by: String,
    /// Whether there is a new peak whose cause is not described yet.
    peaked: bool,
    /// The number of buffers freed because the pool had too many bytes.
    pub evicted: u64,
}

/// A free buffer, and the number of buffers returned before it.
struct Vacant {
    held: PooledBuffer,
    given: u64,
}

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Data from the host.
    Upload,
    /// The result of a batch.
    Result,
    /// An intermediate value of a batch.
    Temporary,
}

/// The allowed difference between a requested size and the buffer's size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Rounded up to a size class, so that later requests can reuse the buffer.
    Class,
    /// The exact size, for long-lived data such as weights.
    Exact,
}

/// A buffer with its allocated size.
#[derive(Clone, Copy, Debug)]
pub struct PooledBuffer {
    pub buffer: BufferId,
    pub bytes: u64,
    shortages: u64,
    /// Whether the buffer belongs to the app. Such a buffer is not reused, and its bytes are not counted.
    lent: bool,
    purpose: Purpose,
}

impl PooledBuffer {
    /// Whether the buffer belongs to the pool, and not to the app.
    pub fn is_own(&self) -> bool {
        !self.lent
    }

    /// Wraps a buffer of the app.
    #[cfg(feature = "wgpu-interop")]
    pub fn lent(buffer: BufferId) -> PooledBuffer {
        PooledBuffer { buffer, bytes: 0, shortages: 0, lent: true, purpose: Purpose::Upload }
    }
}

/// The number of submissions and uploads in one period of `recent`. A loop reaches its largest step more often than that.
const LATELY: u32 = 64;

/// The bytes, used and pooled, that are always allowed.
const LEAST: u64 = 32 << 20;

/// Rounds a size up to a class. Eight classes per doubling waste at most an eighth, and similar sizes share buffers. `most` is
/// the size of the machine's largest buffer. A size is not rounded up beyond it.
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
    /// Creates an empty pool that keeps at most `most` bytes.
    pub fn new(most: u64) -> Pool {
        Pool {
            vacant: BTreeMap::new(),
            waiting: None,
            stale: Vec::new(),
            shortages: 0,
            given: 0,
            recent: [0; 2],
            calls: 0,
            most,
            limit: None,
            pooled: 0,
            used: 0,
            used_of: [0; 3],
            peak: 0,
            peak_of: [0; 3],
            peak_by: "nothing".into(),
            peaked: false,
            evicted: 0,
        }
    }

    /// Takes a buffer of at least `bytes` bytes. Its contents are undefined.
    pub fn take(
        &mut self,
        backend: &dyn Backend,
        bytes: u64,
        fit: Fit,
        purpose: Purpose,
    ) -> Result<PooledBuffer> {
        self.free_stale(backend);
        // A buffer up to a quarter larger is accepted. Of the smallest size that fits, the most recently returned one is taken.
        let (bytes, most) = match fit {
            Fit::Class => {
                let bytes = class(bytes, backend.limits().binding_bytes);
                (bytes, bytes + bytes / 4)
            }
            Fit::Exact => (bytes, bytes),
        };
        let near = self.vacant.range(bytes..=most).next().map(|(&size, _)| size);
        let held = match near.and_then(|size| self.pick(size, VecDeque::pop_back)) {
            Some(held) => PooledBuffer { purpose, ..held },
            None => {
                let buffer = self.allocate(backend, bytes)?;
                PooledBuffer { buffer, bytes, shortages: self.shortages, lent: false, purpose }
            }
        };
        self.used += held.bytes;
        self.used_of[purpose as usize] += held.bytes;
        if self.used > self.peak {
            (self.peak, self.peak_of, self.peaked) = (self.used, self.used_of, true);
        }
        self.recent[0] = self.recent[0].max(self.used);
        self.shrink(backend);
        Ok(held)
    }

    /// Removes a buffer of this size from one end of its list.
    fn pick(
        &mut self,
        size: u64,
        end: fn(&mut VecDeque<Vacant>) -> Option<Vacant>,
    ) -> Option<PooledBuffer> {
        let list = self.vacant.get_mut(&size)?;
        let found = end(list)?.held;
        if list.is_empty() {
            self.vacant.remove(&size);
        }
        self.pooled -= found.bytes;
        Some(found)
    }

    /// Allocates a buffer. If memory is short or limited, unused buffers are freed first.
    fn allocate(&mut self, backend: &dyn Backend, bytes: u64) -> Result<BufferId> {
        if let Some(limit) = self.limit {
            let needed = self.used.saturating_add(bytes);
            if needed > limit {
                let used = self.used;
                let message = format!(
                    "memory: tensors must fit into the memory limit of {limit} bytes, got {bytes} in addition to {used} in use"
                );
                return Err(Error::new(ErrorKind::Memory, message));
            }
            if needed.saturating_add(self.pooled) > limit {
                self.trim(backend);
            }
        }
        let short = |error: &Error| error.kind() == ErrorKind::Memory;
        let mut allocated = backend.allocate(bytes);
        if self.pooled > 0 && allocated.as_ref().is_err_and(short) {
            self.trim(backend);
            allocated = backend.allocate(bytes);
        }
        allocated.map_err(|error| match short(&error) {
            true => {
                let used = format!(
                    "{} bytes are in use, and the device's `memory()` lists what holds them",
                    self.used
                );
                Error::new(ErrorKind::Memory, format!("{}; {used}", error.message()))
            }
            false => error,
        })
    }

    /// Returns a buffer to the pool.
    pub fn give(&mut self, backend: &dyn Backend, held: PooledBuffer) {
        if let Some(waiting) = &mut self.waiting {
            return waiting.push(held);
        }
        self.used -= held.bytes;
        self.used_of[held.purpose as usize] -= held.bytes;
        if held.lent {
            backend.free(held.buffer);
        } else if held.shortages == self.shortages {
            let vacant = Vacant { held, given: self.given };
            self.vacant.entry(held.bytes).or_default().push_back(vacant);
            self.given += 1;
            self.pooled += held.bytes;
            self.shrink(backend);
        } else {
            self.stale.push(held);
        }
    }

    /// Stores the cause of the peak, if the last request reached a new one.
    pub fn explain_peak(&mut self, by: impl FnOnce() -> String) {
        if std::mem::take(&mut self.peaked) {
            self.peak_by = by();
        }
    }

    /// Returns the bytes of buffers that will not be reused.
    pub fn stale_bytes(&self) -> u64 {
        self.stale.iter().map(|held| held.bytes).sum()
    }

    /// Holds returned buffers back until [`Pool::release_held`].
    pub fn hold(&mut self) {
        self.waiting.get_or_insert_default();
    }

    /// Releases the buffers that were held back.
    pub fn release_held(&mut self, backend: &dyn Backend) {
        for held in self.waiting.take().into_iter().flatten() {
            self.give(backend, held);
        }
    }

    /// Counts a submission or an upload, and ends a period of `recent` from time to time.
    pub fn called(&mut self, backend: &dyn Backend) {
        self.calls += 1;
        if self.calls == LATELY {
            self.calls = 0;
            self.recent = [self.used, self.recent[0]];
            self.shrink(backend);
        }
    }

    /// Frees buffers beyond the limits, the least recently returned first. Used and pooled bytes together are at most a quarter
    /// more than the recent peak.
    pub fn shrink(&mut self, backend: &dyn Backend) {
        let recent = self.recent[0].max(self.recent[1]);
        let ceiling = recent.saturating_add(recent / 4).max(LEAST);
        let most = self.most.min(ceiling.saturating_sub(self.used));
        while self.pooled > most {
            let first = |list: &VecDeque<Vacant>| list.front().map(|vacant| vacant.given);
            let oldest = self.vacant.iter().min_by_key(|(_, list)| first(list));
            let size = oldest.map(|(&size, _)| size);
            let Some(held) = size.and_then(|size| self.pick(size, VecDeque::pop_front)) else {
                return;
            };
            self.evicted += 1;
            backend.free(held.buffer);
        }
    }

    /// Retires all buffers that exist now, after the backend reported that memory ran out. None of them will be reused.
    pub fn invalidate(&mut self, backend: &dyn Backend) {
        self.shortages += 1;
        self.trim(backend);
    }

    fn free_stale(&mut self, backend: &dyn Backend) {
        for held in std::mem::take(&mut self.stale) {
            backend.free(held.buffer);
        }
    }

    /// Frees all unused buffers.
    pub fn trim(&mut self, backend: &dyn Backend) {
        for vacant in std::mem::take(&mut self.vacant).into_values().flatten() {
            backend.free(vacant.held.buffer);
        }
        self.pooled = 0;
        self.free_stale(backend);
    }
}
