//! Lowering of one node to a kernel: a loop over its elements or rows, or a routine with its epilogue.

use super::collapse::collapse;
use super::context::{Context, Hint, LowerError};
use super::index::Coordinates;
use super::order;
use super::rewrite::{compact, prune};
use super::routines::routine_kernel;
use super::shaders;
use super::writer::{ProgramRole, ProgramWriter};
use crate::graph::Trace;
use crate::kernel::{Atom, Index, Kernel, Limits, Program, Space, Store};
use crate::op::Op;
use crate::plan::fuse::placement::Placement;
use crate::plan::planned_kernel::{Param, PlannedKernel};
use crate::shape::{pick, Shape};
use crate::sorted;
use std::sync::Arc;

/// Lowers the kernels that compute `root`: one, or one per operand of a concatenation, or one that updates a part in place. The
/// errors are those of every kernel that failed.
pub fn lower_root(
    trace: &Trace,
    placement: &Placement<'_>,
    limits: &Limits,
    root: usize,
) -> Result<Vec<PlannedKernel>, Vec<LowerError>> {
    let node = &trace.nodes[root];
    if let Op::Shader(call) = &node.op {
        return Ok(vec![shaders::shader_kernel(trace, root, call)]);
    }
    if let Op::Order { descending, most } = node.op {
        return Ok(vec![order::order_kernel(trace, root, descending, most)]);
    }
    let region = Region { output: root, offset: 0, in_place: false };
    if placement.in_place[root] {
        let region = Region { in_place: true, ..region };
        let written = lower_kernel(trace, placement, limits, node.inputs[0], region);
        let mut written = written.map_err(|stop| vec![stop])?;
        written.operations.push(root);
        return Ok(vec![written]);
    }
    let Op::Concat { axis } = node.op else {
        let written = lower_kernel(trace, placement, limits, root, region);
        return written.map(|planned| vec![planned]).map_err(|stop| vec![stop]);
    };
    let strides = node.shape.strides();
    let (mut planned_kernels, mut stops, mut start) = (Vec::new(), Vec::new(), 0);
    for &input in &node.inputs {
        let offset = (start * strides[axis]) as i64;
        start += trace.nodes[input].shape[axis];
        if trace.nodes[input].shape.numel() > 0 {
            let region = Region { offset, ..region };
            match lower_kernel(trace, placement, limits, input, region) {
                Ok(mut written) => {
                    written.operations.push(root);
                    planned_kernels.push(written);
                }
                Err(stop) => stops.push(stop),
            }
        }
    }
    match stops.is_empty() {
        true => Ok(planned_kernels),
        // All errors at once, because otherwise every kernel would be lowered again for each operand.
        false => Err(stops),
    }
}

/// The region that a kernel writes: the elements of `output` from `offset` on.
#[derive(Clone, Copy)]
struct Region {
    output: usize,
    offset: i64,
    /// Whether the output pads the computed elements, and the kernel writes only those elements.
    in_place: bool,
}

fn lower_kernel(
    trace: &Trace,
    placement: &Placement<'_>,
    limits: &Limits,
    node: usize,
    region: Region,
) -> Result<PlannedKernel, LowerError> {
    let shape = trace.nodes[node].shape;
    let attempt = Attempt { trace, placement, limits, node, region };
    let mut hint = Hint::default();
    let (other, before) = match (attempt.run(&Layout::of(&shape), &mut hint), &hint.coordinates) {
        (Err(LowerError::NeedsRows(reduce)), _) => {
            (rows(trace, &shape, reduce, hint.depends.take()), reduce)
        }
        (Err(LowerError::WrongCoordinates(routine)), Some(coordinates)) => {
            (around(&trace.nodes[routine].shape, &shape, coordinates), routine)
        }
        (other, _) => return other,
    };
    // Try again in the other space, or materialize the node that does not fit.
    match attempt.run(&other.ok_or(LowerError::Materialize(before))?, &mut hint) {
        Err(LowerError::NeedsRows(_) | LowerError::WrongCoordinates(_)) => {
            Err(LowerError::Materialize(before))
        }
        Err(LowerError::Materialize(n)) if n == node => Err(LowerError::Materialize(before)),
        other => other,
    }
}

