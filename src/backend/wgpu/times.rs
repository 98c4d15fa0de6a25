//! Times of kernels: timestamps that the GPU writes before and after each kernel, or otherwise the times of whole submissions.

use super::error_log::lock;
use super::platform::Gpu;
use super::readbacks::PendingCopy;
use crate::backend::{self, resolution, Clock, Pending, RunTimes, RunsTimes, Times};
use crate::error::Result;
use std::future::ready;
use std::sync::{Arc, OnceLock};
use web_time::Instant;

/// The kernels between two resolves of timestamps. A query set has at most 4096 timestamps, two per kernel.
const KERNELS_PER_RESOLVE: usize = 2048;

/// The bytes of a buffer for resolved timestamps, and the most such buffers. Together they have space for a million kernels.
/// Later kernels are not timed until the times are taken.
const BUFFER: u64 = 1 << 20;
const BUFFERS: usize = 16;

/// The bytes of a kernel's two timestamps, and the alignment of resolved timestamps.
const PAIR: u64 = 16;
const ALIGNMENT: u64 = wgpu::QUERY_RESOLVE_BUFFER_ALIGNMENT;

/// The times of the runs since profiling began.
pub(super) struct Profiler {
    since: Instant,
    /// `None` if timestamps are not available.
    set: Option<wgpu::QuerySet>,
    buffers: Vec<wgpu::Buffer>,
    /// The used bytes of the last buffer.
    used: u64,
    /// The earliest timestamp, which is the zero of the times.
    zero: Arc<OnceLock<u64>>,
    runs: Vec<Run>,
}

#[derive(Default)]
struct Run {
    dispatches: usize,
    chunks: Vec<Chunk>,
    /// The time of the submission, if whole submissions are timed.
    whole: Option<Arc<OnceLock<Times>>>,
}

/// Kernels whose timestamps are resolved together: the buffer and the offset of the timestamps, and the dispatches.
pub(super) struct Chunk {
    buffer: usize,
    offset: u64,
    dispatches: Vec<usize>,
}

impl Profiler {
    pub(super) fn new(gpu: &Gpu, since: Instant, timestamps: bool) -> Profiler {
        let features = gpu.device.features();
        let there = timestamps && features.contains(wgpu::Features::TIMESTAMP_QUERY);
        let set = there.then(|| {
            let descriptor = wgpu::QuerySetDescriptor {
                label: Some("warpweft times"),
                ty: wgpu::QueryType::Timestamp,
                count: 2 * KERNELS_PER_RESOLVE as u32,
            };
            gpu.watch("profile", None, || gpu.device.create_query_set(&descriptor)).0
        });
        let (buffers, used, zero, runs) = Default::default();
        Profiler { since, set, buffers, used, zero, runs }
    }

    pub(super) fn clock(&self) -> Clock {
        if self.set.is_some() {
            Clock::Timestamps
        } else {
            Clock::Submissions
        }
    }

    /// Returns the bytes of the buffers.
    pub(super) fn bytes(&self) -> u64 {
        self.buffers.len() as u64 * BUFFER
    }

    /// Returns a timer for a run of these dispatches. `None` without timestamps, or if the buffers are full.
    pub(super) fn timer(&mut self, gpu: &Gpu, dispatches: &[usize]) -> Result<Option<Timer>> {
        let Some(set) = self.set.clone() else { return Ok(None) };
        let mut chunks = Vec::new();
        for chunk in dispatches.chunks(KERNELS_PER_RESOLVE) {
            let bytes = (chunk.len() as u64 * PAIR).next_multiple_of(ALIGNMENT);
            if self.buffers.is_empty() || self.used + bytes > BUFFER {
                if self.buffers.len() == BUFFERS {
                    return Ok(None);
                }
                let usage = wgpu::BufferUsages::QUERY_RESOLVE | wgpu::BufferUsages::COPY_SRC;
                self.buffers.push(gpu.create("profile", BUFFER, usage, false, None)?);
                self.used = 0;
            }
            let (buffer, offset) = (self.buffers.len() - 1, self.used);
            chunks.push(Chunk { buffer, offset, dispatches: chunk.to_vec() });
            self.used += bytes;
        }
        Ok(Some(Timer { set, buffers: self.buffers.clone(), chunks, next: (0, 0) }))
    }

    /// Notes a run that was submitted.
    pub(super) fn ran(
        &mut self,
        gpu: &Arc<Gpu>,
        dispatches: usize,
        timer: Option<Timer>,
        begun: Instant,
    ) {
        let mut run = Run { dispatches, ..Run::default() };
        match timer {
            Some(timer) => run.chunks = timer.chunks,
            None if self.set.is_none() => {
                let since = self.since;
                let (whole, begun) = (Arc::<OnceLock<Times>>::default(), nanoseconds(since, begun));
                run.whole = Some(whole.clone());
                gpu.when_done(move || {
                    let _ = whole.set((begun, nanoseconds(since, Instant::now())));
                });
            }
            None => {}
        }
        self.runs.push(run);
    }

    /// Notes a run that did nothing.
    pub(super) fn skipped(&mut self, dispatches: usize) {
        self.runs.push(Run { dispatches, ..Run::default() });
    }

