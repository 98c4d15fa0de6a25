//! Reverse-mode gradients, from graph to graph. A gradient only records more operations. Planning, fusion and every backend
//! therefore treat it like any other computation, and gradients of gradients need no extra code.

mod accumulate;
mod checkpoint;
mod movement;
mod programs;
mod routines;
mod rules;
mod shaders;

use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{lost, GradientSum, Graph, NodeId, VariableId, USED_UP};
use crate::op::{self, Const, Op, PadAmount, Pointwise, Reduction};
use crate::shape::Shape;
use rustc_hash::FxHashMap;

/// Records the gradients of `of` with respect to each of `wrt`. They are weighted with `seed`, which has the shape and type of
/// `of`, or with ones. Returns one node each, which the caller holds, or `None` if `of` does not depend on the node. All nodes
/// must have float types. `by_variables` means that `wrt` are values of variables, which the caller has checked
/// ([`Graph::check_values`]).
///
/// # Errors
/// `InvalidState` if the history of `of` was dropped, `Unsupported` if an operation has no gradient.
pub fn grad(
    graph: &mut Graph,
    of: NodeId,
    seed: Option<NodeId>,
    wrt: &[NodeId],
    by_variables: bool,
) -> Result<Vec<Option<NodeId>>> {
    let since = graph.count;
    let mut tape = Tape::new(graph, since);
    let found = tape.gradients(of, seed, wrt, by_variables);
    let Tape { recorded, sums, .. } = tape;
    if let Ok(nodes) = &found {
        nodes.iter().flatten().for_each(|&node| graph.retain(node));
        for sum in sums {
            graph.retain_all(&[sum.gradient, sum.sum]);
            graph.sums.push(sum);
        }
    }
    for node in recorded {
        // The released nodes are newer than all data, so no history is dropped.
        graph.release(node);
    }
    found
}

/// Returns the position of the first of `values` that gradients of `of` reach, or `None`. `values` are values of variables.
///
/// # Errors
/// `InvalidState` if the history of `of` was dropped and may have contained one of them.
pub fn reached(graph: &mut Graph, of: NodeId, values: &[NodeId]) -> Result<Option<usize>> {
    let since = graph.count;
    let tape = Tape::new(graph, since);
    let path = tape.path(&[of], &tape.targets(values, true))?;
    Ok(values.iter().position(|&value| path.place(value).is_some()))
}

/// A tape that records operations, and holds them until all are recorded.
struct Tape<'a> {
    graph: &'a mut Graph,
    recorded: Vec<NodeId>,
    /// The sequence number at which the gradient began.
    since: u64,
    /// Cached concatenations of matrices along their rows.
    joined: FxHashMap<Vec<NodeId>, NodeId>,
    /// The gradients that are summed over all ranks.
    sums: Vec<GradientSum>,
}

/// The nodes to differentiate by.
struct Targets<'a> {
    nodes: &'a [NodeId],
    /// The lowest sequence number of the targets. Older nodes do not depend on any target.
    oldest: u64,
    /// Whether gradients stop at each target, so that the targets count as independent of each other.
    independent: bool,
    /// The variables that the targets are values of, each with the age of the value. Dropped history hides a variable only
    /// if it was computed from that variable and is not older than the value.
    variables: Option<Vec<(VariableId, u64)>>,
}

impl Targets<'_> {
    /// Whether gradients stop at this node.
    fn ends(&self, node: NodeId) -> bool {
        self.independent && self.nodes.contains(&node)
    }
}

/// The nodes between the differentiated nodes and the targets, inputs before users.
#[derive(Default)]
struct Path {
    nodes: Vec<NodeId>,
    /// The gradients found so far.
    gradients: Vec<Option<NodeId>>,
    /// Contributions to add once all of them are known, by position.
    contributions: FxHashMap<usize, Vec<Contribution>>,
    /// The gradients of the outputs of shaders.
    outputs: FxHashMap<(NodeId, usize), NodeId>,
    /// The position of each visited node in `nodes`, or `NOT_ON_PATH`.
    place: FxHashMap<NodeId, usize>,
}

