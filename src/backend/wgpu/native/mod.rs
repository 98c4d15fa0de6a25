//! An open device through Vulkan, Metal or DX12. Errors of a call are known at once, and a thread polls for pending work.

mod adapters;
mod matrices;
mod memory;
mod objects;
mod polling;
mod staging;

#[cfg(feature = "wgpu-interop")]
pub(super) use adapters::known;
pub use adapters::EXPECTED;
pub(super) use adapters::{has, list, open, DIALECT, NONE};
#[cfg(feature = "wgpu-interop")]
pub(super) use objects::is_same;
pub(super) use objects::{discard, Handle};

use super::completion::Completion;
use super::deferred::DeferredResult;
use super::error_log::{lock, ErrorLog};
use super::readbacks::{PendingCopy, Readbacks};
use crate::backend::Pending;
use crate::error::{Error, ErrorKind, Result};
use polling::Poller;
use staging::Staging;
use std::future::{ready, Future};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread::{available_parallelism, scope, Builder, JoinHandle};

/// The submission that a completion waits for. `None` means the last one.
pub(super) type Awaited = Option<wgpu::SubmissionIndex>;

/// The largest upload, in bytes, that uses `Queue::write_buffer`. Larger ones use staging buffers. wgpu would allocate memory
/// for each call, and lose the device if the allocation failed.
const LARGE: usize = 1 << 20;

/// The bytes of small writes after which they are submitted, so that wgpu can free its memory for them.
const UNSUBMITTED: usize = 16 << 20;

/// An open device with its queue.
///
/// Dropping it waits for the work in flight and for the thread that polls. Otherwise the process could end while that thread,
/// or a thread of a driver, still works. Static objects of the driver are destroyed by then, so the process would crash.
/// Software GPUs such as lavapipe compile shaders on separate threads, so they crash most often.
pub(super) struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) errors: Arc<ErrorLog>,
    /// Whether the device belongs to an app. The app then handles device loss and uncaptured errors.
    lent: bool,
    queue: objects::Queue,
    poller: Arc<Poller>,
    /// The polling thread, until it is joined.
    thread: Option<JoinHandle<()>>,
    readbacks: Arc<Readbacks>,
    staging: Staging,
    unsubmitted: AtomicUsize,
}

impl Gpu {
    pub(super) fn new(device: wgpu::Device, queue: wgpu::Queue, lent: bool) -> Result<Arc<Gpu>> {
        let errors = Arc::<ErrorLog>::default();
        let poller = Arc::new(Poller::new(device.clone(), errors.clone()));
        if lent {
            // If a waker of the app drops the device on the polling thread, nothing waits for that thread. The static instance
            // keeps drivers loaded meanwhile.
            adapters::instance();
        } else {
            listen(&device, &poller, &errors);
        }
        let thread = Some(polling::start(poller.clone())?);
        let (readbacks, staging, unsubmitted) = Default::default();
        Ok(Arc::new(Gpu {
            device,
            errors,
            lent,
            queue: objects::Queue::new(queue),
            poller,
            thread,
            readbacks,
            staging,
            unsubmitted,
        }))
    }

    /// Checks whether the device is lost, after an expected result is missing. Only the app is notified about the loss of its
    /// device. wgpu does not report the loss otherwise, but memory of a lost device cannot be mapped.
    fn ask_whether_lost(&self) {
        if !self.lent {
            return;
        }
        let (size, usage) = (16, wgpu::BufferUsages::MAP_WRITE | wgpu::BufferUsages::COPY_SRC);
        let Ok(probe) = self.create("device", size, usage, true, None) else { return };
        if probe.get_mapped_range_mut(..).is_err() {
            self.poller.lose("it was the app's");
        }
    }

    /// Does `work` inside error scopes, and resolves `deferred` with the outcome. The message of an error begins with
    /// `context`.
    pub(super) fn watch<T>(
        &self,
        context: impl Into<String>,
        deferred: Option<&DeferredResult>,
        work: impl FnOnce() -> T,
    ) -> (T, Option<Error>) {
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = work();
        let answers = [now(validation.pop()), now(memory.pop()), now(internal.pop())];
        let error = answers.iter().flatten().next().map(|error| convert(&context.into(), error));
        if let Some(deferred) = deferred {
            deferred.resolve(error.clone());
        }
        (made, error)
    }

