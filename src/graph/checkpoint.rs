//! Parts that are computed again for gradients, so that what they compute on the way need not be kept until then.

use super::{Capture, Graph, Node, NodeId, Trace};
use crate::op::Op;
use crate::sorted;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// What was recorded again.
pub struct Rematerialized {
    /// The node that was asked for.
    pub result: NodeId,
    /// All that was recorded, which the caller holds.
    pub recorded: Vec<NodeId>,
    /// What it is made of and was not recorded again.
    pub ends: Vec<NodeId>,
}

impl Graph {
    /// From now on gradients pass a node by recording it again, out of what was recorded before the `since`-th.
    pub fn set_checkpoint(&mut self, id: NodeId, since: u64) {
        if id.seq < since {
            return;
        }
        let (mut ends, mut seen, mut stack) = (Vec::new(), FxHashMap::default(), vec![id]);
        while let Some(id) = stack.pop() {
            if seen.insert(id, ()).is_some() {
                continue;
            }
            // The value of a variable is the same, whenever it is read.
            match id.seq < since || self.node(id).value_of.is_some() {
                true => ends.push(id),
                false => stack.extend_from_slice(&self.node(id).inputs),
            }
        }
        self.node_mut(id).checkpoint = Some(ends.into());
    }

    /// What a node is recorded again from, if it is a checkpoint.
    pub fn checkpoint(&self, id: NodeId) -> Option<Arc<[NodeId]>> {
        self.node(id).checkpoint.clone()
    }

    /// Records a node again, out of `ends` and of what is there already.
    pub fn rematerialize(&mut self, id: NodeId, ends: &[NodeId]) -> Rematerialized {
        let mut copies: FxHashMap<NodeId, NodeId> = ends.iter().map(|&end| (end, end)).collect();
        let mut again = Rematerialized { result: id, recorded: Vec::new(), ends: Vec::new() };
        // With a stack of our own: a chain may be longer than the thread's.
        let mut stack = vec![(id, 0)];
        while let Some((at, next)) = stack.pop() {
            if copies.contains_key(&at) && at != id {
                continue;
            }
            let node = self.node(at);
            let computed = node.is_materialized && !node.is_eager || node.op == Op::Source;
            let there = computed || node.value_of.is_some();
            if at != id && (there || node.inputs.is_empty()) {
                copies.insert(at, at);
                continue;
            }
            if let Some(&input) = node.inputs.get(next) {
                stack.push((at, next + 1));
                stack.push((input, 0));
                continue;
            }
            let copy = self.copy(at, &copies);
            if at == id {
                // Gradients pass this one as they pass others.
                self.node_mut(copy).checkpoint = None;
            }
            again.recorded.push(copy);
            copies.insert(at, copy);
        }
        again.result = copies[&id];
        again.ends = copies.into_iter().filter(|(at, copy)| at == copy).map(|(at, _)| at).collect();
        // The same program is to have the same trace.
        sorted::by_key(&mut again.ends, |end| end.seq);
        again
    }

    /// A node like this one, of the copies of its inputs.
    fn copy(&mut self, id: NodeId, copies: &FxHashMap<NodeId, NodeId>) -> NodeId {
        let of = |id: &NodeId| copies.get(id).copied().unwrap_or(*id);
        let Node {
            op,
            inputs,
            shape,
            dtype,
            scalar,
            is_detached: detached,
            pullback,
            checkpoint,
            ..
        } = self.node(id);
        let (shape, dtype, scalar, detached) = (*shape, *dtype, *scalar, *detached);
        let (pullback, inner) = (pullback.clone(), checkpoint.clone());
        let (op, inputs) = (op.clone(), inputs.iter().map(of).collect());
        let copy = self.insert(op, inputs, shape, dtype, scalar);
        let node = self.node_mut(copy);
        (node.pullback, node.is_rematerialized) = (pullback, true);
        node.checkpoint = inner.map(|ends| ends.iter().map(of).collect());
        if detached {
            // Nothing can be gone: it is not computed yet.
            self.detach(copy);
        }
        copy
    }

    /// Puts the nodes of a trace in the order in which they were recorded, if some were recorded again: else these would be
    /// computed before the gradients that they are for, and kept.
    pub(super) fn sort_by_recording(&self, taken: &mut Capture) {
        if !taken.nodes.iter().any(|&id| self.node(id).is_rematerialized) {
            return;
        }
        let mut order: Vec<usize> = (0..taken.nodes.len()).collect();
        sorted::by_key(&mut order, |&n| taken.nodes[n].seq);
        let mut place = vec![0; order.len()];
        for (at, &n) in order.iter().enumerate() {
            place[n] = at;
        }
        let moved = |n: usize| place[n];
        let mut trace = Trace { in_recorded_order: true, ..Trace::default() };
        trace.outputs = taken.trace.outputs.iter().copied().map(moved).collect();
        for &n in &order {
            let mut node = taken.trace.nodes[n].clone();
            node.inputs.iter_mut().for_each(|input| *input = place[*input]);
            trace.nodes.push(node);
        }
        taken.trace = trace;
        taken.nodes = order.iter().map(|&n| taken.nodes[n]).collect();
        sorted::by_key(&mut taken.sources, |id| id.seq);
        taken.scalars.clear();
        for &id in &taken.nodes {
            let node = self.node(id);
            if node.op == Op::Scalar && !node.is_materialized {
                taken.scalars.push(node.scalar);
            }
        }
    }
}
