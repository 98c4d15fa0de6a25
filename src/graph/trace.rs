//! The structure of what is to be computed, taken from the graph.

use super::{Graph, NodeId};
use crate::dtype::DType;
use crate::error::Result;
use crate::op::Op;
use crate::shape::Shape;
use crate::sorted;
use rustc_hash::{FxHashSet, FxHasher};
use smallvec::SmallVec;
use std::hash::{Hash, Hasher};
use std::mem::discriminant;

/// One operation of a [`Trace`]; its inputs are earlier positions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TraceNode {
    pub op: Op,
    pub inputs: SmallVec<[usize; 3]>,
    pub shape: Shape,
    pub dtype: DType,
}

/// The structure of a computation, apart from any graph: operations in order, and which of them are results. Numbers
/// the user passed are not part of it, so two steps of a loop have equal traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trace {
    pub nodes: Vec<TraceNode>,
    pub outputs: Vec<usize>,
    /// Results, each with the data whose memory it may take: nothing needs the data when all was computed. No data is offered
    /// twice. The planner decides which offers it takes ([`Graph::donate`]).
    pub donated: Vec<(usize, usize)>,
    /// Parts of it are computed again rather than kept: its order is the one to compute it in.
    pub in_recorded_order: bool,
}

/// A trace with what it was taken from.
#[derive(Debug)]
pub struct Capture {
    pub trace: Trace,
    /// The graph's nodes behind the trace's sources, in order of appearance.
    pub sources: Vec<NodeId>,
    /// The bits behind the trace's scalars, in order of appearance.
    pub scalars: Vec<u32>,
    /// The graph's node behind each of the trace's.
    pub nodes: Vec<NodeId>,
}

