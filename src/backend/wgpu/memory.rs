//! Buffers by number, and the uniform buffer for the params of kernels.

use super::deferred::{DeferredResult, ErrorDependencies};
#[cfg(feature = "wgpu-interop")]
use super::platform::is_same;
use super::platform::Gpu;
use crate::backend::BufferId;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Limits;
use std::sync::atomic::{AtomicU64, Ordering};

/// A wgpu buffer with its number.
#[derive(Clone)]
pub(super) struct GpuBuffer {
    pub(super) number: u64,
    pub(super) buffer: wgpu::Buffer,
}

/// The low bits of a buffer's number that are its position in the list of its device. The upper bits count the buffers made
/// before by any device, so that no number is used twice.
const INDEX_BITS: u32 = 24;

fn number(index: usize) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed) << INDEX_BITS | index as u64
}

fn index_of(id: BufferId) -> usize {
    (id.0 & ((1 << INDEX_BITS) - 1)) as usize
}

/// A buffer with its size.
pub(super) struct Memory {
    pub(super) held: GpuBuffer,
    pub(super) bytes: u64,
    /// The outcome of the allocation.
    there: DeferredResult,
    /// The calls that must succeed for the contents to be valid.
    pub(super) written: ErrorDependencies,
    /// The number of uses here of a buffer of the app. 0 for a buffer that was made here.
    lent: usize,
}

impl Memory {
    /// Returns the buffer to free, unless it belongs to the app.
    pub(super) fn own(&self) -> Option<&wgpu::Buffer> {
        (self.lent == 0).then_some(&self.held.buffer)
    }
}

/// Returns the bytes to bind. Kernels may read whole `vec4`s.
pub(super) fn bound_bytes(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(16)
}

/// The buffers of a device.
#[derive(Default)]
pub(super) struct Buffers {
    all: Vec<Option<Memory>>,
    vacant: Vec<usize>,
    /// The number of buffers made so far.
    pub(super) made: u64,
    /// The bytes of the existing buffers.
    pub(super) bytes: u64,
}

impl Buffers {
    /// Allocates a buffer of at least `bytes` bytes.
    pub(super) fn allocate(&mut self, gpu: &Gpu, limits: &Limits, bytes: u64) -> Result<BufferId> {
        if bytes == 0 || !bytes.is_multiple_of(4) {
            let message =
                format!("allocate: the size must be a positive multiple of 4, got {bytes}");
            return Err(Error::argument(message));
        }
        if bytes > limits.binding_bytes {
            let message = format!(
                "allocate: a buffer must have at most {} bytes on this device, got {bytes}",
                limits.binding_bytes
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let index = self.room("allocate")?;
        let bytes = bound_bytes(bytes);
        let there = DeferredResult::default();
        use wgpu::BufferUsages as Uses;
        let usage = Uses::STORAGE | Uses::COPY_SRC | Uses::COPY_DST;
        let buffer = gpu.create("allocate", bytes, usage, false, Some(&there))?;
        self.made += 1;
        self.bytes += bytes;
        Ok(self.put(index, buffer, bytes, there, 0))
    }

    /// Returns the position of the next buffer.
    fn room(&self, operation: &str) -> Result<usize> {
        let index = self.vacant.last().copied().unwrap_or(self.all.len());
        if index >> INDEX_BITS > 0 {
            let message = format!("{operation}: there must be fewer buffers, got {index}");
            return Err(Error::new(ErrorKind::Memory, message));
        }
        Ok(index)
    }

    fn put(
        &mut self,
        index: usize,
        buffer: wgpu::Buffer,
        bytes: u64,
        there: DeferredResult,
        lent: usize,
    ) -> BufferId {
        let held = GpuBuffer { number: number(index), buffer };
        let id = BufferId(held.number);
        let memory =
            Some(Memory { held, bytes, there, written: ErrorDependencies::default(), lent });
        match self.vacant.pop() {
            Some(index) => self.all[index] = memory,
            None => self.all.push(memory),
        }
        id
    }

    /// Borrows a buffer of the app. It must be removed as often as it is borrowed. `there` has the outcome of testing it.
    #[cfg(feature = "wgpu-interop")]
    pub(super) fn borrow(
        &mut self,
        buffer: &wgpu::Buffer,
        there: DeferredResult,
    ) -> Result<BufferId> {
        if let Some(memory) = self.borrowed(buffer) {
            memory.lent += 1;
            return Ok(BufferId(memory.held.number));
        }
        let index = self.room("tensor_from_wgpu")?;
        // Whole vectors are bound, so the size is rounded down.
        let bytes = buffer.size() / 16 * 16;
        Ok(self.put(index, buffer.clone(), bytes, there, 1))
    }

    /// Returns a buffer of the app if it is borrowed.
    #[cfg(feature = "wgpu-interop")]
    pub(super) fn borrowed(&mut self, buffer: &wgpu::Buffer) -> Option<&mut Memory> {
        let same = |memory: &&mut Memory| memory.lent > 0 && is_same(&memory.held.buffer, buffer);
        self.all.iter_mut().flatten().find(same)
    }

    /// Removes a buffer, unless a borrowed buffer has other uses.
    pub(super) fn remove(&mut self, id: BufferId) -> Option<Memory> {
        let found = self.all.get_mut(index_of(id))?;
        let memory = found.as_mut().filter(|memory| memory.held.number == id.0)?;
        if memory.lent > 1 {
            memory.lent -= 1;
            return None;
        }
        self.vacant.push(index_of(id));
        let memory = found.take()?;
        if memory.lent == 0 {
            self.bytes -= memory.bytes;
        }
        Some(memory)
    }

    /// Returns the buffers that were made here.
    pub(super) fn own(&self) -> impl Iterator<Item = &wgpu::Buffer> {
        self.all.iter().flatten().filter_map(Memory::own)
    }

    fn find(&self, id: BufferId) -> Option<&Memory> {
        self.all.get(index_of(id))?.as_ref().filter(|memory| memory.held.number == id.0)
    }

    /// Returns the buffer, or an error of `operation` if it was freed or its allocation failed.
    pub(super) fn get(&self, operation: &str, id: BufferId) -> Result<&Memory> {
        let Some(memory) = self.find(id) else {
            let message =
                format!("{operation}: the buffer must be one of this device, got {}, which is not or was freed", id.0);
            return Err(Error::state(message));
        };
        match memory.there.error() {
            Some(error) => Err(error.clone()),
            None => Ok(memory),
        }
    }

    /// Returns the buffer if `len` bytes from `offset` are inside it.
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
                "{operation}: the range must be inside the buffer of {} bytes, in multiples of 4, got {len} from {offset}",
                memory.bytes
            );
            return Err(Error::argument(message));
        }
        Ok(memory)
    }

    /// Returns the outcome of a buffer's allocation.
    pub(super) fn there(&self, id: BufferId) -> Option<&DeferredResult> {
        self.find(id).map(|memory| &memory.there)
    }

    /// Returns the dependencies of a buffer's contents.
    pub(super) fn unresolved(&self, id: BufferId) -> Option<&ErrorDependencies> {
        self.find(id).map(|memory| &memory.written)
    }

    /// Sets the dependencies of a buffer's contents.
    pub(super) fn depend(&mut self, id: BufferId, on: &ErrorDependencies) {
        let found = self.all.get_mut(index_of(id)).and_then(Option::as_mut);
        if let Some(memory) = found.filter(|memory| memory.held.number == id.0) {
            memory.written = on.clone();
        }
    }
}