/// The contribution of one use of a tensor to its gradient.
enum Contribution {
    /// A gradient of the tensor's shape.
    Whole(NodeId),
    /// The gradient of a slice.
    Slice(Slice),
    /// The gradient of a matrix, as a product over rows.
    Product(Product),
}

/// The gradient of a slice, and the padding that places it in the tensor. `starts` are the pad amounts that are data.
struct Slice {
    node: NodeId,
    margins: Vec<PadAmount>,
    starts: Vec<NodeId>,
}

/// The product `left^T right` of two matrices with the same number of rows.
struct Product {
    left: NodeId,
    right: NodeId,
    /// The sequence number of the use.
    seq: u64,
}

/// The position of a node that depends on no target.
const NOT_ON_PATH: usize = usize::MAX;

impl Path {
    fn place(&self, node: NodeId) -> Option<usize> {
        self.place.get(&node).copied().filter(|&place| place != NOT_ON_PATH)
    }
}

impl<'a> Tape<'a> {
    fn new(graph: &'a mut Graph, since: u64) -> Tape<'a> {
        let (recorded, joined, sums) = Default::default();
        Tape { graph, recorded, since, joined, sums }
    }
}

impl Tape<'_> {
    /// Returns the sum of a gradient over all ranks, a source whose data come later.
    fn summed(&mut self, gradient: NodeId) -> NodeId {
        let sum = self.graph.source(self.shape(gradient), self.dtype(gradient));
        self.recorded.push(sum);
        self.sums.push(GradientSum { gradient, sum });
        sum
    }

