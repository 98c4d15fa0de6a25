//! Memory that may not be there.

use crate::error::Result;
use crate::room::room;
use std::cell::RefCell;

/// Bytes of the machine's memory, where the system tells: Linux does in a file.
pub fn installed() -> Option<u64> {
    let text = match cfg!(target_os = "linux") {
        true => std::fs::read_to_string("/proc/meminfo").ok()?,
        false => return None,
    };
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

/// `words` zeros.
pub fn zeroed(words: usize) -> Result<Vec<u32>> {
    let mut memory = room("cpu", words)?;
    memory.resize(words, 0);
    Ok(memory)
}

/// Words that begin where a line of the cache does: vectors of them then never lie in two lines.
#[derive(Clone, Debug, Default)]
pub struct Lines {
    memory: Vec<u32>,
    first: usize,
}

impl Lines {
    /// All words there are.
    pub fn words(&self) -> &[u32] {
        &self.memory[self.first..]
    }

    /// The same to write to; `width` words of them anew if there are fewer than `len`.
    pub fn room(&mut self, len: usize, width: usize) -> &mut [u32] {
        if self.memory.len() - self.first < len {
            self.memory = vec![0; width + LINE];
            // Where it cannot be known, it is slower and nothing else.
            self.first = self.memory.as_ptr().align_offset(4 * LINE).min(LINE);
        }
        &mut self.memory[self.first..]
    }
}

/// Words of a line of the cache.
const LINE: usize = 16;

/// The most registers that a thread keeps for later kernels. Allocating them takes longer than a small kernel.
const KEPT: usize = 32;

thread_local! {
    static SPARE: RefCell<Vec<Lines>> = const { RefCell::new(Vec::new()) };
}

/// So many registers, whose words may be anything.
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
        spare.extend(used.take(KEPT.saturating_sub(spare.len())));
    });
}