/// Where nodes are in the trace that is being taken; what an earlier trace left there does not count.
#[derive(Debug, Default)]
pub(super) struct TracePositions {
    /// Which trace it is.
    current: u64,
    /// For each place in the arena: a trace, and where it is in that.
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
    /// A hash of what it is, whatever its sizes.
    fn kind(&self) -> u64 {
        let mut hasher = FxHasher::default();
        let TraceNode { op, shape, dtype, .. } = self;
        match op {
            // These say sizes.
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
    /// Appends an operation; its shape and type follow from its inputs.
    pub fn push(&mut self, op: Op, inputs: &[usize]) -> Result<usize> {
        let mut types: SmallVec<[_; 3]> = SmallVec::new();
        for &input in inputs {
            types.push((self.nodes[input].shape, self.nodes[input].dtype));
        }
        let (shape, dtype) = op.infer(&types)?;
        self.nodes.push(TraceNode { op, inputs: inputs.into(), shape, dtype });
        Ok(self.nodes.len() - 1)
    }

    /// A hash of all but the sizes, and of what it is planned with: of which operations there are, the ranks and types of what
    /// they give, and what kinds of results each uses. How many there are of a kind is a size, too: the same loop of more steps
    /// has the same structure.
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
        // In no order.
        let sum = all.into_iter().fold(0, u64::wrapping_add);
        let mut hasher = FxHasher::default();
        with.hash(&mut hasher);
        (sum, self.outputs.len(), self.donated.len()).hash(&mut hasher);
        hasher.finish()
    }

    /// Appends data or a number, which say their shape and type themselves.
    pub fn leaf(&mut self, op: Op, shape: Shape, dtype: DType) -> usize {
        self.nodes.push(TraceNode { op, inputs: SmallVec::new(), shape, dtype });
        self.nodes.len() - 1
    }
}

impl Graph {
    /// The structure of everything `outputs` need.
    pub fn trace(&mut self, outputs: &[NodeId]) -> Capture {
        let mut taken = Capture {
            trace: Trace::default(),
            sources: Vec::new(),
            scalars: Vec::new(),
            nodes: Vec::new(),
        };
        let mut places = std::mem::take(&mut self.places);
        places.begin(self.nodes.len());
        // Depth first with a stack of our own: a chain may be longer than the thread's stack.
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
                let (op, inputs) = if node.is_materialized {
                    (&Op::Source, &[][..])
                } else {
                    (&node.op, &node.inputs[..])
                };
                if let Some(&input) = inputs.get(next) {
                    stack.push((id, next + 1));
                    stack.push((self.computed_by(input), 0));
                    continue;
                }
                match op {
                    Op::Source => taken.sources.push(id),
                    Op::Scalar => taken.scalars.push(node.scalar),
                    _ => {}
                }
                places.at[id.index as usize] = (places.current, taken.nodes.len());
                taken.nodes.push(id);
                taken.trace.nodes.push(TraceNode {
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
        taken.trace.outputs = results.iter().filter_map(|&id| places.get(id)).collect();
        self.places = places;
        self.sort_by_recording(&mut taken);
        for (at, id) in taken.nodes.iter().enumerate().filter(|_| taken.trace.in_recorded_order) {
            self.places.at[id.index as usize].1 = at;
        }
        taken
    }

    /// Has a trace write what an earlier batch computed already and something still needs afterwards, unless it is cheap to
    /// compute: so nothing dear is computed more than twice.
    pub fn store_recomputed(&self, taken: &mut Capture, cheap: impl FnOnce(&Trace) -> Vec<bool>) {
        let repeated = |&id: &NodeId| self.node(id).was_computed && !self.node(id).is_materialized;
        if !taken.nodes.iter().any(repeated) {
            return;
        }
        let trace = &mut taken.trace;
        let cheap = cheap(trace);
        let mut written = vec![false; trace.nodes.len()];
        for &output in &trace.outputs {
            written[output] = true;
        }
        // Whether a user that is in the trace is to be computed from it later, too.
        let mut later = vec![false; trace.nodes.len()];
        let first = trace.outputs.len();
        for (n, id) in taken.nodes.iter().enumerate().rev() {
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

    /// Whether a node is needed when the trace that was taken last was run: a tensor holds it, or something that is no part
    /// of the trace is to be computed from it. An alias that waits for it stands for itself.
    pub(super) fn is_needed_later(&self, id: NodeId) -> bool {
        let node = self.node(id);
        let needs = |&index: &u32| {
            let (born, Some(user)) = &self.nodes[index as usize] else { return false };
            let id = NodeId { index, seq: *born };
            match user.is_materialized || !user.is_pending_use {
                true => false,
                false if user.alias.is_some() => self.is_needed_later(id),
                false => self.places.get(id).is_none(),
            }
        };
        node.handles > 0 || node.users.iter().any(needs)
    }

    /// Has a trace write all results of a shader that tensors hold, if it computes one of them: so the shader runs once.
    pub fn store_shader_outputs(&mut self, taken: &mut Capture) {
        let mut places = std::mem::take(&mut self.places);
        for n in 0..taken.nodes.len() {
            let Op::Shader(_) = taken.trace.nodes[n].op else { continue };
            for &index in &self.node(taken.nodes[n]).users {
                let id = NodeId { index, seq: self.nodes[index as usize].0 };
                let node = self.node(id);
                if node.is_materialized || node.handles == 0 {
                    continue;
                }
                let at = places.get(id).unwrap_or(taken.nodes.len());
                if at == taken.nodes.len() {
                    places.at[index as usize] = (places.current, at);
                    let (op, inputs) = (node.op.clone(), std::iter::once(n).collect());
                    let (shape, dtype) = (node.shape, node.dtype);
                    taken.nodes.push(id);
                    taken.trace.nodes.push(TraceNode { op, inputs, shape, dtype });
                }
                if !taken.trace.outputs.contains(&at) {
                    taken.trace.outputs.push(at);
                }
            }
        }
        self.places = places;
    }

    /// A batch computed what was taken.
    pub fn mark_computed(&mut self, taken: &Capture) {
        for &id in &taken.nodes {
            if let Some(node) = self.get_mut(id) {
                node.was_computed = true;
            }
        }
    }
}
