//! Readback buffers: bytes to read are copied into a buffer that is then mapped.

use super::error_log::lock;
use super::platform::discard;
use crate::backend::Take;
use crate::error::Result;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// The free readback buffers, the oldest first.
#[derive(Default)]
pub(super) struct Readbacks {
    free: Mutex<Vec<wgpu::Buffer>>,
    /// The bytes of all readback buffers.
    bytes: AtomicU64,
}

/// A readback buffer in use. If it is not recycled it is freed, because it may still be mapped.
pub(super) struct Readback {
    buffer: Option<wgpu::Buffer>,
    home: Arc<Readbacks>,
}

/// A pending copy to a readback buffer: a checked range of a buffer, and the callback for its bytes.
pub(super) struct PendingCopy {
    pub(super) source: wgpu::Buffer,
    pub(super) offset: u64,
    pub(super) len: u64,
    pub(super) take: Take,
}

impl PendingCopy {
    /// Records the copy.
    pub(super) fn record(&self, to: &Readback, encoder: &mut wgpu::CommandEncoder) {
        encoder.copy_buffer_to_buffer(&self.source, self.offset, to.buffer(), 0, self.len);
    }
}

/// Returns the size of a readback buffer for `len` bytes.
fn size_for(len: u64) -> u64 {
    match len {
        0..0x1_0000 => 0x1_0000,
        0x1_0000..0x100_0000 => len.next_power_of_two(),
        _ => len.next_multiple_of(16),
    }
}

impl Readbacks {
    /// The most bytes of free buffers.
    const MAX_FREE_BYTES: u64 = 64 << 20;
    /// The most free buffers.
    const MAX_FREE_BUFFERS: usize = 8;

    /// Returns the bytes of all readback buffers, free or not.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Frees a buffer.
    fn discard(&self, buffer: &wgpu::Buffer) {
        self.bytes.fetch_sub(buffer.size(), Ordering::Relaxed);
        discard(buffer);
    }

    /// Returns the smallest free buffer that is large enough, and not more than four times as large as a new one.
    pub(super) fn vacant(home: &Arc<Readbacks>, len: u64) -> Option<Readback> {
        let mut free = lock(&home.free);
        let fitting = (0..free.len())
            .filter(|&i| free[i].size() >= len && free[i].size() / 4 <= size_for(len))
            .min_by_key(|&i| free[i].size());
        let buffer = fitting.map(|i| free.remove(i))?;
        Some(Readback { buffer: Some(buffer), home: home.clone() })
    }

    /// Returns a free buffer, or a new one from `create`.
    pub(super) fn take(
        home: &Arc<Readbacks>,
        len: u64,
        create: impl FnOnce(u64, wgpu::BufferUsages) -> Result<wgpu::Buffer>,
    ) -> Result<Readback> {
        if let Some(found) = Readbacks::vacant(home, len) {
            return Ok(found);
        }
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let buffer = create(size_for(len), usage)?;
        home.bytes.fetch_add(buffer.size(), Ordering::Relaxed);
        Ok(Readback { buffer: Some(buffer), home: home.clone() })
    }
}

impl Drop for Readbacks {
    fn drop(&mut self) {
        for buffer in lock(&self.free).drain(..) {
            discard(&buffer);
        }
    }
}

impl Readback {
    pub(super) fn buffer(&self) -> &wgpu::Buffer {
        match &self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("only recycling takes the buffer, and consumes it"),
        }
    }

    /// Unmaps the buffer after it was read, and returns it to the free buffers.
    pub(super) fn recycle(mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        buffer.unmap();
        let mut free = lock(&self.home.free);
        free.push(buffer);
        let too_many = |free: &[wgpu::Buffer]| {
            let bytes: u64 = free.iter().map(|buffer| buffer.size()).sum();
            free.len() > Readbacks::MAX_FREE_BUFFERS || bytes > Readbacks::MAX_FREE_BYTES
        };
        while too_many(&free) {
            self.home.discard(&free.remove(0));
        }
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.home.discard(&buffer);
        }
    }
}
