//! The thread that polls for a native device while something is awaited. Browsers poll by
//! themselves.

use super::errors::Gate;
use super::ledger::{Ledger, Next};
use crate::error::{Error, ErrorKind, Result};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Arc;
use std::time::Duration;

/// Lets wgpu find out what is done: waits for a submission, or for the last one, at most so long.
/// wgpu panics here where the driver reports a loss; that is a loss then, and no panic.
pub(super) fn poll(gate: &Gate, submission: Option<wgpu::SubmissionIndex>, timeout: Duration) {
    let wait = wgpu::PollType::Wait { submission_index: submission, timeout: Some(timeout) };
    match catch_unwind(AssertUnwindSafe(|| gate.device.poll(wait))) {
        Ok(Ok(_) | Err(wgpu::PollError::Timeout)) => {}
        // The submission failed, so nothing waits for it; what was mapped after it is mapped now.
        Ok(Err(wgpu::PollError::WrongSubmissionIndex(..))) => {
            let _ = catch_unwind(AssertUnwindSafe(|| gate.device.poll(wgpu::PollType::Poll)));
        }
        Err(_) => gate.ledger.lose("the driver failed while waiting for it"),
    }
}

/// Starts the thread. It parks while nothing is awaited, and ends once the ledger is closed and
/// nothing is.
pub(super) fn start(gate: Arc<Gate>, queue: wgpu::Queue) -> Result<()> {
    std::thread::Builder::new()
        .name("warpweft-gpu".to_string())
        .spawn(move || {
            let ledger: Arc<Ledger> = gate.ledger.clone();
            loop {
                match ledger.next() {
                    Next::Ticket(ticket) => {
                        poll(&gate, ticket.submission.clone(), Duration::from_millis(100));
                        if !ticket.settled() {
                            std::thread::sleep(Duration::from_micros(200));
                        }
                    }
                    Next::Release => poll(&gate, None, Duration::from_millis(100)),
                    Next::Stop => break,
                }
            }
            // The last owner of the queue waits for the device in its destructor: better here than
            // in a user's thread.
            let _ = catch_unwind(AssertUnwindSafe(move || drop((queue, gate))));
        })
        .map(|_| ())
        .map_err(|error| {
            Error::new(ErrorKind::NoDevice, format!("open: no thread for the device: {error}"))
        })
}
