//! Lowering of reductions inside a kernel. A reduction fits if it runs over the rows of the kernel. Otherwise the error names
//! the node to materialize.

use super::context::{Context, LowerError};
use super::writer::{ProgramRole, ProgramWriter};
use crate::graph::TraceNode;
use crate::kernel::{Index, ValueId};
use crate::shape::pick;

impl Context<'_> {
    /// Returns the value that a reduction combines, over the inner coordinates of this space.
    pub fn reduce_body(
        &mut self,
        writer: &mut ProgramWriter,
        node: usize,
        traced: &TraceNode,
        axes: &[usize],
        coords: &[Index],
    ) -> Result<ValueId, LowerError> {
        if writer.role == ProgramRole::Operand {
            return Err(LowerError::Materialize(node));
        }
        let depends = writer.coordinates(coords);
        if writer.is_map() {
            self.hint.depends = depends;
            return Err(LowerError::NeedsRows(node));
        }
        let from = self.trace.nodes[traced.inputs[0]].shape;
        let same = pick(&from, axes) == writer.dims[writer.outer..];
        let per_row = depends.is_some_and(|d| d.iter().all(|&d| (d as usize) < writer.outer));
        // A result with fewer elements than rows would be computed several times.
        let once = writer.dims[..writer.outer].iter().product::<usize>() == traced.shape.numel();
        if !same || !per_row || !once {
            return Err(LowerError::Materialize(self.before_rows(node)));
        }
        let mut inside = coords.to_vec();
        for (i, &axis) in axes.iter().enumerate() {
            inside[axis] = Index::coordinate(writer.outer + i);
        }
        self.reducing.push(node);
        let value = self.value(writer, traced.inputs[0], &inside)?;
        self.reducing.pop();
        Ok(value)
    }

    /// Returns the node to materialize for a reduction that does not fit into these rows. If another reduction surrounds it,
    /// that is the operand of the surrounding one. Otherwise the second reduction would break up the kernel of the first.
    fn before_rows(&self, node: usize) -> usize {
        let traced = &self.trace.nodes[node];
        let from = self.trace.nodes[traced.inputs[0]].shape;
        let Some(&around) = self.reducing.last() else { return node };
        let operand = self.below_movement(self.trace.nodes[around].inputs[0]);
        let whole = self.trace.nodes[operand].shape.numel() == from.numel();
        let rows = traced.shape.numel() > 1;
        if whole && rows && !self.is_there(operand) {
            operand
        } else {
            node
        }
    }

    /// Returns the node that this node only moves.
    fn below_movement(&self, mut node: usize) -> usize {
        while self.placement.is_free(node) && !self.is_there(node) {
            node = self.trace.nodes[node].inputs[0];
        }
        node
    }

    /// Whether the value of a node needs no computation.
    fn is_there(&self, node: usize) -> bool {
        self.placement.in_memory[node] || self.placement.is_leaf(node)
    }
}
