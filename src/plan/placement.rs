//! Which nodes get memory of their own, and which are computed inside the kernels that use them.

use super::cost::{self, Costs};
use super::cuts::{Cuts, Size};
use super::{donation, order};
use crate::graph::Trace;
use crate::op::{Op, Routine};
use crate::sorted;
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;

/// So many products turn a matrix while they read it.
const TURNS: usize = 8;

/// For each node of a trace, how it is placed. What is in memory stays there; [`Placement::force`] puts more there.
pub struct Placement<'a> {
    trace: &'a Trace,
    costs: Costs,
    /// Its value is in a buffer when a kernel reads it.
    pub in_memory: Vec<bool>,
    /// It is a result that the kernel of this root writes along with its own.
    pub attached: Vec<Option<usize>>,
    /// Those nodes by their roots.
    attachments: FxHashMap<usize, BTreeSet<usize>>,
    /// Cheap enough to be computed at every load of a routine's operand.
    pub light: Vec<bool>,
    /// Unpacked from integers that take at most half its memory.
    pub packed: Vec<bool>,
    /// Its kernel writes a part of what its second operand lies in.
    pub in_place: Vec<bool>,
    outputs: Vec<bool>,
    forced: Vec<bool>,
    users: Users,
    /// The kernels that compute it, or read it from memory.
    reach: Vec<Reach>,
}

/// How a node is placed, as the kernel that computes a root sees it.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mark {
    /// It is read from memory.
    pub read: bool,
    attached: bool,
    in_place: bool,
    light: bool,
    packed: bool,
}

/// The kernels a node's value flows into without passing through memory.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Nothing,
    One(usize),
    Many,
}

impl Reach {
    fn and(self, other: Reach) -> Reach {
        match (self, other) {
            (Reach::Nothing, other) => other,
            (a, b) if a == b => a,
            _ => Reach::Many,
        }
    }
}

