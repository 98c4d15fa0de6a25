//! Checkpoints: parts that are rematerialized for gradients, so that their intermediate values need not be stored until then.

use super::{Capture, Graph, Node, NodeId, Trace};
use crate::op::Op;
use crate::sorted;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A rematerialized checkpoint.
pub struct Rematerialized {
    /// The copy of the checkpointed node.
    pub result: NodeId,
    /// All recorded nodes. The caller holds a handle to each.
    pub recorded: Vec<NodeId>,
    /// The inputs of the part that was recorded again.
    pub ends: Vec<NodeId>,
}

impl Graph {
    /// Makes a node a checkpoint. Gradients pass it by recording it again from nodes with sequence numbers below `since`.
    pub fn set_checkpoint(&mut self, id: NodeId, since: u64) {
        if id.seq < since {
            return;
        }
        let (mut ends, mut seen, mut stack) = (Vec::new(), FxHashMap::default(), vec![id]);
        while let Some(id) = stack.pop() {
            if seen.insert(id, ()).is_some() {
                continue;
            }
            // The value of a variable does not change, so it need not be recorded again.
            match id.seq < since || self.node(id).value_of.is_some() {
                true => ends.push(id),
                false => stack.extend_from_slice(&self.node(id).inputs),
            }
        }
        self.node_mut(id).checkpoint = Some(ends.into());
    }

    /// Returns the nodes that a checkpoint is recorded again from. `None` for other nodes.
    pub fn checkpoint(&self, id: NodeId) -> Option<Arc<[NodeId]>> {
        self.node(id).checkpoint.clone()
    }

    /// Records a node again, from `ends` and from values that are in memory.
    pub fn rematerialize(&mut self, id: NodeId, ends: &[NodeId]) -> Rematerialized {
        let mut copies: FxHashMap<NodeId, NodeId> = ends.iter().map(|&end| (end, end)).collect();
        let mut copied = Rematerialized { result: id, recorded: Vec::new(), ends: Vec::new() };
        // With an explicit stack, because a chain may be longer than the thread's stack.
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
                // The copy is not a checkpoint, so that gradients pass its operations.
                self.node_mut(copy).checkpoint = None;
            }
            copied.recorded.push(copy);
            copies.insert(at, copy);
        }
        copied.result = copies[&id];
        copied.ends =
            copies.into_iter().filter(|(at, copy)| at == copy).map(|(at, _)| at).collect();
        // Sorted, so that the same program has the same trace.
        sorted::by_key(&mut copied.ends, |end| end.seq);
        copied
    }

    /// Records a copy of a node, with copies of its inputs.
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
            is_summed,
            ..
        } = self.node(id);
        let is_summed = *is_summed;
        let (shape, dtype, scalar, detached) = (*shape, *dtype, *scalar, *detached);
        let (pullback, inner) = (pullback.clone(), checkpoint.clone());
        let (op, inputs) = (op.clone(), inputs.iter().map(of).collect());
        let copy = self.insert(op, inputs, shape, dtype, scalar);
        let node = self.node_mut(copy);
        (node.pullback, node.is_rematerialized, node.is_summed) = (pullback, true, is_summed);
        node.checkpoint = inner.map(|ends| ends.iter().map(of).collect());
        if detached {
            // No history is dropped, because the copy is not computed yet.
            self.detach(copy);
        }
        copy
    }

    /// Sorts the nodes of a trace in recorded order if some were rematerialized. Otherwise these would be computed before the
    /// gradients that need them, and stored meanwhile.
    pub(super) fn sort_by_recording(&self, capture: &mut Capture) {
        if !capture.nodes.iter().any(|&id| self.node(id).is_rematerialized) {
            return;
        }
        let mut order: Vec<usize> = (0..capture.nodes.len()).collect();
        sorted::by_key(&mut order, |&n| capture.nodes[n].seq);
        let mut place = vec![0; order.len()];
        for (at, &n) in order.iter().enumerate() {
            place[n] = at;
        }
        let moved = |n: usize| place[n];
        let mut trace = Trace { in_recorded_order: true, ..Trace::default() };
        trace.outputs = capture.trace.outputs.iter().copied().map(moved).collect();
        for &n in &order {
            let mut node = capture.trace.nodes[n].clone();
            node.inputs.iter_mut().for_each(|input| *input = place[*input]);
            trace.nodes.push(node);
        }
        capture.trace = trace;
        capture.nodes = order.iter().map(|&n| capture.nodes[n]).collect();
        sorted::by_key(&mut capture.sources, |id| id.seq);
        capture.scalars.clear();
        for &id in &capture.nodes {
            let node = self.node(id);
            if node.op == Op::Scalar && !node.is_materialized {
                capture.scalars.push(node.scalar);
            }
        }
    }
}
