//! Work that ends later: futures, and the functions of JavaScript that get their results.

use super::values::Function;
use super::Thrown;
use crate::error::Result;
use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use wasm_bindgen::prelude::*;

struct Task {
    work: RefCell<Pin<Box<dyn Future<Output = Result<JsValue>>>>>,
    settle: Function,
}

thread_local! {
    /// By number; none where it has ended.
    static TASKS: RefCell<Vec<Option<Rc<Task>>>> = const { RefCell::new(Vec::new()) };
}

/// Does `work` until it is done, then calls `settle`: with false and the result, or with true and what is to be thrown.
pub fn start(settle: Function, work: impl Future<Output = Result<JsValue>> + 'static) {
    let task = Rc::new(Task { work: RefCell::new(Box::pin(work)), settle });
    let number = TASKS.with_borrow_mut(|tasks| {
        let mut number = 0;
        while tasks.get(number).is_some_and(Option::is_some) {
            number += 1;
        }
        if number == tasks.len() {
            tasks.push(None);
        }
        tasks[number] = Some(task);
        number
    });
    proceed(number);
}

/// Does what can be done now. A number that is another task's by now is no harm: a task may be asked at any time.
fn proceed(number: usize) {
    let Some(task) = TASKS.with_borrow(|tasks| tasks[number].clone()) else { return };
    let waker = Waker::from(Arc::new(Waking(number)));
    let polled = task.work.borrow_mut().as_mut().poll(&mut Context::from_waker(&waker));
    let Poll::Ready(result) = polled else { return };
    TASKS.with_borrow_mut(|tasks| tasks[number] = None);
    let (failed, value) = match result {
        Ok(value) => (false, value),
        Err(error) => (true, Thrown::from(error).into()),
    };
    task.settle.settle(&JsValue::UNDEFINED, failed, &value);
}

/// Goes on with a task.
struct Waking(usize);

impl Wake for Waking {
    fn wake(self: Arc<Self>) {
        proceed(self.0);
    }
}
