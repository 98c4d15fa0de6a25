//! What changes on a device: the recorded graph, buffers, plans.

use super::checks::Check;
use super::pool::{Fit, Held, Pool, Purpose};
use super::profiling::Profiling;
use crate::backend::{Backend, BufferId, CacheLimits};
use crate::debug::{shows, Debug, Place};
use crate::error::{Error, Result};
use crate::graph::{Graph, NodeId, Trace, TraceNode};
use crate::kernel::{KernelConfig, Plan};
use crate::lru::Lru;
use crate::profile::Ceilings;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Nodes that are recorded and wait, at most. A node takes about half a kilobyte.
const MOST_RECORDED: usize = 32_768;
/// Bytes uploaded, at most, that may be there for what waits.
const MOST_UPLOADED: u64 = 256 << 20;

pub(super) struct State {
    pub graph: Graph,
    /// The buffers of data. Aliases share one.
    pub buffers: FxHashMap<NodeId, Arc<Held>>,
    pub pool: Pool,
    pub plans: Lru<Arc<Trace>, Arc<Plan>>,
    /// How much of plans and vacant buffers is kept.
    pub limits: CacheLimits,
    /// Plans made so far.
    pub made: u64,
    /// What was submitted last.
    pub latest: Option<Arc<Plan>>,
    /// The kernels to plan for, where others were chosen than the backend's.
    pub config: Option<KernelConfig>,
    /// How many nodes were recorded when something was computed last.
    pub computed_at: u64,
    /// The nodes that were left when everything recorded was last submitted, or fewer if some were dropped since then.
    pub settled: usize,
    /// Bytes uploaded since then.
    pub uploaded: u64,
    /// Each operation runs as it is recorded.
    pub eager: bool,
    /// Indices are looked at when something is read: these are.
    pub check_indices: bool,
    pub checks: Vec<Check>,
    /// Notes of what the device does, while it is profiled.
    pub profile: Option<Profiling>,
    /// Where tensors were made, while somebody wants to know.
    pub places: FxHashMap<NodeId, Place>,
    /// The most it can do, once that was measured.
    pub ceilings: Option<Ceilings>,
    /// How many bytes tensors held when that was told last.
    #[cfg(feature = "js")]
    pub told: u64,
}

impl Default for State {
    fn default() -> State {
        let limits = CacheLimits::default();
        State {
            graph: Graph::default(),
            buffers: FxHashMap::default(),
            pool: Pool::new(limits.pooled_bytes),
            plans: Lru::default(),
            limits,
            made: 0,
            latest: None,
            config: None,
            computed_at: 0,
            settled: 0,
            uploaded: 0,
            eager: false,
            check_indices: false,
            checks: Vec::new(),
            profile: None,
            places: FxHashMap::default(),
            ceilings: None,
            #[cfg(feature = "js")]
            told: 0,
        }
    }
}

/// About how many bytes a plan takes, with the trace that it is found by.
fn size_of_plan(trace: &Trace, batch: &Plan) -> u64 {
    let traced = trace.nodes.len() * (size_of::<TraceNode>() + 2 * size_of::<usize>());
    (traced + batch.size()) as u64
}

impl State {
    /// Whether so much waits to be submitted that it is to be submitted now.
    pub fn is_full(&mut self) -> bool {
        let live = self.graph.live();
        self.settled = self.settled.min(live);
        live - self.settled > MOST_RECORDED || self.uploaded > MOST_UPLOADED
    }

    /// Those that are still needed and not computed yet, each once.
    pub fn pending(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut seen = FxHashSet::default();
        let mut pending = nodes.to_vec();
        pending.retain(|&node| {
            !self.graph.is_freed(node) && !self.graph.is_materialized(node) && seen.insert(node)
        });
        pending
    }

    /// Whether all that `nodes` are computed from is there.
    pub fn has_data(&mut self, nodes: &[NodeId]) -> bool {
        let sources = self.graph.trace(nodes).sources;
        sources.iter().all(|source| self.buffers.contains_key(source))
    }

    /// The buffers of sources that are gone are free.
    pub fn reclaim(&mut self, backend: &dyn Backend) {
        for source in self.graph.take_freed_sources() {
            if let Some(held) = self.buffers.remove(&source).and_then(Arc::into_inner) {
                self.pool.give(backend, held);
            }
        }
    }

    /// A node was computed: it is data in this buffer from now on, and so are its aliases.
    pub fn fill(&mut self, node: NodeId, held: Arc<Held>, backend: &dyn Backend) {
        let aliases = self.graph.waiting_aliases(node);
        for id in std::iter::once(node).chain(aliases) {
            // An alias whose tensor is gone goes when its operand becomes data.
            if !self.graph.is_freed(id) {
                self.buffers.insert(id, held.clone());
                self.graph.mark_materialized(id);
            }
        }
        drop(held);
        self.reclaim(backend);
    }

