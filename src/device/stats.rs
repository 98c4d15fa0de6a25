//! What a device has made and holds, in numbers.

use super::Device;

/// What a device has made and holds. Counts of what was made or evicted only grow; a loop that has settled leaves `plans`,
/// `pipelines` and `buffers` as they are. How much is held, cache limits say.
#[cfg_attr(feature = "js", warpweft_macros::js(result))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Plans made.
    pub plans: u64,
    /// Those of them that are held now.
    pub plans_held: u64,
    /// About how many bytes these take.
    pub plan_bytes: u64,
    /// Those that were evicted because there were too many.
    pub plans_evicted: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Those of them that are held now.
    pub pipelines_held: u64,
    /// Those that were evicted because there were too many.
    pub pipelines_evicted: u64,
    /// Buffers allocated.
    pub buffers: u64,
    /// Those that were evicted because too many bytes were not in use.
    pub buffers_evicted: u64,
    /// Bind groups made.
    pub bind_groups: u64,
    /// Those of them that are held now.
    pub bind_groups_held: u64,
    /// Those that were evicted because there were too many.
    pub bind_groups_evicted: u64,
    /// Batches submitted.
    pub submits: u64,
    /// Kernels run.
    pub kernels: u64,
    /// Bytes allocated now, used and pooled.
    pub bytes: u64,
    /// Bytes in use now.
    pub used_bytes: u64,
    /// Bytes kept for reuse now.
    pub pooled_bytes: u64,
    /// The most bytes in use at once so far.
    pub peak_bytes: u64,
    /// Recorded nodes alive now: tensors and what they still need.
    pub nodes: u64,
}

#[cfg_attr(feature = "js", warpweft_macros::js(only(stats)))]
impl Device {
    /// Counters and memory.
    pub fn stats(&self) -> Stats {
        let counters = self.inner.backend.counters();
        let mut state = self.state();
        state.collect_garbage(&*self.inner.backend);
        Stats {
            plans: state.plans_created,
            plans_held: state.plans.len() as u64,
            plan_bytes: state.plans.bytes(),
            plans_evicted: state.plans.evicted(),
            pipelines: counters.pipelines,
            pipelines_held: counters.pipelines_held,
            pipelines_evicted: counters.pipelines_evicted,
            buffers: counters.buffers,
            buffers_evicted: state.pool.evicted,
            bind_groups: counters.bind_groups,
            bind_groups_held: counters.bind_groups_held,
            bind_groups_evicted: counters.bind_groups_evicted,
            submits: counters.submits,
            kernels: counters.dispatches,
            bytes: counters.bytes,
            used_bytes: state.pool.used,
            pooled_bytes: state.pool.pooled,
            peak_bytes: state.pool.peak,
            nodes: state.graph.live() as u64,
        }
    }
}

/// Growth by so many bytes is worth telling.
#[cfg(feature = "js")]
const MUCH: u64 = 64 << 20;

#[cfg(feature = "js")]
impl Device {
    /// By about how many bytes what tensors hold has grown, with what they remember, since this was said last; nothing where
    /// that is not much.
    pub(crate) fn grown(&self) -> Option<u64> {
        let mut state = self.state();
        let (held, told) = (state.graph.bytes() + state.pool.used, state.reported_bytes);
        let much = held > told + MUCH.max(told / 4);
        if much || held < told {
            state.reported_bytes = held;
        }
        much.then(|| held - told)
    }
}
