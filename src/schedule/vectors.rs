//! Vectorization: finds programs that can compute four neighbors at a time.

use crate::kernel::{Atom, Index, Inst, Program, Rows, Space, Store, ValueId};

/// The elements of a vector.
pub const VECTOR: usize = 4;

/// A coordinate along which four neighbors are computed at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Vector {
    /// The coordinate, which advances by four.
    pub axis: u32,
    /// Whether each value of the program holds four elements, because it differs along the axis or is the accumulator.
    pub values: Vec<bool>,
}

impl Vector {
    /// Returns the vector along `axis`, with extent `extent`, if the program's stores or `root` can be computed in vectors.
    /// The coordinates from `outer` on are reduced.
    ///
    /// Values that differ along the axis must be read and written with stride one, and some of them in whole vectors. A
    /// program that uses its coordinate along the axis gets no vector. It may guard the end of a buffer whose length is not a
    /// multiple of four.
    pub fn along(
        program: &Program,
        root: Option<ValueId>,
        outer: usize,
        axis: u32,
        extent: usize,
    ) -> Option<Vector> {
        let vector = Vector { axis, values: wide(program, outer, axis) };
        let live = program.live(root.as_slice());
        vector.fits(program, &live, extent).then_some(vector)
    }

    /// Returns the vector along the last axis of a row. If a row has one thread, the last axis of the rows is the
    /// alternative.
    pub(super) fn of_rows(space: &Space, program: &Program, shared: Rows) -> Option<Vector> {
        let across = if shared == Rows::Thread { space.outer } else { 0 };
        for after in [space.dims.len(), across] {
            let Some(axis) = after.checked_sub(1) else { continue };
            let extent = space.dims[axis];
            let vector = Vector::along(program, None, space.outer, axis as u32, extent);
            if vector.is_some() {
                return vector;
            }
        }
        None
    }

    fn fits(&self, program: &Program, live: &[bool], extent: usize) -> bool {
        let Vector { axis, values: wide } = self;
        let axis = *axis;
        if extent == 0 || !extent.is_multiple_of(VECTOR) {
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
                    whole |= is_whole_vector(index, axis);
                }
                _ => {}
            }
        }
        let along = |store: &Store| store.index.stride(Atom::Coord(axis)) != 0;
        for store in &program.stores {
            let varies = along(store);
            let fits = match varies {
                true => is_whole_vector(&store.index, axis),
                false => !wide[store.value as usize],
            };
            let mixes = |other: &Store| other.output == store.output && along(other) != varies;
            if !fits || by_value(&store.index) || program.stores.iter().any(mixes) {
                return false;
            }
            whole |= varies;
        }
        whole
    }
}

/// Whether four neighbors along `axis` are one aligned vector in memory.
pub fn is_whole_vector(index: &Index, axis: u32) -> bool {
    let fours = |(atom, stride): &(Atom, i64)| *atom == Atom::Coord(axis) || stride % 4 == 0;
    index.stride(Atom::Coord(axis)) == 1 && index.offset % 4 == 0 && index.terms.iter().all(fours)
}

/// Returns for each value whether it differs along `axis` or is the accumulator. A reduction over the axis, which is from
/// `outer` on in that case, does not differ.
fn wide(program: &Program, outer: usize, axis: u32) -> Vec<bool> {
    let mut wide: Vec<bool> = Vec::with_capacity(program.insts.len());
    for inst in &program.insts {
        let of = inst.operands().iter().any(|&v| wide[v as usize]);
        wide.push(match inst {
            Inst::Coord(d) => *d == axis,
            Inst::Accumulator => true,
            Inst::Load { index, .. } => of || index.stride(Atom::Coord(axis)) != 0,
            Inst::LoadOutput { output, .. } => program
                .store_to(*output)
                .is_some_and(|(_, store)| store.index.stride(Atom::Coord(axis)) != 0),
            Inst::Reduce(..) => of && (axis as usize) < outer,
            _ => of,
        });
    }
    wide
}
