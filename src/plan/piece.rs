//! A kernel before its buffers are placed.

use crate::kernel::Kernel;
use std::sync::Arc;

/// What a word of a kernel's params holds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Param {
    /// The number behind this node.
    Number(usize),
    /// The same bits in each run.
    Constant(u32),
}

/// A kernel before its buffers are placed.
#[derive(Clone)]
pub struct Piece {
    pub kernel: Arc<Kernel>,
    /// Nodes it reads.
    pub inputs: Vec<usize>,
    /// Nodes it writes.
    pub outputs: Vec<usize>,
    /// What its params hold.
    pub params: Vec<Param>,
    /// Operations it stands for.
    pub operations: Vec<usize>,
}

impl Piece {
    /// The same with other nodes.
    pub fn moved(&self, to: &impl Fn(usize) -> usize) -> Piece {
        let all = |nodes: &[usize]| nodes.iter().map(|&node| to(node)).collect();
        let param = |param: &Param| match *param {
            Param::Number(node) => Param::Number(to(node)),
            constant => constant,
        };
        Piece {
            kernel: self.kernel.clone(),
            inputs: all(&self.inputs),
            outputs: all(&self.outputs),
            params: self.params.iter().map(param).collect(),
            operations: all(&self.operations),
        }
    }
}
