//! The schedule of rows of a loop kernel, which are distributed over threads.

use super::access::{traversal, varying, Traversal};
use super::strategy::{RowSchedule, Schedule, Strategy};
use super::vectors::Vector;
use crate::kernel::{Inst, Limits, Program, Rows, Space};

/// The most steps that are unrolled, and the most statements that they may become.
const UNROLL_STEPS: usize = 16;
const UNROLL_STATEMENTS: usize = 400;

/// The most bytes of shared memory for partial results. Every WebGPU device has them.
const SHARED_BYTES: u32 = 16 << 10;

pub(super) fn schedule(space: &Space, program: &Program, limits: &Limits, by: Rows) -> Schedule {
    let (live, varying) = (program.live(&[]), varying(program, space.outer));
    let vector = Vector::of_rows(space, program, by);

    let mut schedule = RowSchedule {
        rows: 0,
        lanes: 1,
        traversal: Traversal::RowMajor,
        vector,
        unrolled: None,
        subgroups: false,
    };
    let (rows, columns) = schedule.extents(space);
    if by == Rows::Thread {
        // Enough workgroups for some cores, in few sizes, because each size is a separate kernel.
        schedule.rows = (rows / 16).clamp(4, 64).next_power_of_two();
    } else {
        let loads = program.insts.iter().enumerate().filter_map(|(i, inst)| match inst {
            Inst::Load { index, .. } if live[i] && varying[i] => Some(index),
            _ => None,
        });
        let stores = program.stores.iter().map(|store| &store.index);
        let stores = stores.filter(|index| index.varies(space.outer, &varying));
        schedule.traversal = traversal(space, loads, stores);
        spread(&mut schedule, rows, columns);
        let bytes = limits.workgroup_bytes.min(SHARED_BYTES) as usize;
        limit(&mut schedule, bytes / size_of::<u32>() / partial_results(program));
    }
    schedule.subgroups = by == Rows::Subgroups
        && limits.subgroups
        && schedule.traversal == Traversal::RowMajor
        && schedule.lanes > 1;
    let statements = varying.iter().zip(&live).filter(|(v, l)| **v && **l).count();
    let steps = columns.div_ceil(schedule.lanes);
    let unrolls = steps <= UNROLL_STEPS && steps * statements <= UNROLL_STATEMENTS;
    schedule.unrolled = unrolls.then_some(steps);
    Schedule {
        lowered: None,
        workgroup_size: schedule.rows * schedule.lanes,
        workgroups: rows.div_ceil(schedule.rows) as u64,
        strategy: Strategy::Rows(schedule),
    }
}

/// Chooses the threads for rows and columns, by the traversal.
fn spread(schedule: &mut RowSchedule, rows: usize, columns: usize) {
    match schedule.traversal {
        Traversal::ColumnMajor => {
            // Enough threads to fill a large GPU, in runs of neighbors that fill a memory transaction.
            let most = 256 / rows.next_power_of_two().min(16);
            while rows * schedule.lanes < 65536
                && schedule.lanes * 8 <= columns
                && schedule.lanes < most
            {
                schedule.lanes *= 2;
            }
            schedule.rows = if schedule.lanes == 1 { 64 } else { 256 / schedule.lanes };
        }
        Traversal::RowMajor => {
            let per_lane = if rows >= 1024 { 4 } else { 1 };
            let wanted = columns.div_ceil(per_lane).next_power_of_two().clamp(8, 256);
            schedule.lanes = if columns <= 16 { 1 } else { wanted };
            schedule.rows = (64 / schedule.lanes).max(1);
        }
    }
}

/// Reduces rows and lanes until at most `threads` threads share memory.
fn limit(schedule: &mut RowSchedule, threads: usize) {
    while schedule.lanes > 1 && schedule.rows * schedule.lanes > threads {
        if schedule.rows > 1 {
            schedule.rows /= 2;
        } else {
            schedule.lanes /= 2;
        }
    }
}

/// Returns the most reductions in one stage. A thread has a partial result for each of them.
fn partial_results(program: &Program) -> usize {
    let stages = program.stages();
    let (mut reduces, mut most) = (vec![0; stages.len() + 1], 1);
    for (inst, &stage) in program.insts.iter().zip(&stages) {
        if let Inst::Reduce(..) = inst {
            reduces[stage as usize] += 1;
            most = most.max(reduces[stage as usize]);
        }
    }
    most
}
