//! What goes wrong on a GPU: every call that can fail is watched, and its error finds its way to a read.

use super::ledger::{lock, Ledger, Ticket};
use crate::backend::Pending;
use crate::error::{Error, ErrorKind, Result};
use std::future::poll_fn;
use std::sync::{Arc, Mutex, OnceLock};
use std::task::{Context, Poll, Wake, Waker};

/// Wakes everyone who waits for a late error.
#[derive(Default)]
struct Wakers(Mutex<Vec<Waker>>);

impl Wake for Wakers {
    fn wake(self: Arc<Self>) {
        let all = std::mem::take(&mut *lock(&self.0));
        for waker in all {
            waker.wake();
        }
    }
}

/// An error scope that answers later, as they do in a browser.
struct Late {
    at: u64,
    what: String,
    broken: Option<Broken>,
    answer: Pending<Option<wgpu::Error>>,
}

/// Where a thing keeps the error it was made with.
pub(super) type Broken = Arc<OnceLock<Error>>;

/// Error scopes around watched work. An internal one would panic in a browser, when wgpu sees what it caught.
const SCOPES: usize = if cfg!(target_arch = "wasm32") { 2 } else { 3 };

/// The device, and what is known of its errors.
pub(super) struct Gate {
    pub(super) device: wgpu::Device,
    pub(super) ledger: Arc<Ledger>,
    late: Mutex<Vec<Late>>,
    wakers: Arc<Wakers>,
}

impl Gate {
    pub(super) fn new(device: wgpu::Device) -> Gate {
        let ledger = Arc::new(Ledger::default());
        let on_loss = ledger.clone();
        device.set_device_lost_callback(move |reason, message| {
            let message = message.trim().trim_end_matches('.');
            if message.is_empty() {
                on_loss.lose(&format!("{reason:?}").to_lowercase());
            } else {
                on_loss.lose(message);
            }
        });
        // Every call below that can fail has its own error scope; this is for what wgpu reports outside of them.
        // In a browser wgpu's own conversion panics on an internal error before the handler sees it, so none is set
        // there: an internal error leaves an invalid object, and the scope around its use reports that.
        #[cfg(not(target_arch = "wasm32"))]
        {
            let ledger = ledger.clone();
            device.on_uncaptured_error(Arc::new(move |error| {
                let at = ledger.tick();
                ledger.store(at, convert("device", &error));
            }));
        }
        Gate { device, ledger, late: Mutex::default(), wakers: Arc::default() }
    }

    /// Does `work` inside error scopes. The error is returned where it is known at once; where it comes later it
    /// goes into `broken`, and to the next read. Its message begins with `what`.
    pub(super) fn watch<T>(
        &self,
        what: &str,
        broken: Option<&Broken>,
        work: impl FnOnce() -> T,
    ) -> (T, Option<Error>) {
        #[cfg(not(target_arch = "wasm32"))]
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = work();
        let answers: [Pending<Option<wgpu::Error>>; SCOPES] = [
            Box::pin(validation.pop()),
            Box::pin(memory.pop()),
            #[cfg(not(target_arch = "wasm32"))]
            Box::pin(internal.pop()),
        ];

        let at = self.ledger.tick();
        let waker = Waker::from(self.wakers.clone());
        let mut first = None;
        for mut answer in answers {
            match answer.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(None) => {}
                Poll::Ready(Some(error)) => {
                    first.get_or_insert_with(|| convert(what, &error));
                }
                Poll::Pending => lock(&self.late).push(Late {
                    at,
                    what: what.to_string(),
                    broken: broken.cloned(),
                    answer,
                }),
            }
        }
        (made, first)
    }

    /// As `watch`, for work whose errors belong to the next read.
    pub(super) fn watch_for_read<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        let (made, error) = self.watch(what, None, work);
        if let Some(error) = error {
            self.ledger.store(self.ledger.tick(), error);
        }
        made
    }

    /// Asks the scopes that have not answered; whether any from before `at` is left.
    pub(super) fn ask_late(&self, at: u64) -> bool {
        let waker = Waker::from(self.wakers.clone());
        let mut late = lock(&self.late);
        late.retain_mut(|scope| {
            match scope.answer.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Pending => true,
                Poll::Ready(None) => false,
                Poll::Ready(Some(error)) => {
                    let error = convert(&scope.what, &error);
                    if let Some(broken) = &scope.broken {
                        let _ = broken.set(error.clone());
                    }
                    self.ledger.store(scope.at, error);
                    false
                }
            }
        });
        late.iter().any(|scope| scope.at < at)
    }

    /// Waits until `ticket` is settled and all earlier errors are known; then tells the first of them.
    pub(super) async fn finished(&self, ticket: &Ticket, operation: &str) -> Result<()> {
        let kept = poll_fn(|context| ticket.poll(context)).await;
        if !kept {
            // A browser may refuse a mapping a moment before it says that the device is lost.
            for _ in 0..3 {
                let answer = { self.device.push_error_scope(wgpu::ErrorFilter::Validation).pop() };
                answer.await;
            }
        }
        poll_fn(|context| {
            lock(&self.wakers.0).push(context.waker().clone());
            if self.ask_late(ticket.at) {
                Poll::Pending
            } else {
                Poll::Ready(())
            }
        })
        .await;
        self.ledger.check(operation)?;
        match self.ledger.take_before(ticket.at) {
            Some(error) => Err(error),
            None if kept => Ok(()),
            None => Err(Error::new(
                ErrorKind::Memory,
                format!("{operation}: the device could not map the memory to read from"),
            )),
        }
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
