//! Dropout.

use super::{Generator, Layer, Members, Mode, Module};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// While it trains, each element is 0 with probability `p` and divided by `1 - p` otherwise, by another draw of the generator
/// each time; else all pass. A compiled program has the draw of its recording: drop before it.
#[derive(Clone, Debug)]
pub struct Dropout {
    p: f64,
    generator: Generator,
    mode: Mode,
}

impl Dropout {
    /// A layer that drops with probability `p`.
    ///
    /// # Errors
    /// `Data` unless p lies in `[0, 1]`.
    pub fn new(generator: &Generator, p: f64) -> Result<Dropout> {
        if !(0.0..=1.0).contains(&p) {
            return Err(Error::data(format!("dropout: p must be in [0, 1], got {p}")));
        }
        Ok(Dropout { p, generator: generator.clone(), mode: Mode::default() })
    }

    /// Whether it drops now.
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
