//! Reductions inside a kernel: which fit into its rows, and what is to be in memory for those that do not.

use super::context::{Context, LowerError};
use super::writer::{ProgramRole, ProgramWriter};
use crate::graph::TraceNode;
use crate::kernel::{Index, ValueId};
use crate::shape::pick;

impl Context<'_> {
    /// The value a reduction combines, over this space's inner coordinates.
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
        // Fewer results than rows would be computed again and again.
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

    /// What is to be in memory for a reduction that does not fit into these rows. Where another one reduces what was made
    /// with it, that is: else a kernel around the first would fall apart only because of the second.
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

    /// What a node only moves.
    fn below_movement(&self, mut node: usize) -> usize {
        while self.placement.is_free(node) && !self.is_there(node) {
            node = self.trace.nodes[node].inputs[0];
        }
        node
    }

    /// Whether nothing is computed for a node's value.
    fn is_there(&self, node: usize) -> bool {
        self.placement.in_memory[node] || self.placement.is_leaf(node)
    }
}
