//! Loop kernels without inner dimensions, with a thread for each element or for each vector of four.

use crate::codegen::analysis::{bind_quads, coordinates, decompose};
use crate::codegen::dialect::Dialect;
use crate::codegen::module::{Module, ENTRY};
use crate::codegen::program::Place;
use crate::codegen::sizes::Unsigned;
use crate::codegen::source::Source;
use crate::kernel::{Program, ValueId};
use crate::schedule::{MapSchedule, Schedule, VECTOR};

/// Prints a map, with a thread for each element or vector.
pub fn wgsl(
    (dims, program): (&[usize], &Program),
    map: &MapSchedule,
    schedule: &Schedule,
    dialect: Dialect,
) -> Source {
    let live = program.live(&[]);
    let vector = map.vector.as_ref();
    let quad = vector.map(|vector| vector.axis);
    let mut module = Module::new(dialect);
    module.bind(&[program]);
    bind_quads(&mut module, &[program], &[quad]);
    let count = dims.iter().product::<usize>() / if quad.is_some() { VECTOR } else { 1 };
    let size = schedule.workgroup_size;
    let [arguments, number] = ENTRY;
    let mut text = format!("@compute @workgroup_size({size})\n{arguments}{number}");
    let all = Unsigned(count);
    put!(text, "let n = group * {size}u + lane;\nif (n >= {all}) {{\nreturn;\n}}\n");
    text += &decompose("n", dims, 0, coordinates(program, &live), "", quad);
    let (module, varying) = (&module, &[][..]);
    let outer = dims.len().saturating_sub(1);
    let place = Place { module, program, varying, outer, step: None, vector };
    for id in (0..program.insts.len()).filter(|&id| live[id]) {
        text += &place.define(id as ValueId);
    }
    for store in &program.stores {
        text += &place.store(store);
    }
    text += "}\n";
    module.finish(&text, schedule.workgroups)
}
