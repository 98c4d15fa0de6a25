//! Recordings: the operations of a compiled program, apart from any graph, so that they can be recorded again on other
//! operands.
//!
//! A compiled program runs as one batch, and its results are data. A gradient that reaches such a result records the program
//! again on the operands of that run ([`Graph::play`]), and passes its operations like all others. A program is also planned
//! again from its recording when the variables that it reads have moved to other memory.

use super::{Graph, NodeId, Pullback};
use crate::dtype::DType;
use crate::op::Op;
use crate::shape::Shape;
use crate::sorted;
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A list of operations on sources. Positions below `sources` are sources, and the n-th operation has position `sources + n`.
#[derive(Debug)]
pub struct Recording {
    sources: usize,
    steps: Vec<Step>,
    results: Vec<usize>,
}

/// A recorded operation.
#[derive(Clone, Debug)]
struct Step {
    op: Op,
    inputs: SmallVec<[usize; 3]>,
    shape: Shape,
    dtype: DType,
    scalar: u32,
    detached: bool,
    is_rematerialized: bool,
    pullback: Option<Arc<Pullback>>,
    checkpoint: Option<Vec<usize>>,
}

/// The operations that compute one result of a program from operands and other results, for gradients.
#[derive(Debug)]
pub struct Segment {
    /// `None` if no gradient passes, so that the result is a constant.
    recording: Option<Arc<Recording>>,
    /// The sources of the recording, and whether gradients pass to them.
    sources: Vec<(From, bool)>,
    /// The position of the result in the whole recording. Its inputs have lower positions.
    place: usize,
}

/// The origin of a segment's source.
#[derive(Clone, Copy, Debug)]
pub enum From {
    /// An operand of the program, by position.
    Operand(usize),
    /// Another result, by position.
    Result(usize),
}

impl Segment {
    /// Returns the position of the result in the whole recording.
    pub fn place(&self) -> usize {
        self.place
    }

    /// Returns the sources, and whether gradients pass to each.
    pub fn sources(&self) -> &[(From, bool)] {
        &self.sources
    }
}

impl Recording {
    /// Returns a segment for each result.
    pub fn segments(&self) -> Vec<Segment> {
        (0..self.results.len()).map(|n| self.segment(n)).collect()
    }

    /// Whether gradients from `root` reach a position where `end` returns something.
    fn passes<T>(&self, root: usize, end: &impl Fn(usize) -> Option<T>) -> bool {
        let (mut stack, mut seen) = (vec![root], FxHashSet::default());
        while let Some(place) = stack.pop() {
            if end(place).is_some() {
                return true;
            }
            let Step { inputs, dtype, detached, .. } = &self.steps[place - self.sources];
            if dtype.is_float() && !detached {
                stack.extend(inputs.iter().filter(|&&input| seen.insert(input)));
            }
        }
        false
    }

    fn segment(&self, n: usize) -> Segment {
        let root = self.results[n];
        let end = |place: usize| match place < self.sources {
            true => Some(From::Operand(place)),
            false if place == root => None,
            false => self.results.iter().position(|&result| result == place).map(From::Result),
        };
        let step = |place: usize| &self.steps[place - self.sources];
        if !self.passes(root, &end) {
            return Segment { recording: None, sources: Vec::new(), place: root };
        }
        // The needed positions, and whether gradients pass each of them.
        let mut needed: BTreeMap<usize, bool> = BTreeMap::from([(root, true)]);
        let mut open = BTreeSet::from([root]);
        while let Some(place) = open.pop_last() {
            if end(place).is_some() {
                continue;
            }
            let Step { inputs, dtype, detached, .. } = step(place);
            let passes = needed[&place] && dtype.is_float() && !detached;
            for &input in inputs {
                *needed.entry(input).or_default() |= passes;
                open.insert(input);
            }
        }
        let (mut sources, mut moved) = (Vec::new(), FxHashMap::default());
        for (&place, &passes) in &needed {
            if let Some(from) = end(place) {
                moved.insert(place, sources.len());
                sources.push((from, passes));
            }
        }
        let mut steps = Vec::new();
        for &place in needed.keys().filter(|&&place| end(place).is_none()) {
            moved.insert(place, sources.len() + steps.len());
            let mut copy = step(place).clone();
            copy.inputs.iter_mut().for_each(|input| *input = moved[input]);
            let ends = copy.checkpoint.take();
            copy.checkpoint =
                ends.map(|ends| ends.iter().filter_map(|end| moved.get(end).copied()).collect());
            steps.push(copy);
        }
        let recording = Recording { sources: sources.len(), steps, results: vec![moved[&root]] };
        Segment { recording: Some(Arc::new(recording)), sources, place: root }
    }
}

