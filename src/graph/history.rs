//! How a node was made, as far back as that is known.

use super::{Graph, NodeId};
use crate::dtype::DType;
use crate::op::Op;
use crate::shape::Shape;
use rustc_hash::{FxHashMap, FxHashSet};

/// A node of a history, and where in the history its operands stand.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub id: NodeId,
    /// The operation; `data` and `number` for what was given.
    pub name: &'static str,
    pub inputs: Vec<usize>,
    pub shape: Shape,
    pub dtype: DType,
    /// What it is, where that is a number of the program's.
    pub number: Option<f64>,
    /// A tensor can stand for it: users' shaders have no value themselves.
    pub has_value: bool,
}

impl Graph {
    /// All that a node was made of, operands first and without aliases; `None` if that is more than `most`. Views of
    /// data that are among `leaves` are taken as data: parameters of an optimiser are parts of a flat variable.
    pub fn history(
        &self,
        of: NodeId,
        most: usize,
        leaves: &FxHashSet<NodeId>,
    ) -> Option<Vec<Recorded>> {
        let mut history: Vec<Recorded> = Vec::new();
        let mut places: FxHashMap<NodeId, usize> = FxHashMap::default();
        // With a stack of our own: a chain may be longer than the thread's.
        let mut stack = vec![(of, 0)];
        let original = |mut id: NodeId| loop {
            let node = self.node(id);
            match (node.alias.is_some() && !leaves.contains(&id), &node.inputs[..]) {
                (true, &[input, ..]) => id = input,
                _ => return id,
            }
        };
        while let Some((id, next)) = stack.pop() {
            let id = original(id);
            if places.contains_key(&id) {
                continue;
            }
            let node = self.node(id);
            let leaf = leaves.contains(&id) && self.is_view_of_data(id);
            let inputs = if leaf { &[][..] } else { &node.inputs[..] };
            if let Some(&input) = inputs.get(next) {
                stack.push((id, next + 1));
                stack.push((input, 0));
                // Each was looked at once, or waits on the stack.
                if stack.len() > most {
                    return None;
                }
                continue;
            }
            if history.len() == most {
                return None;
            }
            let name = match &node.op {
                Op::Source if inputs.is_empty() => "data",
                Op::Source => "program",
                Op::Scalar => "number",
                _ if leaf => "data",
                // It was computed, and what made its values is not known any more.
                op if inputs.is_empty() && only_moves(op) => "data",
                _ => self.made_by(id),
            };
            let number = match &node.op {
                Op::Scalar => Some(node.dtype.number(node.scalar)),
                Op::Fill { value, .. } => Some(value.dtype.number(value.bits)),
                _ => None,
            };
            places.insert(id, history.len());
            history.push(Recorded {
                id,
                name,
                inputs: inputs.iter().map(|&input| places[&original(input)]).collect(),
                shape: node.shape,
                dtype: node.dtype,
                number,
                has_value: !node.is_shader() && (node.op != Op::Source || node.data),
            });
        }
        Some(history)
    }

    /// Whether it is data, or that in another shape or a part of it.
    fn is_view_of_data(&self, mut id: NodeId) -> bool {
        loop {
            let node = self.node(id);
            match (&node.op, &node.inputs[..]) {
                (_, []) => return true,
                (Op::Reshape(_) | Op::Slice(_) | Op::Permute(_), &[input, ..]) => id = input,
                _ => return false,
            }
        }
    }
}

/// Whether an operation gives values as they are, in another shape or order.
fn only_moves(op: &Op) -> bool {
    matches!(op, Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Concat { .. })
}
