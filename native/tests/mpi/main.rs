//! Tests worlds of several ranks. Each test starts `mpirun`, whose ranks are child processes of this program with a task.

#![cfg(target_os = "linux")]

mod collectives;
mod faults;
mod network;
mod networks;
mod ranks;
mod tasks;
mod training;

/// The child process that the tests start.
#[test]
fn child() {
    if let Ok(task) = std::env::var(ranks::TASK) {
        // The line already has the name of this test.
        println!();
        tasks::run(&task);
    }
}
