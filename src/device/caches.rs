//! How much a device keeps, and how much memory it may take.

use super::Device;
use crate::backend::CacheLimits;

#[cfg_attr(
    feature = "js",
    warpweft_macros::js(only(set_cache_limits, memory_limit, set_memory_limit, trim))
)]
impl Device {
    /// How much it keeps so that it need not be made again. [`Device::stats`] says how much there is, and how much had to go.
    pub fn cache_limits(&self) -> CacheLimits {
        self.state().limits
    }

    /// Keeps no more than this from now on; what is there beyond goes at once.
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

    /// Gives memory that is kept for reuse back to the system.
    pub fn trim(&self) {
        let (mut state, backend) = (self.state(), &*self.inner.backend);
        state.collect_garbage(backend);
        state.pool.trim(backend);
    }

    /// The bytes of memory that tensors may take at most; nothing where only the machine limits them.
    pub fn memory_limit(&self) -> Option<u64> {
        self.state().pool.limit
    }

    /// Limits the bytes of memory that tensors, and batches while they run, may take. What needs more is a `Memory` error at
    /// once, and nothing is lost: memory that lies unused is given back before, and what is dropped makes room. A loop that
    /// holds more and more ends in that error, not in a device that is lost. What is in use already stays.
    ///
    /// Language models give up memory before: first the keys and values of contexts, the least recently used first; then the
    /// weights of models without a context in memory, if they can be loaded again. Both come back when they are needed.
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
