//! Tensors that compiled programs keep.

use super::{State, Tensor};
use crate::device::Device;
use crate::error::Result;
use crate::graph::NodeId;

/// A program's own handle of a tensor that was there before.
pub(super) struct Constant(Tensor);

impl Constant {
    /// A handle of a node for a program.
    pub fn new(device: &Device, node: NodeId) -> Constant {
        device.retain(node);
        device.set_constant(node, true);
        Constant(Tensor::adopt(device, node))
    }

    /// The node.
    pub fn node(&self) -> Result<NodeId> {
        self.0.node()
    }
}

impl Drop for Constant {
    fn drop(&mut self) {
        if let State::Node(node) = self.0.state {
            self.0.device.set_constant(node, false);
        }
    }
}
