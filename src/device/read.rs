//! Reading: values computed by one batch and copied by one submission.

use super::Device;
use crate::backend::{BufferId, Pending, ReadRange, Take};
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

impl ReadRequest {
    /// Returns the range of the node's buffer to read. The node's elements have `size` bytes.
    fn range(self, buffer: BufferId, size: usize) -> ReadRange {
        let ReadRequest { start, len, take, .. } = self;
        // Backends read whole words. Offsets are `u64`, because a browser's `usize` cannot hold all of them.
        let from = start as u64 * size as u64;
        let skip = (from % 4) as usize;
        let bytes = (skip as u64 + len as u64 * size as u64).next_multiple_of(4);
        let short = || Error::state("read: the device must return all bytes, got fewer");
        let take: Take = Box::new(move |words| {
            let there = words.get(skip..).and_then(|bytes| bytes.get(..len * size));
            take(there.ok_or_else(short)?)
        });
        ReadRange { buffer, offset: from - skip as u64, len: bytes, take }
    }
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
        for request in wanted {
            let size = state.graph.dtype(request.node).size();
            let buffer = state.buffer_of(request.node)?;
            match request.len {
                0 => (request.take)(&[])?,
                _ => parts.push(request.range(buffer, size)),
            }
        }
        if parts.is_empty() {
            return Ok(Box::pin(ready(Ok(()))));
        }
        drop(state);
        Ok(self.read_ranges(parts))
    }

    /// Computes the nodes as one batch. Each node is read as soon as it is computed, while the batch computes the next ones.
    /// The reads are done when the results resolve, in order.
    pub(crate) fn read_in_stages(
        &self,
        wanted: Vec<ReadRequest>,
    ) -> Result<Vec<Pending<Result<()>>>> {
        let nodes: Vec<NodeId> = wanted.iter().map(|request| request.node).collect();
        let sizes: Vec<usize> = {
            let state = self.state();
            nodes.iter().map(|&node| state.graph.dtype(node).size()).collect()
        };
        let mut wanted: Vec<Option<ReadRequest>> = wanted.into_iter().map(Some).collect();
        let mut reads = Vec::with_capacity(nodes.len());
        self.evicting(|| {
            let guard = self.run_guard();
            let state = self.state();
            // The nodes that the batch computes in their place.
            let computed: Vec<NodeId> =
                nodes.iter().map(|&node| state.graph.computed_by(node)).collect();
            let mut read = |node: NodeId, buffer| {
                for n in (0..nodes.len()).filter(|&n| computed[n] == node) {
                    if let Some(request) = wanted[n].take_if(|request| request.len > 0) {
                        reads.push(self.read_ranges(vec![request.range(buffer, sizes[n])]));
                    }
                }
            };
            self.evaluate_in_stages(&guard, state, &nodes, Some(&mut read))
        })?;
        // These were computed before, or are empty.
        let mut others = Vec::new();
        for (request, size) in wanted.into_iter().zip(sizes) {
            let Some(request) = request else { continue };
            if request.len == 0 {
                (request.take)(&[])?;
                continue;
            }
            let buffer = self.state().buffer_of(request.node)?;
            others.push(request.range(buffer, size));
        }
        if !others.is_empty() {
            reads.push(self.read_ranges(others));
        }
        Ok(reads)
    }

    fn read_ranges(&self, parts: Vec<ReadRange>) -> Pending<Result<()>> {
        span!("read", parts = parts.len());
        let bytes: u64 = parts.iter().map(|part| part.len).sum();
        let label = || format!("read {bytes} bytes");
        self.recovering(label, self.inner.backend.read_parts(parts))
    }
}
