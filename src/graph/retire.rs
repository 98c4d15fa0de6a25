//! Retirement: the history of a computed value is kept for a while after its last tensor was dropped.
//!
//! Problem: `await h.read()` prints a layer, and `minimize(loss)` follows. The loss still needs the history of `h`. In Rust a
//! program knows when it drops `h`. In JavaScript the garbage collector drops it, at any time or never. If the drop ended the
//! history at once, the gradient of the loss would fail at random. If it never did, the loop `x = step(x)` would keep every
//! step, as it does in PyTorch without `no_grad`.
//!
//! Idea: such a value keeps its history for [`KEPT_BATCHES`] more batches, while all retired values together take little memory
//! ([`KEPT_BYTES`], [`KEPT_NODES`]). The oldest one goes first.
//!
//! Cost: a search of the value's own history when it is retired.
//!
//! Example: a loop `x = step(x)` retires one value per step. When the first one goes, gradients through all later ones end
//! there, so these go with it (`gc.rs`). From then on the loop keeps one step.

use super::{Graph, Node, NodeId};
use crate::op::Op;
use rustc_hash::FxHashSet;
use std::collections::VecDeque;

/// The number of batches after which a retired value loses its history.
const KEPT_BATCHES: u64 = 64;
/// The bytes that retired values may always take. Beyond these, they may take a quarter of the memory in use.
const KEPT_BYTES: u64 = 16 << 20;
/// The most nodes in the histories of retired values.
const KEPT_NODES: u64 = 65_536;
/// The number of batches for which a value that no read requested keeps its history, however large it is.
const KEPT_UNREQUESTED: u64 = 2;

/// Whether a computed value keeps its history without a tensor that holds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Retirement {
    /// A tensor holds the value, or needs it.
    #[default]
    Active,
    /// The value keeps its history since this batch, at this cost.
    Since(u64, Cost),
    /// The time is over.
    Over,
}

/// The nodes and the bytes of a value's history, up to the next computed values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Cost {
    nodes: u64,
    bytes: u64,
}

/// The retired values of a graph.
#[derive(Debug, Default)]
pub(super) struct Retired {
    /// The values in the order of their retirement, with its batch. Some may have been freed or held again since.
    queue: VecDeque<(NodeId, u64)>,
    /// The number of values that are retired now.
    count: usize,
    /// The sum of their costs. A node in the history of several values is counted several times.
    cost: Cost,
}

impl Node {
    /// Whether the history is kept for a while if no tensor holds the node. Replaced values of variables are not retired: a
    /// loop that assigns `w - g` would keep old weights, and could not update them in place.
    pub(super) fn may_retire(&self) -> bool {
        self.value_of.is_none() || self.outlived_variable
    }
}

impl Graph {
    /// Retires a computed value that no tensor needs any more.
    pub(super) fn retire(&mut self, id: NodeId) {
        if self.node(id).retirement == Retirement::Active {
            let cost = self.cost_of_history(id);
            self.retired.queue.push_back((id, self.batches));
            self.set_retirement(id, Retirement::Since(self.batches, cost));
        }
    }

    /// Changes the retirement of a value, and the sums over all retired values.
    pub(super) fn set_retirement(&mut self, id: NodeId, now: Retirement) {
        let before = std::mem::replace(&mut self.node_mut(id).retirement, now);
        let Retired { queue, count, cost } = &mut self.retired;
        if let Retirement::Since(_, own) = before {
            *count -= 1;
            (cost.nodes, cost.bytes) = (cost.nodes - own.nodes, cost.bytes - own.bytes);
        }
        if let Retirement::Since(_, own) = now {
            *count += 1;
            (cost.nodes, cost.bytes) = (cost.nodes + own.nodes, cost.bytes + own.bytes);
        }
        if queue.len() > Graph::MAX_STALE_ENTRIES + 2 * *count {
            let mut queue = std::mem::take(&mut self.retired.queue);
            queue.retain(|&(id, since)| self.is_retired_since(id, since));
            self.retired.queue = queue;
        }
    }

    fn is_retired_since(&self, id: NodeId, batch: u64) -> bool {
        let retirement = self.get(id).map(|node| node.retirement);
        matches!(retirement, Some(Retirement::Since(since, _)) if since == batch)
    }

    /// Ends the retirement of values that are too old or take too much, given the bytes that the device has in use. Then
    /// updates every dirty node, so that history that no gradient can use is dropped.
    pub fn expire(&mut self, used_bytes: u64) {
        self.collect_all();
        while let Some(&(id, since)) = self.retired.queue.front() {
            let (age, cost) = (self.batches - since, self.retired.cost);
            let is_unrequested = self.get(id).is_some_and(|node| node.is_unrequested);
            let is_large = cost.bytes > KEPT_BYTES.max(used_bytes / 4) || cost.nodes > KEPT_NODES;
            let is_young = is_unrequested && age < KEPT_UNREQUESTED;
            if age <= KEPT_BATCHES && (!is_large || is_young) {
                break;
            }
            self.end_oldest();
        }
    }

    /// Ends the retirement of all values. Returns whether there were any.
    pub fn expire_all(&mut self) -> bool {
        self.collect_all();
        let any = self.retired.count > 0;
        while !self.retired.queue.is_empty() {
            self.end_oldest();
        }
        any
    }

    /// Ends the retirement of the oldest value, and drops the history that no gradient can use any more.
    fn end_oldest(&mut self) {
        let Some((id, since)) = self.retired.queue.pop_front() else { return };
        if self.is_retired_since(id, since) {
            self.set_retirement(id, Retirement::Over);
            self.pending.push(id);
            // At once, because later values may go with this one.
            self.collect_all();
        }
    }

    /// Returns the cost of a value and of its history, up to the next computed values. Data counts unless a tensor holds it.
    fn cost_of_history(&self, id: NodeId) -> Cost {
        let mut cost = Cost::default();
        let (mut seen, mut stack) = (FxHashSet::default(), vec![id]);
        while let Some(at) = stack.pop().filter(|_| cost.nodes <= KEPT_NODES) {
            let node = self.node(at);
            cost.nodes += 1;
            let is_own = at == id || node.handles == 0 && matches!(node.op, Op::Source);
            if is_own && node.is_materialized && node.alias.is_none() {
                cost.bytes += node.shape.numel() as u64 * node.dtype.size() as u64;
            }
            if at == id || !node.is_materialized {
                let inputs = node.inputs.iter().copied();
                stack.extend(inputs.filter(|&input| seen.insert(input)));
            }
        }
        cost
    }
}
