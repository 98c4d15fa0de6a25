//! Buffers by number, and the uniform buffer that all kernels' params lie in.

use super::batch::bound_bytes;
use super::doubts::Doubts;
use super::{Fate, Machine, Usage};
use crate::backend::BufferId;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Limits;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number for a buffer. Numbers are not used twice, not even by another device: a mix-up shall be
/// found out.
pub(crate) fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A buffer, and the bytes it has.
pub(super) struct Memory<B> {
    pub(super) buffer: B,
    pub(super) bytes: u64,
    /// Whether there was memory for it.
    there: Fate,
    /// What must have gone well for its contents to mean something.
    pub(super) written: Doubts,
}

/// All buffers of a device.
pub(super) struct Buffers<B> {
    all: HashMap<BufferId, Memory<B>>,
    /// How many were ever made.
    pub(super) made: u64,
    /// Bytes of those there are.
    pub(super) bytes: u64,
}

impl<B> Default for Buffers<B> {
    fn default() -> Buffers<B> {
        Buffers { all: HashMap::default(), made: 0, bytes: 0 }
    }
}

impl<B> Buffers<B> {
    /// A new buffer of at least `bytes` bytes.
    pub(super) fn allocate<M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        limits: &Limits,
        bytes: u64,
    ) -> Result<BufferId> {
        if bytes == 0 || !bytes.is_multiple_of(4) {
            let message = format!("allocate: {bytes} bytes; a positive multiple of 4 is needed");
            return Err(Error::data(message));
        }
        if bytes > limits.binding_bytes {
            let message = format!(
                "allocate: {bytes} bytes in one buffer, and the device takes {}",
                limits.binding_bytes
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let bytes = bound_bytes(bytes);
        let there = Fate::default();
        let number = next_number();
        let buffer = machine.create(number, Usage::Storage, bytes, &there)?;
        let id = BufferId(number);
        self.all.insert(id, Memory { buffer, bytes, there, written: Doubts::default() });
        self.made += 1;
        self.bytes += bytes;
        Ok(id)
    }

    /// Takes a buffer out.
    pub(super) fn remove(&mut self, id: BufferId) -> Option<B> {
        let memory = self.all.remove(&id)?;
        self.bytes -= memory.bytes;
        Some(memory.buffer)
    }

    /// The buffer, or an error of `operation` where it was freed or never had memory.
    pub(super) fn get(&self, operation: &str, id: BufferId) -> Result<&Memory<B>> {
        let Some(memory) = self.all.get(&id) else {
            let message =
                format!("{operation}: buffer {} was freed, or is not this device's", id.0);
            return Err(Error::data(message));
        };
        match memory.there.error() {
            Some(error) => Err(error.clone()),
            None => Ok(memory),
        }
    }

    /// The buffer, where `len` bytes from `offset` lie in it.
    pub(super) fn range(
        &self,
        operation: &str,
        id: BufferId,
        offset: u64,
        len: u64,
    ) -> Result<&Memory<B>> {
        let memory = self.get(operation, id)?;
        let fits = offset.checked_add(len).is_some_and(|end| end <= memory.bytes);
        if !offset.is_multiple_of(4) || !len.is_multiple_of(4) || !fits {
            let message = format!(
                "{operation}: {len} bytes from {offset} of a buffer of {} bytes \
                 (multiples of 4 are needed)",
                memory.bytes
            );
            return Err(Error::data(message));
        }
        Ok(memory)
    }

    /// What the contents of a buffer depend on.
    pub(super) fn doubts(&self, id: BufferId) -> Option<&Doubts> {
        self.all.get(&id).map(|memory| &memory.written)
    }

    /// The contents of a buffer depend on these from now on.
    pub(super) fn depend(&mut self, id: BufferId, on: &Doubts) {
        if let Some(memory) = self.all.get_mut(&id) {
            memory.written = on.clone();
        }
    }
}

/// The params of the batch that runs next.
pub(super) struct Uniform<B> {
    buffer: Option<B>,
    bytes: usize,
    /// Whether there was memory for it.
    there: Fate,
    /// What was written last, so that the same is not written again.
    contents: Vec<u8>,
}

impl<B> Default for Uniform<B> {
    fn default() -> Uniform<B> {
        Uniform { buffer: None, bytes: 0, there: Fate::default(), contents: Vec::new() }
    }
}

impl<B> Uniform<B> {
    /// The buffer for `params`, and what must be written to it first: all of them, or nothing.
    pub(super) fn ready<'a, M: Machine<Buffer = B>>(
        &mut self,
        machine: &M,
        params: &'a [u8],
    ) -> Result<(&B, &'a [u8])> {
        const SMALLEST: usize = 16 << 10;
        if self.bytes < params.len() || self.there.error().is_some() {
            let bytes = params.len().next_power_of_two().max(SMALLEST);
            let there = Fate::default();
            let larger = machine.create(next_number(), Usage::Uniform, bytes as u64, &there)?;
            (self.bytes, self.there) = (bytes, there);
            if let Some(old) = self.buffer.replace(larger) {
                machine.discard(&old);
            }
            self.contents.clear();
        }
        let Some(buffer) = &self.buffer else { unreachable!("made above") };
        if self.contents.starts_with(params) {
            return Ok((buffer, &[]));
        }
        if self.contents.len() < params.len() {
            self.contents.resize(params.len(), 0);
        }
        self.contents[..params.len()].copy_from_slice(params);
        Ok((buffer, params))
    }
}