    /// Does `count` pieces of work on as many threads as there are processors.
    pub(super) fn side_by_side<T: Send>(
        &self,
        count: usize,
        work: impl Fn(usize) -> T + Sync,
    ) -> Vec<T> {
        if count < 2 {
            return (0..count).map(work).collect();
        }
        let processors = available_parallelism().map_or(1, usize::from);
        let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::with_capacity(count)));
        let help = || loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return;
            }
            let made = work(n);
            lock(&done).push((n, made));
        };
        scope(|threads| {
            // If a thread does not start, the work only takes longer.
            (1..processors.min(count))
                .for_each(|_| drop(Builder::new().spawn_scoped(threads, help)));
            help();
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|(n, _)| *n);
        done.into_iter().map(|(_, made)| made).collect()
    }

    /// Calls `work` when the errors of all calls so far are known, which is now.
    pub(super) fn on_outcomes_known(&self, work: impl FnOnce()) {
        work();
    }

    /// Resolves when the errors of all calls so far are known, which is at once.
    pub(super) fn outcomes_known(&self) -> Pending<()> {
        Box::pin(ready(()))
    }

    /// Accepts every module, because naga has already validated custom shaders before they arrive here.
    pub(super) fn check(&self, _: &str) -> Pending<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Does `work` like `watch`, and stores an error for the next read.
    fn watch_for_read<T>(
        &self,
        context: &str,
        deferred: Option<&DeferredResult>,
        work: impl FnOnce() -> T,
    ) -> T {
        let (made, error) = self.watch(context, deferred, work);
        if let Some(error) = error {
            self.errors.store(self.errors.tick(), error);
        }
        made
    }

    /// Announces a read after the next batch. No effect on this platform.
    pub(super) fn defer_submit(&self) {}

    /// Writes the params, and submits the commands that `record` records.
    pub(super) fn submit(
        self: &Arc<Self>,
        (uniform, params): (&wgpu::Buffer, &[u8]),
        deferred: Option<&DeferredResult>,
        record: impl FnOnce(&mut wgpu::CommandEncoder),
    ) {
        self.watch_for_read("run", deferred, || {
            if !params.is_empty() {
                self.queue.write_buffer(uniform, 0, params);
            }
            let mut encoder = self.device.create_command_encoder(&Default::default());
            record(&mut encoder);
            self.queue.submit([encoder.finish()]);
        });
        self.submitted();
    }

    /// Notes a submission, which also submits all small writes.
    fn submitted(&self) {
        self.unsubmitted.store(0, Ordering::Relaxed);
    }

    /// Copies `data` to `offset` of `target`. The caller has checked the range.
    pub(super) fn write(&self, target: &wgpu::Buffer, offset: u64, data: &[u8]) -> Result<()> {
        if data.len() > LARGE {
            return self.staging.upload(self, target, offset, data);
        }
        self.watch_for_read("write", None, || self.queue.write_buffer(target, offset, data));
        if self.unsubmitted.fetch_add(data.len(), Ordering::Relaxed) + data.len() > UNSUBMITTED {
            self.submitted();
            self.queue.submit([]);
        }
        Ok(())
    }

    /// Reads ranges by one submission, and passes their bytes to the callbacks. Resolves to `None` if a buffer could not be
    /// mapped.
    pub(super) fn read(
        self: &Arc<Self>,
        wanted: Vec<PendingCopy>,
    ) -> Result<Pending<Option<Result<()>>>> {
        let mut reads = Vec::with_capacity(wanted.len());
        for part in wanted {
            let readback = Readbacks::take(&self.readbacks, part.len, |bytes, usage| {
                self.create("read", bytes, usage, false, None)
            })?;
            reads.push((part, readback, Completion::new()));
        }
        let submission = self.watch_for_read("read", None, || {
            let mut encoder = self.device.create_command_encoder(&Default::default());
            for (part, readback, _) in &reads {
                part.record(readback, &mut encoder);
            }
            let submission = self.queue.submit([encoder.finish()]);
            for (part, readback, ticket) in &reads {
                let mapped = ticket.clone();
                let on_mapped =
                    move |answer: std::result::Result<_, _>| mapped.resolve(answer.is_ok());
                readback.buffer().map_async(wgpu::MapMode::Read, ..part.len, on_mapped);
            }
            submission
        });
        self.submitted();
        for (.., ticket) in &reads {
            self.poller.tickets.open(ticket, Some(submission.clone()));
        }
        let gpu = self.clone();
        Ok(Box::pin(async move {
            let mut all = Ok(());
            for (PendingCopy { len, take, .. }, readback, ticket) in reads {
                let kept = ticket.succeeded().await;
                // The buffer is not mapped any more if the device was lost meanwhile.
                let view = readback.buffer().get_mapped_range(..len).ok().filter(|_| kept);
                let Some(taken) = view.map(|view| take(&view)) else {
                    gpu.ask_whether_lost();
                    return None;
                };
                readback.recycle();
                all = all.and(taken);
            }
            Some(all)
        }))
    }

    /// Resolves when the work submitted so far is done.
    pub(super) fn done(self: &Arc<Self>) -> Pending<()> {
        let ticket = Completion::new();
        let done = ticket.clone();
        self.queue.on_submitted_work_done(move || done.resolve(true));
        self.submitted();
        self.poller.tickets.open(&ticket, None);
        let gpu = self.clone();
        Box::pin(async move {
            ticket.succeeded().await;
            gpu.ask_whether_lost();
        })
    }

    /// Calls `work` when the work submitted so far is done.
    pub(super) fn when_done(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        let ticket = Completion::new();
        let done = ticket.clone();
        self.queue.on_submitted_work_done(move || {
            work();
            done.resolve(true);
        });
        self.poller.tickets.open(&ticket, None);
    }

    /// Returns the nanoseconds per timestamp unit.
    pub(super) fn timestamp_period(&self) -> f32 {
        self.queue.get_timestamp_period()
    }

    /// Returns the bytes of staging and readback buffers.
    pub(super) fn staging_bytes(&self) -> u64 {
        self.readbacks.bytes() + self.staging.bytes()
    }

    /// Frees a buffer. Work that was already submitted may still use it.
    pub(super) fn discard(&self, buffer: &wgpu::Buffer) {
        discard(buffer);
    }

    /// Destroys the device. The caller has already updated the error log.
    pub(super) fn destroy(&self) {
        if !self.lent {
            self.device.destroy();
        }
        self.poller.tickets.lose();
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        self.poller.close();
        if let Some(thread) = self.thread.take() {
            polling::join(thread);
        }
    }
}

