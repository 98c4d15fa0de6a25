//! What a device was asked for and answers later: bytes that are mapped, work that is done.

use super::error_log::lock;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

/// A promise of the device. Several may wait for it.
#[derive(Default)]
pub struct Ticket {
    state: Mutex<TicketState>,
}

#[derive(Default)]
struct TicketState {
    /// Whether it was kept, once that is known.
    kept: Option<bool>,
    wakers: Vec<Waker>,
}

impl Ticket {
    pub fn new() -> Arc<Ticket> {
        Arc::default()
    }

    /// Says whether the promise was kept; only the first word counts.
    pub fn settle(&self, kept: bool) {
        let wakers = {
            let mut state = lock(&self.state);
            state.kept.get_or_insert(kept);
            std::mem::take(&mut state.wakers)
        };
        // Woken without the lock: a waker may run anything.
        for waker in wakers {
            waker.wake();
        }
    }

    pub fn settled(&self) -> bool {
        lock(&self.state).kept.is_some()
    }

    /// Whether the promise was kept, once that is known.
    pub async fn kept(&self) -> bool {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<bool> {
        let mut state = lock(&self.state);
        if let Some(kept) = state.kept {
            return Poll::Ready(kept);
        }
        if !state.wakers.iter().any(|waker| waker.will_wake(context.waker())) {
            state.wakers.push(context.waker().clone());
        }
        Poll::Pending
    }
}

/// The tickets that are awaited, each with what the device knows it by.
#[derive(Default)]
pub struct Tickets<A> {
    pub state: Mutex<Open<A>>,
    /// A ticket was opened, or the device was lost.
    pub changed: Condvar,
}

#[derive(Default)]
pub struct Open<A> {
    pub tickets: Vec<(Arc<Ticket>, A)>,
    pub lost: bool,
}

impl<A> Tickets<A> {
    /// A ticket is awaited from now on: where the device is lost it is broken.
    pub fn open(&self, ticket: &Arc<Ticket>, awaited: A) {
        let lost = {
            let mut open = lock(&self.state);
            open.tickets.retain(|(other, _)| !other.settled());
            if !open.lost {
                open.tickets.push((ticket.clone(), awaited));
            }
            open.lost
        };
        if lost {
            ticket.settle(false);
        }
        self.changed.notify_all();
    }

    /// Nothing that was promised will come.
    pub fn lose(&self) {
        let broken = {
            let mut open = lock(&self.state);
            open.lost = true;
            std::mem::take(&mut open.tickets)
        };
        self.changed.notify_all();
        for (ticket, _) in broken {
            ticket.settle(false);
        }
    }
}
