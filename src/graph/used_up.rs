//! Variables in a history: which values a loss was computed from, and losses that a step of an optimizer used up.
//!
//! The gradient by a variable is taken at the value that the loss used. A node that is a value of a variable knows which
//! variable that is ([`Graph::set_value_of`]), so a loss that used an earlier value is recognized, and refused with the
//! variable's name. Each node also knows a span of variables that holds all those whose values it was computed from. Where
//! the history of a node is gone, that span says whether a variable may be hidden there; elsewhere it saves the way.
//!
//! Variables end the search: a value that was assigned is a value of its own variable, and no earlier value of another.

use super::gc::HistoryCut;
use super::{Graph, NodeId, USED_UP};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of a variable, which no other variable of the process has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariableId(u64);

impl VariableId {
    /// A new one.
    pub fn next() -> VariableId {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        VariableId(NEXT.fetch_add(1, Ordering::Relaxed))
    }
}

/// A set of variables that may hold more than were put in: their range, and a bit for each of 128 remainders. It is exact
/// for variables whose numbers are less than 128 apart, as those of most models are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    first: u64,
    last: u64,
    bits: u128,
}

impl Span {
    pub const NONE: Span = Span { first: u64::MAX, last: 0, bits: 0 };

    pub fn join(self, other: Span) -> Span {
        Span {
            first: self.first.min(other.first),
            last: self.last.max(other.last),
            bits: self.bits | other.bits,
        }
    }

    fn of(variables: impl Iterator<Item = VariableId>) -> Span {
        let one = |n| Span { first: n, last: n, bits: 1 << (n % 128) };
        variables.fold(Span::NONE, |span, VariableId(n)| span.join(one(n)))
    }

    /// Whether both may have a variable in common.
    fn meets(self, other: Span) -> bool {
        let near = self.first <= other.last && other.first <= self.last;
        near && self.bits & other.bits != 0
    }
}

/// Why a gradient by variables cannot be taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleValue {
    /// The value was used that the n-th variable had before it was assigned.
    Value(usize),
    /// The history is gone at a result of this operation, and may have had a value of a variable.
    Gone(&'static str),
}

impl Graph {
    /// The node is the value of a variable. Its gradient belongs to that variable.
    pub fn set_value_of(&mut self, id: NodeId, variable: VariableId) {
        let node = self.node_mut(id);
        node.value_of = Some(variable);
        node.reads = Span::of(std::iter::once(variable));
        node.origins = node.origins.join(node.reads);
    }

    /// The variables that these nodes are values of, and how old the values are.
    pub fn variables_of(&self, values: &[NodeId]) -> Vec<(VariableId, u64)> {
        values.iter().filter_map(|&id| Some((self.node(id).value_of?, self.age(id)))).collect()
    }

    /// Whether a variable's value of this age may lie in the history of a node that is gone, through whatever was assigned to
    /// others. What is behind a value of the variable itself is an earlier one, and so is what is older than the value.
    pub fn hides(&self, id: NodeId, variable: VariableId, age: u64) -> bool {
        let node = self.node(id);
        let own = Span::of(std::iter::once(variable));
        node.value_of != Some(variable) && age < node.cut.before && node.origins.meets(own)
    }

    /// The node is a value that a variable had before the node was recorded: it is as old as that.
    pub fn set_since(&mut self, id: NodeId, since: u64) {
        self.node_mut(id).value_since = since;
    }

    /// How many nodes were recorded before there was this value, as a node of its own or as part of another.
    pub fn age(&self, id: NodeId) -> u64 {
        self.since(id).min(id.seq)
    }

    /// How many nodes were recorded before the value was there.
    pub fn since(&self, id: NodeId) -> u64 {
        self.node(id).value_since
    }

    /// The variables that a node with these inputs was computed from: up to the values of variables, and through them.
    pub(super) fn spans_of(&self, inputs: &[NodeId]) -> (Span, Span) {
        let (mut reads, mut origins) = (Span::NONE, Span::NONE);
        for &input in inputs {
            let node = self.node(input);
            if node.dtype.is_float() && !node.is_detached {
                (reads, origins) = (reads.join(node.reads), origins.join(node.origins));
            }
        }
        (reads, origins)
    }

    /// Refuses a loss that was not computed from the current values of these variables alone, as far as it was computed
    /// from theirs at all.
    pub fn check_values(
        &self,
        of: NodeId,
        variables: &[(VariableId, NodeId)],
    ) -> Result<(), StaleValue> {
        let wanted = Span::of(variables.iter().map(|(variable, _)| *variable));
        let current: FxHashSet<NodeId> = variables.iter().map(|(_, node)| *node).collect();
        let mut at: FxHashMap<VariableId, usize> = FxHashMap::default();
        for (n, (variable, _)) in variables.iter().enumerate() {
            at.entry(*variable).or_insert(n);
        }
        // With a stack of our own: a chain may be longer than the thread's.
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
                    let own = Span::of(std::iter::once(variable));
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

    /// A step uses up a loss: gradients do not pass any more from it to these variables' values, or to anything else behind
    /// the nodes that were computed from them. Returns those nodes, which forget their history when the step was taken
    /// ([`Graph::settle_use`]).
    pub fn use_up(&mut self, of: NodeId, values: &[NodeId]) -> Vec<NodeId> {
        let variables = values.iter().filter_map(|&value| self.get(value)?.value_of);
        let wanted = Span::of(variables);
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

    /// The step that used up these nodes was taken, or it was not.
    pub fn settle_use(&mut self, used: &[NodeId], was_taken: bool) {
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
