//! A value that another thread computes.

use crate::backend::Pending;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

/// The sender of a value. If it is dropped without a value, the receiver gets `lost`.
pub(super) struct Sender<T> {
    slot: Arc<Mutex<Slot<T>>>,
    lost: Option<T>,
}

struct Slot<T> {
    value: Option<T>,
    waker: Option<Waker>,
}

/// Returns a sender, and a future of its value. `lost` is the value if the sender is dropped.
pub(super) fn channel<T: Send + 'static>(lost: T) -> (Sender<T>, Pending<T>) {
    let slot = Arc::new(Mutex::new(Slot { value: None, waker: None }));
    let receiver = slot.clone();
    let received = poll_fn(move |context| {
        let mut slot = receiver.lock().unwrap_or_else(PoisonError::into_inner);
        match slot.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                slot.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    });
    (Sender { slot, lost: Some(lost) }, Box::pin(received))
}

impl<T> Sender<T> {
    pub fn send(mut self, value: T) {
        self.lost = Some(value);
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
            slot.value = self.lost.take();
            slot.waker.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}
