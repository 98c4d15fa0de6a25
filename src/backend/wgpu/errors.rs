//! What goes wrong on a GPU: every call that can fail is watched, and its error finds its way to a
//! read.

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

/// How something went, once that is known: natively at once, in a browser later.
#[derive(Clone, Default)]
pub(super) struct Fate(Arc<OnceLock<Option<Error>>>);

impl Fate {
    /// Only the first word counts.
    pub(super) fn settle(&self, error: Option<Error>) {
        let _ = self.0.set(error);
    }

    /// Whether it is known to have gone well.
    pub(super) fn good(&self) -> bool {
        matches!(self.0.get(), Some(None))
    }

    /// What is known to have gone wrong.
    pub(super) fn error(&self) -> Option<&Error> {
        self.0.get()?.as_ref()
    }
}

/// Error scopes that answer later, as they do in a browser.
struct Late {
    at: u64,
    what: String,
    fate: Option<Fate>,
    answers: Vec<Pending<Option<wgpu::Error>>>,
    error: Option<Error>,
}

impl Late {
    /// Asks the scopes; whether all have answered.
    fn ask(&mut self, waker: &Waker) -> bool {
        let Late { what, answers, error, .. } = self;
        answers.retain_mut(|answer| match answer.as_mut().poll(&mut Context::from_waker(waker)) {
            Poll::Pending => true,
            Poll::Ready(answer) => {
                if let Some(found) = answer {
                    error.get_or_insert_with(|| convert(what, &found));
                }
                false
            }
        });
        if answers.is_empty() {
            if let Some(fate) = &self.fate {
                fate.settle(self.error.clone());
            }
        }
        self.answers.is_empty()
    }
}

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
        // Every call below that can fail has its own error scope; this is for what wgpu reports
        // outside of them. In a browser wgpu's own conversion panics on an internal error before
        // the handler sees it, so none is set there: an internal error leaves an invalid object,
        // and the scope around its use reports that.
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

    /// Does `work` inside error scopes, and settles `fate` by it. The error is returned where it is
    /// known at once; where it comes later it goes to the next read. Its message begins with
    /// `what`.
    pub(super) fn watch<T>(
        &self,
        what: &str,
        fate: Option<&Fate>,
        work: impl FnOnce() -> T,
    ) -> (T, Option<Error>) {
        #[cfg(not(target_arch = "wasm32"))]
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = work();
        let answers: Vec<Pending<Option<wgpu::Error>>> =
            vec![Box::pin(validation.pop()), Box::pin(memory.pop())];
        // In a browser wgpu panics when it sees what such a scope caught.
        #[cfg(not(target_arch = "wasm32"))]
        let answers = {
            let mut answers = answers;
            answers.push(Box::pin(internal.pop()));
            answers
        };

        let (at, what, fate) = (self.ledger.tick(), what.to_string(), fate.cloned());
        let mut late = Late { at, what, fate, answers, error: None };
        if late.ask(&Waker::from(self.wakers.clone())) {
            return (made, late.error);
        }
        lock(&self.late).push(late);
        (made, None)
    }

    /// As `watch`, for work whose errors belong to the next read.
    pub(super) fn watch_for_read<T>(
        &self,
        what: &str,
        fate: Option<&Fate>,
        work: impl FnOnce() -> T,
    ) -> T {
        let (made, error) = self.watch(what, fate, work);
        if let Some(error) = error {
            self.ledger.store(self.ledger.tick(), error);
        }
        made
    }

    /// Asks the scopes that have not answered; whether any from before `at` is left.
    pub(super) fn ask_late(&self, at: u64) -> bool {
        let waker = Waker::from(self.wakers.clone());
        let mut late = lock(&self.late);
        late.retain_mut(|late| {
            let answered = late.ask(&waker);
            if answered {
                if let Some(error) = late.error.take() {
                    self.ledger.store(late.at, error);
                }
            }
            !answered
        });
        late.iter().any(|scope| scope.at < at)
    }

    /// Waits until `ticket` is settled and all earlier errors are known. Then tells the first of
    /// `fates` that is bad, or else the first earlier error that nobody heard of.
    pub(super) async fn finished(
        &self,
        ticket: &Ticket,
        operation: &str,
        fates: &[Fate],
    ) -> Result<()> {
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
        let unheard = self.ledger.take_before(ticket.at);
        match fates.iter().find_map(Fate::error).cloned().or(unheard) {
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
