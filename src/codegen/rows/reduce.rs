//! Reductions across the threads of a row.

use super::Writer;
use crate::codegen::memory::{shared, unshared};
use crate::dtype::DType;
use crate::kernel::ValueId;
use crate::op::Reduction;
use crate::schedule::{RowSchedule, Traversal};

impl Writer<'_> {
    /// Combines the results of the threads of a row.
    pub(super) fn combine_lanes(&mut self, stage: u32, reduces: &[(ValueId, Reduction, ValueId)]) {
        let arrays = self.arrays(stage);
        // Subgroup operations do not support booleans.
        if self.schedule.subgroups && arrays.iter().all(|array| array.1 != DType::Bool) {
            self.subgroup_reduce(&arrays, reduces);
        } else {
            self.workgroup_reduce(&arrays, reduces);
        }
        if stage + 1 < self.last_stage() {
            // The next stage reuses the arrays.
            self.text += "workgroupBarrier();\n";
        }
    }

    /// Reduces within subgroups by shuffles over 1, 2, 4, ... lanes. One lane of each subgroup then stores the result in
    /// workgroup memory, and each thread combines the stored results.
    fn subgroup_reduce(
        &mut self,
        arrays: &[(String, DType)],
        reduces: &[(ValueId, Reduction, ValueId)],
    ) {
        let lanes = self.schedule.lanes;
        let combine = |writer: &Self, id, op, x: &str, y: &str| {
            writer.place(None).combine(op, x, y, writer.dtype(id), false)
        };
        for &(id, op, _) in reduces {
            let result = self.horizontal(id, op);
            put!(self.text, "var v{id} = {result};\n");
            let mut apart = 1;
            // No device has subgroups of more than 128 threads.
            while apart < lanes.min(128) {
                let sum = combine(self, id, op, &format!("v{id}"), &format!("n{id}_{apart}"));
                put!(
                    self.text,
                    "let n{id}_{apart} = subgroupShuffleXor(v{id}, {apart}u);\n\
                    v{id} = select(v{id}, {sum}, {apart}u < width);\n"
                );
                apart *= 2;
            }
        }
        self.text += "if (row_lane % side == 0u) {\n";
        for ((name, _), (id, ..)) in arrays.iter().zip(reduces) {
            put!(self.text, "{name}[lane / side] = v{id};\n");
        }
        self.text += "}\nworkgroupBarrier();\n";
        for ((name, _), (id, ..)) in arrays.iter().zip(reduces) {
            put!(self.text, "v{id} = {name}[first];\n");
        }
        put!(self.text, "for (var i = first + 1u; i < first + {lanes}u / side; i++) {{\n");
        for ((name, _), &(id, op, _)) in arrays.iter().zip(reduces) {
            let sum = combine(self, id, op, &format!("v{id}"), &format!("{name}[i]"));
            put!(self.text, "v{id} = {sum};\n");
        }
        self.text += "}\n";
    }

    /// Reduces in workgroup memory, in a fixed order.
    fn workgroup_reduce(
        &mut self,
        arrays: &[(String, DType)],
        reduces: &[(ValueId, Reduction, ValueId)],
    ) {
        let RowSchedule { rows, lanes, traversal, .. } = *self.schedule;
        for ((name, dtype), &(id, op, _)) in arrays.iter().zip(reduces) {
            let result = shared(*dtype, &self.horizontal(id, op));
            put!(self.text, "{name}[lane] = {result};\n");
        }
        let (times, first) = match (traversal, rows) {
            (_, 1) => (String::new(), "0".to_string()),
            (Traversal::ColumnMajor, _) => (format!(" * {rows}u"), format!("lane % {rows}u")),
            (Traversal::RowMajor, _) => (String::new(), "lane - row_lane".to_string()),
        };
        put!(
            self.text,
            "workgroupBarrier();\nfor (var half = {}u; half > 0u; half = half / 2u) {{\n\
            if (row_lane < half) {{\n",
            lanes / 2
        );
        for ((name, dtype), (_, op, _)) in arrays.iter().zip(reduces) {
            let own = format!("{name}[lane]");
            let here = unshared(*dtype, &own);
            let there = unshared(*dtype, &format!("{name}[lane + half{times}]"));
            let sum = self.place(None).combine(*op, &here, &there, *dtype, false);
            put!(self.text, "{own} = {};\n", shared(*dtype, &sum));
        }
        self.text += "}\nworkgroupBarrier();\n}\n";
        for ((name, dtype), (id, ..)) in arrays.iter().zip(reduces) {
            let value = unshared(*dtype, &format!("{name}[{first}]"));
            put!(self.text, "let v{id} = {value};\n");
        }
    }
}
