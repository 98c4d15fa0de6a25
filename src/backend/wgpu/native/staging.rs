//! Staging: large uploads go through a few mapped buffers, chunk by chunk.

use super::{lock, Gpu};
use crate::error::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// The bytes of a staging buffer.
const STAGING_BUFFER_BYTES: usize = 8 << 20;

/// The most staging buffers. If all are in use, an upload waits for the first.
const MAX_STAGING_BUFFERS: usize = 8;

/// The most free staging buffers that are kept.
const KEPT: usize = 4;

/// Staging buffers.
#[derive(Default)]
pub(super) struct Staging {
    pool: Arc<Mutex<Pool>>,
}

#[derive(Default)]
struct Pool {
    /// Mapped buffers, ready to be written.
    free: Vec<wgpu::Buffer>,
    /// The number of staging buffers, free or in use.
    there: usize,
    /// The copies that were submitted, oldest first.
    submitted: VecDeque<wgpu::SubmissionIndex>,
}

impl Staging {
    /// Returns the bytes of all staging buffers.
    pub(super) fn bytes(&self) -> u64 {
        (lock(&self.pool).there * STAGING_BUFFER_BYTES) as u64
    }

    /// Copies `data` to `offset` of `target` in chunks.
    pub(super) fn upload(
        &self,
        gpu: &Gpu,
        target: &wgpu::Buffer,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        for (number, piece) in data.chunks(STAGING_BUFFER_BYTES).enumerate() {
            let staging = self.take(gpu)?;
            let len = piece.len() as u64;
            match staging.get_mapped_range_mut(..len) {
                Ok(mut view) => view.copy_from_slice(piece),
                Err(error) => {
                    lock(&self.pool).there -= 1;
                    gpu.errors.check("write")?;
                    let message =
                        format!("write: the memory must be mapped to be written, got {error}");
                    return Err(Error::new(ErrorKind::Memory, message));
                }
            }
            staging.unmap();
            let at = offset + (number * STAGING_BUFFER_BYTES) as u64;
            let submission = gpu.watch_for_read("write", None, || {
                let mut encoder = gpu.device.create_command_encoder(&Default::default());
                encoder.copy_buffer_to_buffer(&staging, 0, target, at, len);
                gpu.queue.submit([encoder.finish()])
            });
            lock(&self.pool).submitted.push_back(submission);
            self.give_back(staging);
        }
        Ok(())
    }

    /// Maps a buffer again for the next chunk. The mapping completes after the copy is done.
    fn give_back(&self, staging: wgpu::Buffer) {
        let (pool, kept) = (self.pool.clone(), staging.clone());
        staging.map_async(wgpu::MapMode::Write, .., move |answer| {
            let mut pool = lock(&pool);
            pool.submitted.pop_front();
            if answer.is_ok() && pool.free.len() < KEPT {
                pool.free.push(kept);
            } else {
                pool.there -= 1;
            }
        });
    }

    /// Returns a mapped staging buffer.
    fn take(&self, gpu: &Gpu) -> Result<wgpu::Buffer> {
        loop {
            gpu.errors.check("write")?;
            let oldest = {
                let mut pool = lock(&self.pool);
                if let Some(buffer) = pool.free.pop() {
                    return Ok(buffer);
                }
                if pool.there < MAX_STAGING_BUFFERS {
                    pool.there += 1;
                    None
                } else {
                    Some(pool.submitted.front().cloned())
                }
            };
            let Some(oldest) = oldest else {
                let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
                let made = gpu.create("write", STAGING_BUFFER_BYTES as u64, usage, true, None);
                if made.is_err() {
                    lock(&self.pool).there -= 1;
                }
                return made;
            };
            gpu.poller.poll(oldest);
        }
    }
}
