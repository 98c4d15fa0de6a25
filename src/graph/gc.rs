//! What follows when handles, data or users of nodes are others: what nothing needs is freed, and data forgets a past that is
//! of no use.

use super::past::{GradReach, HistoryCut};
use super::{Graph, Inputs, Node, NodeId};
use std::cmp::Reverse;

impl Graph {
    /// What gradients meet behind the inputs of a node.
    pub(super) fn reach_of_inputs(&self, node: &Node) -> GradReach {
        let mut all = GradReach { newest_held: 0, cut: node.cut };
        if node.is_passed() {
            for &input in &node.inputs {
                all = all.join(self.node(input).reach);
            }
        }
        all
    }

    /// The sources that nothing needs any more, since this was asked last; their ids are invalid now.
    pub fn take_freed_sources(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.freed_sources)
    }

    /// Says to all nodes what is behind them now, so that data forgets a past that is of no use.
    pub fn collect_all(&mut self) {
        self.collect(usize::MAX);
    }

    /// From now on no history is forgotten: what is let go of may be held again in a moment.
    pub fn pause_forgetting(&mut self) {
        self.is_frozen = true;
    }

    /// Histories are forgotten again that are of no use.
    pub fn resume_forgetting(&mut self) {
        self.is_frozen = false;
        let thawing = std::mem::take(&mut self.deferred);
        self.pending.extend(thawing);
        self.collect_all();
    }

    /// Something about these nodes is another: frees those that nothing needs, and says so to what they are made of. What they
    /// know of their past is said to their users, a few each time: else each of many tensors that go, the youngest first, would
    /// be said to all that is younger.
    pub(super) fn notify_changed(&mut self, nodes: &[NodeId]) {
        self.pending.extend_from_slice(nodes);
        self.collect(Graph::MAX_STALE_ENTRIES);
    }

    /// Looks at all that is unsettled, and at no more than so many of those that are stale.
    fn collect(&mut self, most: usize) {
        let mut left = most;
        loop {
            if let Some(id) = self.pending.pop() {
                self.update_node(id);
                continue;
            }
            // The oldest first: what it is made of is settled by then, and it is looked at once.
            let next = if left > 0 { self.dirty.pop() } else { None };
            let Some(Reverse((born, index))) = next else { return };
            left -= 1;
            let id = NodeId { index, seq: born };
            if let Some(node) = self.get_mut(id) {
                node.is_dirty = false;
                self.update_node(id);
            }
        }
    }

    /// Frees a node if nothing needs it, and lets data forget a past that is of no use.
    fn update_node(&mut self, id: NodeId) {
        let Some(node) = self.get(id) else { return };
        let mut past = self.reach_of_inputs(node);
        let hidden = node.is_materialized && !self.may_receive_gradient(node);
        let is_frozen = self.is_frozen;
        let node = self.node_mut(id);
        node.inputs_reach = past.newest_held;
        let gone = node.handles == 0 && node.users.is_empty();
        let past_is_over = node.is_used_up || past.newest_held <= past.cut.before;
        let would_forget = node.is_materialized && (hidden || past_is_over);
        let forgets = would_forget && !is_frozen;
        // What is held by an alias is held by that: while the alias remembers how it was made, it needs it.
        let is_alias = node.alias.is_some();
        let uses = (!node.is_materialized || is_alias) && node.is_needed() && !forgets;
        let change = i32::from(uses) - i32::from(node.is_pending_use);
        node.is_pending_use = uses;
        if forgets {
            let op = node.op.name();
            let own = HistoryCut { before: past.newest_held, op };
            past = past.join(GradReach { newest_held: 0, cut: own });
            (past.newest_held, node.cut) = (0, past.cut);
        }
        let leaves = gone || forgets;
        let inputs = match (leaves, change) {
            (true, _) => std::mem::take(&mut node.inputs),
            (false, 0) => Inputs::new(),
            (false, _) => node.inputs.clone(),
        };
        if node.handles > 0 && node.dtype.is_float() {
            past.newest_held = id.seq + 1;
        }
        let before = std::mem::replace(&mut node.reach, past);
        if before != past {
            self.mark_users_dirty(id, before, past);
        }
        if would_forget && is_frozen && !gone {
            self.deferred.push(id);
        }
        if gone && self.free(id).is_some_and(|node| node.is_materialized) {
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

    /// Whether gradients may come to a node: a tensor holds it, or something is made of it that they pass.
    fn may_receive_gradient(&self, node: &Node) -> bool {
        // An alias of what is held is as good as that: its own handle does not count.
        let is_held = |input: &NodeId| self.node(*input).handles > 0;
        let stays = node.is_eager || node.alias.is_some() && node.inputs.iter().any(is_held);
        let needed = node.is_needed() || stays && !node.users.is_empty();
        let passed = |&index: &u32| {
            let user = self.nodes[index as usize].1.as_ref();
            user.is_some_and(Node::is_passed)
        };
        needed && (node.handles > 0 || node.users.iter().any(passed))
    }

    /// The users of a node are stale, where it makes a difference to them what it knows of its past.
    fn mark_users_dirty(&mut self, id: NodeId, before: GradReach, past: GradReach) {
        let reach = before.newest_held.max(past.newest_held);
        for at in 0..self.node(id).users.len() {
            let index = self.node(id).users[at];
            let Some((born, Some(user))) = self.nodes.get_mut(index as usize) else { continue };
            // What reaches further by another input: joins of many would be looked through for each of them.
            let same = before.cut == past.cut && user.inputs_reach > reach;
            if user.is_passed() && !same && !user.is_dirty {
                user.is_dirty = true;
                self.dirty.push(Reverse((*born, index)));
            }
        }
    }
}
