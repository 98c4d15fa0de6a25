//! A map that evicts the least recently used entry, for caches. Every call takes constant time, except those that visit all
//! entries.

// Only bind groups use entry ids.
#![cfg_attr(not(feature = "gpu"), allow(dead_code))]

use rustc_hash::FxHashMap;
use std::borrow::Borrow;
use std::hash::Hash;
use std::sync::Arc;

/// The id of an entry, if it still exists. Access by id needs no hashing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EntryId {
    at: usize,
    /// The unique number of the entry.
    number: u64,
}

#[derive(Debug)]
struct Entry<K, V> {
    number: u64,
    key: K,
    value: V,
    bytes: u64,
    /// The neighbors by the time of their last use, or `NONE` at the ends.
    older: usize,
    newer: usize,
}

const NONE: usize = usize::MAX;

/// A map that keeps entries in the order of their last use. Keys are stored twice, so they should be numbers or shared
/// pointers.
#[derive(Debug)]
pub struct Lru<K, V> {
    places: FxHashMap<K, usize>,
    entries: Vec<Option<Entry<K, V>>>,
    vacant: Vec<usize>,
    oldest: usize,
    newest: usize,
    inserted: u64,
    bytes: u64,
    evicted: u64,
}

impl<K, V> Default for Lru<K, V> {
    fn default() -> Lru<K, V> {
        Lru {
            places: FxHashMap::default(),
            entries: Vec::new(),
            vacant: Vec::new(),
            oldest: NONE,
            newest: NONE,
            inserted: 0,
            bytes: 0,
            evicted: 0,
        }
    }
}

impl<K: Hash + Eq + Clone, V> Lru<K, V> {
    /// Returns the number of entries.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether the map has no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sum of the bytes that entries were inserted with.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of evicted entries.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Finds the entry of a key, and marks it as used.
    pub fn find<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<EntryId>
    where
        K: Borrow<Q>,
    {
        let at = *self.places.get(key)?;
        self.renew(at);
        Some(EntryId { at, number: self.entries[at].as_ref()?.number })
    }

    /// Returns the value of a key, and marks it as used.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key)?.at;
        self.entries[at].as_mut().map(|entry| &mut entry.value)
    }

    /// Whether a key has a value. Does not mark it as used.
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.places.contains_key(key)
    }

    /// Whether the entry still exists. Marks it as used.
    pub fn touch(&mut self, spot: EntryId) -> bool {
        let there = self.at(spot).is_some();
        if there {
            self.renew(spot.at);
        }
        there
    }

    /// Returns the value of an entry that still exists. Does not mark it as used.
    pub fn at(&self, spot: EntryId) -> Option<&V> {
        let entry = self.entries.get(spot.at)?.as_ref();
        entry.filter(|entry| entry.number == spot.number).map(|entry| &entry.value)
    }

    /// Adds an entry of `bytes` bytes, marked as used. Removes an entry with the same key.
    pub fn insert(&mut self, key: K, value: V, bytes: u64) -> EntryId {
        self.remove(&key);
        self.inserted += 1;
        let at = self.vacant.pop().unwrap_or_else(|| {
            self.entries.push(None);
            self.entries.len() - 1
        });
        let number = self.inserted;
        self.places.insert(key.clone(), at);
        self.entries[at] = Some(Entry { number, key, value, bytes, older: NONE, newer: NONE });
        self.bytes += bytes;
        self.append(at);
        EntryId { at, number }
    }

    /// Removes an entry.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = *self.places.get(key)?;
        self.take(at).map(|(_, value)| value)
    }

    /// Removes an entry that still exists.
    pub fn remove_at(&mut self, spot: EntryId) -> Option<(K, V)> {
        self.at(spot)?;
        self.take(spot.at)
    }

    /// Removes the least recently used entry if the map exceeds `most` entries, or `most_bytes` bytes with more than one
    /// entry. Callers repeat this until it returns `None`.
    pub fn evict(&mut self, most: usize, most_bytes: u64) -> Option<(EntryId, K, V)> {
        let (len, at) = (self.len(), self.oldest);
        if len <= most && (len <= 1 || self.bytes <= most_bytes) {
            return None;
        }
        let number = self.entries.get(at)?.as_ref()?.number;
        let (key, value) = self.take(at)?;
        self.evicted += 1;
        Some((EntryId { at, number }, key, value))
    }

    /// Removes all entries that `keep` returns false for.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        for at in 0..self.entries.len() {
            if self.entries[at].as_ref().is_some_and(|entry| !keep(&entry.value)) {
                self.take(at);
            }
        }
    }

    /// Removes all entries.
    pub fn drain(&mut self) -> Vec<V> {
        (0..self.entries.len()).filter_map(|at| self.take(at)).map(|(_, value)| value).collect()
    }

    fn take(&mut self, at: usize) -> Option<(K, V)> {
        self.entries.get(at)?.as_ref()?;
        self.unlink(at);
        let entry = self.entries[at].take()?;
        self.places.remove(&entry.key);
        self.vacant.push(at);
        self.bytes -= entry.bytes;
        Some((entry.key, entry.value))
    }

    /// Marks an entry as used.
    fn renew(&mut self, at: usize) {
        if self.newest != at {
            self.unlink(at);
            self.append(at);
        }
    }

    fn unlink(&mut self, at: usize) {
        let Some(entry) = &self.entries[at] else { return };
        let (older, newer) = (entry.older, entry.newer);
        match self.entries.get_mut(older) {
            Some(Some(entry)) => entry.newer = newer,
            _ => self.oldest = newer,
        }
        match self.entries.get_mut(newer) {
            Some(Some(entry)) => entry.older = older,
            _ => self.newest = older,
        }
    }

    fn append(&mut self, at: usize) {
        let last = self.newest;
        if let Some(entry) = &mut self.entries[at] {
            (entry.older, entry.newer) = (last, NONE);
        }
        match self.entries.get_mut(last) {
            Some(Some(entry)) => entry.newer = at,
            _ => self.oldest = at,
        }
        self.newest = at;
    }
}

impl<K: Hash + Eq + Clone, V> Lru<K, Arc<V>> {
    /// Evicts values until at most `most` are left. Values that are not shared are evicted first. If they are not enough, the
    /// least recently used `holders` are evicted, except the last one.
    pub fn shrink<H: Hash + Eq + Clone, B>(&mut self, most: usize, holders: &mut Lru<H, B>) {
        self.evict_unheld(most);
        while self.len() > most && holders.evict(1, u64::MAX).is_some() {
            self.evict_unheld(most);
        }
    }

    fn evict_unheld(&mut self, most: usize) {
        let mut at = self.oldest;
        while self.len() > most {
            let Some(Some(entry)) = self.entries.get(at) else { return };
            let (next, held) = (entry.newer, Arc::strong_count(&entry.value) > 1);
            if !held {
                self.take(at);
                self.evicted += 1;
            }
            at = next;
        }
    }
}
