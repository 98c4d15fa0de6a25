//! The row and the part of the row that a thread has.

use super::Writer;
use crate::codegen::sizes::Unsigned;
use crate::schedule::{RowSchedule, Traversal};

impl Writer<'_> {
    /// Declares `row`, `row_lane` (the thread's number in its row), and `valid` if a workgroup may have rows out of range.
    /// Threads out of range must not return early, because others wait for them at a barrier.
    pub(super) fn find_row(&self, groups: u64) -> String {
        let RowSchedule { rows: group_rows, lanes, traversal, .. } = *self.schedule;
        let last = Unsigned(self.rows.saturating_sub(1));
        let (rows, groups) = (Unsigned(self.rows), Unsigned(groups as usize));
        match (lanes, group_rows) {
            (1, _) => format!(
                "let row = group * {group_rows}u + lane;\nif (row >= {rows}) {{\nreturn;\n}}\n"
            ),
            (_, 1) => format!(
                "if (group >= {groups}) {{\nreturn;\n}}\nlet row = group;\nlet row_lane = lane;\n"
            ),
            _ => {
                let (row, row_lane) = match traversal {
                    Traversal::ColumnMajor => {
                        (format!("lane % {group_rows}u"), format!("lane / {group_rows}u"))
                    }
                    Traversal::RowMajor => (format!("lane / {lanes}u"), format!("lane % {lanes}u")),
                };
                format!(
                    "let row_lane = {row_lane};\nlet any_row = group * {group_rows}u + {row};\n\
                    let row = min(any_row, {last});\nlet valid = any_row < {rows};\n"
                )
            }
        }
    }
}
