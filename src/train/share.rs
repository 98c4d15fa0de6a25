//! A rank's share of the batches.

use super::data::{Batch, BatchIter};
use crate::error::Result;
use crate::tensor::Tensor;

/// One step of a rank: a batch, and how it counts.
#[derive(Clone, Debug)]
pub(super) struct Shared {
    pub batch: Batch,
    /// The number of batches that all ranks take in this step.
    pub taken: u64,
    /// Whether the batch is this rank's own. If there are not enough batches for all ranks at the end of an epoch, a rank
    /// repeats the last one, which does not count.
    pub counts: bool,
}

impl Shared {
    /// Returns the number of examples that count.
    pub fn examples(&self) -> u64 {
        if self.counts {
            examples(&self.batch.0)
        } else {
            0
        }
    }
}

/// Returns the number of examples of a batch.
pub(super) fn examples(x: &Tensor) -> u64 {
    x.shape().first().copied().unwrap_or(1) as u64
}

/// The steps of a rank. The ranks take turns: of every `size` batches, the rank takes the one with its number.
pub(super) struct Share {
    batches: BatchIter,
    rank: usize,
    size: usize,
}

impl Share {
    pub fn new(batches: BatchIter, (rank, size): (usize, usize)) -> Share {
        Share { batches, rank, size }
    }
}

impl Iterator for Share {
    type Item = Result<Shared>;

    fn next(&mut self) -> Option<Result<Shared>> {
        let mut own = None;
        let mut taken = 0;
        for n in 0..self.size {
            match self.batches.next() {
                Some(Ok(batch)) => {
                    taken += 1;
                    if n <= self.rank {
                        own = Some((batch, n == self.rank));
                    }
                }
                Some(Err(error)) => return Some(Err(error)),
                None => break,
            }
        }
        own.map(|(batch, counts)| Ok(Shared { batch, taken, counts }))
    }
}
