//! That a program is well formed.

use super::plan::Counts;
use crate::error::{Error, Result};
use crate::kernel::{Atom, Index, Inst, Program, Space};

/// That everything named exists, so that nothing that follows can miss.
pub fn check(space: &Space, program: &Program, counts: Counts) -> Result<()> {
    let refuse = |what: &str| Err(Error::data(format!("cpu: malformed kernel: {what}")));
    if space.outer > space.dims.len() {
        return refuse("more outer dimensions than dimensions");
    }
    if program.types.len() != program.insts.len() {
        return refuse("values without a type");
    }
    let fits = |index: &Index, before: usize| {
        index.terms.iter().all(|(atom, _)| match atom {
            Atom::Coord(d) => (*d as usize) < space.dims.len(),
            Atom::Value(v) => (*v as usize) < before,
        })
    };
    for (at, inst) in program.insts.iter().enumerate() {
        if inst.operands().iter().any(|&v| v as usize >= at) {
            return refuse("a value is used before it is made");
        }
        let there = match inst {
            Inst::Param { word, .. } => (*word as usize) < counts.params,
            Inst::Coord(d) => (*d as usize) < space.dims.len(),
            Inst::Load { input, index, .. } => (*input as usize) < counts.inputs && fits(index, at),
            Inst::Accumulator => counts.epilogue,
            _ => true,
        };
        if !there {
            return refuse(&format!("{inst:?} names what is not there"));
        }
    }
    let values = program.insts.len();
    for store in &program.stores {
        if store.output as usize >= counts.outputs
            || store.value as usize >= values
            || !fits(&store.index, values)
        {
            return refuse(&format!("{store:?} names what is not there"));
        }
    }
    Ok(())
}
