//! Analysis of programs for printing: the coordinates that they use, and the buffers that they access in vectors of four.

use crate::codegen::module::Module;
use crate::codegen::sizes::Unsigned;
use crate::kernel::{Atom, Index, Inst, Program};
use crate::schedule::is_whole_vector;

/// Returns the coordinates that live values and stores use, as a bit set.
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

/// Returns the coordinates that an index uses, as a bit set.
fn named(index: &Index) -> u64 {
    let mut used = 0;
    for (atom, _) in &index.terms {
        if let Atom::Coord(d) = atom {
            used |= 1 << d;
        }
    }
    used
}

/// Declares a buffer as `vec4` if every program accesses it only in whole `vec4`s, along the program's axis.
pub fn bind_quads(module: &mut Module, programs: &[&Program], axes: &[Option<u32>]) {
    for bound in module.inputs.iter_mut().chain(&mut module.outputs).flatten() {
        bound.quads = true;
    }
    for (program, axis) in programs.iter().zip(axes) {
        let whole = |index: &Index| axis.is_some_and(|axis| is_whole_vector(index, axis));
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

/// Declares each coordinate in `used`, for example `let c2 = i32(from / 4u % 3u);`. `from` counts the coordinates of `dims`,
/// with the last one fastest. They are numbered from `first` on, and their names end in `suffix`. The coordinate `quad`
/// counts by fours.
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
