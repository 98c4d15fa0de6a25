//! Variables in a history: which values a loss was computed from, and losses that a step of an optimizer used up.
//!
//! The gradient by a variable is taken at the value that the loss used. A node that is a value of a variable stores that
//! variable ([`Graph::set_value_of`]). A loss that used an earlier value is therefore recognized, and rejected with the
//! variable's name.
//!
//! Each node also has a set that includes all variables whose values it was computed from. If the history of a node was
//! dropped, the set shows whether it may hide a variable. Elsewhere it shortens the search.
//!
//! The search ends at variables, because an assigned value belongs to its own variable and is not an earlier value of another.

use super::gc::HistoryCut;
use super::{Graph, NodeId, USED_UP};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a variable, which no other variable of the process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariableId(u64);

impl VariableId {
    /// Creates a new id.
    pub fn next() -> VariableId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        VariableId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A set of variables that may contain more than were added: their range, and a bit for each of 128 remainders. The set is
/// exact for variables whose numbers differ by less than 128, as in most models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct VariableSet {
    first: u64,
    last: u64,
    bits: u128,
}

impl VariableSet {
    pub const NONE: VariableSet = VariableSet { first: u64::MAX, last: 0, bits: 0 };

    pub fn join(self, other: VariableSet) -> VariableSet {
        VariableSet {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            bits: self.bits | other.bits,
        }
    }

    fn of(variables: impl Iterator<Item = VariableId>) -> VariableSet {
        let one = |n| VariableSet { first: n, last: n, bits: 1 << (n % 128) };
        variables.fold(VariableSet::NONE, |span, VariableId(n)| span.join(one(n)))
    }

    /// Whether the sets may have a variable in common.
    fn meets(self, other: VariableSet) -> bool {
        let near = self.first <= other.last && other.first <= self.last;
        near && self.bits & other.bits != 0
    }
}

/// The reason why a gradient by variables cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleValue {
    /// An earlier value of the n-th variable was used.
    Value(usize),
    /// The history was dropped at a result of this operation, and may have contained a value of a variable.
    Gone(&'static str),
}

impl Graph {
    /// Marks the node as the value of a variable. Its gradient belongs to that variable.
    pub fn set_value_of(&mut self, id: NodeId, variable: VariableId) {
        let node = self.node_mut(id);
        node.value_of = Some(variable);
        node.reads = VariableSet::of(std::iter::once(variable));
        node.origins = node.origins.join(node.reads);
    }

    /// Returns the variables that these nodes are values of, and how old the values are.
    pub fn variables_of(&self, values: &[NodeId]) -> Vec<(VariableId, u64)> {
        values.iter().filter_map(|&id| Some((self.node(id).value_of?, self.age(id)))).collect()
    }

    /// Whether the dropped history of a node may contain a value of this variable and age, also through assignments to other
    /// variables. History behind a value of the variable, or older than the value, contains only earlier values.
    pub fn may_hide_variable(&self, id: NodeId, variable: VariableId, age: u64) -> bool {
        let node = self.node(id);
        let own = VariableSet::of(std::iter::once(variable));
        node.value_of != Some(variable) && age < node.cut.before && node.origins.meets(own)
    }

    /// Sets the sequence number since when the node's value exists, if a variable had the value before the node was recorded.
    pub fn set_since(&mut self, id: NodeId, since: u64) {
        self.node_mut(id).value_since = since;
    }

    /// Returns the sequence number since when the value exists, as this node or as a part of another.
    pub fn age(&self, id: NodeId) -> u64 {
        self.since(id).min(id.seq)
    }

    /// Returns the sequence number since when the value exists.
    pub fn since(&self, id: NodeId) -> u64 {
        self.node(id).value_since
    }

    /// Returns the variables that a node with these inputs is computed from. The first set ends at values of variables, and the
    /// second follows them.
    pub(super) fn spans_of(&self, inputs: &[NodeId]) -> (VariableSet, VariableSet) {
        let (mut reads, mut origins) = (VariableSet::NONE, VariableSet::NONE);
        for &input in inputs {
            let node = self.node(input);
            if node.dtype.is_float() && !node.is_detached {
                (reads, origins) = (reads.join(node.reads), origins.join(node.origins));
            }
        }
        (reads, origins)
    }

