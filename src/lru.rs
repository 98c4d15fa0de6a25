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
    /// The number of the entry, which is not used twice.
    number: u64,
}

#[derive(Debug)]
struct Entry<K, V> {
    number: u64,
    key: K,
    value: V,
    bytes: u64,
    /// The neighbours by the time of their last use; `NONE` at the ends.
    older: usize,
    newer: usize,
}

const NONE: usize = usize::MAX;

/// A map in the order of use. Keys are kept twice: they are numbers, or shared.
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
    /// How many entries there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether there are no values.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes that were said of those there are.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How many had to go because there were too many.
    pub fn evicted(&self) -> u64 {
        self.evicted
    }

    /// Where a key's entry is, which is used now.
    pub fn find<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<EntryId>
    where
        K: Borrow<Q>,
    {
        let at = *self.places.get(key)?;
        self.renew(at);
        Some(EntryId { at, number: self.entries[at].as_ref()?.number })
    }

    /// A key's value, which is used now.
    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&mut V>
    where
        K: Borrow<Q>,
    {
        let at = self.find(key)?.at;
        self.entries[at].as_mut().map(|entry| &mut entry.value)
    }

    /// Whether a key has a value. That is no use of it.
    pub fn contains<Q: Hash + Eq + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        self.places.contains_key(key)
    }

    /// Whether the entry is there still, which is used now.
    pub fn touch(&mut self, spot: EntryId) -> bool {
        let there = self.at(spot).is_some();
        if there {
            self.renew(spot.at);
        }
        there
    }

    /// The value at a place, if it is there still. That is no use of it.
    pub fn at(&self, spot: EntryId) -> Option<&V> {
        let entry = self.entries.get(spot.at)?.as_ref();
        entry.filter(|entry| entry.number == spot.number).map(|entry| &entry.value)
    }

    /// Adds an entry of so many bytes, used now; one with the same key goes.
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

    /// Takes an entry out.
    pub fn remove<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let at = *self.places.get(key)?;
        self.take(at).map(|(_, value)| value)
    }

    /// Takes the entry at a place out, if it is there still.
    pub fn remove_at(&mut self, spot: EntryId) -> Option<(K, V)> {
        self.at(spot)?;
        self.take(spot.at)
    }

    /// Takes out what was not used for longest where there are more entries than `most`, or more bytes and more than one
    /// entry. Called until there is nothing, it makes room.
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

    /// Takes all that `keep` does not want out.
    pub fn retain(&mut self, mut keep: impl FnMut(&V) -> bool) {
        for at in 0..self.entries.len() {
            if self.entries[at].as_ref().is_some_and(|entry| !keep(&entry.value)) {
                self.take(at);
            }
        }
    }

    /// Takes everything out.
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

    /// The entry is used now.
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
    /// Keeps at most so many values: first those go that nobody else holds, and where these are too few, `holders` that
    /// were not used for longest, but for the last of them.
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
