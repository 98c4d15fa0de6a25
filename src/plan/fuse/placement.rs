//! Placement: which nodes are materialized in memory, and which are computed inside the kernels that use them.

use super::cost::{self, Costs};
use super::fusion_limits::{FusionLimits, KernelSize};
use crate::graph::Trace;
use crate::op::{Op, Routine};
use crate::plan::lower::order;
use crate::plan::passes::donation;
use crate::sorted;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// A transposed matrix read by more matmuls than this is materialized once instead of being transposed in each.
const MAX_INLINE_TRANSPOSES: usize = 8;

/// The placement of each node of a trace. [`Placement::force`] moves more nodes to memory, and no node is moved out of memory.
pub struct Placement<'a> {
    trace: &'a Trace,
    costs: Costs,
    /// Whether the value is in a buffer when a kernel reads it.
    pub in_memory: Vec<bool>,
    /// The root whose kernel also writes this node, which is a result.
    pub attached: Vec<Option<usize>>,
    /// The attached nodes of each root.
    attachments: FxHashMap<usize, BTreeSet<usize>>,
    /// Whether the node is cheap enough to be computed at every load of a routine's operand.
    pub inline_in_operand: Vec<bool>,
    /// Whether the node is unpacked from integers of at most half its size.
    pub packed: Vec<bool>,
    /// Whether the kernel updates a part of the second operand in place.
    pub in_place: Vec<bool>,
    outputs: Vec<bool>,
    forced: Vec<bool>,
    users: Users,
    /// The kernels that compute the node or read it from memory.
    consumer: Vec<Consumer>,
}

/// The placement of a node, as seen by the kernel of one root.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct NodePlacement {
    /// Whether the kernel reads the node from memory.
    pub read: bool,
    attached: bool,
    in_place: bool,
    inline_in_operand: bool,
    packed: bool,
}

/// The kernels that consume a value without a round trip through memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Consumer {
    Nothing,
    One(usize),
    Many,
}

impl Consumer {
    fn and(self, other: Consumer) -> Consumer {
        match (self, other) {
            (Consumer::Nothing, other) => other,
            (a, b) if a == b => a,
            _ => Consumer::Many,
        }
    }
}

/// The users of each node, once for each occurrence.
struct Users {
    first: Vec<usize>,
    all: Vec<usize>,
}

impl Users {
    fn of(trace: &Trace) -> Users {
        let mut first = vec![0; trace.nodes.len() + 1];
        for &input in trace.nodes.iter().flat_map(|node| &node.inputs) {
            first[input + 1] += 1;
        }
        for n in 0..trace.nodes.len() {
            first[n + 1] += first[n];
        }
        let mut next = first.clone();
        let mut all = vec![0; first[trace.nodes.len()]];
        for (n, node) in trace.nodes.iter().enumerate() {
            for &input in &node.inputs {
                all[next[input]] = n;
                next[input] += 1;
            }
        }
        Users { first, all }
    }

    fn of_node(&self, n: usize) -> &[usize] {
        &self.all[self.first[n]..self.first[n + 1]]
    }
}

