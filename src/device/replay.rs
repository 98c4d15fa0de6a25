//! Runs of compiled programs.

use super::compute::RunGuard;
use super::Device;
use crate::debug::{shows, Debug};
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::{From, NodeId, Segment};
use crate::kernel::Plan;
use crate::shape::Shape;
use crate::sorted;
use std::sync::Arc;

/// A program run in progress. No other batch runs meanwhile, so no thread sees that the results have no data yet.
pub(crate) struct Replay<'a> {
    device: &'a Device,
    _turn: RunGuard<'a>,
    results: Vec<NodeId>,
}

impl Device {
    /// Begins a run. Creates nodes for the results of a program, which the caller holds. `segments` describe how each result is
    /// computed from `operands`, for gradients. The sources of the program are computed first.
    pub(crate) fn replay(
        &self,
        sources: &[NodeId],
        (segments, operands): (&[Segment], &[NodeId]),
        kinds: &[(Shape, DType)],
    ) -> Result<Replay<'_>> {
        let turn = self.run_guard();
        self.evaluate(&turn, self.state(), sources)?;
        let mut state = self.state();
        state.graph.check_room("program")?;
        let backend = &*self.inner.backend;
        // A result comes after the results that it is computed from.
        let mut order: Vec<usize> = (0..kinds.len()).collect();
        sorted::by_key(&mut order, |&n| segments[n].place());
        let mut results: Vec<Option<NodeId>> = vec![None; kinds.len()];
        for n in order {
            let (mut from, mut detached) = (Vec::new(), Vec::new());
            for &(source, passes) in segments[n].sources() {
                let node = match source {
                    From::Operand(n) => operands[n],
                    From::Result(n) => results[n].expect("it was made before"),
                };
                if !passes {
                    let alias = state.alias(node, backend)?;
                    state.graph.detach(alias);
                    detached.push(alias);
                }
                from.push(if passes { node } else { detached[detached.len() - 1] });
            }
            results[n] = Some(state.graph.result(&segments[n], &from, kinds[n]));
            for alias in detached {
                state.graph.release(alias);
            }
        }
        state.reclaim(backend);
        drop(state);
        let results = results.into_iter().flatten().collect();
        Ok(Replay { device: self, _turn: turn, results })
    }
}

impl Replay<'_> {
    /// Returns the nodes of the results.
    pub fn results(&self) -> &[NodeId] {
        &self.results
    }

    /// Whether a result may overwrite an operand. One tensor must hold the operand, and only the results may use it.
    pub fn may_take(&self, operand: NodeId) -> bool {
        let state = self.device.state();
        let held = state.buffers.get(&operand);
        !state.eager
            && !shows(Debug::NoDonation)
            && held.is_some_and(|held| held.is_own() && Arc::strong_count(held) == 1)
            && state.graph.is_only_for(operand, &self.results)
    }

    /// Runs a plan with these sources and scalars. A result that the plan writes in place takes the buffer of its source.
    pub fn run(self, (batch, scalars): (&Arc<Plan>, &[u32]), sources: &[NodeId]) -> Result<()> {
        if self.results.is_empty() {
            return Ok(());
        }
        let device = self.device;
        let state = device.state();
        let inputs = state.buffers_of(sources)?;
        let (mut state, ran) =
            device.run_unlocked(state, &inputs, || Ok((batch.clone(), scalars)), None)?;
        let backend = &*device.inner.backend;
        for (n, held) in state.memory_of(ran, sources) {
            let Some(held) = held else { continue };
            let mut filled = state.graph.waiting_aliases(self.results[n]);
            filled.push(self.results[n]);
            state.fill(self.results[n], held, backend);
            // Like a newly recorded operation, the result keeps its history until it is requested.
            filled.retain(|&node| !state.graph.is_freed(node));
            filled.into_iter().for_each(|node| state.graph.mark_eager(node));
        }
        state.collect_garbage(backend);
        Ok(())
    }
}
