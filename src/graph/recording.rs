//! Recordings: what a program records, apart from any graph, so that it can be recorded again on other operands.
//!
//! A compiled program runs as one batch, and its results are data. A gradient that gets to such a result records the
//! program again, on what that run was given ([`Graph::play`]), and passes the operations as it passes all others. A
//! recording is also what a program is planned from when the variables that it reads have moved to other memory.

use super::{Graph, NodeId, Pullback};
use crate::dtype::DType;
use crate::op::Op;
use crate::shape::Shape;
use rustc_hash::FxHashMap;
use smallvec::{smallvec, SmallVec};
use std::sync::Arc;

/// Operations on sources. A place below `sources` is a source, and the n-th operation has the place `sources + n`.
#[derive(Debug)]
pub struct Recording {
    sources: usize,
    steps: Vec<Step>,
    results: Vec<usize>,
}

/// A recorded operation.
#[derive(Debug)]
struct Step {
    op: Op,
    inputs: SmallVec<[usize; 3]>,
    shape: Shape,
    dtype: DType,
    scalar: u32,
    detached: bool,
    pullback: Option<Arc<Pullback>>,
    checkpoint: Option<Vec<usize>>,
}

/// The place of a run among the results of that run.
const RUN: usize = usize::MAX;

impl Graph {
    /// What `results` were computed by since `since` nodes were recorded, and the sources that it was computed from: data,
    /// and what was recorded before.
    pub fn recording(&self, results: &[NodeId], since: u64) -> (Recording, Vec<NodeId>) {
        let is_source = |id: NodeId| {
            let node = self.node(id);
            id.born < since || node.data || node.op == Op::Source
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
                detached: node.detached,
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
            if step.detached {
                self.detach(id);
            }
            nodes.push(id);
        }
        let results = recording.results.iter().map(|&place| nodes[place]).collect();
        [results, nodes.split_off(recording.sources)]
    }

    /// The results of a run of a program on `sources`: data, which gradients pass by playing `recording` again.
    pub fn results(
        &mut self,
        recording: &Arc<Recording>,
        sources: &[NodeId],
        results: &[(Shape, DType)],
    ) -> Vec<NodeId> {
        // One node between them, or there were as many edges as pairs.
        let run = self.insert(Op::Source, sources.into(), Shape::SCALAR, DType::F32, 0);
        let node = self.node_mut(run);
        (node.data, node.call) = (false, Some((recording.clone(), RUN)));
        let mut nodes = Vec::with_capacity(results.len());
        for (n, &(shape, dtype)) in results.iter().enumerate() {
            let id = self.insert(Op::Source, smallvec![run], shape, dtype, 0);
            let node = self.node_mut(id);
            // As operations that were recorded now, it forgets its past when it was asked for and is not held any more.
            (node.call, node.early) = (Some((recording.clone(), n)), true);
            nodes.push(id);
        }
        self.release(run);
        self.changed(&nodes);
        nodes
    }

    /// Which result of a run of a program the node is, and the run's node.
    pub fn result_of_run(&self, id: NodeId) -> Option<(NodeId, usize)> {
        let node = self.node(id);
        let (_, n) = node.call.as_ref().filter(|(_, n)| *n != RUN)?;
        Some((*node.inputs.first()?, *n))
    }

    /// The recording behind a run of a program, if the node is one.
    pub fn run_of(&self, id: NodeId) -> Option<Arc<Recording>> {
        self.node(id).call.as_ref().filter(|(_, n)| *n == RUN).map(|(all, _)| all.clone())
    }
}
