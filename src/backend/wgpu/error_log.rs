//! What went wrong, on one clock: errors no read has heard of yet, and whether the device is lost.

use super::deferred::ErrorDependencies;
use crate::error::{Error, ErrorKind, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks, also after another thread panicked: the state behind these locks is never left half
/// written.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What callbacks may touch. It holds no GPU object, so that it may go to any thread on every
/// target.
#[derive(Default)]
pub(super) struct ErrorLog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clock: u64,
    lost: Option<String>,
    /// Errors that no read has heard of yet, with their times.
    errors: Vec<(u64, Error)>,
}

impl ErrorLog {
    /// The next moment.
    pub(super) fn tick(&self) -> u64 {
        let mut state = lock(&self.state);
        state.clock += 1;
        state.clock
    }

    /// Keeps an error of moment `at` for the first read after it.
    pub(super) fn store(&self, at: u64, error: Error) {
        const MAX_ERRORS: usize = 64;
        let errors = &mut lock(&self.state).errors;
        if errors.len() < MAX_ERRORS {
            errors.push((at, error));
        }
    }

    /// The first error before moment `at`; it and the other ones before `at` are told by it.
    fn take_before(&self, at: u64) -> Option<Error> {
        let errors = &mut lock(&self.state).errors;
        let mut first: Option<(u64, Error)> = None;
        let mut i = 0;
        while i < errors.len() {
            if errors[i].0 >= at {
                i += 1;
                continue;
            }
            let error = errors.remove(i);
            if first.as_ref().is_none_or(|first| error.0 < first.0) {
                first = Some(error);
            }
        }
        Some(first?.1)
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

    /// The device is gone; only the first reason counts.
    pub(super) fn lose(&self, why: &str) {
        lock(&self.state).lost.get_or_insert_with(|| why.to_string());
    }

    /// What is told to a read of moment `at`: that the device is lost, what is wrong with what it
    /// reads, or else the first earlier error that nobody heard of.
    pub(super) fn finish(
        &self,
        at: u64,
        operation: &str,
        unresolved: &[ErrorDependencies],
    ) -> Result<()> {
        self.check(operation)?;
        let unheard = self.take_before(at);
        match unresolved.iter().find_map(ErrorDependencies::error).cloned().or(unheard) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
