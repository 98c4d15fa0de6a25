//! A batch made ready to run: its pipelines, its grids, and its params as they lie in the uniform
//! buffer.

use super::doubts::{Doubts, Record};
use super::memory::{Buffers, Memory};
use super::pipelines::{fold, Pipeline, Pipelines};
use super::{Fate, Machine};
use crate::backend::BufferId;
use crate::codegen::{Source, PARAMS_HEAD};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Batch, Dispatch, Limits};
use std::sync::{Arc, Weak};

/// Dynamic offsets into the uniform buffer are multiples of this on every device.
const ALIGNMENT: usize = 256;

/// Bytes of params that one kernel may bind on every device.
const MOST_PARAMS: usize = 64 << 10;

/// A batch ready to run.
pub(super) struct Prepared<M: Machine> {
    /// While this is held, no other batch gets the same address.
    batch: Weak<Batch>,
    /// Its steps as the machine keeps them, and how many of them do something.
    pub(super) recorded: M::Recorded,
    pub(super) dispatches: u64,
    /// The slots that it writes, and those that it only reads.
    written: Vec<usize>,
    read: Vec<usize>,
    /// How its kernels and its runs went.
    pub(super) record: Record,
    /// The uniform buffer's contents, heads filled in. Kernels without params share the first
    /// block.
    pub(super) image: Vec<u8>,
    /// Where in the image which scalar goes.
    words: Vec<(usize, usize)>,
}

/// A dispatch ready to run.
pub struct Step<P> {
    pub(crate) pipeline: Arc<Pipeline<P>>,
    /// None where there is nothing to do.
    pub(crate) grid: Option<(u32, u32)>,
    /// Where its params begin, and how many bytes of them are bound.
    pub(crate) offset: u32,
    pub(crate) block: u64,
    /// Each binding's slot, and the bytes of it: a multiple of 16.
    pub(crate) slots: Vec<(usize, u64)>,
}

/// A slot's bytes as they are bound: kernels may read whole `vec4`s.
pub(super) fn bound_bytes(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(16)
}

impl<M: Machine> Prepared<M> {
    /// Compiles what is not compiled yet. `text` gives the source of a dispatch, by number.
    pub(super) fn new(
        machine: &M,
        limits: &Limits,
        pipelines: &mut Pipelines<M::Pipeline>,
        batch: &Arc<Batch>,
        text: &mut dyn FnMut(usize) -> Source,
    ) -> Result<Prepared<M>> {
        let mut prepared = Prepared {
            batch: Arc::downgrade(batch),
            recorded: M::Recorded::default(),
            dispatches: 0,
            written: Vec::new(),
            read: Vec::new(),
            record: Record::default(),
            image: Vec::new(),
            words: Vec::new(),
        };
        prepared.block(1);
        let mut steps = Vec::with_capacity(batch.dispatches.len());
        for (number, dispatch) in batch.dispatches.iter().enumerate() {
            let source = text(number);
            let step = prepared.step(machine, limits, pipelines, batch, dispatch, &source)?;
            steps.push(step);
        }
        for (slot, use_) in uses(batch).into_iter().enumerate() {
            match use_ {
                Use::Written => prepared.written.push(slot),
                Use::Read => prepared.read.push(slot),
                Use::None => {}
            }
        }
        prepared.dispatches = steps.iter().filter(|step| step.grid.is_some()).count() as u64;
        let fates: Vec<Fate> = steps.iter().map(|step| step.pipeline.fate.clone()).collect();
        prepared.record = Record::new(&fates);
        prepared.recorded = machine.record(steps);
        Ok(prepared)
    }

