//! The planner: from a trace to a plan. It decides which operations share a kernel, in which order kernels run, and where their
//! values are. Of a device it uses only the [`Limits`].
//!
//! The steps, in order:
//! 1. `passes/split.rs` rewrites the trace: long sums and large routines become several operations.
//! 2. `fuse/` decides which nodes are materialized. All others are computed inside the kernels that use them.
//! 3. `lower/` writes a kernel for each materialized node. If that fails, more nodes are materialized, and it tries again.
//! 4. `passes/` improves the kernels, in the order of `PASSES`.
//! 5. `passes/donation.rs` accepts in-place updates, and `memory.rs` assigns slots.
//!
//! `WARPWEFT_DEBUG=plan` prints the kernels after each pass.

mod check;
mod fuse;
mod lower;
mod memory;
mod passes;
mod planned_kernel;
mod show;

use crate::debug::{print, shows, Debug};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Trace;
use crate::kernel::{Dispatch, Kernel, Limits, Plan};
use crate::op::Op;
pub use fuse::cost::cheap;
use fuse::placement::Placement;
use lower::context::LowerError;
use lower::memo::Memo;
use lower::shaders;
use passes::{donation, split, PassContext, PASSES};
use planned_kernel::{Param, PlannedKernel};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Plans `trace` for a device with `limits`.
pub fn plan(trace: &Trace, limits: &Limits) -> Result<Plan> {
    let structure = trace.structure(&limits.config);
    let mut operations = 0;
    for node in &trace.nodes {
        // Data and numbers are not operations.
        operations += usize::from(!matches!(node.op, Op::Source | Op::Scalar));
    }
    let (in_recorded_order, stages) = (trace.in_recorded_order, trace.stages);
    let trace = shaders::complete(split::split(trace, limits)?);
    let mut planned_kernels = lower_kernels(&trace, limits)?;
    print_kernels("lowering", &trace, &planned_kernels);
    let context = PassContext { trace: &trace, limits, in_recorded_order };
    for (name, pass) in PASSES {
        planned_kernels = pass(planned_kernels, &context);
        print_kernels(name, &trace, &planned_kernels);
    }
    let donated = donation::accept(&trace, &mut planned_kernels);
    let memory = memory::place(&trace, &planned_kernels, &donated);
    if cfg!(debug_assertions) || shows(Debug::Check) {
        check::check(&trace, &planned_kernels, &memory, &donated)?;
    }
    for (node, slot) in trace.nodes.iter().zip(&memory.slot) {
        // A browser's `usize` cannot hold every byte count.
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
    // The position of each number among the scalars of the trace.
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
    let mut dispatches = Vec::with_capacity(planned_kernels.len());
    // Layers of a model share kernels.
    let mut kernels: FxHashSet<Arc<Kernel>> = FxHashSet::default();
    for planned in planned_kernels {
        dispatches.push(Dispatch {
            inputs: memory.slots_of(&planned.inputs),
            outputs: memory.slots_of(&planned.outputs),
            label: show::label(&trace, &planned),
            kernel: shared(&mut kernels, planned.kernel),
            params: planned.params.iter().map(&mut word).collect(),
        });
    }
    let mut plan = Plan {
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
        parts: Vec::new(),
    };
    if stages > 0 {
        plan.divide(stages);
    }
    Ok(plan)
}

/// Prints the kernels after a pass, for `WARPWEFT_DEBUG=plan`.
fn print_kernels(pass: &str, trace: &Trace, kernels: &[PlannedKernel]) {
    if !shows(Debug::Plan) {
        return;
    }
    let mut text = format!("after {pass}: {} kernels", kernels.len());
    for kernel in kernels {
        text += &format!("\n  {} {}", kernel.kernel.kind(), show::label(trace, kernel));
    }
    print(format_args!("{text}"));
}

/// Returns the equal kernel in the set, or adds the kernel to it.
fn shared(kernels: &mut FxHashSet<Arc<Kernel>>, kernel: Arc<Kernel>) -> Arc<Kernel> {
    if let Some(known) = kernels.get(&kernel) {
        return known.clone();
    }
    kernels.insert(kernel.clone());
    kernel
}

/// Lowers the kernels, in order. If a node does not fit in the kernel that uses it, another kernel materializes the node. Only
/// the kernel that uses it is lowered again.
fn lower_kernels(trace: &Trace, limits: &Limits) -> Result<Vec<PlannedKernel>> {
    let mut placement = Placement::new(trace, limits.buffers_per_kernel);
    let computed = |n: &usize| {
        let node = &trace.nodes[*n];
        !matches!(node.op, Op::Source | Op::Output(..)) && node.shape.numel() > 0
    };
    let mut roots = BTreeSet::new();
    roots.extend((0..trace.nodes.len()).filter(|&n| placement.in_memory[n]).filter(computed));
    let mut memo = Memo::new(trace, limits);
    let mut planned_kernels = BTreeMap::new();
    while let Some(root) = roots.pop_first() {
        let stops = match memo.lower_root(&placement, root) {
            Ok(found) => {
                planned_kernels.insert(root, found);
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
    Ok(planned_kernels.into_values().flatten().collect())
}

/// Returns the nodes to materialize before `root`: the nodes that the errors name, or otherwise all inputs of `root`.
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
