//! Prepared batches: pipelines, grids, and params in the layout of the uniform buffer.

use super::bind_groups::{BindGroupCache, Bound, DispatchBindings};
use super::deferred::{BatchHistory, DeferredResult, ErrorDependencies};
use super::dynamic_shapes::Dynamic;
use super::memory::{bound_bytes, Buffers, GpuBuffer, Memory};
use super::pipeline::{Pipeline, Recipe};
use super::pipelines::Pipelines;
use super::platform::Gpu;
use super::prepared_dispatch::PreparedDispatch;
use super::times::Timer;
use crate::backend::BufferId;
use crate::codegen::{fold, Source, PARAMS_HEAD};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{self, Limits, Plan};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::{Arc, Weak};

/// The alignment of dynamic offsets into the uniform buffer, which every device supports.
const ALIGNMENT: usize = 256;

/// The most bytes of params of one kernel, which every device supports.
pub(super) const MOST_PARAMS: usize = 64 << 10;

/// Returns the key of a batch, its address.
pub(super) fn address(batch: &Arc<Plan>) -> usize {
    Arc::as_ptr(batch) as usize
}

/// A batch that is ready to run.
pub(super) struct Prepared {
    /// The plan. While a weak reference exists, no other plan gets the same address.
    batch: Weak<Plan>,
    pub(super) steps: Steps,
    /// The slots that the batch writes, and those that it reads.
    written: Vec<usize>,
    read: Vec<usize>,
    /// The outcomes of compiling its kernels and of its runs.
    pub(super) history: BatchHistory,
    /// The contents of the uniform buffer, with the head of each block filled in. Kernels without params share the first block.
    pub(super) image: Vec<u8>,
    /// Pairs of a byte offset in the image and the number of the scalar stored there.
    words: Vec<(usize, usize)>,
}

/// The dispatches that have work, and the bind groups of their latest runs.
#[derive(Default)]
pub(super) struct Steps {
    pub(super) all: Vec<PreparedDispatch>,
    sets: DispatchBindings,
}

impl Steps {
    /// Returns the numbers of the dispatches.
    pub(super) fn dispatches(&self) -> Vec<usize> {
        self.all.iter().map(|step| step.number).collect()
    }

