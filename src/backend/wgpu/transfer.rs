//! Bytes between this side and the device: uploads in pieces, and reads through buffers that can be
//! mapped.

use super::errors::{Fate, Gate};
use super::ledger::{lock, Ticket};
use super::memory::{create, discard};
use crate::backend::Pending;
use crate::error::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// Uploads beyond this go through staging buffers natively. wgpu's own way takes memory for each
/// call, and loses the device where there is none.
#[cfg(not(target_arch = "wasm32"))]
const LARGE: usize = 1 << 20;

/// Bytes of small writes after which they are submitted, so that wgpu can give back what it took
/// for them.
#[cfg(not(target_arch = "wasm32"))]
const UNSUBMITTED: usize = 16 << 20;

/// All that moves bytes.
pub(super) struct Transfer {
    readbacks: Arc<Readbacks>,
    #[cfg(not(target_arch = "wasm32"))]
    staging: staging::Staging,
    #[cfg(not(target_arch = "wasm32"))]
    unsubmitted: std::sync::atomic::AtomicUsize,
}

impl Transfer {
    pub(super) fn new() -> Transfer {
        Transfer {
            readbacks: Arc::default(),
            #[cfg(not(target_arch = "wasm32"))]
            staging: staging::Staging::default(),
            #[cfg(not(target_arch = "wasm32"))]
            unsubmitted: std::sync::atomic::AtomicUsize::new(0),
        }
    }

    /// Copies `data` to `offset` of `target`; the range was checked.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn upload(
        &self,
        gate: &Gate,
        queue: &wgpu::Queue,
        target: &wgpu::Buffer,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        use std::sync::atomic::Ordering;
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

    /// Copies `data` to `offset` of `target`; the range was checked.
    #[cfg(target_arch = "wasm32")]
    pub(super) fn upload(
        &self,
        _: &Gate,
        queue: &wgpu::Queue,
        target: &wgpu::Buffer,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        queue.write_buffer(target, offset, data);
        Ok(())
    }

    /// Something was submitted, and all small writes with it.
    pub(super) fn submitted(&self) {
        #[cfg(not(target_arch = "wasm32"))]
        self.unsubmitted.store(0, std::sync::atomic::Ordering::Relaxed);
    }

    /// The bytes of `source` in a range that was checked and is not empty; an error where one of
    /// `doubts` is bad.
    pub(super) fn read(
        &self,
        gate: &Arc<Gate>,
        queue: &wgpu::Queue,
        source: &wgpu::Buffer,
        range: Range<u64>,
        doubts: Vec<Fate>,
    ) -> Result<Pending<Result<Vec<u8>>>> {
        let len = range.end - range.start;
        let mut readback = Readbacks::take(&self.readbacks, gate, len)?;
        let target = readback.buffer().clone();
        let submission = gate.watch_for_read("read", None, || {
            let mut encoder = gate.device.create_command_encoder(&Default::default());
            encoder.copy_buffer_to_buffer(source, range.start, &target, 0, len);
            queue.submit([encoder.finish()])
        });
        self.submitted();
        let ticket = Ticket::new(gate.ledger.tick(), Some(submission));
        let mapped = ticket.clone();
        target.map_async(wgpu::MapMode::Read, ..len, move |answer| mapped.settle(answer.is_ok()));
        gate.ledger.open(&ticket);
        let gate = gate.clone();
        Ok(Box::pin(async move {
            gate.finished(&ticket, "read", &doubts).await?;
            let bytes = copy_out(readback.buffer(), len);
            readback.recycle();
            bytes
        }))
    }
}

/// The first `len` bytes of a mapped buffer.
fn copy_out(buffer: &wgpu::Buffer, len: u64) -> Result<Vec<u8>> {
    let view = buffer.get_mapped_range(..len).map_err(|error| {
        Error::new(ErrorKind::Memory, format!("read: the device could not map: {error}"))
    })?;
    // In a browser this copies once; the view as a slice would be a copy itself.
    #[cfg(target_arch = "wasm32")]
    return Ok(view.as_uint8array().to_vec());
    #[cfg(not(target_arch = "wasm32"))]
    Ok(view.to_vec())
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

impl Drop for Readbacks {
    fn drop(&mut self) {
        for buffer in lock(&self.free).iter() {
            discard(buffer);
        }
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
            discard(&free.remove(0));
        }
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        if let Some(buffer) = &self.buffer {
            discard(buffer);
        }
    }
}

#[cfg(not(target_arch = "wasm32"))]
mod staging {
    //! A few mapped buffers that uploads go through, piece by piece.

    use super::{create, lock, Arc, Error, ErrorKind, Gate, Mutex, Result};
    use std::collections::VecDeque;
    use std::time::Duration;

    /// Bytes of one staging buffer.
    const PIECE: usize = 8 << 20;

    /// So many staging buffers at most; with all of them in use an upload waits for the first.
    const MOST: usize = 8;

    /// So many stay when they are not in use.
    const KEPT: usize = 4;

    /// Staging buffers.
    #[derive(Default)]
    pub(super) struct Staging {
        pool: Arc<Mutex<Pool>>,
    }

    #[derive(Default)]
    struct Pool {
        /// Mapped, to be written to.
        free: Vec<wgpu::Buffer>,
        /// How many there are, free or not.
        there: usize,
        /// The copies that were submitted, oldest first.
        submitted: VecDeque<wgpu::SubmissionIndex>,
    }

    impl Staging {
        /// Copies `data` to `offset` of `target` in pieces.
        pub(super) fn upload(
            &self,
            gate: &Gate,
            queue: &wgpu::Queue,
            target: &wgpu::Buffer,
            offset: u64,
            data: &[u8],
        ) -> Result<()> {
            for (number, piece) in data.chunks(PIECE).enumerate() {
                let staging = self.take(gate)?;
                let len = piece.len() as u64;
                match staging.get_mapped_range_mut(..len) {
                    Ok(mut view) => view.copy_from_slice(piece),
                    Err(error) => {
                        lock(&self.pool).there -= 1;
                        gate.ledger.check("write")?;
                        let message = format!("write: the device could not map: {error}");
                        return Err(Error::new(ErrorKind::Memory, message));
                    }
                }
                staging.unmap();
                let at = offset + (number * PIECE) as u64;
                let submission = gate.watch_for_read("write", None, || {
                    let mut encoder = gate.device.create_command_encoder(&Default::default());
                    encoder.copy_buffer_to_buffer(&staging, 0, target, at, len);
                    queue.submit([encoder.finish()])
                });
                lock(&self.pool).submitted.push_back(submission);
                self.give_back(staging);
            }
            Ok(())
        }

        /// Maps it again for the next piece, which happens when the copy is done.
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

        /// A mapped staging buffer.
        fn take(&self, gate: &Gate) -> Result<wgpu::Buffer> {
            loop {
                gate.ledger.check("write")?;
                let oldest = {
                    let mut pool = lock(&self.pool);
                    if let Some(buffer) = pool.free.pop() {
                        return Ok(buffer);
                    }
                    if pool.there < MOST {
                        pool.there += 1;
                        None
                    } else {
                        Some(pool.submitted.front().cloned())
                    }
                };
                let Some(oldest) = oldest else {
                    let usage = wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC;
                    let made = create(gate, "write", (PIECE as u64, usage), true, None);
                    if made.is_err() {
                        lock(&self.pool).there -= 1;
                    }
                    return made;
                };
                super::super::waiting::poll(gate, oldest, Duration::from_millis(100));
            }
        }
    }
}
