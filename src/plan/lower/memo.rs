//! Memoization of lowering: equal parts of a trace are lowered once.
//!
//! Problem: layers of a network and steps of a loop differ only in the nodes that they read. Lowering each of them separately
//! would repeat the same work.
//!
//! Idea: the kernels of a root depend only on its cone, the nodes from the root down to those that are read from memory. If two
//! cones are equal except for their node numbers, the kernels of the first are reused with the nodes of the second.
//!
//! Cost: collecting and hashing a cone takes linear time in its size. Cones beyond `LARGEST` nodes are not compared.
//!
//! Example: 100 equal steps of a loop. The first step is lowered, and the other 99 only map nodes.

use super::context::LowerError;
use super::kernels;
use crate::graph::{Trace, TraceNode};
use crate::kernel::Limits;
use crate::op::Op;
use crate::plan::fuse::placement::{NodePlacement, Placement};
use crate::plan::planned_kernel::PlannedKernel;
use crate::sorted;
use rustc_hash::{FxHashMap, FxHasher};
use std::hash::{Hash, Hasher};

/// The most nodes of a cone that is stored. Larger cones rarely repeat.
const LARGEST: usize = 1024;

/// The kernels lowered so far, by the hash of their cones.
pub struct Memo<'a> {
    trace: &'a Trace,
    limits: &'a Limits,
    known: FxHashMap<u64, Vec<(Cone, Vec<PlannedKernel>)>>,
    /// The number of cones collected so far.
    cones: usize,
    /// The number of the last cone that contained each node, and the node's position in that cone.
    places: Vec<(usize, u32)>,
}

/// The input of lowering for one root: the nodes from the root down to those that are read from memory.
#[derive(Default)]
struct Cone {
    /// The nodes in trace order.
    nodes: Vec<usize>,
    /// The placement of each node.
    placement: Vec<NodePlacement>,
    /// The positions in the cone of the inputs of computed nodes, concatenated.
    inputs: Vec<u32>,
    /// The number of results that are written along with the root.
    attached: usize,
}

impl<'a> Memo<'a> {
    pub fn new(trace: &'a Trace, limits: &'a Limits) -> Memo<'a> {
        let places = vec![(0, 0); trace.nodes.len()];
        Memo { trace, limits, known: FxHashMap::default(), cones: 0, places }
    }

    /// Returns the kernels that compute `root`, as [`kernels::lower_root`] writes them.
    pub fn lower_root(
        &mut self,
        placement: &Placement<'_>,
        root: usize,
    ) -> Result<Vec<PlannedKernel>, Vec<LowerError>> {
        if matches!(self.trace.nodes[root].op, Op::Shader(_) | Op::Order { .. }) {
            return kernels::lower_root(self.trace, placement, self.limits, root);
        }
        let cone = self.cone(placement, root);
        let key = self.hash(&cone);
        for (known, planned_kernels) in self.known.get(&key).into_iter().flatten() {
            if self.are_equal(known, &cone) {
                let moved = |node| cone.in_place_of(known, node);
                return Ok(planned_kernels.iter().map(|planned| planned.moved(&moved)).collect());
            }
        }
        let planned_kernels = kernels::lower_root(self.trace, placement, self.limits, root)?;
        if cone.nodes.len() <= LARGEST {
            self.known.entry(key).or_default().push((cone, planned_kernels.clone()));
        }
        Ok(planned_kernels)
    }

    /// Collects the cone of `root`. Stops once the cone is too large to be stored.
    fn cone(&mut self, placement: &Placement<'_>, root: usize) -> Cone {
        self.cones += 1;
        self.places[root].0 = self.cones;
        let mut nodes = vec![root];
        let mut next = 0;
        while next < nodes.len().min(LARGEST) {
            let node = nodes[next];
            next += 1;
            if node != root && placement.in_memory[node] {
                continue;
            }
            for &input in &self.trace.nodes[node].inputs {
                if self.places[input].0 != self.cones {
                    self.places[input].0 = self.cones;
                    nodes.push(input);
                }
            }
        }
        if nodes.len() > LARGEST {
            return Cone { nodes, ..Cone::default() };
        }
        sorted::sort(&mut nodes);
        let (marked, attached) =
            (Vec::with_capacity(nodes.len()), placement.attached_to(root).count());
        let mut cone = Cone { nodes, placement: marked, inputs: Vec::new(), attached };
        for (at, &node) in cone.nodes.iter().enumerate() {
            self.places[node].1 = at as u32;
            let mark = placement.of_node(node, root);
            if !mark.read {
                // Inputs are before their users, so their positions are set.
                let inputs = &self.trace.nodes[node].inputs;
                cone.inputs.extend(inputs.iter().map(|&input| self.places[input].1));
            }
            cone.placement.push(mark);
        }
        cone
    }

    fn hash(&self, cone: &Cone) -> u64 {
        let mut hasher = FxHasher::default();
        for (&node, mark) in cone.nodes.iter().zip(&cone.placement) {
            let TraceNode { op, shape, dtype, .. } = &self.trace.nodes[node];
            (mark, shape, dtype).hash(&mut hasher);
            if !mark.read {
                op.hash(&mut hasher);
            }
        }
        (&cone.inputs, cone.attached).hash(&mut hasher);
        hasher.finish()
    }

    /// Whether the kernels of two cones differ only in their nodes.
    fn are_equal(&self, a: &Cone, b: &Cone) -> bool {
        let equal = |((&a, mark), &b): ((&usize, &NodePlacement), &usize)| {
            let (a, b) = (&self.trace.nodes[a], &self.trace.nodes[b]);
            a.shape == b.shape && a.dtype == b.dtype && (mark.read || a.op == b.op)
        };
        let mut nodes = a.nodes.iter().zip(&a.placement).zip(&b.nodes);
        let alike = a.placement == b.placement && a.inputs == b.inputs && a.attached == b.attached;
        alike && nodes.all(equal)
    }
}

impl Cone {
    /// Returns the node of this cone at the position that `node` has in the other cone.
    fn in_place_of(&self, other: &Cone, node: usize) -> usize {
        self.nodes[other.nodes.binary_search(&node).expect("kernels name nodes of their cone")]
    }
}
