//! Loop kernels without inner dimensions: a thread per element, or per four.

use crate::codegen::analysis::{bind_quads, coordinates, decompose, wide, widens};
use crate::codegen::module::{Module, ENTRY};
use crate::codegen::program::Place;
use crate::codegen::sizes::Unsigned;
use crate::codegen::source::Source;
use crate::codegen::{moves, rows};
use crate::kernel::{Inst, KernelConfig, Program, Space, Transpose, ValueId};

/// The text of a loop kernel.
pub fn wgsl(space: &Space, program: &Program, config: KernelConfig) -> Source {
    if space.outer < space.dims.len() {
        rows::wgsl(space, program, config.rows)
    } else {
        map(&space.dims, program, config.transpose)
    }
}

fn map(dims: &[usize], program: &Program, shared: Transpose) -> Source {
    let live = program.live(&[]);
    if shared == Transpose::Tiled {
        if let Some(turned) = moves::turned(dims, program, &live) {
            return moves::wgsl(dims, program, &live, turned);
        }
    }
    let outer = dims.len().saturating_sub(1);
    let reduces = program.insts.iter().any(|inst| matches!(inst, Inst::Reduce(..)));
    let extent = dims.last().copied().unwrap_or(1);
    let axis = outer as u32;
    let mut wide = wide(program, outer, axis);
    let quad = (!reduces && widens(program, &live, &wide, axis, extent)).then_some(axis);
    let mut module = Module::new(&[program]);
    match quad {
        Some(_) => bind_quads(&mut module, &[program], &[quad]),
        None => wide.clear(),
    }
    let count = dims.iter().product::<usize>() / if quad.is_some() { 4 } else { 1 };
    // Few threads spread better in small groups.
    let size = if count <= 16384 { 64 } else { 256 };
    let [arguments, number] = ENTRY;
    let mut text = format!("@compute @workgroup_size({size})\n{arguments}{number}");
    let all = Unsigned(count);
    put!(text, "let n = group * {size}u + lane;\nif (n >= {all}) {{\nreturn;\n}}\n");
    text += &decompose("n", dims, 0, coordinates(program, &live), "", quad);
    let (module, varying) = (&module, &[][..]);
    let place = Place { module, program, varying, outer, step: None, quad, wide: &wide };
    for id in (0..program.insts.len()).filter(|&id| live[id]) {
        text += &place.define(id as ValueId);
    }
    for store in &program.stores {
        text += &place.store(store);
    }
    text += "}\n";
    module.finish(&text, (count as u64).div_ceil(size))
}