impl Graph {
    /// Captures the operations that computed `results` since sequence number `since`. Returns them with their sources: data,
    /// and older nodes.
    pub fn recording(&self, results: &[NodeId], since: u64) -> (Recording, Vec<NodeId>) {
        let is_source = |id: NodeId| {
            let node = self.node(id);
            id.seq < since || node.is_materialized || node.op == Op::Source
        };
        let (mut sources, mut order) = (Vec::new(), Vec::new());
        let mut seen: FxHashMap<NodeId, ()> = FxHashMap::default();
        let mut stack: Vec<(NodeId, usize)> = results.iter().rev().map(|&id| (id, 0)).collect();
        while let Some((id, next)) = stack.pop() {
            if seen.contains_key(&id) {
                continue;
            }
            if is_source(id) {
                seen.insert(id, ());
                sources.push(id);
                continue;
            }
            if let Some(&input) = self.node(id).inputs.get(next) {
                stack.push((id, next + 1));
                stack.push((input, 0));
                continue;
            }
            seen.insert(id, ());
            order.push(id);
        }
        if order.iter().any(|&id| self.node(id).is_rematerialized) {
            // The order in which it was recorded needs less memory (`sort_by_recording`).
            sorted::by_key(&mut order, |id| id.seq);
        }
        let all = sources.iter().chain(&order).enumerate();
        let places: FxHashMap<NodeId, usize> = all.map(|(place, &id)| (id, place)).collect();
        let known = |ids: &[NodeId]| ids.iter().filter_map(|id| places.get(id).copied()).collect();
        let step = |&id: &NodeId| {
            let node = self.node(id);
            Step {
                op: node.op.clone(),
                inputs: node.inputs.iter().map(|input| places[input]).collect(),
                shape: node.shape,
                dtype: node.dtype,
                scalar: node.scalar,
                detached: node.is_detached,
                is_rematerialized: node.is_rematerialized,
                pullback: node.pullback.clone(),
                checkpoint: node.checkpoint.as_deref().map(known),
            }
        };
        let recording = Recording {
            sources: sources.len(),
            steps: order.iter().map(step).collect(),
            results: results.iter().map(|result| places[result]).collect(),
        };
        (recording, sources)
    }

    /// Records a recording again on these sources. Returns its results, and all nodes that were recorded, which the caller
    /// holds.
    pub fn play(&mut self, recording: &Recording, sources: &[NodeId]) -> [Vec<NodeId>; 2] {
        let mut nodes = sources[..recording.sources].to_vec();
        for step in &recording.steps {
            let inputs = step.inputs.iter().map(|&place| nodes[place]).collect();
            let id = self.insert(step.op.clone(), inputs, step.shape, step.dtype, step.scalar);
            let ends = |places: &Vec<usize>| places.iter().map(|&place| nodes[place]).collect();
            let checkpoint = step.checkpoint.as_ref().map(ends);
            let node = self.node_mut(id);
            (node.pullback, node.checkpoint) = (step.pullback.clone(), checkpoint);
            node.is_rematerialized = step.is_rematerialized;
            if step.detached {
                self.detach(id);
            }
            nodes.push(id);
        }
        let results = recording.results.iter().map(|&place| nodes[place]).collect();
        [results, nodes.split_off(recording.sources)]
    }

    /// Returns for each node the uncomputed node behind its reshapes to the same shape. No node is returned twice.
    pub fn behind_reshapes(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut known: FxHashSet<NodeId> = nodes.iter().copied().collect();
        let one = |&id: &NodeId| {
            let mut id = id;
            while let (Op::Reshape(shape), &[input]) =
                (&self.node(id).op, &self.node(id).inputs[..])
            {
                let from = self.node(input);
                if from.shape != *shape || from.is_materialized || !known.insert(input) {
                    break;
                }
                id = input;
            }
            id
        };
        nodes.iter().map(one).collect()
    }

    /// Records a result of a program that is about to run. Gradients pass the result by playing its segment again on these
    /// sources.
    pub fn result(
        &mut self,
        segment: &Segment,
        sources: &[NodeId],
        (shape, dtype): (Shape, DType),
    ) -> NodeId {
        let id = self.insert(Op::Source, sources.into(), shape, dtype, 0);
        let node = self.node_mut(id);
        (node.recording, node.is_materialized) = (segment.recording.clone(), false);
        self.notify_changed(&[id]);
        id
    }

    /// Returns the segment of a program's result. `None` for other nodes.
    pub fn recorded(&self, id: NodeId) -> Option<Arc<Recording>> {
        self.node(id).recording.clone()
    }
}
