//! What a device has made and holds, in numbers.

/// What a device has made and holds. Counts only grow; a loop that has settled leaves `plans`, `pipelines` and
/// `buffers` as they are.
#[cfg_attr(feature = "js", warpweft_macros::js(result))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Plans made.
    pub plans: u64,
    /// Pipelines compiled.
    pub pipelines: u64,
    /// Buffers allocated.
    pub buffers: u64,
    /// Bind groups made.
    pub bind_groups: u64,
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
