//! Reorders kernels to shorten lifetimes: the producers of concat operands run as early as they can.
//!
//! Problem: a matmul that is an operand of a concatenation, such as one gradient in an optimizer's flat variable, is planned
//! where the concatenation is. Its own operands stay in memory until then.
//!
//! Idea: each kernel that writes a part of a concatenation moves to directly after the last kernel that it reads from. Maps
//! stay where they are, because many of them may be merged into one kernel, unless the trace has rematerialized nodes.
//!
//! Cost: one stable sort.
//!
//! Example: `concat(a @ b, c @ d)` in a long program. `a @ b` runs as soon as `a` and `b` are computed, so `a` and `b` are
//! freed.

use crate::plan::planned_kernel::PlannedKernel;
use crate::sorted;
use rustc_hash::FxHashMap;

/// Returns the kernels in an order in which every value is still written before it is read.
pub fn shorten_lifetimes(
    planned_kernels: Vec<PlannedKernel>,
    in_recorded_order: bool,
) -> Vec<PlannedKernel> {
    // For each node, the last kernel that writes it, and how many kernels do.
    let mut writers: FxHashMap<usize, (usize, usize)> = FxHashMap::default();
    for (at, planned) in planned_kernels.iter().enumerate() {
        for &output in &planned.outputs {
            let (last, count) = writers.entry(output).or_default();
            (*last, *count) = (at, *count + 1);
        }
    }
    let mut keyed: Vec<(usize, PlannedKernel)> = Vec::with_capacity(planned_kernels.len());
    for (at, planned) in planned_kernels.into_iter().enumerate() {
        let joins = planned.outputs.iter().all(|output| writers[output].1 > 1);
        let waits = in_recorded_order || planned.kernel.kind() != "map";
        let written = |input: &usize| writers.get(input).map(|(last, _)| *last);
        let ready = planned.inputs.iter().filter_map(written).max().unwrap_or(0);
        keyed.push((if joins && waits { ready } else { at }, planned));
    }
    // The sort is stable, so that a kernel stays behind the kernels it reads from.
    sorted::by_key(&mut keyed, |(key, _)| *key);
    keyed.into_iter().map(|(_, planned)| planned).collect()
}
