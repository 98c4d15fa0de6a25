//! Tests of ranks on two hosts with a slow, lossy or cut connection.

use crate::network::{Link, Network};
use crate::ranks::{arguments, child, Run, Started};
use std::thread::sleep;
use std::time::Duration;

/// Starts a task on both hosts.
fn start(network: &Network, task: &str, timeout: f64) -> Started {
    Started::start(network.mpirun(&arguments(task, timeout), &child()))
}

#[test]
fn calls_have_the_right_values_on_a_slow_network() {
    let (delay, loss) = (Duration::from_millis(20), 100);
    for link in [Link { delay, loss: 0 }, Link { delay: Duration::from_millis(1), loss }] {
        let Some(network) = Network::or_skip(link) else { return };
        start(&network, "collectives", 60.0).end(2).succeeds();
        start(&network, "queue", 60.0).end(2).succeeds();
    }
}

/// Checks that a rank printed this error.
fn check(run: &Run, rank: usize, error: &str) {
    assert_eq!(run.line(rank, "error: "), format!("all_reduce: {error}"), "{}", run.printed);
}

#[test]
fn a_cut_connection_is_named() {
    let Some(network) = Network::or_skip(Link::default()) else { return };
    let run = start(&network, "train", 2.0);
    sleep(Duration::from_secs(2));
    network.cut();
    // `mpirun` does not notice that the connection is cut.
    let run = run.end_after(Duration::from_secs(6));
    let host = network.host(1);
    check(&run, 0, &format!("all ranks must answer within 2 s, but rank 1 (host {host}) did not"));
}

#[test]
fn ranks_on_other_hosts_are_named() {
    let Some(network) = Network::or_skip(Link::default()) else { return };
    for (task, reason) in [("error", "the disk is full"), ("panic", "it panicked")] {
        let run = start(&network, task, 60.0).end(2);
        let host = network.host(1);
        check(
            &run,
            0,
            &format!("all ranks must answer, but rank 1 (host {host}) failed: {reason}"),
        );
        assert!(run.time < Duration::from_secs(10), "{:?}", run.time);
    }
}

#[test]
fn a_process_that_ends_on_another_host_is_named() {
    let Some(network) = Network::or_skip(Link::default()) else { return };
    let reason = format!("the process of rank 1 (host {}) has ended", network.host(1));
    let error = format!("all ranks must answer, but {reason}");
    for task in ["exit", "kill", "compute"] {
        let run = start(&network, task, 60.0).end(2);
        // The world prints the error if MPI ends the process during a call.
        let prefixes = ["error: all_reduce: ", "world: "];
        let lines = run.lines(0);
        let is_named = |prefix| lines.contains(&format!("{prefix}{error}"));
        assert!(prefixes.into_iter().any(is_named), "{task}:\n{}", run.printed);
        assert!(run.time < Duration::from_secs(10), "{task}: {:?}", run.time);
    }
}
