//! The polling thread, which waits for submissions and mappings to finish.

use super::lock;
use crate::backend::wgpu::completion::{Completion, Completions};
use crate::backend::wgpu::error_log::ErrorLog;
use crate::error::{Error, ErrorKind, Result};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// The timeout of one wait. It is longer than any submission should take. wgpu-core 30 panics if a wait times out while a
/// submission on another thread finds the queue empty (fixed by its pull request 9958). Pending results are lost then.
const PATIENCE: Duration = Duration::from_secs(60);

/// The state that the polling thread shares with the device.
pub(super) struct Poller {
    device: wgpu::Device,
    errors: Arc<ErrorLog>,
    pub(super) tickets: Completions<super::Awaited>,
    /// Whether the device was dropped.
    closing: AtomicBool,
}

/// The next action of the polling thread.
enum Next {
    /// Wait for this completion.
    Ticket(Arc<Completion>, super::Awaited),
    /// Poll once, because the device is lost and wgpu can then free its memory.
    Release,
    /// End, because the device was dropped and nothing is pending.
    Stop,
}

impl Poller {
    pub(super) fn new(device: wgpu::Device, errors: Arc<ErrorLog>) -> Poller {
        Poller { device, errors, tickets: Completions::default(), closing: AtomicBool::new(false) }
    }

    /// Marks the device as lost, and fails all pending completions.
    pub(super) fn lose(&self, why: &str) {
        self.errors.lose(why);
        self.tickets.lose();
    }

    /// Lets the thread end once nothing is pending.
    pub(super) fn close(&self) {
        // Set under the lock, so that the thread does not miss the change.
        let open = lock(&self.tickets.state);
        self.closing.store(true, Ordering::Relaxed);
        drop(open);
        self.tickets.changed.notify_all();
    }

    /// Waits for a submission, or for the last one. If the driver reports a loss, wgpu panics here. The panic is caught and
    /// counts as device loss.
    pub(super) fn poll(&self, submission: super::Awaited) {
        let wait = wgpu::PollType::Wait { submission_index: submission, timeout: Some(PATIENCE) };
        match catch_unwind(AssertUnwindSafe(|| self.device.poll(wait))) {
            Ok(Ok(_) | Err(wgpu::PollError::Timeout)) => {}
            // The submission failed, so nothing waits for it. One poll maps the buffers that were requested after it.
            Ok(Err(wgpu::PollError::WrongSubmissionIndex(..))) => {
                let _ = catch_unwind(AssertUnwindSafe(|| self.device.poll(wgpu::PollType::Poll)));
            }
            Err(_) => self.lose("the driver failed while waiting for it"),
        }
    }

    /// Waits until there is something to do.
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

/// Starts the thread. It sleeps while nothing is pending, and ends once the poller is closed and nothing is pending.
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

/// Waits for the thread, whose poller is closed. If the thread dropped the device by calling a waker, this call is on that
/// thread. It then returns at once, and the thread ends later.
pub(super) fn join(thread: JoinHandle<()>) {
    if thread.thread().id() != std::thread::current().id() {
        // The panic hook has already printed a panic of the thread.
        let _ = thread.join();
    }
}
