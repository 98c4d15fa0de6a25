//! What printing needs to know about a program: what is used, what varies, what can be done four elements at a time.

use crate::codegen::module::Module;
use crate::codegen::sizes::Unsigned;
use crate::kernel::{Atom, Index, Inst, Program, Rows, Space, Store};

/// For each value, whether it depends on a coordinate from `outer` on (other than through `Reduce`), or on the
/// accumulator.
pub fn varying(program: &Program, outer: usize) -> Vec<bool> {
    let mut varying = program.per_element(outer);
    for (i, inst) in program.insts.iter().enumerate() {
        varying[i] |= match inst {
            Inst::Accumulator => true,
            Inst::Reduce(..) => false,
            other => other.operands().iter().any(|&v| varying[v as usize]),
        };
    }
    varying
}

/// The coordinates that the live values and the stores name, as bits.
pub fn coordinates(program: &Program, live: &[bool]) -> u64 {
    let mut used = 0;
    for (inst, live) in program.insts.iter().zip(live) {
        match inst {
            Inst::Coord(d) if *live => used |= 1 << d,
            Inst::Load { index, .. } if *live => used |= named(index),
            _ => {}
        }
    }
    for store in &program.stores {
        used |= named(&store.index);
    }
    used
}

/// The coordinates that an index names, as bits.
fn named(index: &Index) -> u64 {
    let mut used = 0;
    for (atom, _) in &index.terms {
        if let Atom::Coord(d) = atom {
            used |= 1 << d;
        }
    }
    used
}

/// For each value, whether it differs along `axis`, or is the accumulator: with four neighbours at a time it holds four
/// elements. What is reduced over the axis, which lies from `outer` on then, does not.
pub fn wide(program: &Program, outer: usize, axis: u32) -> Vec<bool> {
    let mut wide: Vec<bool> = Vec::with_capacity(program.insts.len());
    for inst in &program.insts {
        let of = inst.operands().iter().any(|&v| wide[v as usize]);
        wide.push(match inst {
            Inst::Coord(d) => *d == axis,
            Inst::Accumulator => true,
            Inst::Load { index, .. } => of || index.stride(Atom::Coord(axis)) != 0,
            Inst::Reduce(..) => of && (axis as usize) < outer,
            _ => of,
        });
    }
    wide
}

/// Whether the program can compute four neighbours along `axis`, an extent of `extent`, at a time, where `wide` are its
/// values that differ there: those are read and written in steps of one, and some of them in whole `vec4`s. A program
/// that looks at where it is along the axis may guard a buffer's end that is no multiple of four: never.
pub fn widens(program: &Program, live: &[bool], wide: &[bool], axis: u32, extent: usize) -> bool {
    if extent == 0 || !extent.is_multiple_of(4) {
        return false;
    }
    let by_value = |index: &Index| index.values().iter().any(|&v| wide[v as usize]);
    let mut whole = false;
    for (i, inst) in program.insts.iter().enumerate().filter(|(i, _)| live[*i]) {
        match inst {
            Inst::Coord(d) if *d == axis => return false,
            Inst::Load { index, .. } if wide[i] => {
                if by_value(index) || index.stride(Atom::Coord(axis)) != 1 {
                    return false;
                }
                whole |= is_whole(index, axis);
            }
            _ => {}
        }
    }
    let along = |store: &Store| store.index.stride(Atom::Coord(axis)) != 0;
    for store in &program.stores {
        let varies = along(store);
        let fits = if varies { is_whole(&store.index, axis) } else { !wide[store.value as usize] };
        let mixes = |other: &Store| other.output == store.output && along(other) != varies;
        if !fits || by_value(&store.index) || program.stores.iter().any(mixes) {
            return false;
        }
        whole |= varies;
    }
    whole
}

/// The coordinate along which four neighbours are computed at a time, and the values that differ there: the last along a
/// row, or (where a row has one thread) the last along the rows.
pub fn quads(
    space: &Space,
    program: &Program,
    live: &[bool],
    shared: Rows,
) -> (Option<u32>, Vec<bool>) {
    let across = if shared == Rows::Thread { space.outer } else { 0 };
    for after in [space.dims.len(), across] {
        let Some(axis) = after.checked_sub(1) else { continue };
        let wide = wide(program, space.outer, axis as u32);
        if widens(program, live, &wide, axis as u32, space.dims[axis]) {
            return (Some(axis as u32), wide);
        }
    }
    (None, Vec::new())
}

/// Whether four neighbours along `axis` are one `vec4` in memory.
fn is_whole(index: &Index, axis: u32) -> bool {
    index.stride(Atom::Coord(axis)) == 1
        && index.offset % 4 == 0
        && index.terms.iter().all(|(atom, s)| *atom == Atom::Coord(axis) || s % 4 == 0)
}

/// Declares those buffers as `vec4`s that every program reads or writes in whole `vec4`s along its own axis.
pub fn bind_quads(module: &mut Module, programs: &[&Program], axes: &[Option<u32>]) {
    for bound in module.inputs.iter_mut().chain(&mut module.outputs).flatten() {
        bound.quads = true;
    }
    for (program, axis) in programs.iter().zip(axes) {
        let whole = |index: &Index| axis.is_some_and(|axis| is_whole(index, axis));
        for inst in &program.insts {
            if let Inst::Load { input, index, .. } = inst {
                if let Some(bound) = &mut module.inputs[*input as usize] {
                    bound.quads &= whole(index);
                }
            }
        }
        for store in &program.stores {
            if let Some(bound) = &mut module.outputs[store.output as usize] {
                bound.quads &= whole(&store.index);
            }
        }
    }
}

/// `let c2 = i32(from / 4u % 3u);` for each coordinate in `used`: `from` counts the coordinates of `dims`, the last one
/// fastest, which are numbered from `first` on and get `suffix` to their names. Along `quad` it counts by fours.
pub fn decompose(
    from: &str,
    dims: &[usize],
    first: usize,
    used: u64,
    suffix: &str,
    quad: Option<u32>,
) -> String {
    let mut text = String::new();
    let mut count: usize = 1;
    for (i, &extent) in dims.iter().enumerate().rev() {
        let d = first + i;
        let by_fours = quad == Some(d as u32);
        let extent = if by_fours { extent / 4 } else { extent }.max(1);
        if used >> d & 1 == 1 {
            let mut value = from.to_string();
            if count > 1 {
                put!(value, " / {}", Unsigned(count));
            }
            if dims[..i].iter().any(|&e| e > 1) {
                put!(value, " % {}", Unsigned(extent));
            }
            let times = if by_fours { " * 4" } else { "" };
            put!(text, "let c{d}{suffix} = i32({value}){times};\n");
        }
        count *= extent;
    }
    text
}
