//! Completions: the outcome of requests to a device that finish later, such as mapping a buffer or running a submission.

use super::error_log::lock;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

/// The completion of a request. Several tasks may wait for it.
#[derive(Default)]
pub struct Completion {
    state: Mutex<TicketState>,
}

#[derive(Default)]
struct TicketState {
    /// Whether the request succeeded, once it has finished.
    outcome: Option<bool>,
    wakers: Vec<Waker>,
}

impl Completion {
    pub fn new() -> Arc<Completion> {
        Arc::default()
    }

    /// Finishes the request. Later calls have no effect.
    pub fn resolve(&self, succeeded: bool) {
        let wakers = {
            let mut state = lock(&self.state);
            state.outcome.get_or_insert(succeeded);
            std::mem::take(&mut state.wakers)
        };
        // Wakers run without the lock, because a waker may run any code.
        for waker in wakers {
            waker.wake();
        }
    }

    pub fn is_resolved(&self) -> bool {
        lock(&self.state).outcome.is_some()
    }

    /// Waits for the request, and returns whether it succeeded.
    pub async fn succeeded(&self) -> bool {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.state);
        if let Some(succeeded) = state.outcome {
            return Poll::Ready(succeeded);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// The pending completions, each with the device's handle for the request.
#[derive(Default)]
pub struct Completions<A> {
    pub state: Mutex<Open<A>>,
    /// Notified when a completion is added or the device is lost.
    pub changed: Condvar,
}

#[derive(Default)]
pub struct Open<A> {
    pub tickets: Vec<(Arc<Completion>, A)>,
    pub lost: bool,
}

impl<A> Completions<A> {
    /// Adds a completion. It fails at once if the device is lost.
    pub fn open(&self, ticket: &Arc<Completion>, awaited: A) {
        let lost = {
            let mut open = lock(&self.state);
            open.tickets.retain(|(other, _)| !other.is_resolved());
            if !open.lost {
                open.tickets.push((ticket.clone(), awaited));
            }
            open.lost
        };
        if lost {
            ticket.resolve(false);
        }
        self.changed.notify_all();
    }

    /// Fails all pending completions, because the device is lost.
    pub fn lose(&self) {
        let broken = {
            let mut open = lock(&self.state);
            open.lost = true;
            std::mem::take(&mut open.tickets)
        };
        self.changed.notify_all();
        for (ticket, _) in broken {
            ticket.resolve(false);
        }
    }
}
