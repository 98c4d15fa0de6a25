//! Staging: pinned host memory, which the GPU copies from and to while the host goes on. The memory is bounded and reused.

use super::context::{lock, Context};
use super::events::Event;
use crate::error::{Error, ErrorKind, Result};
use std::ptr::{copy_nonoverlapping, null_mut, NonNull};
use std::slice::from_raw_parts;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The bytes of a chunk of pinned memory.
pub const CHUNK_BYTES: usize = 4 << 20;
/// The most chunks for uploads, and the most for downloads.
const MAX_CHUNKS: usize = 2;
/// The alignment of data in a chunk in bytes.
const ALIGNMENT: usize = 64;

/// A chunk of pinned memory, and an event after the last copy from it or to it.
struct Chunk {
    context: Arc<Context>,
    start: NonNull<u8>,
    copied: Event,
}

// SAFETY: the memory has one owner.
unsafe impl Send for Chunk {}

impl Chunk {
    fn new(context: &Arc<Context>) -> Result<Chunk> {
        let copied = Event::without_time(context)?;
        let mut start = null_mut();
        context.call("cuMemHostAlloc", |api| {
            // SAFETY: the pointer is valid.
            unsafe { (api.cuMemHostAlloc)(&mut start, CHUNK_BYTES, 0) }
        })?;
        let none = || Error::state("cuda: cuMemHostAlloc must return memory, got a null pointer");
        let start = NonNull::new(start.cast()).ok_or_else(none)?;
        Ok(Chunk { context: context.clone(), start, copied })
    }

    /// Copies bytes through the chunk to device memory. The GPU does not use this part of the chunk yet.
    fn upload(&self, offset: usize, data: &[u8], address: u64) -> Result<()> {
        assert!(offset + data.len() <= CHUNK_BYTES, "the data fits into the chunk");
        // SAFETY: the range is in the chunk, and the GPU has copied what was there.
        let from = unsafe {
            let to = self.start.as_ptr().add(offset);
            copy_nonoverlapping(data.as_ptr(), to, data.len());
            to
        };
        let stream = self.context.stream();
        self.context.call("cuMemcpyHtoDAsync", |api| {
            // SAFETY: the chunk lives and keeps these bytes until its event. The backend has checked the address.
            unsafe { (api.cuMemcpyHtoDAsync_v2)(address, from.cast(), data.len(), stream) }
        })
    }

    /// Starts a copy from device memory to the start of the chunk.
    fn download(&self, address: u64, len: usize) -> Result<()> {
        assert!(len <= CHUNK_BYTES, "the data fits into the chunk");
        let (to, stream) = (self.start.as_ptr(), self.context.stream());
        self.context.call("cuMemcpyDtoHAsync", |api| {
            // SAFETY: the chunk lives until the stream is idle. An earlier copy to it is done first, as both are on one stream.
            unsafe { (api.cuMemcpyDtoHAsync_v2)(to.cast(), address, len, stream) }
        })?;
        self.copied.record()
    }

    /// Waits for a download, and appends its bytes.
    fn append_to(&self, bytes: &mut Vec<u8>, len: usize) -> Result<()> {
        self.copied.synchronize()?;
        // SAFETY: the copy is done, and `download` checked the length.
        bytes.extend_from_slice(unsafe { from_raw_parts(self.start.as_ptr(), len) });
        Ok(())
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // A copy may still run. On a lost device none does.
        drop(self.context.synchronize());
        let start = self.start.as_ptr().cast();
        // SAFETY: no copy uses the memory.
        drop(self.context.call("cuMemFreeHost", |api| unsafe { (api.cuMemFreeHost)(start) }));
    }
}

/// Staging for uploads. Data is appended to a chunk until the chunk is full. Meanwhile the GPU copies from the other one.
#[derive(Default)]
pub struct Uploads(Mutex<Filling>);

/// The chunks, of which the last one is filled, and the bytes of it that are used.
#[derive(Default)]
struct Filling {
    chunks: Vec<Chunk>,
    used: usize,
}

impl Uploads {
    /// Copies bytes to device memory. They may be changed after the call.
    ///
    /// # Errors
    /// `Memory` or `DeviceLost`.
    pub fn write(&self, context: &Arc<Context>, mut address: u64, data: &[u8]) -> Result<()> {
        let mut filling = lock(&self.0);
        for piece in data.chunks(CHUNK_BYTES) {
            if filling.chunks.is_empty() || filling.used + piece.len() > CHUNK_BYTES {
                filling.turn(context)?;
            }
            let used = filling.used;
            if let Some(chunk) = filling.chunks.last() {
                chunk.upload(used, piece, address)?;
            }
            filling.used = (used + piece.len()).next_multiple_of(ALIGNMENT);
            address += piece.len() as u64;
        }
        Ok(())
    }

    /// Returns the bytes of the chunks.
    pub fn bytes(&self) -> u64 {
        (lock(&self.0).chunks.len() * CHUNK_BYTES) as u64
    }
}