/// The space that a kernel runs over, and the coordinates of the computed node in it.
struct Layout {
    dims: Vec<usize>,
    outer: usize,
    /// One index per axis. `None` if both have the same elements in row-major order.
    coords: Option<Vec<Index>>,
}

impl Layout {
    fn of(shape: &Shape) -> Layout {
        let coords = Some(Index::coordinates(shape.rank()));
        Layout { dims: shape.to_vec(), outer: shape.rank(), coords }
    }
}

/// Returns the space of a routine whose result is reshaped or permuted afterwards, with the coordinates of `shape` in it.
/// `found` has the routine's coordinates in terms of `shape`.
fn around(routine: &Shape, shape: &Shape, found: &Coordinates) -> Option<Layout> {
    if routine.numel() != shape.numel() {
        return None;
    }
    let dims = routine.to_vec();
    // Pairs of an index over `shape` and the equal index over the routine's space.
    let mut known: Vec<(Index, Index)> = Vec::new();
    for (d, &extent) in dims.iter().enumerate() {
        if extent != 1 {
            known.push((found.coords[d].clone(), Index::coordinate(d)));
        }
    }
    while let Some(better) = found.rejoin(&known) {
        known.push(better);
    }
    let mut coords = Vec::with_capacity(shape.rank());
    for (axis, &extent) in shape.iter().enumerate() {
        let of = known.iter().find(|k| k.0 == Index::coordinate(axis));
        match of {
            _ if extent == 1 => coords.push(Index::constant(0)),
            Some((_, here)) => coords.push(here.clone()),
            // The result is only reshaped.
            None if found.keep_order(shape, routine) => {
                return Some(Layout { outer: dims.len(), dims, coords: None });
            }
            None => return None,
        }
    }
    Some(Layout { outer: dims.len(), dims, coords: Some(coords) })
}

/// Returns the space of a row program that computes `shape` and contains the reduction.
fn rows(trace: &Trace, shape: &Shape, reduce: usize, depends: Option<Vec<u32>>) -> Option<Layout> {
    let traced = &trace.nodes[reduce];
    let Op::Reduce { axes, .. } = &traced.op else { return None };
    let from = trace.nodes[traced.inputs[0]].shape;
    let mut inner = Vec::with_capacity(axes.len());
    for &axis in axes {
        if from[axis] != 1 {
            inner.push(from[axis]);
        }
    }
    // One result per element of the shape. The rows are the shape, and the columns are new.
    if traced.shape.numel() == shape.numel() {
        let Layout { dims, outer, coords } = Layout::of(shape);
        return Some(Layout { dims: [&dims[..], &inner].concat(), outer, coords });
    }
    // The reduction's result is broadcast over the axes that it does not depend on. These axes are the columns.
    let depends = depends?;
    let (mut outer, mut columns) = (Vec::new(), Vec::new());
    for (d, &extent) in shape.iter().enumerate() {
        let kept = extent == 1 || depends.contains(&(d as u32));
        if kept { &mut outer } else { &mut columns }.push(d);
    }
    let rows: usize = pick(shape, &outer).iter().product();
    if rows == traced.shape.numel() && pick(shape, &columns) == inner {
        let order = [&outer[..], &columns].concat();
        let mut coords = Index::zeros(shape.rank());
        for (position, &axis) in order.iter().enumerate() {
            coords[axis] = Index::coordinate(position);
        }
        let dims = pick(shape, &order);
        return Some(Layout { dims, outer: outer.len(), coords: Some(coords) });
    }
    // The result is reshaped afterwards. If the last axes are reduced, the order of elements does not change.
    let outer = from.rank() - axes.len();
    let mut whole = from.numel() == shape.numel();
    for (i, &axis) in axes.iter().enumerate() {
        whole &= axis == outer + i;
    }
    let dims = [&traced.shape[..outer], &inner].concat();
    whole.then_some(Layout { dims, outer, coords: None })
}

struct Attempt<'a> {
    trace: &'a Trace,
    placement: &'a Placement<'a>,
    limits: &'a Limits,
    node: usize,
    region: Region,
}

