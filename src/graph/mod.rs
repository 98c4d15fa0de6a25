//! What was asked: recorded operations waiting to be run, and the trace of those that a result needs.

mod arena;
mod checkpoint;
mod donation;
mod history;
mod holders;
mod past;
mod pending;
mod pullback;
mod show;
mod trace;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::shape::Shape;
pub use checkpoint::Again;
pub use history::Recorded;
pub use holders::Holder;
use past::{Cut, Past};
pub use pullback::Pullback;
use smallvec::{smallvec, SmallVec};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use trace::Places;
pub use trace::{Taken, Trace, Traced};

/// A recorded node. Ids of freed nodes are not valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId {
    index: u32,
    /// How many nodes were recorded before: what a node is made of was born before it.
    pub born: u64,
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
    data: bool,
    /// It was computed before anything asked for it: it forgets its past no sooner than one that is not computed.
    early: bool,
    /// Gradients do not pass.
    detached: bool,
    /// It stands for a program's input, or is made of what does: it has no value outside of that program.
    stands_in: bool,
    /// A variable's value: a result, whatever else it is used for.
    kept: bool,
    /// A batch computed it on the way to others, and did not write it.
    computed: bool,
    /// Tensors that hold it, and of these compiled programs' own.
    handles: u32,
    programs: u32,
    /// Variables whose value it is.
    variables: u32,
    /// Users that are to be computed from it.
    uses: u32,
    /// It is one of those to its inputs.
    uses_inputs: bool,
    /// What gradients do not get to any more, because its past is forgotten.
    cut: Cut,
    /// What its users know of it.
    past: Past,
    /// How gradients pass it, for `Op::Shader`.
    pullback: Option<Arc<Pullback>>,
    /// Gradients pass it by recording it again, out of these.
    checkpoint: Option<Arc<[NodeId]>>,
    /// It was recorded again.
    again: bool,
    /// The value that a variable had before it, whose memory it may take.
    replaces: Option<NodeId>,
    /// Its own memory, or that of what it was made of, holds something else now.
    overwritten: bool,
}

/// Few enough to need no memory of their own.
type Inputs = SmallVec<[NodeId; 3]>;

impl Node {
    fn is_needed(&self) -> bool {
        self.handles > 0 || self.uses > 0
    }

    /// It has no value itself.
    fn is_shader(&self) -> bool {
        matches!(self.op, Op::Shader(_))
    }

