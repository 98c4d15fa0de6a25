//! What follows when handles, data or users of nodes are others: what nothing needs is freed, and data forgets a past that is
//! of no use.

use super::past::{Cut, Past};
use super::{Graph, Inputs, Node, NodeId};
use std::cmp::Reverse;

impl Graph {
    /// What gradients meet behind the inputs of a node.
    pub(super) fn behind(&self, node: &Node) -> Past {
        let mut all = Past { reach: 0, cut: node.cut };
        if node.is_passed() {
            for &input in &node.inputs {
                all = all.join(self.node(input).past);
            }
        }
        all
    }

    /// The sources that nothing needs any more, since this was asked last; their ids are invalid now.
    pub fn gone(&mut self) -> Vec<NodeId> {
        std::mem::take(&mut self.gone)
    }

    /// Says to all nodes what is behind them now, so that data forgets a past that is of no use.
    pub fn catch_up(&mut self) {
        self.settle(usize::MAX);
    }

    /// From now on no history is forgotten: what is let go of may be held again in a moment.
    pub fn freeze(&mut self) {
        self.is_frozen = true;
    }

    /// Histories are forgotten again that are of no use.
    pub fn thaw(&mut self) {
        self.is_frozen = false;
        let thawing = std::mem::take(&mut self.thawing);
        self.unsettled.extend(thawing);
        self.catch_up();
    }

    /// Something about these nodes is another: frees those that nothing needs, and says so to what they are made of. What they
    /// know of their past is said to their users, a few each time: else each of many tensors that go, the youngest first, would
    /// be said to all that is younger.
    pub(super) fn changed(&mut self, nodes: &[NodeId]) {
        self.unsettled.extend_from_slice(nodes);
        self.settle(Graph::SLACK);
    }

    /// Looks at all that is unsettled, and at no more than so many of those that are stale.
    fn settle(&mut self, most: usize) {
        let mut left = most;
        loop {
            if let Some(id) = self.unsettled.pop() {
                self.look_at(id);
                continue;
            }
            // The oldest first: what it is made of is settled by then, and it is looked at once.
            let next = if left > 0 { self.stale.pop() } else { None };
            let Some(Reverse((born, index))) = next else { return };
            left -= 1;
            let id = NodeId { index, born };
            if let Some(node) = self.get_mut(id) {
                node.stale = false;
                self.look_at(id);
            }
        }
    }

    /// Frees a node if nothing needs it, and lets data forget a past that is of no use.
    fn look_at(&mut self, id: NodeId) {
        let Some(node) = self.get(id) else { return };
        let mut past = self.behind(node);
        let hidden = node.data && !self.gradients_come(node);
        let is_frozen = self.is_frozen;
        let node = self.node_mut(id);
        node.behind = past.reach;
        let gone = node.handles == 0 && node.users.is_empty();
        let past_is_over = node.used_up || past.reach <= past.cut.before;
        let would_forget = node.data && (hidden || past_is_over);
        let forgets = would_forget && !is_frozen;
        // What is held by an alias is held by that: while the alias remembers how it was made, it needs it.
        let is_alias = node.alias.is_some();
        let needed = node.is_needed() || is_alias && !node.users.is_empty();
        let uses = (!node.data || is_alias) && needed && !forgets;
        let change = i32::from(uses) - i32::from(node.uses_inputs);
        node.uses_inputs = uses;
        if forgets {
            let op = node.op.name();
            let own = Cut { before: past.reach, op };
            past = past.join(Past { reach: 0, cut: own });
            (past.reach, node.cut) = (0, past.cut);
        }
        let leaves = gone || forgets;
        let inputs = match (leaves, change) {
            (true, _) => std::mem::take(&mut node.inputs),
            (false, 0) => Inputs::new(),
            (false, _) => node.inputs.clone(),
        };
        if node.handles > 0 && node.dtype.is_float() {
            past.reach = id.born + 1;
        }
        let before = std::mem::replace(&mut node.past, past);
        if before != past {
            self.tell_users(id, before, past);
        }
        if would_forget && is_frozen && !gone {
            self.thawing.push(id);
        }
        if gone && self.vacate(id).is_some_and(|node| node.data) {
            self.gone.push(id);
        }
        for id_in in inputs {
            let input = self.node_mut(id_in);
            input.uses = input.uses.wrapping_add_signed(change);
            if let Some(at) = input.users.iter().rposition(|&u| leaves && u == id.index) {
                input.users.swap_remove(at);
            }
            self.unsettled.push(id_in);
        }
    }

    /// Whether gradients may come to a node: a tensor holds it, or something is made of it that they pass.
    fn gradients_come(&self, node: &Node) -> bool {
        // An alias was not computed by itself, so its value does not end a history.
        let stays = node.early || node.alias.is_some();
        let needed = node.is_needed() || stays && !node.users.is_empty();
        let passed = |&index: &u32| {
            let user = self.nodes[index as usize].1.as_ref();
            user.is_some_and(Node::is_passed)
        };
        needed && (node.handles > 0 || node.users.iter().any(passed))
    }

    /// The users of a node are stale, where it makes a difference to them what it knows of its past.
    fn tell_users(&mut self, id: NodeId, before: Past, past: Past) {
        let reach = before.reach.max(past.reach);
        for at in 0..self.node(id).users.len() {
            let index = self.node(id).users[at];
            let Some((born, Some(user))) = self.nodes.get_mut(index as usize) else { continue };
            // What reaches further by another input: joins of many would be looked through for each of them.
            let same = before.cut == past.cut && user.behind > reach;
            if user.is_passed() && !same && !user.stale {
                user.stale = true;
                self.stale.push(Reverse((*born, index)));
            }
        }
    }
}
