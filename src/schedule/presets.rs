//! Which kernels a machine runs before anything is measured.

use crate::kernel::{KernelConfig, Tile, Transpose};

/// Whether these words about an adapter (its name, its maker, its driver) say that it is a software GPU.
pub fn is_software(words: &str) -> bool {
    has(words, &["llvmpipe", "lavapipe", "swiftshader", "basic render"])
}

/// The kernels that are usual on a GPU of which these words are known; `software` where it is one that computes on the CPU.
pub fn preset(words: &str, software: bool) -> KernelConfig {
    match software {
        // Barriers cost it little: measured there (BENCHMARKS.md), and so for products alone.
        true if has(words, &["llvmpipe"]) => KernelConfig {
            matmul_tiles: [Tile::Thread, Tile::Large, Tile::Large],
            transpose: Transpose::Tiled,
            ..KernelConfig::EMULATED
        },
        true => KernelConfig::EMULATED,
        false => KernelConfig::GPU,
    }
}

fn has(words: &str, any: &[&str]) -> bool {
    let words = words.to_ascii_lowercase();
    any.iter().any(|word| words.contains(word))
}
