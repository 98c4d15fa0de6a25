//! Copy elision: removes kernels that only copy a value into a concatenation.
//!
//! Problem: a value may be an operand of a concatenation and used elsewhere, such as the state of a loop. It is stored once,
//! and another kernel copies it to its place in the concatenation.
//!
//! Idea: the kernel that computes the value stores each element twice, and the copy is removed.
//!
//! Cost: one pass over the kernels.
//!
//! Example: `h = tanh(x)`, `y = concat(h, z)`, `w = h + 1`. The kernel of `h` writes `h` and the first part of `y`.

use crate::graph::Trace;
use crate::kernel::{Atom, Index, Inst, Kernel, Limits};
use crate::plan::planned_kernel::PlannedKernel;
use crate::sorted;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The most kernels that write parts of the copied value. Values in more parts are copied.
const MAX_WRITERS: usize = 8;

/// Returns the kernels without those that only copy what earlier kernels compute.
pub fn elide_copies(
    trace: &Trace,
    planned_kernels: Vec<PlannedKernel>,
    limits: &Limits,
) -> Vec<PlannedKernel> {
    // For each node, the kernels that write it.
    let mut writers: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    let mut kept: Vec<PlannedKernel> = Vec::with_capacity(planned_kernels.len());
    for planned in planned_kernels {
        if let Some((node, offset)) = copied_node(trace, &planned) {
            let parts = writers.get(&node).filter(|parts| parts.len() <= MAX_WRITERS);
            let both = |&at: &usize| also_write(&kept[at], &planned, (node, offset), limits);
            let written =
                parts.and_then(|parts| parts.iter().map(both).collect::<Option<Vec<_>>>());
            if let (Some(parts), Some(written)) = (parts.cloned(), written) {
                parts.iter().zip(written).for_each(|(&at, written)| kept[at] = written);
                writers.entry(planned.outputs[0]).or_default().extend(parts);
                continue;
            }
        }
        for &output in &planned.outputs {
            writers.entry(output).or_default().push(kept.len());
        }
        kept.push(planned);
    }
    kept
}

/// Returns the node that a kernel copies, whole and in order, and the offset of the copy.
fn copied_node(trace: &Trace, planned: &PlannedKernel) -> Option<(usize, i64)> {
    let Kernel::Loop { space, program } = &*planned.kernel else { return None };
    let (&[node], [store]) = (&planned.inputs[..], &program.stores[..]) else { return None };
    let [Inst::Load { index, dtype, .. }] = &program.insts[..] else { return None };
    let in_order = |index: &Index| index.terms[..] == [(Atom::Coord(0), 1)];
    // Narrow elements share words with their neighbors.
    let words = dtype.size() == 4 && *dtype == store.dtype;
    let all = space.outer == 1 && space.dims[..] == [trace.nodes[node].shape.numel()];
    let whole = all && words && index.offset == 0 && in_order(index) && in_order(&store.index);
    whole.then_some((node, store.index.offset))
}

/// Returns the kernel with a second store of the result `node` to the copy, if that is possible.
fn also_write(
    planned: &PlannedKernel,
    copy: &PlannedKernel,
    (node, offset): (usize, i64),
    limits: &Limits,
) -> Option<PlannedKernel> {
    let output = copy.outputs[0];
    let full = planned.inputs.len() + planned.outputs.len() >= limits.buffers_per_kernel;
    if full || planned.outputs.contains(&output) {
        return None;
    }
    let at = planned.outputs.iter().position(|&other| other == node)?;
    let mut kernel = Kernel::clone(&planned.kernel);
    // The first program writes the results. Custom shaders have no program.
    let (program, _) = kernel.programs_mut().into_iter().next()?;
    let mut own = program.stores.iter().filter(|store| store.output == at as u32);
    let (Some(store), None) = (own.next(), own.next()) else { return None };
    // A part that is written in place does not store the whole value.
    if store.index.terms.iter().any(|term| matches!(term.0, Atom::Value(_))) {
        return None;
    }
    let mut store = store.clone();
    store.output = planned.outputs.len() as u32;
    store.index.offset += offset;
    program.stores.push(store);
    let mut both = PlannedKernel { kernel: Arc::new(kernel), ..planned.clone() };
    both.outputs.push(output);
    both.operations.extend(&copy.operations);
    sorted::sort(&mut both.operations);
    both.operations.dedup();
    Some(both)
}