/// Sets the callbacks for device loss, and for errors outside of error scopes.
fn listen(device: &wgpu::Device, poller: &Arc<Poller>, errors: &Arc<ErrorLog>) {
    // A weak reference, because the poller owns the device, and the device owns its callbacks.
    let on_loss = Arc::downgrade(poller);
    device.set_device_lost_callback(move |reason, message| {
        let Some(on_loss) = on_loss.upgrade() else { return };
        match message.trim().trim_end_matches('.') {
            "" => on_loss.lose(&format!("{reason:?}").to_lowercase()),
            message => on_loss.lose(message),
        }
    });
    let uncaptured = errors.clone();
    device.on_uncaptured_error(Arc::new(move |error| {
        uncaptured.store(uncaptured.tick(), convert("device", &error));
    }));
}

/// Returns the error that a scope caught. It is known at once on this platform.
fn now(answer: impl Future<Output = Option<wgpu::Error>>) -> Option<wgpu::Error> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => None,
    }
}

/// Converts an error of wgpu.
fn convert(context: &str, error: &wgpu::Error) -> Error {
    match error {
        wgpu::Error::OutOfMemory { .. } => {
            Error::new(ErrorKind::Memory, format!("{context}: the device is out of memory"))
        }
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            Error::new(ErrorKind::Unsupported, format!("{context}: {}", description.trim()))
        }
    }
}
