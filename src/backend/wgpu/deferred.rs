//! How calls went that are answered late, and what hangs on the answers: a buffer's contents mean something if the
//! kernels, the runs and the buffers that they come from were good.

use crate::error::{Error, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// How something went, once that is known: natively at once, in a browser later.
#[derive(Clone)]
pub(super) struct DeferredResult(Arc<Answer>);

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
    pub(super) fn settle(&self, error: Option<Error>) {
        let _ = self.0.error.set(error);
    }

    /// Whether it is known to have gone well.
    pub(super) fn good(&self) -> bool {
        matches!(self.0.error.get(), Some(None))
    }

    /// What is known to have gone wrong.
    pub(super) fn error(&self) -> Option<&Error> {
        self.0.error.get()?.as_ref()
    }
}

/// What must have gone well for some contents to mean something and is not known to have: each once, the oldest
/// first, or the one that is known to be bad. Empty but for the first moments in a browser, and after a failure.
#[derive(Clone, Default)]
pub(super) struct Unresolved(Option<Arc<[DeferredResult]>>);

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
        left.sort_unstable_by_key(|deferred| deferred.0.number);
        left.dedup_by_key(|deferred| deferred.0.number);
        if let Some(bad) = explanation(&left) {
            left = vec![bad.clone()];
        }
        Unresolved((!left.is_empty()).then(|| left.into()))
    }

    fn results(&self) -> &[DeferredResult] {
        self.0.as_deref().unwrap_or_default()
    }

    /// What is known to have gone wrong.
    pub(super) fn error(&self) -> Option<&Error> {
        explanation(self.results())?.error()
    }
}

/// What is known of a batch: of its kernels, and of its runs.
#[derive(Default)]
pub(super) struct History {
    kernels: Unresolved,
    /// Whether a run is known to have gone well.
    proven: bool,
    /// While that is not so, the first run of which it is not known how it went. Later ones are taken to go as it does,
    /// so that however many follow each other there is one to wait for.
    trial: DeferredResult,
}

impl History {
    /// A batch whose kernels have these results.
    pub(super) fn new(kernels: &[DeferredResult]) -> History {
        History { kernels: Unresolved::union([kernels]), ..History::default() }
    }

    /// What is wrong with the first kernel that could not be made, where there is one.
    pub(super) fn broken(&self) -> Option<&Error> {
        self.kernels.error()
    }

    /// What settles whether the run that comes next goes well; none once one has.
    pub(super) fn trial(&mut self) -> Option<DeferredResult> {
        self.proven |= self.trial.good();
        if self.trial.error().is_some() {
            self.trial = DeferredResult::default();
        }
        (!self.proven).then(|| self.trial.clone())
    }

    /// What the contents that a run of it wrote hang on: its kernels, its trial, the buffers, and what it read.
    pub(super) fn unresolved<'a>(
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

#[cfg(test)]
mod tests {
    use super::{DeferredResult, History, Unresolved};
    use crate::error::{Error, ErrorKind};

    /// A batch of five kernels which reads what it wrote, run again and again on a machine that answers late: what there
    /// is to wait for, run by run.
    fn loop_of(runs: usize, variables: &mut [Unresolved], history: &mut History) -> Vec<usize> {
        let step = |_| {
            let trial = history.trial();
            let written = history.unresolved(trial.as_ref(), [], &*variables);
            variables.fill(written);
            variables[0].results().len()
        };
        (0..runs).map(step).collect()
    }

    fn five() -> [DeferredResult; 5] {
        std::array::from_fn(|_| DeferredResult::default())
    }

    #[test]
    fn doubts_do_not_grow_with_the_runs() {
        let kernels = five();
        let mut history = History::new(&kernels);
        for variables in [1, 3, 4] {
            let counts = loop_of(10_000, &mut vec![Unresolved::default(); variables], &mut history);
            assert!(counts.iter().all(|&count| count == 6), "{:?}", counts.iter().max());
        }
    }

    #[test]
    fn two_batches_in_turns() {
        let mut histories = [History::new(&five()), History::new(&five())];
        let mut variables = [Unresolved::default(), Unresolved::default(), Unresolved::default()];
        for run in 0..1000 {
            let count = loop_of(1, &mut variables, &mut histories[run % 2])[0];
            assert_eq!(count, if run == 0 { 6 } else { 12 });
        }
    }

    #[test]
    fn what_went_well_is_forgotten() {
        let kernels = five();
        let mut history = History::new(&kernels);
        let mut variables = [Unresolved::default()];
        loop_of(10, &mut variables, &mut history);
        kernels.iter().for_each(|kernel| kernel.settle(None));
        assert_eq!(loop_of(2, &mut variables, &mut history), [1, 1]);
        history.trial().expect("it is not known yet").settle(None);
        assert_eq!(loop_of(2, &mut variables, &mut history), [0, 0]);
        assert!(history.trial().is_none());
    }

    #[test]
    fn what_went_wrong_stays_with_all_that_comes_of_it() {
        let kernels = five();
        let (mut first, mut second) = (History::new(&kernels), History::new(&five()));
        let mut variables = [Unresolved::default(), Unresolved::default()];
        let fine = variables[0].clone();
        loop_of(10, &mut variables, &mut first);
        loop_of(10, &mut variables, &mut second);
        assert!(variables[0].error().is_none());
        kernels[3].settle(Some(Error::data("no such kernel")));
        assert_eq!(variables[1].error().map(Error::message), Some("no such kernel"));
        assert_eq!(loop_of(2, &mut variables, &mut second), [1, 1]);
        assert_eq!(variables[1].error().map(Error::message), Some("no such kernel"));
        assert!(first.broken().is_some() && second.broken().is_none() && fine.error().is_none());
    }

    #[test]
    fn after_a_run_that_failed_the_next_one_is_told_apart() {
        let mut history = History::new(&[]);
        let mut variables = [Unresolved::default()];
        loop_of(3, &mut variables, &mut history);
        let failed = variables[0].clone();
        history.trial().expect("it is not known yet").settle(Some(Error::data("no memory")));
        let next = history.trial().expect("none went well");
        assert!(next.error().is_none() && failed.error().is_some());
    }

    /// A run into a buffer that there was no memory for fails in its own words first, also where earlier runs went well.
    #[test]
    fn what_there_is_no_memory_for_says_so() {
        let mut history = History::new(&[]);
        history.trial().expect("it is not known yet").settle(None);
        let (full, buffer) = (Error::new(ErrorKind::Memory, "full"), DeferredResult::default());
        let proven = history.trial();
        let written = history.unresolved(proven.as_ref(), [&buffer], []);
        assert!(proven.is_none() && written.error().is_none());
        buffer.settle(Some(full.clone()));
        assert_eq!(written.error(), Some(&full));
        let trial = DeferredResult::default();
        trial.settle(Some(Error::data("an invalid buffer")));
        assert_eq!(history.unresolved(Some(&trial), [&buffer], []).error(), Some(&full));
    }
}
