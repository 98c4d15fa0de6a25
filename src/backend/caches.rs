//! How much may be kept so that it need not be made again.

/// How much a device keeps so that it need not be made again. What was not used for longest goes first; what is being used
/// stays, however small the limits are. Nothing but time depends on them.
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
    /// Plans of what was submitted. Default: 1024.
    pub plans: usize,
    /// The bytes that these take, about. Default: 64 MiB.
    pub plan_bytes: u64,
    /// Compiled kernels (prepared ones, on the CPU); a single plan may need more. Default: 1024.
    pub pipelines: usize,
    /// Bind groups; a single plan may need more. Default: 8192.
    pub bind_groups: usize,
    /// Bytes of buffers that are not in use. There are never many more, in use or not, than were in use lately. Default: as
    /// many as that.
    pub pooled_bytes: u64,
}

impl Default for CacheLimits {
    fn default() -> CacheLimits {
        CacheLimits {
            plans: 1024,
            plan_bytes: 64 << 20,
            pipelines: 1024,
            bind_groups: 8192,
            // The largest whole number of JavaScript's.
            pooled_bytes: (1 << 53) - 1,
        }
    }
}
