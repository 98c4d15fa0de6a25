//! In-place updates: the new value of a variable may be written into the memory of its old value. XLA calls this input-output
//! aliasing, and JAX calls it buffer donation.
//!
//! Two conditions are checked in two places. This file checks that nothing needs the old value after the batch.
//! `plan/passes/donation.rs` checks that the kernels can take the memory. They can if all kernels that read the old value have
//! run, or read each element where they write it.
//!
//! The old value is needed after the batch in these cases:
//! - A tensor holds it, or its memory is shared with an alias or belongs to the app.
//! - A recorded node that is held or used is still to be computed from it, and this batch does not write that node.
//! - A gradient that can still be requested passes a node that was computed from it ([`Graph::is_remembered`]).
//!
//! Example: `w.assign(w - g)`, `loss = f(w)`. The batch computes `loss` and the new `w`. If the step consumed `loss`, no
//! gradient can pass it, so the memory of the old `w` is offered. If `loss` and inputs of `f` are held, a gradient by those
//! inputs needs the old `w`, and the new `w` gets a separate buffer.

use super::{Capture, Graph, NodeId};
use crate::op::Op;

impl Graph {
    /// Replaces the value of a variable: `before` by `after`.
    pub fn replace(&mut self, before: NodeId, after: NodeId) {
        // A value that was never computed has no memory, but the value that it replaced may have.
        let node = self.node(self.computed_by(before));
        let memory = if node.is_materialized { Some(before) } else { node.replaces };
        let computed = self.computed_by(after);
        self.node_mut(computed).replaces = memory;
        self.release_variable(before);
        self.hold_for_variable(after);
    }

    /// Offers the memory of old values of variables to their new values. `own` returns whether no other node shares a node's
    /// memory.
    ///
    /// A held node that is computed from an old value and is not an output of this batch still needs the old value. Such nodes
    /// become outputs if they take less memory than the old values.
    pub(super) fn donate(&self, capture: &mut Capture, own: impl Fn(NodeId) -> bool) {
        let mut offers: Vec<(usize, usize)> = Vec::new();
        for &n in &capture.trace.outputs {
            let after = self.node(capture.nodes[n]);
            let Some(before) = after.replaces else { continue };
            // The old value may have been freed. Another node may then have its arena index.
            let Some(node) = self.get(before) else { continue };
            let Some(at) = self.positions.get(before) else { continue };
            let alike = (node.shape, node.dtype) == (after.shape, after.dtype);
            let free = node.is_materialized && node.handles == 0 && alike && own(before);
            if free && !offers.iter().any(|&(_, s)| s == at) && !self.is_remembered(before) {
                offers.push((n, at));
            }
        }
        if offers.is_empty() {
            return;
        }
        let needs = self.needs(capture);
        let trace = &mut capture.trace;
        offers.retain(|&(_, s)| !needs[s].itself);
        let held: Vec<(usize, usize)>;
        (held, trace.donated) = offers.into_iter().partition(|&(_, s)| needs[s].later);
        if held.is_empty() {
            return;
        }
        // The held nodes that are computed from those values.
        let (mut made, mut write) = (vec![false; trace.nodes.len()], Vec::new());
        held.iter().for_each(|&(_, s)| made[s] = true);
        for (n, node) in trace.nodes.iter().enumerate() {
            made[n] |= node.inputs.iter().any(|&input| made[input]) && !needs[n].written;
            if made[n] && needs[n].itself {
                if matches!(node.op, Op::Shader(_)) {
                    return;
                }
                write.push(n);
            }
        }
        let bytes = |nodes: &mut dyn Iterator<Item = usize>| -> u64 {
            let nodes = nodes.map(|n| &trace.nodes[n]);
            nodes.map(|node| node.shape.numel() as u64 * node.dtype.size() as u64).sum()
        };
        if bytes(&mut write.iter().copied()) < bytes(&mut held.iter().map(|&(_, s)| s)) {
            trace.outputs.extend(write);
            trace.donated.extend(held);
        }
    }

    /// Offers the memory of sources to results of the newest trace: `(result, source)`.
    pub fn donate_sources(
        &self,
        capture: &mut Capture,
        places: impl Iterator<Item = (NodeId, NodeId)>,
    ) {
        for (result, source) in places {
            let place = |id| self.positions.get(id);
            capture.trace.donated.extend(place(result).zip(place(source)));
        }
    }

    /// Whether one tensor holds the data, and only the results of a program that is about to run still need it.
    pub fn is_only_for(&self, id: NodeId, results: &[NodeId]) -> bool {
        let node = self.node(id);
        let is_result = |index: &u32| results.iter().any(|result| result.index == *index);
        node.is_materialized
            && node.handles == 1
            && node.users.iter().all(is_result)
            && !self.is_remembered(id)
    }

    /// Returns for each node of a trace whether it is needed after the batch.
    fn needs(&self, capture: &Capture) -> Vec<Need> {
        let mut needs = vec![Need::default(); capture.nodes.len()];
        for &output in &capture.trace.outputs {
            needs[output].written = true;
        }
        for (n, id) in capture.nodes.iter().enumerate().rev() {
            let Need { written, later, .. } = needs[n];
            needs[n].itself = !written && self.is_needed_later(*id);
            for &input in &capture.trace.nodes[n].inputs {
                needs[input].later |= !written && (needs[n].itself || later);
            }
        }
        needs
    }

    /// Whether a gradient that can still be requested passes a node that was computed from this one. A tensor must hold that
    /// node, and that node must depend on another held tensor.
    fn is_remembered(&self, id: NodeId) -> bool {
        let (mut seen, mut stack) = (rustc_hash::FxHashSet::default(), vec![id]);
        while let Some(id) = stack.pop() {
            for &index in &self.node(id).users {
                let (seq, Some(user)) = &self.nodes[index as usize] else { continue };
                // Gradients do not pass a condition but need its value, so a condition is followed unless it is computed
                // already.
                let ends = user.is_spent || !user.is_passed() && user.is_materialized;
                if ends || !seen.insert(index) {
                    continue;
                }
                match user.handles > 0 && user.is_passed() {
                    true if user.inputs_reach > user.cut.before => return true,
                    // Later nodes are computed from the value of this held node.
                    true => {}
                    false => stack.push(NodeId { index, seq: *seq }),
                }
            }
        }
        false
    }
}

/// The reasons why a traced node is needed after the batch.
#[derive(Clone, Copy, Default)]
struct Need {
    /// The batch writes the node.
    written: bool,
    /// The node is not written, and a tensor holds it, or a node outside the trace is to be computed from it.
    itself: bool,
    /// Some node downstream of this one is still needed after the batch.
    later: bool,
}
