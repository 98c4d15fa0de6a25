//! `Generator`: random seeds for a model.

use crate::device::Device;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

/// A device and a sequence of random seeds, for initial values and dropout. Equal seeds give equal numbers on every device.
/// Clones share one sequence, so no two calls draw the same position.
#[derive(Clone, Debug)]
pub struct Generator {
    device: Device,
    seed: u32,
    drawn: Arc<AtomicU32>,
}

impl Generator {
    /// Creates a generator for models on `device`.
    pub fn new(device: &Device, seed: u32) -> Generator {
        Generator { device: device.clone(), seed, drawn: Arc::default() }
    }

    /// Returns the device on which layers are created.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Whether both are clones of one generator, and so draw from one sequence.
    pub fn is_same(&self, other: &Generator) -> bool {
        Arc::ptr_eq(&self.drawn, &other.drawn)
    }

    /// Draws the next seed, for [`Device::uniform`] and other random operations.
    pub fn draw(&self) -> u32 {
        let number = self.drawn.fetch_add(1, Ordering::Relaxed);
        // The finalizer of MurmurHash3 makes the seeds of neighboring positions independent.
        let mut mixed = self.seed ^ number.wrapping_mul(0x9e37_79b9);
        for (shift, factor) in [(16, 0x85eb_ca6b), (13, 0xc2b2_ae35)] {
            mixed = (mixed ^ (mixed >> shift)).wrapping_mul(factor);
        }
        mixed ^ (mixed >> 16)
    }

    /// Returns the number of seeds drawn so far. Together with the initial seed, it is the generator's whole state.
    pub fn drawn(&self) -> u32 {
        self.drawn.load(Ordering::Relaxed)
    }

    /// Sets the number of seeds drawn, to resume a saved training run.
    pub fn set_drawn(&self, drawn: u32) {
        self.drawn.store(drawn, Ordering::Relaxed);
    }
}
