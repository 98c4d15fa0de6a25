//! Traces: the structure of a computation, captured from the graph. Also the history of a node, for error reports and drawings.

use super::{Graph, Node, NodeId};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::{Const, Op};
use crate::shape::Shape;
use crate::sorted;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use smallvec::SmallVec;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;

/// An operation of a [`Trace`]. Its inputs are earlier positions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceNode {
    pub op: Op,
    pub inputs: SmallVec<[usize; 3]>,
    pub shape: Shape,
    pub dtype: DType,
}

/// The structure of a computation, apart from any graph: operations in order, and the positions of the results. Numbers that
/// the user passed are not part of a trace. Two steps of a loop therefore have equal traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trace {
    pub nodes: Vec<TraceNode>,
    pub outputs: Vec<usize>,
    /// Results, each with the data whose memory it may take, because nothing needs the data after the batch. No data is
    /// offered twice. The planner decides which offers it takes (`Graph::donate`).
    pub donated: Vec<(usize, usize)>,
    /// Whether the trace has rematerialized nodes. Its order is then the order to compute it in.
    pub in_recorded_order: bool,
    /// The number of results, from the first, that are read while the others are computed.
    pub stages: usize,
}

/// A trace, with the nodes of the graph that it was captured from.
#[derive(Debug)]
pub struct Capture {
    pub trace: Trace,
    /// The graph's nodes behind the trace's sources, in order of appearance.
    pub sources: Vec<NodeId>,
    /// The bits behind the trace's scalars, in order of appearance.
    pub scalars: Vec<u32>,
    /// The node of the graph for each node of the trace.
    pub nodes: Vec<NodeId>,
    /// The nodes that the batch stores although nothing requested them.
    pub unrequested: Vec<NodeId>,
}

/// Options of [`Graph::capture`].
pub struct CapturePolicy<'a> {
    /// A function that returns for each node of a trace whether computing the node again costs no more than reading it from
    /// memory.
    pub is_cheap: fn(&Trace) -> Vec<bool>,
    /// Whether a node's memory is unshared, so that it may be overwritten. If this is `None`, no memory is offered.
    pub is_own: Option<&'a dyn Fn(NodeId) -> bool>,
}

/// The position of each node in the newest trace. Entries that an earlier trace left are ignored.
#[derive(Debug, Default)]
pub(super) struct TracePositions {
    /// The number of the newest trace.
    current: u64,
    /// The number of a trace and the position in that trace, for each index of the arena.
    at: Vec<(u64, usize)>,
}

impl TracePositions {
    fn begin(&mut self, nodes: usize) {
        self.current += 1;
        self.at.resize(nodes, (0, 0));
    }

    pub(super) fn get(&self, id: NodeId) -> Option<usize> {
        let &(trace, at) = self.at.get(id.index as usize)?;
        (trace == self.current).then_some(at)
    }
}

impl TraceNode {
    /// Returns a hash of the node without its sizes.
    fn kind(&self) -> u64 {
        let mut hasher = FxHasher::default();
        let TraceNode { op, shape, dtype, .. } = self;
        match op {
            // The fields of these operations are sizes.
            Op::Fill { .. } | Op::Iota { .. } | Op::Reshape(_) | Op::Expand(_) => {
                discriminant(op).hash(&mut hasher);
            }
            Op::Slice(_) | Op::Unfold(_) | Op::Pad(_) => discriminant(op).hash(&mut hasher),
            Op::Order { descending, .. } => (discriminant(op), descending).hash(&mut hasher),
            Op::Shader(call) => call.shader.hash(&mut hasher),
            Op::Output(_, n) => (discriminant(op), n).hash(&mut hasher),
            _ => op.hash(&mut hasher),
        }
        (shape.rank(), dtype).hash(&mut hasher);
        hasher.finish()
    }
}

impl Trace {
    /// Appends an operation. Its shape and type follow from its inputs.
    pub fn push(&mut self, op: Op, inputs: &[usize]) -> Result<usize> {
        let mut types: SmallVec<[_; 3]> = SmallVec::new();
        for &input in inputs {
            types.push((self.nodes[input].shape, self.nodes[input].dtype));
        }
        let (shape, dtype) = op.infer(&types)?;
        self.nodes.push(TraceNode { op, inputs: inputs.into(), shape, dtype });
        Ok(self.nodes.len() - 1)
    }