    /// Returns the times of the runs so far, once they are done.
    pub(super) fn take(&mut self, gpu: &Arc<Gpu>) -> Result<Pending<Result<RunsTimes>>> {
        let (runs, buffers) = (std::mem::take(&mut self.runs), std::mem::take(&mut self.buffers));
        let (mut wanted, mut parts) = (Vec::new(), Vec::new());
        for (n, source) in buffers.iter().enumerate() {
            let last = n + 1 == buffers.len();
            let len = if last { self.used } else { BUFFER };
            let (take, taken) = backend::read_callback(len as usize, |bytes, all: &mut Vec<u8>| {
                all.extend_from_slice(bytes);
                Ok(())
            });
            wanted.push(PendingCopy { source: source.clone(), offset: 0, len, take });
            parts.push(taken);
        }
        let done = gpu.done();
        let reading = if wanted.is_empty() { None } else { Some(gpu.read(wanted)?) };
        let (gpu, zero) = (gpu.clone(), self.zero.clone());
        let period = f64::from(gpu.timestamp_period());
        Ok(Box::pin(async move {
            done.await;
            let read = match reading {
                Some(reading) => reading.await.unwrap_or(Ok(())),
                None => Ok(()),
            };
            buffers.iter().for_each(|buffer| gpu.discard(buffer));
            read?;
            let mut bytes = Vec::with_capacity(parts.len());
            for part in parts {
                bytes.push(part.get()?);
            }
            Ok(times(&runs, &bytes, period, &zero))
        }))
    }
}

/// A timer for the kernels of one run.
pub(super) struct Timer {
    set: wgpu::QuerySet,
    buffers: Vec<wgpu::Buffer>,
    chunks: Vec<Chunk>,
    /// The chunk and the position in it of the next kernel.
    next: (usize, usize),
}

impl Timer {
    /// Records a kernel in a separate pass.
    pub(super) fn pass(
        &mut self,
        encoder: &mut wgpu::CommandEncoder,
        label: &str,
        record: impl FnOnce(&mut wgpu::ComputePass<'_>),
    ) {
        let (chunk, kernel) = self.next;
        let writes = wgpu::ComputePassTimestampWrites {
            query_set: &self.set,
            beginning_of_pass_write_index: Some(2 * kernel as u32),
            end_of_pass_write_index: Some(2 * kernel as u32 + 1),
        };
        let descriptor =
            wgpu::ComputePassDescriptor { label: Some(label), timestamp_writes: Some(writes) };
        record(&mut encoder.begin_compute_pass(&descriptor));
        let Chunk { buffer, offset, dispatches } = &self.chunks[chunk];
        self.next.1 += 1;
        if self.next.1 == dispatches.len() {
            let queries = 0..2 * dispatches.len() as u32;
            encoder.resolve_query_set(&self.set, queries, &self.buffers[*buffer], *offset);
            self.next = (chunk + 1, 0);
        }
    }
}

/// Returns the nanoseconds of the host's clock since `since`.
fn nanoseconds(since: Instant, at: Instant) -> u64 {
    at.saturating_duration_since(since).as_nanos() as u64
}

/// Converts the resolved timestamps, whose unit is `period` nanoseconds, to times.
fn times(runs: &[Run], buffers: &[Vec<u8>], period: f64, zero: &OnceLock<u64>) -> RunsTimes {
    let mut stamps: Vec<u64> = Vec::new();
    let mut read = |chunk: &Chunk, kernel: usize| -> Option<Times> {
        let at = (chunk.offset + kernel as u64 * PAIR) as usize;
        let bytes = buffers.get(chunk.buffer)?.get(at..at + PAIR as usize)?;
        let stamp = |at: usize| Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?));
        let (begin, end) = (stamp(0)?, stamp(8)?);
        // Missing timestamps are 0. The clock may go back after the machine slept.
        if begin == 0 || end < begin {
            return None;
        }
        stamps.extend([begin, end]);
        Some((begin, end))
    };
    let mut raw: Vec<RunTimes> = Vec::with_capacity(runs.len());
    for run in runs {
        let whole = run.whole.as_ref().and_then(|whole| whole.get().copied());
        let mut times = RunTimes { kernels: vec![None; run.dispatches], whole };
        for chunk in &run.chunks {
            for (kernel, &dispatch) in chunk.dispatches.iter().enumerate() {
                times.kernels[dispatch] = read(chunk, kernel);
            }
        }
        raw.push(times);
    }
    if let Some(&first) = stamps.iter().min() {
        let zero = *zero.get_or_init(|| first);
        let nanoseconds = |stamp: u64| (stamp.saturating_sub(zero) as f64 * period) as u64;
        for times in raw.iter_mut().flat_map(|run| run.kernels.iter_mut().flatten()) {
            *times = (nanoseconds(times.0), nanoseconds(times.1));
        }
    }
    RunsTimes { runs: raw, resolution: resolution(&stamps, period) }
}

impl super::WgpuBackend {
    /// Starts or stops measuring times.
    pub(super) fn set_profile(&self, since: Option<Instant>) -> Clock {
        let mut state = lock(&self.state);
        let timestamps = !state.no_timestamps;
        state.profiler = since.map(|since| Profiler::new(&self.gpu, since, timestamps));
        state.profiler.as_ref().map_or(Clock::None, Profiler::clock)
    }

    /// Returns the measured times, once they are known.
    pub(super) fn times(&self) -> Pending<Result<RunsTimes>> {
        let taken = match &mut lock(&self.state).profiler {
            Some(profiler) => profiler.take(&self.gpu),
            None => return Box::pin(ready(Ok(RunsTimes::default()))),
        };
        taken.unwrap_or_else(|error| Box::pin(ready(Err(error))))
    }

    /// Times submissions instead of kernels from the next profile on. For tests of this backend.
    #[doc(hidden)]
    pub fn without_timestamps(&self) {
        lock(&self.state).no_timestamps = true;
    }
}
