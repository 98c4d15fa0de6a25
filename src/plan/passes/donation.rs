//! In-place updates: which results take the memory of old data.
//!
//! The graph offers results the memory of data that nothing needs after the batch ([`Trace::donated`], `graph/donation.rs`).
//! This pass decides which offers the kernels can take. The invariant is that no kernel reads data after a result was written
//! over it. Three cases keep it:
//! - An update of a part ([`updates_of_parts`]): the result is the data with other elements in a region (`slice_scatter`), and
//!   no other node reads the data. Only the region is written.
//! - All kernels that read the data run before the kernel that writes the result.
//! - The kernel that writes the result is the last one that reads the data, and it reads each element where it writes it.
//!   Devices do not bind one buffer for reading and writing, so the kernel reads the old element from the output
//!   ([`Inst::LoadOutput`]).
//!
//! Example: `w.assign(w - lr * g)` with `loss = f(w)` in one batch. The kernels of `f` and of `g` run first. The update reads
//! `w[i]` and writes `w[i]`. In debug builds `plan/check.rs` checks all three cases again.

use crate::graph::Trace;
use crate::kernel::{Atom, Index, Inst, Kernel, Space};
use crate::op::Op;
use crate::plan::planned_kernel::PlannedKernel;
use std::sync::Arc;

/// Returns the offers whose result is the data with other elements in a region. Their kernels write only the region, so this is
/// decided before lowering.
pub fn updates_of_parts(trace: &Trace) -> Vec<(usize, usize)> {
    let is_part = |&(result, data): &(usize, usize)| {
        let node = &trace.nodes[result];
        let pads = matches!(node.op, Op::Pad(_)) && node.inputs.get(1) == Some(&data);
        pads && node.shape == trace.nodes[data].shape
    };
    let mut parts: Vec<_> = trace.donated.iter().copied().filter(is_part).collect();
    if parts.is_empty() {
        return parts;
    }
    let mut reads = vec![0usize; trace.nodes.len()];
    for &input in trace.nodes.iter().flat_map(|node| &node.inputs) {
        reads[input] += 1;
    }
    parts.retain(|&(_, data)| reads[data] == 1);
    parts
}

/// Accepts offers, and lets their kernels read old elements from the output. Returns pairs of a result and the data whose
/// memory it takes.
pub fn accept(trace: &Trace, planned_kernels: &mut [PlannedKernel]) -> Vec<(usize, usize)> {
    let mut accepted = updates_of_parts(trace);
    let parts = accepted.len();
    for &(result, data) in &trace.donated {
        if accepted[..parts].contains(&(result, data)) {
            continue;
        }
        let mut writers =
            (0..planned_kernels.len()).filter(|&at| planned_kernels[at].outputs.contains(&result));
        let (first, second) = (writers.next(), writers.next());
        let last = planned_kernels.iter().rposition(|planned| planned.inputs.contains(&data));
        let Some(first) = first else { continue };
        let fits = match last {
            Some(last) if last == first && second.is_none() => {
                update(trace, &mut planned_kernels[first], result, data)
            }
            Some(last) => last < first,
            None => true,
        };
        if fits {
            accepted.push((result, data));
        }
    }
    accepted
}

/// Changes a kernel to read data from the output where it writes the result. Returns false if that is not possible.
fn update(trace: &Trace, planned: &mut PlannedKernel, result: usize, data: usize) -> bool {
    let Kernel::Loop { space, program } = &*planned.kernel else { return false };
    let place = |list: &[usize], node| list.iter().position(|&n| n == node).map(|at| at as u32);
    let (input, output) = (place(&planned.inputs, data), place(&planned.outputs, result));
    let (Some(input), Some(output)) = (input, output) else { return false };
    let Some((_, store)) = program.store_to(output) else { return false };
    let all = in_order(space, &store.index) && space.rows() == trace.nodes[result].shape.numel();
    if space.outer != space.dims.len() || !all || store.dtype.is_packed() {
        return false;
    }
    let here = |inst: &Inst| match inst {
        Inst::Load { input: n, index, dtype } if *n == input => {
            *index == store.index && *dtype == store.dtype
        }
        _ => true,
    };
    if !program.insts.iter().all(here) {
        return false;
    }
    let mut program = program.clone();
    for inst in &mut program.insts {
        match inst {
            Inst::Load { input: n, dtype, .. } if *n == input => {
                *inst = Inst::LoadOutput { output, dtype: *dtype };
            }
            Inst::Load { input: n, .. } => *n -= u32::from(*n > input),
            _ => {}
        }
    }
    let kernel = Kernel::Loop { space: space.clone(), program };
    planned.kernel = Arc::new(kernel);
    planned.inputs.remove(input as usize);
    true
}

/// Whether an index walks a buffer in the order of the space, one element after the other.
fn in_order(space: &Space, index: &Index) -> bool {
    let (mut stride, mut terms) = (1, 0);
    for (d, &extent) in space.dims.iter().enumerate().rev() {
        if extent == 1 {
            continue;
        }
        if index.stride(Atom::Coord(d as u32)) != stride {
            return false;
        }
        stride *= extent as i64;
        terms += 1;
    }
    index.offset == 0 && index.terms.len() == terms
}
