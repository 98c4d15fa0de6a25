//! Planning and running batches, one after the other. The slow steps (planning, compiling, running) hold no lock that
//! recording needs.

use super::pool::PooledBuffer;
use super::profiling::Profiling;
use super::stages::OnComputed;
use super::state::State;
use super::Device;
use crate::backend::BufferId;
use crate::debug::{print, shows, spend, Debug};
use crate::error::Result;
use crate::graph::{Capture, CapturePolicy, NodeId, Recording, Trace};
use crate::kernel::{Limits, Plan, SlotStorage};
use crate::plan::{cheap, plan};
use crate::profile::Phase;
use crate::span::span;
use rustc_hash::FxHashSet;
use std::borrow::Cow;
use std::sync::{Arc, MutexGuard, PoisonError};
use web_time::Instant;

/// A plan bound to its arguments: the nodes and numbers that it runs with.
pub(crate) struct BoundPlan {
    pub batch: Arc<Plan>,
    pub sources: Vec<NodeId>,
    pub scalars: Vec<u32>,
}

/// The outputs of a plan that has run, without those updated in place.
pub(super) struct PlanOutputs {
    batch: Arc<Plan>,
    outputs: Vec<PooledBuffer>,
}

impl State {
    /// Returns the buffer of each result of a batch. A result that is updated in place has the buffer of its source.
    pub(super) fn memory_of(
        &mut self,
        ran: PlanOutputs,
        sources: &[NodeId],
    ) -> Vec<(usize, Option<Arc<PooledBuffer>>)> {
        let in_place = ran.batch.in_place.iter();
        let in_place: Vec<(usize, Option<Arc<PooledBuffer>>)> =
            in_place.map(|&(n, input)| (n, self.buffers.remove(&sources[input]))).collect();
        let count = ran.outputs.len() + in_place.len();
        let mut outputs = ran.outputs.into_iter();
        let mut in_place = in_place.into_iter().peekable();
        let one = |n| match in_place.next_if(|&(result, _)| result == n) {
            Some(place) => place,
            None => (n, outputs.next().map(Arc::new)),
        };
        (0..count).map(one).collect()
    }
}

/// A lock guard that serializes batches. Take it before the state lock.
pub(super) type RunGuard<'a> = MutexGuard<'a, ()>;