    /// Returns a hash of the trace without its sizes, combined with `with`. It covers the operations, the ranks and types of
    /// their results, and the kinds of their inputs. The number of nodes of a kind also counts as a size, so a loop of more
    /// steps has the same structure.
    pub fn structure(&self, with: &impl Hash) -> u64 {
        let mut kinds: Vec<u64> = Vec::with_capacity(self.nodes.len());
        let (mut all, mut used) = (FxHashSet::default(), Vec::new());
        for node in &self.nodes {
            let kind = node.kind();
            used.clear();
            used.extend(node.inputs.iter().map(|&input| kinds[input]));
            sorted::sort(&mut used);
            used.dedup();
            let mut hasher = FxHasher::default();
            (kind, &used).hash(&mut hasher);
            all.insert(hasher.finish());
            kinds.push(kind);
        }
        // The sum does not depend on the order.
        let sum = all.into_iter().fold(0, u64::wrapping_add);
        let mut hasher = FxHasher::default();
        with.hash(&mut hasher);
        (sum, self.outputs.len(), self.donated.len()).hash(&mut hasher);
        hasher.finish()
    }

    /// Appends a source or a scalar, whose shape and type do not follow from inputs.
    pub fn leaf(&mut self, op: Op, shape: Shape, dtype: DType) -> usize {
        self.nodes.push(TraceNode { op, inputs: SmallVec::new(), shape, dtype });
        self.nodes.len() - 1
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, node) in self.nodes.iter().enumerate() {
            let name = match node.op {
                Op::Source => "data",
                Op::Scalar => "number",
                ref op => op.name(),
            };
            write!(f, "%{n} = {name}")?;
            for (i, input) in node.inputs.iter().enumerate() {
                write!(f, "{}%{input}", if i == 0 { "(" } else { ", " })?;
            }
            let close = if node.inputs.is_empty() { "" } else { ")" };
            writeln!(f, "{close} {} {}", node.dtype, node.shape)?;
        }
        write!(f, "results:")?;
        self.outputs.iter().try_for_each(|output| write!(f, " %{output}"))
    }
}

/// A node of a history.
#[derive(Clone, Debug)]
pub struct Recorded {
    pub id: NodeId,
    /// The operation, or `data`, `number` or `program`.
    pub name: &'static str,
    /// The positions of the operands in the history.
    pub inputs: Vec<usize>,
    pub shape: Shape,
    pub dtype: DType,
    /// The value, for a number.
    pub number: Option<f64>,
    /// Whether the node has a value. A custom shader has none, but its outputs do.
    pub has_value: bool,
}

impl Graph {
    /// Marks the node as the value of a variable. Batches store it even if other nodes use it, as long as a tensor holds it.
    pub fn hold_for_variable(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        node.is_variable_value = true;
        node.variables += 1;
        self.variable_values.push(id);
        if self.variable_values.len() > Graph::MAX_STALE_ENTRIES + 2 * self.live {
            self.uncomputed_variable_values();
        }
    }

    /// Returns the uncomputed values of variables, in recorded order.
    pub fn uncomputed_variable_values(&mut self) -> Vec<NodeId> {
        let mut kept = std::mem::take(&mut self.variable_values);
        kept.retain(|&id| {
            self.get(id).is_some_and(|node| node.handles > 0 && node.is_uncomputed())
        });
        sorted::by_key(&mut kept, |id| id.seq);
        kept.dedup();
        self.variable_values.clone_from(&kept);
        kept
    }

    /// Returns the nodes with sequence numbers from `since` on that are needed and not computed, in recorded order.
    pub fn uncomputed_since(&self, since: u64) -> Vec<NodeId> {
        let mut waiting = Vec::new();
        for id in self.recent_operations.iter().filter(|id| id.seq >= since) {
            if self
                .get(*id)
                .is_some_and(|node| node.is_needed() && !node.is_materialized && !node.is_shader())
            {
                waiting.push(*id);
            }
        }
        waiting
    }

    /// Returns the nodes to compute in a submission. These are the values of variables, and nodes recorded since the last call
    /// that a tensor of the app holds and no node uses.
    pub fn sinks(&mut self) -> Vec<NodeId> {
        let mut sinks = std::mem::take(&mut self.recent_operations);
        sinks.retain(|&id| {
            // A variable's value is in `variable_values`, or is a part of a variable that is.
            let is_sink = |node: &Node| {
                node.is_held()
                    && node.pending_uses == 0
                    && node.is_uncomputed()
                    && node.value_of.is_none()
            };
            self.get(id).is_some_and(is_sink)
        });
        sinks.extend(self.uncomputed_variable_values());
        // In recorded order, whatever the arena indices, so that the same step has the same trace.
        sorted::by_key(&mut sinks, |sink| sink.seq);
        sinks.dedup();
        sinks
    }

