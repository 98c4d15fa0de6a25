//! Buffers that belong to someone else, and buffers that someone else sees.

use super::pool::Held;
use super::Device;
use crate::backend::{Backend, BufferId};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::NodeId;
use crate::shape::Shape;
use std::sync::Arc;

impl Device {
    /// The backend, if it is a `B`.
    pub(crate) fn backend<B: Backend + 'static>(&self) -> Option<&B> {
        self.inner.backend.as_any()?.downcast_ref()
    }

    /// A source whose data lies in someone else's buffer, which `take` gives; it is freed with the source, and not used for
    /// anything else.
    pub(crate) fn source_in(
        &self,
        name: &str,
        (shape, dtype): (Shape, DType),
        take: impl FnOnce() -> Result<BufferId>,
    ) -> Result<NodeId> {
        self.check(name, shape, dtype)?;
        let held = Held::lent(take()?);
        let mut state = self.state();
        let node = state.graph.source(shape, dtype);
        state.buffers.insert(node, Arc::new(held));
        Ok(node)
    }

    /// Makes a node's value; the buffer that it lies in as long as the node is there.
    pub(crate) fn buffer_of(&self, node: NodeId) -> Result<BufferId> {
        self.run(&[node])?;
        Ok(self.state().buffers_of(&[node])?[0])
    }
}
