//! Outputs that begin where params say: what is written in place, and the parts of joins. Where that is is known when a kernel
//! runs; from there on they are written like others.

use super::plan::Origin;
use super::steps::moves;
use crate::kernel::{Atom, Program};

/// Those outputs, and the program whose stores begin there; none where there are no such outputs.
pub fn origins(program: &Program) -> (Vec<Origin>, Option<Program>) {
    let (mut found, mut without) = (Vec::new(), None);
    for (at, store) in program.stores.iter().enumerate() {
        let alone = program.stores.iter().filter(|s| s.output == store.output).count() == 1;
        // Narrow elements share a word: a buffer of words can not begin at the second.
        let Some(moves) = moves(program, &store.index) else { continue };
        if moves.is_empty() || !alone || store.dtype.size() < size_of::<u32>() {
            continue;
        }
        found.push(Origin { output: store.output as usize, moves });
        let program: &mut Program = without.get_or_insert_with(|| program.clone());
        program.stores[at].index.terms.retain(|(atom, _)| matches!(atom, Atom::Coord(_)));
    }
    (found, without)
}
