//! Planned kernels: kernels before slots are assigned.

use crate::kernel::Kernel;
use std::sync::Arc;

/// The content of one word of a kernel's params.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Param {
    /// The value of this scalar node.
    Number(usize),
    /// A constant, as bits.
    Constant(u32),
}

/// A kernel before slots are assigned to its buffers.
#[derive(Clone)]
pub struct PlannedKernel {
    pub kernel: Arc<Kernel>,
    /// The nodes that the kernel reads.
    pub inputs: Vec<usize>,
    /// The nodes that the kernel writes.
    pub outputs: Vec<usize>,
    /// The content of each params word.
    pub params: Vec<Param>,
    /// The nodes whose operations the kernel computes.
    pub operations: Vec<usize>,
}

impl PlannedKernel {
    /// Returns the kernel with its nodes mapped by `to`.
    pub fn moved(&self, to: &impl Fn(usize) -> usize) -> PlannedKernel {
        let all = |nodes: &[usize]| nodes.iter().map(|&node| to(node)).collect();
        let param = |param: &Param| match *param {
            Param::Number(node) => Param::Number(to(node)),
            constant => constant,
        };
        PlannedKernel {
            kernel: self.kernel.clone(),
            inputs: all(&self.inputs),
            outputs: all(&self.outputs),
            params: self.params.iter().map(param).collect(),
            operations: all(&self.operations),
        }
    }
}
