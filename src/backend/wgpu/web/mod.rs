//! An open device in a browser. Errors of a call arrive later, and no call may block.

mod adapters;
mod check;
mod objects;
mod scopes;
#[cfg(feature = "wgpu-interop")]
pub mod sharing;

#[cfg(feature = "wgpu-interop")]
pub(super) use adapters::known;
pub use adapters::EXPECTED;
pub(super) use adapters::{has, list, open, DIALECT, NONE};
#[cfg(feature = "wgpu-interop")]
pub(super) use objects::is_same;
pub(super) use objects::{discard, Handle};

use super::completion::{Completion, Completions};
use super::deferred::DeferredResult;
use super::error_log::{lock, ErrorLog};
use super::readbacks::{PendingCopy, Readbacks};
use crate::backend::Pending;
use crate::error::{need_room, Error, Result};
use js_sys::Promise;
use scopes::Scopes;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::{spawn_local, JsFuture};
use web_sys::WorkerGlobalScope;

/// Completions in a browser wait for no particular submission.
pub(super) type Awaited = ();

/// Resolves after a time. `setTimeout` is the same in pages and in workers.
async fn pause(milliseconds: f64) {
    let scope: WorkerGlobalScope = js_sys::global().unchecked_into();
    let timer = Promise::new(&mut |resolve, _| {
        let late = milliseconds as i32;
        // This fails only for a string, which pages may forbid to run.
        let _ = scope.set_timeout_with_callback_and_timeout_and_arguments_0(&resolve, late);
    });
    let _ = JsFuture::from(timer).await;
}

/// An open device with its queue. Dropping it destroys the device. Pending futures hold it.
pub(super) struct Gpu {
    pub(super) device: wgpu::Device,
    pub(super) errors: Arc<ErrorLog>,
    /// Whether the device belongs to an app.
    lent: bool,
    queue: wgpu::Queue,
    scopes: Scopes,
    tickets: Arc<Completions<Awaited>>,
    readbacks: Arc<Readbacks>,
    /// Whether a read follows the next batch.
    held: Cell<bool>,
    /// A batch that waits for its read, inside open error scopes.
    pending: RefCell<Option<Batch>>,
    /// The number of waits begun so far.
    waits: Cell<u64>,
    looks_often: bool,
}

struct Batch {
    encoder: wgpu::CommandEncoder,
    deferred: Option<DeferredResult>,
}

/// Returns the browser's object for a device.
fn raw(device: &wgpu::Device) -> &JsValue {
    match device.as_webgpu() {
        Some(device) => device.as_ref(),
        None => unreachable!("there is no other backend in a browser"),
    }
}

impl Gpu {
    pub(super) fn new(device: wgpu::Device, queue: wgpu::Queue, lent: bool) -> Result<Arc<Gpu>> {
        let errors = Arc::<ErrorLog>::default();
        let tickets = Arc::<Completions<Awaited>>::default();
        let on_loss = (errors.clone(), tickets.clone());
        device.set_device_lost_callback(move |reason, message| {
            match message.trim().trim_end_matches('.') {
                "" => on_loss.0.lose(&format!("{reason:?}").to_lowercase()),
                message => on_loss.0.lose(message),
            }
            on_loss.1.lose();
        });
        let scopes = Scopes::new(&device, errors.clone());
        let (readbacks, held, pending, waits) = Default::default();
        Ok(Arc::new(Gpu {
            device,
            errors,
            lent,
            queue,
            scopes,
            tickets,
            readbacks,
            held,
            pending,
            waits,
            looks_often: adapters::looks_often(),
        }))
    }

    /// Does `work` inside error scopes, which resolve `deferred` later and add to the error log. The message of an error begins
    /// with `context`.
    pub(super) fn watch<T>(
        &self,
        context: impl Into<String>,
        deferred: Option<&DeferredResult>,
        work: impl FnOnce() -> T,
    ) -> (T, Option<Error>) {
        self.flush();
        self.scopes.push();
        let made = work();
        self.scopes.pop(context.into(), deferred.cloned());
        (made, None)
    }

    /// Announces a read after the next batch. Both become one submission, because submissions are slow in browsers. The batch
    /// waits at most until the current JavaScript task ends.
    pub(super) fn defer_submit(&self) {
        // Error scopes are open meanwhile, so this is not done on a device that the app uses as well.
        self.held.set(!self.lent);
    }

