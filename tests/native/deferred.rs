//! Tests delayed answers of a GPU: how long callers wait, and where errors are reported.

use warpweft::backend::wgpu::deferred::{BatchHistory, DeferredResult, ErrorDependencies};
use warpweft::error::{Error, ErrorKind};

/// Runs a batch of five kernels repeatedly on a device that answers late. The kernels read their outputs. Counts the pending
/// work of each run.
fn loop_of(
    runs: usize,
    variables: &mut [ErrorDependencies],
    history: &mut BatchHistory,
) -> Vec<usize> {
    let step = |_| {
        let trial = history.first_run();
        let written = history.dependencies(trial.as_ref(), [], &*variables);
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
    let mut history = BatchHistory::new(&kernels);
    for variables in [1, 3, 4] {
        let counts =
            loop_of(10_000, &mut vec![ErrorDependencies::default(); variables], &mut history);
        assert!(counts.iter().all(|&count| count == 6), "{:?}", counts.iter().max());
    }
}

#[test]
fn two_batches_in_turns() {
    let mut histories = [BatchHistory::new(&five()), BatchHistory::new(&five())];
    let mut variables =
        [ErrorDependencies::default(), ErrorDependencies::default(), ErrorDependencies::default()];
    for run in 0..1000 {
        let count = loop_of(1, &mut variables, &mut histories[run % 2])[0];
        assert_eq!(count, if run == 0 { 6 } else { 12 });
    }
}

#[test]
fn what_went_well_is_forgotten() {
    let kernels = five();
    let mut history = BatchHistory::new(&kernels);
    let mut variables = [ErrorDependencies::default()];
    loop_of(10, &mut variables, &mut history);
    kernels.iter().for_each(|kernel| kernel.resolve(None));
    assert_eq!(loop_of(2, &mut variables, &mut history), [1, 1]);
    history.first_run().expect("it is not known yet").resolve(None);
    assert_eq!(loop_of(2, &mut variables, &mut history), [0, 0]);
    assert!(history.first_run().is_none());
}

#[test]
fn what_went_wrong_stays_with_all_that_comes_of_it() {
    let kernels = five();
    let (mut first, mut second) = (BatchHistory::new(&kernels), BatchHistory::new(&five()));
    let mut variables = [ErrorDependencies::default(), ErrorDependencies::default()];
    let fine = variables[0].clone();
    loop_of(10, &mut variables, &mut first);
    loop_of(10, &mut variables, &mut second);
    assert!(variables[0].error().is_none());
    kernels[3].resolve(Some(Error::state("no such kernel")));
    assert_eq!(variables[1].error().map(Error::message), Some("no such kernel"));
    assert_eq!(loop_of(2, &mut variables, &mut second), [1, 1]);
    assert_eq!(variables[1].error().map(Error::message), Some("no such kernel"));
    assert!(
        first.compile_error().is_some()
            && second.compile_error().is_none()
            && fine.error().is_none()
    );
}

#[test]
fn after_a_run_that_failed_the_next_one_is_told_apart() {
    let mut history = BatchHistory::new(&[]);
    let mut variables = [ErrorDependencies::default()];
    loop_of(3, &mut variables, &mut history);
    let failed = variables[0].clone();
    history.first_run().expect("it is not known yet").resolve(Some(Error::state("no memory")));
    let next = history.first_run().expect("none went well");
    assert!(next.error().is_none() && failed.error().is_some());
}

/// Tests that a run into a buffer without memory reports the lack of memory first, also after successful runs.
#[test]
fn what_there_is_no_memory_for_says_so() {
    let mut history = BatchHistory::new(&[]);
    history.first_run().expect("it is not known yet").resolve(None);
    let (full, buffer) = (Error::new(ErrorKind::Memory, "full"), DeferredResult::default());
    let proven = history.first_run();
    let written = history.dependencies(proven.as_ref(), [&buffer], []);
    assert!(proven.is_none() && written.error().is_none());
    buffer.resolve(Some(full.clone()));
    assert_eq!(written.error(), Some(&full));
    let trial = DeferredResult::default();
    trial.resolve(Some(Error::argument("an invalid buffer")));
    assert_eq!(history.dependencies(Some(&trial), [&buffer], []).error(), Some(&full));
}
