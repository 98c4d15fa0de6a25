//! Validation of programs. Backends rely on a valid program.

use super::{Atom, Index, Inst, Program, Space, Store};
use crate::error::{Error, Result};

/// The numbers of inputs, outputs and params of a dispatch.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub inputs: usize,
    pub outputs: usize,
    pub params: usize,
    /// Whether the program is the epilogue of a routine, and has its result.
    pub epilogue: bool,
}

impl Program {
    /// Checks that all operands exist, and that values are computed before they are used.
    ///
    /// # Errors
    /// `InvalidState` that names what is wrong.
    pub fn check(&self, space: &Space, counts: Counts) -> Result<()> {
        let refuse =
            |what: &str| Err(Error::state(format!("kernel: {what}; this is a bug in warpweft")));
        if space.outer > space.dims.len() {
            return refuse("outer dimensions must be at most the dimensions");
        }
        if self.types.len() != self.insts.len() {
            return refuse("values must have a dtype");
        }
        let fits = |index: &Index, before: usize| {
            index.terms.iter().all(|(atom, _)| match atom {
                Atom::Coord(d) => (*d as usize) < space.dims.len(),
                Atom::Value(v) => (*v as usize) < before,
            })
        };
        for (at, inst) in self.insts.iter().enumerate() {
            if inst.operands().iter().any(|&v| v as usize >= at) {
                return refuse("values must be computed before they are used");
            }
            let there = match inst {
                Inst::Param { word, .. } => (*word as usize) < counts.params,
                Inst::Coord(d) => (*d as usize) < space.dims.len(),
                Inst::Load { input, index, .. } => {
                    (*input as usize) < counts.inputs && fits(index, at)
                }
                Inst::LoadOutput { output, dtype } => {
                    let alike = |(_, store): (usize, &Store)| store.dtype == *dtype;
                    let map = space.outer == space.dims.len() && !dtype.is_packed();
                    map && self.store_to(*output).is_some_and(alike)
                }
                Inst::Accumulator => counts.epilogue,
                _ => true,
            };
            if !there {
                return refuse(&format!("operands must exist, got {inst:?}"));
            }
        }
        let values = self.insts.len();
        for store in &self.stores {
            if store.output as usize >= counts.outputs
                || store.value as usize >= values
                || !fits(&store.index, values)
            {
                return refuse(&format!("stored values must exist, got {store:?}"));
            }
        }
        Ok(())
    }
}
