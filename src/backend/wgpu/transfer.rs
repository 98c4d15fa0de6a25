//! Bytes between this side and the device: uploads in pieces, and reads through buffers that can be
//! mapped.

use super::create;
use super::errors::Gate;
use super::staging::Staging;
use super::waiting::Ticket;
use crate::backend::gpu::lock;
use crate::backend::Pending;
use crate::error::Result;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Uploads beyond this go through staging buffers. wgpu's own way takes memory for each call, and
/// loses the device where there is none.
const LARGE: usize = 1 << 20;

/// Bytes of small writes after which they are submitted, so that wgpu can give back what it took
/// for them.
const UNSUBMITTED: usize = 16 << 20;

/// All that moves bytes.
#[derive(Default)]
pub(super) struct Transfer {
    readbacks: Arc<Readbacks>,
    staging: Staging,
    unsubmitted: AtomicUsize,
}

impl Transfer {
    /// Copies `data` to `offset` of `target`; the range was checked.
    pub(super) fn upload(
        &self,
        gate: &Gate,
        queue: &wgpu::Queue,
        target: &wgpu::Buffer,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        if data.len() > LARGE {
            return self.staging.upload(gate, queue, target, offset, data);
        }
        queue.write_buffer(target, offset, data);
        if self.unsubmitted.fetch_add(data.len(), Ordering::Relaxed) + data.len() > UNSUBMITTED {
            self.submitted();
            queue.submit([]);
        }
        Ok(())
    }

    /// Something was submitted, and all small writes with it.
    pub(super) fn submitted(&self) {
        self.unsubmitted.store(0, Ordering::Relaxed);
    }

    /// The bytes of `source` in a range that was checked and is not empty; none where they could not
    /// be mapped.
    pub(super) fn read(
        &self,
        gate: &Gate,
        queue: &wgpu::Queue,
        source: &wgpu::Buffer,
        range: Range<u64>,
    ) -> Result<Pending<Option<Vec<u8>>>> {
        let len = range.end - range.start;
        let mut readback = Readbacks::take(&self.readbacks, gate, len)?;
        let target = readback.buffer().clone();
        let submission = gate.watch_for_read("read", None, || {
            let mut encoder = gate.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(source, range.start, &target, 0, len);
            queue.submit([encoder.finish()])
        });
        self.submitted();
        let ticket = Ticket::new(Some(submission));
        let mapped = ticket.clone();
        target.map_async(wgpu::MapMode::Read, ..len, move |answer| mapped.settle(answer.is_ok()));
        gate.tickets.open(&ticket);
        Ok(Box::pin(async move {
            if !poll_fn(|context| ticket.poll(context)).await {
                return None;
            }
            // It is not mapped any more where the device was lost meanwhile.
            let bytes = readback.buffer().get_mapped_range(..len).ok()?.to_vec();
            readback.recycle();
            Some(bytes)
        }))
    }
}

/// Buffers to read through that are free now.
#[derive(Default)]
struct Readbacks {
    free: Mutex<Vec<wgpu::Buffer>>,
}

/// A buffer to read through; where it is not recycled it goes, as it may be mapped still.
struct Readback {
    buffer: Option<wgpu::Buffer>,
    home: Arc<Readbacks>,
}

impl Readbacks {
    /// Bytes kept free at most, in at most so many buffers.
    const MOST_BYTES: u64 = 64 << 20;
    const MOST: usize = 8;

    /// The smallest free buffer that is large enough and not much too large, or a new one.
    fn take(home: &Arc<Readbacks>, gate: &Gate, len: u64) -> Result<Readback> {
        let size = match len {
            0..0x1_0000 => 0x1_0000,
            0x1_0000..0x100_0000 => len.next_power_of_two(),
            _ => len.next_multiple_of(16),
        };
        let found = {
            let mut free = lock(&home.free);
            let fitting = (0..free.len())
                .filter(|&i| free[i].size() >= len && free[i].size() / 4 <= size)
                .min_by_key(|&i| free[i].size());
            fitting.map(|i| free.swap_remove(i))
        };
        let buffer = match found {
            Some(buffer) => buffer,
            None => {
                let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
                create(gate, "read", (size, usage), false, None)?
            }
        };
        Ok(Readback { buffer: Some(buffer), home: home.clone() })
    }
}

impl Readback {
    fn buffer(&self) -> &wgpu::Buffer {
        match &self.buffer {
            Some(buffer) => buffer,
            None => unreachable!("only recycling takes the buffer, and consumes it"),
        }
    }

    /// It was mapped, and is read.
    fn recycle(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        buffer.unmap();
        let mut free = lock(&self.home.free);
        free.push(buffer);
        // The oldest go first.
        while free.len() > Readbacks::MOST
            || free.iter().map(|b| b.size()).sum::<u64>() > Readbacks::MOST_BYTES
        {
            free.remove(0);
        }
    }
}