    /// Whether an optimizer step consumed `of`, and `value` is a later value of a variable that `of` may have read.
    pub fn was_consumed_before(&self, of: NodeId, value: NodeId) -> bool {
        let (of, variable) = (self.node(of), self.node(value).value_of);
        let is_read = |variable| of.reads.meets(VariableSet::of(std::iter::once(variable)));
        of.is_used_up && variable.is_some_and(is_read)
    }

    /// Rejects a loss that was computed from an earlier value of one of these variables.
    pub fn check_values(
        &self,
        of: NodeId,
        variables: &[(VariableId, NodeId)],
    ) -> Result<(), StaleValue> {
        let wanted = VariableSet::of(variables.iter().map(|(variable, _)| *variable));
        let current: FxHashSet<NodeId> = variables.iter().map(|(_, node)| *node).collect();
        let mut at: FxHashMap<VariableId, usize> = FxHashMap::default();
        for (n, (variable, _)) in variables.iter().enumerate() {
            at.entry(*variable).or_insert(n);
        }
        // With an explicit stack, because a chain may be longer than the thread's stack.
        let (mut seen, mut stack) = (FxHashSet::default(), vec![of]);
        while let Some(id) = stack.pop() {
            let node = self.node(id);
            let passed = node.dtype.is_float() && !node.is_detached;
            if !passed || !node.reads.meets(wanted) || current.contains(&id) {
                continue;
            }
            if !seen.insert(id) {
                continue;
            }
            if let Some(variable) = node.value_of {
                match at.get(&variable) {
                    Some(&n) => return Err(StaleValue::Value(n)),
                    None => continue,
                }
            }
            if node.is_used_up || node.inputs.is_empty() {
                // This node was recorded before the variable was assigned, so it used an earlier value.
                let is_earlier = |&(variable, current): &(VariableId, NodeId)| {
                    let own = VariableSet::of(std::iter::once(variable));
                    node.reads.meets(own) && self.since(current) > id.seq
                };
                if let Some(n) = variables.iter().position(is_earlier) {
                    return Err(StaleValue::Value(n));
                }
                return Err(StaleValue::Gone(if node.is_used_up { USED_UP } else { node.cut.op }));
            }
            stack.extend_from_slice(&node.inputs);
        }
        Ok(())
    }

    /// Lets an optimizer step consume a loss. Gradients no longer pass from the loss to these values of variables, or through
    /// the nodes computed from them. Returns those nodes. They drop their history once the step was taken
    /// ([`Graph::finish_consume`]).
    pub fn consume(&mut self, of: NodeId, values: &[NodeId]) -> Vec<NodeId> {
        let variables = values.iter().filter_map(|&value| self.get(value)?.value_of);
        let wanted = VariableSet::of(variables);
        let values: FxHashSet<NodeId> = values.iter().copied().collect();
        let mut depends: FxHashMap<NodeId, bool> = FxHashMap::default();
        let (mut used, mut stack) = (Vec::new(), vec![(of, 0)]);
        while let Some((id, next)) = stack.pop() {
            if depends.contains_key(&id) {
                continue;
            }
            let Some(node) = self.get(id) else { continue };
            let ends = node.value_of.is_some() || !node.is_passed();
            if ends || !node.reads.meets(wanted) {
                depends.insert(id, values.contains(&id));
                continue;
            }
            if let Some(&input) = node.inputs.get(next) {
                stack.push((id, next + 1));
                stack.push((input, 0));
                continue;
            }
            let one = node.inputs.iter().any(|input| depends.get(input) == Some(&true));
            depends.insert(id, one);
            if one {
                used.push(id);
            }
        }
        for &id in &used {
            self.node_mut(id).is_spent = true;
        }
        used
    }

    /// Ends a step that consumes these nodes: it was taken, or it failed.
    pub fn finish_consume(&mut self, used: &[NodeId], was_taken: bool) {
        let mut changed = Vec::with_capacity(used.len());
        for &id in used {
            let Some(node) = self.get_mut(id) else { continue };
            node.is_spent = false;
            if was_taken {
                // Gradients reach nothing behind this node any more, whether they could before or were cut off already.
                let before = node.inputs_reach.max(node.reach.cut.before).max(node.cut.before);
                (node.is_used_up, node.cut) = (true, HistoryCut { before, op: USED_UP });
                changed.push(id);
            }
        }
        self.notify_changed(&changed);
    }
}
