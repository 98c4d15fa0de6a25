//! Kernels that differ in nothing but where they begin to write are one, which reads that from its params. The parts of a join
//! are such: states that a loop stacks would be compiled one by one.

use super::piece::{Param, Piece};
use crate::dtype::DType;
use crate::kernel::{Atom, Inst, Kernel, Program, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Fewer kernels keep constants: compilers know more of them.
const FEWEST: usize = 3;

/// Gives pieces that are equal otherwise one kernel.
pub fn share(pieces: &mut [Piece]) {
    // Results that are not written from their first element on are written by several kernels.
    let mut joined = FxHashSet::default();
    for piece in &*pieces {
        let mut stores = stores_of(&piece.kernel).into_iter().flat_map(|program| &program.stores);
        if stores.any(|store| store.index.offset != 0) {
            joined.extend(piece.outputs.iter().copied());
        }
    }
    if joined.is_empty() {
        return;
    }
    let mut alike: FxHashMap<Kernel, Vec<usize>> = FxHashMap::default();
    for (at, piece) in pieces.iter().enumerate() {
        if piece.outputs.iter().any(|output| joined.contains(output)) {
            let mut kernel = Kernel::clone(&piece.kernel);
            for store in
                stores_of_mut(&mut kernel).into_iter().flat_map(|program| &mut program.stores)
            {
                store.index.offset = 0;
            }
            alike.entry(kernel).or_default().push(at);
        }
    }
    for (kernel, members) in alike {
        if members.len() >= FEWEST {
            share_all(pieces, kernel, &members);
        }
    }
}

/// Gives these pieces this kernel, whose stores begin where params say wherever they differ.
fn share_all(pieces: &mut [Piece], mut kernel: Kernel, members: &[usize]) {
    let offset_of = |piece: &Piece, store: usize| {
        stores_of(&piece.kernel).map_or(0, |program| program.stores[store].index.offset)
    };
    let first = &pieces[members[0]];
    let mut words = first.params.len() as u32;
    let Some(program) = stores_of_mut(&mut kernel) else { return };
    let mut added: Vec<Vec<Param>> = vec![Vec::new(); members.len()];
    for at in 0..program.stores.len() {
        let offsets: Vec<i64> = members.iter().map(|&n| offset_of(&pieces[n], at)).collect();
        if offsets.iter().all(|&offset| offset == offsets[0]) {
            program.stores[at].index.offset = offsets[0];
            continue;
        }
        // In units of what they have in common: whether four elements lie in one `vec4` is seen by that.
        let unit = offsets.iter().fold(0, |unit, &offset| common(unit, offset));
        let value = program.insts.len() as ValueId;
        program.insts.push(Inst::Param { word: words, dtype: DType::I32 });
        program.types.push(DType::I32);
        words += 1;
        // Behind all others: it is the last value.
        program.stores[at].index.terms.push((Atom::Value(value), unit));
        for (params, offset) in added.iter_mut().zip(offsets) {
            params.push(Param::Constant((offset / unit) as u32));
        }
    }
    let kernel = Arc::new(kernel);
    for (&at, params) in members.iter().zip(added) {
        pieces[at].kernel = kernel.clone();
        pieces[at].params.extend(params);
    }
}

/// The greatest common divisor of two numbers, of which not both are 0.
fn common(a: i64, b: i64) -> i64 {
    if b == 0 {
        a
    } else {
        common(b, a % b)
    }
}

/// The program that writes a kernel's results; users' shaders have none.
pub fn stores_of(kernel: &Kernel) -> Option<&Program> {
    Some(match kernel {
        Kernel::Shader { .. } => return None,
        Kernel::Loop { program, .. } => program,
        Kernel::Matmul(it) => &it.epilogue,
        Kernel::Conv2d(it) => &it.epilogue,
        Kernel::Attention(it) => &it.epilogue,
    })
}

/// As [`stores_of`], to change it.
pub fn stores_of_mut(kernel: &mut Kernel) -> Option<&mut Program> {
    Some(match kernel {
        Kernel::Shader { .. } => return None,
        Kernel::Loop { program, .. } => program,
        Kernel::Matmul(it) => &mut it.epilogue,
        Kernel::Conv2d(it) => &mut it.epilogue,
        Kernel::Attention(it) => &mut it.epilogue,
    })
}
