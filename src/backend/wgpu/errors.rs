//! What goes wrong on a GPU: every call that can fail is watched, and its error finds its way to a
//! read.

use super::waiting::Tickets;
use crate::backend::gpu::{Fate, Ledger};
use crate::error::{Error, ErrorKind};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// The device, and what is known of its errors.
pub(super) struct Gate {
    pub(super) device: wgpu::Device,
    pub(super) ledger: Arc<Ledger>,
    pub(super) tickets: Arc<Tickets>,
}

impl Gate {
    pub(super) fn new(device: wgpu::Device) -> Gate {
        let (ledger, tickets) = (Arc::new(Ledger::default()), Arc::new(Tickets::default()));
        let on_loss = (ledger.clone(), tickets.clone());
        device.set_device_lost_callback(move |reason, message| {
            let message = message.trim().trim_end_matches('.');
            if message.is_empty() {
                on_loss.0.lose(&format!("{reason:?}").to_lowercase());
            } else {
                on_loss.0.lose(message);
            }
            on_loss.1.lose();
        });
        // Every call below that can fail has its own error scope; this is for what wgpu reports
        // outside of them.
        let uncaptured = ledger.clone();
        device.on_uncaptured_error(Arc::new(move |error| {
            uncaptured.store(uncaptured.tick(), convert("device", &error));
        }));
        Gate { device, ledger, tickets }
    }

    /// The device is gone: nothing that was promised will come.
    pub(super) fn lose(&self, why: &str) {
        self.ledger.lose(why);
        self.tickets.lose();
    }

    /// Does `work` inside error scopes, and settles `fate` by it. The error's message begins with
    /// `what`.
    pub(super) fn watch<T>(
        &self,
        what: &str,
        fate: Option<&Fate>,
        work: impl FnOnce() -> T,
    ) -> (T, Option<Error>) {
        let internal = self.device.push_error_scope(wgpu::ErrorFilter::Internal);
        let memory = self.device.push_error_scope(wgpu::ErrorFilter::OutOfMemory);
        let validation = self.device.push_error_scope(wgpu::ErrorFilter::Validation);
        let made = work();
        let answers = [now(validation.pop()), now(memory.pop()), now(internal.pop())];
        let error = answers.iter().flatten().next().map(|error| convert(what, error));
        if let Some(fate) = fate {
            fate.settle(error.clone());
        }
        (made, error)
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
}

/// What an error scope caught: natively that is known at once.
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
