//! What is awaited of the device, and the thread that polls for it.

use super::errors::Gate;
use crate::backend::gpu::lock;
use crate::error::{Error, ErrorKind, Result};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A promise of the device: a mapping, or the end of the work submitted so far.
pub(super) struct Ticket {
    /// The submission to poll for; none for the last one.
    submission: Option<wgpu::SubmissionIndex>,
    state: Mutex<TicketState>,
}

#[derive(Default)]
struct TicketState {
    /// Whether it was kept, once that is known.
    kept: Option<bool>,
    waker: Option<Waker>,
}

impl Ticket {
    /// A ticket for `submission`, or for the last one.
    pub(super) fn new(submission: Option<wgpu::SubmissionIndex>) -> Arc<Ticket> {
        Arc::new(Ticket { submission, state: Mutex::default() })
    }

    /// Says whether the promise was kept; only the first word counts.
    pub(super) fn settle(&self, kept: bool) {
        let waker = {
            let mut state = lock(&self.state);
            state.kept.get_or_insert(kept);
            state.waker.take()
        };
        // Woken without the lock: a waker may run anything.
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn settled(&self) -> bool {
        lock(&self.state).kept.is_some()
    }

    pub(super) fn poll(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.state);
        match state.kept {
            Some(kept) => Poll::Ready(kept),
            None => {
                state.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// The tickets that are awaited.
#[derive(Default)]
pub(super) struct Tickets {
    state: Mutex<TicketsState>,
    /// Tickets were opened, the device was lost, or the backend goes.
    changed: Condvar,
}

#[derive(Default)]
struct TicketsState {
    open: Vec<Arc<Ticket>>,
    closing: bool,
    lost: bool,
    /// Whether wgpu was polled since the device was lost.
    released: bool,
}

/// What the polling thread does next.
enum Next {
    /// Wait for this ticket.
    Ticket(Arc<Ticket>),
    /// The device is lost: one poll lets wgpu give its memory back.
    Release,
    /// The backend is gone, and nothing is awaited any more.
    Stop,
}

impl Tickets {
    /// A ticket is awaited from now on.
    pub(super) fn open(&self, ticket: &Arc<Ticket>) {
        let lost = {
            let mut state = lock(&self.state);
            state.open.retain(|t| !t.settled());
            if !state.lost {
                state.open.push(ticket.clone());
            }
            state.lost
        };
        if lost {
            ticket.settle(false);
        }
        self.changed.notify_all();
    }

    /// Nothing that was promised will come.
    pub(super) fn lose(&self) {
        let open = {
            let mut state = lock(&self.state);
            state.lost = true;
            std::mem::take(&mut state.open)
        };
        self.changed.notify_all();
        for ticket in open {
            ticket.settle(false);
        }
    }

    /// The backend goes.
    pub(super) fn close(&self) {
        lock(&self.state).closing = true;
        self.changed.notify_all();
    }

    /// Parks until there is something to poll for.
    fn next(&self) -> Next {
        let mut state = lock(&self.state);
        loop {
            state.open.retain(|t| !t.settled());
            if let Some(ticket) = state.open.first() {
                return Next::Ticket(ticket.clone());
            }
            if state.closing {
                return Next::Stop;
            }
            if state.lost && !state.released {
                state.released = true;
                return Next::Release;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// Lets wgpu find out what is done: waits for a submission, or for the last one, at most so long.
/// wgpu panics here where the driver reports a loss; that is a loss then, and no panic.
pub(super) fn poll(gate: &Gate, submission: Option<wgpu::SubmissionIndex>, timeout: Duration) {
    let wait = wgpu::PollType::Wait { submission_index: submission, timeout: Some(timeout) };
    match catch_unwind(AssertUnwindSafe(|| gate.device.poll(wait))) {
        Ok(Ok(_) | Err(wgpu::PollError::Timeout)) => {}
        // The submission failed, so nothing waits for it; what was mapped after it is mapped now.
        Ok(Err(wgpu::PollError::WrongSubmissionIndex(..))) => {
            let _ = catch_unwind(AssertUnwindSafe(|| gate.device.poll(wgpu::PollType::Poll)));
        }
        Err(_) => gate.lose("the driver failed while waiting for it"),
    }
}

/// Starts the thread. It parks while nothing is awaited, and ends once the tickets are closed and
/// nothing is.
pub(super) fn start(gate: Arc<Gate>, queue: wgpu::Queue) -> Result<()> {
    std::thread::Builder::new()
        .name("warpweft-gpu".to_string())
        .spawn(move || {
            loop {
                match gate.tickets.next() {
                    Next::Ticket(ticket) => {
                        poll(&gate, ticket.submission.clone(), Duration::from_millis(100));
                        if !ticket.settled() {
                            std::thread::sleep(Duration::from_micros(200));
                        }
                    }
                    Next::Release => poll(&gate, None, Duration::from_millis(100)),
                    Next::Stop => break,
                }
            }
            // The last owner of the queue waits for the device in its destructor: better here than
            // in a user's thread.
            let _ = catch_unwind(AssertUnwindSafe(move || drop((queue, gate))));
        })
        .map(|_| ())
        .map_err(|error| {
            Error::new(ErrorKind::NoDevice, format!("open: no thread for the device: {error}"))
        })
}
