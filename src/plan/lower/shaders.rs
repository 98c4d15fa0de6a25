//! Lowering of custom shaders. A shader runs once and writes all its results, even if nothing reads some of them.

use crate::graph::{Trace, TraceNode};
use crate::kernel::Kernel;
use crate::op::{Op, ShaderCall};
use crate::plan::planned_kernel::{Param, PlannedKernel};
use std::sync::Arc;

/// Adds the missing results of shaders to the trace, so that each result has a node.
pub fn complete(mut trace: Trace) -> Trace {
    for n in 0..trace.nodes.len() {
        let Op::Shader(call) = trace.nodes[n].op.clone() else { continue };
        for output in 0..call.outputs.len() {
            if find(&trace, n, output).is_none() {
                let (shape, dtype) = call.output(output);
                let (op, inputs) = (Op::Output(call.clone(), output), std::iter::once(n).collect());
                trace.nodes.push(TraceNode { op, inputs, shape, dtype });
            }
        }
    }
    trace
}

/// Returns the node that is a result of a shader.
fn find(trace: &Trace, shader: usize, output: usize) -> Option<usize> {
    let is_it = |node: &TraceNode| match node.op {
        Op::Output(_, n) => n == output && node.inputs[0] == shader,
        _ => false,
    };
    trace.nodes.iter().position(is_it)
}

/// Lowers a shader to a kernel.
pub fn shader_kernel(trace: &Trace, root: usize, call: &ShaderCall) -> PlannedKernel {
    let (inputs, params) = trace.nodes[root].inputs.split_at(call.shader.inputs.len());
    let outputs = (0..call.outputs.len()).filter_map(|n| find(trace, root, n));
    PlannedKernel {
        kernel: Arc::new(Kernel::Shader {
            shader: call.shader.clone(),
            workgroups: call.workgroups,
        }),
        inputs: inputs.to_vec(),
        outputs: outputs.collect(),
        params: params.iter().copied().map(Param::Number).collect(),
        operations: vec![root],
    }
}
