//! What was asked: recorded operations waiting to be run, and the trace of those that a result needs.

use crate::dtype::DType;
use crate::error::Result;
use crate::op::Op;
use crate::shape::Shape;

/// A recorded node. Ids of freed nodes are not valid again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NodeId {
    index: u32,
    generation: u32,
}

#[derive(Debug)]
struct Node {
    op: Op,
    inputs: Vec<NodeId>,
    shape: Shape,
    dtype: DType,
    /// The number's bits, for `Op::Scalar`.
    scalar: u32,
    /// Tensors that hold it.
    handles: u32,
    /// Recorded nodes that use it.
    uses: u32,
}

/// All nodes that something still needs: an arena, so that chains of any length are freed without recursion.
#[derive(Debug, Default)]
pub struct Graph {
    nodes: Vec<(u32, Option<Node>)>,
    vacant: Vec<u32>,
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

impl Trace {
    /// Appends an operation; its shape and type follow from its inputs.
    pub fn push(&mut self, op: Op, inputs: &[usize]) -> Result<usize> {
        let types: Vec<_> =
            inputs.iter().map(|&i| (self.nodes[i].shape, self.nodes[i].dtype)).collect();
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
        let types: Vec<(Shape, DType)> =
            inputs.iter().map(|&id| (self.node(id).shape, self.node(id).dtype)).collect();
        let (shape, dtype) = op.infer(&types)?;
        for &id in inputs {
            self.node_mut(id).uses += 1;
        }
        Ok(self.insert(op, inputs.to_vec(), shape, dtype, 0))
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
        self.node(id).op == Op::Source
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
        node.op = Op::Source;
        let inputs = std::mem::take(&mut node.inputs);
        for &input in &inputs {
            self.node_mut(input).uses -= 1;
        }
        self.sweep(inputs)
    }

    /// Nodes still to be computed that a tensor holds and no recorded operation uses.
    pub fn sinks(&self) -> Vec<NodeId> {
        let mut sinks = Vec::new();
        for (index, (generation, node)) in self.nodes.iter().enumerate() {
            let Some(node) = node else { continue };
            if node.handles > 0 && node.uses == 0 && node.op != Op::Source && node.op != Op::Scalar
            {
                sinks.push(NodeId { index: index as u32, generation: *generation });
            }
        }
        sinks
    }

    /// The number of live nodes.
    pub fn len(&self) -> usize {
        self.nodes.len() - self.vacant.len()
    }

    /// Whether no node is alive.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
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
                if let Some(&input) = node.inputs.get(next) {
                    stack.push((id, next + 1));
                    stack.push((input, 0));
                    continue;
                }
                match node.op {
                    Op::Source => taken.sources.push(id),
                    Op::Scalar => taken.scalars.push(node.scalar),
                    _ => {}
                }
                position[id.index as usize] = Some(taken.trace.nodes.len());
                taken.trace.nodes.push(Traced {
                    op: node.op.clone(),
                    inputs: places(&node.inputs, &position),
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
        let node = Node { op, inputs, shape, dtype, scalar, handles: 1, uses: 0 };
        match self.vacant.pop() {
            Some(index) => {
                let (generation, place) = &mut self.nodes[index as usize];
                *place = Some(node);
                NodeId { index, generation: *generation }
            }
            None => {
                self.nodes.push((0, Some(node)));
                NodeId { index: (self.nodes.len() - 1) as u32, generation: 0 }
            }
        }
    }

    /// Frees those of `pending` that nothing needs, and what they alone needed.
    fn sweep(&mut self, mut pending: Vec<NodeId>) -> Vec<NodeId> {
        let mut sources = Vec::new();
        while let Some(id) = pending.pop() {
            let (generation, place) = &mut self.nodes[id.index as usize];
            let dead = |n: &Node| n.handles == 0 && n.uses == 0;
            if *generation != id.generation || !place.as_ref().is_some_and(dead) {
                continue;
            }
            *generation += 1;
            self.vacant.push(id.index);
            let Some(node) = place.take() else { continue };
            if node.op == Op::Source {
                sources.push(id);
            }
            for &input in &node.inputs {
                self.node_mut(input).uses -= 1;
            }
            pending.extend(node.inputs);
        }
        sources
    }

    fn node(&self, id: NodeId) -> &Node {
        let (generation, node) = &self.nodes[id.index as usize];
        assert_eq!(*generation, id.generation, "a tensor outlived its node");
        node.as_ref().expect("a live generation has a node")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut Node {
        let (generation, node) = &mut self.nodes[id.index as usize];
        assert_eq!(*generation, id.generation, "a tensor outlived its node");
        node.as_mut().expect("a live generation has a node")
    }
}

/// Where the nodes are in a trace that has them all.
fn places(nodes: &[NodeId], position: &[Option<usize>]) -> Vec<usize> {
    nodes.iter().filter_map(|id| position[id.index as usize]).collect()
}
