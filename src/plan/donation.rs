//! Which results take the memory of data that nothing needs any more: where all that reads the data is done before they are
//! written, or the kernel that writes them is the last that does, and reads each element where it writes it.

use super::piece::Piece;
use crate::graph::Trace;
use crate::kernel::{Atom, Index, Inst, Kernel, Space};
use std::sync::Arc;

/// Results that are written in the memory of data, with that. A machine does not bind a buffer for reading and for writing
/// at once, so kernels that read it have what lay there from the output ([`Inst::Before`]).
pub fn accept(trace: &Trace, pieces: &mut [Piece]) -> Vec<(usize, usize)> {
    let mut accepted = Vec::new();
    for &(result, data) in &trace.donated {
        let mut writers = (0..pieces.len()).filter(|&at| pieces[at].outputs.contains(&result));
        let (first, second) = (writers.next(), writers.next());
        let last = pieces.iter().rposition(|piece| piece.inputs.contains(&data));
        let Some(first) = first else { continue };
        let fits = match last {
            Some(last) if last == first && second.is_none() => {
                update(trace, &mut pieces[first], result, data)
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

/// Has a piece read data from where it writes a result; says whether it can.
fn update(trace: &Trace, piece: &mut Piece, result: usize, data: usize) -> bool {
    let Kernel::Loop { space, program } = &*piece.kernel else { return false };
    let place = |list: &[usize], node| list.iter().position(|&n| n == node).map(|at| at as u32);
    let (input, output) = (place(&piece.inputs, data), place(&piece.outputs, result));
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
                *inst = Inst::Before { output, dtype: *dtype };
            }
            Inst::Load { input: n, .. } => *n -= u32::from(*n > input),
            _ => {}
        }
    }
    let kernel = Kernel::Loop { space: space.clone(), program };
    piece.kernel = Arc::new(kernel);
    piece.inputs.remove(input as usize);
    true
}

/// Whether an index goes over a buffer as a space is counted, one element after the other.
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