impl<'a> Placement<'a> {
    /// Places the nodes, for kernels of at most `buffers` buffers.
    pub fn new(trace: &'a Trace, buffers: usize) -> Placement<'a> {
        let count = trace.nodes.len();
        let mut placement = Placement {
            trace,
            costs: Costs::of(trace),
            in_memory: vec![false; count],
            attached: vec![None; count],
            attachments: FxHashMap::default(),
            inline_in_operand: vec![false; count],
            packed: vec![false; count],
            in_place: vec![false; count],
            outputs: vec![false; count],
            forced: vec![false; count],
            users: Users::of(trace),
            consumer: vec![Consumer::Nothing; count],
        };
        for (n, node) in trace.nodes.iter().enumerate() {
            placement.packed[n] = placement.costs.is_packed(n, node);
            placement.inline_in_operand[n] = placement.costs.is_inline_in_operand(n, node);
        }
        for &output in &trace.outputs {
            placement.outputs[output] = true;
        }
        for (n, _) in donation::updates_of_parts(trace) {
            (placement.in_place[n], placement.forced[n]) = (true, true);
        }
        placement.place();
        placement.limit_buffers(buffers);
        placement
    }

    /// Places the nodes from last to first, so that users are placed before their inputs.
    fn place(&mut self) {
        let mut sizes = vec![KernelSize::default(); self.trace.nodes.len()];
        // The operand of a join whose kernel computes the node. Each operand of a join has a separate kernel.
        let mut operand: Vec<usize> = (0..self.trace.nodes.len()).collect();
        let mut cuts = FusionLimits::new(self.trace);
        for n in (0..self.trace.nodes.len()).rev() {
            self.forced[n] |= self.is_transposed_for_many(n);
            self.decide(n);
            let own = KernelSize {
                nodes: usize::from(!self.in_memory[n] && !self.is_leaf(n)),
                operations: usize::from(!self.costs.free[n]),
                loops: usize::from(matches!(self.trace.nodes[n].op, Op::Reduce { .. })),
            };
            let mut root = match self.consumer[n] {
                Consumer::One(root) if !self.in_memory[n] => root,
                _ => n,
            };
            if root != n && self.is_join(root) {
                if let Some(&user) = self.users.of_node(n).iter().find(|&&user| user != root) {
                    operand[n] = operand[user];
                }
                root = operand[n];
            }
            if root != n && own.operations > 0 && cuts.is_cut(n, root, sizes[root], own) {
                self.forced[n] = true;
                self.decide(n);
                sizes[n] = own;
            } else {
                sizes[root] = sizes[root].and(own);
            }
            let node = &self.trace.nodes[n];
            if let Op::Shader(call) = &node.op {
                for &input in &node.inputs[..call.shader.inputs.len()] {
                    self.forced[input] = true;
                }
            }
            if matches!(node.op, Op::Order { .. }) {
                self.forced[order::rows_of(self.trace, n)] = true;
            }
            if matches!(node.op, Op::Routine(_)) && node.shape.numel() > 0 {
                for &input in &node.inputs {
                    if let Some(before) = self.before_operand(input) {
                        self.forced[before] = true;
                    }
                }
            }
        }
    }

    /// Returns the node that must be in memory so that a routine can read `operand`. The routine itself computes views, and a
    /// few instructions on each element.
    fn before_operand(&self, operand: usize) -> Option<usize> {
        let (mut at, mut moved) = (operand, true);
        loop {
            let node = &self.trace.nodes[at];
            match &node.op {
                Op::Source | Op::Scalar | Op::Fill { .. } | Op::Iota { .. } => return None,
                Op::DerivativeLimit { .. } => return None,
                Op::Reshape(_) | Op::Permute(_) => {}
                Op::Pad(_) if !self.is_padded_by_number(at) => return Some(at),
                Op::Expand(_) | Op::Slice(_) | Op::Unfold(_) | Op::Pad(_) | Op::Cast(_) => {
                    moved = false;
                }
                Op::Pointwise(_) | Op::Derivative { .. } | Op::Element(_) | Op::Bitcast(_)
                    if self.inline_in_operand[at] =>
                {
                    return None;
                }
                // The kernel of another routine writes its result where it is moved to.
                Op::Routine(_) if moved => return Some(operand),
                _ => return Some(at),
            }
            at = node.inputs[0];
        }
    }

    /// Materializes operands until no kernel reads more buffers than the device allows.
    fn limit_buffers(&mut self, buffers: usize) {
        let mut loads: Vec<Vec<usize>> = Vec::with_capacity(self.trace.nodes.len());
        for (n, node) in self.trace.nodes.iter().enumerate() {
            let root = match self.consumer[n] {
                Consumer::One(root) if !self.in_memory[n] => root,
                _ => n,
            };
            let most = buffers.saturating_sub(1 + self.attached_to(root).count()).max(1);
            // Each operand of a join has a separate kernel.
            if self.is_join(n) || matches!(node.op, Op::Shader(_) | Op::Order { .. }) {
                loads.push(Vec::new());
                continue;
            }
            let all = loop {
                let mut all: Vec<usize> = Vec::new();
                for &input in &node.inputs {
                    match self.in_memory[input] {
                        true => all.push(input),
                        false => all.extend_from_slice(&loads[input]),
                    }
                }
                sorted::sort(&mut all);
                all.dedup();
                if all.len() <= most {
                    break all;
                }
                let absent = node.inputs.iter().copied().filter(|&i| !self.in_memory[i]);
                match absent.max_by_key(|&i| (loads[i].len(), i)).filter(|&i| loads[i].len() > 1) {
                    Some(largest) => drop(self.force(largest)),
                    None => break all,
                }
            };
            loads.push(all);
        }
    }

    /// Places a node, given the placement of its users.
    fn decide(&mut self, n: usize) {
        let node = &self.trace.nodes[n];
        let mut reach = Consumer::Nothing;
        for &user in self.users.of_node(n) {
            reach = reach.and(self.consumer_of_inputs(user));
        }
        let force = self.forced[n] || self.is_join(n);
        let pointwise = matches!(
            node.op,
            Op::Pointwise(_)
                | Op::Derivative { .. }
                | Op::Element(_)
                | Op::Cast(_)
                | Op::Bitcast(_)
                | Op::Reduce { .. }
        );
        let mut attached = None;
        let memory = match (&node.op, reach) {
            (Op::Source | Op::Order { .. } | Op::Shader(_) | Op::Output(..), _) => true,
            (Op::Scalar, _) => force,
            _ if self.in_memory[n] || force => true,
            // Each operand of a join has a separate kernel, which writes no other results.
            (_, Consumer::One(root)) if self.outputs[n] && pointwise && !self.is_join(root) => {
                attached = Some(root);
                false
            }
            _ if self.outputs[n] => true,
            _ if node.inputs.is_empty() => false,
            // Recomputing whether an element is in the padding is cheap.
            (Op::Pad(_), Consumer::Many) if self.is_padded_by_number(n) => false,
            (_, Consumer::Many) => !(self.costs.is_cheap(n) || self.packed[n]),
            _ => false,
        };
        self.consumer[n] = reach;
        self.in_memory[n] = memory;
        let before = std::mem::replace(&mut self.attached[n], attached);
        if let Some(at) = before.filter(|_| before != attached) {
            self.attachments.get_mut(&at).map(|all| all.remove(&n));
        }
        if let Some(at) = attached {
            self.attachments.entry(at).or_default().insert(n);
        }
    }

    /// Returns the kernels that consume the inputs of a node.
    fn consumer_of_inputs(&self, n: usize) -> Consumer {
        let node = &self.trace.nodes[n];
        match &node.op {
            // Nothing is read to compute an empty tensor.
            _ if node.shape.numel() == 0 => Consumer::Nothing,
            // Each element is read once for each window that it is in.
            Op::Unfold(windows) if windows.overlap() => Consumer::Many,
            _ if self.in_memory[n] => Consumer::One(n),
            _ => self.consumer[n],
        }
    }

    /// Moves a node to memory. Returns every node that moved, because inputs of the node may move as well.
    pub fn force(&mut self, n: usize) -> Vec<usize> {
        self.forced[n] = true;
        let mut placed = Vec::new();
        let mut affected = BTreeSet::from([n]);
        while let Some(n) = affected.pop_last() {
            let before = (self.in_memory[n], self.consumer_of_inputs(n));
            self.decide(n);
            if self.in_memory[n] && !before.0 {
                placed.push(n);
            }
            if self.consumer_of_inputs(n) != before.1 {
                affected.extend(&self.trace.nodes[n].inputs);
            }
        }
        placed
    }

    /// Returns the results that the kernel of `root` writes in addition to its own.
    pub fn attached_to(&self, root: usize) -> impl Iterator<Item = usize> + '_ {
        self.attachments.get(&root).into_iter().flatten().copied()
    }

