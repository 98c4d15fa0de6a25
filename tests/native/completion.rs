//! Tests completions of GPU work that several tasks await.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use warpweft::backend::wgpu::completion::{Completion, Completions};

#[derive(Default)]
struct Woken(AtomicU32);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn all_who_wait_are_woken() {
    let (tickets, ticket) = (Completions::<()>::default(), Completion::new());
    tickets.open(&ticket, ());
    let wakers = [Arc::<Woken>::default(), Arc::<Woken>::default()];
    let mut waiting = [Box::pin(ticket.succeeded()), Box::pin(ticket.succeeded())];
    for _ in 0..2 {
        for (waker, future) in wakers.iter().zip(&mut waiting) {
            let waker = waker.clone().into();
            assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        }
    }
    tickets.lose();
    let late = Completion::new();
    tickets.open(&late, ());
    for (woken, future) in wakers.iter().zip(&mut waiting) {
        assert_eq!(woken.0.load(Ordering::SeqCst), 1);
        let waker = woken.clone().into();
        let answer = future.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(answer, Poll::Ready(false));
    }
    let answer = pin!(late.succeeded()).poll(&mut Context::from_waker(std::task::Waker::noop()));
    assert_eq!(answer, Poll::Ready(false));
}
