//! Puts kernels that run over the same space into one that writes several results: an optimiser's step reads each
//! parameter once, and many small tensors take few dispatches.

use super::piece::Piece;
use super::rewrite::append;
use crate::kernel::{Builder, Kernel, Limits};
use std::sync::Arc;

/// Earlier kernels that are looked at.
const WINDOW: usize = 8;
/// Instructions a merged kernel may have.
const INSTRUCTIONS: usize = 256;
/// Spaces up to this many elements are merged even if they read nothing in common.
const SMALL: usize = 1 << 14;

/// The same work in fewer kernels, still in an order in which every value is written before it is read.
pub fn merge(pieces: Vec<Piece>, limits: &Limits) -> Vec<Piece> {
    let mut merged: Vec<Piece> = Vec::with_capacity(pieces.len());
    // Where each node is written, as a position in `merged`.
    let mut written: Vec<Option<usize>> = Vec::new();
    for piece in pieces {
        let mut ready = merged.len().saturating_sub(WINDOW);
        for input in &piece.inputs {
            if let Some(Some(at)) = written.get(*input) {
                ready = ready.max(at + 1);
            }
        }
        let mut at = merged.len();
        for earlier in (ready..merged.len()).rev() {
            if let Some(joined) = join(&merged[earlier], &piece, limits) {
                merged[earlier] = joined;
                at = earlier;
                break;
            }
        }
        if at == merged.len() {
            merged.push(piece);
        }
        for &output in &merged[at].outputs {
            // A concatenation is written by several: it is there after the last.
            if written.len() <= output {
                written.resize(output + 1, None);
            }
            written[output] = written[output].max(Some(at));
        }
    }
    merged
}

fn join(a: &Piece, b: &Piece, limits: &Limits) -> Option<Piece> {
    let (Kernel::Loop { space, program }, Kernel::Loop { space: other, program: second }) =
        (&*a.kernel, &*b.kernel)
    else {
        return None;
    };
    let shared = b.inputs.iter().any(|i| a.inputs.contains(i));
    let small = space.dims.iter().product::<usize>() <= SMALL;
    let apart = !b.outputs.iter().any(|o| a.outputs.contains(o));
    let short = program.insts.len() + second.insts.len() <= INSTRUCTIONS;
    if space != other || !(shared || small) || !apart || !short {
        return None;
    }
    let (inputs, input_map) = union(&a.inputs, &b.inputs);
    let (params, param_map) = union(&a.params, &b.params);
    let outputs = [&a.outputs[..], &b.outputs].concat();
    if inputs.len() + outputs.len() > limits.buffers_per_kernel {
        return None;
    }
    let mut builder = Builder::default();
    append(&mut builder, program, &[], &|i| i, &|p| p, 0);
    let first = a.outputs.len() as u32;
    append(
        &mut builder,
        second,
        &[],
        &|i| input_map[i as usize],
        &|p| param_map[p as usize],
        first,
    );
    let mut operations = [&a.operations[..], &b.operations].concat();
    operations.sort_unstable();
    operations.dedup();
    let kernel = Arc::new(Kernel::Loop { space: space.clone(), program: builder.finish() });
    Some(Piece { kernel, inputs, outputs, params, operations })
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
