//! The graph: recorded operations, and the trace of those that a result needs.

mod alias;
mod arena;
mod check;
mod checkpoint;
mod donation;
mod gc;
mod pullback;
mod recording;
mod retire;
mod trace;
mod used_up;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::shape::Shape;
pub use checkpoint::Rematerialized;
pub use gc::Holder;
use gc::{GradReach, HistoryCut};
pub use pullback::Pullback;
pub use recording::{From, Recording, Segment};
use retire::{Retired, Retirement};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use trace::TracePositions;
pub use trace::{Capture, CapturePolicy, Recorded, Trace, TraceNode};
pub use used_up::{StaleValue, VariableId};

/// A recorded node. Ids of freed nodes are not valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId {
    index: u32,
    /// The sequence number: how many nodes were recorded before this one. Inputs have lower numbers than their users.
    pub seq: u64,
}

/// A gradient, and the source that gets its sum over all ranks.
#[derive(Clone, Copy, Debug)]
pub struct GradientSum {
    pub gradient: NodeId,
    pub sum: NodeId,
}

#[derive(Debug)]
struct Node {
    op: Op,
    /// The operands. Empty once a materialized node has dropped its history.
    inputs: Inputs,
    /// Arena indices of the nodes that have this node as an input, once for each occurrence.
    users: SmallVec<[u32; 4]>,
    shape: Shape,
    dtype: DType,
    /// The bits of the number, for `Op::Scalar`.
    scalar: u32,
    /// Whether the node has a value in memory: a source, or computed.
    is_materialized: bool,
    /// Whether the node was computed eagerly, before anything requested it. Such a node keeps its history as long as an
    /// uncomputed node would.
    is_eager: bool,
    /// Whether the user cut gradients off here.
    is_detached: bool,
    /// Whether the node is a placeholder for an input of a compiled program, or is computed from one. Such a node has no value
    /// outside the program.
    depends_on_placeholder: bool,
    /// Whether a variable has or had this value. A batch then stores it even if other nodes use it.
    is_variable_value: bool,
    /// Whether a batch computed the node, stored or not.
    was_computed: bool,
    /// Whether a batch stored the node although nothing requested its value.
    is_unrequested: bool,
    /// Whether the node keeps its history although no tensor needs it.
    retirement: Retirement,
    /// The number of tensors that hold the node.
    handles: u32,
    /// The number of `handles` that belong to compiled programs.
    programs: u32,
    /// The number of variables whose value this node is.
    variables: u32,
    /// The number of users that are still to be computed from this node.
    pending_uses: u32,
    /// Whether this node currently counts towards `pending_uses` of its inputs.
    is_pending_use: bool,
    /// The place where gradients through this node end, because history was dropped.
    cut: HistoryCut,
    /// The held nodes that gradients reach from here, this node included. Users derive their own `reach` from it.
    reach: GradReach,
    /// `newest_held` of the inputs alone.
    inputs_reach: u64,
    /// Whether the node is queued in `Graph::dirty`.
    is_dirty: bool,
    /// The custom gradient, for `Op::Shader`.
    pullback: Option<Arc<Pullback>>,
    /// The nodes that a checkpoint is rematerialized from when a gradient needs it.
    checkpoint: Option<Arc<[NodeId]>>,
    /// Whether the node is a copy that a checkpoint recorded for a gradient.
    is_rematerialized: bool,
    /// Whether a gradient that passes the node is summed over all ranks there.
    is_summed: bool,
    /// The variable's previous value, whose memory this node may take.
    replaces: Option<NodeId>,
    /// The name of the operation that computes the shared value, for an alias ([`Graph::alias`]).
    alias: Option<&'static str>,
    /// The variable that has or had this value ([`Graph::set_value_of`]).
    value_of: Option<VariableId>,
    /// Whether the variable was dropped while it had this value.
    outlived_variable: bool,
    /// The sequence number at which the variable was assigned. The value may have moved to another node since.
    value_since: u64,
    /// The variables whose values this node was computed from, as a superset ([`used_up`]).
    reads: used_up::VariableSet,
    /// Like `reads`, followed through assignments to other variables.
    origins: used_up::VariableSet,
    /// Whether an optimizer step consumed the node, so that gradients no longer pass.
    is_used_up: bool,
    /// Whether the optimizer step in progress will consume the node.
    is_spent: bool,
    /// The operations that compute the node, for a result of a compiled program.
    recording: Option<Arc<Recording>>,
}

/// Operands, stored inline up to three.
type Inputs = SmallVec<[NodeId; 3]>;

impl Node {
    fn is_needed(&self) -> bool {
        self.handles > 0 || self.pending_uses > 0
    }

    /// Whether a tensor that does not belong to a compiled program holds the node.
    fn is_held(&self) -> bool {
        self.handles > self.programs
    }

    /// Whether gradients pass through the node.
    fn is_passed(&self) -> bool {
        self.dtype.is_float() && !self.is_detached && !self.is_used_up
    }

    /// Whether the node is a shader call, which has no value itself.
    fn is_shader(&self) -> bool {
        matches!(self.op, Op::Shader(_))
    }

