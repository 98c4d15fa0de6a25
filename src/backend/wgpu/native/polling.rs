//! The thread that polls for what is awaited.

use super::lock;
use crate::backend::wgpu::completion::{Completion, Completions};
use crate::backend::wgpu::error_log::ErrorLog;
use crate::error::{Error, ErrorKind, Result};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How long a wait may take before it is begun again. wgpu-core 30 panics where a wait ends too early while a submission on
/// another thread finds the queue empty (mended by its pull request 9958), and what was awaited is lost then: so it is longer
/// than any submission should take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Finds out what is done.
pub(super) struct Poller {
    device: wgpu::Device,
    errors: Arc<ErrorLog>,
    pub(super) tickets: Completions<super::Awaited>,
    /// The device is not used any more.
    closing: AtomicBool,
}

/// What the polling thread does next.
enum Next {
    /// Wait for this ticket.
    Ticket(Arc<Completion>, super::Awaited),
    /// The device is lost: one poll lets wgpu give its memory back.
    Release,
    /// The device is not used any more, and nothing is awaited.
    Stop,
}

impl Poller {
    pub(super) fn new(device: wgpu::Device, errors: Arc<ErrorLog>) -> Poller {
        Poller { device, errors, tickets: Completions::default(), closing: AtomicBool::new(false) }
    }

    /// The device is gone: nothing that was promised will come.
    pub(super) fn lose(&self, why: &str) {
        self.errors.lose(why);
        self.tickets.lose();
    }

    /// The device is not used any more.
    pub(super) fn close(&self) {
        // Under the lock, so that the thread does not miss it.
        let open = lock(&self.tickets.state);
        self.closing.store(true, Ordering::Relaxed);
        drop(open);
        self.tickets.changed.notify_all();
    }

    /// Lets wgpu find out what is done: waits for a submission, or for the last one.
    /// wgpu panics here where the driver reports a loss; that is a loss then, and no panic.
    pub(super) fn poll(&self, submission: super::Awaited) {
        let wait = wgpu::PollType::Wait { submission_index: submission, timeout: Some(PATIENCE) };
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(wait))) {
            Ok(Ok(_) | Err(wgpu::PollError::Timeout)) => {}
            // The submission failed, so nothing waits for it; what was mapped after it is mapped now.
            Ok(Err(wgpu::PollError::WrongSubmissionIndex(..))) => {
                let _ = catch_unwind(AssertUnwindSafe(|| self.device.poll(wgpu::PollType::Poll)));
            }
            Err(_) => self.lose("the driver failed while waiting for it"),
        }
    }

    /// Parks until there is something to poll for.
    fn next(&self, released: bool) -> Next {
        let mut open = lock(&self.tickets.state);
        loop {
            open.tickets.retain(|(ticket, _)| !ticket.is_resolved());
            if let Some((ticket, submission)) = open.tickets.first() {
                return Next::Ticket(ticket.clone(), submission.clone());
            }
            if self.closing.load(Ordering::Relaxed) {
                return Next::Stop;
            }
            if open.lost && !released {
                return Next::Release;
            }
            open = self.tickets.changed.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Starts the thread. It parks while nothing is awaited, and ends once the poller is closed and
/// nothing is.
pub(super) fn start(poller: Arc<Poller>) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name("warpweft-gpu".to_string()).spawn(move || {
        let mut released = false;
        loop {
            match poller.next(released) {
                Next::Ticket(ticket, submission) => {
                    poller.poll(submission);
                    if !ticket.is_resolved() {
                        std::thread::sleep(Duration::from_micros(200));
                    }
                }
                Next::Release => {
                    released = true;
                    poller.poll(None);
                }
                Next::Stop => break,
            }
        }
        let _ = catch_unwind(AssertUnwindSafe(move || drop(poller)));
    });
    thread.map_err(|error| {
        Error::new(
            ErrorKind::NoDevice,
            format!("open: a thread must start for the device, got {error}"),
        )
    })
}

/// Waits for the thread, whose poller is closed. If a waker that the thread called dropped the device, this is the thread
/// itself: then it ends later, by itself.
pub(super) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        // A panic of the thread was printed where it happened.
        let _ = thread.join();
    }
}
