//! An open device through Vulkan, Metal or DX12: what is wrong with a call is known at once, and a thread polls for what
//! is awaited.

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

/// The submission that a ticket is for; none for the last one.
pub(super) type Awaited = Option<wgpu::SubmissionIndex>;

/// Uploads beyond this go through staging buffers. wgpu's own way takes memory for each call, and
/// loses the device where there is none.
const LARGE: usize = 1 << 20;

/// Bytes of small writes after which they are submitted, so that wgpu can give back what it took
/// for them.
const UNSUBMITTED: usize = 16 << 20;

/// An open device with its queue.
///
/// Dropping it waits for the work in flight and for the thread that polls. Otherwise the process could end while that thread,
/// or a thread of a driver, still works: static objects of the driver are destroyed by then, and the process crashes. Software
/// GPUs such as lavapipe compile shaders on threads of their own, so they crash most often.
pub(super) struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) errors: Arc<ErrorLog>,
    /// The device is an app's, which hears of its loss and of errors that no scope caught.
    lent: bool,
    queue: objects::Queue,
    poller: Arc<Poller>,
    /// The thread that polls, until this is dropped.
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
            // If a waker of the app drops the device on the poller's thread, nothing waits for that thread. As long as there
            // is an instance that stays, no driver is unloaded meanwhile.
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

    /// Something that was promised did not come, or was not to be had: finds out whether the device is lost. Of an app's
    /// device only the app is told, and wgpu says nothing to whoever asks: but then memory that was made can not be mapped.
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

    /// Does `work` inside error scopes, and settles `deferred` by it. The error's message begins with
    /// `what`.
    pub(super) fn watch<T>(
        &self,
        what: impl Into<String>,
        deferred: Option<&DeferredResult>,
        work: impl FnOnce() -> T,
    ) -> (T, Option<Error>) {
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = work();
        let answers = [now(validation.pop()), now(memory.pop()), now(internal.pop())];
        let error = answers.iter().flatten().next().map(|error| convert(&what.into(), error));
        if let Some(deferred) = deferred {
            deferred.resolve(error.clone());
        }
        (made, error)
    }

    /// Does so many pieces of work, as many at once as there are processors.
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
            // Without help it takes longer.
            (1..processors.min(count))
                .for_each(|_| drop(Builder::new().spawn_scoped(threads, help)));
            help();
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|(n, _)| *n);
        done.into_iter().map(|(_, made)| made).collect()
    }

    /// Does something when the errors of all calls so far are known: now.
    pub(super) fn when_heard(&self, work: impl FnOnce()) {
        work();
    }

    /// Resolves when the errors of all calls so far are known, as they are at once.
    pub(super) fn heard(&self) -> Pending<()> {
        Box::pin(ready(()))
    }

    /// As `watch`, for work whose errors belong to the next read.
    /// Texts of users were compiled by the same compiler before they came here.
    pub(super) fn check(&self, _: &str) -> Pending<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn watch_for_read<T>(
        &self,
        what: &str,
        deferred: Option<&DeferredResult>,
        work: impl FnOnce() -> T,
    ) -> T {
        let (made, error) = self.watch(what, deferred, work);
        if let Some(error) = error {
            self.errors.store(self.errors.tick(), error);
        }
        made
    }

    /// A read follows the batch that comes next. That makes no difference here.
    pub(super) fn defer_submit(&self) {}

    /// Writes the params, and submits what `record` records.
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

    /// Something was submitted, and all small writes with it.
    fn submitted(&self) {
        self.unsubmitted.store(0, Ordering::Relaxed);
    }

    /// Copies `data` to `offset` of `target`; the range was checked.
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

    /// Has bytes taken, copied by one submission; none where they could not be mapped.
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
                let settle =
                    move |answer: std::result::Result<_, _>| mapped.resolve(answer.is_ok());
                readback.buffer().map_async(wgpu::MapMode::Read, ..part.len, settle);
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
                // It is not mapped any more where the device was lost meanwhile.
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

    /// Does something, for others to see, when the work submitted so far is done.
    pub(super) fn when_done(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        let ticket = Completion::new();
        let done = ticket.clone();
        self.queue.on_submitted_work_done(move || {
            work();
            done.resolve(true);
        });
        self.poller.tickets.open(&ticket, None);
    }

    /// The nanoseconds of a timestamp's step.
    pub(super) fn timestamp_period(&self) -> f32 {
        self.queue.get_timestamp_period()
    }

    /// Bytes of buffers that uploads and reads go through.
    pub(super) fn staging_bytes(&self) -> u64 {
        self.readbacks.bytes() + self.staging.bytes()
    }

    /// Gives a buffer's memory back; work already submitted still sees it.
    pub(super) fn discard(&self, buffer: &wgpu::Buffer) {
        discard(buffer);
    }

    /// Loses the device; the error log knows already.
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

/// Hears of the device's loss, and of errors that wgpu reports outside of the scopes that every call here has.
fn listen(device: &wgpu::Device, poller: &Arc<Poller>, errors: &Arc<ErrorLog>) {
    // The poller owns the device, and the device what it calls.
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

/// What an error scope caught: here that is known at once.
fn now(answer: impl Future<Output = Option<wgpu::Error>>) -> Option<wgpu::Error> {
    match pin!(answer).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => answer,
        Poll::Pending => None,
    }
}

/// wgpu's error in our words.
fn convert(what: &str, error: &wgpu::Error) -> Error {
    match error {
        wgpu::Error::OutOfMemory { .. } => {
            Error::new(ErrorKind::Memory, format!("{what}: the device is out of memory"))
        }
        wgpu::Error::Validation { description, .. } | wgpu::Error::Internal { description, .. } => {
            Error::new(ErrorKind::Unsupported, format!("{what}: {}", description.trim()))
        }
    }
}
