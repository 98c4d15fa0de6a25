//! The passes over planned kernels, in the order in which they run. `split.rs` runs before these, on the trace.

pub mod copy_elision;
pub mod donation;
pub mod kernel_dedup;
pub mod merge;
pub mod reorder;
pub mod split;

use crate::graph::Trace;
use crate::kernel::Limits;
use crate::plan::planned_kernel::PlannedKernel;

/// The input of a pass, in addition to the kernels.
pub struct PassContext<'a> {
    pub trace: &'a Trace,
    pub limits: &'a Limits,
    /// [`Trace::in_recorded_order`] of the trace before it was split.
    pub in_recorded_order: bool,
}

/// A pass: its name in debug output, and the function that returns the new kernels.
pub type Pass = (&'static str, fn(Vec<PlannedKernel>, &PassContext<'_>) -> Vec<PlannedKernel>);

/// The passes, in order.
pub const PASSES: &[Pass] = &[
    ("reorder", |kernels, context| reorder::shorten_lifetimes(kernels, context.in_recorded_order)),
    ("copy elision", |kernels, context| {
        copy_elision::elide_copies(context.trace, kernels, context.limits)
    }),
    // After copy elision, so that a kernel that writes a value twice can be merged as well.
    ("merge", |kernels, context| merge::merge(context.trace, kernels, context.limits)),
    // After merging, because only whole kernels can be compared.
    ("kernel dedup", |kernels, _| kernel_dedup::parameterize_offsets(kernels)),
];
