//! Reverse-mode gradients, graph to graph: they only record further operations, so that planning, fusion and every
//! machine serve them as any others, and gradients of gradients are gradients again.

mod moves;
mod routines;
mod rules;

use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::{lost, Graph, NodeId};
use crate::op::{Const, Op, Pointwise, Reduction, Span};
use crate::shape::Shape;
use std::collections::{HashMap, HashSet};

/// The gradients of `of` by each of `wrt`, weighted with `seed` (of the same shape and type) or with ones: one node
/// each, which the caller holds; zeros where nothing of it goes into `of`. All nodes are of floats.
///
/// # Errors
/// `Data` where how `of` was made is not known any more, `Unsupported` where an operation has no gradient.
pub fn grad(
    graph: &mut Graph,
    of: NodeId,
    seed: Option<NodeId>,
    wrt: &[NodeId],
) -> Result<Vec<NodeId>> {
    let mut tape = Tape { graph, recorded: Vec::new() };
    let found = tape.gradients(of, seed, wrt);
    let Tape { recorded, .. } = tape;
    if let Ok(nodes) = &found {
        nodes.iter().for_each(|&node| graph.retain(node));
    }
    for node in recorded {
        // What goes here is younger than all data.
        graph.release(node);
    }
    found
}

/// Records operations, and holds them until all are recorded.
struct Tape<'a> {
    graph: &'a mut Graph,
    recorded: Vec<NodeId>,
}

/// By what is differentiated.
struct Wanted {
    nodes: HashSet<NodeId>,
    /// What was recorded before all of them does not depend on them.
    oldest: u64,
    /// They are taken as independent of each other.
    apart: bool,
}

impl Tape<'_> {
    fn gradients(
        &mut self,
        of: NodeId,
        seed: Option<NodeId>,
        wrt: &[NodeId],
    ) -> Result<Vec<NodeId>> {
        let seed = match seed {
            Some(seed) => seed,
            None => self.everywhere(of, 1.0)?,
        };
        let found = self.flow(of, seed, wrt, false)?;
        let one = |&node: &NodeId| match found.get(&node) {
            Some(&gradient) => Ok(gradient),
            None => self.everywhere(node, 0.0),
        };
        wrt.iter().map(one).collect()
    }

    /// Carries `seed` from `of` back to each of `wrt` that it is made of.
    fn flow(
        &mut self,
        of: NodeId,
        seed: NodeId,
        wrt: &[NodeId],
        apart: bool,
    ) -> Result<HashMap<NodeId, NodeId>> {
        let oldest = wrt.iter().map(|node| node.born).min().unwrap_or(u64::MAX);
        let wanted = Wanted { nodes: wrt.iter().copied().collect(), oldest, apart };
        let path = self.path(of, &wanted)?;
        let depend: HashSet<NodeId> = path.iter().copied().collect();
        let mut found = HashMap::from([(of, seed)]);
        for &node in path.iter().rev() {
            let (Some(&g), false) = (found.get(&node), wanted.ends(node)) else { continue };
            let (op, inputs) = self.graph.past(node);
            let (op, inputs) = (op.clone(), inputs.to_vec());
            let empty = self.shape(node).numel() == 0;
            let goes = |&n: &usize| {
                !empty && depend.contains(&inputs[n]) && self.shape(inputs[n]).numel() > 0
            };
            let active: Vec<usize> = (0..inputs.len()).filter(goes).collect();
            if active.is_empty() {
                continue;
            }
            if inputs.iter().any(|&input| !self.graph.is_alive(input)) {
                return Err(lost(&op));
            }
            if let Some(meaning) = self.meaning(&op, &inputs)? {
                let mut ends: Vec<NodeId> = active.iter().map(|&n| inputs[n]).collect();
                ends.sort_unstable_by_key(|node| node.born);
                ends.dedup();
                let parts = self.flow(meaning, g, &ends, true)?;
                for end in ends {
                    if let Some(&part) = parts.get(&end) {
                        self.add_to(&mut found, end, part)?;
                    }
                }
                continue;
            }
            for n in active {
                if let Some(part) = self.pull(&op, node, &inputs, g, n)? {
                    self.add_to(&mut found, inputs[n], part)?;
                }
            }
        }
        Ok(found)
    }

    fn add_to(
        &mut self,
        found: &mut HashMap<NodeId, NodeId>,
        node: NodeId,
        part: NodeId,
    ) -> Result<()> {
        let sum = match found.get(&node) {
            Some(&before) => self.row(Pointwise::add, &[before, part])?,
            None => part,
        };
        found.insert(node, sum);
        Ok(())
    }

    /// The nodes through which `of` depends on what is wanted, each after those it is made of.
    fn path(&self, of: NodeId, wanted: &Wanted) -> Result<Vec<NodeId>> {
        let mut depends: HashMap<NodeId, bool> = HashMap::new();
        let mut path = Vec::new();
        // With a stack of our own: a chain may be longer than the thread's.
        let mut stack = vec![(of, 0)];
        while let Some((id, next)) = stack.pop() {
            if depends.contains_key(&id) {
                continue;
            }
            let (op, mut inputs) = self.graph.past(id);
            if !self.graph.dtype(id).is_float() || wanted.ends(id) {
                inputs = &[];
            }
            if let Some(&input) = inputs.get(next) {
                stack.push((id, next + 1));
                if input.born >= wanted.oldest {
                    if !self.graph.is_alive(input) {
                        return Err(lost(op));
                    }
                    stack.push((input, 0));
                }
                continue;
            }
            let through = inputs.iter().any(|input| depends.get(input) == Some(&true));
            if through && *op == Op::Source {
                return Err(Error::data(
                    "program: the gradient of its results by what it was run on is not known; detach them",
                ));
            }
            let here = through || wanted.nodes.contains(&id);
            depends.insert(id, here);
            if here {
                path.push(id);
            }
        }
        Ok(path)
    }
}

impl Wanted {
    /// Whether gradients go no further.
    fn ends(&self, node: NodeId) -> bool {
        self.apart && self.nodes.contains(&node)
    }
}

/// What rules are written with.
impl Tape<'_> {
    fn shape(&self, node: NodeId) -> Shape {
        self.graph.shape(node)
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

    /// A constant of the type and shape of `like`.
    fn everywhere(&mut self, like: NodeId, value: f64) -> Result<NodeId> {
        let (shape, dtype) = (self.shape(like), self.dtype(like));
        self.fill(shape, dtype, value)
    }

    /// A constant number of the type of `like`.
    fn number(&mut self, like: NodeId, value: f64) -> Result<NodeId> {
        let dtype = self.dtype(like);
        self.fill(Shape::SCALAR, dtype, value)
    }

    fn fill(&mut self, shape: Shape, dtype: DType, value: f64) -> Result<NodeId> {
        let value = Const { dtype, bits: dtype.bits(value) };
        self.push(Op::Fill { shape, value }, &[])
    }

    /// The part of an axis.
    fn part(&mut self, node: NodeId, axis: usize, start: usize, len: usize) -> Result<NodeId> {
        let whole = |&len: &usize| Span { start: 0, len, step: 1 };
        let mut spans: Vec<Span> = self.shape(node).iter().map(whole).collect();
        if (start, len) == (0, spans[axis].len) {
            return Ok(node);
        }
        spans[axis] = Span { start, len, step: 1 };
        self.push(Op::Slice(spans), &[node])
    }
}
