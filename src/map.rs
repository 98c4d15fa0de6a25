//! A map by hash, in little code: the browser's core is paid for by the byte, and each type of the standard library's
//! map brings a copy of its machinery.

use std::hash::{Hash, Hasher};

/// A map whose entries are visited in the order they came in, until one is removed.
#[derive(Clone, Debug)]
pub struct Map<K, V> {
    entries: Vec<(K, V)>,
    table: Table,
}

impl<K, V> Default for Map<K, V> {
    fn default() -> Map<K, V> {
        Map::new()
    }
}

impl<K, V> Map<K, V> {
    /// A map without entries.
    pub const fn new() -> Map<K, V> {
        Map { entries: Vec::new(), table: Table { slots: Vec::new(), taken: 0 } }
    }
}

impl<K: Hash + Eq, V> Map<K, V> {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where the key's entry is.
    fn position(&self, key: &K) -> Option<usize> {
        let entries = &self.entries;
        let slot = self.table.find(hash(key), &mut |at| entries[at].0 == *key)?;
        Some(self.table.slots[slot].1 as usize)
    }

    /// Whether the key has a value.
    pub fn contains_key(&self, key: &K) -> bool {
        self.position(key).is_some()
    }

    /// The key's value.
    pub fn get(&self, key: &K) -> Option<&V> {
        self.position(key).map(|at| &self.entries[at].1)
    }

    /// The key's value, to be changed.
    pub fn get_mut(&mut self, key: &K) -> Option<&mut V> {
        self.position(key).map(|at| &mut self.entries[at].1)
    }

    /// Gives the key a value; the one it had.
    pub fn insert(&mut self, key: K, value: V) -> Option<V> {
        if let Some(old) = self.get_mut(&key) {
            return Some(std::mem::replace(old, value));
        }
        self.table.add(hash(&key), self.entries.len());
        self.entries.push((key, value));
        None
    }

    /// Takes the key's value out; the last entry takes its place.
    pub fn remove(&mut self, key: &K) -> Option<V> {
        let at = self.position(key)?;
        Some(self.take(at))
    }

    /// Takes the value of an entry out; the last entry takes its place.
    fn take(&mut self, at: usize) -> V {
        let (key, value) = self.entries.swap_remove(at);
        self.table.remove(hash(&key), at);
        if let Some((moved, _)) = self.entries.get(at) {
            self.table.renumber(hash(moved), self.entries.len(), at);
        }
        value
    }

    /// All entries.
    pub fn entries(&self) -> &[(K, V)] {
        &self.entries
    }

    /// Takes out all values for which `which` holds.
    pub fn remove_where(&mut self, which: fn(&V) -> bool) -> Vec<V> {
        let mut removed = Vec::new();
        let mut at = 0;
        while at < self.entries.len() {
            if which(&self.entries[at].1) {
                removed.push(self.take(at));
            } else {
                at += 1;
            }
        }
        removed
    }

    /// All entries, after which there are none.
    pub fn drain(&mut self) -> Vec<(K, V)> {
        self.table = Table::default();
        std::mem::take(&mut self.entries)
    }
}

/// Positions by hash: each lies in the first slot that was vacant from its hash on. At most half of them are taken.
#[derive(Clone, Debug, Default)]
struct Table {
    /// Hash and position; a power of two of them, or none.
    slots: Vec<(u32, u32)>,
    taken: usize,
}

const VACANT: u32 = u32::MAX;

impl Table {
    /// The slot of a position with this hash for which `is` holds.
    fn find(&self, hash: u32, is: &mut dyn FnMut(usize) -> bool) -> Option<usize> {
        let mut slot = hash as usize;
        while !self.slots.is_empty() {
            slot &= self.slots.len() - 1;
            let (other, at) = self.slots[slot];
            if at == VACANT {
                break;
            }
            if other == hash && is(at as usize) {
                return Some(slot);
            }
            slot += 1;
        }
        None
    }

    fn add(&mut self, hash: u32, at: usize) {
        if self.taken * 2 >= self.slots.len() {
            let size = (self.slots.len() * 2).max(8);
            let old = std::mem::replace(&mut self.slots, vec![(0, VACANT); size]);
            for (hash, at) in old {
                if at != VACANT {
                    self.place(hash, at);
                }
            }
        }
        self.place(hash, at as u32);
        self.taken += 1;
    }

    fn place(&mut self, hash: u32, at: u32) {
        let mask = self.slots.len() - 1;
        let mut slot = hash as usize & mask;
        while self.slots[slot].1 != VACANT {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = (hash, at);
    }

    fn remove(&mut self, hash: u32, at: usize) {
        let Some(mut slot) = self.find(hash, &mut |other| other == at) else { return };
        self.slots[slot].1 = VACANT;
        // What follows without a gap may have been pushed on by this one: it is placed again.
        loop {
            slot = (slot + 1) & (self.slots.len() - 1);
            let (hash, at) = self.slots[slot];
            if at == VACANT {
                break;
            }
            self.slots[slot].1 = VACANT;
            self.place(hash, at);
        }
        self.taken -= 1;
    }

    fn renumber(&mut self, hash: u32, from: usize, to: usize) {
        if let Some(slot) = self.find(hash, &mut |at| at == from) {
            self.slots[slot].1 = to as u32;
        }
    }
}

fn hash(key: &impl Hash) -> u32 {
    let mut mixer = Mixer(0);
    key.hash(&mut mixer);
    // The upper bits have seen all the lower ones.
    (mixer.0 >> 32) as u32
}

/// Mixes eight bytes at a time by a multiplication, as FxHash does.
struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let word = part.iter().fold(0, |word, &byte| word << 8 | u64::from(byte));
            self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::Map;
    use std::collections::HashMap;

    /// What the standard library's map does, for many keys that come and go.
    #[test]
    fn like_the_standard_map() {
        let (mut map, mut other) = (Map::default(), HashMap::new());
        let mut random = 1u32;
        for step in 0..20_000 {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let key = random >> 8 & 0x1ff;
            match random >> 28 {
                0..8 => assert_eq!(map.insert(key, step), other.insert(key, step)),
                8..14 => assert_eq!(map.remove(&key), other.remove(&key)),
                _ => assert_eq!(map.get(&key), other.get(&key)),
            }
            assert_eq!(map.len(), other.len());
        }
        let mut left = map.drain();
        left.sort_unstable();
        let mut wanted: Vec<(u32, i32)> = other.into_iter().collect();
        wanted.sort_unstable();
        assert_eq!(left, wanted);
        assert!(map.is_empty() && !map.contains_key(&1));
    }
}
