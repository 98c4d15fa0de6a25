//! How the rows of a loop kernel are spread over threads.

use crate::codegen::sizes::Unsigned;
use crate::kernel::{Atom, Inst, Program, Rows, Space};

/// How rows are spread over threads: a workgroup has `rows * lanes` of them.
pub struct Layout {
    /// Rows of a workgroup.
    pub rows: usize,
    /// Threads of a row.
    pub lanes: usize,
    /// Neighbouring threads have neighbouring rows, not neighbouring elements of a row.
    pub across: bool,
}

impl Layout {
    /// The layout for a space of `rows` (or quads of rows) of `columns` elements (or quads). Where threads work alone a row
    /// has one.
    pub fn new(
        space: &Space,
        program: &Program,
        live: &[bool],
        varying: &[bool],
        (rows, columns): (usize, usize),
        shared: Rows,
    ) -> Layout {
        if shared == Rows::Thread {
            // Groups enough for some cores, of few sizes: each is a kernel of its own.
            let rows = (rows / 16).clamp(4, 64).next_power_of_two();
            return Layout { rows, lanes: 1, across: false };
        }
        let across = prefers_across(space, program, live, varying);
        let (mut group_rows, mut lanes);
        if across {
            // Enough threads to fill a large GPU, in runs of neighbours that fill a memory transaction.
            lanes = 1;
            let most = 256 / rows.next_power_of_two().min(16);
            while rows * lanes < 65536 && lanes * 8 <= columns && lanes < most {
                lanes *= 2;
            }
            group_rows = if lanes == 1 { 64 } else { 256 / lanes };
        } else {
            let per_lane = if rows >= 1024 { 4 } else { 1 };
            let wanted = columns.div_ceil(per_lane).next_power_of_two().clamp(8, 256);
            lanes = if columns <= 16 { 1 } else { wanted };
            group_rows = (64 / lanes).max(1);
        }
        // 16 KiB of workgroup memory hold every partial result of a stage.
        let stages = program.stages();
        let (mut reduces, mut most) = (vec![0; stages.len() + 1], 1);
        for (inst, &stage) in program.insts.iter().zip(&stages) {
            if let Inst::Reduce(..) = inst {
                reduces[stage as usize] += 1;
                most = most.max(reduces[stage as usize]);
            }
        }
        while lanes > 1 && group_rows * lanes * most > 4096 {
            if group_rows > 1 {
                group_rows /= 2;
            } else {
                lanes /= 2;
            }
        }
        Layout { rows: group_rows, lanes, across }
    }

    /// `row`, `strip` (the thread's number in its row), and `valid` where a workgroup may have rows beyond the last:
    /// threads must not leave before a barrier that others wait at.
    pub fn find_row(&self, rows: usize, groups: u64) -> String {
        let Layout { rows: group_rows, lanes, across } = *self;
        let last = Unsigned(rows.saturating_sub(1));
        let (rows, groups) = (Unsigned(rows), Unsigned(groups as usize));
        match (lanes, group_rows) {
            (1, _) => format!(
                "let row = group * {group_rows}u + lane;\nif (row >= {rows}) {{\nreturn;\n}}\n"
            ),
            (_, 1) => format!(
                "if (group >= {groups}) {{\nreturn;\n}}\nlet row = group;\nlet strip = lane;\n"
            ),
            _ => {
                let (row, strip) = match across {
                    true => (format!("lane % {group_rows}u"), format!("lane / {group_rows}u")),
                    false => (format!("lane / {lanes}u"), format!("lane % {lanes}u")),
                };
                format!(
                    "let strip = {strip};\nlet any_row = group * {group_rows}u + {row};\n\
                    let row = min(any_row, {last});\nlet valid = any_row < {rows};\n"
                )
            }
        }
    }
}

/// Whether most of what differs from row to row lies contiguous along the rows.
fn prefers_across(space: &Space, program: &Program, live: &[bool], varying: &[bool]) -> bool {
    let last = |range: std::ops::Range<usize>| range.rev().find(|&d| space.dims[d] > 1);
    let (Some(outer), Some(inner)) = (last(0..space.outer), last(space.outer..space.dims.len()))
    else {
        return false;
    };
    let mut votes = 0;
    for (i, inst) in program.insts.iter().enumerate() {
        if let (Inst::Load { index, .. }, true, true) = (inst, live[i], varying[i]) {
            let along = |d: usize| index.stride(Atom::Coord(d as u32)).abs();
            if (0..space.outer).any(|d| along(d) != 0) {
                votes += i32::from(along(outer) == 1) - i32::from(along(inner) == 1);
            }
        }
    }
    votes > 0
}
