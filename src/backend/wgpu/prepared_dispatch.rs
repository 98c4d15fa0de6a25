//! Prepared dispatches: the pipeline, grid and bindings of a dispatch. Batches record them, and bind groups belong to them.

use super::pipeline::{Compiled, Pipeline};
use std::sync::Arc;

/// A dispatch ready to run.
pub(super) struct PreparedDispatch {
    /// The number of the dispatch in the plan.
    pub(super) number: usize,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) grid: [u32; 3],
    /// The offset of the params, and the bytes of them that are bound.
    pub(super) offset: u32,
    pub(super) block: u64,
    /// The slot of each binding.
    pub(super) slots: Vec<usize>,
}

impl PreparedDispatch {
    pub(super) fn compiled(&self) -> &Compiled {
        match &self.pipeline.compiled {
            Some(compiled) => compiled,
            None => unreachable!("what could not be compiled is not run"),
        }
    }
}
