//! The error log: errors that no read has returned yet, and whether the device is lost. Calls are ordered by one clock.

use super::deferred::ErrorDependencies;
use crate::error::{Error, ErrorKind, Result};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks a mutex, also after another thread panicked. The state behind these locks is never half written.
pub(super) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The state that callbacks may change. It has no GPU objects, so it can be sent to any thread on every target.
#[derive(Default)]
pub(super) struct ErrorLog {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    clock: u64,
    lost: Option<String>,
    /// Errors that no read has returned yet, with their times.
    errors: Vec<(u64, Error)>,
}

impl ErrorLog {
    /// Advances the clock and returns the time.
    pub(super) fn tick(&self) -> u64 {
        let mut state = lock(&self.state);
        state.clock += 1;
        state.clock
    }

    /// Stores an error of time `at` for the first read after it.
    pub(super) fn store(&self, at: u64, error: Error) {
        const MAX_ERRORS: usize = 64;
        let errors = &mut lock(&self.state).errors;
        if errors.len() < MAX_ERRORS {
            errors.push((at, error));
        }
    }

    /// Removes all errors before time `at`, and returns the first one. The first error explains the others.
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

    /// Returns an error if the device is lost.
    pub(super) fn check(&self, operation: &str) -> Result<()> {
        match &lock(&self.state).lost {
            None => Ok(()),
            Some(why) => Err(Error::new(
                ErrorKind::DeviceLost,
                format!("{operation}: the device was lost: {why}"),
            )),
        }
    }

    /// Marks the device as lost. The first reason is kept.
    pub(super) fn lose(&self, why: &str) {
        lock(&self.state).lost.get_or_insert_with(|| why.to_string());
    }

    /// Returns the outcome of a read at time `at`. Device loss comes first, followed by an error of the contents that are read,
    /// and the first earlier error that no read has returned.
    pub(super) fn finish(
        &self,
        at: u64,
        operation: &str,
        unresolved: &[ErrorDependencies],
    ) -> Result<()> {
        self.check(operation)?;
        let unreported = self.take_before(at);
        match unresolved.iter().find_map(ErrorDependencies::error).cloned().or(unreported) {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