    /// Whether the node is uncomputed, or was computed eagerly.
    fn is_uncomputed(&self) -> bool {
        !self.is_materialized || self.is_eager
    }
}

/// The graph: every node that a tensor holds, and the nodes that these are computed from. Nodes are in an arena, so that
/// chains of any length are freed without recursion. `gc.rs` explains when nodes are freed and when history is dropped.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<(u64, Option<Node>)>,
    /// Indices to reuse, the lowest first, so that the end of the arena can be freed. Some entries may be out of date.
    free_slots: BinaryHeap<Reverse<u32>>,
    /// The number of nodes.
    live: usize,
    /// Nodes recorded so far.
    pub count: u64,
    /// Operations recorded since the last call of `sinks`. Some may have been freed since.
    recent_operations: Vec<NodeId>,
    /// Values of variables. Some may have been computed or freed since.
    variable_values: Vec<NodeId>,
    /// Gradients to sum over all ranks, in the order in which they were recorded. Each node has a handle.
    pub sums: Vec<GradientSum>,
    positions: TracePositions,
    /// Nodes that the collection in progress must update at once. Empty between two collections.
    pending: Vec<NodeId>,
    /// Nodes whose inputs changed their `reach`, the oldest first: sequence number and arena index.
    dirty: BinaryHeap<Reverse<(u64, u32)>>,
    /// Freed sources whose buffers have not been returned to the pool yet.
    freed_sources: Vec<NodeId>,
    /// Whether dropping history is paused, because released tensors may be held again ([`Graph::pause_history_drops`]).
    is_frozen: bool,
    /// Nodes whose history is dropped once the pause ends.
    deferred: Vec<NodeId>,
    /// Computed values that keep their history although no tensor needs them.
    retired: Retired,
    /// The number of batches so far.
    batches: u64,
    /// The value of `count` when the graph was last validated.
    checked_at: u64,
}

/// Takes the place of an operation's name where history ends at a loss that an optimizer step consumed.
pub const USED_UP: &str = "step";

/// The name in [`HistoryCut::op`] for a value that a variable had.
const VARIABLE_VALUE: &str = "variable";

/// Returns the error for a gradient that would pass a freed result of this operation, or a loss that an optimizer step
/// consumed.
pub fn lost(name: &str) -> Error {
    Error::state(match name {
        USED_UP => "grad: the loss must not be used up, got one that a step of an optimizer used; take gradients before \
            the step, compute the loss again, or `detach` it"
            .into(),
        VARIABLE_VALUE => "grad: an earlier value of a variable must be held, got one that was dropped after an assignment; \
            hold it, or `detach` it"
            .into(),
        "" => "grad: tensors that it was computed from must be held, got one that was dropped; hold it, or `detach` it"
            .into(),
        _ => format!(
            "{name}: a result of {name} must be held, got one that was dropped after it was computed; hold it, or `detach` it"
        ),
    })
}

impl Graph {
    /// Creates a source: data in a buffer. The caller holds one handle, as for every node made here.
    pub fn source(&mut self, shape: Shape, dtype: DType) -> NodeId {
        self.insert(Op::Source, Inputs::new(), shape, dtype, 0)
    }

    /// Records a placeholder: data that a compiled program gets when it runs.
    pub fn placeholder(&mut self, shape: Shape, dtype: DType) -> NodeId {
        let id = self.source(shape, dtype);
        self.node_mut(id).depends_on_placeholder = true;
        id
    }

    /// Whether the node is a placeholder, or is computed from one.
    pub fn depends_on_placeholder(&self, id: NodeId) -> bool {
        self.node(id).depends_on_placeholder
    }

    /// Makes a gradient that passes the node continue with its sum over all ranks.
    pub fn set_summed(&mut self, id: NodeId) {
        self.node_mut(id).is_summed = true;
    }

    /// Whether a gradient that passes the node continues with its sum over all ranks.
    pub fn is_summed(&self, id: NodeId) -> bool {
        self.node(id).is_summed
    }

    /// Records a number that the user passed, for operations on tensors of `dtype`.
    pub fn scalar(&mut self, dtype: DType, bits: u32) -> NodeId {
        self.insert(Op::Scalar, Inputs::new(), Shape::SCALAR, dtype, bits)
    }

    /// Records an operation, and infers its shape and type.
    ///
    /// # Errors
    /// The errors of [`Op::infer`]; `Limit` if the graph is full.
    pub fn record(&mut self, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        self.check_room(op.name())?;
        let mut types: SmallVec<[_; 3]> = SmallVec::new();
        for &input in inputs {
            types.push((self.node(input).shape, self.node(input).dtype));
        }
        let (shape, dtype) = op.infer(&types)?;
        Ok(self.insert(op, inputs.into(), shape, dtype, 0))
    }

    /// Stops gradients at this node.
    pub fn detach(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        (node.is_detached, node.cut) = (true, HistoryCut::default());
        self.notify_changed(&[id]);
    }