impl Filling {
    /// Goes on with an empty chunk.
    fn turn(&mut self, context: &Arc<Context>) -> Result<()> {
        if let Some(full) = self.chunks.last() {
            full.copied.record()?;
        }
        if self.chunks.len() < MAX_CHUNKS {
            self.chunks.push(Chunk::new(context)?);
        } else {
            self.chunks[0].copied.synchronize()?;
            self.chunks.rotate_left(1);
        }
        self.used = 0;
        Ok(())
    }
}

/// Staging for downloads: chunks that no read uses, and the number of all chunks.
#[derive(Default)]
pub struct Downloads {
    unused: Mutex<Vec<Chunk>>,
    count: AtomicUsize,
}

/// A chunk that a read uses until it is dropped.
struct Lease {
    chunk: Option<Chunk>,
    owner: Arc<Downloads>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        lock(&self.owner.unused).extend(self.chunk.take());
    }
}

/// A read that has started.
pub struct Download(Bytes);

enum Bytes {
    /// In a chunk, once its copy is done.
    Staged(Lease, usize),
    Done(Vec<u8>),
}

impl Downloads {
    /// Starts to copy bytes from device memory. A read of more bytes than a chunk has, or one while earlier reads use all
    /// chunks, waits here.
    ///
    /// # Errors
    /// `Memory` or `DeviceLost`.
    pub fn read(
        self: &Arc<Self>,
        context: &Arc<Context>,
        address: u64,
        len: usize,
    ) -> Result<Download> {
        let lease = if len <= CHUNK_BYTES { self.lease(context)? } else { None };
        if let Some(lease) = lease {
            lease.chunk.iter().try_for_each(|chunk| chunk.download(address, len))?;
            return Ok(Download(Bytes::Staged(lease, len)));
        }
        let mut leases = Vec::new();
        while let Some(lease) = self.lease(context)? {
            leases.push(lease);
        }
        let chunks: Vec<&Chunk> = leases.iter().filter_map(|lease| lease.chunk.as_ref()).collect();
        let bytes = match chunks.is_empty() {
            true => unstaged(context, address, len)?,
            false => in_pieces(&chunks, address, len)?,
        };
        Ok(Download(Bytes::Done(bytes)))
    }

    /// Returns a chunk that no read uses. `None` if reads use all.
    fn lease(self: &Arc<Self>, context: &Arc<Context>) -> Result<Option<Lease>> {
        let unused = lock(&self.unused).pop();
        let chunk = match unused {
            Some(chunk) => chunk,
            None => {
                let below = |count| (count < MAX_CHUNKS).then_some(count + 1);
                let order = Ordering::Relaxed;
                if self.count.fetch_update(order, order, below).is_err() {
                    return Ok(None);
                }
                let made = Chunk::new(context);
                if made.is_err() {
                    self.count.fetch_sub(1, order);
                }
                made?
            }
        };
        Ok(Some(Lease { chunk: Some(chunk), owner: self.clone() }))
    }

    /// Returns the bytes of the chunks.
    pub fn bytes(&self) -> u64 {
        (self.count.load(Ordering::Relaxed) * CHUNK_BYTES) as u64
    }
}

impl Download {
    /// Waits for the bytes.
    ///
    /// # Errors
    /// `Memory` or `DeviceLost`.
    pub fn finish(self) -> Result<Vec<u8>> {
        match self.0 {
            Bytes::Done(bytes) => Ok(bytes),
            Bytes::Staged(lease, len) => {
                let mut bytes = room(len)?;
                lease.chunk.iter().try_for_each(|chunk| chunk.append_to(&mut bytes, len))?;
                Ok(bytes)
            }
        }
    }
}

/// Allocates host memory.
fn room(len: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match bytes.try_reserve_exact(len) {
        Ok(()) => Ok(bytes),
        Err(_) => {
            let message = format!("cuda: a read must fit into memory, got {len} bytes");
            Err(Error::new(ErrorKind::Memory, message))
        }
    }
}

/// Reads bytes through chunks, which are filled in turn.
fn in_pieces(chunks: &[&Chunk], address: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = room(len)?;
    let count = len.div_ceil(CHUNK_BYTES);
    let size = |piece: usize| CHUNK_BYTES.min(len - piece * CHUNK_BYTES);
    for piece in 0..count + chunks.len() {
        if let Some(done) = piece.checked_sub(chunks.len()) {
            chunks[done % chunks.len()].append_to(&mut bytes, size(done))?;
        }
        if piece < count {
            let from = address + (piece * CHUNK_BYTES) as u64;
            chunks[piece % chunks.len()].download(from, size(piece))?;
        }
    }
    Ok(bytes)
}

/// Reads bytes without staging.
fn unstaged(context: &Context, address: u64, len: usize) -> Result<Vec<u8>> {
    let mut bytes = room(len)?;
    bytes.resize(len, 0);
    let (to, stream) = (bytes.as_mut_ptr(), context.stream());
    let copied = context.call("cuMemcpyDtoHAsync", |api| {
        // SAFETY: the vector has the length, and stays until the stream is idle. The backend has checked the address.
        unsafe { (api.cuMemcpyDtoHAsync_v2)(to.cast(), address, len, stream) }
    });
    context.synchronize()?;
    copied.map(|()| bytes)
}
