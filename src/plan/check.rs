//! Validation of a plan: simulates the memory of a batch without computing values.
//!
//! The check tracks which node's value each buffer holds. A kernel must find the value of each node that it reads in the node's
//! buffer. It must not read a buffer that it writes, and every result must exist at the end. So the check finds a temporary
//! that was reused too early, and an in-place update before the last read, whatever caused them. Debug builds check every plan.
//! early, and an in-place update before the last read, are found whatever caused them. Debug builds do it for every plan.

use super::memory::Memory;
use super::planned_kernel::PlannedKernel;
use crate::error::{Error, Result};
use crate::graph::Trace;
use crate::kernel::SlotStorage;
use crate::op::Op;
use rustc_hash::FxHashMap;

/// Validates the kernels in order, and the slots of their values.
///
/// # Errors
/// `InvalidState` that names the kernel that does not find its input, or the missing result.
pub fn check(
    trace: &Trace,
    planned_kernels: &[PlannedKernel],
    memory: &Memory,
    donated: &[(usize, usize)],
) -> Result<()> {
    let refuse =
        |what: String| Err(Error::state(format!("plan: {what}; this is a bug in warpweft")));
    let name = |node: usize| format!("%{node} ({})", trace.nodes[node].op.name());
    let place = |node: usize| memory.slot[node].map(|slot| memory.slots[slot].storage);
    // The node whose value each buffer holds. After an update of a part, the rest of the buffer has the old data.
    let mut values: FxHashMap<SlotStorage, usize> = FxHashMap::default();
    let mut is_taken = vec![false; trace.nodes.len()];
    for &(result, data) in donated {
        if std::mem::replace(&mut is_taken[data], true) {
            return refuse(format!("one result must take the memory of {}, got two", name(data)));
        }
        if !matches!(trace.nodes[data].op, Op::Source) || place(result) != place(data) {
            return refuse(format!(
                "{} must take the memory of data, got another node",
                name(result)
            ));
        }
    }
    for (n, node) in trace.nodes.iter().enumerate() {
        if let (Op::Source, Some(at)) = (&node.op, place(n)) {
            values.insert(at, n);
        }
    }
    for (at, planned) in planned_kernels.iter().enumerate() {
        for &input in &planned.inputs {
            let Some(from) = place(input) else {
                return refuse(format!(
                    "kernel {at} must read memory, got {} without it",
                    name(input)
                ));
            };
            let empty = trace.nodes[input].shape.numel() == 0;
            match values.get(&from) {
                _ if empty => {}
                Some(&there) if there == input => {}
                Some(&there) => {
                    let (input, there) = (name(input), name(there));
                    return refuse(format!("kernel {at} must read {input}, got {there} there"));
                }
                None => {
                    let input = name(input);
                    return refuse(format!(
                        "kernel {at} must read what was written, got {input} before that"
                    ));
                }
            }
            if planned.outputs.iter().any(|&output| place(output) == Some(from)) {
                return refuse(format!(
                    "kernel {at} must not write its input, got {}",
                    name(input)
                ));
            }
        }
        for &output in &planned.outputs {
            match place(output) {
                Some(to) => drop(values.insert(to, output)),
                None => {
                    return refuse(format!("kernel {at} must write memory, got a node without it"))
                }
            }
        }
    }
    for &output in &trace.outputs {
        let empty = trace.nodes[output].shape.numel() == 0;
        let is_data = matches!(trace.nodes[output].op, Op::Source | Op::Shader(_));
        let there = place(output).is_some_and(|at| values.get(&at) == Some(&output));
        if !there && !empty && !is_data {
            return refuse(format!("the result {} must exist at the end, got none", name(output)));
        }
    }
    Ok(())
}