    /// It is to be computed, or was before anything asked for it.
    fn is_open(&self) -> bool {
        !self.data || self.early
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
    vacant: BinaryHeap<Reverse<u32>>,
    live: usize,
    /// Nodes recorded so far.
    pub count: u64,
    /// Operations recorded since `sinks` was asked last, and perhaps gone since.
    recent: Vec<NodeId>,
    /// Values of variables, and perhaps computed or gone since.
    kept: Vec<NodeId>,
    places: Places,
    /// What `settle` has to look at; empty between two calls.
    unsettled: Vec<NodeId>,
}

/// The error for gradients that would pass a result of the operation that is gone, or the result of a program.
pub fn lost(name: &str) -> Error {
    Error::data(match name {
        "assign" => "assign: the value that a variable had before is overwritten; hold it, or ask for gradients before".into(),
        "source" => "program: the gradient of its results by what it was run on is not known; detach them".into(),
        _ => format!(
            "{name}: a result of {name} was computed and is gone, and with it what it was made of; hold it, or detach it"
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
    pub fn record(&mut self, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        let mut types: SmallVec<[_; 3]> = SmallVec::new();
        for &input in inputs {
            types.push((self.node(input).shape, self.node(input).dtype));
        }
        let (shape, dtype) = op.infer(&types)?;
        Ok(self.insert(op, inputs.into(), shape, dtype, 0))
    }

    /// Results of a program that read `sources`: data, of which is known what it depends on, but not how.
    pub fn results(&mut self, sources: &[NodeId], results: &[(Shape, DType)]) -> Vec<NodeId> {
        // One node between them, or there were as many edges as pairs.
        let read = self.insert(Op::Source, sources.into(), Shape::SCALAR, DType::F32, 0);
        self.node_mut(read).data = false;
        let mut nodes = Vec::with_capacity(results.len());
        for &(shape, dtype) in results {
            nodes.push(self.insert(Op::Source, smallvec![read], shape, dtype, 0));
        }
        self.release(read);
        self.settle(&nodes);
        nodes
    }

    /// Gradients do not pass this node. Returns the sources that nothing needs any more.
    pub fn detach(&mut self, id: NodeId) -> Vec<NodeId> {
        let node = self.node_mut(id);
        (node.detached, node.cut) = (true, Cut::default());
        self.settle(&[id])
    }

    /// How a node was made: the operation, and its operands as far as gradients pass to them.
    pub fn past(&self, id: NodeId) -> (&Op, &[NodeId]) {
        let node = self.node(id);
        let passes = node.dtype.is_float() && !node.detached;
        (&node.op, if passes { &node.inputs } else { &[] })
    }

    /// The operation whose result is gone, where that hides whether the node was made of what was recorded as the
    /// `born`-th.
    pub fn lost(&self, id: NodeId, born: u64) -> Option<&'static str> {
        let node = self.node(id);
        (node.inputs.is_empty() && born < node.cut.before).then_some(node.cut.op)
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
    pub fn is_gone(&self, id: NodeId) -> bool {
        self.get(id).is_none()
    }

    /// Whether the node is data already.
    pub fn is_source(&self, id: NodeId) -> bool {
        self.node(id).data
    }

    /// One more tensor holds the node.
    pub fn retain(&mut self, id: NodeId) {
        self.node_mut(id).handles += 1;
        self.settle(&[id]);
    }

    /// One tensor less holds the node. Returns the sources that nothing needs any more; their ids are invalid now.
    pub fn release(&mut self, id: NodeId) -> Vec<NodeId> {
        self.node_mut(id).handles -= 1;
        self.settle(&[id])
    }

    /// The node has been computed: it is data from now on. Returns the sources that nothing needs any more.
    pub fn materialise(&mut self, id: NodeId) -> Vec<NodeId> {
        let node = self.node_mut(id);
        (node.data, node.early) = (true, false);
        self.settle(&[id])
    }

    /// The node was computed before anything asked for it.
    pub fn set_early(&mut self, id: NodeId) {
        self.node_mut(id).early = true;
    }

    /// Whether nothing has asked for the node yet, though it was computed.
    pub fn is_early(&self, id: NodeId) -> bool {
        self.node(id).early
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
        let mut node = Node {
            op,
            inputs: Inputs::new(),
            users: SmallVec::new(),
            shape,
            dtype,
            scalar,
            data,
            early: false,
            detached: false,
            stands_in: false,
            kept: false,
            computed: false,
            handles: 1,
            programs: 0,
            variables: 0,
            uses: 0,
            uses_inputs: !data,
            cut: Cut::default(),
            past: Past::default(),
            pullback: None,
            checkpoint: None,
            again: false,
            replaces: None,
            overwritten: false,
        };
        let born = self.count;
        self.count += 1;
        let index = self.vacancy();
        self.live += 1;
        for &id in &inputs {
            let input = self.node_mut(id);
            input.users.push(index);
            input.uses += u32::from(!data);
            node.stands_in |= input.stands_in;
        }
        node.inputs = inputs;
        let id = NodeId { index, born };
        node.past = self.behind(&node);
        if dtype.is_float() {
            node.past.reach = self.count;
        }
        let asked = !data && !matches!(node.op, Op::Scalar);
        self.nodes[index as usize] = (born, Some(node));
        if asked {
            self.recent.push(id);
            if self.recent.len() > Graph::SLACK + 2 * self.live {
                let mut recent = std::mem::take(&mut self.recent);
                recent.retain(|&id| self.get(id).is_some());
                self.recent = recent;
            }
        }
        id
    }

    /// What gradients meet behind the inputs of a node.
    fn behind(&self, node: &Node) -> Past {
        let mut all = Past { reach: 0, cut: node.cut };
        if node.dtype.is_float() && !node.detached {
            for &input in &node.inputs {
                all = all.join(self.node(input).past);
            }
        }
        all
    }

    /// Frees those of `changed` that nothing needs, lets data forget a past that is of no use, and says so to their users.
    /// Returns the sources that are gone.
    fn settle(&mut self, changed: &[NodeId]) -> Vec<NodeId> {
        let mut sources = Vec::new();
        let mut pending = std::mem::take(&mut self.unsettled);
        pending.extend_from_slice(changed);
        while let Some(id) = pending.pop() {
            if self.get(id).is_none() {
                continue;
            }
            let mut past = self.behind(self.node(id));
            let node = self.node_mut(id);
            let uses = !node.data && node.is_needed();
            let change = i32::from(uses) - i32::from(node.uses_inputs);
            node.uses_inputs = uses;
            let gone = node.handles == 0 && node.users.is_empty();
            let needed = node.is_needed() || node.early && !node.users.is_empty();
            let past_is_over = node.overwritten || past.reach <= past.cut.before;
            let forgets = node.data && (!needed || past_is_over);
            if forgets {
                let op = if node.overwritten { "assign" } else { node.op.name() };
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
                let reach = before.reach.max(past.reach);
                for &index in &node.users.clone() {
                    let (born, user) = &self.nodes[index as usize];
                    // What reaches further by another input: joins of many would be looked through for each of them.
                    let same = |user: &Node| !user.data && user.past.reach > reach;
                    if before.cut != past.cut || !user.as_ref().is_some_and(same) {
                        pending.push(NodeId { index, born: *born });
                    }
                }
            }
            if gone {
                sources.extend(self.vacate(id).filter(|node| node.data).map(|_| id));
            }
            for id_in in inputs {
                let input = self.node_mut(id_in);
                input.uses = input.uses.wrapping_add_signed(change);
                if let Some(at) = input.users.iter().rposition(|&u| leaves && u == id.index) {
                    input.users.swap_remove(at);
                }
                pending.push(id_in);
            }
        }
        self.unsettled = pending;
        sources
    }
}
