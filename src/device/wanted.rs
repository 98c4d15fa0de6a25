//! What is asked of a read.

use crate::backend::Take;
use crate::graph::NodeId;

/// Elements of a node's value that are to be read, and who takes their bytes.
pub(crate) struct Wanted {
    pub node: NodeId,
    pub start: usize,
    pub len: usize,
    pub take: Take,
}
