//! `Generator`: random seeds for a model.

use crate::device::Device;
use crate::tensor::{stand_for, SeedSource};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// A device and a sequence of random seeds, for initial values and dropout. Equal seeds give equal numbers on every device.
/// Clones share one sequence, so no two calls draw the same position.
#[derive(Clone, Debug)]
pub struct Generator {
    device: Device,
    sequence: Arc<Sequence>,
}

/// A sequence of seeds, and the position in it.
#[derive(Debug)]
struct Sequence {
    seed: u32,
    drawn: AtomicU32,
    /// The number of this process among those that train together. Each has a separate sequence.
    rank: AtomicU32,
}

impl Generator {
    /// Creates a generator for models on `device`.
    pub fn new(device: &Device, seed: u32) -> Generator {
        let sequence = Sequence { seed, drawn: AtomicU32::new(0), rank: AtomicU32::new(0) };
        Generator { device: device.clone(), sequence: Arc::new(sequence) }
    }

    /// Returns the device on which layers are created.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether both are clones of one generator, and so draw from one sequence.
    pub fn is_same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.sequence, &other.sequence)
    }

    /// Draws the next seed, for [`Device::uniform`] and other random operations.
    ///
    /// In the function of a [`Program`](crate::tensor::Program), nothing is drawn yet. The result then stands for a seed that
    /// each run draws, for operations on the program's device. Do not compute with it.
    pub fn draw(&self) -> u32 {
        stand_for(|| self.sequence.clone()).unwrap_or_else(|| self.draw_now())
    }

    /// Draws the next seed, also in the function of a program, where layers may be created.
    pub(super) fn draw_now(&self) -> u32 {
        self.sequence.draw()
    }

    /// Makes the seeds from now on those of a rank. Rank 0 draws what a single process does.
    pub(crate) fn set_rank(&self, rank: u32) {
        self.sequence.rank.store(rank, Ordering::Relaxed);
    }

    /// Returns the number of seeds drawn so far. Together with the initial seed, it is the generator's whole state.
    pub fn drawn(&self) -> u32 {
        self.sequence.drawn.load(Ordering::Relaxed)
    }

    /// Sets the number of seeds drawn, to resume a saved training run.
    pub fn set_drawn(&self, drawn: u32) {
        self.sequence.drawn.store(drawn, Ordering::Relaxed);
    }
}

impl SeedSource for Sequence {
    fn draw(&self) -> u32 {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        let seed = self.seed ^ self.rank.load(Ordering::Relaxed).wrapping_mul(0x85eb_ca77);
        // The finalizer of MurmurHash3 makes the seeds of neighboring positions independent.
        let mut mixed = seed ^ number.wrapping_mul(0x9e37_79b9);
        for (shift, factor) in [(16, 0x85eb_ca6b), (13, 0xc2b2_ae35)] {
            mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 16)
    }

    fn give_back(&self) {
        self.drawn.fetch_sub(1, Ordering::Relaxed);
    }
}
