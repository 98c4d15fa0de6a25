//! How calls went that are answered late, and what hangs on the answers: a buffer's contents mean something if the
//! kernels, the runs and the buffers that they come from were good.

use crate::error::{Error, ErrorKind};
use crate::sorted;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How something went, once that is known: natively at once, in a browser later.
#[derive(Clone)]
pub struct DeferredResult(Arc<Answer>);

struct Answer {
    /// Later ones have larger numbers.
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
    /// Only the first word counts.
    pub fn settle(&self, error: Option<Error>) {
        let _ = self.0.error.set(error);
    }

    /// Whether it is known to have gone well.
    pub fn good(&self) -> bool {
        matches!(self.0.error.get(), Some(None))
    }

    /// What is known to have gone wrong.
    pub fn error(&self) -> Option<&Error> {
        self.0.error.get()?.as_ref()
    }
}

/// What must have gone well for some contents to mean something and is not known to have: each once, the oldest
/// first, or the one that is known to be bad. Empty but for the first moments in a browser, and after a failure.
#[derive(Clone, Default)]
pub struct Unresolved(Option<Arc<[DeferredResult]>>);

/// The first of these that is known to be bad: that there was no memory explains all that follows from it.
fn explanation(results: &[DeferredResult]) -> Option<&DeferredResult> {
    let no_memory = |deferred: &&DeferredResult| {
        deferred.error().is_some_and(|e| e.kind() == ErrorKind::Memory)
    };
    results
        .iter()
        .find(no_memory)
        .or_else(|| results.iter().find(|deferred| deferred.error().is_some()))
}

impl Unresolved {
    /// What is left of these together.
    fn union<'a>(parts: impl IntoIterator<Item = &'a [DeferredResult]>) -> Unresolved {
        let mut left: Vec<DeferredResult> = Vec::new();
        // What one run wrote has one list.
        let mut seen: Vec<*const DeferredResult> = Vec::new();
        for part in parts {
            if !part.is_empty() && !seen.contains(&part.as_ptr()) {
                seen.push(part.as_ptr());
                left.extend(part.iter().filter(|deferred| !deferred.good()).cloned());
            }
        }
        sorted::by_key(&mut left, |deferred| deferred.0.number);
        left.dedup_by_key(|deferred| deferred.0.number);
        if let Some(bad) = explanation(&left) {
            left = vec![bad.clone()];
        }
        Unresolved((!left.is_empty()).then(|| left.into()))
    }

    /// What is not known yet, or the one that is bad.
    pub fn results(&self) -> &[DeferredResult] {
        self.0.as_deref().unwrap_or_default()
    }

    /// What is known to have gone wrong.
    pub fn error(&self) -> Option<&Error> {
        explanation(self.results())?.error()
    }
}

/// What is known of a batch: of its kernels, and of its runs.
#[derive(Default)]
pub struct History {
    kernels: Unresolved,
    /// Whether a run is known to have gone well.
    proven: bool,
    /// While that is not so, the first run of which it is not known how it went. Later ones are taken to go as it does,
    /// so that however many follow each other there is one to wait for.
    trial: DeferredResult,
}

impl History {
    /// A batch whose kernels have these results.
    pub fn new(kernels: &[DeferredResult]) -> History {
        History { kernels: Unresolved::union([kernels]), ..History::default() }
    }

    /// What is wrong with the first kernel that could not be made, where there is one.
    pub fn broken(&self) -> Option<&Error> {
        self.kernels.error()
    }

    /// What settles whether the run that comes next goes well; none once one has.
    pub fn trial(&mut self) -> Option<DeferredResult> {
        self.proven |= self.trial.good();
        if self.trial.error().is_some() {
            self.trial = DeferredResult::default();
        }
        (!self.proven).then(|| self.trial.clone())
    }

    /// What the contents that a run of it wrote hang on: its kernels, its trial, the buffers, and what it read.
    pub fn unresolved<'a>(
        &'a mut self,
        trial: Option<&'a DeferredResult>,
        buffers: impl IntoIterator<Item = &'a DeferredResult>,
        read: impl IntoIterator<Item = &'a Unresolved>,
    ) -> Unresolved {
        self.kernels = Unresolved::union([self.kernels.results()]);
        let own = [self.kernels.results(), trial.map(std::slice::from_ref).unwrap_or_default()];
        let buffers = buffers.into_iter().map(std::slice::from_ref);
        let read = read.into_iter().map(|one| one.results());
        Unresolved::union(own.into_iter().chain(buffers).chain(read))
    }
}
