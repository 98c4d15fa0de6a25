//! Merging: kernels that run over the same space become one kernel with several results.
//!
//! Problem: small kernels cost more to dispatch than to run, and kernels that read the same values load them twice.
//!
//! Idea: each kernel is compared with a few earlier ones. Both are merged if they run over the same space, or over a reshape of
//! it, and are small or share values. A value that the later kernel reads exactly where the earlier one writes it stays in a
//! register.
//!
//! Cost: each kernel is compared with at most `MAX_MERGE_DISTANCE` others.
//!
//! Example: an optimizer's step over one parameter has the kernels of `m`, `v` and `w`. They become one kernel, which reads
//! each of its inputs once.

use crate::graph::Trace;
use crate::kernel::{Builder, Index, Inst, Kernel, Limits, Space};
use crate::plan::lower::rewrite::{append, compact, prune, Remap};
use crate::plan::planned_kernel::PlannedKernel;
use crate::sorted;
use std::sync::Arc;

/// The most earlier kernels that a kernel is compared with.
const MAX_MERGE_DISTANCE: usize = 8;
/// The most instructions of a merged kernel.
const INSTRUCTIONS: usize = 256;
/// The most elements of spaces that are merged even if their kernels read nothing in common.
const SMALL: usize = 1 << 14;
/// The input number of a value in a register, which is not loaded.
const AT_HAND: u32 = u32::MAX;

/// Returns fewer kernels that do the same work. Every value is still written before it is read.
pub fn merge(
    trace: &Trace,
    planned_kernels: Vec<PlannedKernel>,
    limits: &Limits,
) -> Vec<PlannedKernel> {
    let mut merged: Vec<PlannedKernel> = Vec::with_capacity(planned_kernels.len());
    // Where each node is written, as a position in `merged`.
    let mut written: Vec<Option<usize>> = vec![None; trace.nodes.len()];
    for planned in planned_kernels {
        // An input may be written by the merged kernel, but not by a later one.
        let mut ready = merged.len().saturating_sub(MAX_MERGE_DISTANCE);
        for &input in &planned.inputs {
            ready = ready.max(written[input].unwrap_or(0));
        }
        let mut at = merged.len();
        for earlier in (ready..merged.len()).rev() {
            if let Some(joined) = join(&merged[earlier], &planned, limits) {
                merged[earlier] = joined;
                at = earlier;
                break;
            }
        }
        if at == merged.len() {
            merged.push(planned);
        }
        for &output in &merged[at].outputs {
            // Several kernels write a concatenation, so it is complete after the last one.
            written[output] = written[output].max(Some(at));
        }
    }
    remove_unread_stores(trace, &mut merged);
    merged
}

fn join(a: &PlannedKernel, b: &PlannedKernel, limits: &Limits) -> Option<PlannedKernel> {
    let (Kernel::Loop { space, program }, Kernel::Loop { space: other, program: second }) =
        (&*a.kernel, &*b.kernel)
    else {
        return None;
    };
    let small = space.dims.iter().product::<usize>() <= SMALL;
    let follows = b.inputs.iter().any(|i| a.outputs.contains(i));
    let shared = follows || b.inputs.iter().any(|i| a.inputs.contains(i));
    // The parts of a concatenation are apart in one buffer.
    let apart = !b.outputs.iter().any(|o| a.outputs.contains(o));
    let short = program.insts.len() + second.insts.len() <= INSTRUCTIONS;
    let worth = small || (shared && apart);
    if !worth || !short {
        return None;
    }
    // A row program would recompute its elements in each pass of the other kernel.
    let is_map = space.outer == space.dims.len();
    if (follows && !is_map) || (space != other && !follows && !small) {
        return None;
    }
    let (space, [first, later]) = common(space, other)?;
    let read: Vec<usize> =
        b.inputs.iter().copied().filter(|input| !a.outputs.contains(input)).collect();
    let (inputs, _) = union(&a.inputs, &read);
    let (params, param_map) = union(&a.params, &b.params);
    let (outputs, output_map) = union(&a.outputs, &b.outputs);
    if inputs.len() + outputs.len() > limits.buffers_per_kernel {
        return None;
    }
    let mut builder = Builder::default();
    let as_they_are = Remap { coordinates: first.as_deref(), ..Remap::default() };
    append(&mut builder, program, &[], as_they_are);
    // The values that `a` stores and `b` reads: input, index and value.
    let mut in_registers = Vec::new();
    for store in builder.stores() {
        let node = a.outputs[store.output as usize];
        if let Some(input) = b.inputs.iter().position(|&input| input == node) {
            in_registers.push((input as u32, store.index.clone(), store.value));
        }
    }
    let input = |i: u32| {
        let node = b.inputs[i as usize];
        inputs.iter().position(|&input| input == node).map_or(AT_HAND, |at| at as u32)
    };
    let renumbered = Remap {
        coordinates: later.as_deref(),
        input: &input,
        param: &|p| param_map[p as usize],
        output: &|o| output_map[o as usize],
        in_registers: &in_registers,
    };
    append(&mut builder, second, &[], renumbered);
    let mut program = builder.finish();
    // Both may store the same element, for example a result that several parts of a join compute.
    let mut places = Vec::with_capacity(program.stores.len());
    program.stores.retain(|store| {
        let place = (store.output, store.index.clone());
        let is_new = !places.contains(&place);
        places.push(place);
        is_new
    });
    // `b` reads an element that `a` does not write at the same coordinates.
    if program.insts.iter().any(|inst| matches!(inst, Inst::Load { input: AT_HAND, .. })) {
        return None;
    }
    let mut operations = [&a.operations[..], &b.operations].concat();
    sorted::sort(&mut operations);
    operations.dedup();
    let kernel = Arc::new(Kernel::Loop { space, program });
    Some(PlannedKernel { kernel, inputs, outputs, params, operations })
}