    /// Captures one batch that computes `nodes`. The order of the steps matters:
    /// 1. The trace is the structure of everything that `nodes` need.
    /// 2. Held results of a shader that runs anyway become outputs. They count as stored for the next steps.
    /// 3. Values that would otherwise be computed a third time become outputs.
    /// 4. Memory of old values of variables is offered to outputs. A node that is now an output no longer needs that memory.
    ///
    /// Call [`Graph::mark_computed`] when the batch has run.
    pub fn capture(&mut self, nodes: &[NodeId], policy: &CapturePolicy<'_>) -> Capture {
        let mut capture = self.trace(nodes);
        let requested = capture.trace.outputs.len();
        self.store_shader_outputs(&mut capture);
        self.store_recomputed(&mut capture, policy.is_cheap);
        let unrequested = capture.trace.outputs[requested..].iter();
        capture.unrequested = unrequested.map(|&output| capture.nodes[output]).collect();
        if let Some(is_own) = policy.is_own {
            self.donate(&mut capture, is_own);
        }
        capture
    }

    /// Traces everything that `outputs` need.
    pub fn trace(&mut self, outputs: &[NodeId]) -> Capture {
        let mut capture = Capture {
            trace: Trace::default(),
            sources: Vec::new(),
            scalars: Vec::new(),
            nodes: Vec::new(),
            unrequested: Vec::new(),
        };
        let mut places = std::mem::take(&mut self.positions);
        places.begin(self.nodes.len());
        // Depth first with an explicit stack, because a chain may be longer than the thread's stack.
        let mut stack: Vec<(NodeId, usize)> = Vec::new();
        let mut results: Vec<NodeId> = Vec::with_capacity(outputs.len());
        let mut known = FxHashSet::default();
        for &output in outputs {
            let output = self.computed_by(output);
            if known.insert(output) {
                results.push(output);
            }
        }
        for &output in &results {
            stack.push((output, 0));
            while let Some((id, next)) = stack.pop() {
                if places.get(id).is_some() {
                    continue;
                }
                let node = self.node(id);
                let zeros;
                let (op, inputs) = match &node.op {
                    _ if node.is_materialized => (&Op::Source, &[][..]),
                    Op::DerivativeLimit { .. } => {
                        let value = Const { dtype: node.dtype, bits: node.dtype.bits(0.0) };
                        zeros = Op::Fill { shape: node.shape, value };
                        (&zeros, &[][..])
                    }
                    op => (op, &node.inputs[..]),
                };
                if let Some(&input) = inputs.get(next) {
                    stack.push((id, next + 1));
                    stack.push((self.computed_by(input), 0));
                    continue;
                }
                match op {
                    Op::Source => capture.sources.push(id),
                    Op::Scalar => capture.scalars.push(node.scalar),
                    _ => {}
                }
                places.at[id.index as usize] = (places.current, capture.nodes.len());
                capture.nodes.push(id);
                capture.trace.nodes.push(TraceNode {
                    op: op.clone(),
                    inputs: inputs
                        .iter()
                        .filter_map(|&n| places.get(self.computed_by(n)))
                        .collect(),
                    shape: node.shape,
                    dtype: node.dtype,
                });
            }
        }
        capture.trace.outputs = results.iter().filter_map(|&id| places.get(id)).collect();
        self.positions = places;
        self.sort_by_recording(&mut capture);
        for (at, id) in capture.nodes.iter().enumerate().filter(|_| capture.trace.in_recorded_order)
        {
            self.positions.at[id.index as usize].1 = at;
        }
        capture
    }

    /// Adds intermediate values to the outputs if an earlier batch already computed them and something needs them after this
    /// batch. Cheap values are excluded. So nothing expensive is computed more than twice.
    fn store_recomputed(&self, capture: &mut Capture, cheap: impl FnOnce(&Trace) -> Vec<bool>) {
        let repeated = |&id: &NodeId| self.node(id).was_computed && !self.node(id).is_materialized;
        if !capture.nodes.iter().any(repeated) {
            return;
        }
        let trace = &mut capture.trace;
        let cheap = cheap(trace);
        let mut written = vec![false; trace.nodes.len()];
        for &output in &trace.outputs {
            written[output] = true;
        }
        // Whether a user in the trace is recomputed from this node later.
        let mut later = vec![false; trace.nodes.len()];
        let first = trace.outputs.len();
        for (n, id) in capture.nodes.iter().enumerate().rev() {
            let node = self.node(*id);
            let needed = later[n] || self.is_needed_later(*id);
            if needed && node.was_computed && !written[n] && !node.is_materialized && !cheap[n] {
                written[n] = true;
                trace.outputs.push(n);
            }
            for &input in &trace.nodes[n].inputs {
                later[input] |= needed && !written[n];
            }
        }
        trace.outputs[first..].reverse();
    }

    /// Whether a node is needed after the newest trace has run. Either a tensor holds it, or a node outside the trace is to be
    /// computed from it. An uncomputed alias of the node counts if it is needed itself.
    pub(super) fn is_needed_later(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let needs = |&index: &u32| {
            let (seq, Some(user)) = &self.nodes[index as usize] else { return false };
            let id = NodeId { index, seq: *seq };
            match user.is_materialized || !user.is_pending_use {
                true => false,
                false if user.alias.is_some() => self.is_needed_later(id),
                false => self.positions.get(id).is_none(),
            }
        };
        node.handles > 0 || node.users.iter().any(needs)
    }

