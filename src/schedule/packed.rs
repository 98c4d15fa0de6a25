//! The schedule of products with packed matrices. For few rows of the other operand, threads decode whole units of packed
//! rows in registers. For more rows, the matrix is the left operand of an ordinary product in tiles, and each tile is decoded
//! once. If threads work alone, they decode units for any number of rows.

use super::products::{class, product, shared, vector, NO_VECTORS};
use super::strategy::{
    PackedSchedule, ProductExtents, ProductSchedule, Schedule, Strategy, PACKED_UNIT,
    REGISTER_THREADS,
};
use crate::kernel::{KernelConfig, PackedMatmul, Rows};

/// The most rows of the other operand that a thread has results for: if threads share units, and if threads work alone.
const MOST_ROWS: [usize; 2] = [8, 4];
/// The most columns that a thread has results for if threads work alone.
const MOST_COLUMNS: usize = 8;
/// The results of a thread if threads share units. More rows than this are one column.
const RESULTS: usize = 8;
/// With fewer threads than this, a thread has results in one column only.
const FEW_THREADS: usize = 1 << 14;

/// The threads of a workgroup if threads share units.
const THREADS: usize = 64;
/// The approximate number of units of a row that each thread decodes.
const UNITS: usize = 4;
/// The least and the most threads that share the units of a row.
const LANES: [usize; 2] = [4, 32];

/// The longest row that one thread decodes alone. A software GPU may end the loops of a thread after 65,535 steps.
const MOST_ALONE: usize = 1 << 18;

pub(super) fn schedule(packed: &PackedMatmul, config: KernelConfig) -> Schedule {
    let &PackedMatmul { m, n, k, .. } = packed;
    let alone = config.rows == Rows::Thread;
    if m > MOST_ROWS[0] && !alone {
        // Neighbors along a packed row share words and a scale, so they are the vectors of a left operand.
        let extents = ProductExtents { batch: 1, m: n, n: m, k };
        let tile = shared(config.matmul_tiles[class(extents)], n, m);
        let (transposed, vectors) = ([false, true], NO_VECTORS);
        return product(ProductSchedule { extents, tile, transposed, vectors });
    }
    let lanes = match alone && k <= MOST_ALONE {
        true => 1,
        false => {
            let lanes = k.div_ceil(PACKED_UNIT).div_ceil(UNITS).next_power_of_two();
            lanes.clamp(LANES[0], LANES[1])
        }
    };
    let workgroup_size = if lanes == 1 { REGISTER_THREADS } else { THREADS };
    // Rows are divided evenly among threads.
    let strips = m.div_ceil(MOST_ROWS[usize::from(alone)]).max(1);
    let rows = m.div_ceil(strips).max(1);
    // Loaded values of the other operand are reused for each column.
    let most = match lanes {
        1 => (n / (2 * REGISTER_THREADS)).min(MOST_COLUMNS),
        _ => (n * lanes / FEW_THREADS).min(RESULTS / rows).min(4),
    };
    let columns = 1 << most.max(1).ilog2();
    let workgroups = m.div_ceil(rows) * n.div_ceil(workgroup_size / lanes * columns);
    Schedule {
        lowered: None,
        workgroup_size,
        workgroups: workgroups as u64,
        strategy: Strategy::Packed(PackedSchedule {
            rows,
            columns,
            lanes,
            vector: vector(&packed.x.program, Some(packed.x.value), 1, k),
        }),
    }
}
