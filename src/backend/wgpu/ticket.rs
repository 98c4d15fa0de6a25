//! What a device was asked for and answers later: bytes that are mapped, work that is done.

use super::error_log::lock;
use super::platform::Awaited;
use std::future::poll_fn;
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};

/// A promise of the device. Several may wait for it.
#[derive(Default)]
pub(super) struct Ticket {
    state: Mutex<TicketState>,
}

#[derive(Default)]
struct TicketState {
    /// Whether it was kept, once that is known.
    kept: Option<bool>,
    wakers: Vec<Waker>,
}

impl Ticket {
    pub(super) fn new() -> Arc<Ticket> {
        Arc::default()
    }

    /// Says whether the promise was kept; only the first word counts.
    pub(super) fn settle(&self, kept: bool) {
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

    pub(super) fn settled(&self) -> bool {
        lock(&self.state).kept.is_some()
    }

    /// Whether the promise was kept, once that is known.
    pub(super) async fn kept(&self) -> bool {
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

/// The tickets that are awaited.
#[derive(Default)]
pub(super) struct Tickets {
    pub(super) state: Mutex<Open>,
    /// A ticket was opened, or the device was lost.
    pub(super) changed: Condvar,
}

#[derive(Default)]
pub(super) struct Open {
    pub(super) tickets: Vec<(Arc<Ticket>, Awaited)>,
    pub(super) lost: bool,
}

impl Tickets {
    /// A ticket is awaited from now on: where the device is lost it is broken.
    pub(super) fn open(&self, ticket: &Arc<Ticket>, awaited: Awaited) {
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
    pub(super) fn lose(&self) {
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

#[cfg(test)]
mod tests {
    use super::{Ticket, Tickets};
    use std::future::Future;
    use std::pin::pin;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::Arc;
    use std::task::{Context, Poll, Wake};

    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn all_who_wait_are_woken() {
        let (tickets, ticket) = (Tickets::default(), Ticket::new());
        tickets.open(&ticket, Default::default());
        let wakers = [Arc::<Woken>::default(), Arc::<Woken>::default()];
        let mut waiting = [Box::pin(ticket.kept()), Box::pin(ticket.kept())];
        for _ in 0..2 {
            for (waker, future) in wakers.iter().zip(&mut waiting) {
                let waker = waker.clone().into();
                assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
            }
        }
        tickets.lose();
        let late = Ticket::new();
        tickets.open(&late, Default::default());
        for (woken, future) in wakers.iter().zip(&mut waiting) {
            assert_eq!(woken.0.load(Ordering::SeqCst), 1);
            let waker = woken.clone().into();
            let answer = future.as_mut().poll(&mut Context::from_waker(&waker));
            assert_eq!(answer, Poll::Ready(false));
        }
        let answer = pin!(late.kept()).poll(&mut Context::from_waker(std::task::Waker::noop()));
        assert_eq!(answer, Poll::Ready(false));
    }
}
