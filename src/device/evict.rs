//! Memory that is given up where memory is short, because its contents can be made again: keys and values of contexts first,
//! then the weights of models that nothing uses.
//!
//! A [`Slot`] holds such contents. Where an allocation fails, the device empties the slot of the lowest rank that was used
//! least recently and that nobody uses now, and tries again ([`Device::evicting`]). Whoever needs the contents then finds the
//! slot empty, and fills it.

use super::Device;
use crate::backend::Shared;
use crate::error::{ErrorKind, Result};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError, Weak};

/// Contents of a lower rank are evicted first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// Keys and values, which are computed again.
    Cache,
    /// Weights, which are read from their file again.
    Weights,
}

/// Counts the uses of all slots.
static USES: AtomicU64 = AtomicU64::new(0);

/// Contents that may be evicted while nobody uses them.
pub(crate) struct Slot<T> {
    contents: Mutex<Option<T>>,
    /// The number of the last use.
    used: AtomicU64,
    /// Whether these contents may be evicted now.
    may_evict: fn(&T) -> bool,
}

impl<T: Shared + 'static> Slot<T> {
    /// An empty slot.
    pub fn new(may_evict: fn(&T) -> bool) -> Arc<Slot<T>> {
        Arc::new(Slot { contents: Mutex::new(None), used: AtomicU64::new(0), may_evict })
    }

    /// The contents, which are not evicted as long as the guard is there.
    pub fn lock(&self) -> MutexGuard<'_, Option<T>> {
        self.used.store(USES.fetch_add(1, Relaxed), Relaxed);
        // A panic elsewhere leaves the contents as they were between two calls.
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a device evict the contents from now on. Once is enough, and more do no harm.
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
    /// The number of the last use.
    fn used(&self) -> u64;

    /// Empties the slot, unless it is empty or in use.
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
        // Nothing panics while it is locked.
        self.inner.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Empties one slot; false if all are empty or in use.
    pub(crate) fn evict_one(&self) -> bool {
        let there = |(rank, slot): &(Rank, Weak<dyn Evict>)| Some((*rank, slot.upgrade()?));
        let mut slots: Vec<(Rank, Arc<dyn Evict>)> =
            self.slots().iter().filter_map(there).collect();
        slots.sort_by_key(|(rank, slot)| (*rank, slot.used()));
        slots.iter().any(|(_, slot)| slot.evict())
    }

    /// Does `work`, and again as long as memory is short for it and there is something to evict. It must not hold locks of the
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
