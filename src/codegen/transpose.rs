//! Maps that read along another axis than they write. Tiles of 32 x 32 elements are transposed in workgroup memory, so that
//! neighboring threads access neighboring elements in both directions.

use crate::codegen::analysis::{coordinates, decompose};
use crate::codegen::dialect::Dialect;
use crate::codegen::memory::{shared, shared_type, unshared};
use crate::codegen::module::{Module, ENTRY};
use crate::codegen::program::{guarded, Place};
use crate::codegen::sizes::{Signed, Unsigned};
use crate::codegen::source::Source;
use crate::kernel::{Inst, Program, ValueId};
use crate::schedule::{Schedule, TransposeSchedule};

/// Prints a map that loads tiles and stores them transposed.
pub fn wgsl(
    (dims, program): (&[usize], &Program),
    transpose: &TransposeSchedule,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let live = program.live(&[]);
    let TransposeSchedule { axis, last, loads, tiles } = transpose;
    let (axis, last, groups) = (*axis, *last, schedule.workgroups);
    let mut module = Module::new(dialect);
    module.bind(&[program]);
    let (module, varying) = (&module, &[][..]);
    let place = Place { module, program, varying, outer: dims.len(), step: None, vector: None };
    let [arguments, number] = ENTRY;
    let mut text = String::new();
    // A line has one extra element, so that the elements of a column are in different banks.
    for &id in loads {
        let element = shared_type(program.types[id as usize]);
        put!(text, "var<workgroup> tile{id}: array<{element}, 1056>;\n");
    }
    let size = schedule.workgroup_size;
    put!(text, "@compute @workgroup_size({size})\n{arguments}{number}");
    let count = Unsigned(groups as usize);
    put!(text, "if (group >= {count}) {{\nreturn;\n}}\nlet side = lane % 32u;\n");
    let number = |id: ValueId| matches!(program.insts[id as usize], Inst::Param { .. });
    let all = || (0..live.len() as ValueId).filter(|&id| live[id as usize]);
    for id in all().filter(|&id| number(id)) {
        text += &place.define(id);
    }
    let swapped = 1 << axis | 1 << last;
    let used = coordinates(program, &live) & !swapped;
    text += &decompose("group", tiles, 0, used, "", None);
    text += &decompose("group", tiles, 0, swapped, "_tile", None);
    for (lines, sides) in [(last, axis), (axis, last)] {
        put!(
            text,
            "for (var i = 0u; i < 32u; i += 8u) {{\nlet line = i + lane / 32u;\n\
            let c{lines} = c{lines}_tile * 32 + i32(line);\n\
            let c{sides} = c{sides}_tile * 32 + i32(side);\n"
        );
        let mut body = String::new();
        if sides == axis {
            for &id in loads {
                let value = shared(program.types[id as usize], &format!("v{id}"));
                put!(body, "{}tile{id}[line * 33u + side] = {value};\n", place.define(id));
            }
        } else {
            for id in all().filter(|&id| !number(id)) {
                if loads.contains(&id) {
                    let element = format!("tile{id}[side * 33u + line]");
                    put!(body, "let v{id} = {};\n", unshared(program.types[id as usize], &element));
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
    module.finish(&(text + "}\n"), groups)
}