/// For each node, the nodes that have it as an input, once for each time.
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
    /// Places the nodes, for kernels of at most so many buffers.
    pub fn new(trace: &'a Trace, buffers: usize) -> Placement<'a> {
        let count = trace.nodes.len();
        let mut placement = Placement {
            trace,
            costs: Costs::of(trace),
            in_memory: vec![false; count],
            attached: vec![None; count],
            attachments: FxHashMap::default(),
            light: vec![false; count],
            packed: vec![false; count],
            in_place: vec![false; count],
            outputs: vec![false; count],
            forced: vec![false; count],
            users: Users::of(trace),
            reach: vec![Reach::Nothing; count],
        };
        for (n, node) in trace.nodes.iter().enumerate() {
            placement.packed[n] = placement.costs.is_packed(n, node);
            placement.light[n] = placement.costs.is_light(n, node);
        }
        for &output in &trace.outputs {
            placement.outputs[output] = true;
        }
        for (n, _) in donation::updates_of_parts(trace) {
            (placement.in_place[n], placement.forced[n]) = (true, true);
        }
        placement.place();
        placement.thin(buffers);
        placement
    }

    /// From the end to the start: a node's users are placed before it is.
    fn place(&mut self) {
        let mut sizes = vec![Size::default(); self.trace.nodes.len()];
        // Each operand of a join has a kernel of its own: which one a node's value goes into.
        let mut operand: Vec<usize> = (0..self.trace.nodes.len()).collect();
        let mut cuts = Cuts::new(self.trace);
        for n in (0..self.trace.nodes.len()).rev() {
            self.forced[n] |= self.is_turned_for_many(n);
            self.decide(n);
            let own = Size {
                visits: usize::from(!self.in_memory[n] && !self.is_leaf(n)),
                operations: usize::from(!self.costs.free[n]),
                loops: usize::from(matches!(self.trace.nodes[n].op, Op::Reduce { .. })),
            };
            let mut root = match self.reach[n] {
                Reach::One(root) if !self.in_memory[n] => root,
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

    /// What has to be in memory so that a routine can read `operand`: views of it, and a few instructions on those, it
    /// computes itself.
    fn before_operand(&self, operand: usize) -> Option<usize> {
        let (mut at, mut moved) = (operand, true);
        loop {
            let node = &self.trace.nodes[at];
            match &node.op {
                Op::Source | Op::Scalar | Op::Fill { .. } | Op::Iota { .. } => return None,
                Op::Reshape(_) | Op::Permute(_) => {}
                Op::Pad(_) if !self.is_padded_by_number(at) => return Some(at),
                Op::Expand(_) | Op::Slice(_) | Op::Unfold(_) | Op::Pad(_) | Op::Cast(_) => {
                    moved = false;
                }
                Op::Pointwise(_) | Op::Derivative { .. } | Op::Element(_) | Op::Bitcast(_)
                    if self.light[at] =>
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

    /// Puts operands in memory before a kernel reads more buffers than it may use.
    fn thin(&mut self, buffers: usize) {
        let mut loads: Vec<Vec<usize>> = Vec::with_capacity(self.trace.nodes.len());
        for (n, node) in self.trace.nodes.iter().enumerate() {
            let root = match self.reach[n] {
                Reach::One(root) if !self.in_memory[n] => root,
                _ => n,
            };
            let most = buffers.saturating_sub(1 + self.attached_to(root).count()).max(1);
            // Each operand of a join has a kernel of its own.
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

    /// Places a node by how its users are placed.
    fn decide(&mut self, n: usize) {
        let node = &self.trace.nodes[n];
        let mut reach = Reach::Nothing;
        for &user in self.users.of_node(n) {
            reach = reach.and(self.through(user));
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
            // Each operand of a join has a kernel of its own, which writes no other's results.
            (_, Reach::One(root)) if self.outputs[n] && pointwise && !self.is_join(root) => {
                attached = Some(root);
                false
            }
            _ if self.outputs[n] => true,
            _ if node.inputs.is_empty() => false,
            // Whether it lies outside is cheap to ask again.
            (Op::Pad(_), Reach::Many) if self.is_padded_by_number(n) => false,
            (_, Reach::Many) => !(self.costs.is_cheap(n) || self.packed[n]),
            _ => false,
        };
        self.reach[n] = reach;
        self.in_memory[n] = memory;
        let before = std::mem::replace(&mut self.attached[n], attached);
        if let Some(at) = before.filter(|_| before != attached) {
            self.attachments.get_mut(&at).map(|all| all.remove(&n));
        }
        if let Some(at) = attached {
            self.attachments.entry(at).or_default().insert(n);
        }
    }

    /// The kernels that read a node's inputs.
    fn through(&self, n: usize) -> Reach {
        let node = &self.trace.nodes[n];
        match &node.op {
            // Nothing is read to compute what has no elements.
            _ if node.shape.numel() == 0 => Reach::Nothing,
            // Each element is read once for each window that it is in.
            Op::Unfold(windows) if windows.overlap() => Reach::Many,
            _ if self.in_memory[n] => Reach::One(n),
            _ => self.reach[n],
        }
    }

    /// Puts a node in memory. Returns all that are there now and were not before: what it is made of may have other users.
    pub fn force(&mut self, n: usize) -> Vec<usize> {
        self.forced[n] = true;
        let mut placed = Vec::new();
        let mut affected = BTreeSet::from([n]);
        while let Some(n) = affected.pop_last() {
            let before = (self.in_memory[n], self.through(n));
            self.decide(n);
            if self.in_memory[n] && !before.0 {
                placed.push(n);
            }
            if self.through(n) != before.1 {
                affected.extend(&self.trace.nodes[n].inputs);
            }
        }
        placed
    }

    /// The results that the kernel of `root` writes along with its own.
    pub fn attached_to(&self, root: usize) -> impl Iterator<Item = usize> + '_ {
        self.attachments.get(&root).into_iter().flatten().copied()
    }

    /// How a node is placed for the kernel of `root`.
    pub fn of_node(&self, n: usize, root: usize) -> Mark {
        Mark {
            read: self.in_memory[n] && n != root,
            attached: self.attached[n] == Some(root),
            in_place: self.in_place[n],
            light: self.light[n],
            packed: self.packed[n],
        }
    }

    /// Whether many products read it, a matrix that is transposed: each would turn it anew.
    fn is_turned_for_many(&self, n: usize) -> bool {
        let Op::Permute(order) = &self.trace.nodes[n].op else { return false };
        let product =
            |&&user: &&usize| matches!(self.trace.nodes[user].op, Op::Routine(Routine::Matmul));
        let turned = order.last().is_some_and(|&last| last + 1 != order.len());
        turned && self.users.of_node(n).iter().filter(product).count() > TURNS
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

    /// Whether a node costs no instruction: movement, leaves.
    pub fn is_free(&self, n: usize) -> bool {
        self.costs.free[n]
    }

    /// What is to be in memory for a routine's result: the last of what is computed from that, element by element, for
    /// one user after the other, if it is then reduced. A row program would do that in each of its passes.
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
            let near = |&i: &usize| i == last || self.in_memory[i] || self.light[i];
            if self.in_memory[next] || !local || !node.inputs.iter().all(near) {
                break;
            }
            last = next;
        }
        routine
    }

    /// The node whose value takes most loads, where that is more than one, of those that are not in memory.
    pub fn largest(&self, nodes: &[usize]) -> Option<usize> {
        let absent = nodes.iter().copied().filter(|&n| !self.in_memory[n]);
        let many = absent.filter(|&n| self.costs.leaves[n] >= 2);
        many.max_by_key(|&n| self.costs.leaves[n])
    }
}
