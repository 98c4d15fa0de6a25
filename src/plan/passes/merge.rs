//! Puts kernels that run over the same space into one that writes several results: an optimiser's step reads each
//! parameter once, many small tensors take few dispatches, and what a kernel reads at the very elements that the one before
//! it writes stays in registers.

use crate::graph::Trace;
use crate::kernel::{Builder, Index, Inst, Kernel, Limits, Space};
use crate::plan::lower::rewrite::{append, compact, prune, Remap};
use crate::plan::planned_kernel::PlannedKernel;
use crate::sorted;
use std::sync::Arc;

/// The most earlier kernels that a kernel is compared with.
const MAX_MERGE_DISTANCE: usize = 8;
/// Instructions a merged kernel may have.
const INSTRUCTIONS: usize = 256;
/// Spaces up to this many elements are merged even if they read nothing in common.
const SMALL: usize = 1 << 14;
/// No input: what is at hand is not read.
const AT_HAND: u32 = u32::MAX;

/// The same work in fewer kernels, still in an order in which every value is written before it is read.
pub fn merge(
    trace: &Trace,
    planned_kernels: Vec<PlannedKernel>,
    limits: &Limits,
) -> Vec<PlannedKernel> {
    let mut merged: Vec<PlannedKernel> = Vec::with_capacity(planned_kernels.len());
    // Where each node is written, as a position in `merged`.
    let mut written: Vec<Option<usize>> = vec![None; trace.nodes.len()];
    for planned in planned_kernels {
        // What it reads may be written by the same kernel, but by none that comes after.
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
            // A concatenation is written by several: it is there after the last.
            written[output] = written[output].max(Some(at));
        }
    }
    forget(trace, &mut merged);
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
    // The parts of a concatenation lie apart in one buffer.
    let apart = !b.outputs.iter().any(|o| a.outputs.contains(o));
    let short = program.insts.len() + second.insts.len() <= INSTRUCTIONS;
    let worth = small || (shared && apart);
    if !worth || !short {
        return None;
    }
    // A row program would compute its elements once more in each of the other's passes.
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
    // Where each of b's inputs that a writes is written, and which values lie there.
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
    // Both may write the same elements of a value: a result that parts of a join compute.
    let mut places = Vec::with_capacity(program.stores.len());
    program.stores.retain(|store| {
        let place = (store.output, store.index.clone());
        let is_new = !places.contains(&place);
        places.push(place);
        is_new
    });
    // Some element is not the one that is written here.
    if program.insts.iter().any(|inst| matches!(inst, Inst::Load { input: AT_HAND, .. })) {
        return None;
    }
    let mut operations = [&a.operations[..], &b.operations].concat();
    sorted::sort(&mut operations);
    operations.dedup();
    let kernel = Arc::new(Kernel::Loop { space, program });
    Some(PlannedKernel { kernel, inputs, outputs, params, operations })
}

/// The finer of two spaces that have the same elements in the same order, and where in it the coordinates of each are, if they
/// are others.
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

/// The coordinates of a space by those of one in which each of its dimensions is cut into some, if that is so.
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

/// Stores nothing that no kernel reads any more.
fn forget(trace: &Trace, planned_kernels: &mut [PlannedKernel]) {
    let mut needed = vec![false; trace.nodes.len()];
    trace.outputs.iter().for_each(|&node| needed[node] = true);
    for planned in planned_kernels.iter_mut().rev() {
        let kept: Vec<bool> = planned.outputs.iter().map(|&output| needed[output]).collect();
        // What nothing needs at all is no kernel.
        if kept.contains(&false) && kept.contains(&true) {
            store_only(planned, &kept);
        }
        planned.inputs.iter().for_each(|&input| needed[input] = true);
    }
}

/// Takes the outputs from a kernel that are not to be kept, and what is computed for them alone.
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

/// Both lists without repetition, and where the elements of the second went.
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
