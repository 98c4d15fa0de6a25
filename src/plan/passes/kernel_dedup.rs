//! Kernel deduplication: kernels that differ only in their offsets become one kernel that reads the offsets from its params.
//!
//! Problem: parts of a concatenation and slices of a tensor are read and written at different constant offsets. Each iteration
//! of an unrolled loop would be compiled separately.
//!
//! Idea: kernels that are equal without their offsets form a group. Offsets that differ within the group become params. Offsets
//! that differ by the same amount share one param.
//!
//! Cost: hashing each kernel once, and for each group the square of its number of indices.
//!
//! Example: three kernels that store to `out[i]`, `out[i + 64]` and `out[i + 128]` become one that stores to `out[i + 64 * p]`
//! with `p` = 0, 1 and 2.

use crate::dtype::DType;
use crate::kernel::{Atom, Index, Inst, Kernel, Program, ValueId};
use crate::plan::planned_kernel::{Param, PlannedKernel};
use rustc_hash::{FxHashMap, FxHashSet};
use std::mem::take;
use std::sync::Arc;

/// The fewest different kernels that are merged. Smaller groups keep constants, which shader compilers optimize better.
const MIN_DIFFERENT_KERNELS: usize = 3;

/// The position of a kernel, and the offsets of its indices.
type Member = (usize, Vec<i64>);

/// Gives kernels that differ only in their offsets one kernel with params.
pub fn parameterize_offsets(mut planned_kernels: Vec<PlannedKernel>) -> Vec<PlannedKernel> {
    let mut alike: FxHashMap<Kernel, Vec<Member>> = FxHashMap::default();
    for (at, planned) in planned_kernels.iter().enumerate() {
        let mut kernel = Kernel::clone(&planned.kernel);
        let programs = kernel.programs_mut().into_iter();
        let all = programs.flat_map(|(program, _)| indices(program));
        let offsets = all.map(|index| take(&mut index.offset)).collect();
        alike.entry(kernel).or_default().push((at, offsets));
    }
    for (kernel, members) in alike {
        let different: FxHashSet<&Vec<i64>> = members.iter().map(|member| &member.1).collect();
        if different.len() >= MIN_DIFFERENT_KERNELS {
            parameterize_group(&mut planned_kernels, kernel, &members);
        }
    }
    planned_kernels
}

/// Gives the members of a group one kernel, whose offsets are params wherever the members differ. Indices that differ by the
/// same amount from member to member share a param.
fn parameterize_group(
    planned_kernels: &mut [PlannedKernel],
    mut kernel: Kernel,
    members: &[Member],
) {
    let (first, offsets) = &members[0];
    let mut word = planned_kernels[*first].params.len() as u32;
    // The places whose offsets the params hold, in units.
    let mut held: Vec<(usize, i64)> = Vec::new();
    let mut next = 0;
    for (program, value) in kernel.programs_mut() {
        let places = next..next + indices(program).count();
        next = places.end;
        let leaders: Vec<usize> = places.clone().map(|n| leader(members, n, &places)).collect();
        let mut own: Vec<(usize, i64)> = Vec::new();
        for n in places.clone().filter(|n| leaders.contains(n)) {
            own.extend(Some((n, common_unit(members, n))).filter(|(_, unit)| *unit != 0));
        }
        prepend_params(program, value, word..word + own.len() as u32);
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
        planned_kernels[*at].kernel = kernel.clone();
        let words = held.iter().map(|&(n, unit)| Param::Constant((offsets[n] / unit) as u32));
        planned_kernels[*at].params.extend(words);
    }
}

/// Returns the lowest in memory of the indices that differ from member to member by the same amount as the n-th.
fn leader(members: &[Member], n: usize, places: &std::ops::Range<usize>) -> usize {
    let first = &members[0].1;
    let alike = |&other: &usize| {
        members.iter().all(|(_, offsets)| offsets[other] - offsets[n] == first[other] - first[n])
    };
    places.clone().filter(alike).min_by_key(|&other| first[other]).unwrap_or(n)
}

/// Returns the greatest common divisor of the n-th offsets if they differ, otherwise 0. With it, backends still see that
/// offsets are multiples of 4.
fn common_unit(members: &[Member], n: usize) -> i64 {
    let offsets = || members.iter().map(|(_, offsets)| offsets[n]);
    match offsets().all(|offset| offset == members[0].1[n]) {
        true => 0,
        false => offsets().fold(0, greatest_common_divisor),
    }
}

/// Returns the greatest common divisor.
fn greatest_common_divisor(a: i64, b: i64) -> i64 {
    if b == 0 {
        a.abs()
    } else {
        greatest_common_divisor(b, a % b)
    }
}

/// Inserts loads of params at the start of a program.
fn prepend_params(program: &mut Program, value: Option<&mut ValueId>, words: std::ops::Range<u32>) {
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

/// Returns the indices of a program's loads and stores.
fn indices(program: &mut Program) -> impl Iterator<Item = &mut Index> {
    let loads = program.insts.iter_mut().filter_map(|inst| match inst {
        Inst::Load { index, .. } => Some(index),
        _ => None,
    });
    loads.chain(program.stores.iter_mut().map(|store| &mut store.index))
}
