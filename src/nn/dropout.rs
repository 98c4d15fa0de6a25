//! Dropout.

use super::{Generator, Layer, Members, Mode, Module};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// Dropout. In training, each element is zeroed with probability `p`, and divided by `1 - p` otherwise. In evaluation, the
/// input is returned unchanged.
///
/// Each call draws a new seed from the generator, and so does each run of a compiled program.
#[derive(Clone, Debug)]
pub struct Dropout {
    p: f64,
    generator: Generator,
    mode: Mode,
}

impl Dropout {
    /// Creates a layer that zeroes elements with probability `p`.
    ///
    /// # Errors
    /// `InvalidArgument` unless `p` is in `[0, 1]`.
    pub fn new(generator: &Generator, p: f64) -> Result<Dropout> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::argument(format!("dropout: p must be in [0, 1], got {p}")));
        }
        Ok(Dropout { p, generator: generator.clone(), mode: Mode::default() })
    }

    /// Whether the layer is in training mode and `p` is above 0.
    pub(super) fn drops(&self) -> bool {
        self.mode.training() && self.p > 0.0
    }
}

impl Module for Dropout {
    fn members(&self, members: &mut Members) {
        members.mode(&self.mode).generator(&self.generator);
    }
}

impl Layer for Dropout {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        match self.drops() {
            true => x.dropout(self.p, self.generator.draw()),
            false => Ok(x.clone()),
        }
    }
}
