//! Buffers that are not in use, kept for the next one who needs such a size.

use crate::backend::{Backend, BufferId};
use crate::error::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, VecDeque};

/// Free buffers. Work on a device runs in order, so a buffer may be handed on as soon as the work that uses it
/// has been submitted.
///
/// Taking and giving one take constant time: there are a few hundred sizes at most, and each has a list. What lies here is
/// limited by what was in use lately: after much was needed once, the memory is given back.
pub struct Pool {
    /// By size, those given last at the end.
    vacant: BTreeMap<u64, VecDeque<Vacant>>,
    /// Given while a batch is made ready, which may read them.
    waiting: Option<Vec<PooledBuffer>>,
    /// Given back since memory ran out, but from before: machines say late that a buffer never came to be, so these are
    /// not handed on.
    stale: Vec<PooledBuffer>,
    /// How often memory ran out.
    shortages: u64,
    /// How many were given back.
    given: u64,
    /// The most bytes in use at once since some calls ago, and in as many calls before.
    recent: [u64; 2],
    /// Calls since then.
    calls: u32,
    /// Bytes that may lie here at most.
    pub most: u64,
    /// Bytes that may be allocated at most, in use or not.
    pub limit: Option<u64>,
    /// Bytes that lie here unused.
    pub pooled: u64,
    /// Bytes that are in use now.
    pub used: u64,
    /// Of these, by what they are for.
    used_of: [u64; 3],
    /// The most bytes that were ever in use at once.
    pub peak: u64,
    /// Of these, what was uploaded, computed, and needed on the way.
    pub peak_of: [u64; 3],
    /// What that was reached by.
    pub peak_by: String,
    /// Nobody has said yet what by.
    peaked: bool,
    /// How many buffers went because too many bytes lay here.
    pub evicted: u64,
}

/// A buffer that lies here, and how many were given before it.
struct Vacant {
    held: PooledBuffer,
    given: u64,
}

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Data from the host.
    Upload,
    /// The result of a batch.
    Result,
    /// What a batch needs on the way.
    Temporary,
}

/// How close the size of a buffer is to what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fit {
    /// Rounded up to one of a few sizes, so that others can have it afterwards.
    Class,
    /// No larger: it stays for long, as weights do.
    Exact,
}

/// A buffer with the size it was made with.
#[derive(Clone, Copy, Debug)]
pub struct PooledBuffer {
    pub buffer: BufferId,
    pub bytes: u64,
    shortages: u64,
    /// An app's buffer, which is not handed on. Its bytes are not counted.
    lent: bool,
    purpose: Purpose,
}

impl PooledBuffer {
    /// Whether it is not an app's buffer.
    pub fn is_own(&self) -> bool {
        !self.lent
    }

    /// An app's buffer.
    #[cfg(feature = "wgpu-interop")]
    pub fn lent(buffer: BufferId) -> PooledBuffer {
        PooledBuffer { buffer, bytes: 0, shortages: 0, lent: true, purpose: Purpose::Upload }
    }
}

/// Submissions and uploads after which the peak before them is forgotten: a loop has its largest step more often.
const LATELY: u32 = 64;

/// Bytes that may be held, whatever was in use.
const LEAST: u64 = 32 << 20;

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
    /// An empty one that keeps at most so many bytes.
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

    /// A buffer of at least `bytes` bytes with any contents.
    pub fn take(
        &mut self,
        backend: &dyn Backend,
        bytes: u64,
        fit: Fit,
        purpose: Purpose,
    ) -> Result<PooledBuffer> {
        self.free_stale(backend);
        // One up to a quarter larger will do: of the smallest, the one used last.
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

    /// Takes one of a size out of its list.
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

    /// Where memory is short, or limited, what lies unused is given back first.
    fn allocate(&mut self, backend: &dyn Backend, bytes: u64) -> Result<BufferId> {
        if let Some(limit) = self.limit {
            let needed = self.used.saturating_add(bytes);
            if needed > limit {
                let used = self.used;
                let message = format!(
                    "memory: the memory limit of {limit} bytes must not be exceeded, got {bytes} bytes more than {used} in use"
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
                    "{} bytes are in use, and `memory` of the device says by what",
                    self.used
                );
                Error::new(ErrorKind::Memory, format!("{}; {used}", error.message()))
            }
            false => error,
        })
    }

    /// The buffer is not needed any more.
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

    /// Says what the peak was reached by, if it was a moment ago.
    pub fn explain_peak(&mut self, by: impl FnOnce() -> String) {
        if std::mem::take(&mut self.peaked) {
            self.peak_by = by();
        }
    }

    /// Bytes that will not be handed on.
    pub fn stale_bytes(&self) -> u64 {
        self.stale.iter().map(|held| held.bytes).sum()
    }

    /// From now on what is given waits.
    pub fn hold(&mut self) {
        self.waiting.get_or_insert_default();
    }

    /// What waited is not needed any more.
    pub fn settle(&mut self, backend: &dyn Backend) {
        for held in self.waiting.take().into_iter().flatten() {
            self.give(backend, held);
        }
    }

    /// Something is submitted or uploaded: what was in use long before does not count any more.
    pub fn called(&mut self, backend: &dyn Backend) {
        self.calls += 1;
        if self.calls == LATELY {
            self.calls = 0;
            self.recent = [self.used, self.recent[0]];
            self.shrink(backend);
        }
    }

    /// Gives back what goes beyond the limits, what was given first before others: with what is in use, the pool holds a
    /// quarter more than was in use lately.
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

    /// Memory ran out some time ago: no buffer there is now will be handed on.
    pub fn invalidate(&mut self, backend: &dyn Backend) {
        self.shortages += 1;
        self.trim(backend);
    }

    fn free_stale(&mut self, backend: &dyn Backend) {
        for held in std::mem::take(&mut self.stale) {
            backend.free(held.buffer);
        }
    }

    /// Gives everything unused back to the system.
    pub fn trim(&mut self, backend: &dyn Backend) {
        for vacant in std::mem::take(&mut self.vacant).into_values().flatten() {
            backend.free(vacant.held.buffer);
        }
        self.pooled = 0;
        self.free_stale(backend);
    }
}
