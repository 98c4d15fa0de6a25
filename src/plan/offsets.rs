//! Kernels that differ in nothing but where they begin to read or write are one, which has that from its params. The parts of a
//! join and the slices of a tensor are such: steps of a loop would be compiled one by one.

use super::piece::{Param, Piece};
use crate::dtype::DType;
use crate::kernel::{Atom, Index, Inst, Kernel, Program, ValueId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::mem::take;
use std::sync::Arc;

/// Fewer kernels keep constants: compilers know more of them.
const FEWEST: usize = 3;

/// A piece, and the offsets of its kernel's indices.
type Member = (usize, Vec<i64>);

/// Gives pieces that are equal otherwise one kernel.
pub fn share(pieces: &mut [Piece]) {
    let mut alike: FxHashMap<Kernel, Vec<Member>> = FxHashMap::default();
    for (at, piece) in pieces.iter().enumerate() {
        let mut kernel = Kernel::clone(&piece.kernel);
        let programs = kernel.programs_mut().into_iter();
        let all = programs.flat_map(|(program, _)| indices(program));
        let offsets = all.map(|index| take(&mut index.offset)).collect();
        alike.entry(kernel).or_default().push((at, offsets));
    }
    for (kernel, members) in alike {
        let different: FxHashSet<&Vec<i64>> = members.iter().map(|member| &member.1).collect();
        if different.len() >= FEWEST {
            share_all(pieces, kernel, &members);
        }
    }
}

/// Gives these pieces this kernel, whose indices begin where params say wherever the pieces differ. Indices that differ
/// from piece to piece by the same have that from one param.
fn share_all(pieces: &mut [Piece], mut kernel: Kernel, members: &[Member]) {
    let (first, offsets) = &members[0];
    let mut word = pieces[*first].params.len() as u32;
    // The places whose offsets the params hold, in units.
    let mut held: Vec<(usize, i64)> = Vec::new();
    let mut next = 0;
    for (program, value) in kernel.programs_mut() {
        let places = next..next + indices(program).count();
        next = places.end;
        let leaders: Vec<usize> = places.clone().map(|n| leader(members, n, &places)).collect();
        let mut own: Vec<(usize, i64)> = Vec::new();
        for n in places.clone().filter(|n| leaders.contains(n)) {
            own.extend(Some((n, unit(members, n))).filter(|(_, unit)| *unit != 0));
        }
        lead(program, value, word..word + own.len() as u32);
        word += own.len() as u32;
        for ((index, n), leader) in indices(program).zip(places).zip(leaders) {
            match own.iter().position(|held| held.0 == leader) {
                None => index.offset = offsets[n],
                Some(param) => {
                    index.offset = offsets[n] - offsets[leader];
                    index.add(&Index::atom(Atom::Value(param as ValueId)), own[param].1);
                }
            }
        }
        held.extend(own);
    }
    let kernel = Arc::new(kernel);
    for (at, offsets) in members {
        pieces[*at].kernel = kernel.clone();
        let words = held.iter().map(|&(n, unit)| Param::Constant((offsets[n] / unit) as u32));
        pieces[*at].params.extend(words);
    }
}

/// Of the places that differ from piece to piece by the same as the n-th, the one that comes first in memory.
fn leader(members: &[Member], n: usize, places: &std::ops::Range<usize>) -> usize {
    let first = &members[0].1;
    let alike = |&other: &usize| {
        members.iter().all(|(_, offsets)| offsets[other] - offsets[n] == first[other] - first[n])
    };
    places.clone().filter(alike).min_by_key(|&other| first[other]).unwrap_or(n)
}

/// What the n-th offsets have in common, if they differ: whether four elements lie in one `vec4` is seen by that. Else 0.
fn unit(members: &[Member], n: usize) -> i64 {
    let offsets = || members.iter().map(|(_, offsets)| offsets[n]);
    match offsets().all(|offset| offset == members[0].1[n]) {
        true => 0,
        false => offsets().fold(0, common),
    }
}

/// The greatest common divisor.
fn common(a: i64, b: i64) -> i64 {
    if b == 0 {
        a.abs()
    } else {
        common(b, a % b)
    }
}

/// Puts params, by the words that have them, before all that a program does.
fn lead(program: &mut Program, value: Option<&mut ValueId>, words: std::ops::Range<u32>) {
    let count = words.len();
    let moved: Vec<ValueId> = (count as ValueId..).take(program.insts.len()).collect();
    for inst in &mut program.insts {
        *inst = inst.substitute(None, &moved);
    }
    for store in &mut program.stores {
        store.index = store.index.substitute(None, &moved);
        store.value += count as ValueId;
    }
    value.into_iter().for_each(|value| *value += count as ValueId);
    let params = words.map(|word| Inst::Param { word, dtype: DType::I32 });
    program.insts.splice(0..0, params);
    program.types.splice(0..0, std::iter::repeat_n(DType::I32, count));
}

/// The indices of a program's loads and stores.
fn indices(program: &mut Program) -> impl Iterator<Item = &mut Index> {
    let loads = program.insts.iter_mut().filter_map(|inst| match inst {
        Inst::Load { index, .. } => Some(index),
        _ => None,
    });
    loads.chain(program.stores.iter_mut().map(|store| &mut store.index))
}