    /// Returns the placement of a node for the kernel of `root`.
    pub fn of_node(&self, n: usize, root: usize) -> NodePlacement {
        NodePlacement {
            read: self.in_memory[n] && n != root,
            attached: self.attached[n] == Some(root),
            in_place: self.in_place[n],
            inline_in_operand: self.inline_in_operand[n],
            packed: self.packed[n],
        }
    }

    /// Whether the node is a transposed matrix that more than `MAX_INLINE_TRANSPOSES` matmuls read.
    fn is_transposed_for_many(&self, n: usize) -> bool {
        let Op::Permute(order) = &self.trace.nodes[n].op else { return false };
        let product =
            |&&user: &&usize| matches!(self.trace.nodes[user].op, Op::Routine(Routine::Matmul));
        let turned = order.last().is_some_and(|&last| last + 1 != order.len());
        turned && self.users.of_node(n).iter().filter(product).count() > MAX_INLINE_TRANSPOSES
    }

    fn is_join(&self, n: usize) -> bool {
        matches!(self.trace.nodes[n].op, Op::Concat { .. })
    }

    fn is_padded_by_number(&self, n: usize) -> bool {
        self.trace.nodes[self.trace.nodes[n].inputs[1]].shape.rank() == 0
    }

    /// Whether a node has no inputs.
    pub fn is_leaf(&self, n: usize) -> bool {
        self.trace.nodes[n].inputs.is_empty()
    }

    /// Whether a node costs no instruction, like movement and leaves.
    pub fn is_free(&self, n: usize) -> bool {
        self.costs.free[n]
    }

    /// Returns the node to materialize for a routine's result. It is the last of a chain of elementwise users if the chain ends
    /// in a reduction. A row program would otherwise recompute the chain in each of its passes.
    pub fn with_epilogue(&self, routine: usize) -> usize {
        let mut last = routine;
        while matches!(self.trace.nodes[routine].op, Op::Routine(_))
            && self.attached[last].is_none()
        {
            let mut users = self.users.of_node(last).to_vec();
            users.dedup();
            let reduces = |n: usize| matches!(self.trace.nodes[n].op, Op::Reduce { .. });
            let reduced = |&n: &usize| {
                let widens = cost::is_widening(self.trace, &self.trace.nodes[n]);
                reduces(n) || widens && self.users.of_node(n).iter().any(|&user| reduces(user))
            };
            if users.iter().any(reduced) {
                return last;
            }
            let &[next] = &users[..] else { break };
            let node = &self.trace.nodes[next];
            let local =
                matches!(node.op, Op::Pointwise(_) | Op::Element(_) | Op::Cast(_) | Op::Reshape(_));
            let near = |&i: &usize| i == last || self.in_memory[i] || self.inline_in_operand[i];
            if self.in_memory[next] || !local || !node.inputs.iter().all(near) {
                break;
            }
            last = next;
        }
        routine
    }

    /// Returns the node that takes the most loads, and at least two, among those that are not in memory.
    pub fn most_loads(&self, nodes: &[usize]) -> Option<usize> {
        let absent = nodes.iter().copied().filter(|&n| !self.in_memory[n]);
        let many = absent.filter(|&n| self.costs.loads[n] >= 2);
        many.max_by_key(|&n| self.costs.loads[n])
    }
}
