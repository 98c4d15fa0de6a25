//! Results that are read while their batch runs.

use crate::backend::BufferId;
use crate::graph::NodeId;

/// Nodes, and a function that is called with the number of each node and its buffer once the node is computed.
pub(super) struct Stages<'a> {
    pub nodes: &'a [NodeId],
    pub computed: &'a mut dyn FnMut(usize, BufferId),
}
