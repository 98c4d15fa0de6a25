//! Outputs whose origin depends on params, such as in-place updates and the parts of concatenations. The origin is known when
//! a kernel runs. Relative to it, such outputs are written like others.

use super::plan::Origin;
use super::steps::{self, moves};
use crate::kernel::{Atom, Program};

/// Finds such outputs. Returns also the program with stores relative to the origins, or `None` if no output has an origin.
pub fn origins(program: &Program) -> (Vec<Origin>, Option<Program>) {
    let (mut found, mut without): (Vec<Origin>, _) = (Vec::new(), None);
    for store in &program.stores {
        // Narrow elements share words, and a buffer of words can begin only at a whole word.
        let Some(moves) = moves(program, &store.index) else { continue };
        let output = store.output as usize;
        let narrow = store.dtype.size() < size_of::<u32>();
        if moves.is_empty() || narrow || found.iter().any(|origin| origin.output == output) {
            continue;
        }
        // All stores of an output must have the same origin.
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
