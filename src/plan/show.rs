//! A batch as people read it: one line per kernel, `#0 matmul[8,4]x[4,2] + add + relu`.

use super::kernels::Piece;
use crate::graph::Trace;
use crate::kernel::{Batch, Kernel, Place};
use crate::op::Op;
use crate::shape::Shape;
use crate::text::join;
use std::fmt;

/// The operations a piece stands for.
pub fn label(trace: &Trace, piece: &Piece) -> String {
    let mut label = String::new();
    for &n in &piece.operations {
        let node = &trace.nodes[n];
        if !label.is_empty() {
            label += " + ";
        }
        label += node.op.name();
        let shapes = |take: usize| {
            let shapes = node.inputs[..take].iter().map(|&i| compact(&trace.nodes[i].shape));
            join(&shapes.collect::<Vec<_>>(), "x")
        };
        match &node.op {
            Op::Routine(crate::op::Routine::Attention(_)) => label += &shapes(3),
            Op::Routine(_) => label += &shapes(2),
            Op::Reduce { .. } => label += &shapes(1),
            _ => {}
        }
    }
    if label.is_empty() {
        // Nothing but movement: a copy.
        label += trace.nodes[piece.outputs[0]].op.name();
    }
    label
}

fn compact(shape: &Shape) -> String {
    let extents: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", join(&extents, ","))
}

/// Floating-point operations of a kernel, roughly: two per multiply-add, one per instruction of a loop.
pub fn flops(kernel: &Kernel) -> u64 {
    let product = |factors: &[usize]| factors.iter().fold(1u64, |n, &f| n.saturating_mul(f as u64));
    match kernel {
        Kernel::Loop { space, program } => {
            product(&space.dims).saturating_mul(program.insts.len() as u64)
        }
        Kernel::Matmul(m) => 2 * product(&m.batch).saturating_mul(product(&[m.m, m.n, m.k])),
        Kernel::Conv2d(c) => {
            let window = product(&[c.channels / c.params.groups, c.kernel[0], c.kernel[1]]);
            2 * window * product(&[c.batch, c.out, c.out_height, c.out_width])
        }
        Kernel::Attention(a) => {
            let scores = product(&[a.batch, a.heads, a.queries, a.keys]);
            2 * scores * (a.head_size + a.value_size) as u64
        }
    }
}

impl fmt::Display for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: u64 = self.temporaries.iter().chain(&self.outputs).sum();
        let (ops, kernels) = (self.operations, self.dispatches.len());
        let buffers = self.temporaries.len() + self.outputs.len();
        writeln!(f, "{ops} operations, {kernels} kernels, {buffers} buffers, {bytes} bytes")?;
        for (i, dispatch) in self.dispatches.iter().enumerate() {
            writeln!(f, "#{i} {} {}", dispatch.kernel.kind(), dispatch.label)?;
            let name = |&s: &usize| match self.slots[s].place {
                Place::Input(n) => format!("in{n}"),
                Place::Output(n) => format!("out{n}"),
                Place::Temporary(n) => format!("tmp{n}"),
            };
            let names = |slots: &[usize]| join(&slots.iter().map(name).collect::<Vec<_>>(), " ");
            writeln!(f, "   {} -> {}", names(&dispatch.inputs), names(&dispatch.outputs))?;
        }
        Ok(())
    }
}
