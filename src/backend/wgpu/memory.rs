//! Buffers by number, and the uniform buffer that all kernels' params lie in.

use super::batch::bound_bytes;
use super::errors::{Fate, Gate};
use crate::backend::BufferId;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Limits;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// A buffer, and the bytes it has.
pub(super) struct Memory {
    pub(super) buffer: wgpu::Buffer,
    pub(super) bytes: u64,
    /// Whether there was memory for it.
    there: Fate,
    /// What must have gone well for its contents to mean something. What is known to be good is
    /// left out, so this is empty but for the first moments in a browser, and after a failure.
    written: Vec<Fate>,
}

/// All buffers of a device.
#[derive(Default)]
pub(super) struct Buffers {
    all: HashMap<BufferId, Memory>,
    /// How many were ever made.
    pub(super) made: u64,
    /// Bytes of those there are.
    pub(super) bytes: u64,
}

impl Buffers {
    /// A new buffer of at least `bytes` bytes.
    pub(super) fn allocate(
        &mut self,
        gate: &Gate,
        limits: &Limits,
        bytes: u64,
    ) -> Result<BufferId> {
        // Numbers are not used twice, not even by another device: a mix-up shall be found out.
        static NEXT: AtomicU64 = AtomicU64::new(1);
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
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        let there = Fate::default();
        let buffer = create(gate, "allocate", (bytes, usage), false, Some(&there))?;
        let id = BufferId(NEXT.fetch_add(1, Ordering::Relaxed));
        self.all.insert(id, Memory { buffer, bytes, there, written: Vec::new() });
        self.made += 1;
        self.bytes += bytes;
        Ok(id)
    }

    /// Gives a buffer back.
    pub(super) fn free(&mut self, id: BufferId) {
        if let Some(memory) = self.all.remove(&id) {
            self.bytes -= memory.bytes;
            discard(&memory.buffer);
        }
    }

    /// The buffer, or an error of `operation` where it was freed or never had memory.
    pub(super) fn get(&self, operation: &str, id: BufferId) -> Result<&Memory> {
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
    ) -> Result<&Memory> {
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

    /// The contents of `buffers` depend on these from now on.
    pub(super) fn depend(&mut self, buffers: impl Iterator<Item = BufferId>, on: &[Fate]) {
        for id in buffers {
            if let Some(memory) = self.all.get_mut(&id) {
                if !(memory.written.is_empty() && on.is_empty()) {
                    memory.written = on.to_vec();
                }
            }
        }
    }
}

impl Memory {
    /// What must have gone well for its contents to mean something, and is not known to have.
    pub(super) fn doubts(&self) -> impl Iterator<Item = &Fate> {
        self.written.iter().filter(|fate| !fate.good())
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        for memory in self.all.values() {
            discard(&memory.buffer);
        }
    }
}

/// Makes a buffer; natively an error is known at once, in a browser the next read tells it.
pub(super) fn create(
    gate: &Gate,
    operation: &str,
    (size, usage): (u64, wgpu::BufferUsages),
    mapped_at_creation: bool,
    fate: Option<&Fate>,
) -> Result<wgpu::Buffer> {
    let (buffer, error) = gate.watch(&format!("{operation}: {size} bytes"), fate, || {
        gate.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation,
        })
    });
    match error {
        Some(error) => Err(error),
        None => Ok(buffer),
    }
}

/// A buffer is not needed any more. In a browser its memory would otherwise stay until the next
/// garbage collection; natively dropping it is enough, and `destroy` would wait for the thread that
/// polls.
pub(super) fn discard(buffer: &wgpu::Buffer) {
    if cfg!(target_arch = "wasm32") {
        buffer.destroy();
    }
}

/// The params of the batch that runs next.
#[derive(Default)]
pub(super) struct Uniform {
    buffer: Option<wgpu::Buffer>,
    /// Whether there was memory for it.
    there: Fate,
    /// What was written last, so that the same is not written again.
    contents: Vec<u8>,
}

impl Uniform {
    /// The buffer with `params` in it; whether it is a new one.
    pub(super) fn write(
        &mut self,
        gate: &Gate,
        queue: &wgpu::Queue,
        params: &[u8],
    ) -> Result<(&wgpu::Buffer, bool)> {
        const SMALLEST: u64 = 16 << 10;
        let bytes = params.len() as u64;
        let large = self.buffer.as_ref().is_some_and(|buffer| buffer.size() >= bytes);
        let new = !large || self.there.error().is_some();
        if new {
            let size = bytes.next_power_of_two().max(SMALLEST);
            let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
            self.there = Fate::default();
            let larger = create(gate, "run", (size, usage), false, Some(&self.there))?;
            if let Some(old) = self.buffer.replace(larger) {
                discard(&old);
            }
            self.contents.clear();
        }
        let Some(buffer) = &self.buffer else { unreachable!("made above") };
        if !self.contents.starts_with(params) {
            queue.write_buffer(buffer, 0, params);
            if self.contents.len() < params.len() {
                self.contents.resize(params.len(), 0);
            }
            self.contents[..params.len()].copy_from_slice(params);
        }
        Ok((buffer, new))
    }
}
