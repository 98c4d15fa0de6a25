//! Eviction: memory that can be refilled is emptied when memory is short. Keys and values of contexts come first, then the
//! weights of models that are not in use.
//!
//! A [`Slot`] holds the contents. If an allocation fails, the device empties one slot and tries again ([`Device::evicting`]).
//! It chooses the slot of the lowest rank that was used least recently and is not in use. The owner finds its slot empty at the
//! next use, and refills it.

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

/// The number of uses of all slots so far.
static USES: AtomicU64 = AtomicU64::new(0);

/// Contents that may be evicted while they are not in use.
pub(crate) struct Slot<T> {
    contents: Mutex<Option<T>>,
    /// The value of [`USES`] at the last use.
    used: AtomicU64,
    /// Whether these contents may be evicted now.
    may_evict: fn(&T) -> bool,
}

impl<T: Shared + 'static> Slot<T> {
    /// Creates an empty slot.
    pub fn new(may_evict: fn(&T) -> bool) -> Arc<Slot<T>> {
        Arc::new(Slot { contents: Mutex::new(None), used: AtomicU64::new(0), may_evict })
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
        let mut slots = device.slots();
        slots.retain(|(_, slot)| {
            slot.strong_count() > 0 && !std::ptr::addr_eq(slot.as_ptr(), own.as_ptr())
        });
        slots.push((rank, own));
    }
}

/// A slot with contents of any type.
pub(super) trait Evict: Shared {
    /// Returns the value of [`USES`] at the last use.
    fn used(&self) -> u64;

    /// Empties the slot. Returns false if the slot is empty or in use.
    fn evict(&self) -> bool;
}

impl<T: Shared> Evict for Slot<T> {
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

/// The slots that a device may empty.
pub(super) type Slots = Vec<(Rank, Weak<dyn Evict>)>;

impl Device {
    fn slots(&self) -> MutexGuard<'_, Slots> {
        // No code panics while holding this lock.
        self.inner.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties one slot. Returns false if all slots are empty or in use.
    pub(crate) fn evict_one(&self) -> bool {
        let there = |(rank, slot): &(Rank, Weak<dyn Evict>)| Some((*rank, slot.upgrade()?));
        let mut slots: Vec<(Rank, Arc<dyn Evict>)> =
            self.slots().iter().filter_map(there).collect();
        slots.sort_by_key(|(rank, slot)| (*rank, slot.used()));
        slots.iter().any(|(_, slot)| slot.evict())
    }

    /// Calls `work`, and repeats it while it runs out of memory and a slot can be emptied. `work` must not hold locks of the
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