    fn step(
        &mut self,
        machine: &M,
        limits: &Limits,
        pipelines: &mut Pipelines<M::Pipeline>,
        batch: &Batch,
        dispatch: &Dispatch,
        source: &Source,
    ) -> Result<Step<M::Pipeline>> {
        let kind = dispatch.kernel.kind();
        let buffers = dispatch.inputs.len() + dispatch.outputs.len();
        if buffers > limits.buffers_per_kernel {
            return Err(limit(kind, "buffers", buffers as u64, limits.buffers_per_kernel as u64));
        }
        let words = PARAMS_HEAD.len() + dispatch.params.len();
        let vectors = source.params.max(words.div_ceil(4));
        if vectors * 16 > MOST_PARAMS {
            return Err(limit(kind, "bytes of params", vectors as u64 * 16, MOST_PARAMS as u64));
        }
        let mut slots = Vec::with_capacity(buffers);
        for &slot in dispatch.inputs.iter().chain(&dispatch.outputs) {
            let bytes = bound_bytes(slot_of(batch, slot)?.bytes);
            if bytes > limits.binding_bytes {
                return Err(limit(kind, "bytes in one buffer", bytes, limits.binding_bytes));
            }
            slots.push((slot, bytes));
        }
        let grid = match source.workgroups {
            0 => None,
            many => Some(fold(many, limits.workgroups).ok_or_else(|| {
                let most = u64::from(limits.workgroups).pow(2);
                limit(kind, "workgroups", many, most)
            })?),
        };
        let plain = dispatch.params.is_empty() && vectors == 1;
        let offset = if plain { 0 } else { self.block(vectors) };
        for (i, &scalar) in dispatch.params.iter().enumerate() {
            self.words.push((offset + 4 * (PARAMS_HEAD.len() + i), scalar));
        }
        let arity = (dispatch.inputs.len(), dispatch.outputs.len());
        let pipeline = pipelines.get(machine, limits, source, arity, (kind, &dispatch.label));
        let block = (vectors * 16).next_multiple_of(ALIGNMENT) as u64;
        Ok(Step { pipeline, grid, offset: offset as u32, block, slots })
    }

    /// Appends a params block of so many `vec4`s with its head; where it begins.
    fn block(&mut self, vectors: usize) -> usize {
        let offset = self.image.len();
        self.image.extend_from_slice(bytemuck::cast_slice(&PARAMS_HEAD));
        self.image.resize(offset + (vectors * 16).next_multiple_of(ALIGNMENT), 0);
        offset
    }

    /// Whether nobody can run it any more.
    pub(super) fn dead(&self) -> bool {
        self.batch.strong_count() == 0
    }

    /// The contents of what it writes now depend on its kernels, on this run, and on what it reads.
    pub(super) fn pass_on(
        &mut self,
        ids: &[BufferId],
        memory: &mut Buffers<M::Buffer>,
        trial: Option<&Fate>,
    ) {
        let read = self.read.iter().filter_map(|&slot| memory.doubts(ids[slot]));
        let doubts: Doubts = self.record.doubts(trial, read);
        for &slot in &self.written {
            memory.depend(ids[slot], &doubts);
        }
    }

    /// Puts the scalars into the image.
    pub(super) fn fill(&mut self, scalars: &[u32]) -> Result<()> {
        for &(at, scalar) in &self.words {
            let Some(word) = scalars.get(scalar) else {
                let message = format!(
                    "run: the batch reads scalar {scalar}, and {} scalars were passed",
                    scalars.len()
                );
                return Err(Error::data(message));
            };
            self.image[at..at + 4].copy_from_slice(bytemuck::bytes_of(word));
        }
        Ok(())
    }

    /// Each slot's buffer, if they are all there and large enough.
    pub(super) fn slots<'a>(
        batch: &Batch,
        buffers: &[BufferId],
        memory: &'a Buffers<M::Buffer>,
    ) -> Result<Vec<&'a M::Buffer>> {
        if buffers.len() != batch.slots.len() {
            let message = format!(
                "run: the batch has {} slots, and {} buffers were passed",
                batch.slots.len(),
                buffers.len()
            );
            return Err(Error::data(message));
        }
        let mut found = Vec::with_capacity(buffers.len());
        for (slot, &id) in batch.slots.iter().zip(buffers) {
            let Memory { buffer, bytes, .. } = memory.get("run", id)?;
            if *bytes < bound_bytes(slot.bytes) {
                let message = format!(
                    "run: a slot of {} bytes was given a buffer of {bytes} bytes",
                    slot.bytes
                );
                return Err(Error::data(message));
            }
            found.push(buffer);
        }
        Ok(found)
    }
}

/// What a batch does with a slot.
#[derive(Clone, Copy)]
enum Use {
    None,
    /// It only reads it.
    Read,
    Written,
}

/// What the batch does with each slot.
fn uses(batch: &Batch) -> Vec<Use> {
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

fn slot_of(batch: &Batch, slot: usize) -> Result<&crate::kernel::Slot> {
    batch.slots.get(slot).ok_or_else(|| {
        let message = format!("run: slot {slot} of a batch with {} slots", batch.slots.len());
        Error::data(message)
    })
}

fn limit(kind: &str, of: &str, wanted: u64, most: u64) -> Error {
    Error::new(ErrorKind::Limit, format!("{kind}: {wanted} {of}, and the device takes {most}"))
}
