//! What was asked: recorded operations waiting to be run, and the trace of those that a result needs.

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::op::Op;
use crate::shape::Shape;

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
    inputs: Vec<NodeId>,
    shape: Shape,
    dtype: DType,
    /// The number's bits, for `Op::Scalar`.
    scalar: u32,
    /// It is data: a source, or computed. How it was computed is remembered as long as its inputs are there anyway.
    data: bool,
    /// Gradients do not pass.
    detached: bool,
    /// A variable's value: a result, whatever else it is used for.
    kept: bool,
    /// It only remembers its inputs, because it is data or is itself only remembered.
    weak: bool,
    /// Tensors that hold it.
    handles: u32,
    /// Recorded nodes that need it to be computed.
    uses: u32,
    /// Nodes that remember to be made of it.
    memory: u32,
}

impl Node {
    fn is_needed(&self) -> bool {
        self.handles > 0 || self.uses > 0
    }
}

/// All nodes that something still needs, and those that these were made of: an arena, so that chains of any length are
/// freed without recursion. Remembering keeps no data: those made of freed data have lost their past.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<(u64, Option<Node>)>,
    vacant: Vec<u32>,
    /// Nodes recorded so far.
    pub count: u64,
}

/// One operation of a [`Trace`]; its inputs are earlier positions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Traced {
    pub op: Op,
    pub inputs: Vec<usize>,
    pub shape: Shape,
    pub dtype: DType,
}

/// The structure of a computation, apart from any graph: operations in order, and which of them are results. Numbers
/// the user passed are not part of it, so two steps of a loop have equal traces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trace {
    pub nodes: Vec<Traced>,
    pub outputs: Vec<usize>,
}

/// A trace with what it was taken from.
#[derive(Debug)]
pub struct Taken {
    pub trace: Trace,
    /// The graph's nodes behind the trace's sources, in order of appearance.
    pub sources: Vec<NodeId>,
    /// The bits behind the trace's scalars, in order of appearance.
    pub scalars: Vec<u32>,
}

/// What an operation was computed from is gone.
pub fn lost(op: &Op) -> Error {
    let name = op.name();
    Error::data(format!(
        "{name}: a result of {name} was computed, and what it was computed from is gone; hold that, or detach it"
    ))
}

impl Trace {
    /// Appends an operation; its shape and type follow from its inputs.
    pub fn push(&mut self, op: Op, inputs: &[usize]) -> Result<usize> {
        let mut types = Vec::with_capacity(inputs.len());
        for &input in inputs {
            types.push((self.nodes[input].shape, self.nodes[input].dtype));
        }
        let (shape, dtype) = op.infer(&types)?;
        self.nodes.push(Traced { op, inputs: inputs.to_vec(), shape, dtype });
        Ok(self.nodes.len() - 1)
    }

    /// Appends data or a number, which say their shape and type themselves.
    pub fn leaf(&mut self, op: Op, shape: Shape, dtype: DType) -> usize {
        self.nodes.push(Traced { op, inputs: Vec::new(), shape, dtype });
        self.nodes.len() - 1
    }
}

impl Graph {
    /// Data in a buffer. The caller holds one handle, as with all nodes made here.
    pub fn source(&mut self, shape: Shape, dtype: DType) -> NodeId {
        self.insert(Op::Source, Vec::new(), shape, dtype, 0)
    }

    /// A number the user passed, for operations on tensors of `dtype`.
    pub fn scalar(&mut self, dtype: DType, bits: u32) -> NodeId {
        self.insert(Op::Scalar, Vec::new(), Shape::SCALAR, dtype, bits)
    }

    /// An operation. Shape and type errors arise here.
    pub fn record(&mut self, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        let mut types = Vec::with_capacity(inputs.len());
        for &input in inputs {
            types.push((self.node(input).shape, self.node(input).dtype));
        }
        let (shape, dtype) = op.infer(&types)?;
        self.check_past(inputs)?;
        self.need(inputs.to_vec());
        Ok(self.insert(op, inputs.to_vec(), shape, dtype, 0))
    }

