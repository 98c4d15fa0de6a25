//! The tiling of a space into blocks, which depends only on its shape.

use super::region::Region;
use super::walk::Order;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Index, Space};
use crate::schedule::{traversal, Traversal};

/// The values of a block, if the space has as many.
pub const BLOCK: usize = 1024;

/// The longest rows, in elements, that are computed whole, so that nothing is computed twice.
const WHOLE: usize = 8192;

/// The least number of rows, contiguous in memory, that are computed together.
const NEIGHBOURS: usize = 8;

/// The work of a task in additions, enough to hide the overhead of the task.
const ADDITIONS_PER_TASK: usize = 1 << 18;

/// The tasks and blocks of a loop kernel.
#[derive(Clone, Debug)]
pub struct Tiling {
    pub rows: usize,
    pub columns: usize,
    pub layout: Traversal,
    /// The rows of a block.
    pub row_block: usize,
    /// The columns of a block.
    pub column_block: usize,
    /// Whether a block has all columns, so that reductions need no second block.
    pub whole: bool,
    /// Whether tasks are ranges of columns instead of rows. Row blocks then run one after the other.
    pub by_columns: bool,
    /// The rows or columns of a task, a multiple of the block's.
    pub task: usize,
}

/// Returns the number of elements of `dims`, or an error if it overflows.
pub fn count(dims: &[usize]) -> Result<usize> {
    let product = dims.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
    product.filter(|&n| i64::try_from(n).is_ok()).ok_or_else(|| {
        Error::new(ErrorKind::Limit, format!("cpu: the elements must fit 64 bits, got {dims:?}"))
    })
}

impl Tiling {
    /// Returns the tiling of kernels whose values are all per row.
    pub fn map(space: &Space, region: &Region, cost: usize) -> Result<Tiling> {
        let rows = count(&space.dims[..space.outer])?;
        // A task has whole squares, and whole lines of squares.
        let unit = match region.squares {
            Some([read, _]) => read.length * count(&space.dims[read.dim + 1..])?,
            None => BLOCK,
        };
        Ok(Tiling {
            rows,
            columns: count(&space.dims[space.outer..])?,
            layout: Traversal::RowMajor,
            row_block: BLOCK.min(rows.max(1)),
            column_block: 0,
            whole: true,
            by_columns: false,
            task: task(1, unit, cost),
        })
    }

    /// Returns the tiling of kernels that reduce or compute per element. `loads` and `stores` are the indices of accesses per
    /// element.
    pub fn rows(space: &Space, loads: &[&Index], stores: &[&Index], cost: usize) -> Result<Tiling> {
        let rows = count(&space.dims[..space.outer])?;
        let columns = count(&space.dims[space.outer..])?;
        count(&space.dims)?;
        let layout = layout(space, rows, loads, stores);
        let (row_block, column_block) = match layout {
            Traversal::RowMajor if columns <= WHOLE => {
                ((BLOCK / columns.max(1)).clamp(1, rows.max(1)), columns)
            }
            Traversal::RowMajor => (1, BLOCK),
            Traversal::ColumnMajor if rows <= BLOCK => {
                (rows, (BLOCK / rows.max(1)).clamp(1, columns.max(1)))
            }
            Traversal::ColumnMajor => (BLOCK, 1),
        };
        let whole = column_block >= columns;
        let groups = rows.div_ceil(row_block.max(1));
        // Rows that interleave in memory cannot be written by different threads.
        let interleaved = layout == Traversal::ColumnMajor && groups > 1 && !stores.is_empty();
        let few = groups < 16 && row_block * columns >= 8 * BLOCK;
        let by_columns = !whole && (interleaved || few);
        let task = match by_columns {
            true => task(row_block, column_block, cost),
            false => task(columns, row_block, cost),
        };
        Ok(Tiling { rows, columns, layout, row_block, column_block, whole, by_columns, task })
    }

    /// Returns the order in which elements are counted.
    pub fn elements(&self, space: &Space) -> Order {
        let (outer, all) = (space.outer, space.dims.len());
        match self.layout {
            Traversal::RowMajor => Order::new(&space.dims, 0..all),
            Traversal::ColumnMajor => Order::new(&space.dims, (outer..all).chain(0..outer)),
        }
    }

    /// Returns the first and the last count of a rectangle, the last one exclusive. The rectangle has the rows `row` and
    /// columns `column`, and must be contiguous in the order of elements.
    pub fn span(&self, row: (usize, usize), column: (usize, usize)) -> (usize, usize) {
        if row.0 >= row.1 || column.0 >= column.1 {
            return (0, 0);
        }
        let at = |row: usize, column: usize| match self.layout {
            Traversal::RowMajor => row * self.columns + column,
            Traversal::ColumnMajor => column * self.rows + row,
        };
        (at(row.0, column.0), at(row.1 - 1, column.1 - 1) + 1)
    }
}

/// Returns the size of a task, a multiple of `unit`. Each counted item has `elements` elements with a cost of `cost`.
fn task(elements: usize, unit: usize, cost: usize) -> usize {
    let unit = unit.max(1);
    let each = elements.max(1).saturating_mul(cost.max(1)).saturating_mul(unit);
    unit.saturating_mul((ADDITIONS_PER_TASK / each).max(1))
}

/// Returns the order in which most accesses are contiguous. Columns are chosen only if enough rows are adjacent.
fn layout(space: &Space, rows: usize, loads: &[&Index], stores: &[&Index]) -> Traversal {
    let last = |dims: &[usize]| dims.iter().rev().copied().find(|&extent| extent != 1);
    let (rows_beside, columns_beside) = space.dims.split_at(space.outer);
    // For short columns, as in windows, fewer rows are enough.
    let enough = last(columns_beside).map_or(NEIGHBOURS, |columns| NEIGHBOURS.min(2 * columns));
    match last(rows_beside).is_some_and(|beside| beside >= enough) || rows <= BLOCK {
        true => traversal(space, loads.iter().copied(), stores.iter().copied()),
        false => Traversal::RowMajor,
    }
}

/// Cuts `0..count` into ranges of `size`.
pub fn cut(count: usize, size: usize) -> Vec<(usize, usize)> {
    let size = size.max(1);
    (0..count).step_by(size).map(|start| (start, count.min(start.saturating_add(size)))).collect()
}
