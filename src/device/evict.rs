//! Eviction: memory that can be refilled is emptied when memory is short. The history of dropped values comes first, then keys
//! and values of contexts, then the weights of models that are not in use.
//!
//! An [`Evictable`] holds the contents. If an allocation fails, the device evicts one and tries again ([`Device::evicting`]).
//! It chooses the contents of the lowest rank that were used least recently and are not in use. The owner finds them missing at
//! the next use, and fills them in again.

use super::Device;
use crate::backend::Shared;
use crate::error::{ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

/// The order of eviction. Lower ranks are evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Keys and values, which can be computed again.
    Cache,
    /// Weights, which can be read from their file again.
    Weights,
}

/// The number of uses of all evictables so far.
static USES: AtomicU64 = AtomicU64::new(0);

/// Contents that may be evicted while they are not in use.
pub(crate) struct Evictable<T> {
    contents: Mutex<Option<T>>,
    /// The value of [`USES`] at the last use.
    used: AtomicU64,
    /// Whether these contents may be evicted now.
    may_evict: fn(&T) -> bool,
}

impl<T: Shared + 'static> Evictable<T> {
    /// Creates an evictable without contents.
    pub fn new(may_evict: fn(&T) -> bool) -> Arc<Evictable<T>> {
        Arc::new(Evictable { contents: Mutex::new(None), used: AtomicU64::new(0), may_evict })
    }

    /// Locks the contents. They are not evicted while the guard exists.
    pub fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.used.store(USES.fetch_add(1, Relaxed), Relaxed);
        // A panic in another thread leaves the contents as they were between two calls.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Allows a device to evict the contents. Repeated calls have no further effect.
    pub fn register(self: &Arc<Self>, device: &Device, rank: Rank) {
        let own: Weak<Self> = Arc::downgrade(self);
        let mut evictables = device.evictables();
        evictables.retain(|(_, other)| {
            other.strong_count() > 0 && !std::ptr::addr_eq(other.as_ptr(), own.as_ptr())
        });
        evictables.push((rank, own));
    }
}

/// An evictable with contents of any type.
pub(super) trait Evict: Shared {
    /// Returns the value of [`USES`] at the last use.
    fn used(&self) -> u64;

    /// Drops the contents. Returns false if there are none, or if they are in use.
    fn evict(&self) -> bool;
}

impl<T: Shared> Evict for Evictable<T> {
    fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    fn evict(&self) -> bool {
        let mut contents = match self.contents.try_lock() {
            Ok(contents) => contents,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return false,
        };
        let evicted = contents.take_if(|contents| (self.may_evict)(contents));
        drop(contents);
        evicted.is_some()
    }
}

/// The contents that a device may evict.
pub(super) type Evictables = Vec<(Rank, Weak<dyn Evict>)>;

impl Device {
    fn evictables(&self) -> MutexGuard<'_, Evictables> {
        // No code panics while holding this lock.
        self.inner.evictables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the history of values that no tensor holds. If there is none, evicts one evictable. Returns false if all are empty
    /// or in use.
    pub(crate) fn evict_one(&self) -> bool {
        if self.state().drop_retired_history(&*self.inner.backend) {
            return true;
        }
        let upgrade = |(rank, one): &(Rank, Weak<dyn Evict>)| Some((*rank, one.upgrade()?));
        let mut evictables: Vec<(Rank, Arc<dyn Evict>)> =
            self.evictables().iter().filter_map(upgrade).collect();
        evictables.sort_by_key(|(rank, one)| (*rank, one.used()));
        evictables.iter().any(|(_, one)| one.evict())
    }

    /// Calls `work`, and repeats it while it runs out of memory and something can be evicted. `work` must not hold locks of the
    /// device when it returns.
    pub(crate) fn evicting<T>(&self, mut work: impl FnMut() -> Result<T>) -> Result<T> {
        loop {
            match work() {
                Err(error) if error.kind() == ErrorKind::Memory && self.evict_one() => {}
                done => return done,
            }
        }
    }
}