/// The uniform buffer with the params of the next batch.
#[derive(Default)]
pub(super) struct Uniform {
    held: Option<GpuBuffer>,
    bytes: usize,
    /// The outcome of its allocation.
    there: DeferredResult,
    /// The contents written last, so that equal params are not written again.
    contents: Vec<u8>,
}

impl Uniform {
    /// Makes the buffer at least this large. Returns the replaced buffer, if any.
    pub(super) fn make_room(&mut self, gpu: &Gpu, bytes: usize) -> Result<Option<GpuBuffer>> {
        const SMALLEST: usize = 16 << 10;
        if bytes <= self.bytes && self.there.error().is_none() {
            return Ok(None);
        }
        let bytes = bytes.next_power_of_two().max(SMALLEST);
        let there = DeferredResult::default();
        let usage = wgpu::BufferUsages::UNIFORM | wgpu::BufferUsages::COPY_DST;
        let buffer = gpu.create("run", bytes as u64, usage, false, Some(&there))?;
        (self.bytes, self.there) = (bytes, there);
        self.contents.clear();
        Ok(self.held.replace(GpuBuffer { number: number(0), buffer }))
    }

    /// Returns the bytes of the buffer.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// Returns the buffer, if it was made.
    pub(super) fn buffer(&self) -> Option<&wgpu::Buffer> {
        self.held.as_ref().map(|held| &held.buffer)
    }

    /// Returns the buffer for `params`, which must be large enough, and the bytes to write first: all params, or nothing.
    pub(super) fn ready<'a>(&mut self, params: &'a [u8]) -> (&GpuBuffer, &'a [u8]) {
        let Some(held) = &self.held else { unreachable!("there is room") };
        if self.contents.starts_with(params) {
            return (held, &[]);
        }
        if self.contents.len() < params.len() {
            self.contents.resize(params.len(), 0);
        }
        self.contents[..params.len()].copy_from_slice(params);
        (held, params)
    }
}

impl Gpu {
    /// Creates a buffer. If memory is short, this returns an error natively, and resolves `deferred` later in a browser.
    pub(super) fn create(
        &self,
        operation: &str,
        size: u64,
        usage: wgpu::BufferUsages,
        mapped_at_creation: bool,
        deferred: Option<&DeferredResult>,
    ) -> Result<wgpu::Buffer> {
        let (buffer, error) = self.watch(format!("{operation}: {size} bytes"), deferred, || {
            let label = None;
            let descriptor = wgpu::BufferDescriptor { label, size, usage, mapped_at_creation };
            self.device.create_buffer(&descriptor)
        });
        match error {
            Some(error) => Err(error),
            None => Ok(buffer),
        }
    }
}
