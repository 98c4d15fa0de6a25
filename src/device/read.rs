//! Reading: values computed by one batch and copied by one submission.

use super::Device;
use crate::backend::{Pending, ReadRange, Take};
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::span::span;
use std::future::ready;

/// A read request: a range of a node's elements, and the callback that receives the bytes.
pub(crate) struct ReadRequest {
    pub node: NodeId,
    pub start: usize,
    pub len: usize,
    pub take: Take,
}

impl Device {
    /// Computes the nodes in one batch, and passes their elements to the callbacks.
    pub(crate) fn read_nodes(&self, wanted: Vec<ReadRequest>) -> Result<Pending<Result<()>>> {
        self.with_checks(wanted, |wanted| self.read_wanted(wanted))
    }

    fn read_wanted(&self, wanted: Vec<ReadRequest>) -> Result<Pending<Result<()>>> {
        let mut nodes = Vec::with_capacity(wanted.len());
        for part in &wanted {
            nodes.push(part.node);
        }
        self.inner.backend.defer_submit();
        self.run(&nodes)?;
        let state = self.state();
        let mut parts = Vec::with_capacity(wanted.len());
        for ReadRequest { node, start, len, take } in wanted {
            let size = state.graph.dtype(node).size();
            let buffer = state.buffer_of(node)?;
            if len == 0 {
                take(&[])?;
                continue;
            }
            // Backends read whole words. Offsets are `u64`, because a browser's `usize` cannot hold all of them.
            let from = start as u64 * size as u64;
            let skip = (from % 4) as usize;
            let bytes = (skip as u64 + len as u64 * size as u64).next_multiple_of(4);
            let short = || Error::state("read: the device must return all bytes, got fewer");
            let take: Take = Box::new(move |words| {
                let there = words.get(skip..).and_then(|bytes| bytes.get(..len * size));
                take(there.ok_or_else(short)?)
            });
            parts.push(ReadRange { buffer, offset: from - skip as u64, len: bytes, take });
        }
        if parts.is_empty() {
            return Ok(Box::pin(ready(Ok(()))));
        }
        span!("read", parts = parts.len());
        let bytes: u64 = parts.iter().map(|part| part.len).sum();
        let label = || format!("read {bytes} bytes");
        Ok(self.recovering(label, self.inner.backend.read_parts(parts)))
    }
}
