//! What was asked: recorded operations waiting to be run, and the trace of those that a result needs.

mod alias;
mod arena;
mod check;
mod checkpoint;
mod donation;
mod history;
mod holders;
mod past;
mod pending;
mod pullback;
mod recording;
mod settling;
mod show;
mod trace;
mod used_up;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::shape::Shape;
pub use checkpoint::Rematerialized;
pub use history::Recorded;
pub use holders::Holder;
use past::{GradReach, HistoryCut};
pub use pullback::Pullback;
pub use recording::{From, Recording, Segment};
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use trace::TracePositions;
pub use trace::{Capture, Trace, TraceNode};
pub use used_up::{StaleValue, VariableId};

/// A recorded node. Ids of freed nodes are not valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId {
    index: u32,
    /// How many nodes were recorded before: what a node is made of was born before it.
    pub seq: u64,
}

#[derive(Debug)]
struct Node {
    op: Op,
    /// What it is made of: all of it, until it is data whose past is forgotten.
    inputs: Inputs,
    /// Where the nodes are that have it as an input, once for each time.
    users: SmallVec<[u32; 4]>,
    shape: Shape,
    dtype: DType,
    /// The number's bits, for `Op::Scalar`.
    scalar: u32,
    /// It has a value: a source, or computed.
    is_materialized: bool,
    /// It was computed before anything asked for it: it forgets its past no sooner than one that is not computed.
    is_eager: bool,
    /// Gradients do not pass.
    is_detached: bool,
    /// It stands for a program's input, or is made of what does: it has no value outside of that program.
    depends_on_placeholder: bool,
    /// A variable's value: a result, whatever else it is used for.
    is_variable_value: bool,
    /// A batch computed it on the way to others, and did not write it.
    was_computed: bool,
    /// Tensors that hold it, and of these compiled programs' own.
    handles: u32,
    programs: u32,
    /// Variables whose value it is.
    variables: u32,
    /// Users that are to be computed from it.
    pending_uses: u32,
    /// It is one of those to its inputs.
    is_pending_use: bool,
    /// What gradients do not get to any more, because its past is forgotten.
    cut: HistoryCut,
    /// What its users know of it.
    reach: GradReach,
    /// How far its inputs reach.
    inputs_reach: u64,
    /// It is among `Graph::stale`.
    is_dirty: bool,
    /// How gradients pass it, for `Op::Shader`.
    pullback: Option<Arc<Pullback>>,
    /// Gradients pass it by recording it again, out of these.
    checkpoint: Option<Arc<[NodeId]>>,
    /// It was recorded again.
    is_rematerialized: bool,
    /// The value that a variable had before it, whose memory it may take.
    replaces: Option<NodeId>,
    /// It has the value of its input, in the same memory ([`Graph::alias`]): the operation that computes that.
    alias: Option<&'static str>,
    /// The variable that it is a value of, if it is one: [`Graph::set_value_of`].
    value_of: Option<VariableId>,
    /// How many nodes were recorded before the variable was assigned: the value is as old as that, wherever it lies now.
    value_since: u64,
    /// A span of variables that holds those whose values it was computed from ([`used_up`]).
    reads: used_up::Span,
    /// The same through what was assigned to other variables.
    origins: used_up::Span,
    /// A step of an optimizer used it up: gradients do not pass any more.
    is_used_up: bool,
    /// A step that is being taken will have used it up.
    is_spent: bool,
    /// It is the result of a program that recorded this of its inputs.
    recording: Option<Arc<Recording>>,
}

/// Few enough to need no memory of their own.
type Inputs = SmallVec<[NodeId; 3]>;

impl Node {
    fn is_needed(&self) -> bool {
        self.handles > 0 || self.pending_uses > 0
    }

    /// A tensor holds it that is not a compiled program's own.
    fn is_held(&self) -> bool {
        self.handles > self.programs
    }

    /// Gradients pass it.
    fn is_passed(&self) -> bool {
        self.dtype.is_float() && !self.is_detached && !self.is_used_up
    }

    /// It has no value itself.
    fn is_shader(&self) -> bool {
        matches!(self.op, Op::Shader(_))
    }

    /// It is to be computed, or was before anything asked for it.
    fn is_uncomputed(&self) -> bool {
        !self.is_materialized || self.is_eager
    }
}

/// All nodes that a tensor holds, and what these are made of: an arena, so that chains of any length are freed without
/// recursion.
///
/// Data remembers how it was made, with all that its gradient needs, while it is needed itself and gradients reach
/// something else that a tensor holds. What it then forgets is cut: no gradient gets to what was held there. What is made
/// of that holds a past only for what is younger than the cut, so no loop holds more than a round of its past.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<(u64, Option<Node>)>,
    /// Places to use again, the lowest first, so that the end of the arena can be given back. Some may be in use, or gone.
    free_slots: BinaryHeap<Reverse<u32>>,
    live: usize,
    /// Nodes recorded so far.
    pub count: u64,
    /// Operations recorded since `sinks` was asked last, and perhaps gone since.
    recent_operations: Vec<NodeId>,
    /// Values of variables, and perhaps computed or gone since.
    variable_values: Vec<NodeId>,
    places: TracePositions,
    /// What `settle` has to look at at once; empty between two calls.
    pending: Vec<NodeId>,
    /// Nodes whose inputs know another past than they do, the oldest first: by how many were born before, and place.
    dirty: BinaryHeap<Reverse<(u64, u32)>>,
    /// Sources that nothing needs any more, and whose buffers nobody has taken back yet.
    freed_sources: Vec<NodeId>,
    /// No history is forgotten, because what was let go of may come back ([`Graph::freeze`]).
    is_frozen: bool,
    /// Nodes that would have forgotten theirs meanwhile.
    deferred: Vec<NodeId>,
    /// How many nodes were recorded when the graph was validated last.
    checked_at: u64,
}