    fn targets<'a>(&self, nodes: &'a [NodeId], by_variables: bool) -> Targets<'a> {
        let oldest = nodes.iter().map(|&node| self.graph.age(node)).min().unwrap_or(u64::MAX);
        let variables = by_variables.then(|| self.graph.variables_of(nodes));
        Targets { nodes, oldest, independent: false, variables }
    }

    fn gradients(
        &mut self,
        of: NodeId,
        seed: Option<NodeId>,
        wrt: &[NodeId],
        by_variables: bool,
    ) -> Result<Vec<Option<NodeId>>> {
        let seed = match seed {
            Some(seed) => seed,
            None => self.everywhere(of, 1.0)?,
        };
        let path = self.flow(&[(of, seed)], &self.targets(wrt, by_variables))?;
        let mut found = Vec::with_capacity(wrt.len());
        for &node in wrt {
            let Some(place) = path.place(node) else {
                if !by_variables && self.graph.was_consumed_before(of, node) {
                    return Err(lost(USED_UP));
                }
                found.push(None);
                continue;
            };
            found.push(Some(match path.gradients[place] {
                Some(gradient) => gradient,
                None => self.everywhere(node, 0.0)?,
            }));
        }
        Ok(found)
    }

    /// Computes the gradient by `ends`, which count as independent of each other.
    fn flow_independent(&mut self, seeds: &[(NodeId, NodeId)], ends: &[NodeId]) -> Result<Path> {
        let oldest = ends.iter().map(|node| node.seq).min().unwrap_or(u64::MAX);
        // The caller has already checked whether the history is complete.
        let targets =
            Targets { nodes: ends, oldest, independent: true, variables: Some(Vec::new()) };
        self.flow(seeds, &targets)
    }

    /// Carries the gradient of each node of `seeds` back to the targets among its inputs.
    fn flow(&mut self, seeds: &[(NodeId, NodeId)], targets: &Targets) -> Result<Path> {
        let wrt = targets.nodes;
        let of: Vec<NodeId> = seeds.iter().map(|(of, _)| *of).collect();
        let mut path = self.path(&of, targets)?;
        for &(of, seed) in seeds {
            if path.place(of).is_some() {
                self.add_to(&mut path, of, Some(Contribution::Whole(seed)))?;
            }
        }
        for place in (0..path.nodes.len()).rev() {
            let node = path.nodes[place];
            self.forward_through_transpose(&mut path, place, wrt);
            self.finish(&mut path, place)?;
            let (Some(g), false) = (path.gradients[place], targets.ends(node)) else { continue };
            let g = if self.graph.is_summed(node) { self.summed(g) } else { g };
            let (op, inputs) = self.graph.history_of(node);
            let (op, inputs) = (op.clone(), inputs.to_vec());
            if inputs.is_empty() {
                continue;
            }
            if let Some(recording) = self.graph.recorded(node) {
                self.pull_result(&mut path, node, g, &recording, &inputs)?;
                continue;
            }
            if let Op::Output(_, n) = op {
                path.outputs.insert((inputs[0], n), g);
                if let Some(place) = path.place(inputs[0]) {
                    // The shader has no value. The gradient marks that it must be visited.
                    path.gradients[place] = Some(g);
                }
                continue;
            }
            if let Some(ends) = self.graph.checkpoint(node) {
                self.pull_checkpoint(&mut path, node, g, &[&ends[..], wrt].concat())?;
                continue;
            }
            if let Op::Shader(call) = &op {
                self.pull_shader(&mut path, node, call, &inputs)?;
                continue;
            }
            let empty = self.shape(node).numel() == 0;
            let mut active = Vec::new();
            for (n, &input) in inputs.iter().enumerate() {
                if !empty && path.place(input).is_some() && self.shape(input).numel() > 0 {
                    active.push(n);
                }
            }
            if active.is_empty() {
                continue;
            }
            if let Op::Concat { axis } = op {
                let mut before = 0;
                for &input in &inputs {
                    let len = self.shape(input)[axis];
                    if path.place(input).is_some() && self.shape(input).numel() > 0 {
                        let part = self.part(g, axis, before, len)?;
                        self.add_to(&mut path, input, Some(Contribution::Whole(part)))?;
                    }
                    before += len;
                }
                continue;
            }
            let Some(meaning) = self.meaning(&op, &inputs)? else {
                for n in active {
                    let part = self.pull(&op, node, &inputs, g, n)?;
                    self.add_to(&mut path, inputs[n], part)?;
                }
                continue;
            };
            let mut ends: Vec<NodeId> = Vec::new();
            for n in active {
                if !ends.contains(&inputs[n]) {
                    ends.push(inputs[n]);
                }
            }
            let parts = self.flow_independent(&[(meaning, g)], &ends)?;
            for end in ends {
                let part = parts.place(end).and_then(|place| parts.gradients[place]);
                self.add_to(&mut path, end, part.map(Contribution::Whole))?;
            }
        }
        Ok(path)
    }

    /// Finds the path from `of` to the targets.
    fn path(&self, of: &[NodeId], targets: &Targets) -> Result<Path> {
        let mut path = Path::default();
        // With an explicit stack, because a chain may be longer than the thread's stack.
        let mut stack: Vec<(NodeId, usize)> = of.iter().rev().map(|&of| (of, 0)).collect();
        while let Some((id, next)) = stack.pop() {
            if path.place.contains_key(&id) {
                continue;
            }
            let (_, mut inputs) = self.graph.history_of(id);
            if targets.ends(id) {
                inputs = &[];
            } else if let Some(name) = self.graph.lost(id, targets.oldest) {
                let hides = |all: &Vec<_>| {
                    all.iter().any(|&(of, age)| self.graph.may_hide_variable(id, of, age))
                };
                if targets.variables.as_ref().is_none_or(hides) {
                    return Err(lost(name));
                }
            }
            if let Some(&input) = inputs.get(next) {
                stack.push((id, next + 1));
                if input.seq >= targets.oldest {
                    stack.push((input, 0));
                }
                continue;
            }
            let through = inputs.iter().any(|&input| path.place(input).is_some());
            let mut place = NOT_ON_PATH;
            if through || targets.nodes.contains(&id) {
                place = path.nodes.len();
                path.nodes.push(id);
                path.gradients.push(None);
            }
            path.place.insert(id, place);
        }
        Ok(path)
    }
}

