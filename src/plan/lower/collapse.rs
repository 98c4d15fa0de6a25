//! Collapses loop dimensions: adjacent dimensions that every access walks as one are merged. Most kernels become one- or
//! two-dimensional.

use crate::dtype::DType;
use crate::kernel::{Atom, Index, Inst, Program, Space};
use crate::op::Const;

/// Returns an equal loop with as few dimensions as its indices allow.
pub fn collapse(mut space: Space, mut program: Program) -> (Space, Program) {
    let mut dim = space.dims.len();
    while dim > 0 {
        dim -= 1;
        if space.dims[dim] == 1 {
            remove(&mut space, &mut program, dim);
        }
    }
    let mut dim = space.dims.len().saturating_sub(1);
    while dim > 0 {
        dim -= 1;
        let inner = dim + 1;
        // A row dimension and a column dimension are not merged.
        if inner != space.outer && joins(&space, &program, dim) {
            space.dims[inner] *= space.dims[dim];
            remove(&mut space, &mut program, dim);
        }
    }
    (space, program)
}

/// Whether every index walks `dim` and the next dimension as one.
fn joins(space: &Space, program: &Program, dim: usize) -> bool {
    let (outer, inner) = (Atom::Coord(dim as u32), Atom::Coord(dim as u32 + 1));
    let extent = space.dims[dim + 1] as i64;
    let one = |index: &Index| index.stride(outer) == index.stride(inner) * extent;
    for inst in &program.insts {
        let joins = match inst {
            Inst::Coord(d) => *d as usize != dim && *d as usize != dim + 1,
            Inst::Load { index, .. } => one(index),
            _ => true,
        };
        if !joins {
            return false;
        }
    }
    program.stores.iter().all(|store| one(&store.index))
}

/// Removes a dimension whose coordinate is 0 or is counted by the next dimension.
fn remove(space: &mut Space, program: &mut Program, dim: usize) {
    space.dims.remove(dim);
    space.outer -= usize::from(dim < space.outer);
    let renumber = |d: u32| if d as usize > dim { d - 1 } else { d };
    let fix = |index: &mut Index| {
        let gone = Index::atom(Atom::Coord(dim as u32));
        index.add(&gone, -index.stride(Atom::Coord(dim as u32)));
        for (atom, _) in &mut index.terms {
            if let Atom::Coord(d) = atom {
                *d = renumber(*d);
            }
        }
    };
    for inst in &mut program.insts {
        match inst {
            Inst::Coord(d) if *d as usize == dim => {
                *inst = Inst::Const(Const { dtype: DType::I32, bits: 0 });
            }
            Inst::Coord(d) => *d = renumber(*d),
            Inst::Load { index, .. } => fix(index),
            _ => {}
        }
    }
    for store in &mut program.stores {
        fix(&mut store.index);
    }
}