    /// Writes the params, and submits the commands that `record` records.
    pub(super) fn submit(
        self: &Arc<Self>,
        (uniform, params): (&wgpu::Buffer, &[u8]),
        deferred: Option<&DeferredResult>,
        record: impl FnOnce(&mut wgpu::CommandEncoder),
    ) {
        self.flush();
        self.scopes.push();
        if !params.is_empty() {
            self.queue.write_buffer(uniform, 0, params);
        }
        let mut encoder = self.device.create_command_encoder(&Default::default());
        record(&mut encoder);
        self.pending.replace(Some(Batch { encoder, deferred: deferred.cloned() }));
        if self.held.take() {
            let gpu = self.clone();
            spawn_local(async move { gpu.flush() });
        } else {
            self.flush();
        }
    }

    /// Submits the batch that waits for its read.
    fn flush(&self) {
        if let Some(Batch { encoder, deferred }) = self.pending.take() {
            self.queue.submit([encoder.finish()]);
            self.scopes.pop("run".to_string(), deferred);
        }
    }

    /// Copies `data` to `offset` of `target`. The caller has checked the range.
    pub(super) fn write(&self, target: &wgpu::Buffer, offset: u64, data: &[u8]) -> Result<()> {
        self.watch("write", None, || self.queue.write_buffer(target, offset, data));
        Ok(())
    }

    /// Reads ranges by one submission, and passes their bytes to the callbacks once all earlier errors are known. Resolves to
    /// `None` if a buffer could not be mapped.
    pub(super) fn read(
        self: &Arc<Self>,
        wanted: Vec<PendingCopy>,
    ) -> Result<Pending<Option<Result<()>>>> {
        self.held.set(false);
        let mut reads = Vec::with_capacity(wanted.len());
        for part in wanted {
            need_room("read", part.len)?;
            let readback = Readbacks::vacant(&self.readbacks, part.len);
            reads.push((part, readback, Completion::new()));
        }
        // The allocation of a new buffer may fail, and its copy would make the batch fail as well.
        let join = reads.iter().all(|(_, readback, _)| readback.is_some());
        let mut joined = false;
        if let Some(batch) = self.pending.borrow_mut().as_mut().filter(|_| join) {
            for (part, readback, _) in &reads {
                readback.iter().for_each(|readback| part.record(readback, &mut batch.encoder));
            }
            joined = true;
        }
        let mut mapped = Vec::with_capacity(reads.len());
        for (part, readback, ticket) in reads {
            let readback = match readback {
                Some(readback) => readback,
                None => Readbacks::take(&self.readbacks, part.len, |bytes, usage| {
                    self.create("read", bytes, usage, false, None)
                })?,
            };
            mapped.push((part, readback, ticket));
        }
        let bytes: u64 = mapped.iter().map(|(part, ..)| part.len).sum();
        self.watch(format!("read: {bytes} bytes"), None, || {
            if !joined {
                let mut encoder = self.device.create_command_encoder(&Default::default());
                for (part, readback, _) in &mapped {
                    part.record(readback, &mut encoder);
                }
                self.queue.submit([encoder.finish()]);
            }
            for (part, readback, ticket) in &mapped {
                let ticket = ticket.clone();
                let on_mapped =
                    move |answer: std::result::Result<_, _>| ticket.resolve(answer.is_ok());
                readback.buffer().map_async(wgpu::MapMode::Read, ..part.len, on_mapped);
            }
        });
        for (.., ticket) in &mapped {
            self.wait_for(ticket);
        }
        let (gpu, known) = (self.clone(), self.known());
        Ok(Box::pin(async move {
            let mut all = Ok(());
            for (PendingCopy { len, take, .. }, readback, ticket) in mapped {
                let mapped = ticket.succeeded().await;
                known.succeeded().await;
                if need_room("read", len).is_err() {
                    return None;
                }
                // The device may be lost before or after the buffer is mapped.
                let range = mapped.then(|| readback.buffer().get_mapped_range(..len).ok());
                let Some(range) = range.flatten() else {
                    gpu.wait_for_loss().await;
                    return None;
                };
                let bytes = range.as_uint8array().to_vec();
                drop(range);
                readback.recycle();
                all = all.and(take(&bytes));
            }
            Some(all)
        }))
    }

