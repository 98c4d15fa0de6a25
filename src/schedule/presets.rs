//! The preferred kernels of a machine before anything is measured.

use crate::kernel::{KernelConfig, Tile, Transpose};

/// Whether these words about an adapter (its name, vendor and driver) belong to a software GPU.
pub fn is_software(words: &str) -> bool {
    has(words, &["llvmpipe", "lavapipe", "swiftshader", "basic render"])
}

/// Returns the usual kernels for a GPU with these words about it. `software` is whether the GPU computes on the CPU.
pub fn preset(words: &str, software: bool) -> KernelConfig {
    match software {
        // Barriers are cheap on llvmpipe, as measured (BENCHMARKS.md), and only products run faster alone.
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
