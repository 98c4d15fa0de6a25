//! The mutable state of a device: the recorded graph, buffers and plans.

use super::checks::Check;
use super::pool::{Fit, Pool, PooledBuffer, Purpose};
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

/// The most recorded nodes before they are submitted. A node takes about half a kilobyte.
const MAX_PENDING_NODES: usize = 32_768;
/// The most bytes uploaded since the last submission before pending work is submitted.
const MAX_PENDING_UPLOAD_BYTES: u64 = 256 << 20;

pub(super) struct State {
    pub graph: Graph,
    /// The buffers of materialized nodes. Aliases share a buffer.
    pub buffers: FxHashMap<NodeId, Arc<PooledBuffer>>,
    pub pool: Pool,
    pub plans: Lru<Arc<Trace>, Arc<Plan>>,
    /// The limits of the plan cache and of pooled buffers.
    pub limits: CacheLimits,
    /// The number of plans made so far.
    pub plans_created: u64,
    /// The plan submitted last.
    pub last_plan: Option<Arc<Plan>>,
    /// The kernel configuration, if it is not the backend's default.
    pub config: Option<KernelConfig>,
    /// The sequence number at the last computation.
    pub computed_at: u64,
    /// The number of live nodes after the last submission, or fewer if some were dropped since.
    pub nodes_at_submit: usize,
    /// Bytes uploaded since the last submission.
    pub uploaded: u64,
    /// Whether each operation runs as it is recorded.
    pub eager: bool,
    /// Whether the next read checks indices ([`Device::check_indices`](super::Device::check_indices)).
    pub check_indices: bool,
    pub checks: Vec<Check>,
    /// The profile in progress.
    pub profile: Option<Profiling>,
    /// The source locations where tensors were made, recorded while `memory` is debugged.
    pub places: FxHashMap<NodeId, Place>,
    /// The measured peak performance of the machine, if it was measured.
    pub ceilings: Option<Ceilings>,
    /// The bytes of tensors that were last reported to the JavaScript garbage collector.
    #[cfg(feature = "js")]
    pub reported_bytes: u64,
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
            plans_created: 0,
            last_plan: None,
            config: None,
            computed_at: 0,
            nodes_at_submit: 0,
            uploaded: 0,
            eager: false,
            check_indices: false,
            checks: Vec::new(),
            profile: None,
            places: FxHashMap::default(),
            ceilings: None,
            #[cfg(feature = "js")]
            reported_bytes: 0,
        }
    }
}

/// Returns the approximate bytes of a plan and of the trace that is its key.
fn size_of_plan(trace: &Trace, batch: &Plan) -> u64 {
    let traced = trace.nodes.len() * (size_of::<TraceNode>() + 2 * size_of::<usize>());
    (traced + batch.size()) as u64
}

impl State {
    /// Whether enough work is pending to submit it now.
    pub fn is_full(&mut self) -> bool {
        let live = self.graph.live();
        self.nodes_at_submit = self.nodes_at_submit.min(live);
        live - self.nodes_at_submit > MAX_PENDING_NODES || self.uploaded > MAX_PENDING_UPLOAD_BYTES
    }

    /// Filters the nodes that are needed and uncomputed, without duplicates.
    pub fn pending(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut seen = FxHashSet::default();
        let mut pending = nodes.to_vec();
        pending.retain(|&node| {
            !self.graph.is_freed(node) && !self.graph.is_materialized(node) && seen.insert(node)
        });
        pending
    }

    /// Whether every source of `nodes` has data.
    pub fn has_data(&mut self, nodes: &[NodeId]) -> bool {
        let sources = self.graph.trace(nodes).sources;
        sources.iter().all(|source| self.buffers.contains_key(source))
    }

    /// Returns the buffers of freed sources to the pool.
    pub fn reclaim(&mut self, backend: &dyn Backend) {
        for source in self.graph.take_freed_sources() {
            if let Some(held) = self.buffers.remove(&source).and_then(Arc::into_inner) {
                self.pool.give(backend, held);
            }
        }
    }

