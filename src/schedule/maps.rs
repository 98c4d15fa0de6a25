//! The schedule of maps: a thread for each element or vector. A map that reads along another axis than it writes transposes
//! tiles in shared memory.

use super::strategy::{MapSchedule, Schedule, Strategy, TransposeSchedule, TRANSPOSE_TILE};
use super::vectors::{Vector, VECTOR};
use crate::kernel::{Atom, Index, Inst, Program, Transpose, ValueId};

/// The smallest extent, and the smallest stride of the load, for which a tile is worth it on a GPU.
const LEAST: usize = 16;
/// The most loads of a kernel that are transposed, because shared memory holds few tiles.
const MOST: usize = 2;

pub(super) fn schedule(dims: &[usize], program: &Program, transpose: Transpose) -> Schedule {
    if transpose == Transpose::Tiled {
        if let Some((axis, last, loads)) = tiled_transpose(dims, program, [LEAST; 2]) {
            let mut tiles = dims.to_vec();
            for side in [axis, last] {
                tiles[side] = dims[side].div_ceil(TRANSPOSE_TILE);
            }
            return Schedule {
                lowered: None,
                workgroup_size: 256,
                workgroups: tiles.iter().product::<usize>() as u64,
                strategy: Strategy::Transpose(TransposeSchedule { axis, last, loads, tiles }),
            };
        }
    }
    let outer = dims.len().saturating_sub(1);
    let reduces = program.insts.iter().any(|inst| matches!(inst, Inst::Reduce(..)));
    let extent = dims.last().copied().unwrap_or(1);
    let vector = match reduces {
        true => None,
        false => Vector::along(program, None, outer, outer as u32, extent),
    };
    let count = dims.iter().product::<usize>() / if vector.is_some() { VECTOR } else { 1 };
    // Few threads are distributed better in small workgroups.
    let workgroup_size = if count <= 16384 { 64 } else { 256 };
    Schedule {
        lowered: None,
        workgroup_size,
        workgroups: (count as u64).div_ceil(workgroup_size as u64),
        strategy: Strategy::Map(MapSchedule { vector }),
    }
}

/// Finds a transpose in a map. All stores must be contiguous along the last axis, and some loads along an earlier one.
/// Returns both axes, the earlier one first, and those loads. Returns `None` if an axis is shorter than its extent in
/// `least`.
pub fn tiled_transpose(
    dims: &[usize],
    program: &Program,
    least: [usize; 2],
) -> Option<(usize, usize, Vec<ValueId>)> {
    let last = (0..dims.len()).rev().find(|&d| dims[d] != 1)?;
    let live = program.live(&[]);
    let along = |index: &Index, d: usize| index.stride(Atom::Coord(d as u32)).unsigned_abs();
    for store in &program.stores {
        if along(&store.index, last) != 1 || !program.is_view(&store.index) {
            return None;
        }
    }
    let (mut axis, mut loads) = (last, Vec::new());
    for (id, inst) in program.insts.iter().enumerate() {
        let Inst::Load { index, .. } = inst else { continue };
        let apart = along(index, last) >= LEAST as u64 && program.is_view(index);
        if !live[id] || !apart || loads.len() == MOST {
            continue;
        }
        for (d, &extent) in dims[..last].iter().enumerate() {
            if along(index, d) == 1 && extent >= least[0] && (axis == last || axis == d) {
                axis = d;
                loads.push(id as ValueId);
                break;
            }
        }
    }
    (axis < last && dims[last] >= least[1]).then_some((axis, last, loads))
}
