//! A trace as people read it: one line per node.

use super::Trace;
use crate::op::Op;
use std::fmt;

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, node) in self.nodes.iter().enumerate() {
            let name = match node.op {
                Op::Source => "data",
                Op::Scalar => "number",
                ref op => op.name(),
            };
            write!(f, "%{n} = {name}")?;
            for (i, input) in node.inputs.iter().enumerate() {
                write!(f, "{}%{input}", if i == 0 { "(" } else { ", " })?;
            }
            let close = if node.inputs.is_empty() { "" } else { ")" };
            writeln!(f, "{close} {} {}", node.dtype, node.shape)?;
        }
        write!(f, "results:")?;
        self.outputs.iter().try_for_each(|output| write!(f, " %{output}"))
    }
}