    /// Records the dispatches into one compute pass, or into one pass each if they are timed.
    pub(super) fn record(
        &mut self,
        gpu: &Gpu,
        (groups, most): (&mut BindGroupCache, usize),
        (uniform, slots): (&GpuBuffer, &[Bound<'_>]),
        encoder: &mut wgpu::CommandEncoder,
        timer: Option<(&mut Timer, &Plan)>,
    ) {
        let groups = groups.of_batch(gpu, &mut self.sets, &self.all, (uniform, slots), most);
        let steps = self.all.iter().zip(groups);
        if let Some((timer, batch)) = timer {
            for (step, group) in steps {
                timer.pass(encoder, &batch.dispatches[step.number].label, |pass| {
                    pass.set_pipeline(&step.compiled().pipeline);
                    pass.set_bind_group(0, group, &[step.offset]);
                    pass.dispatch_workgroups(step.grid[0], step.grid[1], step.grid[2]);
                });
            }
            return;
        }
        let mut pass = encoder.begin_compute_pass(&Default::default());
        let mut last: Option<&Arc<Pipeline>> = None;
        for (step, group) in steps {
            if !last.is_some_and(|last| Arc::ptr_eq(last, &step.pipeline)) {
                pass.set_pipeline(&step.compiled().pipeline);
            }
            last = Some(&step.pipeline);
            pass.set_bind_group(0, group, &[step.offset]);
            let [x, y, z] = step.grid;
            pass.dispatch_workgroups(x, y, z);
        }
    }
}

impl Prepared {
    /// Compiles the kernels that are not compiled yet. `text` generates the source of a dispatch's kernel, by number.
    pub(super) fn new(
        gpu: &Arc<Gpu>,
        limits: &Limits,
        pipelines: &mut Pipelines,
        batch: &Arc<Plan>,
        text: &mut dyn FnMut(usize) -> Source,
    ) -> Result<Prepared> {
        let mut prepared = Prepared {
            batch: Arc::downgrade(batch),
            steps: Steps::default(),
            written: Vec::new(),
            read: Vec::new(),
            history: BatchHistory::default(),
            image: Vec::new(),
            words: Vec::new(),
        };
        prepared.block(1);
        let kernels = Kernels::new(gpu, limits, pipelines, batch, text);
        for (number, &kernel) in kernels.of_dispatch.iter().enumerate() {
            prepared.add(limits, batch, number, &kernels.all[kernel])?;
        }
        let results: Vec<DeferredResult> =
            kernels.all.iter().map(|made| made.pipeline.deferred.clone()).collect();
        prepared.history = BatchHistory::new(&results);
        for (slot, use_) in uses(batch).into_iter().enumerate() {
            match use_ {
                Use::Written => {
                    prepared.written.push(slot);
                    // An in-place update keeps the elements that it does not write.
                    if matches!(batch.slots[slot].storage, kernel::SlotStorage::Input(_)) {
                        prepared.read.push(slot);
                    }
                }
                Use::Read => prepared.read.push(slot),
                Use::None => {}
            }
        }
        Ok(prepared)
    }

    /// Adds a dispatch.
    fn add(&mut self, limits: &Limits, batch: &Plan, number: usize, made: &Made) -> Result<()> {
        let dispatch = &batch.dispatches[number];
        let kind = dispatch.kernel.kind();
        let buffers = dispatch.inputs.len() + dispatch.outputs.len();
        if buffers > limits.buffers_per_kernel {
            return Err(limit(kind, "buffers", buffers as u64, limits.buffers_per_kernel as u64));
        }
        let head = if made.head { PARAMS_HEAD.len() } else { 0 };
        let words = head + dispatch.params.len();
        let vectors = (made.params + made.sizes.len().div_ceil(4)).max(words.div_ceil(4));
        if vectors * 16 > MOST_PARAMS {
            return Err(limit(kind, "bytes of params", vectors as u64 * 16, MOST_PARAMS as u64));
        }
        let mut slots = Vec::with_capacity(buffers);
        for &slot in dispatch.inputs.iter().chain(&dispatch.outputs) {
            let bytes = bound_bytes(slot_of(batch, slot)?.bytes);
            if bytes > limits.binding_bytes {
                return Err(limit(kind, "bytes in one buffer", bytes, limits.binding_bytes));
            }
            slots.push(slot);
        }
        if made.workgroups == 0 {
            return Ok(());
        }
        let grid = match made.grid {
            Some(grid) => grid,
            None => fold(made.workgroups, limits.workgroups).ok_or_else(|| {
                let most = u64::from(limits.workgroups).pow(2);
                limit(kind, "workgroups", made.workgroups, most)
            })?,
        };
        if let Some(&most) = grid.iter().max().filter(|&&count| count > limits.workgroups) {
            return Err(limit(kind, "workgroups", u64::from(most), u64::from(limits.workgroups)));
        }
        let plain = dispatch.params.is_empty() && vectors == 1;
        let offset = if plain { 0 } else { self.block(vectors) };
        for (i, &scalar) in dispatch.params.iter().enumerate() {
            self.words.push((offset + 4 * (head + i), scalar));
        }
        let sizes: &[u8] = bytemuck::cast_slice(&made.sizes);
        self.image[offset + 16 * made.params..][..sizes.len()].copy_from_slice(sizes);
        let block = (vectors * 16).next_multiple_of(ALIGNMENT) as u64;
        let (pipeline, offset) = (made.pipeline.clone(), offset as u32);
        self.steps.all.push(PreparedDispatch { number, pipeline, grid, offset, block, slots });
        Ok(())
    }

    /// Appends a params block of `vectors` `vec4`s with its head, and returns its offset.
    fn block(&mut self, vectors: usize) -> usize {
        let offset = self.image.len();
        self.image.extend_from_slice(bytemuck::cast_slice(&PARAMS_HEAD));
        self.image.resize(offset + (vectors * 16).next_multiple_of(ALIGNMENT), 0);
        offset
    }

    /// Whether the plan was dropped, so that nothing can run the batch any more.
    pub(super) fn is_dropped(&self) -> bool {
        self.batch.strong_count() == 0
    }

    /// Updates the dependencies of the written buffers: the batch's kernels, this run, its buffers, and the buffers that it
    /// reads.
    pub(super) fn pass_on(
        &mut self,
        ids: &[BufferId],
        memory: &mut Buffers,
        trial: Option<&DeferredResult>,
    ) {
        let read = self.read.iter().filter_map(|&slot| memory.unresolved(ids[slot]));
        let buffers = ids.iter().filter_map(|&id| memory.there(id)).filter(|there| !there.is_ok());
        let unresolved: ErrorDependencies = self.history.dependencies(trial, buffers, read);
        for &slot in &self.written {
            memory.depend(ids[slot], &unresolved);
        }
    }

    /// Writes the scalars into the image.
    pub(super) fn fill(&mut self, scalars: &[u32]) -> Result<()> {
        for &(at, scalar) in &self.words {
            let Some(word) = scalars.get(scalar) else {
                let message =
                    format!("run: there must be a scalar {scalar}, got {} scalars", scalars.len());
                return Err(Error::argument(message));
            };
            self.image[at..at + 4].copy_from_slice(bytemuck::bytes_of(word));
        }
        Ok(())
    }

    /// Returns each slot's buffer with the bytes to bind, at most `most`. Fails if a buffer is missing or too small.
    pub(super) fn slots<'a>(
        batch: &Plan,
        buffers: &[BufferId],
        memory: &'a Buffers,
        most: u64,
    ) -> Result<Vec<Bound<'a>>> {
        if buffers.len() != batch.slots.len() {
            let message = format!(
                "run: there must be {} buffers, one for each slot, got {}",
                batch.slots.len(),
                buffers.len()
            );
            return Err(Error::argument(message));
        }
        let mut found = Vec::with_capacity(buffers.len());
        for (slot, &id) in batch.slots.iter().zip(buffers) {
            let Memory { held, bytes, .. } = memory.get("run", id)?;
            if *bytes < bound_bytes(slot.bytes) {
                let message = format!(
                    "run: the buffer of a slot must have {} bytes, got {bytes}",
                    slot.bytes
                );
                return Err(Error::argument(message));
            }
            found.push((held, (*bytes).min(most)));
        }
        Ok(found)
    }
}

