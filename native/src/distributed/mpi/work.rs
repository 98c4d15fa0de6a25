//! The work of each call, in chunks.
//!
//! A call that fails returns while MPI may still access its memory, and the caller then frees the arguments. So MPI never gets
//! the arguments, but slots, which the engine keeps. Several chunks are in flight at a time. This makes large calls as fast as
//! without the copies, and a chunk has few enough values for MPI's counts of 32 bits.

use super::raw::{Comm, Request, Result};

/// The values of a chunk, 1 MiB.
const CHUNK_VALUES: usize = 1 << 18;

/// The memory of a chunk in flight.
#[derive(Default)]
pub struct Slot {
    input: Vec<f32>,
    output: Vec<f32>,
    pub request: Option<Request>,
}

/// A call, divided into chunks.
pub trait Work {
    /// Returns the number of chunks.
    fn chunks(&self, ranks: usize) -> usize;

    /// Copies a chunk of the arguments into a slot, and starts its operation.
    fn start(&mut self, comm: &Comm, chunk: usize, slot: &mut Slot) -> Result<Request>;

    /// Copies the results of a chunk from its slot.
    fn finish(&mut self, comm: &Comm, chunk: usize, slot: &Slot);
}

impl Slot {
    /// Makes room for as many values. A slot keeps its memory for later calls.
    fn grow(&mut self, input: usize, output: usize) {
        self.input.resize(self.input.len().max(input), 0.0);
        self.output.resize(self.output.len().max(output), 0.0);
    }
}

/// Returns the values that start at `from`, at most `most`.
fn part<T>(all: &[T], from: usize, most: usize) -> &[T] {
    &all[from..all.len().min(from + most)]
}

fn part_mut<T>(all: &mut [T], from: usize, most: usize) -> &mut [T] {
    let end = all.len().min(from + most);
    &mut all[from..end]
}

fn bytes(values: &[f32]) -> &[u8] {
    // SAFETY: all bytes of floats are bytes.
    unsafe { std::slice::from_raw_parts(values.as_ptr().cast(), size_of_val(values)) }
}

fn bytes_mut(values: &mut [f32]) -> &mut [u8] {
    // SAFETY: all bytes of floats are bytes, and all bytes are floats.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}

/// No chunks. Every call first checks that all ranks make it, which is the whole work of a barrier.
pub struct Barrier;

impl Work for Barrier {
    fn chunks(&self, _: usize) -> usize {
        0
    }

    fn start(&mut self, _: &Comm, _: usize, _: &mut Slot) -> Result<Request> {
        Err("a barrier has no chunks".into())
    }

    fn finish(&mut self, _: &Comm, _: usize, _: &Slot) {}
}

/// Sums of all ranks.
pub struct Reduce<'a>(pub &'a mut [f32]);

impl Work for Reduce<'_> {
    fn chunks(&self, _: usize) -> usize {
        self.0.len().div_ceil(CHUNK_VALUES)
    }

    fn start(&mut self, comm: &Comm, chunk: usize, slot: &mut Slot) -> Result<Request> {
        let values = part(self.0, chunk * CHUNK_VALUES, CHUNK_VALUES);
        slot.grow(values.len(), values.len());
        slot.input[..values.len()].copy_from_slice(values);
        let (input, output) = (&slot.input[..values.len()], &mut slot.output[..values.len()]);
        // SAFETY: the engine keeps the slot until the request is done.
        unsafe { comm.sum(input, output) }
    }

    fn finish(&mut self, _: &Comm, chunk: usize, slot: &Slot) {
        let values = part_mut(self.0, chunk * CHUNK_VALUES, CHUNK_VALUES);
        values.copy_from_slice(&slot.output[..values.len()]);
    }
}

/// The bytes of one rank.
pub struct Broadcast<'a> {
    pub root: usize,
    pub bytes: &'a mut [u8],
}

