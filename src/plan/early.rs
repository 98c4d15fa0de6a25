//! Has parts of joined tensors computed as soon as what they are made of is there: a product that waited for the last of the
//! others, as gradients of an optimiser's parameters would, keeps its operands meanwhile. Parts that are maps stay
//! together, for many of them may be one kernel, unless values are computed again rather than kept, as checkpoints are.

use super::piece::Piece;
use crate::sorted;
use rustc_hash::FxHashMap;

/// The pieces in an order in which every value is still written before it is read.
pub fn early(pieces: Vec<Piece>, by_age: bool) -> Vec<Piece> {
    // Of each node, the last piece that writes it, and how many do.
    let mut writers: FxHashMap<usize, (usize, usize)> = FxHashMap::default();
    for (at, piece) in pieces.iter().enumerate() {
        for &output in &piece.outputs {
            let (last, count) = writers.entry(output).or_default();
            (*last, *count) = (at, *count + 1);
        }
    }
    let mut keyed: Vec<(usize, Piece)> = Vec::with_capacity(pieces.len());
    for (at, piece) in pieces.into_iter().enumerate() {
        let joins = piece.outputs.iter().all(|output| writers[output].1 > 1);
        let waits = by_age || piece.kernel.kind() != "map";
        let written = |input: &usize| writers.get(input).map(|(last, _)| *last);
        let ready = piece.inputs.iter().filter_map(written).max().unwrap_or(0);
        keyed.push((if joins && waits { ready } else { at }, piece));
    }
    // It is stable: what waits for a piece comes after it.
    sorted::by_key(&mut keyed, |(key, _)| *key);
    keyed.into_iter().map(|(_, piece)| piece).collect()
}
