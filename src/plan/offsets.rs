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

/// Gives these pieces this kernel, whose indices begin where params say wherever the pieces differ.
fn share_all(pieces: &mut [Piece], mut kernel: Kernel, members: &[Member]) {
    let (first, offsets) = &members[0];
    let units: Vec<i64> = (0..offsets.len()).map(|n| unit(members, n)).collect();
    let mut word = pieces[*first].params.len() as u32;
    let mut places = offsets.iter().zip(&units);
    for (program, value) in kernel.programs_mut() {
        let own: Vec<_> = places.by_ref().take(indices(program).count()).collect();
        let params = own.iter().filter(|(_, &unit)| unit != 0).count() as u32;
        lead(program, value, word..word + params);
        word += params;
        let mut param = 0..;
        for (index, (&offset, &unit)) in indices(program).zip(own) {
            match unit {
                0 => index.offset = offset,
                _ => index.add(&Index::atom(Atom::Value(param.next().unwrap_or(0))), unit),
            }
        }
    }
    let kernel = Arc::new(kernel);
    for (at, offsets) in members {
        pieces[*at].kernel = kernel.clone();
        let differing = offsets.iter().zip(&units).filter(|(_, &unit)| unit != 0);
        let words = differing.map(|(offset, unit)| Param::Constant((offset / unit) as u32));
        pieces[*at].params.extend(words);
    }
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