/// Helpers for gradient rules.
impl Tape<'_> {
    fn shape(&self, node: NodeId) -> Shape {
        self.graph.shape(node)
    }

    /// Whether the program holds a node that is older than this gradient.
    fn is_held(&self, node: NodeId) -> bool {
        node.seq < self.since && self.graph.is_held(node)
    }

    fn dtype(&self, node: NodeId) -> DType {
        self.graph.dtype(node)
    }

    fn push(&mut self, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        let node = self.graph.record(op, inputs)?;
        self.recorded.push(node);
        Ok(node)
    }

    fn row(&mut self, row: Pointwise, inputs: &[NodeId]) -> Result<NodeId> {
        self.push(Op::Pointwise(row), inputs)
    }

    fn reshape(&mut self, node: NodeId, dims: &[usize]) -> Result<NodeId> {
        if self.shape(node)[..] == *dims {
            return Ok(node);
        }
        self.push(Op::Reshape(Shape::new("grad", dims)?), &[node])
    }

    fn permute(&mut self, node: NodeId, order: &[usize]) -> Result<NodeId> {
        self.push(Op::Permute(order.to_vec()), &[node])
    }

    fn transpose(&mut self, node: NodeId) -> Result<NodeId> {
        let rank = self.shape(node).rank();
        let mut order: Vec<usize> = (0..rank).collect();
        order.swap(rank - 2, rank - 1);
        // A transposition cancels an earlier one, unless a tensor holds the earlier node, because derivatives by it may be
        // requested.
        if let (Op::Permute(before), &[input]) = self.graph.history_of(node) {
            if *before == order && !self.is_held(node) {
                return Ok(input);
            }
        }
        self.permute(node, &order)
    }

    fn cast(&mut self, node: NodeId, dtype: DType) -> Result<NodeId> {
        if self.dtype(node) == dtype {
            return Ok(node);
        }
        self.push(Op::Cast(dtype), &[node])
    }

    fn sum(&mut self, node: NodeId, axes: Vec<usize>) -> Result<NodeId> {
        self.push(Op::Reduce { op: Reduction::Sum, axes }, &[node])
    }

    /// Records a constant with the type and shape of `like`.
    fn everywhere(&mut self, like: NodeId, value: f64) -> Result<NodeId> {
        let (shape, dtype) = (self.shape(like), self.dtype(like));
        self.fill(shape, dtype, value)
    }

    /// Records a constant number with the type of `like`.
    fn number(&mut self, like: NodeId, value: f64) -> Result<NodeId> {
        let dtype = self.dtype(like);
        self.fill(Shape::SCALAR, dtype, value)
    }

    fn fill(&mut self, shape: Shape, dtype: DType, value: f64) -> Result<NodeId> {
        let value = Const { dtype, bits: dtype.bits(value) };
        self.push(Op::Fill { shape, value }, &[])
    }

    /// Slices each axis. `span` returns the range for an axis and its extent.
    fn slice(&mut self, node: NodeId, span: &dyn Fn(usize, usize) -> op::Span) -> Result<NodeId> {
        let shape = self.shape(node);
        let mut spans = Vec::with_capacity(shape.rank());
        for (axis, &len) in shape.iter().enumerate() {
            spans.push(span(axis, len));
        }
        self.push(Op::Slice(spans), &[node])
    }

    /// Slices one axis.
    fn part(&mut self, node: NodeId, axis: usize, start: usize, len: usize) -> Result<NodeId> {
        if (start, len) == (0, self.shape(node)[axis]) {
            return Ok(node);
        }
        self.slice(node, &|at, whole| match at == axis {
            true => op::Span::at(start, len, 1),
            false => op::Span::whole(whole),
        })
    }
}
