//! Buffers by number, and the uniform buffer that all kernels' params lie in.

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
const PLACE_BITS: u32 = 24;

fn number(place: usize) -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Ordering::Relaxed) << PLACE_BITS | place as u64
}

fn place(id: BufferId) -> usize {
    (id.0 & ((1 << PLACE_BITS) - 1)) as usize
}

/// A buffer, and the bytes it has.
pub(super) struct Memory {
    pub(super) held: GpuBuffer,
    pub(super) bytes: u64,
    /// Whether there was memory for it.
    there: DeferredResult,
    /// What must have gone well for its contents to mean something.
    pub(super) written: ErrorDependencies,
    /// Of an app's buffer, how many use it here; 0 of one that was made here.
    lent: usize,
}

impl Memory {
    /// What is to be given back once nobody needs it: an app's buffer is the app's.
    pub(super) fn own(&self) -> Option<&wgpu::Buffer> {
        (self.lent == 0).then_some(&self.held.buffer)
    }
}

/// A buffer's bytes as they are bound: kernels may read whole `vec4`s.
pub(super) fn bound_bytes(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(16)
}

/// All buffers of a device.
#[derive(Default)]
pub(super) struct Buffers {
    all: Vec<Option<Memory>>,
    vacant: Vec<usize>,
    /// How many were ever made.
    pub(super) made: u64,
    /// Bytes of those there are.
    pub(super) bytes: u64,
}

impl Buffers {
    /// A new buffer of at least `bytes` bytes.
    pub(super) fn allocate(&mut self, gpu: &Gpu, limits: &Limits, bytes: u64) -> Result<BufferId> {
        if bytes == 0 || !bytes.is_multiple_of(4) {
            let message =
                format!("allocate: the size must be a positive multiple of 4, got {bytes}");
            return Err(Error::data(message));
        }
        if bytes > limits.binding_bytes {
            let message = format!(
                "allocate: a buffer must have at most {} bytes on this device, got {bytes}",
                limits.binding_bytes
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let place = self.room("allocate")?;
        let bytes = bound_bytes(bytes);
        let there = DeferredResult::default();
        use wgpu::BufferUsages as Uses;
        let usage = Uses::STORAGE | Uses::COPY_SRC | Uses::COPY_DST;
        let buffer = gpu.create("allocate", bytes, usage, false, Some(&there))?;
        self.made += 1;
        self.bytes += bytes;
        Ok(self.put(place, buffer, bytes, there, 0))
    }

    /// Where the next buffer will lie.
    fn room(&self, operation: &str) -> Result<usize> {
        let place = self.vacant.last().copied().unwrap_or(self.all.len());
        if place >> PLACE_BITS > 0 {
            let message = format!("{operation}: there must be fewer buffers, got {place}");
            return Err(Error::new(ErrorKind::Memory, message));
        }
        Ok(place)
    }

    fn put(
        &mut self,
        place: usize,
        buffer: wgpu::Buffer,
        bytes: u64,
        there: DeferredResult,
        lent: usize,
    ) -> BufferId {
        let held = GpuBuffer { number: number(place), buffer };
        let id = BufferId(held.number);
        let memory =
            Some(Memory { held, bytes, there, written: ErrorDependencies::default(), lent });
        match self.vacant.pop() {
            Some(place) => self.all[place] = memory,
            None => self.all.push(memory),
        }
        id
    }

    /// An app's buffer, to be given back as often as it is taken. `there` says whether it can be used.
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
        let place = self.room("tensor_from_wgpu")?;
        // Whole vectors are bound.
        let bytes = buffer.size() / 16 * 16;
        Ok(self.put(place, buffer.clone(), bytes, there, 1))
    }

    /// An app's buffer, if it is in use here.
    #[cfg(feature = "wgpu-interop")]
    pub(super) fn borrowed(&mut self, buffer: &wgpu::Buffer) -> Option<&mut Memory> {
        let same = |memory: &&mut Memory| memory.lent > 0 && is_same(&memory.held.buffer, buffer);
        self.all.iter_mut().flatten().find(same)
    }

    /// Takes a buffer out, unless others use it still.
    pub(super) fn remove(&mut self, id: BufferId) -> Option<Memory> {
        let found = self.all.get_mut(place(id))?;
        let memory = found.as_mut().filter(|memory| memory.held.number == id.0)?;
        if memory.lent > 1 {
            memory.lent -= 1;
            return None;
        }
        self.vacant.push(place(id));
        let memory = found.take()?;
        if memory.lent == 0 {
            self.bytes -= memory.bytes;
        }
        Some(memory)
    }

    /// All that were made here.
    pub(super) fn own(&self) -> impl Iterator<Item = &wgpu::Buffer> {
        self.all.iter().flatten().filter_map(Memory::own)
    }

    fn find(&self, id: BufferId) -> Option<&Memory> {
        self.all.get(place(id))?.as_ref().filter(|memory| memory.held.number == id.0)
    }

    /// The buffer, or an error of `operation` where it was freed or never had memory.
    pub(super) fn get(&self, operation: &str, id: BufferId) -> Result<&Memory> {
        let Some(memory) = self.find(id) else {
            let message =
                format!("{operation}: the buffer must be one of this device, got {}, which is not or was freed", id.0);
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
                "{operation}: the range must be inside the buffer of {} bytes, in multiples of 4, got {len} from {offset}",
                memory.bytes
            );
            return Err(Error::data(message));
        }
        Ok(memory)
    }

    /// Whether there was memory for a buffer.
    pub(super) fn there(&self, id: BufferId) -> Option<&DeferredResult> {
        self.find(id).map(|memory| &memory.there)
    }

    /// What the contents of a buffer depend on.
    pub(super) fn unresolved(&self, id: BufferId) -> Option<&ErrorDependencies> {
        self.find(id).map(|memory| &memory.written)
    }

    /// The contents of a buffer depend on these from now on.
    pub(super) fn depend(&mut self, id: BufferId, on: &ErrorDependencies) {
        let found = self.all.get_mut(place(id)).and_then(Option::as_mut);
        if let Some(memory) = found.filter(|memory| memory.held.number == id.0) {
            memory.written = on.clone();
        }
    }
}

/// The params of the batch that runs next.
#[derive(Default)]
pub(super) struct Uniform {
    held: Option<GpuBuffer>,
    bytes: usize,
    /// Whether there was memory for it.
    there: DeferredResult,
    /// What was written last, so that the same is not written again.
    contents: Vec<u8>,
}

impl Uniform {
    /// Sees to it that so many bytes fit; the buffer that is replaced, where one is.
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

    /// The bytes of the buffer.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    /// The buffer, if there is one yet.
    pub(super) fn buffer(&self) -> Option<&wgpu::Buffer> {
        self.held.as_ref().map(|held| &held.buffer)
    }

    /// The buffer for `params`, for which there is room, and what must be written to it first: all of them, or nothing.
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
    /// Makes a buffer. Where there is no memory for it, that is an error natively; in a browser it is told later.
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
