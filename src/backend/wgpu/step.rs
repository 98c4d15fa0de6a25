//! A dispatch ready to run: what a batch records, and what bind groups are made for.

use super::pipeline::{Compiled, Pipeline};
use std::sync::Arc;

/// A dispatch ready to run.
pub(super) struct Step {
    /// Its dispatch's number.
    pub(super) number: usize,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) grid: [u32; 3],
    /// Where its params begin, and how many bytes of them are bound.
    pub(super) offset: u32,
    pub(super) block: u64,
    /// Each binding's slot.
    pub(super) slots: Vec<usize>,
}

impl Step {
    pub(super) fn compiled(&self) -> &Compiled {
        match &self.pipeline.compiled {
            Some(compiled) => compiled,
            None => unreachable!("what could not be compiled is not run"),
        }
    }
}
