//! A value that is used on its own and joined with others, as states of a loop are, would be copied to its place in the join
//! by a kernel of its own. The kernel that computes it writes it to both places instead.

use super::piece::Piece;
use crate::graph::Trace;
use crate::kernel::{Atom, Index, Inst, Kernel, Limits};
use crate::sorted;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// So many parts of a value that is joined itself are written to both places at most.
const PARTS: usize = 8;

/// The pieces without those that only copy what some before them compute.
pub fn forward(trace: &Trace, pieces: Vec<Piece>, limits: &Limits) -> Vec<Piece> {
    // Of each node, the pieces that write it.
    let mut writers: FxHashMap<usize, Vec<usize>> = FxHashMap::default();
    let mut kept: Vec<Piece> = Vec::with_capacity(pieces.len());
    for piece in pieces {
        if let Some((node, offset)) = copied(trace, &piece) {
            let parts = writers.get(&node).filter(|parts| parts.len() <= PARTS);
            let both = |&at: &usize| also_write(&kept[at], &piece, (node, offset), limits);
            let written =
                parts.and_then(|parts| parts.iter().map(both).collect::<Option<Vec<_>>>());
            if let (Some(parts), Some(written)) = (parts.cloned(), written) {
                parts.iter().zip(written).for_each(|(&at, written)| kept[at] = written);
                writers.entry(piece.outputs[0]).or_default().extend(parts);
                continue;
            }
        }
        for &output in &piece.outputs {
            writers.entry(output).or_default().push(kept.len());
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

/// The piece, writing one of its results, a node, where a copy of it goes, too, if it can.
fn also_write(
    piece: &Piece,
    copy: &Piece,
    (node, offset): (usize, i64),
    limits: &Limits,
) -> Option<Piece> {
    let output = copy.outputs[0];
    let full = piece.inputs.len() + piece.outputs.len() >= limits.buffers_per_kernel;
    if full || piece.outputs.contains(&output) {
        return None;
    }
    let at = piece.outputs.iter().position(|&other| other == node)?;
    let mut kernel = Kernel::clone(&piece.kernel);
    // The program that writes the results is the first; users' shaders have none.
    let (program, _) = kernel.programs_mut().into_iter().next()?;
    let mut own = program.stores.iter().filter(|store| store.output == at as u32);
    let (Some(store), None) = (own.next(), own.next()) else { return None };
    // A part that is written in place is not all of it.
    if store.index.terms.iter().any(|term| matches!(term.0, Atom::Value(_))) {
        return None;
    }
    let mut store = store.clone();
    store.output = piece.outputs.len() as u32;
    store.index.offset += offset;
    program.stores.push(store);
    let mut both = Piece { kernel: Arc::new(kernel), ..piece.clone() };
    both.outputs.push(output);
    both.operations.extend(&copy.operations);
    sorted::sort(&mut both.operations);
    both.operations.dedup();
    Some(both)
}
