//! Results that are read while their batch runs.

use crate::backend::BufferId;
use crate::graph::NodeId;

/// A function that is called with a node and its buffer once a batch has computed the node, while it computes the next ones.
/// For an alias, it gets the node whose computation gives the value.
pub(super) type OnComputed<'a> = dyn FnMut(NodeId, BufferId) + 'a;
