//! Limits of a device: how much its caches keep, and how much memory tensors may take.

use super::Device;
use crate::backend::CacheLimits;

#[cfg_attr(
    feature = "js",
    warpweft_macros::js(only(set_cache_limits, memory_limit, set_memory_limit, trim))
)]
impl Device {
    /// Returns the limits of the caches. [`Device::stats`] counts their entries and evictions.
    pub fn cache_limits(&self) -> CacheLimits {
        self.state().limits
    }

    /// Sets the limits of the caches, and evicts at once what exceeds them.
    #[cfg_attr(feature = "js", js(spread(limits)))]
    pub fn set_cache_limits(&self, limits: CacheLimits) {
        let backend = &*self.inner.backend;
        let mut state = self.state();
        state.limits = limits;
        state.pool.most = limits.pooled_bytes;
        state.shrink_plans(backend);
        state.pool.shrink(backend);
        backend.set_cache_limits(&limits);
    }

    /// Returns the pooled memory, which is kept for reuse, to the system. Dropped tensors lose their history.
    pub fn trim(&self) {
        let (mut state, backend) = (self.state(), &*self.inner.backend);
        state.drop_retired_history(backend);
        state.pool.trim(backend);
    }

    /// Returns the limit of [`Device::set_memory_limit`] in bytes. `None` if only the machine limits memory.
    pub fn memory_limit(&self) -> Option<u64> {
        self.state().pool.limit
    }

    /// Limits the memory of tensors and of running batches, in bytes. An operation that needs more returns a `Memory` error at
    /// once, and nothing is lost. Unused pooled memory is returned to the system first, and dropped tensors free memory. So a
    /// loop that holds more and more ends with this error, and not with a lost device. Memory already in use is kept.
    ///
    /// Language models evict memory before that error. Keys and values of contexts are evicted first, the least recently used
    /// before others. Then follow the weights of models that have no context in memory and can be loaded again. Both are
    /// restored when they are needed.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, error::ErrorKind};
    /// let device = Device::with(Preference::Cpu).await?;
    /// device.set_memory_limit(Some(1 << 20));
    /// let x = device.ones(&[100, 1000])?;
    /// x.run()?;
    /// let refused = device.ones(&[1000, 1000])?.run().unwrap_err();
    /// assert_eq!(refused.kind(), ErrorKind::Memory);
    /// assert_eq!(x.sum(())?.read::<f32>().await?, [100_000.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn set_memory_limit(&self, bytes: Option<u64>) {
        let backend = &*self.inner.backend;
        let mut state = self.state();
        state.pool.limit = bytes;
        let over = |limit| state.pool.used.saturating_add(state.pool.pooled) > limit;
        if bytes.is_some_and(over) {
            state.pool.trim(backend);
        }
    }
}