    /// Resolves when the work submitted so far is done and its errors are known.
    pub(super) fn done(self: &Arc<Self>) -> Pending<()> {
        self.flush();
        let ticket = Completion::new();
        let done = ticket.clone();
        self.queue.on_submitted_work_done(move || done.resolve(true));
        self.wait_for(&ticket);
        let (gpu, known) = (self.clone(), self.known());
        Box::pin(async move {
            ticket.succeeded().await;
            known.succeeded().await;
            drop(gpu);
        })
    }

    /// Calls `work` when the work submitted so far is done.
    pub(super) fn when_done(self: &Arc<Self>, work: impl FnOnce() + Send + 'static) {
        self.flush();
        let ticket = Completion::new();
        let done = ticket.clone();
        self.queue.on_submitted_work_done(move || {
            work();
            done.resolve(true);
        });
        self.wait_for(&ticket);
    }

    /// Returns the nanoseconds per timestamp unit.
    pub(super) fn timestamp_period(&self) -> f32 {
        self.queue.get_timestamp_period()
    }

    /// Returns the bytes of readback buffers. The browser has the staging buffers for uploads.
    pub(super) fn staging_bytes(&self) -> u64 {
        self.readbacks.bytes()
    }

    /// Waits for a completion. Browsers check for finished work when commands arrive, and otherwise from time to time: Chromium
    /// after a few milliseconds, Firefox after a hundred. An empty submission therefore follows soon. Firefox gets more of them
    /// at growing intervals, because each takes 0.2 ms of a GPU that the same CPU emulates.
    fn wait_for(self: &Arc<Self>, ticket: &Arc<Completion>) {
        self.tickets.open(ticket, ());
        let wait = self.waits.get() + 1;
        self.waits.set(wait);
        let gpu = Arc::downgrade(self);
        spawn_local(async move {
            let mut next = 1.0;
            loop {
                pause(next).await;
                let Some(gpu) = gpu.upgrade() else { return };
                // The most recent wait checks for all.
                if gpu.waits.get() != wait || !gpu.is_awaited() {
                    return;
                }
                gpu.queue.submit([]);
                if gpu.looks_often {
                    return;
                }
                next = f64::max(1.5 * next, 8.0);
            }
        });
    }

    fn is_awaited(&self) -> bool {
        let mut open = lock(&self.tickets.state);
        open.tickets.retain(|(ticket, _)| !ticket.is_resolved());
        !open.tickets.is_empty()
    }

    /// Does pieces of work one after the other. The browser compiles in other threads.
    pub(super) fn side_by_side<T>(&self, count: usize, work: impl Fn(usize) -> T) -> Vec<T> {
        (0..count).map(work).collect()
    }

    /// Calls `work` when the outcomes of all calls so far are known.
    pub(super) fn on_outcomes_known(&self, work: impl FnOnce() + 'static) {
        let known = self.known();
        spawn_local(async move {
            if known.succeeded().await {
                work();
            }
        });
    }

    /// Resolves when the outcomes of all calls so far are known.
    pub(super) fn outcomes_known(&self) -> Pending<()> {
        let known = self.known();
        Box::pin(async move {
            known.succeeded().await;
        })
    }

    /// Returns a completion for the outcomes of all calls so far.
    fn known(&self) -> Arc<Completion> {
        let ticket = self.scopes.known();
        self.tickets.open(&ticket, ());
        ticket
    }

    /// Waits up to five seconds for the device loss to be reported. Browsers may reject a mapping first. Firefox reports the
    /// loss after the running kernel.
    async fn wait_for_loss(&self) {
        let lost = Completion::new();
        self.tickets.open(&lost, ());
        let late = lost.clone();
        spawn_local(async move {
            pause(5000.0).await;
            late.resolve(false);
        });
        lost.succeeded().await;
    }

    /// Frees a buffer. Work that was already submitted may still use it.
    pub(super) fn discard(&self, buffer: &wgpu::Buffer) {
        self.flush();
        discard(buffer);
    }

    /// Destroys the device. The caller has already updated the error log.
    pub(super) fn destroy(&self) {
        if !self.lent {
            self.device.destroy();
        }
        self.tickets.lose();
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        if !self.lent {
            self.device.destroy();
        }
    }
}
