//! Gradients of custom shaders, by the gradient functions that users supply.

use super::{Contribution, Path, Tape};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{NodeId, Pullback};
use crate::op::{Op, ShaderCall};
use std::sync::Arc;

impl Tape<'_> {
    /// Propagates the gradients of a shader's results to its inputs.
    pub(super) fn pull_shader(
        &mut self,
        path: &mut Path,
        node: NodeId,
        call: &Arc<ShaderCall>,
        inputs: &[NodeId],
    ) -> Result<()> {
        let Some(pullback) = self.graph.pullback(node) else {
            let message =
                "shader: a shader must have a gradient, got none; give it one, or detach its results";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let tensors = &inputs[..call.shader.inputs.len()];
        let mut operands = tensors.to_vec();
        for n in 0..call.outputs.len() {
            operands.push(match self.graph.output_of(node, n) {
                Some(output) => output,
                None => self.push(Op::Output(call.clone(), n), &[node])?,
            });
        }
        for n in 0..call.outputs.len() {
            let (shape, dtype) = call.output(n);
            operands.push(match path.outputs.get(&(node, n)) {
                Some(gradient) => *gradient,
                None => self.fill(shape, dtype, 0.0)?,
            });
        }
        let gradients = self.replay(&pullback, &operands)?;
        for (&input, gradient) in tensors.iter().zip(gradients) {
            if self.dtype(input).is_float() {
                self.add_to(path, input, Some(Contribution::Whole(gradient)))?;
            }
        }
        Ok(())
    }

    /// Records a trace again on other operands.
    fn replay(&mut self, pullback: &Pullback, operands: &[NodeId]) -> Result<Vec<NodeId>> {
        let (mut sources, mut scalars) = (pullback.sources.iter(), pullback.scalars.iter());
        let mut moved: Vec<NodeId> = Vec::with_capacity(pullback.trace.nodes.len());
        let short = || Error::state("shader: the gradient must be complete, got a part");
        for traced in &pullback.trace.nodes {
            let node = match &traced.op {
                Op::Source => operands[*sources.next().ok_or_else(short)?],
                Op::Scalar => {
                    let bits = *scalars.next().ok_or_else(short)?;
                    let node = self.graph.scalar(traced.dtype, bits);
                    self.recorded.push(node);
                    node
                }
                op => {
                    let inputs: Vec<NodeId> = traced.inputs.iter().map(|&n| moved[n]).collect();
                    self.push(op.clone(), &inputs)?
                }
            };
            moved.push(node);
        }
        Ok(pullback.results.iter().map(|&n| moved[n]).collect())
    }
}
