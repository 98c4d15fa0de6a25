//! Sorted rows as kernels: each reads its rows from memory, and nothing follows in the same kernel.

use crate::graph::Trace;
use crate::kernel::{Kernel, Order};
use crate::op::Op;
use crate::plan::planned_kernel::PlannedKernel;
use std::sync::Arc;

/// The node whose elements a sort reads: its operand, or what that reshapes, which has the same elements in the same order.
pub fn rows_of(trace: &Trace, sort: usize) -> usize {
    let mut at = trace.nodes[sort].inputs[0];
    loop {
        let node = &trace.nodes[at];
        let same = match &node.op {
            Op::Reshape(_) => true,
            Op::Permute(order) => order.iter().copied().eq(0..order.len()),
            _ => false,
        };
        if !same {
            return at;
        }
        at = node.inputs[0];
    }
}

/// The kernel of a sort.
pub fn order_kernel(trace: &Trace, root: usize, descending: bool, most: usize) -> PlannedKernel {
    let rows = &trace.nodes[trace.nodes[root].inputs[0]];
    let (shape, dtype) = (rows.shape, rows.dtype);
    let order = Order { rows: shape[0], count: shape[1], most, descending, dtype };
    PlannedKernel {
        kernel: Arc::new(Kernel::Order(order)),
        inputs: vec![rows_of(trace, root)],
        outputs: vec![root],
        params: Vec::new(),
        operations: vec![root],
    }
}
