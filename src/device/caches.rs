//! How much a device keeps.

use super::Device;
use crate::backend::CacheLimits;

#[cfg_attr(feature = "js", warpweft_macros::js(only(set_cache_limits)))]
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
}
