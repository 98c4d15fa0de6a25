//! Counters of a device: what it has made, and what it holds.

use super::Device;

/// Counters of a device. Counts of things made or evicted only grow. In a loop that has settled, `plans`, `pipelines` and
/// `buffers` stay constant. The cache limits ([`Device::set_cache_limits`]) determine how much is held.
#[cfg_attr(feature = "js", warpweft_macros::js(result))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Plans made.
    pub plans: u64,
    /// Plans held now.
    pub plans_held: u64,
    /// The approximate bytes of the held plans.
    pub plan_bytes: u64,
    /// Plans evicted because the cache was full.
    pub plans_evicted: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Pipelines held now.
    pub pipelines_held: u64,
    /// Pipelines evicted because the cache was full.
    pub pipelines_evicted: u64,
    /// Buffers allocated.
    pub buffers: u64,
    /// Buffers evicted because too many bytes were unused.
    pub buffers_evicted: u64,
    /// Bind groups made.
    pub bind_groups: u64,
    /// Bind groups held now.
    pub bind_groups_held: u64,
    /// Bind groups evicted because the cache was full.
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
    /// Live recorded nodes: tensors, and the nodes that they still need.
    pub nodes: u64,
}

#[cfg_attr(feature = "js", warpweft_macros::js(only(stats)))]
impl Device {
    /// Returns the counters and the memory use.
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

/// The least growth, in bytes, that is reported to the JavaScript garbage collector.
#[cfg(feature = "js")]
const MUCH: u64 = 64 << 20;

#[cfg(feature = "js")]
impl Device {
    /// Returns the approximate bytes by which tensors and their history have grown since the last report. `None` if the growth
    /// is small.
    pub(crate) fn grown(&self) -> Option<u64> {
        let mut state = self.state();
        let (held, reported) = (state.graph.bytes() + state.pool.used, state.reported_bytes);
        let much = held > reported + MUCH.max(reported / 4);
        if much || held < reported {
            state.reported_bytes = held;
        }
        much.then(|| held - reported)
    }
}
