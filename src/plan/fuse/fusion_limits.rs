//! Fusion limits: where a chain of operations that is too long for one kernel is cut.
//!
//! Problem: an unrolled loop is a chain of any length. Cutting it every N operations would cut each iteration at a different
//! place. No two kernels would be equal, so each would be compiled.
//!
//! Idea: once a node is cut because the kernel is full, later nodes with the same neighborhood are cut as well. An exception is
//! a node whose successor with that neighborhood still fits. Two nodes have the same neighborhood if the `HASH_DEPTH`
//! operations before them match.
//!
//! Cost: the hashes are computed at the first cut only, in time linear in the trace.
//!
//! Example: 100 iterations of 60 operations, at 200 operations per kernel, become kernels of three whole iterations each.

use crate::graph::Trace;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

/// The most operations in one kernel. Larger shaders take too long to compile.
pub const MAX_OPERATIONS_PER_KERNEL: usize = 200;
/// The most operations times loops over a row in one kernel. Each reduction is a separate loop that recomputes its operands.
const MAX_OPERATIONS_TIMES_LOOPS: usize = 1024;
/// The most nodes in one kernel, operations and movement, because both become shader text.
pub const MAX_NODES_PER_KERNEL: usize = 256;
/// The most nodes while nodes are placed. A node that several kernels compute counts once here, hence the margin.
const MAX_NODES: usize = MAX_NODES_PER_KERNEL - MAX_NODES_PER_KERNEL / 16;
/// The depth of neighborhood hashes. Nodes whose last 8 producing operations match are treated as the same position in a
/// loop body.
const HASH_DEPTH: usize = 8;

/// The size of a kernel.
#[derive(Clone, Copy, Default)]
pub struct KernelSize {
    pub nodes: usize,
    pub operations: usize,
    pub loops: usize,
}

impl KernelSize {
    /// Returns the sum of two sizes.
    pub fn and(self, other: KernelSize) -> KernelSize {
        KernelSize {
            nodes: self.nodes + other.nodes,
            operations: self.operations + other.operations,
            loops: self.loops + other.loops,
        }
    }

    /// Returns the growth since an earlier size.
    fn since(self, earlier: KernelSize) -> KernelSize {
        KernelSize {
            nodes: self.nodes - earlier.nodes,
            operations: self.operations - earlier.operations,
            loops: self.loops - earlier.loops,
        }
    }

    fn is_too_large(self) -> bool {
        let work = self.operations * (1 + self.loops);
        self.nodes > MAX_NODES
            || self.operations > MAX_OPERATIONS_PER_KERNEL
            || work > MAX_OPERATIONS_TIMES_LOOPS
    }
}

/// The fusion limits, with the cuts made so far.
pub struct FusionLimits<'a> {
    trace: &'a Trace,
    /// The neighborhood hash of each node. Empty until the first cut.
    hashes: Vec<u64>,
    /// The hashes of nodes that were cut because their kernel was full.
    cut_hashes: FxHashSet<u64>,
    /// The size of each root's kernel at the last node with one of these hashes.
    size_at_last_cut: FxHashMap<usize, KernelSize>,
}

impl<'a> FusionLimits<'a> {
    pub fn new(trace: &'a Trace) -> FusionLimits<'a> {
        let (neighbourhoods, places, passed) = Default::default();
        FusionLimits { trace, hashes: neighbourhoods, cut_hashes: places, size_at_last_cut: passed }
    }

    /// Whether a node of size `own` is stored before the kernel of `root`, which has `size` without it. Either the node does
    /// not fit, or the next node at the same position in the loop body will not.
    pub fn is_cut(&mut self, n: usize, root: usize, size: KernelSize, own: KernelSize) -> bool {
        let together = size.and(own);
        if together.is_too_large() {
            if self.hashes.is_empty() {
                self.hashes = neighborhood_hashes(self.trace);
            }
            self.cut_hashes.insert(self.hashes[n]);
            return true;
        }
        if self.cut_hashes.is_empty() || !self.cut_hashes.contains(&self.hashes[n]) {
            return false;
        }
        let step = size.since(self.size_at_last_cut.insert(root, size).unwrap_or_default());
        together.and(step).is_too_large()
    }
}

/// Computes for each node a hash of the operations that lead to it.
fn neighborhood_hashes(trace: &Trace) -> Vec<u64> {
    let own = trace.nodes.iter().map(|node| {
        let mut hasher = FxHasher::default();
        (&node.op, &node.shape, node.dtype).hash(&mut hasher);
        hasher.finish()
    });
    let own: Vec<u64> = own.collect();
    let mut all = own.clone();
    for _ in 0..HASH_DEPTH {
        let wider = trace.nodes.iter().zip(&own).map(|(node, own)| {
            let mut hasher = FxHasher::default();
            own.hash(&mut hasher);
            node.inputs.iter().for_each(|&input| all[input].hash(&mut hasher));
            hasher.finish()
        });
        all = wider.collect();
    }
    all
}
