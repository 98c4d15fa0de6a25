//! Deferred results: outcomes of calls that are reported late, and what depends on them.
//!
//! Problem: in a browser, errors of a call arrive later. A failed call must not lead to wrong values without an error.
//!
//! Idea: each buffer has a list of the calls that its contents depend on, such as compiling kernels, earlier runs, and
//! allocating buffers. A run adds its dependencies to the buffers that it writes. A read returns the error of a failed
//! dependency.
//!
//! Cost: successful calls are removed from the lists, so the lists are usually empty.

use crate::error::{Error, ErrorKind};
use crate::sorted;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// The outcome of a call. Natively it is known at once, in a browser later.
#[derive(Clone)]
pub struct DeferredResult(Arc<Answer>);

struct Answer {
    /// The order of the calls.
    number: u64,
    error: OnceLock<Option<Error>>,
}

impl Default for DeferredResult {
    fn default() -> DeferredResult {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        DeferredResult(Arc::new(Answer { number, error: OnceLock::new() }))
    }
}

impl DeferredResult {
    /// Sets the outcome. Later calls have no effect.
    pub fn resolve(&self, error: Option<Error>) {
        let _ = self.0.error.set(error);
    }

    /// Whether the call is known to have succeeded.
    pub fn is_ok(&self) -> bool {
        matches!(self.0.error.get(), Some(None))
    }

    /// Returns the error, if the call is known to have failed.
    pub fn error(&self) -> Option<&Error> {
        self.0.error.get()?.as_ref()
    }
}

/// The calls that some contents depend on and that are not known to have succeeded, oldest first, without duplicates. If one
/// call is known to have failed, the list has only that one. The list is usually empty, except in a browser, where outcomes
/// arrive late.
#[derive(Clone, Default)]
pub struct ErrorDependencies(Option<Arc<[DeferredResult]>>);

/// Returns the first result that is known to have failed. A lack of memory comes first, because it explains other failures.
fn explanation(results: &[DeferredResult]) -> Option<&DeferredResult> {
    let no_memory = |deferred: &&DeferredResult| {
        deferred.error().is_some_and(|e| e.kind() == ErrorKind::Memory)
    };
    results
        .iter()
        .find(no_memory)
        .or_else(|| results.iter().find(|deferred| deferred.error().is_some()))
}

impl ErrorDependencies {
    /// Joins lists of pending results, without those that succeeded.
    fn union<'a>(parts: impl IntoIterator<Item = &'a [DeferredResult]>) -> ErrorDependencies {
        let mut left: Vec<DeferredResult> = Vec::new();
        // All buffers that one run wrote share one list.
        let mut seen: Vec<*const DeferredResult> = Vec::new();
        for part in parts {
            if !part.is_empty() && !seen.contains(&part.as_ptr()) {
                seen.push(part.as_ptr());
                left.extend(part.iter().filter(|deferred| !deferred.is_ok()).cloned());
            }
        }
        sorted::by_key(&mut left, |deferred| deferred.0.number);
        left.dedup_by_key(|deferred| deferred.0.number);
        if let Some(bad) = explanation(&left) {
            left = vec![bad.clone()];
        }
        ErrorDependencies((!left.is_empty()).then(|| left.into()))
    }

    /// Returns the pending results, or the failed one.
    pub fn results(&self) -> &[DeferredResult] {
        self.0.as_deref().unwrap_or_default()
    }

    /// Returns the error, if a call is known to have failed.
    pub fn error(&self) -> Option<&Error> {
        explanation(self.results())?.error()
    }
}

/// The outcomes of a batch so far: of compiling its kernels, and of its runs.
#[derive(Default)]
pub struct BatchHistory {
    kernels: ErrorDependencies,
    /// Whether a run is known to have succeeded.
    has_succeeded: bool,
    /// Until a run has succeeded, the first run with a pending outcome. Later runs share its outcome, so that there is only one
    /// outcome to wait for.
    first_run: DeferredResult,
}

impl BatchHistory {
    /// Creates the history of a batch whose kernels have these results.
    pub fn new(kernels: &[DeferredResult]) -> BatchHistory {
        BatchHistory { kernels: ErrorDependencies::union([kernels]), ..BatchHistory::default() }
    }

    /// Returns the error of the first kernel that failed to compile.
    pub fn compile_error(&self) -> Option<&Error> {
        self.kernels.error()
    }

    /// Returns the outcome that the next run depends on. `None` once a run has succeeded.
    pub fn first_run(&mut self) -> Option<DeferredResult> {
        self.has_succeeded |= self.first_run.is_ok();
        if self.first_run.error().is_some() {
            self.first_run = DeferredResult::default();
        }
        (!self.has_succeeded).then(|| self.first_run.clone())
    }

    /// Returns the dependencies of the contents that a run writes: its kernels, the first run, the buffers, and what the run
    /// reads.
    pub fn dependencies<'a>(
        &'a mut self,
        first_run: Option<&'a DeferredResult>,
        buffers: impl IntoIterator<Item = &'a DeferredResult>,
        read: impl IntoIterator<Item = &'a ErrorDependencies>,
    ) -> ErrorDependencies {
        self.kernels = ErrorDependencies::union([self.kernels.results()]);
        let own = [self.kernels.results(), first_run.map(std::slice::from_ref).unwrap_or_default()];
        let buffers = buffers.into_iter().map(std::slice::from_ref);
        let read = read.into_iter().map(|one| one.results());
        ErrorDependencies::union(own.into_iter().chain(buffers).chain(read))
    }
}
