//! Limits of caches.

/// The limits of a device's caches. The least recently used entries are evicted first. Entries in use stay, however small the
/// limits are. The limits affect only time.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{CacheLimits, Device, Preference};
/// let device = Device::with(Preference::Cpu).await?;
/// device.set_cache_limits(CacheLimits { plans: 16, ..device.cache_limits() });
/// for n in 1..100 {
///     device.ones(&[n])?.run()?;
/// }
/// assert_eq!(device.stats().plans_held, 16);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// The most plans of submitted work. Default: 1024.
    pub plans: usize,
    /// The most bytes of these plans, approximately. Default: 64 MiB.
    pub plan_bytes: u64,
    /// The most compiled kernels (prepared kernels on the CPU). A single plan may need more. Default: 1024.
    pub pipelines: usize,
    /// The most bind groups. A single plan may need more. Default: 8192.
    pub bind_groups: usize,
    /// The most bytes of unused buffers. Independently, used and unused buffers together never exceed the recent peak by much.
    /// Default: only the recent peak limits them.
    pub pooled_bytes: u64,
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits {
            plans: 1024,
            plan_bytes: 64 << 20,
            pipelines: 1024,
            bind_groups: 8192,
            // The largest safe integer of JavaScript.
            pooled_bytes: (1 << 53) - 1,
        }
    }
}