impl Work for Broadcast<'_> {
    fn chunks(&self, _: usize) -> usize {
        self.bytes.len().div_ceil(CHUNK_VALUES * 4)
    }

    fn start(&mut self, comm: &Comm, chunk: usize, slot: &mut Slot) -> Result<Request> {
        let sent = part(self.bytes, chunk * CHUNK_VALUES * 4, CHUNK_VALUES * 4);
        slot.grow(0, sent.len().div_ceil(4));
        let copy = &mut bytes_mut(&mut slot.output)[..sent.len()];
        if comm.rank == self.root {
            copy.copy_from_slice(sent);
        }
        // SAFETY: the engine keeps the slot until the request is done.
        unsafe { comm.broadcast(self.root, copy) }
    }

    fn finish(&mut self, comm: &Comm, chunk: usize, slot: &Slot) {
        if comm.rank != self.root {
            let received = part_mut(self.bytes, chunk * CHUNK_VALUES * 4, CHUNK_VALUES * 4);
            received.copy_from_slice(&bytes(&slot.output)[..received.len()]);
        }
    }
}

/// The bytes of all ranks.
pub struct Gather<'a> {
    pub own: &'a [u8],
    pub all: &'a mut [u8],
}

/// Returns the values of each rank in a chunk that has values of all ranks.
fn of_each(ranks: usize) -> usize {
    (CHUNK_VALUES / ranks).max(1)
}

impl Work for Gather<'_> {
    fn chunks(&self, ranks: usize) -> usize {
        self.own.len().div_ceil(of_each(ranks) * 4)
    }

    fn start(&mut self, comm: &Comm, chunk: usize, slot: &mut Slot) -> Result<Request> {
        let most = of_each(comm.size) * 4;
        let own = part(self.own, chunk * most, most);
        slot.grow(own.len().div_ceil(4), (own.len() * comm.size).div_ceil(4));
        bytes_mut(&mut slot.input)[..own.len()].copy_from_slice(own);
        let input = &bytes(&slot.input)[..own.len()];
        let output = &mut bytes_mut(&mut slot.output)[..own.len() * comm.size];
        // SAFETY: the engine keeps the slot until the request is done.
        unsafe { comm.gather(input, output) }
    }

    fn finish(&mut self, comm: &Comm, chunk: usize, slot: &Slot) {
        let most = of_each(comm.size) * 4;
        let len = part(self.own, chunk * most, most).len();
        let received = bytes(&slot.output)[..len * comm.size].chunks_exact(len);
        for (all, received) in self.all.chunks_exact_mut(self.own.len()).zip(received) {
            part_mut(all, chunk * most, most).copy_from_slice(received);
        }
    }
}

/// This rank's part of the sums of all ranks.
pub struct ReduceScatter<'a> {
    pub values: &'a [f32],
    pub own: &'a mut [f32],
}

impl Work for ReduceScatter<'_> {
    fn chunks(&self, ranks: usize) -> usize {
        self.own.len().div_ceil(of_each(ranks))
    }

    fn start(&mut self, comm: &Comm, chunk: usize, slot: &mut Slot) -> Result<Request> {
        let most = of_each(comm.size);
        let len = part(self.own, chunk * most, most).len();
        slot.grow(len * comm.size, len);
        let parts = self.values.chunks_exact(self.own.len());
        for (values, copy) in parts.zip(slot.input.chunks_exact_mut(len)) {
            copy.copy_from_slice(part(values, chunk * most, most));
        }
        let (input, output) = (&slot.input[..len * comm.size], &mut slot.output[..len]);
        // SAFETY: the engine keeps the slot until the request is done.
        unsafe { comm.sum_part(input, output) }
    }

    fn finish(&mut self, comm: &Comm, chunk: usize, slot: &Slot) {
        let most = of_each(comm.size);
        let own = part_mut(self.own, chunk * most, most);
        own.copy_from_slice(&slot.output[..own.len()]);
    }
}