/// The kernels of a batch. Layers of a model share kernels.
struct Kernels {
    all: Vec<Made>,
    /// The kernel of each dispatch, by number.
    of_dispatch: Vec<usize>,
}

/// A compiled kernel.
struct Made {
    pipeline: Arc<Pipeline>,
    workgroups: u64,
    grid: Option<[u32; 3]>,
    /// Whether the params have a head.
    head: bool,
    /// The number of `vec4`s of params, and the sizes that follow them.
    params: usize,
    sizes: Vec<u32>,
}

impl Kernels {
    fn new(
        gpu: &Arc<Gpu>,
        limits: &Limits,
        pipelines: &mut Pipelines,
        batch: &Plan,
        text: &mut dyn FnMut(usize) -> Source,
    ) -> Kernels {
        let mut seen = pipelines.shapes.take(batch.structure);
        let mut numbers = FxHashMap::default();
        let (mut of_dispatch, mut texts) = (Vec::with_capacity(batch.dispatches.len()), Vec::new());
        for (number, dispatch) in batch.dispatches.iter().enumerate() {
            let arity = (dispatch.inputs.len(), dispatch.outputs.len());
            let kernel = numbers.entry((Arc::as_ptr(&dispatch.kernel), arity));
            of_dispatch.push(*kernel.or_insert_with(|| {
                let source = text(number);
                let dynamic = seen.choose_dynamic_sizes(&source, arity);
                texts.push((dispatch, arity, source, dynamic));
                texts.len() - 1
            }));
        }
        let known = |dynamic: &Option<Dynamic>| dynamic.as_ref()?.pipeline.clone();
        let unknown = texts.iter().filter(|(.., dynamic)| known(dynamic).is_none());
        let recipes = unknown.map(|(dispatch, arity, source, dynamic)| {
            let source = match dynamic {
                Some(dynamic) => Cow::Owned(dynamic.source(source)),
                None => Cow::Borrowed(source),
            };
            Recipe { source, arity: *arity, labels: (dispatch.kernel.kind(), &dispatch.label) }
        });
        let recipes: Vec<Recipe<'_>> = recipes.collect();
        let mut compiled = pipelines.get_all(gpu, limits, &recipes).into_iter();
        let made = texts.iter().map(|(_, _, source, dynamic)| {
            let pipeline = known(dynamic).or_else(|| compiled.next());
            let Some(pipeline) = pipeline else { unreachable!("all others were compiled") };
            if let Some(dynamic) = dynamic {
                seen.compiled(dynamic, &pipeline);
            }
            let sizes = dynamic.as_ref().map(|dynamic| dynamic.sizes.clone()).unwrap_or_default();
            let Source { workgroups, grid, head, params, .. } = *source;
            Made { pipeline, workgroups, grid, head, params, sizes }
        });
        let all = made.collect();
        pipelines.shapes.keep(batch.structure, seen);
        Kernels { all, of_dispatch }
    }
}

/// The use of a slot by a batch.
#[derive(Clone, Copy)]
enum Use {
    None,
    /// Only read.
    Read,
    Written,
}

/// Returns the use of each slot.
fn uses(batch: &Plan) -> Vec<Use> {
    let mut uses = vec![Use::None; batch.slots.len()];
    for dispatch in &batch.dispatches {
        for &slot in &dispatch.inputs {
            uses[slot] = Use::Read;
        }
    }
    for dispatch in &batch.dispatches {
        for &slot in &dispatch.outputs {
            uses[slot] = Use::Written;
        }
    }
    uses
}

fn slot_of(batch: &Plan, slot: usize) -> Result<&crate::kernel::Slot> {
    batch.slots.get(slot).ok_or_else(|| {
        let message = format!("run: the slot must be less than {}, got {slot}", batch.slots.len());
        Error::state(message)
    })
}

fn limit(kind: &str, of: &str, wanted: u64, most: u64) -> Error {
    Error::new(
        ErrorKind::Limit,
        format!("{kind}: there must be at most {most} {of} on this device, got {wanted}"),
    )
}
