//! Memory access of a program: the values that vary, and the coordinate along which neighbors are adjacent in memory.

use crate::kernel::{Atom, Index, Inst, Program, Space};

/// The coordinate of a space of rows and columns that moves fastest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traversal {
    /// The columns move fastest. Neighbors are elements of one row.
    RowMajor,
    /// The rows move fastest. Neighbors are elements of one column.
    ColumnMajor,
}

/// Returns for each value whether it depends on the accumulator or on a coordinate from `outer` on, other than through
/// `Reduce`.
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

/// Fewer elements than this are not a run.
const SHORT: usize = 8;

/// Returns the order in which `index` is contiguous. Returns `None` if both orders or neither are, or if every row has the
/// same elements.
fn contiguous(space: &Space, index: &Index) -> Option<Traversal> {
    let last = |range: std::ops::Range<usize>| range.rev().find(|&d| space.dims[d] > 1);
    let outer = last(0..space.outer)?;
    let inner = last(space.outer..space.dims.len())?;
    let along = |d: usize| index.stride(Atom::Coord(d as u32)).unsigned_abs();
    if (0..space.outer).all(|d| along(d) == 0) {
        return None;
    }
    // Runs of two or three elements are worth less than a long run with gaps of that size, as in windows that are reduced.
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

/// Returns the order in which most per-element loads are contiguous. If loads have no majority, the stores decide. The
/// default is row-major.
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

/// Returns how many more indices are contiguous by columns than by rows.
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