    /// Marks a node as computed, with its value in this buffer. Its waiting aliases get the same buffer.
    pub fn fill(&mut self, node: NodeId, held: Arc<PooledBuffer>, backend: &dyn Backend) {
        let aliases = self.graph.waiting_aliases(node);
        for id in std::iter::once(node).chain(aliases) {
            // An alias without a tensor is freed when its input is materialized.
            if !self.graph.is_freed(id) {
                self.buffers.insert(id, held.clone());
                self.graph.mark_materialized(id);
            }
        }
        drop(held);
        self.reclaim(backend);
    }

    /// Records an alias: a node with the value of another node, in the same memory.
    pub fn alias(&mut self, of: NodeId, backend: &dyn Backend) -> Result<NodeId> {
        let alias = self.graph.alias(of)?;
        if let Some(held) = self.buffers.get(&of).filter(|_| self.graph.is_materialized(alias)) {
            self.buffers.insert(alias, held.clone());
        }
        self.reclaim(backend);
        Ok(alias)
    }

    /// Drops all history that no gradient can use, and returns the freed buffers to the pool.
    pub fn collect_garbage(&mut self, backend: &dyn Backend) {
        self.graph.expire(self.pool.used);
        self.reclaim(backend);
    }

    /// Drops the history of all values that no tensor holds. Returns whether there was any.
    pub fn drop_retired_history(&mut self, backend: &dyn Backend) -> bool {
        let any = self.graph.expire_all();
        self.reclaim(backend);
        any
    }

    /// Validates the graph and the buffers of its data, from time to time. Debug builds do it before they compute.
    ///
    /// # Errors
    /// `InvalidState` that names what is wrong.
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
                Err(Error::state(format!("graph: a node with a buffer must be data, got {id:?}")))
            }
            None => Ok(()),
        }
    }

    /// Returns the buffers of sources.
    pub fn buffers_of(&self, sources: &[NodeId]) -> Result<Vec<BufferId>> {
        sources.iter().map(|&source| self.buffer_of(source)).collect()
    }

    /// Returns the buffer of a source. Fails if the source has no data.
    pub fn buffer_of(&self, source: NodeId) -> Result<BufferId> {
        let held = self.buffers.get(&source).ok_or_else(|| {
            Error::state(
                "read: the tensor must have data, got an input of a program that is compiled",
            )
        });
        Ok(held?.buffer)
    }

    /// Returns the plan from the cache, if there is one.
    pub fn cached_plan(&mut self, trace: &Trace) -> Option<Arc<Plan>> {
        self.plans.get(trace).cloned()
    }

    /// Stores a plan in the cache.
    pub fn keep_plan(&mut self, trace: Trace, batch: &Arc<Plan>, backend: &dyn Backend) {
        self.plans_created += 1;
        let bytes = size_of_plan(&trace, batch);
        self.plans.insert(Arc::new(trace), batch.clone(), bytes);
        self.shrink_plans(backend);
    }

    /// Evicts plans beyond the limits. A program that holds an evicted plan can still run it.
    pub fn shrink_plans(&mut self, backend: &dyn Backend) {
        let CacheLimits { plans, plan_bytes, .. } = self.limits;
        while let Some((_, _, old)) = self.plans.evict(plans.max(1), plan_bytes) {
            release_plan(backend, &old);
        }
    }

    /// Clears the plan cache, so that everything is planned again.
    pub fn clear_plans(&mut self, backend: &dyn Backend) {
        for old in self.plans.drain() {
            release_plan(backend, &old);
        }
    }

    /// Allocates the buffers that a batch writes: its results, followed by its temporaries.
    pub fn take_all(&mut self, batch: &Plan, backend: &dyn Backend) -> Result<Vec<PooledBuffer>> {
        let mut taken: Vec<PooledBuffer> = Vec::new();
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

    /// Returns buffers to the pool.
    pub fn give_all(&mut self, buffers: &[PooledBuffer], backend: &dyn Backend) {
        for &held in buffers {
            self.pool.give(backend, held);
        }
    }
}

/// Drops what the backend prepared for an evicted plan, unless a program still holds the plan.
fn release_plan(backend: &dyn Backend, plan: &Arc<Plan>) {
    if Arc::strong_count(plan) == 1 {
        backend.release(plan);
        plan.parts.iter().for_each(|part| backend.release(part));
    }
}
