//! The schedule of attention: tile or single queries, and vectors of four.

use super::products::{halves, vector};
use super::strategy::{AttentionSchedule, Schedule, Strategy};
use crate::kernel::{Attention, Operand};

/// The most queries that get a workgroup each. A tile would have mostly empty rows.
const FEW: usize = 4;
/// The largest head that a thread can hold in that case.
const MOST_SIZE: usize = 1024;
/// The queries of a tile.
const TILE: usize = 32;

pub(super) fn schedule(attend: &Attention) -> Schedule {
    let Attention { batch, heads, kv_heads, queries, head_size, value_size, .. } = *attend;
    let value_size = value_size.max(1);
    let few = queries <= FEW && head_size <= MOST_SIZE && value_size <= MOST_SIZE;
    let rows = if few { 1 } else { TILE };
    let along = |operand: &Operand, size| vector(&operand.program, Some(operand.value), 3, size);
    let repeated = heads / kv_heads.max(1);
    let workgroups = match attend.value_size {
        0 => 0,
        _ => batch * kv_heads * (repeated * queries).div_ceil(rows),
    };
    Schedule {
        lowered: None,
        workgroup_size: 256,
        workgroups: workgroups as u64,
        strategy: Strategy::Attention(AttentionSchedule {
            rows,
            matrices: rows > 1 && [&attend.q, &attend.k, &attend.v].into_iter().all(halves),
            vectors: [
                along(&attend.q, head_size),
                along(&attend.k, head_size),
                along(&attend.v, value_size),
                vector(&attend.epilogue, None, 3, value_size),
            ],
        }),
    }
}
