//! The watch over the other ranks.
//!
//! NCCL does not notice a rank that fails on the same machine, so a call would wait until its timeout. Each rank therefore has
//! a thread that meets the threads of the other ranks several times a second, in a call of the world that carries NCCL's id. If
//! a rank ends or announces a failure, this call returns an error. The ranks also exchange their numbers of calls. An error
//! after a timeout can thus name the ranks that did not make a call.

use crate::distributed::World;
use crate::error::{Error, Result};
use pollster::block_on;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time between two meetings.
const INTERVAL: Duration = Duration::from_millis(200);

/// The thread that meets those of the other ranks.
pub struct Watch {
    world: World,
    shared: Arc<Shared>,
    /// Dropped when this rank makes no more calls.
    open: Option<Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    /// The number of calls that this rank has started.
    calls: AtomicU64,
    ranks: Mutex<Vec<Rank>>,
    failure: OnceLock<Error>,
}

/// The state of a rank at the latest meeting.
#[derive(Clone, Copy, PartialEq)]
struct Rank {
    calls: u64,
    is_closed: bool,
}

impl Rank {
    fn to_bytes(self) -> Vec<u8> {
        [&self.calls.to_le_bytes()[..], &[self.is_closed.into()]].concat()
    }

    fn from_bytes(bytes: &[u8]) -> Option<Rank> {
        let (calls, rest) = bytes.split_first_chunk()?;
        Some(Rank { calls: u64::from_le_bytes(*calls), is_closed: *rest.first()? != 0 })
    }
}

impl Watch {
    /// Starts the thread. It alone uses the world until all ranks have closed their watches.
    ///
    /// # Errors
    /// `InvalidState` if no thread can be started.
    pub fn start(world: World) -> Result<Watch> {
        let shared = Arc::new(Shared::default());
        let (open, opened) = channel();
        let (meeting, state) = (world.clone(), shared.clone());
        let run = move || meet(&meeting, &state, &opened);
        let started = thread::Builder::new().name("warpweft-nccl".into()).spawn(run);
        let thread = started.map_err(|error| {
            Error::state(format!("nccl: a thread must start, got the error {error}"))
        })?;
        Ok(Watch { world, shared, open: Some(open), thread: Some(thread) })
    }

    /// Counts a call of this rank, and returns its number.
    pub fn count(&self) -> u64 {
        self.shared.calls.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Announces a failure of this rank to all ranks.
    pub fn fail(&self, reason: &str) {
        self.world.fail(reason);
    }

    /// Checks that no rank failed, and that no rank has closed its world before it made the call of this number.
    ///
    /// # Errors
    /// The error that names the rank.
    pub fn check(&self, call: u64) -> Result<()> {
        if let Some(error) = self.shared.failure.get() {
            return Err(error.clone());
        }
        let ranks = self.shared.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_lost = |rank: &Rank| rank.is_closed && rank.calls < call;
        match ranks.iter().position(is_lost) {
            None => Ok(()),
            Some(rank) => {
                let calls = ranks[rank].calls;
                let must = format!("nccl: rank {rank} must make call {call} of its world");
                Err(Error::state(format!("{must}, got the end after {calls} calls")))
            }
        }
    }

    /// Returns the ranks that have not yet made the call of this number, in words.
    pub fn missing(&self, call: u64) -> String {
        let ranks = self.shared.ranks.lock().unwrap_or_else(PoisonError::into_inner);
        let missing = ranks.iter().enumerate().filter(|(_, rank)| rank.calls < call);
        let missing: Vec<String> = missing.map(|(number, _)| number.to_string()).collect();
        match missing.is_empty() {
            true => "no result of NCCL".to_string(),
            false => format!("no call of rank {}", missing.join(", rank ")),
        }
    }

    /// Waits until all ranks have closed their watches, or one failed.
    ///
    /// # Errors
    /// `InvalidState` if that takes longer than `timeout`.
    pub fn close(&mut self, timeout: Duration) -> Result<()> {
        self.open = None;
        let start = Instant::now();
        let Some(thread) = self.thread.take() else { return Ok(()) };
        while !thread.is_finished() {
            if start.elapsed() > timeout {
                let must = format!("nccl: all ranks must close their worlds within {timeout:?}");
                return Err(Error::state(format!("{must}, got others that are open")));
            }
            thread::sleep(Duration::from_millis(1));
        }
        thread.join().ok();
        Ok(())
    }
}

/// Meets the threads of the other ranks until all are closed.
fn meet(world: &World, shared: &Shared, open: &Receiver<()>) {
    let mut is_closed = false;
    loop {
        match is_closed {
            true => thread::sleep(INTERVAL),
            false => is_closed = open.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout),
        }
        let own = Rank { calls: shared.calls.load(Ordering::Relaxed), is_closed };
        let ranks = match block_on(world.all_gather(own.to_bytes())) {
            Ok(all) => {
                all.iter().map(|bytes| Rank::from_bytes(bytes)).collect::<Option<Vec<Rank>>>()
            }
            Err(error) => return drop(shared.failure.set(error)),
        };
        let Some(ranks) = ranks else {
            let message = "nccl: the world below must carry only the watch, got another call";
            return drop(shared.failure.set(Error::state(message)));
        };
        let all_closed = ranks.iter().all(|rank| rank.is_closed);
        *shared.ranks.lock().unwrap_or_else(PoisonError::into_inner) = ranks;
        if all_closed {
            return;
        }
    }
}
