//! Error scopes on the browser's device object. wgpu's scopes are not used, because they panic on internal errors.

use crate::backend::wgpu::completion::Completion;
use crate::backend::wgpu::deferred::DeferredResult;
use crate::backend::wgpu::error_log::ErrorLog;
use crate::error::{Error, ErrorKind};
use js_sys::{Array, Promise, Reflect};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::{spawn_local, JsFuture};

#[wasm_bindgen]
extern "C" {
    /// A `GPUDevice`.
    #[derive(Clone)]
    type Raw;
    #[wasm_bindgen(method, js_name = pushErrorScope)]
    fn push_error_scope(this: &Raw, filter: &str);
    #[wasm_bindgen(method, catch, js_name = popErrorScope)]
    fn pop_error_scope(this: &Raw) -> Result<JsValue, JsValue>;
}

/// The error filters of each call, popped from the end.
const FILTERS: [&str; 3] = ["validation", "internal", "out-of-memory"];

/// The error scopes of a device.
pub(super) struct Scopes {
    device: Raw,
    errors: Arc<ErrorLog>,
    answers: Rc<RefCell<Answers>>,
}

/// The watched calls: which of them have outcomes, and who waits for them.
#[derive(Default)]
struct Answers {
    /// The number of the oldest call without an outcome. `known` has the state of this call and of all later ones.
    first: u64,
    known: VecDeque<bool>,
    /// Completions that wait for all calls below a number.
    waiting: Vec<(u64, Arc<Completion>)>,
}

impl Answers {
    fn next(&self) -> u64 {
        self.first + self.known.len() as u64
    }

    /// Marks a call as finished. Returns the completions that are now ready.
    fn answer(&mut self, number: u64) -> Vec<Arc<Completion>> {
        self.known[(number - self.first) as usize] = true;
        while self.known.front() == Some(&true) {
            self.known.pop_front();
            self.first += 1;
        }
        let first = self.first;
        self.waiting.extract_if(.., |waiting| waiting.0 <= first).map(|waiting| waiting.1).collect()
    }
}

impl Scopes {
    pub(super) fn new(device: &wgpu::Device, errors: Arc<ErrorLog>) -> Scopes {
        Scopes {
            device: super::raw(device).clone().unchecked_into(),
            errors,
            answers: Rc::default(),
        }
    }

    /// Opens the error scopes for a call.
    pub(super) fn push(&self) {
        for filter in FILTERS {
            self.device.push_error_scope(filter);
        }
    }

    /// Closes the error scopes of a call. Its outcome later resolves `deferred`, and an error goes to the error log.
    pub(super) fn pop(&self, context: String, deferred: Option<DeferredResult>) {
        let at = self.errors.tick();
        let popped = FILTERS.map(|_| match self.device.pop_error_scope() {
            Ok(promise) => promise,
            Err(thrown) => Promise::reject(&thrown).into(),
        });
        let number = self.answers.borrow().next();
        self.answers.borrow_mut().known.push_back(false);
        let outcome = JsFuture::from(Promise::all(&Array::from_iter(popped)));
        let (errors, answers) = (self.errors.clone(), self.answers.clone());
        spawn_local(async move {
            // A promise is rejected only if the device is lost, which is reported elsewhere.
            let caught = outcome.await.unwrap_or_default();
            let error = error(&context, &caught);
            if let Some(deferred) = deferred {
                deferred.resolve(error.clone());
            }
            if let Some(error) = error {
                errors.store(at, error);
            }
            let ready = answers.borrow_mut().answer(number);
            for ticket in ready {
                ticket.resolve(true);
            }
        });
    }

    /// Closes the error scopes of a call, and returns its error to the caller only.
    pub(super) fn quiet(&self) -> impl std::future::Future<Output = Option<Error>> + use<> {
        let popped = FILTERS.map(|_| match self.device.pop_error_scope() {
            Ok(promise) => promise,
            Err(thrown) => Promise::reject(&thrown).into(),
        });
        let outcome = JsFuture::from(Promise::all(&Array::from_iter(popped)));
        async move { error("the browser", &outcome.await.unwrap_or_default()) }
    }

    /// Returns a completion that resolves when all calls so far have outcomes.
    pub(super) fn known(&self) -> Arc<Completion> {
        let ticket = Completion::new();
        let mut answers = self.answers.borrow_mut();
        let next = answers.next();
        if answers.first == next {
            ticket.resolve(true);
        } else {
            answers.waiting.push((next, ticket.clone()));
        }
        ticket
    }
}

/// Converts the errors that the scopes of a call caught.
fn error(context: &str, caught: &JsValue) -> Option<Error> {
    let caught = |at: u32| {
        let error = Reflect::get_u32(caught, at).unwrap_or_default();
        error.is_object().then_some(error)
    };
    // A lack of memory explains all errors that follow from it.
    if caught(0).is_some() {
        return Some(Error::new(
            ErrorKind::Memory,
            format!("{context}: the device is out of memory"),
        ));
    }
    let error = caught(2).or(caught(1))?;
    let message = Reflect::get(&error, &"message".into()).ok().and_then(|m| m.as_string());
    let message = message.unwrap_or_default();
    let message = match message.trim() {
        "" => "it failed",
        message => message,
    };
    Some(Error::new(ErrorKind::Unsupported, format!("{context}: {message}")))
}
