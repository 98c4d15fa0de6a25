//! How a program walks through memory: what varies, and along which coordinates neighbours lie side by side.

use crate::kernel::{Atom, Index, Inst, Program, Space};

/// Which coordinate of a space of rows and columns moves fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traversal {
    /// The columns: neighbours are elements of one row.
    RowMajor,
    /// The rows: neighbours are elements of one column.
    ColumnMajor,
}

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

/// What is fewer numbers than this is no run.
const SHORT: usize = 8;

/// The order in which `index` finds neighbours side by side; `None` where it does in both or in neither, or has the same
/// elements for every row.
fn contiguous(space: &Space, index: &Index) -> Option<Traversal> {
    let last = |range: std::ops::Range<usize>| range.rev().find(|&d| space.dims[d] > 1);
    let outer = last(0..space.outer)?;
    let inner = last(space.outer..space.dims.len())?;
    let along = |d: usize| index.stride(Atom::Coord(d as u32)).unsigned_abs();
    if (0..space.outer).all(|d| along(d) == 0) {
        return None;
    }
    // A run of two or three is worth less than a long walk that leaves out as many: windows that are reduced.
    let short = space.dims[inner] < SHORT && space.dims[inner] < space.dims[outer];
    if short && (1..SHORT as u64).contains(&along(outer)) {
        return Some(Traversal::ColumnMajor);
    }
    match (along(outer) == 1, along(inner) == 1) {
        (true, false) => Some(Traversal::ColumnMajor),
        (false, true) => Some(Traversal::RowMajor),
        _ => None,
    }
}

/// The order in which most of what is loaded for each element lies side by side, or else what is stored; row-major where
/// neither has most.
pub fn traversal<'a>(
    space: &Space,
    loads: impl IntoIterator<Item = &'a Index>,
    stores: impl IntoIterator<Item = &'a Index>,
) -> Traversal {
    let by_columns = match votes(space, loads) {
        0 => votes(space, stores) > 0,
        votes => votes > 0,
    };
    if by_columns {
        Traversal::ColumnMajor
    } else {
        Traversal::RowMajor
    }
}

/// By how much more of the indices find columns side by side than rows.
fn votes<'a>(space: &Space, indices: impl IntoIterator<Item = &'a Index>) -> i32 {
    let mut votes = 0;
    for index in indices {
        votes += match contiguous(space, index) {
            Some(Traversal::ColumnMajor) => 1,
            Some(Traversal::RowMajor) => -1,
            None => 0,
        };
    }
    votes
}