    /// Returns the operation of a node, and its operands if gradients pass to them.
    pub fn history_of(&self, id: NodeId) -> (&Op, &[NodeId]) {
        let node = self.node(id);
        (&node.op, if node.is_passed() { &node.inputs } else { &[] })
    }

    /// Returns the operation whose history was dropped, if that hides whether `id` was computed from the node with sequence
    /// number `seq`.
    pub fn lost(&self, id: NodeId, seq: u64) -> Option<&'static str> {
        let node = self.node(id);
        ((node.inputs.is_empty() || node.is_used_up) && seq < node.cut.before)
            .then_some(node.cut.op)
    }

    /// Returns the bits of a number that the user passed. `None` for all other nodes.
    pub fn number(&self, id: NodeId) -> Option<u32> {
        let node = self.node(id);
        matches!(node.op, Op::Scalar).then_some(node.scalar)
    }

    /// Returns the shape of a node's value.
    pub fn shape(&self, id: NodeId) -> Shape {
        self.node(id).shape
    }

    /// Returns the type of a node's value.
    pub fn dtype(&self, id: NodeId) -> DType {
        self.node(id).dtype
    }

    /// Whether the node has been freed.
    pub fn is_freed(&self, id: NodeId) -> bool {
        self.get(id).is_none()
    }

    /// Whether the node has a value in memory.
    pub fn is_materialized(&self, id: NodeId) -> bool {
        self.node(id).is_materialized
    }

    /// Adds a handle to the node.
    pub fn retain(&mut self, id: NodeId) {
        self.retain_all(&[id]);
    }

    /// Adds a handle to each of these nodes.
    pub fn retain_all(&mut self, ids: &[NodeId]) {
        for &id in ids {
            self.node_mut(id).handles += 1;
        }
        self.pending.extend_from_slice(ids);
        // Propagate at once. A node with outdated numbers could drop history that is now reachable.
        self.collect_all();
    }

    /// Releases one handle of the node. If nothing needs the node, it is freed and its id becomes invalid.
    pub fn release(&mut self, id: NodeId) {
        self.node_mut(id).handles -= 1;
        self.notify_changed(&[id]);
    }

    /// Marks the node as computed.
    pub fn mark_materialized(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        (node.is_materialized, node.is_eager) = (true, false);
        self.notify_changed(&[id]);
    }

    /// Marks the node as computed eagerly, before anything requested it.
    pub fn mark_eager(&mut self, id: NodeId) {
        self.node_mut(id).is_eager = true;
    }

    /// Whether the node was computed eagerly and nothing has requested it yet.
    pub fn is_eager(&self, id: NodeId) -> bool {
        self.node(id).is_eager
    }

    /// Returns the approximate bytes of all nodes.
    #[cfg(feature = "js")]
    pub fn bytes(&self) -> u64 {
        (self.live * size_of::<Node>()) as u64
    }

    /// Returns the number of live nodes.
    pub fn live(&self) -> usize {
        self.live
    }

    fn insert(
        &mut self,
        op: Op,
        inputs: Inputs,
        shape: Shape,
        dtype: DType,
        scalar: u32,
    ) -> NodeId {
        let data = matches!(op, Op::Source);
        let (reads, origins) = self.spans_of(&inputs);
        let mut node = Node {
            op,
            inputs: Inputs::new(),
            users: SmallVec::new(),
            shape,
            dtype,
            scalar,
            is_materialized: data,
            is_eager: false,
            is_detached: false,
            depends_on_placeholder: false,
            is_variable_value: false,
            was_computed: false,
            is_unrequested: false,
            retirement: Retirement::Active,
            handles: 1,
            programs: 0,
            variables: 0,
            pending_uses: 0,
            is_pending_use: !data,
            cut: HistoryCut::default(),
            reach: GradReach::default(),
            inputs_reach: 0,
            is_dirty: false,
            pullback: None,
            checkpoint: None,
            is_rematerialized: false,
            is_summed: false,
            replaces: None,
            alias: None,
            value_of: None,
            outlived_variable: false,
            value_since: self.count,
            reads,
            origins,
            is_used_up: false,
            is_spent: false,
            recording: None,
        };
        let seq = self.count;
        self.count += 1;
        let index = self.allocate();
        self.live += 1;
        for &id in &inputs {
            let input = self.node_mut(id);
            input.users.push(index);
            input.pending_uses += u32::from(!data);
            node.depends_on_placeholder |= input.depends_on_placeholder;
        }
        node.inputs = inputs;
        let id = NodeId { index, seq };
        node.reach = self.reach_of_inputs(&node);
        node.inputs_reach = node.reach.newest_held;
        if dtype.is_float() {
            node.reach.newest_held = self.count;
        }
        let asked = !data && !matches!(node.op, Op::Scalar);
        self.nodes[index as usize] = (seq, Some(node));
        if asked {
            self.recent_operations.push(id);
            if self.recent_operations.len() > Graph::MAX_STALE_ENTRIES + 2 * self.live {
                let mut recent = std::mem::take(&mut self.recent_operations);
                recent.retain(|&id| self.get(id).is_some());
                self.recent_operations = recent;
            }
        }
        id
    }
}