impl Device {
    /// Takes the lock that serializes batches.
    pub(super) fn run_guard(&self) -> RunGuard<'_> {
        self.inner.run_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Computes `nodes`, and with them the values of variables, because the next step would begin by computing those.
    pub(super) fn evaluate<'a>(
        &'a self,
        guard: &RunGuard<'a>,
        state: MutexGuard<'a, State>,
        nodes: &[NodeId],
    ) -> Result<()> {
        self.evaluate_in_stages(guard, state, nodes, None)
    }

    /// Same as [`Device::evaluate`], and calls `on_computed` for each of `nodes` that was not computed yet.
    pub(super) fn evaluate_in_stages<'a>(
        &'a self,
        guard: &RunGuard<'a>,
        mut state: MutexGuard<'a, State>,
        nodes: &[NodeId],
        mut on_computed: Option<&mut OnComputed<'_>>,
    ) -> Result<()> {
        state.collect_garbage(&*self.inner.backend);
        state.check()?;
        self.ask(&mut state, nodes);
        let asked = state.pending(nodes);
        if asked.is_empty() {
            return Ok(());
        }
        let mut all = asked.clone();
        all.extend(state.graph.uncomputed_variable_values());
        let all = state.pending(&all);
        if all.len() > asked.len() {
            let stages = on_computed.as_mut().map(|call| (asked.len(), &mut **call));
            if self.compute(guard, state, &all, stages).is_ok() {
                return Ok(());
            }
            // A value that was not requested may depend on inputs without data, or be too large. Requesting it returns the
            // error.
            state = self.state();
        }
        let asked = state.pending(&asked);
        self.compute(guard, state, &asked, on_computed.map(|call| (asked.len(), call)))
    }

    /// Computes `nodes` as one batch, and stores the intermediate values that would otherwise be computed a third time. The
    /// function of `stages` is called for each of the first nodes, whose number it has.
    fn compute<'a>(
        &'a self,
        _: &RunGuard<'a>,
        mut state: MutexGuard<'a, State>,
        nodes: &[NodeId],
        stages: Option<(usize, &mut OnComputed<'_>)>,
    ) -> Result<()> {
        state.computed_at = state.graph.count;
        let mut capture = {
            let State { graph, buffers, eager, .. } = &mut *state;
            let is_unshared =
                |held: &Arc<PooledBuffer>| held.is_own() && Arc::strong_count(held) == 1;
            let is_own = |source| buffers.get(&source).is_some_and(is_unshared);
            let is_own: &dyn Fn(NodeId) -> bool = &is_own;
            // If a later part fails, the values that an earlier one has read are still needed.
            let donates = stages.is_none() && !*eager && !shows(Debug::NoDonation);
            let is_own = donates.then_some(is_own);
            graph.capture(nodes, &CapturePolicy { is_cheap: cheap, is_own })
        };
        let inputs = state.buffers_of(&capture.sources)?;
        let mut trace = std::mem::take(&mut capture.trace);
        // Aliases of one node are one result.
        let results = |first: usize| -> FxHashSet<NodeId> {
            nodes[..first].iter().map(|&node| state.graph.computed_by(node)).collect()
        };
        trace.stages = stages.as_ref().map_or(0, |(first, _)| results(*first).len());
        let written: Vec<NodeId> = trace.outputs.iter().map(|&n| capture.nodes[n]).collect();
        let prepare = || Ok((self.plan_for(trace)?, capture.scalars.as_slice()));
        let mut computed = stages.map(|(_, call)| |n: usize, buffer| call(written[n], buffer));
        let computed = computed.as_mut().map(|call| call as &mut dyn FnMut(usize, BufferId));
        let (mut state, ran) = self.run_unlocked(state, &inputs, prepare, computed)?;
        state.graph.mark_computed(&capture);
        // All buffers are taken before a result releases its operands.
        for (n, held) in state.memory_of(ran, &capture.sources) {
            // The last handle may have been dropped meanwhile, and with it the buffer for an in-place result.
            let Some(held) = held else { continue };
            let node = written[n];
            if !state.graph.is_freed(node) {
                state.fill(node, held, &*self.inner.backend);
            } else if let Some(held) = Arc::into_inner(held) {
                state.pool.give(&*self.inner.backend, held);
            }
        }
        state.collect_garbage(&*self.inner.backend);
        Ok(())
    }

    /// Returns the plan for computing `nodes`, without running it.
    pub(crate) fn plan_of(&self, nodes: &[NodeId]) -> Result<Arc<Plan>> {
        let Capture { trace, .. } = self.state().graph.trace(nodes);
        self.plan_for(trace)
    }

    /// Returns the recording that computes `nodes` from nodes with sequence numbers below `since`, and its sources.
    pub(crate) fn recording(&self, nodes: &[NodeId], since: u64) -> (Recording, Vec<NodeId>) {
        self.state().graph.recording(nodes, since)
    }

    /// Records a recording again on these operands. Returns its results, which the caller holds.
    pub(crate) fn play(&self, recording: &Recording, operands: &[NodeId]) -> Result<Vec<NodeId>> {
        let mut state = self.state();
        state.graph.check_room("program")?;
        let [results, recorded] = state.graph.play(recording, operands);
        for &node in &results {
            state.graph.retain(node);
        }
        for node in recorded {
            state.graph.release(node);
        }
        state.reclaim(&*self.inner.backend);
        Ok(results)
    }

    /// Plans a recording on these operands. `donated` has pairs `(result, operand)` where the result may take the operand's
    /// memory.
    pub(crate) fn prepare(
        &self,
        recording: &Recording,
        operands: &[NodeId],
        donated: impl Iterator<Item = (usize, usize)>,
    ) -> Result<BoundPlan> {
        let Capture { trace, sources, scalars, .. } = {
            let mut state = self.state();
            let [results, recorded] = state.graph.play(recording, operands);
            let results = state.graph.behind_reshapes(&results);
            let mut capture = state.graph.trace(&results);
            let donated = donated.map(|(n, operand)| (results[n], operands[operand]));
            state.graph.donate_sources(&mut capture, donated);
            for node in recorded {
                state.graph.release(node);
            }
            state.reclaim(&*self.inner.backend);
            capture
        };
        Ok(BoundPlan { batch: self.plan_for(trace)?, sources, scalars })
    }

    /// Returns a plan from the cache, or makes and caches one.
    fn plan_for(&self, trace: Trace) -> Result<Arc<Plan>> {
        let config = {
            let mut state = self.state();
            if let Some(batch) = state.cached_plan(&trace) {
                return Ok(batch);
            }
            state.config.unwrap_or(self.limits().config)
        };
        if shows(Debug::Graph) {
            print(format_args!("{trace}\n"));
        }
        let label = || format!("planning {} nodes", trace.nodes.len());
        let batch = self.noting(Phase::Plan, label, || {
            span!("plan", nodes = trace.nodes.len());
            plan(&trace, &Limits { config, ..self.limits().clone() })
        })?;
        let batch = Arc::new(batch);
        self.print_plan(&batch);
        self.state().keep_plan(trace, &batch, &*self.inner.backend);
        Ok(batch)
    }

    /// Prints a plan and its kernels if `WARPWEFT_DEBUG` requests them.
    fn print_plan(&self, batch: &Plan) {
        if shows(Debug::Plan) {
            print(format_args!("{batch}"));
        }
        if shows(Debug::Kernel) {
            for (n, dispatch) in batch.dispatches.iter().enumerate() {
                let text = self.kernel_source(batch, n);
                let text =
                    text.as_deref().unwrap_or("the CPU runs it as it is: there is no text\n");
                print(format_args!("#{n} {} {}\n{text}", dispatch.kernel.kind(), dispatch.label));
            }
        }
    }

    /// Plans and runs a batch with the state unlocked, and returns the buffers of its results. Meanwhile the pool neither frees
    /// nor reuses released buffers, because they may be inputs of the batch.
    pub(super) fn run_unlocked<'a, 's>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        inputs: &[BufferId],
        prepare: impl FnOnce() -> Result<(Arc<Plan>, &'s [u32])>,
        computed: Option<&mut dyn FnMut(usize, BufferId)>,
    ) -> Result<(MutexGuard<'a, State>, PlanOutputs)> {
        state.pool.hold();
        drop(state);
        let ran = prepare().and_then(|(batch, scalars)| {
            let outputs = self.submit_batch(&batch, inputs, scalars, computed)?;
            Ok(PlanOutputs { batch, outputs })
        });
        let mut state = self.state();
        state.pool.release_held(&*self.inner.backend);
        state.graph.count_batch();
        ran.map(|ran| (state, ran))
    }

    /// Runs a batch, and returns the buffers of its results.
    fn submit_batch(
        &self,
        batch: &Arc<Plan>,
        inputs: &[BufferId],
        scalars: &[u32],
        computed: Option<&mut dyn FnMut(usize, BufferId)>,
    ) -> Result<Vec<PooledBuffer>> {
        let backend = &*self.inner.backend;
        let mut taken = {
            let mut state = self.state();
            state.pool.called(backend);
            state.take_all(batch, backend)?
        };
        let mut buffers = Vec::with_capacity(batch.slots.len());
        for slot in &batch.slots {
            buffers.push(match slot.storage {
                SlotStorage::Input(n) => inputs[n],
                SlotStorage::Output(n) => taken[n].buffer,
                SlotStorage::Temporary(n) => taken[batch.outputs.len() + n].buffer,
            });
        }
        let scalars = match &batch.constants[..] {
            [] => Cow::Borrowed(scalars),
            constants => Cow::Owned([scalars, constants].concat()),
        };
        let ran = match computed {
            None => self.run_timed(batch, &buffers, &scalars),
            Some(computed) => batch.parts.iter().enumerate().try_for_each(|(n, part)| {
                if !part.dispatches.is_empty() {
                    self.run_timed(part, &buffers, &scalars)?;
                }
                if n + 1 < batch.parts.len() {
                    let storage = batch.storage_of_result(n);
                    let slot = batch.slots.iter().position(|slot| slot.storage == storage);
                    slot.into_iter().for_each(|slot| computed(n, buffers[slot]));
                }
                Ok(())
            }),
        };
        let mut state = self.state();
        state.give_all(&taken[batch.outputs.len()..], backend);
        taken.truncate(batch.outputs.len());
        if let Err(error) = ran {
            state.give_all(&taken, backend);
            return Err(error);
        }
        state.last_plan = Some(batch.clone());
        Ok(taken)
    }

    /// Runs a plan with these buffers and numbers, and notes how long it took to submit it.
    fn run_timed(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        self.compile_apart(batch);
        let begun = Instant::now();
        let ran = {
            span!("submit", kernels = batch.dispatches.len());
            self.inner.backend.run(batch, buffers, scalars)
        };
        spend(begun.elapsed());
        if let (Ok(()), Some(Profiling { recorder, .. })) = (&ran, &mut self.state().profile) {
            recorder.submitted(batch, begun);
        }
        ran
    }
}