    /// A node with the value of another one, in the same memory.
    pub fn alias(&mut self, of: NodeId, backend: &dyn Backend) -> Result<NodeId> {
        let alias = self.graph.alias(of)?;
        if let Some(held) = self.buffers.get(&of).filter(|_| self.graph.is_materialized(alias)) {
            self.buffers.insert(alias, held.clone());
        }
        self.reclaim(backend);
        Ok(alias)
    }

    /// The same when all data has forgotten what is of no use.
    pub fn catch_up(&mut self, backend: &dyn Backend) {
        self.graph.collect_all();
        self.reclaim(backend);
    }

    /// Validates the graph and the buffers of its data, from time to time. Debug builds do it before they compute.
    ///
    /// # Errors
    /// `Data` that says what is wrong.
    pub fn check(&mut self) -> Result<()> {
        if !(cfg!(debug_assertions) || shows(Debug::Check)) || !self.graph.check_is_due() {
            return Ok(());
        }
        self.graph.check()?;
        match self
            .buffers
            .keys()
            .find(|&&id| self.graph.is_freed(id) || !self.graph.is_materialized(id))
        {
            Some(id) => {
                Err(Error::data(format!("graph: a node with a buffer must be data, got {id:?}")))
            }
            None => Ok(()),
        }
    }

    /// The buffers of sources.
    pub fn buffers_of(&self, sources: &[NodeId]) -> Result<Vec<BufferId>> {
        sources.iter().map(|&source| self.buffer_of(source)).collect()
    }

    /// The buffer of a source, which has data.
    pub fn buffer_of(&self, source: NodeId) -> Result<BufferId> {
        let held = self.buffers.get(&source).ok_or_else(|| {
            Error::data(
                "read: the tensor must have data, got an input of a program that is compiled",
            )
        });
        Ok(held?.buffer)
    }

    /// A plan that was made lately.
    pub fn known(&mut self, trace: &Trace) -> Option<Arc<Plan>> {
        self.plans.get(trace).cloned()
    }

    /// Keeps a plan that was made.
    pub fn keep_plan(&mut self, trace: Trace, batch: &Arc<Plan>, backend: &dyn Backend) {
        self.made += 1;
        let bytes = size_of_plan(&trace, batch);
        self.plans.insert(Arc::new(trace), batch.clone(), bytes);
        self.shrink_plans(backend);
    }

    /// Forgets what goes beyond the limits. Whoever holds such a plan can go on running it.
    pub fn shrink_plans(&mut self, backend: &dyn Backend) {
        let CacheLimits { plans, plan_bytes, .. } = self.limits;
        while let Some((_, _, old)) = self.plans.evict(plans.max(1), plan_bytes) {
            forget(backend, &old);
        }
    }

    /// What is planned from now on is planned anew.
    pub fn forget_plans(&mut self, backend: &dyn Backend) {
        for old in self.plans.drain() {
            forget(backend, &old);
        }
    }

    /// Memory for what a batch writes: its results, then what it needs on the way.
    pub fn take_all(&mut self, batch: &Plan, backend: &dyn Backend) -> Result<Vec<Held>> {
        let mut taken: Vec<Held> = Vec::new();
        let results = batch.outputs.iter().map(|&bytes| (bytes, Purpose::Result));
        let others = batch.temporaries.iter().map(|&bytes| (bytes, Purpose::Temporary));
        for (bytes, purpose) in results.chain(others) {
            match self.pool.take(backend, bytes, Fit::Class, purpose) {
                Ok(held) => taken.push(held),
                Err(error) => {
                    self.give_all(&taken, backend);
                    return Err(error);
                }
            }
        }
        self.pool.explain_peak(|| match &batch.dispatches[..] {
            [] => "a batch without kernels".to_string(),
            [first, ..] => {
                format!("a batch of {} kernels from {} on", batch.dispatches.len(), first.label)
            }
        });
        Ok(taken)
    }

    /// These buffers are not needed any more.
    pub fn give_all(&mut self, buffers: &[Held], backend: &dyn Backend) {
        for &held in buffers {
            self.pool.give(backend, held);
        }
    }
}

/// A plan is not kept any more. A program that runs it still keeps what the backend made of it, too.
fn forget(backend: &dyn Backend, plan: &Arc<Plan>) {
    if Arc::strong_count(plan) == 1 {
        backend.forget(plan);
    }
}