    /// Results of a program that read `sources`: data, of which is known what it depends on, but not how.
    pub fn results(&mut self, sources: &[NodeId], results: &[(Shape, DType)]) -> Vec<NodeId> {
        // One node between them, or there were as many edges as pairs.
        let read = self.insert(Op::Source, sources.to_vec(), Shape::SCALAR, DType::F32, 0);
        for &source in sources {
            self.node_mut(source).memory += 1;
        }
        let node = self.node_mut(read);
        (node.data, node.weak, node.handles) = (false, true, 0);
        node.memory = results.len() as u32;
        let mut nodes = Vec::with_capacity(results.len());
        for &(shape, dtype) in results {
            let id = self.insert(Op::Source, vec![read], shape, dtype, 0);
            self.node_mut(id).weak = true;
            nodes.push(id);
        }
        self.sweep(vec![read]);
        nodes
    }

    /// Gradients do not pass this node.
    pub fn detach(&mut self, id: NodeId) {
        self.node_mut(id).detached = true;
    }

    /// The node is a result even where others use it, as long as a tensor holds it.
    pub fn keep(&mut self, id: NodeId) {
        self.node_mut(id).kept = true;
    }

    /// How a node was made: the operation and its operands, which may be gone if it is data; none if gradients do not
    /// pass it.
    pub fn past(&self, id: NodeId) -> (&Op, &[NodeId]) {
        let node = self.node(id);
        (&node.op, if node.detached { &[] } else { &node.inputs })
    }

    /// Whether the node has not been freed.
    pub fn is_alive(&self, id: NodeId) -> bool {
        self.nodes[id.index as usize].0 == id.born
    }

    /// The shape of a node's value.
    pub fn shape(&self, id: NodeId) -> Shape {
        self.node(id).shape
    }

    /// The type of a node's value.
    pub fn dtype(&self, id: NodeId) -> DType {
        self.node(id).dtype
    }

    /// Whether the node is data already.
    pub fn is_source(&self, id: NodeId) -> bool {
        self.node(id).data
    }

    /// One more tensor holds the node.
    pub fn retain(&mut self, id: NodeId) {
        self.node_mut(id).handles += 1;
    }

    /// One tensor less holds the node. Returns the sources that nothing needs any more; their ids are invalid now.
    pub fn release(&mut self, id: NodeId) -> Vec<NodeId> {
        self.node_mut(id).handles -= 1;
        self.sweep(vec![id])
    }

    /// The node has been computed: it is data from now on. Returns the sources that nothing needs any more.
    pub fn materialise(&mut self, id: NodeId) -> Vec<NodeId> {
        let node = self.node_mut(id);
        (node.data, node.weak) = (true, true);
        let inputs = node.inputs.clone();
        for &input in &inputs {
            let input = self.node_mut(input);
            input.uses -= 1;
            input.memory += 1;
        }
        self.sweep(inputs)
    }