/// What cuts the history of a loss that a step used up, in place of an operation.
const USED_UP: &str = "step";

/// The error for gradients that would pass a result of the operation that is gone, or what a step used up.
pub fn lost(name: &str) -> Error {
    Error::data(match name {
        USED_UP => "grad: the loss must not be used up, got one that a step of an optimizer used; take gradients before \
            the step, compute the loss again, or `detach` it"
            .into(),
        "" => "grad: tensors that it was computed from must be held, got one that was dropped; hold it, or `detach` it"
            .into(),
        _ => format!(
            "{name}: a result of {name} must be held, got one that was dropped after it was computed; hold it, or `detach` it"
        ),
    })
}

impl Graph {
    /// Data in a buffer. The caller holds one handle, as with all nodes made here.
    pub fn source(&mut self, shape: Shape, dtype: DType) -> NodeId {
        self.insert(Op::Source, Inputs::new(), shape, dtype, 0)
    }

    /// A number the user passed, for operations on tensors of `dtype`.
    pub fn scalar(&mut self, dtype: DType, bits: u32) -> NodeId {
        self.insert(Op::Scalar, Inputs::new(), Shape::SCALAR, dtype, bits)
    }

    /// An operation. Shape and type errors arise here.
    ///
    /// # Errors
    /// `Limit` also where there is no place for it.
    pub fn record(&mut self, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        self.check_room(op.name())?;
        let mut types: SmallVec<[_; 3]> = SmallVec::new();
        for &input in inputs {
            types.push((self.node(input).shape, self.node(input).dtype));
        }
        let (shape, dtype) = op.infer(&types)?;
        Ok(self.insert(op, inputs.into(), shape, dtype, 0))
    }

    /// Gradients do not pass this node.
    pub fn detach(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        (node.is_detached, node.cut) = (true, HistoryCut::default());
        self.notify_changed(&[id]);
    }

    /// How a node was made: the operation, and its operands as far as gradients pass to them.
    pub fn history_of(&self, id: NodeId) -> (&Op, &[NodeId]) {
        let node = self.node(id);
        (&node.op, if node.is_passed() { &node.inputs } else { &[] })
    }

    /// The operation whose result is gone, where that hides whether the node was made of what was recorded as the
    /// `born`-th.
    pub fn lost(&self, id: NodeId, born: u64) -> Option<&'static str> {
        let node = self.node(id);
        ((node.inputs.is_empty() || node.is_used_up) && born < node.cut.before)
            .then_some(node.cut.op)
    }

    /// The bits of a number that the user passed; `None` for all other nodes.
    pub fn number(&self, id: NodeId) -> Option<u32> {
        let node = self.node(id);
        matches!(node.op, Op::Scalar).then_some(node.scalar)
    }

    /// The shape of a node's value.
    pub fn shape(&self, id: NodeId) -> Shape {
        self.node(id).shape
    }

    /// The type of a node's value.
    pub fn dtype(&self, id: NodeId) -> DType {
        self.node(id).dtype
    }

    /// Whether nothing needs the node any more.
    pub fn is_freed(&self, id: NodeId) -> bool {
        self.get(id).is_none()
    }

    /// Whether the node is data already.
    pub fn is_materialized(&self, id: NodeId) -> bool {
        self.node(id).is_materialized
    }

    /// One more tensor holds the node.
    pub fn retain(&mut self, id: NodeId) {
        self.retain_all(&[id]);
    }

    /// One more tensor holds each of these nodes.
    pub fn retain_all(&mut self, ids: &[NodeId]) {
        for &id in ids {
            self.node_mut(id).handles += 1;
        }
        self.pending.extend_from_slice(ids);
        // All hear of it: data that has not would forget a past that can be reached.
        self.collect_all();
    }

    /// One tensor less holds the node. If nothing needs it any more, its id is invalid now.
    pub fn release(&mut self, id: NodeId) {
        self.node_mut(id).handles -= 1;
        self.notify_changed(&[id]);
    }

    /// The node has been computed: it is data from now on.
    pub fn mark_materialized(&mut self, id: NodeId) {
        let node = self.node_mut(id);
        (node.is_materialized, node.is_eager) = (true, false);
        self.notify_changed(&[id]);
    }

    /// The node was computed before anything asked for it.
    pub fn mark_eager(&mut self, id: NodeId) {
        self.node_mut(id).is_eager = true;
    }

    /// Whether nothing has asked for the node yet, though it was computed.
    pub fn is_eager(&self, id: NodeId) -> bool {
        self.node(id).is_eager
    }

    /// About how many bytes the nodes take.
    #[cfg(feature = "js")]
    pub fn bytes(&self) -> u64 {
        (self.live * size_of::<Node>()) as u64
    }

    /// The number of live nodes.
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
            replaces: None,
            alias: None,
            value_of: None,
            value_since: self.count,
            reads,
            origins,
            is_used_up: false,
            is_spent: false,
            recording: None,
        };
        let born = self.count;
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
        let id = NodeId { index, seq: born };
        node.reach = self.reach_of_inputs(&node);
        node.inputs_reach = node.reach.newest_held;
        if dtype.is_float() {
            node.reach.newest_held = self.count;
        }
        let asked = !data && !matches!(node.op, Op::Scalar);
        self.nodes[index as usize] = (born, Some(node));
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
