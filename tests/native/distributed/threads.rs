//! An engine for tests: the ranks are threads of one process.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use warpweft::distributed::{Collective, World};
use warpweft::error::{Error, Result};

/// One rank.
pub struct Threads {
    rank: usize,
    size: usize,
    meeting: Arc<Meeting>,
    /// How long each call takes at least, as a slow network.
    delay: Duration,
}

/// The place where ranks exchange bytes.
#[derive(Default)]
struct Meeting {
    state: Mutex<State>,
    changed: Condvar,
}

/// The bytes of all ranks.
type Gathered = Arc<Vec<Vec<u8>>>;

#[derive(Default)]
struct State {
    /// The call of each rank, with its bytes, until all ranks have called.
    calls: Vec<Option<(String, Vec<u8>)>>,
    /// The bytes of all ranks, and how many ranks have still to take them.
    outcome: Option<(Result<Gathered>, usize)>,
    failure: Option<Error>,
}

/// How long a rank waits for the others.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Worlds of the same ranks. Each rank opens the worlds in the same order.
pub struct Worlds {
    size: usize,
    meetings: Mutex<Vec<Arc<Meeting>>>,
}

impl Worlds {
    pub fn new(size: usize) -> Worlds {
        Worlds { size, meetings: Mutex::default() }
    }

    /// Opens world number `n` as a rank.
    pub fn open(&self, n: usize, rank: usize, delay: Duration) -> Result<World> {
        let size = self.size;
        let meeting = {
            let mut meetings = self.meetings.lock().unwrap_or_else(PoisonError::into_inner);
            while meetings.len() <= n {
                let meeting: Arc<Meeting> = Arc::default();
                meeting.state().calls.resize(size, None);
                meetings.push(meeting);
            }
            meetings[n].clone()
        };
        World::new(move || Ok(Arc::new(Threads { rank, size, meeting, delay })))
    }
}

/// Runs `work` as this many ranks, each on a separate thread, and returns their results in order. Every call of the engine
/// takes at least `delay`.
pub fn run<T: Send>(
    size: usize,
    delay: Duration,
    work: impl Fn(World) -> Result<T> + Sync,
) -> Vec<Result<T>> {
    let worlds = Worlds::new(size);
    let rank = |rank: usize| worlds.open(0, rank, delay).and_then(&work);
    std::thread::scope(|scope| {
        let rank = &rank;
        let ranks: Vec<_> = (0..size).map(|n| scope.spawn(move || rank(n))).collect();
        ranks.into_iter().map(|one| one.join().expect("no panic")).collect()
    })
}

impl Meeting {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Threads {
    /// Passes bytes to all ranks, and returns those of all.
    fn exchange(&self, call: String, bytes: Vec<u8>) -> Result<Gathered> {
        std::thread::sleep(self.delay);
        let begun = Instant::now();
        let mut state = self.meeting.state();
        let wait = |state| {
            let step = Duration::from_millis(50);
            let waited = self.meeting.changed.wait_timeout(state, step);
            let state = waited.unwrap_or_else(PoisonError::into_inner).0;
            assert!(begun.elapsed() < TIMEOUT, "rank {}: no answer to {call}", self.rank);
            state
        };
        // The ranks may still take the outcome of the last call.
        while state.outcome.is_some() && state.failure.is_none() {
            state = wait(state);
        }
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        state.calls[self.rank] = Some((call.clone(), bytes));
        if state.calls.iter().all(Option::is_some) {
            let calls: Vec<(String, Vec<u8>)> =
                state.calls.iter_mut().filter_map(Option::take).collect();
            let outcome = match calls.iter().all(|(other, _)| *other == calls[0].0) {
                true => Ok(Arc::new(calls.into_iter().map(|(_, bytes)| bytes).collect())),
                false => Err(Error::state(format!("the ranks must make one call, got {calls:?}"))),
            };
            state.outcome = Some((outcome, self.size));
            self.meeting.changed.notify_all();
        }
        loop {
            if state.calls[self.rank].is_none() {
                break;
            }
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state = wait(state);
        }
        let Some((outcome, left)) = &mut state.outcome else { unreachable!("the call is taken") };
        let outcome = outcome.clone();
        *left -= 1;
        if *left == 0 {
            state.outcome = None;
            self.meeting.changed.notify_all();
        }
        outcome
    }
}

fn floats(bytes: &[u8]) -> impl Iterator<Item = f32> + '_ {
    bytes.chunks_exact(4).map(|word| f32::from_le_bytes(word.try_into().expect("four bytes")))
}

fn bytes(floats: &[f32]) -> Vec<u8> {
    floats.iter().flat_map(|float| float.to_le_bytes()).collect()
}

/// Returns the sums, added in the order of the ranks.
fn sum(all: &[Vec<u8>]) -> Vec<f32> {
    let mut sums: Vec<f32> = floats(&all[0]).collect();
    for other in &all[1..] {
        sums.iter_mut().zip(floats(other)).for_each(|(sum, x)| *sum += x);
    }
    sums
}

impl Collective for Threads {
    fn name(&self) -> &'static str {
        "threads"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&self, values: &mut [f32]) -> Result<()> {
        let call = format!("all_reduce of {}", values.len());
        values.copy_from_slice(&sum(&self.exchange(call, bytes(values))?));
        Ok(())
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let call = format!("broadcast of {} from {root}", bytes.len());
        bytes.copy_from_slice(&self.exchange(call, bytes.to_vec())?[root]);
        Ok(())
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        let call = format!("all_gather of {}", own.len());
        all.copy_from_slice(&self.exchange(call, own.to_vec())?.concat());
        Ok(())
    }

    fn reduce_scatter(&self, values: &[f32], own: &mut [f32]) -> Result<()> {
        let call = format!("reduce_scatter of {}", values.len());
        let sums = sum(&self.exchange(call, bytes(values))?);
        own.copy_from_slice(&sums[self.rank * own.len()..][..own.len()]);
        Ok(())
    }

    fn barrier(&self) -> Result<()> {
        self.exchange("barrier".into(), Vec::new()).map(drop)
    }

    fn fail(&self, reason: &str) {
        let error = Error::state(format!(
            "world: all ranks must answer, but rank {} failed: {reason}",
            self.rank
        ));
        self.meeting.state().failure.get_or_insert(error);
        self.meeting.changed.notify_all();
    }
}
