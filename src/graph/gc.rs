//! Garbage collection for the graph. Frees nodes that nothing references. Drops the autograd history of computed nodes once no
//! held tensor can be reached through it.
//!
//! Problem: a loop records nodes forever. A node is freed when no tensor holds it and no node has it as an input. But a
//! computed node keeps inputs only because a gradient may need them, and that depends on everything before it in the graph.
//! Searching the graph at each drop would take too long.
//!
//! Idea: reference counts free nodes, and two sequence numbers per node replace the search ([`GradReach`]).
//! - `newest_held` is the newest held node that gradients can reach through the node.
//! - `cut.before` is the newest one that they could reach once, and cannot any more, because history was dropped.
//!
//! A computed node keeps its inputs only while `newest_held` is above `cut.before`. Both numbers of a node follow from those of
//! its inputs, so a change is propagated from inputs to users, in recording order.
//!
//! Cost: dropping a tensor can change the numbers of every later node. Unreferenced nodes are therefore freed at once, but
//! users with outdated numbers are queued in `dirty`, oldest first. Each call updates at most `MAX_STALE_ENTRIES` of them.
//! [`Graph::collect_all`] updates all of them before a batch or a gradient. Each queued node is updated once, however many of
//! its inputs have changed. Without the queue, each of a thousand dropped tensors could touch thousands of later nodes.
//!
//! Example: `x` is held data, `y = exp(x)`, `z = y * 2`, and only `x` and `z` are held. `z` is computed and keeps its inputs,
//! because a gradient by `x` can still be requested. Then `x` is dropped, so `z` depends on no held tensor any more. `z` drops
//! its inputs, which frees `y` and then `x`. Gradients that would pass `z` are an error from then on, because of its `cut`.
//!
//! A computed node that no tensor needs drops its history, too, after some time (`retire.rs`).

use super::retire::Retirement;
use super::{Graph, Inputs, Node, NodeId, VARIABLE_VALUE};
use crate::op::Op;
use std::cmp::Reverse;

/// The kind of owner that keeps a node alive, for memory reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A variable.
    Variable,
    /// A tensor of the app.
    Tensor,
    /// Only a compiled program.
    Constant,
    /// Nothing. Operations that are still to be computed need the node.
    Pending,
}

impl Holder {
    /// Returns the name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Holder::Tensor => "tensor",
            Holder::Variable => "variable",
            Holder::Constant => "constant",
            Holder::Pending => "pending",
        }
    }
}

/// The held nodes that gradients can reach from a node, the node itself included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GradReach {
    /// One more than the sequence number of the newest held node that gradients reach, or 0.
    pub newest_held: u64,
    /// The newest held node that gradients no longer reach.
    pub cut: HistoryCut,
}

impl GradReach {
    /// Combines the reach of two inputs. Of two equally new cuts, the first one stays.
    pub fn join(self, other: GradReach) -> GradReach {
        let cut = if other.cut.before > self.cut.before { other.cut } else { self.cut };
        GradReach { newest_held: self.newest_held.max(other.newest_held), cut }
    }
}

/// A place where history was dropped, so that gradients end there.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HistoryCut {
    /// Gradients do not reach nodes with lower sequence numbers.
    pub before: u64,
    /// The name of the operation whose history was dropped.
    pub op: &'static str,
}

/// Compares the number only. Comparing the names as well took half of the time of recording.
impl PartialEq for HistoryCut {
    fn eq(&self, other: &HistoryCut) -> bool {
        self.before == other.before
    }
}

impl Eq for HistoryCut {}

impl Graph {
    /// Computes the reach of a node from its inputs and its own cut.
    pub(super) fn reach_of_inputs(&self, node: &Node) -> GradReach {
        let mut all = GradReach { newest_held: 0, cut: node.cut };
        if node.is_passed() {
            for &input in &node.inputs {
                all = all.join(self.node(input).reach);
            }
        }
        all
    }

