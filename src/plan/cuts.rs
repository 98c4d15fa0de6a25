//! Where a chain that is too long for one kernel is cut. Steps of a loop are cut at the same place in the step, so that the
//! kernels between are equal and are compiled once.

use crate::graph::Trace;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};

/// Operations one kernel may stand for: an unbounded chain would become a shader too large to compile.
pub const OPERATIONS_PER_KERNEL: usize = 200;
/// The same times the loops over a row. Each reduction is a loop of its own, and computes again what it needs.
const OPERATIONS_OF_LOOPS: usize = 1024;
/// The same of operations and movement, which costs text, too.
pub const VISITS_PER_KERNEL: usize = 256;
/// The same while nodes are placed: what several kernels compute is visited by each, and not counted then.
const VISITS: usize = VISITS_PER_KERNEL - VISITS_PER_KERNEL / 16;
/// Nodes of the same neighbourhood are the same place in a step: so many operations before it are looked at.
const NEIGHBOURHOOD: usize = 8;

/// How much a kernel computes.
#[derive(Clone, Copy, Default)]
pub struct Size {
    pub visits: usize,
    pub operations: usize,
    pub loops: usize,
}

impl Size {
    /// Both together.
    pub fn and(self, other: Size) -> Size {
        Size {
            visits: self.visits + other.visits,
            operations: self.operations + other.operations,
            loops: self.loops + other.loops,
        }
    }

    /// What there is beyond an earlier size.
    fn since(self, earlier: Size) -> Size {
        Size {
            visits: self.visits - earlier.visits,
            operations: self.operations - earlier.operations,
            loops: self.loops - earlier.loops,
        }
    }

    fn is_too_large(self) -> bool {
        let work = self.operations * (1 + self.loops);
        self.visits > VISITS
            || self.operations > OPERATIONS_PER_KERNEL
            || work > OPERATIONS_OF_LOOPS
    }
}

/// The cuts made so far.
pub struct Cuts<'a> {
    trace: &'a Trace,
    /// Of each node, a hash of its neighbourhood; empty until the first cut.
    neighbourhoods: Vec<u64>,
    /// Those of the nodes that were cut because nothing more fits.
    places: FxHashSet<u64>,
    /// How large the kernel of each root was when such a place was passed last.
    passed: FxHashMap<usize, Size>,
}

impl<'a> Cuts<'a> {
    pub fn new(trace: &'a Trace) -> Cuts<'a> {
        let (neighbourhoods, places, passed) = Default::default();
        Cuts { trace, neighbourhoods, places, passed }
    }

    /// Whether a node of size `own` is computed before the kernel of `root`, which is of `size` without it: it does not fit,
    /// or the next such place in the step before will not.
    pub fn is_cut(&mut self, n: usize, root: usize, size: Size, own: Size) -> bool {
        let together = size.and(own);
        if together.is_too_large() {
            if self.neighbourhoods.is_empty() {
                self.neighbourhoods = neighbourhoods(self.trace);
            }
            self.places.insert(self.neighbourhoods[n]);
            return true;
        }
        if self.places.is_empty() || !self.places.contains(&self.neighbourhoods[n]) {
            return false;
        }
        let step = size.since(self.passed.insert(root, size).unwrap_or_default());
        together.and(step).is_too_large()
    }
}

/// Of each node, a hash of the operations that lead to it.
fn neighbourhoods(trace: &Trace) -> Vec<u64> {
    let own = trace.nodes.iter().map(|node| {
        let mut hasher = FxHasher::default();
        (&node.op, &node.shape, node.dtype).hash(&mut hasher);
        hasher.finish()
    });
    let own: Vec<u64> = own.collect();
    let mut all = own.clone();
    for _ in 0..NEIGHBOURHOOD {
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
