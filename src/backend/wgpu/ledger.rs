//! What was promised and what went wrong, on one clock: tickets that are awaited, errors no read
//! has heard of yet, and whether the device is lost.

use crate::error::{Error, ErrorKind, Result};
#[cfg(not(target_arch = "wasm32"))]
use std::sync::Condvar;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// Locks, also after another thread panicked: the state behind these locks is never left half
/// written.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A promise of the machine: a mapping, or the end of the work submitted so far.
pub(super) struct Ticket {
    /// When it was asked for, on the ledger's clock.
    pub(super) at: u64,
    /// The submission to poll for; none for the last one. Browsers poll by themselves.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) submission: Option<wgpu::SubmissionIndex>,
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
    pub(super) fn new(at: u64, submission: Option<wgpu::SubmissionIndex>) -> Arc<Ticket> {
        #[cfg(target_arch = "wasm32")]
        let _ = submission;
        Arc::new(Ticket {
            at,
            #[cfg(not(target_arch = "wasm32"))]
            submission,
            state: Mutex::default(),
        })
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

    pub(super) fn settled(&self) -> bool {
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

/// What callbacks may touch. It holds no GPU object, so that it may go to any thread on every
/// target.
#[derive(Default)]
pub(super) struct Ledger {
    state: Mutex<LedgerState>,
    /// Tickets were opened, the device was lost, or the backend goes.
    #[cfg(not(target_arch = "wasm32"))]
    changed: Condvar,
}

#[derive(Default)]
struct LedgerState {
    clock: u64,
    lost: Option<String>,
    /// Errors that no read has heard of yet, with their times.
    errors: Vec<(u64, Error)>,
    open: Vec<Arc<Ticket>>,
    closing: bool,
    /// Whether wgpu was polled since the device was lost.
    #[cfg(not(target_arch = "wasm32"))]
    released: bool,
}

/// What the polling thread does next.
#[cfg(not(target_arch = "wasm32"))]
pub(super) enum Next {
    /// Wait for this ticket.
    Ticket(Arc<Ticket>),
    /// The device is lost: one poll lets wgpu give its memory back.
    Release,
    /// The backend is gone, and nothing is awaited any more.
    Stop,
}

impl Ledger {
    /// The next moment.
    pub(super) fn tick(&self) -> u64 {
        let mut state = lock(&self.state);
        state.clock += 1;
        state.clock
    }

    /// Keeps an error of moment `at` for the first read after it.
    pub(super) fn store(&self, at: u64, error: Error) {
        const MOST: usize = 64;
        let errors = &mut lock(&self.state).errors;
        if errors.len() < MOST {
            errors.push((at, error));
        }
    }

    /// The first error before moment `at`; it and the other ones before `at` are told by it.
    pub(super) fn take_before(&self, at: u64) -> Option<Error> {
        let errors = &mut lock(&self.state).errors;
        let first = errors.iter().filter(|e| e.0 < at).min_by_key(|e| e.0)?.1.clone();
        errors.retain(|e| e.0 >= at);
        Some(first)
    }

    /// An error where the device is lost.
    pub(super) fn check(&self, operation: &str) -> Result<()> {
        match &lock(&self.state).lost {
            None => Ok(()),
            Some(why) => Err(Error::new(
                ErrorKind::DeviceLost,
                format!("{operation}: the device was lost: {why}"),
            )),
        }
    }

    /// The device is gone: nothing that was promised will come.
    pub(super) fn lose(&self, why: &str) {
        let open = {
            let mut state = lock(&self.state);
            if state.lost.is_none() {
                state.lost = Some(why.to_string());
            }
            std::mem::take(&mut state.open)
        };
        self.notify();
        for ticket in open {
            ticket.settle(false);
        }
    }

    /// A ticket is awaited from now on.
    pub(super) fn open(&self, ticket: &Arc<Ticket>) {
        let lost = {
            let mut state = lock(&self.state);
            state.open.retain(|t| !t.settled());
            if state.lost.is_none() {
                state.open.push(ticket.clone());
            }
            state.lost.is_some()
        };
        if lost {
            ticket.settle(false);
        }
        self.notify();
    }

    /// The backend goes.
    pub(super) fn close(&self) {
        lock(&self.state).closing = true;
        self.notify();
    }

    /// Whether anything is awaited.
    #[cfg(target_arch = "wasm32")]
    pub(super) fn awaited(&self) -> bool {
        lock(&self.state).open.iter().any(|ticket| !ticket.settled())
    }

    /// Tells the thread that polls.
    fn notify(&self) {
        #[cfg(not(target_arch = "wasm32"))]
        self.changed.notify_all();
    }

    /// Parks until there is something to poll for.
    #[cfg(not(target_arch = "wasm32"))]
    pub(super) fn next(&self) -> Next {
        let mut state = lock(&self.state);
        loop {
            state.open.retain(|t| !t.settled());
            if let Some(ticket) = state.open.first() {
                return Next::Ticket(ticket.clone());
            }
            if state.closing {
                return Next::Stop;
            }
            if state.lost.is_some() && !state.released {
                state.released = true;
                return Next::Release;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
