//! Graph to batch: which operations share a kernel, in what order kernels run, and where their values lie. Knows
//! nothing of devices but their [`Limits`].

mod check;
mod collapse;
mod copy_elision;
mod cost;
mod donation;
mod fusion_limits;
mod index;
mod indexed_loads;
mod kernel_dedup;
mod kernels;
mod lower;
mod memo;
mod memory;
mod merge;
mod order;
mod placement;
mod planned_kernel;
mod reduce;
mod reorder;
mod rewrite;
mod routines;
mod shaders;
mod show;
mod split;
mod writer;

use crate::debug::{shows, Debug};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Trace;
use crate::kernel::{Dispatch, Kernel, Limits, Plan};
use crate::op::Op;
pub use cost::cheap;
use lower::LowerError;
use memo::Memo;
use placement::Placement;
use planned_kernel::{Param, PlannedKernel};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Plans `trace` for a device with `limits`.
pub fn plan(trace: &Trace, limits: &Limits) -> Result<Plan> {
    let structure = trace.structure(&limits.config);
    let mut operations = 0;
    for node in &trace.nodes {
        // Data and numbers were there before.
        operations += usize::from(!matches!(node.op, Op::Source | Op::Scalar));
    }
    let by_age = trace.in_recorded_order;
    let trace = shaders::complete(split::split(trace, limits)?);
    let mut pieces = pieces(&trace, limits)?;
    pieces = reorder::shorten_lifetimes(pieces, by_age);
    let pieces = copy_elision::elide_copies(&trace, pieces, limits);
    let mut pieces = merge::merge(&trace, pieces, limits);
    kernel_dedup::parameterize_offsets(&mut pieces);
    let donated = donation::accept(&trace, &mut pieces);
    let memory = memory::place(&trace, &pieces, &donated);
    if cfg!(debug_assertions) || shows(Debug::Check) {
        check::check(&trace, &pieces, &memory, &donated)?;
    }
    for (node, slot) in trace.nodes.iter().zip(&memory.slot) {
        // A browser's `usize` does not hold all counts of bytes.
        let bytes = node.shape.numel() as u64 * node.dtype.size() as u64;
        let limit = limits.binding_bytes;
        if slot.is_some() && bytes > limit {
            let (name, shape) = (node.op.name(), node.shape);
            let message = format!(
                "{name}: a tensor must have at most {limit} bytes on this device, got {bytes} for shape {shape}"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
    }
    // Which of the trace's numbers each is.
    let mut scalar = vec![0; trace.nodes.len()];
    let mut scalars = 0;
    for (n, node) in trace.nodes.iter().enumerate() {
        scalar[n] = scalars;
        scalars += usize::from(matches!(node.op, Op::Scalar));
    }
    let (mut constants, mut known) = (Vec::new(), FxHashMap::default());
    let mut word = |param: &Param| match *param {
        Param::Number(node) => scalar[node],
        Param::Constant(bits) => *known.entry(bits).or_insert_with(|| {
            constants.push(bits);
            scalars + constants.len() - 1
        }),
    };
    let mut dispatches = Vec::with_capacity(pieces.len());
    // Layers of a model share their kernels.
    let mut kernels: FxHashSet<Arc<Kernel>> = FxHashSet::default();
    for piece in pieces {
        dispatches.push(Dispatch {
            inputs: memory.slots_of(&piece.inputs),
            outputs: memory.slots_of(&piece.outputs),
            label: show::label(&trace, &piece),
            kernel: shared(&mut kernels, piece.kernel),
            params: piece.params.iter().map(&mut word).collect(),
        });
    }
    Ok(Plan {
        slots: memory.slots,
        dispatches,
        outputs: memory.outputs,
        in_place: memory.in_place,
        temporaries: memory.temporaries,
        inputs: memory.inputs,
        scalars: scalars + constants.len(),
        constants,
        operations,
        config: limits.config,
        structure,
    })
}

/// The one among those equal to a kernel.
fn shared(kernels: &mut FxHashSet<Arc<Kernel>>, kernel: Arc<Kernel>) -> Arc<Kernel> {
    if let Some(known) = kernels.get(&kernel) {
        return known.clone();
    }
    kernels.insert(kernel.clone());
    kernel
}

/// The kernels in order. A node that turns out not to fit in the kernel that uses it gets memory and a kernel of its own,
/// and only that kernel is written anew.
fn pieces(trace: &Trace, limits: &Limits) -> Result<Vec<PlannedKernel>> {
    let mut placement = Placement::new(trace, limits.buffers_per_kernel);
    let computed = |n: &usize| {
        let node = &trace.nodes[*n];
        !matches!(node.op, Op::Source | Op::Output(..)) && node.shape.numel() > 0
    };
    let mut roots = BTreeSet::new();
    roots.extend((0..trace.nodes.len()).filter(|&n| placement.in_memory[n]).filter(computed));
    let mut memo = Memo::new(trace, limits);
    let mut pieces = BTreeMap::new();
    while let Some(root) = roots.pop_first() {
        let stops = match memo.pieces(&placement, root) {
            Ok(found) => {
                pieces.insert(root, found);
                continue;
            }
            Err(stops) => stops,
        };
        let before = before(trace, &placement, root, &stops);
        if before.is_empty() {
            let (name, most) = (trace.nodes[root].op.name(), limits.buffers_per_kernel);
            let message = format!(
                "{name}: a kernel must use at most {most} buffers on this device, got more"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        roots.insert(root);
        for n in before {
            roots.extend(placement.force(n).into_iter().filter(computed));
        }
    }
    Ok(pieces.into_values().flatten().collect())
}

/// What is to be in memory before `root` is computed: the nodes that stand in the way, or else all that it is made of.
fn before(
    trace: &Trace,
    placement: &Placement<'_>,
    root: usize,
    stops: &[LowerError],
) -> BTreeSet<usize> {
    let absent = |n: usize| !placement.in_memory[n] && !matches!(trace.nodes[n].op, Op::Scalar);
    let mut named = BTreeSet::new();
    for stop in stops {
        if let LowerError::Materialize(n) = *stop {
            named.extend(absent(n).then(|| placement.with_epilogue(n)));
        }
    }
    match named.is_empty() {
        true => trace.nodes[root].inputs.iter().copied().filter(|&n| absent(n)).collect(),
        false => named,
    }
}
