//! Products with packed matrices. For few rows of the other operand, threads decode whole units of packed rows in registers.
//! For more rows, the matrix is the left operand of an ordinary product in tiles, each of which is decoded once. Where threads
//! work alone, they decode units for any number of rows.

use super::products::{class, product, shared, vector, NO_VECTORS};
use super::strategy::{
    PackedSchedule, ProductExtents, ProductSchedule, Schedule, Strategy, PACKED_UNIT,
    REGISTER_THREADS,
};
use crate::kernel::{KernelConfig, PackedMatmul, Rows};

/// Rows of the other operand that a thread has results in, at most, where some share the units and where it works alone.
const MOST_ROWS: [usize; 2] = [8, 4];
/// Columns that a thread which works alone has results in, at most.
const MOST_COLUMNS: usize = 8;
/// Results of a thread where some share the units, at most, unless there are more rows.
const RESULTS: usize = 8;
/// Threads below which a thread has results in one column alone.
const FEW_THREADS: usize = 1 << 14;

/// Threads of a workgroup where some share the units.
const THREADS: usize = 64;
/// Units of a row that each of these decodes, about.
const UNITS: usize = 4;
/// Threads that share them, at least and at most.
const LANES: [usize; 2] = [4, 32];

/// Elements of a row that a thread decodes by itself, at most: a software GPU may end a thread's loops after 65,535 steps.
const MOST_ALONE: usize = 1 << 18;

pub(super) fn schedule(packed: &PackedMatmul, config: KernelConfig) -> Schedule {
    let &PackedMatmul { m, n, k, .. } = packed;
    let alone = config.rows == Rows::Thread;
    if m > MOST_ROWS[0] && !alone {
        // Neighbours along a packed row have words and a scale in common: they are the quads of a left operand.
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
    // About as many rows for every thread.
    let strips = m.div_ceil(MOST_ROWS[usize::from(alone)]).max(1);
    let rows = m.div_ceil(strips).max(1);
    // Other operands that were read are used for each of the columns.
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