    /// Nodes to compute that a tensor holds, kept or used by none, of those recorded after the first `since`.
    pub fn sinks(&self, since: u64) -> Vec<NodeId> {
        let mut sinks = Vec::new();
        for (index, &(born, ref node)) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            let result = node.handles > 0 && (node.uses == 0 || node.kept) && !node.data;
            if result && born >= since && !matches!(node.op, Op::Scalar) {
                sinks.push(NodeId { index: index as u32, born });
            }
        }
        // As recorded, wherever there was room: the same step has the same trace.
        sinks.sort_unstable_by_key(|sink| sink.born);
        sinks
    }

    /// The number of live nodes.
    pub fn live(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    /// The structure of everything `outputs` need.
    pub fn trace(&self, outputs: &[NodeId]) -> Taken {
        let mut taken = Taken { trace: Trace::default(), sources: Vec::new(), scalars: Vec::new() };
        let mut position: Vec<Option<usize>> = vec![None; self.nodes.len()];
        // Depth first with a stack of our own: a chain may be longer than the thread's stack.
        let mut stack: Vec<(NodeId, usize)> = Vec::new();
        for &output in outputs {
            stack.push((output, 0));
            while let Some((id, next)) = stack.pop() {
                if position[id.index as usize].is_some() {
                    continue;
                }
                let node = self.node(id);
                let (op, inputs) =
                    if node.data { (&Op::Source, &[][..]) } else { (&node.op, &node.inputs[..]) };
                if let Some(&input) = inputs.get(next) {
                    stack.push((id, next + 1));
                    stack.push((input, 0));
                    continue;
                }
                match op {
                    Op::Source => taken.sources.push(id),
                    Op::Scalar => taken.scalars.push(node.scalar),
                    _ => {}
                }
                position[id.index as usize] = Some(taken.trace.nodes.len());
                taken.trace.nodes.push(Traced {
                    op: op.clone(),
                    inputs: places(inputs, &position),
                    shape: node.shape,
                    dtype: node.dtype,
                });
            }
        }
        taken.trace.outputs = places(outputs, &position);
        taken
    }

    fn insert(
        &mut self,
        op: Op,
        inputs: Vec<NodeId>,
        shape: Shape,
        dtype: DType,
        scalar: u32,
    ) -> NodeId {
        let data = matches!(op, Op::Source);
        let node = Node {
            op,
            inputs,
            shape,
            dtype,
            scalar,
            data,
            detached: false,
            kept: false,
            weak: false,
            handles: 1,
            uses: 0,
            memory: 0,
        };
        let born = self.count;
        self.count += 1;
        let index = match self.vacant.pop() {
            Some(index) => {
                self.nodes[index as usize] = (born, Some(node));
                index
            }
            None => {
                self.nodes.push((born, Some(node)));
                (self.nodes.len() - 1) as u32
            }
        };
        NodeId { index, born }
    }

    /// Whether what is only remembered of these can be computed again.
    fn check_past(&self, inputs: &[NodeId]) -> Result<()> {
        let remembered = |id: NodeId| self.node(id).weak && !self.node(id).data;
        if !inputs.iter().any(|&id| remembered(id)) {
            return Ok(());
        }
        let mut seen = vec![false; self.nodes.len()];
        let mut pending: Vec<NodeId> = inputs.to_vec();
        while let Some(id) = pending.pop() {
            if !remembered(id) || std::mem::replace(&mut seen[id.index as usize], true) {
                continue;
            }
            let node = self.node(id);
            if node.inputs.iter().any(|&input| !self.is_alive(input)) {
                return Err(lost(&node.op));
            }
            pending.extend_from_slice(&node.inputs);
        }
        Ok(())
    }

    /// One more recorded node needs each of `pending`: what was only remembered is needed again, with what it is made of.
    fn need(&mut self, mut pending: Vec<NodeId>) {
        while let Some(id) = pending.pop() {
            let node = self.node_mut(id);
            node.uses += 1;
            if node.weak && !node.data {
                node.weak = false;
                let inputs = node.inputs.clone();
                for &input in &inputs {
                    self.node_mut(input).memory -= 1;
                }
                pending.extend_from_slice(&inputs);
            }
        }
    }

    /// Frees those of `pending` that nothing needs or remembers, and what they alone needed.
    fn sweep(&mut self, mut pending: Vec<NodeId>) -> Vec<NodeId> {
        let mut sources = Vec::new();
        while let Some(id) = pending.pop() {
            let (born, place) = &mut self.nodes[id.index as usize];
            let Some(node) = place.as_mut().filter(|n| *born == id.born && !n.is_needed()) else {
                continue;
            };
            let gone = node.data || node.memory == 0;
            let strong = !std::mem::replace(&mut node.weak, true);
            if !gone && !strong {
                continue;
            }
            let inputs = node.inputs.clone();
            if gone {
                if node.data {
                    sources.push(id);
                }
                *born = u64::MAX;
                *place = None;
                self.vacant.push(id.index);
            }
            for &input in &inputs {
                if !self.is_alive(input) {
                    continue;
                }
                let input = self.node_mut(input);
                input.uses -= u32::from(strong);
                input.memory = input.memory + u32::from(strong) - u32::from(gone);
            }
            pending.extend_from_slice(&inputs);
        }
        sources
    }

    fn node(&self, id: NodeId) -> &Node {
        assert!(self.is_alive(id), "a tensor outlived its node");
        self.nodes[id.index as usize].1.as_ref().expect("a live place has a node")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        assert!(self.is_alive(id), "a tensor outlived its node");
        self.nodes[id.index as usize].1.as_mut().expect("a live place has a node")
    }
}

/// Where the nodes are in a trace that has them all.
fn places(nodes: &[NodeId], position: &[Option<usize>]) -> Vec<usize> {
    let mut places = Vec::with_capacity(nodes.len());
    for id in nodes {
        places.extend(position[id.index as usize]);
    }
    places
}