/// Returns the finer of two spaces with the same elements in the same order, and the coordinates of the coarser one in it.
/// `None` in the list means unchanged coordinates.
fn common(a: &Space, b: &Space) -> Option<(Space, [Option<Vec<Index>>; 2])> {
    if a == b {
        return Some((a.clone(), [None, None]));
    }
    if a.outer != a.dims.len() || b.outer != b.dims.len() {
        return None;
    }
    match (cut_as(&a.dims, &b.dims), cut_as(&b.dims, &a.dims)) {
        (Some(coordinates), _) => Some((b.clone(), [Some(coordinates), None])),
        (_, Some(coordinates)) => Some((a.clone(), [None, Some(coordinates)])),
        _ => None,
    }
}

/// Returns the coordinates of `whole` in terms of `fine`, if `fine` splits each dimension of `whole`.
fn cut_as(whole: &[usize], fine: &[usize]) -> Option<Vec<Index>> {
    let mut coordinates = Vec::with_capacity(whole.len());
    let mut next = 0;
    for &extent in whole {
        let (first, mut reach) = (next, 1);
        while reach < extent {
            reach *= fine.get(next)?;
            next += 1;
        }
        if reach != extent {
            return None;
        }
        let (mut coordinate, mut stride) = (Index::constant(0), 1);
        for d in (first..next).rev() {
            coordinate.add(&Index::coordinate(d), stride);
            stride *= fine[d] as i64;
        }
        coordinates.push(coordinate);
    }
    (next == fine.len()).then_some(coordinates)
}

/// Removes stores that no kernel reads any more.
fn remove_unread_stores(trace: &Trace, planned_kernels: &mut [PlannedKernel]) {
    let mut needed = vec![false; trace.nodes.len()];
    trace.outputs.iter().for_each(|&node| needed[node] = true);
    for planned in planned_kernels.iter_mut().rev() {
        let kept: Vec<bool> = planned.outputs.iter().map(|&output| needed[output]).collect();
        // A kernel without any needed output is kept as it is.
        if kept.contains(&false) && kept.contains(&true) {
            store_only(planned, &kept);
        }
        planned.inputs.iter().for_each(|&input| needed[input] = true);
    }
}

/// Removes the outputs that are not kept, and the instructions that only they need.
fn store_only(planned: &mut PlannedKernel, kept: &[bool]) {
    let Kernel::Loop { space, program } = &*planned.kernel else { return };
    let mut program = program.clone();
    program.stores.retain(|store| kept[store.output as usize]);
    for store in &mut program.stores {
        let before = kept[..store.output as usize].iter().filter(|&&kept| kept);
        store.output = before.count() as u32;
    }
    let mut kernel = Kernel::Loop { space: space.clone(), program: prune(program) };
    compact(&mut kernel, &mut planned.inputs, &mut planned.params);
    planned.kernel = Arc::new(kernel);
    let mut kept = kept.iter();
    planned.outputs.retain(|_| kept.next() == Some(&true));
}

/// Returns both lists without duplicates, and the new positions of the second list's elements.
fn union<T: Copy + PartialEq>(a: &[T], b: &[T]) -> (Vec<T>, Vec<u32>) {
    let mut all = a.to_vec();
    let mut map = Vec::with_capacity(b.len());
    for x in b {
        let at = all.iter().position(|y| y == x).unwrap_or(all.len());
        if at == all.len() {
            all.push(*x);
        }
        map.push(at as u32);
    }
    (all, map)
}
