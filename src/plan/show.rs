//! Printing of plans: one line per kernel, such as `#0 matmul[8,4]x[4,2] + add + relu`.

use super::planned_kernel::PlannedKernel;
use crate::graph::Trace;
use crate::kernel::{Plan, SlotStorage};
use crate::op::Op;
use crate::shape::Shape;
use std::fmt;

/// Returns the operations of a kernel as text.
pub fn label(trace: &Trace, planned: &PlannedKernel) -> String {
    let mut label = String::new();
    for &n in &planned.operations {
        let node = &trace.nodes[n];
        if !label.is_empty() {
            label += " + ";
        }
        label += match &node.op {
            Op::Element(element) => &element.name,
            op => op.name(),
        };
        let shapes = match &node.op {
            Op::Routine(crate::op::Routine::Attention(_)) => 3,
            Op::Routine(crate::op::Routine::Unpack { .. }) => 1,
            Op::Routine(_) => 2,
            Op::Reduce { .. } | Op::Order { .. } => 1,
            _ => 0,
        };
        for (i, &input) in node.inputs[..shapes].iter().enumerate() {
            label += if i > 0 { "x" } else { "" };
            compact(&mut label, &trace.nodes[input].shape);
        }
    }
    if label.is_empty() {
        // The kernel computes only movement, so it is a copy.
        label += trace.nodes[planned.outputs[0]].op.name();
    }
    label
}

fn compact(text: &mut String, shape: &Shape) {
    for (i, extent) in shape.iter().enumerate() {
        *text += if i > 0 { "," } else { "[" };
        *text += &extent.to_string();
    }
    *text += if shape.is_empty() { "[]" } else { "]" };
}

impl Plan {
    /// Returns the bytes of all results and temporaries.
    pub fn bytes_written(&self) -> u64 {
        let mut bytes = 0;
        for size in self.temporaries.iter().chain(&self.outputs) {
            bytes += size;
        }
        bytes
    }

    /// Writes the names of slots, with a space before each.
    fn names(&self, f: &mut fmt::Formatter<'_>, slots: &[usize]) -> fmt::Result {
        for &slot in slots {
            match self.slots[slot].storage {
                SlotStorage::Input(n) => write!(f, " in{n}")?,
                SlotStorage::Output(n) => write!(f, " out{n}")?,
                SlotStorage::Temporary(n) => write!(f, " tmp{n}")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.bytes_written();
        let (ops, kernels) = (self.operations, self.dispatches.len());
        let buffers = self.temporaries.len() + self.outputs.len();
        writeln!(f, "{ops} operations, {kernels} kernels, {buffers} buffers, {bytes} bytes")?;
        for (i, dispatch) in self.dispatches.iter().enumerate() {
            writeln!(f, "#{i} {} {}", dispatch.kernel.kind(), dispatch.label)?;
            f.write_str(if dispatch.inputs.is_empty() { "   " } else { "  " })?;
            self.names(f, &dispatch.inputs)?;
            f.write_str(" ->")?;
            self.names(f, &dispatch.outputs)?;
            f.write_str("\n")?;
        }
        Ok(())
    }
}