    /// Returns the sources freed since the last call. Their ids are invalid.
    pub fn take_freed_sources(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.freed_sources)
    }

    /// Updates every dirty node, so that history that no gradient can use is dropped.
    pub fn collect_all(&mut self) {
        self.collect(usize::MAX);
    }

    /// Pauses dropping of history, because tensors that are released now may be held again at once.
    pub fn pause_history_drops(&mut self) {
        self.is_frozen = true;
    }

    /// Ends the pause, and drops the history that was kept because of it.
    pub fn resume_history_drops(&mut self) {
        self.is_frozen = false;
        let thawing = std::mem::take(&mut self.deferred);
        self.pending.extend(thawing);
        self.collect_all();
    }

    /// Updates the graph after these nodes changed. Frees the unreferenced ones and updates their inputs at once. Propagates
    /// changed numbers to users incrementally, at most `MAX_STALE_ENTRIES` nodes per call, so that dropping many tensors stays
    /// cheap.
    pub(super) fn notify_changed(&mut self, nodes: &[NodeId]) {
        self.pending.extend_from_slice(nodes);
        self.collect(Graph::MAX_STALE_ENTRIES);
    }

    /// Updates every pending node, and at most `max_dirty` dirty ones.
    fn collect(&mut self, max_dirty: usize) {
        let mut left = max_dirty;
        loop {
            if let Some(id) = self.pending.pop() {
                self.update_node(id);
                continue;
            }
            // The oldest first. Its inputs are up to date by then, so that it is updated once.
            let next = if left > 0 { self.dirty.pop() } else { None };
            let Some(Reverse((seq, index))) = next else { return };
            left -= 1;
            let id = NodeId { index, seq };
            if let Some(node) = self.get_mut(id) {
                node.is_dirty = false;
                self.update_node(id);
            }
        }
    }

    /// Frees the node if nothing references it. Otherwise recomputes its reach, and drops its history if no gradient can use
    /// it, or retires it if no tensor needs it.
    fn update_node(&mut self, id: NodeId) {
        let Some(node) = self.get(id) else { return };
        let mut reach = self.reach_of_inputs(node);
        let is_freed = node.handles == 0 && node.users.is_empty();
        let is_hidden = node.is_materialized && !self.may_receive_gradient(node);
        let history_is_useless = node.is_used_up || reach.newest_held <= reach.cut.before;
        let is_over = node.retirement == Retirement::Over || !node.may_retire();
        let may_drop_history = node.is_materialized && (is_hidden && is_over || history_is_useless);
        let drops_history = may_drop_history && !self.is_frozen;
        match node.retirement {
            Retirement::Active if is_hidden && !may_drop_history && !is_freed => self.retire(id),
            Retirement::Since(..) if !is_hidden || may_drop_history || is_freed => {
                self.set_retirement(id, Retirement::Active);
            }
            _ => {}
        }
        let is_frozen = self.is_frozen;
        let node = self.node_mut(id);
        node.inputs_reach = reach.newest_held;
        // An alias needs its input as long as it has a history.
        let is_alias = node.alias.is_some();
        let uses = (!node.is_materialized || is_alias) && node.is_needed() && !drops_history;
        let change = i32::from(uses) - i32::from(node.is_pending_use);
        node.is_pending_use = uses;
        if drops_history {
            let op = if node.may_retire() { node.op.name() } else { VARIABLE_VALUE };
            let own = HistoryCut { before: reach.newest_held, op };
            reach = reach.join(GradReach { newest_held: 0, cut: own });
            (reach.newest_held, node.cut) = (0, reach.cut);
        }
        let leaves = is_freed || drops_history;
        let inputs = match (leaves, change) {
            (true, _) => std::mem::take(&mut node.inputs),
            (false, 0) => Inputs::new(),
            (false, _) => node.inputs.clone(),
        };
        if node.handles > 0 && node.dtype.is_float() {
            reach.newest_held = id.seq + 1;
        }
        let before = std::mem::replace(&mut node.reach, reach);
        if before != reach {
            self.mark_users_dirty(id, before, reach);
        }
        if may_drop_history && is_frozen && !is_freed {
            self.deferred.push(id);
        }
        if is_freed && self.free(id).is_some_and(|node| node.is_materialized) {
            self.freed_sources.push(id);
        }
        for id_in in inputs {
            let input = self.node_mut(id_in);
            input.pending_uses = input.pending_uses.wrapping_add_signed(change);
            if let Some(at) = input.users.iter().rposition(|&u| leaves && u == id.index) {
                input.users.swap_remove(at);
            }
            self.pending.push(id_in);
        }
    }

    /// Whether a gradient may flow into the node: a tensor holds it, or gradients pass one of its users.
    fn may_receive_gradient(&self, node: &Node) -> bool {
        // An alias of a held node counts as held, with or without a handle.
        let is_held = |input: &NodeId| self.node(*input).handles > 0;
        let stays = node.is_eager || node.alias.is_some() && node.inputs.iter().any(is_held);
        let needed = node.is_needed() || stays && !node.users.is_empty();
        let passed = |&index: &u32| {
            let user = self.nodes[index as usize].1.as_ref();
            user.is_some_and(Node::is_passed)
        };
        needed && (node.handles > 0 || node.users.iter().any(passed))
    }

    /// Queues the users of a node whose own reach may follow from the change.
    fn mark_users_dirty(&mut self, id: NodeId, before: GradReach, after: GradReach) {
        let reach = before.newest_held.max(after.newest_held);
        for at in 0..self.node(id).users.len() {
            let index = self.node(id).users[at];
            let Some((seq, Some(user))) = self.nodes.get_mut(index as usize) else { continue };
            // A user that reaches a newer node through another input does not change. Without this test a concatenation would
            // be updated once for each of its operands.
            let same = before.cut == after.cut && user.inputs_reach > reach;
            if user.is_passed() && !same && !user.is_dirty {
                user.is_dirty = true;
                self.dirty.push(Reverse((*seq, index)));
            }
        }
    }

    /// Returns the kind of owner that keeps the node alive.
    pub fn holder(&self, id: NodeId) -> Holder {
        let Some(node) = self.get(id) else { return Holder::Pending };
        match () {
            _ if node.variables > 0 => Holder::Variable,
            _ if node.handles > node.programs => Holder::Tensor,
            _ if node.programs > 0 => Holder::Constant,
            _ => Holder::Pending,
        }
    }

    /// Whether a tensor or a variable holds the node.
    pub fn is_held(&self, id: NodeId) -> bool {
        self.node(id).handles > 0
    }

    /// Whether anything but one handle needs the node, or the node has or had a history.
    pub fn is_used(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let remembers = node.is_materialized && !node.inputs.is_empty();
        node.handles > 1 || !node.users.is_empty() || remembers || node.reach.cut.before > 0
    }

    /// Whether the node has more than one handle, or has users.
    pub fn is_shared(&self, id: NodeId) -> bool {
        let node = self.node(id);
        node.handles > 1 || !node.users.is_empty()
    }

    /// Returns the name of the operation that computed the node.
    pub fn operation_name(&self, id: NodeId) -> &'static str {
        let node = self.node(id);
        match (node.alias, &node.op) {
            (Some(name), _) => name,
            (None, Op::Source) => "data",
            (None, op) => op.name(),
        }
    }

    /// Notes that one variable no longer has this value.
    pub fn release_variable(&mut self, id: NodeId) {
        if let Some(node) = self.get_mut(id) {
            node.variables = node.variables.saturating_sub(1);
        }
    }

    /// Notes that the variable was dropped while it had this value, so that the value is an ordinary tensor.
    pub fn outlive_variable(&mut self, id: NodeId) {
        self.node_mut(id).outlived_variable = true;
    }

    /// Notes that a handle of the node belongs to a compiled program, or no longer does.
    pub fn set_constant(&mut self, id: NodeId, whether: bool) {
        let node = self.node_mut(id);
        node.programs = if whether { node.programs + 1 } else { node.programs.saturating_sub(1) };
    }
}