impl Attempt<'_> {
    /// Lowers the kernel over this space. On errors `hint` has details.
    fn run(&self, layout: &Layout, hint: &mut Hint) -> Result<PlannedKernel, LowerError> {
        let (dims, outer) = (&layout.dims[..], layout.outer);
        let Attempt { trace, placement, node, region, .. } = *self;
        let attached: Vec<usize> = placement.attached_to(region.output).collect();
        let outputs = 1 + attached.len();
        if outputs >= self.limits.buffers_per_kernel {
            return Err(LowerError::Materialize(attached[0]));
        }
        let max_inputs = self.limits.buffers_per_kernel - outputs;
        let mut context = Context::new(trace, placement, region.output, max_inputs);
        let mut writer = ProgramWriter::new(dims, outer, ProgramRole::Body);
        let coords = match &layout.coords {
            Some(coords) => coords.clone(),
            None => writer.reshaped(&trace.nodes[node].shape),
        };
        let value = context.value(&mut writer, node, &coords);
        *hint = std::mem::take(&mut context.hint);
        let value = value.map_err(|stop| self.crowded(stop))?;
        let to = match (&trace.nodes[region.output].op, region.in_place) {
            (Op::Pad(margins), true) => {
                context.padded_coords(&mut writer, region.output, margins, &coords)?
            }
            _ => coords,
        };
        let mut index = writer.linearise(&to, &trace.nodes[region.output].shape.strides());
        index.offset += region.offset;
        let dtype = trace.nodes[region.output].dtype;
        writer.builder.store(Store { output: 0, index, value, dtype });
        for (i, &n) in attached.iter().enumerate() {
            let found = context.attached.iter().find(|a| a.0 == n);
            let (_, coords, value) = found.ok_or(LowerError::Materialize(n))?.clone();
            let shape = trace.nodes[n].shape;
            let index = writer.linearise(&coords, &shape.strides());
            let dtype = trace.nodes[n].dtype;
            writer.builder.store(Store { output: i as u32 + 1, index, value, dtype });
        }
        let program = prune(writer.builder.finish());
        self.check_stores(dims, outer, &program, &attached)?;
        let mut kernel = match context.routine {
            Some(routine) => {
                routine_kernel(&mut context, routine, program).map_err(|stop| self.crowded(stop))?
            }
            None => {
                let (space, program) = collapse(Space { dims: dims.to_vec(), outer }, program);
                Kernel::Loop { space, program }
            }
        };
        let outputs = [&[region.output], &attached[..]].concat();
        let Context { mut inputs, mut params, mut operations, .. } = context;
        compact(&mut kernel, &mut inputs, &mut params);
        sorted::sort(&mut operations);
        operations.dedup();
        let kernel = Arc::new(kernel);
        let params = params.into_iter().map(Param::Number).collect();
        Ok(PlannedKernel { kernel, inputs, outputs, params, operations })
    }

    /// Checks that each store writes each element of its output exactly once.
    fn check_stores(
        &self,
        dims: &[usize],
        outer: usize,
        program: &Program,
        attached: &[usize],
    ) -> Result<(), LowerError> {
        let per_element = program.per_element(outer);
        for (store, &node) in program.stores.iter().zip([self.node].iter().chain(attached)) {
            let reach = if per_element[store.value as usize] { dims.len() } else { outer };
            let mut seen = vec![false; reach];
            let mut distinct = true;
            let mut first = store.index.offset;
            for (atom, stride) in &store.index.terms {
                match atom {
                    Atom::Coord(d) if (*d as usize) < reach => {
                        seen[*d as usize] = true;
                        first += (*stride).min(0) * (dims[*d as usize] as i64 - 1);
                    }
                    // The start of the region that is updated in place.
                    Atom::Value(_) if store.output == 0 && self.region.in_place => {}
                    _ => distinct = false,
                }
            }
            let covers = (0..reach).all(|d| seen[d] || dims[d] <= 1);
            let count: usize = dims[..reach].iter().product();
            // After padding and slicing, the count may match although the elements differ. An attached result must therefore be
            // stored from its first element on.
            let moved = store.output > 0 && first != 0;
            if !distinct || !covers || moved || count != self.trace.nodes[node].shape.numel() {
                return Err(LowerError::Materialize(node));
            }
        }
        Ok(())
    }

    /// Replaces `TooManyBuffers` by an error that names the operand with the most loads.
    fn crowded(&self, stop: LowerError) -> LowerError {
        match (stop, self.placement.most_loads(&self.trace.nodes[self.node].inputs)) {
            (LowerError::TooManyBuffers, Some(largest)) => LowerError::Materialize(largest),
            (stop, _) => stop,
        }
    }
}
