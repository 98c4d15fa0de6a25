//! Sorting that is small in WebAssembly.
//!
//! Problem: std compiles its sorts once for each type of element, and each copy takes 2 to 3 KB of a page's download. The lists
//! here are short.
//! Idea: one function sorts positions by a comparison behind a pointer, and returns the swaps that sort the elements.
//! Cost: a merge sort with an indirect call for each comparison. Native builds use std's sorts.
//! Example: `[30, 10, 20]` has the sorted positions `[1, 2, 0]`, so the swaps are `(0, 1)` and `(1, 2)`.

use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Sorts a list. Equal elements keep their order.
pub fn sort<T: Ord>(list: &mut [T]) {
    by(list, T::cmp);
}

/// Sorts a list by a key of each element. Elements with equal keys keep their order.
pub fn by_key<T, K: Ord>(list: &mut [T], mut key: impl FnMut(&T) -> K) {
    by(list, |a, b| key(a).cmp(&key(b)));
}

/// Sorts a list by a comparison. Equal elements keep their order.
pub fn by<T>(list: &mut [T], mut compare: impl FnMut(&T, &T) -> Ordering) {
    if cfg!(not(target_arch = "wasm32")) {
        return list.sort_by(compare);
    }
    for (a, b) in swaps(list.len(), &mut |a, b| compare(&list[a], &list[b]).is_gt()) {
        list.swap(a, b);
    }
}

/// Creates a map from pairs. `collect` would first sort the pairs, with a sort that is compiled once for each type.
pub fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    for (key, value) in pairs {
        map.insert(key, value);
    }
    map
}

/// Returns the swaps that sort a list of `len` elements, in order. `is_greater` compares elements by their positions.
fn swaps(len: usize, is_greater: &mut dyn FnMut(usize, usize) -> bool) -> Vec<(usize, usize)> {
    let mut order = merged(len, is_greater);
    let mut swaps = Vec::new();
    // The swaps follow each cycle of the permutation.
    for start in 0..len {
        let mut at = start;
        while order[at] != start {
            let from = std::mem::replace(&mut order[at], at);
            swaps.push((at, from));
            at = from;
        }
        order[at] = at;
    }
    swaps
}

/// The positions `0..len`, sorted by merging runs of doubled length.
fn merged(len: usize, is_greater: &mut dyn FnMut(usize, usize) -> bool) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    let mut next = Vec::with_capacity(len);
    let mut run = 1;
    while run < len {
        for start in (0..len).step_by(2 * run) {
            let (middle, end) = ((start + run).min(len), (start + 2 * run).min(len));
            let (mut a, mut b) = (start, middle);
            while a < middle || b < end {
                let is_second = a == middle || b < end && is_greater(order[a], order[b]);
                let taken = if is_second { &mut b } else { &mut a };
                next.push(order[*taken]);
                *taken += 1;
            }
        }
        std::mem::swap(&mut order, &mut next);
        next.clear();
        run *= 2;
    }
    order
}

#[cfg(test)]
mod tests {
    use super::swaps;

    /// Lists of few different numbers, so that many are equal.
    #[test]
    fn swaps_sort_as_std_does() {
        for len in 0..70usize {
            for step in [1, 7, 11, 29] {
                let mut list: Vec<(usize, usize)> = (0..len).map(|i| (i * step % 13, i)).collect();
                let mut wanted = list.clone();
                wanted.sort_by_key(|&(key, _)| key);
                for (a, b) in swaps(len, &mut |a, b| list[a].0 > list[b].0) {
                    list.swap(a, b);
                }
                assert_eq!(list, wanted, "{len} elements");
            }
        }
    }
}
