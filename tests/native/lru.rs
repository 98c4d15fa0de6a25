//! Compares the least-recently-used map with a list.

use std::sync::Arc;
use warpweft::lru::Lru;

/// The keys in the order of their use, found by searching a list.
#[derive(Default)]
struct Plain(Vec<(u32, u32)>);

impl Plain {
    fn used(&mut self, key: u32) -> Option<u32> {
        let at = self.0.iter().position(|entry| entry.0 == key)?;
        let entry = self.0.remove(at);
        self.0.push(entry);
        Some(entry.1)
    }
}

#[test]
fn it_does_what_a_list_does() {
    let (mut lru, mut plain) = (Lru::default(), Plain::default());
    let mut state = 7u32;
    let mut spots = Vec::new();
    for step in 0..20_000 {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        let (key, what) = (state >> 8 & 63, state >> 20 & 7);
        match what {
            0..3 => {
                plain.0.retain(|entry| entry.0 != key);
                plain.0.push((key, step));
                spots.push((key, step, lru.insert(key, step, u64::from(key))));
            }
            3..5 => assert_eq!(lru.get(&key).copied(), plain.used(key)),
            5 => {
                let wanted = plain.0.iter().position(|entry| entry.0 == key);
                assert_eq!(lru.remove(&key), wanted.map(|at| plain.0.remove(at).1));
            }
            6 => {
                let Some(&(key, value, spot)) = spots.get(state as usize % spots.len().max(1))
                else {
                    continue;
                };
                let there = plain.0.contains(&(key, value));
                assert_eq!(lru.at(spot).is_some(), there);
                assert_eq!(lru.touch(spot), there);
                if there {
                    plain.used(key);
                }
            }
            _ => {
                while lru.evict(20, 900).is_some() {
                    plain.0.remove(0);
                }
                let bytes: u64 = plain.0.iter().map(|entry| u64::from(entry.0)).sum();
                assert!(lru.len() <= 20 && (lru.bytes() <= 900 || lru.len() == 1));
                assert_eq!((lru.len(), lru.bytes()), (plain.0.len(), bytes));
            }
        }
    }
    assert!(lru.evicted() > 100, "{}", lru.evicted());
    let mut left = Vec::new();
    while let Some((_, key, value)) = lru.evict(0, 0) {
        left.push((key, value));
    }
    assert_eq!(left, plain.0);
    assert!(lru.is_empty() && lru.bytes() == 0);
}

#[test]
fn what_nobody_holds_goes_first() {
    let (mut values, mut holders) = (Lru::default(), Lru::default());
    for n in 0..6 {
        let value = Arc::new(n);
        values.insert(n, value.clone(), 0);
        if n % 2 == 0 {
            holders.insert(n, vec![value], 0);
        }
    }
    values.shrink(4, &mut holders);
    let there = |lru: &mut Lru<i32, Arc<i32>>| (0..6).filter(|n| lru.contains(n)).collect();
    let left: Vec<i32> = there(&mut values);
    assert_eq!((left, holders.len()), (vec![0, 2, 4, 5], 3));
    holders.get(&0);
    values.shrink(2, &mut holders);
    let left: Vec<i32> = there(&mut values);
    assert_eq!((left, holders.len(), values.evicted()), (vec![0, 4], 2, 4));
    // The last holder keeps its value.
    values.shrink(0, &mut holders);
    let left: Vec<i32> = there(&mut values);
    assert_eq!((left, holders.len()), (vec![0], 1));
}
