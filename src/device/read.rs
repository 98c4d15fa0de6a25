//! Reading: values computed by one batch and copied by one submission.

use super::stages::Stages;
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

    /// Computes the nodes, which are distinct and not computed yet, as one batch. Each node is read as soon as it is computed,
    /// while the batch computes the next ones. The reads are done when the results resolve, in order.
    pub(crate) fn read_in_stages(
        &self,
        wanted: Vec<ReadRequest>,
    ) -> Result<Vec<Pending<Result<()>>>> {
        let nodes: Vec<NodeId> = wanted.iter().map(|request| request.node).collect();
        let guard = self.run_guard();
        let mut state = self.state();
        state.collect_garbage(&*self.inner.backend);
        state.check()?;
        self.ask(&mut state, &nodes);
        let sizes: Vec<usize> = nodes.iter().map(|&node| state.graph.dtype(node).size()).collect();
        let mut wanted: Vec<Option<ReadRequest>> = wanted.into_iter().map(Some).collect();
        let mut reads = Vec::with_capacity(nodes.len());
        let mut computed = |n: usize, buffer| {
            if let Some(request) = wanted[n].take_if(|request| request.len > 0) {
                reads.push(self.read_ranges(vec![request.range(buffer, sizes[n])]));
            }
        };
        let stages = Stages { nodes: &nodes, computed: &mut computed };
        self.evaluate_in_stages(&guard, state, stages)?;
        // Tensors without elements have no buffers.
        wanted.into_iter().flatten().try_for_each(|request| (request.take)(&[]))?;
        Ok(reads)
    }

    fn read_ranges(&self, parts: Vec<ReadRange>) -> Pending<Result<()>> {
        span!("read", parts = parts.len());
        let bytes: u64 = parts.iter().map(|part| part.len).sum();
        let label = || format!("read {bytes} bytes");
        self.recovering(label, self.inner.backend.read_parts(parts))
    }
}
