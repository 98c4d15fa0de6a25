//! Maps that read along another axis than they write: tiles of 32 x 32 elements turn in workgroup memory, so that both
//! go along with neighbouring threads.

use crate::codegen::analysis::{coordinates, decompose};
use crate::codegen::module::{type_name, Module, ENTRY};
use crate::codegen::program::{guarded, Place};
use crate::codegen::sizes::{Signed, Unsigned};
use crate::codegen::source::Source;
use crate::kernel::{Atom, Index, Inst, Program, ValueId};

/// Extents and distances of neighbours from which on a tile is worth it.
const LEAST: usize = 16;
/// Loads that turn, at most: workgroup memory holds three tiles.
const MOST: usize = 2;

/// The axis along which some loads read neighbours while all stores write them along the last one, and those loads.
pub fn turned(dims: &[usize], program: &Program, live: &[bool]) -> Option<(usize, Vec<ValueId>)> {
    let last = dims.len().checked_sub(1)?;
    let along = |index: &Index, d: usize| index.stride(Atom::Coord(d as u32)).unsigned_abs();
    for store in &program.stores {
        if along(&store.index, last) != 1 || !store.index.values().is_empty() {
            return None;
        }
    }
    let (mut axis, mut loads) = (last, Vec::new());
    for (id, inst) in program.insts.iter().enumerate() {
        let Inst::Load { index, .. } = inst else { continue };
        let apart = along(index, last) >= LEAST as u64 && program.is_view(index);
        if !live[id] || !apart || loads.len() == MOST {
            continue;
        }
        for (d, &extent) in dims[..last].iter().enumerate() {
            if along(index, d) == 1 && extent >= LEAST && (axis == last || axis == d) {
                axis = d;
                loads.push(id as ValueId);
                break;
            }
        }
    }
    (axis < last && dims[last] >= LEAST).then_some((axis, loads))
}

/// The text of a map whose `loads` turn between `axis` and the last one.
pub fn wgsl(
    dims: &[usize],
    program: &Program,
    live: &[bool],
    (axis, loads): (usize, Vec<ValueId>),
) -> Source {
    let last = dims.len() - 1;
    let mut tiles = dims.to_vec();
    tiles[axis] = dims[axis].div_ceil(32);
    tiles[last] = dims[last].div_ceil(32);
    let groups = tiles.iter().product::<usize>();
    let (module, varying) = (&Module::new(&[program]), &[][..]);
    let place =
        Place { module, program, varying, outer: dims.len(), step: None, quad: None, wide: &[] };
    let [arguments, number] = ENTRY;
    let mut text = String::new();
    // A line is one longer than it must be: columns, too, lie in different banks.
    for &id in &loads {
        let name = type_name(program.types[id as usize], false);
        put!(text, "var<workgroup> tile{id}: array<{name}, 1056>;\n");
    }
    put!(text, "@compute @workgroup_size(256)\n{arguments}{number}");
    let count = Unsigned(groups);
    put!(text, "if (group >= {count}) {{\nreturn;\n}}\nlet side = lane % 32u;\n");
    let number = |id: ValueId| matches!(program.insts[id as usize], Inst::Param { .. });
    let all = || (0..live.len() as ValueId).filter(|&id| live[id as usize]);
    for id in all().filter(|&id| number(id)) {
        text += &place.define(id);
    }
    let turning = 1 << axis | 1 << last;
    let used = coordinates(program, live) & !turning;
    text += &decompose("group", &tiles, 0, used, "", None);
    text += &decompose("group", &tiles, 0, turning, "_tile", None);
    for (lines, sides) in [(last, axis), (axis, last)] {
        put!(
            text,
            "for (var i = 0u; i < 32u; i += 8u) {{\nlet line = i + lane / 32u;\n\
            let c{lines} = c{lines}_tile * 32 + i32(line);\n\
            let c{sides} = c{sides}_tile * 32 + i32(side);\n"
        );
        let mut body = String::new();
        if sides == axis {
            for &id in &loads {
                put!(body, "{}tile{id}[line * 33u + side] = v{id};\n", place.define(id));
            }
        } else {
            for id in all().filter(|&id| !number(id)) {
                if loads.contains(&id) {
                    put!(body, "let v{id} = tile{id}[side * 33u + line];\n");
                } else {
                    body += &place.define(id);
                }
            }
            for store in &program.stores {
                body += &place.store(store);
            }
        }
        let inside = |d: usize| {
            let extent = dims[d];
            (!extent.is_multiple_of(32)).then(|| format!("c{d} < {}", Signed(extent as u64)))
        };
        text += &guarded([inside(axis), inside(last)], &body);
        text += "}\n";
        if sides == axis {
            text += "workgroupBarrier();\n";
        }
    }
    module.finish(&(text + "}\n"), groups as u64)
}
