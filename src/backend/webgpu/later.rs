//! What JavaScript answers later.

use super::bridge;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use wasm_bindgen::prelude::*;

/// A promise as a future. wasm-bindgen's own brings an executor along, and traces of all of JavaScript's types.
pub struct Later(Rc<RefCell<Answer>>);

#[derive(Default)]
struct Answer {
    value: Option<Result<JsValue, JsValue>>,
    waker: Option<Waker>,
}

impl Later {
    /// What `promise` will answer.
    pub fn of(promise: &JsValue) -> Later {
        let answer = Rc::<RefCell<Answer>>::default();
        let later = Later(answer.clone());
        let tell = listener(move |failed, value| {
            let value = if failed > 0.0 { Err(value) } else { Ok(value) };
            let waker = {
                let mut answer = answer.borrow_mut();
                answer.value = Some(value);
                answer.waker.take()
            };
            // Whoever wakes now asks at once.
            if let Some(waker) = waker {
                waker.wake();
            }
        });
        bridge::answer(promise, &tell);
        later
    }
}

impl Future for Later {
    type Output = Result<JsValue, JsValue>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut answer = self.0.borrow_mut();
        match answer.value.take() {
            Some(value) => Poll::Ready(value),
            None => {
                answer.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// A function for JavaScript to call, which frees it once it has forgotten it. All are of one type, as each type brings
/// its own machinery.
pub fn listener(hears: impl Fn(f64, JsValue) + 'static) -> JsValue {
    let hears: Closure<dyn Fn(f64, JsValue)> = Closure::new(hears);
    hears.into_js_value()
}
