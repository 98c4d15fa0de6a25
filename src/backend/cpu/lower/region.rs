//! Maps that read along another dimension than they write. In row-major order, every element that they read is on a different
//! cache line. Therefore they are computed in squares, and the remainder in separate regions.

use crate::kernel::{Inst, Program, Space};
use crate::schedule::tiled_transpose;

/// The elements along a side of a square, which are two cache lines.
const SIDE: usize = 32;

/// The fewest elements of a dimension of a square.
const MIN_DIM_ELEMENTS: usize = 4;

/// A dimension with squares, and their length along it.
#[derive(Clone, Copy, Debug)]
pub struct Side {
    pub dim: usize,
    pub length: usize,
}

/// A part of a map's coordinates.
#[derive(Clone, Debug, Default)]
pub struct Region {
    /// The first coordinate along each dimension. An empty list means 0 everywhere.
    pub first: Vec<usize>,
    /// The sides of the squares: the dimension that is read along, and the one that is written along. The extents of the
    /// region are multiples of these lengths.
    pub squares: Option<[Side; 2]>,
}

/// Returns the regions of a kernel with their extents.
pub fn regions(space: &Space, program: &Program) -> Vec<(Space, Region)> {
    let Some([read, write]) = crossed(space, program) else {
        return vec![(space.clone(), Region::default())];
    };
    let even = |side: Side| space.dims[side.dim] / side.length * side.length;
    let region = |along_read: (usize, usize), along_write: (usize, usize)| {
        let (mut dims, mut first) = (space.dims.clone(), vec![0; space.dims.len()]);
        (first[read.dim], dims[read.dim]) = (along_read.0, along_read.1 - along_read.0);
        (first[write.dim], dims[write.dim]) = (along_write.0, along_write.1 - along_write.0);
        (Space { dims, outer: space.outer }, Region { first, squares: None })
    };
    let mut squares = region((0, even(read)), (0, even(write)));
    squares.1.squares = Some([read, write]);
    let [whole_read, whole_write] = [space.dims[read.dim], space.dims[write.dim]];
    let right = region((0, whole_read), (even(write), whole_write));
    let below = region((even(read), whole_read), (0, even(write)));
    let regions = [squares, right, below].into_iter();
    regions.filter(|(space, _)| space.rows() > 0).collect()
}

/// Returns the dimension that a map reads along, and the one that it writes along, if squares are worth it.
fn crossed(space: &Space, program: &Program) -> Option<[Side; 2]> {
    let accumulates = program.insts.contains(&Inst::Accumulator);
    if space.outer != space.dims.len() || accumulates {
        return None;
    }
    let (read, write, _) = tiled_transpose(&space.dims, program, [SIDE, MIN_DIM_ELEMENTS])?;
    // A short dimension is a single side.
    let length = if space.dims[write] >= 2 * SIDE { SIDE } else { space.dims[write] };
    Some([Side { dim: read, length: SIDE }, Side { dim: write, length }])
}
