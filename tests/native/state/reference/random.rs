//! Random numbers, as the papers of the algorithms define them.

/// Returns the seed at a position of a generator's sequence: the finalizer of MurmurHash3.
pub fn seed(first: u32, position: u32) -> u32 {
    let mut x = first ^ position.wrapping_mul(0x9e37_79b9);
    x = (x ^ (x >> 16)).wrapping_mul(0x85eb_ca6b);
    x = (x ^ (x >> 13)).wrapping_mul(0xc2b2_ae35);
    x ^ (x >> 16)
}

/// Returns the first word of Threefry-2x32 with 20 rounds, for the counter `(n, 0)` and the key `(seed, 0)` (Salmon et al.
/// 2011).
fn word(n: u32, seed: u32) -> u32 {
    let keys = [seed, 0, seed ^ 0x1bd1_1bda];
    let (mut x, mut y) = (n.wrapping_add(keys[0]), keys[1]);
    for group in 0..5 {
        for rotation in [[13, 15, 26, 6], [17, 29, 16, 24]][group % 2] {
            x = x.wrapping_add(y);
            y = y.rotate_left(rotation) ^ x;
        }
        x = x.wrapping_add(keys[(group + 1) % 3]);
        y = y.wrapping_add(keys[(group + 2) % 3]).wrapping_add(group as u32 + 1);
    }
    x
}

/// Returns uniformly distributed numbers in [0, 1), which `f32` represents exactly.
pub fn uniform(count: usize, seed: u32) -> Vec<f64> {
    (0..count as u32).map(|n| f64::from(word(n, seed) >> 8) / 16_777_216.0).collect()
}

#[test]
fn words_are_those_of_the_paper() {
    // The known answer of the authors' library for a counter and a key of zeros.
    assert_eq!(word(0, 0), 0x6b20_0159);
}