    /// Adds all held results of a shader to the outputs if the trace computes one of them, so that the shader runs once.
    fn store_shader_outputs(&mut self, capture: &mut Capture) {
        let mut places = std::mem::take(&mut self.positions);
        for n in 0..capture.nodes.len() {
            let Op::Shader(_) = capture.trace.nodes[n].op else { continue };
            for &index in &self.node(capture.nodes[n]).users {
                let id = NodeId { index, seq: self.nodes[index as usize].0 };
                let node = self.node(id);
                if node.is_materialized || node.handles == 0 {
                    continue;
                }
                let at = places.get(id).unwrap_or(capture.nodes.len());
                if at == capture.nodes.len() {
                    places.at[index as usize] = (places.current, at);
                    let (op, inputs) = (node.op.clone(), std::iter::once(n).collect());
                    let (shape, dtype) = (node.shape, node.dtype);
                    capture.nodes.push(id);
                    capture.trace.nodes.push(TraceNode { op, inputs, shape, dtype });
                }
                if !capture.trace.outputs.contains(&at) {
                    capture.trace.outputs.push(at);
                }
            }
        }
        self.positions = places;
    }

    /// Counts a batch, whether it succeeded or failed.
    pub fn count_batch(&mut self) {
        self.batches += 1;
    }

    /// Marks the captured nodes as computed by a batch.
    pub fn mark_computed(&mut self, capture: &Capture) {
        for &id in &capture.nodes {
            if let Some(node) = self.get_mut(id) {
                node.was_computed = true;
            }
        }
        for &id in &capture.unrequested {
            if let Some(node) = self.get_mut(id) {
                node.is_unrequested = true;
            }
        }
    }

    /// Returns the history of a node: everything it was computed from, operands first, without aliases. `None` if the history
    /// has more than `most` nodes. Views of data among `leaves` count as data, because parameters of an optimizer are parts of
    /// a flat variable.
    pub fn history(
        &self,
        of: NodeId,
        most: usize,
        leaves: &FxHashSet<NodeId>,
    ) -> Option<Vec<Recorded>> {
        let mut history: Vec<Recorded> = Vec::new();
        let mut places: FxHashMap<NodeId, usize> = FxHashMap::default();
        // With an explicit stack, because a chain may be longer than the thread's stack.
        let mut stack = vec![(of, 0)];
        let original = |mut id: NodeId| loop {
            let node = self.node(id);
            match (node.alias.is_some() && !leaves.contains(&id), &node.inputs[..]) {
                (true, &[input, ..]) => id = input,
                _ => return id,
            }
        };
        while let Some((id, next)) = stack.pop() {
            let id = original(id);
            if places.contains_key(&id) {
                continue;
            }
            let node = self.node(id);
            let leaf = leaves.contains(&id) && self.is_view_of_data(id);
            let inputs = if leaf { &[][..] } else { &node.inputs[..] };
            if let Some(&input) = inputs.get(next) {
                stack.push((id, next + 1));
                stack.push((input, 0));
                // Every entry is either visited or on the stack.
                if stack.len() > most {
                    return None;
                }
                continue;
            }
            if history.len() == most {
                return None;
            }
            let name = match &node.op {
                Op::Source if inputs.is_empty() => "data",
                Op::Source => "program",
                Op::Scalar => "number",
                _ if leaf => "data",
                // The node was computed, and its history was dropped.
                op if inputs.is_empty() && only_moves(op) => "data",
                _ => self.operation_name(id),
            };
            let number = match &node.op {
                Op::Scalar => Some(node.dtype.number(node.scalar)),
                Op::Fill { value, .. } => Some(value.dtype.number(value.bits)),
                _ => None,
            };
            places.insert(id, history.len());
            history.push(Recorded {
                id,
                name,
                inputs: inputs.iter().map(|&input| places[&original(input)]).collect(),
                shape: node.shape,
                dtype: node.dtype,
                number,
                has_value: !node.is_shader() && (node.op != Op::Source || node.is_materialized),
            });
        }
        Some(history)
    }

    /// Whether the node is data, or a reshaped, sliced or permuted view of data.
    fn is_view_of_data(&self, mut id: NodeId) -> bool {
        loop {
            let node = self.node(id);
            match (&node.op, &node.inputs[..]) {
                (_, []) => return true,
                (Op::Reshape(_) | Op::Slice(_) | Op::Permute(_), &[input, ..]) => id = input,
                _ => return false,
            }
        }
    }
}

/// Whether an operation only moves elements.
fn only_moves(op: &Op) -> bool {
    matches!(op, Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) | Op::Concat { .. })
}
