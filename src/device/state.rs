//! What changes on a device: the recorded graph, buffers, plans.

use super::pool::{Held, Pool};
use crate::backend::{Backend, CacheLimits};
use crate::error::{Error, Result};
use crate::graph::{Graph, NodeId, Taken, Trace, Traced};
use crate::kernel::{Batch, Limits, Place, Variants};
use crate::lru::Lru;
use crate::plan::{cheap, plan};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

pub(super) struct State {
    pub graph: Graph,
    pub buffers: HashMap<NodeId, Held>,
    pub pool: Pool,
    pub plans: Lru<Arc<Trace>, Arc<Batch>>,
    /// How much of plans and vacant buffers is kept.
    pub limits: CacheLimits,
    /// Plans made so far.
    pub made: u64,
    /// What was submitted last.
    pub latest: Option<Arc<Batch>>,
    /// The kernels to plan for, where others were chosen than the backend's.
    pub variants: Option<Variants>,
    /// Each operation runs as it is recorded.
    pub eager: bool,
}

/// A plan, with the nodes and numbers that it is to be run with.
pub(crate) struct Prepared {
    pub batch: Arc<Batch>,
    pub sources: Vec<NodeId>,
    pub scalars: Vec<u32>,
}

impl Default for State {
    fn default() -> State {
        let limits = CacheLimits::default();
        State {
            graph: Graph::default(),
            buffers: HashMap::new(),
            pool: Pool::new(limits.pooled_bytes),
            plans: Lru::default(),
            limits,
            made: 0,
            latest: None,
            variants: None,
            eager: false,
        }
    }
}

/// About how many bytes a plan takes, with the trace that it is found by.
fn size_of_plan(trace: &Trace, batch: &Batch) -> u64 {
    let traced = trace.nodes.len() * (size_of::<Traced>() + 2 * size_of::<usize>());
    (traced + batch.size()) as u64
}

pub(super) fn no_data() -> Error {
    Error::data("read: an input of a program has no data outside of it")
}

impl State {
    /// Those that are not computed yet, each once.
    pub fn pending(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut seen = HashSet::new();
        let mut pending = nodes.to_vec();
        pending.retain(|&node| !self.graph.is_source(node) && seen.insert(node));
        pending
    }

    /// Whether all that `nodes` are computed from is there.
    pub fn has_data(&mut self, nodes: &[NodeId]) -> bool {
        let sources = self.graph.trace(nodes).sources;
        sources.iter().all(|source| self.buffers.contains_key(source))
    }

    /// These sources are gone: their buffers are free.
    pub fn reclaim(&mut self, backend: &dyn Backend, sources: Vec<NodeId>) {
        for source in sources {
            if let Some(held) = self.buffers.remove(&source) {
                self.pool.give(backend, held);
            }
        }
    }

    /// The plan of what `nodes` need.
    pub fn prepare(&mut self, nodes: &[NodeId], backend: &dyn Backend) -> Result<Prepared> {
        let Taken { trace, sources, scalars, .. } = self.graph.trace(nodes);
        Ok(Prepared { batch: self.planned(trace, backend)?, sources, scalars })
    }

    /// A plan from the cache, or a new one.
    fn planned(&mut self, trace: Trace, backend: &dyn Backend) -> Result<Arc<Batch>> {
        if let Some(batch) = self.plans.get(&trace) {
            return Ok(batch.clone());
        }
        let limits = backend.limits();
        let variants = self.variants.unwrap_or(limits.variants);
        let batch = Arc::new(plan(&trace, &Limits { variants, ..limits.clone() })?);
        self.made += 1;
        let bytes = size_of_plan(&trace, &batch);
        self.plans.insert(Arc::new(trace), batch.clone(), bytes);
        self.shrink_plans(backend);
        Ok(batch)
    }

    /// Computes `nodes`, in one submission; with them what would otherwise be computed a third time.
    pub fn compute(&mut self, nodes: &[NodeId], backend: &dyn Backend) -> Result<()> {
        let mut taken = self.graph.trace(nodes);
        if !taken.sources.iter().all(|source| self.buffers.contains_key(source)) {
            return Err(no_data());
        }
        self.graph.write_repeated(&mut taken, cheap);
        let trace = std::mem::take(&mut taken.trace);
        let mut written = Vec::with_capacity(trace.outputs.len());
        for &output in &trace.outputs {
            written.push(taken.nodes[output]);
        }
        let batch = self.planned(trace, backend)?;
        let outputs = self.submit(backend, &batch, &taken.sources, &taken.scalars)?;
        self.graph.remember(&taken);
        for (node, held) in written.into_iter().zip(outputs) {
            self.buffers.insert(node, held);
            let freed = self.graph.materialise(node);
            self.reclaim(backend, freed);
        }
        Ok(())
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

    fn give_all(&mut self, backend: &dyn Backend, buffers: &[Held]) {
        for &held in buffers {
            self.pool.give(backend, held);
        }
    }

    /// Runs a batch; the results' buffers.
    pub fn submit(
        &mut self,
        backend: &dyn Backend,
        batch: &Arc<Batch>,
        sources: &[NodeId],
        scalars: &[u32],
    ) -> Result<Vec<Held>> {
        self.pool.called(backend);
        let mut inputs: Vec<Held> = Vec::with_capacity(sources.len());
        for source in sources {
            inputs.push(*self.buffers.get(source).ok_or_else(no_data)?);
        }
        let mut taken: Vec<Held> = Vec::new();
        for &bytes in batch.outputs.iter().chain(&batch.temporaries) {
            match self.pool.take(backend, bytes) {
                Ok(held) => taken.push(held),
                Err(error) => {
                    self.give_all(backend, &taken);
                    return Err(error);
                }
            }
        }
        let mut buffers = Vec::with_capacity(batch.slots.len());
        for slot in &batch.slots {
            let held = match slot.place {
                Place::Input(n) => inputs[n],
                Place::Output(n) => taken[n],
                Place::Temporary(n) => taken[batch.outputs.len() + n],
            };
            buffers.push(held.buffer);
        }
        let ran = backend.run(batch, &buffers, scalars);
        self.give_all(backend, &taken[batch.outputs.len()..]);
        taken.truncate(batch.outputs.len());
        if let Err(error) = ran {
            self.give_all(backend, &taken);
            return Err(error);
        }
        self.latest = Some(batch.clone());
        Ok(taken)
    }
}

/// A plan is not kept any more. A program that runs it still keeps what the backend made of it, too.
fn forget(backend: &dyn Backend, plan: &Arc<Batch>) {
    if Arc::strong_count(plan) == 1 {
        backend.forget(plan);
    }
}
