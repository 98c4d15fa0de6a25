//! Tests of ranks that fail. All other ranks print which rank failed and why, and the run ends soon.

use crate::ranks::{run, Run};
use std::time::Duration;

/// The longest time of a run with a fault, far less than the timeouts. The start of `mpirun` alone takes seconds on a busy
/// machine. The ranks print how long the call took that fails.
const SOON: Duration = Duration::from_secs(30);

/// Returns the name of this machine, as MPI does.
fn host() -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").expect("a name");
    host.trim().to_string()
}

/// Runs a task in which rank 1 of 3 fails. Ranks 0 and 2 must print the error, with `HOST` for the name of this machine.
fn faulty(task: &str, timeout: f64, error: &str) -> Run {
    let run = run(3, task, timeout);
    assert!(!run.status.success(), "{task}: {}", run.printed);
    let error = error.replace("HOST", &host());
    for rank in [0, 2] {
        assert_eq!(run.line(rank, "error: "), error, "{task}: rank {rank}:\n{}", run.printed);
    }
    println!("{task}: {:.1} s\n{}", run.time.as_secs_f64(), run.printed);
    assert!(run.time < SOON, "{task}: {:?}\n{}", run.time, run.printed);
    run
}

#[test]
fn an_error_is_named() {
    let error = "all ranks must answer, but rank 1 (host HOST) failed: the disk is full";
    let run = faulty("error", 60.0, &format!("all_reduce: {error}"));
    assert_eq!(run.line(1, "error: "), format!("barrier: {error}").replace("HOST", &host()));
}

#[test]
fn a_panic_is_named() {
    let reason = "rank 1 (host HOST) failed: it panicked";
    faulty("panic", 60.0, &format!("all_reduce: all ranks must answer, but {reason}"));
}

#[test]
fn a_process_that_ends_is_named() {
    for task in ["exit", "kill"] {
        let reason = "the process of rank 1 (host HOST) has ended";
        faulty(task, 60.0, &format!("all_reduce: all ranks must answer, but {reason}"));
    }
}

#[test]
fn a_rank_that_hangs_is_named() {
    for task in ["hang", "stop"] {
        let must = "all ranks must answer within 2 s";
        faulty(task, 2.0, &format!("all_reduce: {must}, but rank 1 (host HOST) did not"));
    }
}

#[test]
fn a_rank_that_leaves_is_named() {
    let reason = "rank 1 (host HOST) has left the world";
    faulty("leave", 60.0, &format!("all_reduce: all ranks must answer, but {reason}"));
}

#[test]
fn ranks_that_leave_at_different_times_succeed() {
    run(3, "slow leave", 1.0).succeeds();
}

#[test]
fn different_calls_are_named() {
    let must = "all ranks must make the same calls, but rank 0 (host HOST) called";
    let (one, two) = ("all_reduce of 1000000 values", "and rank 1 (host HOST) called");
    let run =
        faulty("lengths", 60.0, &format!("all_reduce: {must} {one}, {two} all_reduce of 5 values"));
    assert!(run.line(1, "error: all_reduce: ").starts_with("all ranks must make"));
    let run = faulty("kinds", 60.0, &format!("all_reduce: {must} {one}, {two} barrier"));
    assert!(run.line(1, "error: barrier: ").starts_with("all ranks must make"));
}

#[test]
fn ranks_that_compute_print_the_failure_before_mpirun_ends_them() {
    let run = run(3, "compute", 60.0);
    let reason = format!("the process of rank 1 (host {}) has ended", host());
    for rank in [0, 2] {
        let printed = run.line(rank, "world: ");
        assert_eq!(printed, format!("all ranks must answer, but {reason}"));
    }
    println!("compute: {:.1} s\n{}", run.time.as_secs_f64(), run.printed);
    assert!(run.time < SOON, "{:?}", run.time);
}
