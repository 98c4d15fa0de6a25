//! Products of a few rows with a large matrix whose columns are contiguous.
//!
//! A tile is some rows times some columns. Each of its products has a vector of sums, which stays in registers for all
//! numbers of the rows and columns. So a weight is loaded once for up to four rows. A processor prefetches only addresses
//! that advance steadily. The columns of a tile are therefore not neighbors. With 12 columns and tiles of 4, the first tile
//! has the columns 0, 3, 6 and 9, and the second one 1, 4, 7 and 10. So four contiguous streams are read.

use super::gemm::Matrix;
use crate::backend::cpu::math::lanes::{LaneWork, Lanes, Sixteen, LANES};
use bytemuck::cast_slice;

/// Products of rows with some columns of a large matrix. `out` has the products row by row.
pub struct Dots<'a> {
    pub rows: &'a Rows,
    pub large: Matrix<'a>,
    /// The first column.
    pub first: usize,
    pub out: &'a mut [f32],
}

/// Rows of numbers in vectors. The last vector of each row is padded with zeros.
pub struct Rows {
    depth: usize,
    vectors: Vec<Sixteen>,
}

impl Rows {
    /// Copies the rows of `few`.
    pub fn new(few: Matrix<'_>, rows: usize, depth: usize) -> Rows {
        let length = depth.div_ceil(LANES);
        let mut vectors = vec![[0f32; LANES]; rows * length];
        for (row, vectors) in vectors.chunks_exact_mut(length).enumerate() {
            let numbers = vectors.as_flattened_mut()[..depth].iter_mut().enumerate();
            numbers.for_each(|(i, number)| *number = few.data[few.position(row, i)]);
        }
        Rows { depth, vectors }
    }

    fn count(&self) -> usize {
        self.vectors.len() / self.depth.div_ceil(LANES)
    }
}

impl LaneWork for Dots<'_> {
    type Output = ();
    #[inline(always)]
    fn run<L: Lanes>(self, lanes: L) {
        if L::REGISTERS >= 32 {
            self.tiles::<L, 4, 4>(lanes);
        } else if L::REGISTERS >= 8 {
            self.tiles::<L, 2, 2>(lanes);
        } else {
            self.tiles::<L, 2, 1>(lanes);
        }
    }
}

impl Dots<'_> {
    /// Computes the products in tiles of up to `R` rows and `C` columns. The remaining columns are tiles of one column.
    #[inline(always)]
    fn tiles<L: Lanes, const R: usize, const C: usize>(mut self, lanes: L) {
        let rows = self.rows.count();
        let height = rows.div_ceil(rows.div_ceil(R));
        let count = self.out.len() / rows;
        let apart = count / C;
        for column in 0..apart {
            for row in (0..rows).step_by(height) {
                self.rows::<L, C>(lanes, (row, height.min(rows - row)), (column, apart));
            }
        }
        for column in apart * C..count {
            for row in (0..rows).step_by(height) {
                self.rows::<L, 1>(lanes, (row, height.min(rows - row)), (column, 1));
            }
        }
    }

    /// Computes a tile of `height` rows, with columns that are `apart`.
    #[inline(always)]
    fn rows<L: Lanes, const C: usize>(
        &mut self,
        lanes: L,
        (row, height): (usize, usize),
        columns: (usize, usize),
    ) {
        match height {
            1 => self.tile::<L, 1, C>(lanes, row, columns),
            3 if L::REGISTERS >= 32 => self.tile::<L, 3, C>(lanes, row, columns),
            4 if L::REGISTERS >= 32 => self.tile::<L, 4, C>(lanes, row, columns),
            _ => self.tile::<L, 2, C>(lanes, row, columns),
        }
    }

    /// Computes the products of `R` rows from `row` on and of `C` columns, the first of which is `column`.
    #[inline(always)]
    fn tile<L: Lanes, const R: usize, const C: usize>(
        &mut self,
        lanes: L,
        row: usize,
        (column, apart): (usize, usize),
    ) {
        let Rows { depth, ref vectors } = *self.rows;
        let length = depth.div_ceil(LANES);
        let whole = depth / LANES;
        let x: [&[Sixteen]; R] = std::array::from_fn(|r| &vectors[(row + r) * length..][..length]);
        let y: [&[f32]; C] = std::array::from_fn(|c| {
            &self.large.data[self.large.position(0, self.first + column + c * apart)..][..depth]
        });
        // The slices have one length, so that the compiler removes bounds checks.
        let whole_x = x.map(|x| &x[..whole]);
        let whole_y: [&[Sixteen]; C] = y.map(|y| cast_slice(&y[..whole * LANES]));
        let whole_y = whole_y.map(|y| &y[..whole]);
        let mut sums = [[lanes.splat(0.0); C]; R];
        for i in 0..whole {
            let y: [L::Floats; C] = std::array::from_fn(|c| lanes.load(&whole_y[c][i]));
            for r in 0..R {
                let x = lanes.load(&whole_x[r][i]);
                for c in 0..C {
                    sums[r][c] = lanes.mul_add(x, y[c], sums[r][c]);
                }
            }
        }
        if whole < length {
            for c in 0..C {
                let mut last = [0f32; LANES];
                last[..depth - whole * LANES].copy_from_slice(&y[c][whole * LANES..]);
                let y = lanes.load(&last);
                for r in 0..R {
                    sums[r][c] = lanes.mul_add(lanes.load(&x[r][whole]), y, sums[r][c]);
                }
            }
        }
        let count = self.out.len() / self.rows.count();
        // The loops use indices, because an iterator would also put the sums of the loop above into memory.
        #[allow(clippy::needless_range_loop)]
        for r in 0..R {
            for c in 0..C {
                self.out[(row + r) * count + column + c * apart] = lanes.total(sums[r][c]);
            }
        }
    }
}
