//! Memory of the CPU backend: zeroed buffers, and registers that threads reuse.

use crate::alloc::try_vec;
use crate::error::Result;
use std::cell::RefCell;

/// Allocates `words` zeros.
pub fn zeroed(words: usize) -> Result<Vec<u32>> {
    let mut memory = try_vec("cpu", words)?;
    memory.resize(words, 0);
    Ok(memory)
}

/// Words aligned to a cache line, so that no vector crosses two lines.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    memory: Vec<u32>,
    first: usize,
}

impl Lines {
    /// All words.
    pub fn words(&self) -> &[u32] {
        &self.memory[self.first..]
    }

    /// All words for writing. Allocates `width` words if there are fewer than `len`.
    pub fn room(&mut self, len: usize, width: usize) -> &mut [u32] {
        if self.memory.len() - self.first < len {
            self.memory = vec![0; width + CACHE_LINE_WORDS];
            // If the alignment is unknown, the words are unaligned, which is only slower.
            self.first =
                self.memory.as_ptr().align_offset(4 * CACHE_LINE_WORDS).min(CACHE_LINE_WORDS);
        }
        &mut self.memory[self.first..]
    }
}

/// The words in a cache line.
const CACHE_LINE_WORDS: usize = 16;

/// The most registers that a thread keeps for later kernels. Allocating them takes longer than a small kernel.
const MAX_SPARE_REGISTERS: usize = 32;

thread_local! {
    static SPARE: RefCell<Vec<Lines>> = const { RefCell::new(Vec::new()) };
}

/// Returns `count` registers with any content.
pub fn registers(count: usize) -> Vec<Lines> {
    let mut registers =
        SPARE.with_borrow_mut(|spare| spare.split_off(spare.len().saturating_sub(count)));
    registers.resize_with(count, Lines::default);
    registers
}

/// Keeps registers for this thread's next kernels.
pub fn keep(registers: Vec<Lines>) {
    SPARE.with_borrow_mut(|spare| {
        let used = registers.into_iter().filter(|lines| !lines.memory.is_empty());
        spare.extend(used.take(MAX_SPARE_REGISTERS.saturating_sub(spare.len())));
    });
}
