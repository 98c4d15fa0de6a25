//! What a tensor's handle points to.

use crate::device::Device;
use crate::dtype::DType;
use crate::error::Error;
use crate::graph::NodeId;
use crate::shape::Shape;

/// What all clones of a tensor share.
pub struct Inner {
    pub(super) device: Device,
    pub(super) state: State,
    pub(super) shape: Shape,
    pub(super) dtype: DType,
}

/// What a tensor is the handle of.
pub enum State {
    /// A recorded node, which is released with it.
    Node(NodeId),
    /// Why the operation could not be recorded.
    Failed(Error),
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let State::Node(node) = self.state {
            self.device.release(node);
        }
    }
}
