//! Outputs that begin where params say: what is written in place, and the parts of joins. Where that is is known when a kernel
//! runs; from there on they are written like others.

use super::plan::Origin;
use super::steps::{self, moves};
use crate::kernel::{Atom, Program};

/// Those outputs, and the program whose stores begin there; none where there are no such outputs.
pub fn origins(program: &Program) -> (Vec<Origin>, Option<Program>) {
    let (mut found, mut without): (Vec<Origin>, _) = (Vec::new(), None);
    for store in &program.stores {
        // Narrow elements share a word: a buffer of words can not begin at the second.
        let Some(moves) = moves(program, &store.index) else { continue };
        let output = store.output as usize;
        let narrow = store.dtype.size() < size_of::<u32>();
        if moves.is_empty() || narrow || found.iter().any(|origin| origin.output == output) {
            continue;
        }
        // All its stores begin at the same place.
        let mut all = program.stores.iter().filter(|other| other.output == store.output);
        if !all.all(|other| steps::moves(program, &other.index).as_ref() == Some(&moves)) {
            continue;
        }
        found.push(Origin { output, moves });
        let program: &mut Program = without.get_or_insert_with(|| program.clone());
        for other in program.stores.iter_mut().filter(|other| other.output == store.output) {
            other.index.terms.retain(|(atom, _)| matches!(atom, Atom::Coord(_)));
        }
    }
    (found, without)
}
