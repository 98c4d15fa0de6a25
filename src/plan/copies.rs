//! A value that is used on its own and joined with others, as states of a loop are, would be copied to its place in the join
//! by a kernel of its own. The kernel that computes it writes it to both places instead.

use super::piece::Piece;
use crate::graph::Trace;
use crate::kernel::{Atom, Index, Inst, Kernel, Limits};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// The pieces without those that only copy what one before them computes.
pub fn forward(trace: &Trace, pieces: Vec<Piece>, limits: &Limits) -> Vec<Piece> {
    // Of each node, the piece that writes it, if it is one alone.
    let mut writers: FxHashMap<usize, Option<usize>> = FxHashMap::default();
    let mut kept: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if let Some((node, offset)) = copied(trace, &piece) {
            let writer = writers.get(&node).copied().flatten();
            if writer.is_some_and(|at| also_write(&mut kept[at], &piece, (node, offset), limits)) {
                // It is complete after the last piece that writes it.
                writers.insert(piece.outputs[0], None);
                continue;
            }
        }
        for &output in &piece.outputs {
            let at = Some(kept.len()).filter(|_| !writers.contains_key(&output));
            writers.insert(output, at);
        }
        kept.push(piece);
    }
    kept
}

/// The node that a piece copies, all of it in order, and where its copy begins.
fn copied(trace: &Trace, piece: &Piece) -> Option<(usize, i64)> {
    let Kernel::Loop { space, program } = &*piece.kernel else { return None };
    let (&[node], [store]) = (&piece.inputs[..], &program.stores[..]) else { return None };
    let [Inst::Load { index, dtype, .. }] = &program.insts[..] else { return None };
    let in_order = |index: &Index| index.terms[..] == [(Atom::Coord(0), 1)];
    // Narrower elements share words with their neighbours.
    let words = dtype.size() == 4 && *dtype == store.dtype;
    let all = space.outer == 1 && space.dims[..] == [trace.nodes[node].shape.numel()];
    let whole = all && words && index.offset == 0 && in_order(index) && in_order(&store.index);
    whole.then_some((node, store.index.offset))
}

/// Has a piece write one of its results, a node, where a copy of it goes, too; says whether it can.
fn also_write(
    piece: &mut Piece,
    copy: &Piece,
    (node, offset): (usize, i64),
    limits: &Limits,
) -> bool {
    let output = copy.outputs[0];
    let full = piece.inputs.len() + piece.outputs.len() >= limits.buffers_per_kernel;
    if full || piece.outputs.contains(&output) {
        return false;
    }
    let Some(at) = piece.outputs.iter().position(|&other| other == node) else { return false };
    let mut kernel = Kernel::clone(&piece.kernel);
    // The program that writes the results is the first; users' shaders have none.
    let Some((program, _)) = kernel.programs_mut().into_iter().next() else { return false };
    let mut own = program.stores.iter().filter(|store| store.output == at as u32);
    let (Some(store), None) = (own.next(), own.next()) else { return false };
    // A part that is written in place is not all of it.
    if store.index.terms.iter().any(|term| matches!(term.0, Atom::Value(_))) {
        return false;
    }
    let mut store = store.clone();
    store.output = piece.outputs.len() as u32;
    store.index.offset += offset;
    program.stores.push(store);
    piece.kernel = Arc::new(kernel);
    piece.outputs.push(output);
    piece.operations.extend(&copy.operations);
    piece.operations.sort_unstable();
    piece.operations.dedup();
    true
}
