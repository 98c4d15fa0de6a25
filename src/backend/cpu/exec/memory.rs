//! Memory that may not be there.

use crate::error::Result;
use crate::room::room;

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
