//! What changes on a device: the recorded graph, buffers, plans.

use super::pool::{Held, Pool};
use crate::backend::Backend;
use crate::error::{Error, Result};
use crate::graph::{Graph, NodeId, Taken, Trace};
use crate::kernel::{Batch, Limits, Place, Variants};
use crate::plan::plan;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Default)]
pub(super) struct State {
    pub graph: Graph,
    pub buffers: HashMap<NodeId, Held>,
    pub pool: Pool,
    plans: HashMap<Trace, Arc<Batch>>,
    /// How many nodes were recorded when everything was submitted last.
    pub flushed: u64,
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

/// Plans kept; beyond that the cache starts anew, which costs planning again and nothing else.
const PLANS: usize = 512;

pub(super) fn no_data() -> Error {
    Error::data("read: an input of a program has no data outside of it")
}

impl State {
    /// Those that are not computed yet, each once.
    pub fn pending(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut pending: Vec<NodeId> = Vec::with_capacity(nodes.len());
        for &node in nodes {
            if !self.graph.is_source(node) && !pending.contains(&node) {
                pending.push(node);
            }
        }
        pending
    }

    /// Whether all that `nodes` are computed from is there.
    pub fn has_data(&self, nodes: &[NodeId]) -> bool {
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

    /// The plan of what `nodes` need, from the cache or new.
    pub fn prepare(&mut self, nodes: &[NodeId], backend: &dyn Backend) -> Result<Prepared> {
        let Taken { trace, sources, scalars } = self.graph.trace(nodes);
        if let Some(batch) = self.plans.get(&trace) {
            return Ok(Prepared { batch: batch.clone(), sources, scalars });
        }
        let limits = backend.limits();
        let variants = self.variants.unwrap_or(limits.variants);
        let batch = Arc::new(plan(&trace, &Limits { variants, ..limits.clone() })?);
        self.made += 1;
        if self.plans.len() >= PLANS {
            self.forget_plans(backend);
        }
        self.plans.insert(trace, batch.clone());
        Ok(Prepared { batch, sources, scalars })
    }

    /// What is planned from now on is planned anew.
    pub fn forget_plans(&mut self, backend: &dyn Backend) {
        for (_, old) in self.plans.drain() {
            backend.forget(&old);
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
