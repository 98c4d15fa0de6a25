//! Lowering of sorts. A sort reads its rows from memory, and nothing is fused behind it.

use crate::graph::Trace;
use crate::kernel::{Kernel, Order};
use crate::op::Op;
use crate::plan::planned_kernel::PlannedKernel;
use std::sync::Arc;

/// Returns the node whose elements a sort reads. Reshapes and identity permutations before the sort are skipped, because they
/// keep the elements in order.
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

/// Lowers a sort to a kernel.
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
