//! Where the random numbers of a model come from.

use crate::device::Device;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// A device, and random seeds for what is made on it: the first values of parameters, and what dropout drops. The same seed
/// gives the same numbers on every device. Clones share it: each draws another number.
#[derive(Clone, Debug)]
pub struct Generator {
    device: Device,
    seed: u32,
    drawn: Arc<AtomicU32>,
}

impl Generator {
    /// A generator of models on `device`.
    pub fn new(device: &Device, seed: u32) -> Generator {
        Generator { device: device.clone(), seed, drawn: Arc::default() }
    }

    /// The device of what is made by it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether both draw from one sequence: one is a clone of the other.
    pub fn is_same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.drawn, &other.drawn)
    }

    /// The next seed, for [`Device::uniform`] and its like.
    pub fn draw(&self) -> u32 {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        // Neighboring numbers give seeds that have nothing in common (MurmurHash3's last step).
        let mut mixed = self.seed ^ number.wrapping_mul(0x9e37_79b9);
        for (shift, factor) in [(16, 0x85eb_ca6b), (13, 0xc2b2_ae35)] {
            mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 16)
    }

    /// How many seeds were drawn: with the seed that it was made with all that there is to know of it.
    pub fn drawn(&self) -> u32 {
        self.drawn.load(Ordering::Relaxed)
    }

    /// Goes on after so many seeds, as a saved training does.
    pub fn set_drawn(&self, drawn: u32) {
        self.drawn.store(drawn, Ordering::Relaxed);
    }
}
