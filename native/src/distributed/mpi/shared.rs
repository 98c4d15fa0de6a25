//! The state of the engine, and the loop that waits for operations. All calls of MPI are made with the state locked.

use super::guard::Events;
use super::messages::{Message, Messages};
use super::raw::{Comm, Request};
use super::work::{Slot, Work};
use crate::error::{Error, Result};
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{sleep, yield_now};
use std::time::{Duration, Instant};

/// The chunks in flight.
const WINDOW: usize = 8;
/// The time for which a waiting rank tests again at once. Then it sleeps between tests, to leave the processors to others.
const BUSY: Duration = Duration::from_millis(2);
/// The time between tests, and that of a rank that has waited for long.
const NAP: Duration = Duration::from_micros(50);
const LONG_NAP: Duration = Duration::from_micros(500);
/// The time after which the naps are long.
const LONG: Duration = Duration::from_millis(100);
/// The longest time until a waiting rank sends its number of calls, and until it sends it again.
const PATIENCE: Duration = Duration::from_secs(1);
/// The time from the end of a process to the error. A message with the reason may still arrive.
const SETTLE: Duration = Duration::from_millis(200);
/// The longest time that MPI usually takes for a call.
const STOP: Duration = Duration::from_millis(1);
/// The time to send the messages about a failure before MPI is abandoned.
const FLUSH: Duration = Duration::from_millis(300);

pub const ALL_REDUCE: u64 = 0;
pub const BROADCAST: u64 = 1;
pub const ALL_GATHER: u64 = 2;
pub const REDUCE_SCATTER: u64 = 3;
pub const BARRIER: u64 = 4;
const KINDS: [&str; 5] = ["all_reduce", "broadcast", "all_gather", "reduce_scatter", "barrier"];

/// The arguments in which all ranks must agree.
#[derive(Clone, Copy)]
pub struct Call {
    pub kind: u64,
    pub len: usize,
    pub root: usize,
}

/// The words of a call in a check.
const CHECK_WORDS: usize = 3;

impl Call {
    fn words(self) -> [u64; CHECK_WORDS] {
        [self.kind, self.len as u64, self.root as u64]
    }
}

/// Describes the call that a rank has sent.
fn describe(words: &[u64]) -> String {
    let name = KINDS.get(words[0] as usize).unwrap_or(&"an unknown call");
    match words[0] {
        BROADCAST => format!("{name} of {} bytes of rank {}", words[1], words[2]),
        ALL_GATHER => format!("{name} of {} bytes", words[1]),
        BARRIER => (*name).to_string(),
        _ => format!("{name} of {} values", words[1]),
    }
}

/// The engine without the parts that are dropped at the end.
pub struct Shared {
    pub rank: usize,
    /// The names of the ranks, such as `rank 0 (host node1)`.
    pub names: Vec<String>,
    timeout: Duration,
    events: OnceLock<Arc<Events>>,
    /// Whether a call has returned the failure.
    is_reported: AtomicBool,
    state: Mutex<State>,
}

struct State {
    /// The group of the calls.
    calls: Comm,
    /// The group of the checks.
    checks: Comm,
    messages: Messages,
    slots: Vec<Slot>,
    check: Check,
    peers: Vec<Peer>,
    /// The number of calls that began.
    begun: u64,
    /// The reason why the world is broken.
    broken: Option<String>,
    /// Whether a call is in progress.
    is_calling: bool,
    /// Whether MPI must not be called again, because it would end this process.
    is_closed: bool,
    /// An error of MPI, and its time. Its cause may still be found.
    trouble: Option<(String, Instant)>,
}

/// The exchange of calls.
#[derive(Default)]
struct Check {
    own: Vec<u64>,
    all: Vec<u64>,
    request: Option<Request>,
}

/// The last messages of a rank.
#[derive(Clone, Default)]
struct Peer {
    /// The number of its calls, and the time of the message.
    waits: Option<(u64, Instant)>,
    /// The number of its calls, if it left the world.
    left: Option<u64>,
}

/// The times of one wait.
struct Clock {
    /// The start, or the end of the last chunk.
    since: Instant,
    /// The time of the last message to the others.
    told: Option<Instant>,
}

impl State {
    /// Breaks the world, unless it is broken already, and sends the reason to the other ranks.
    fn fail(&mut self, reason: String) {
        if self.broken.is_none() {
            self.messages.send(&Message::Broken(reason.clone()));
            self.broken = Some(reason);
        }
    }

    fn receive(&mut self) {
        while !self.is_closed
            && let Some((from, message)) = self.messages.receive()
        {
            let Some(peer) = self.peers.get_mut(from) else { continue };
            match message {
                Message::Broken(reason) => {
                    self.broken.get_or_insert(reason);
                }
                Message::Left(calls) => peer.left = Some(calls),
                Message::Waiting(calls) => peer.waits = Some((calls, Instant::now())),
            }
        }
    }

    /// Whether no message is in flight, or MPI cannot be called.
    fn is_sent(&mut self) -> bool {
        self.is_closed || self.messages.is_sent()
    }

    /// Starts to exchange the call with the other ranks.
    fn start_check(&mut self, call: Call) -> std::result::Result<(), String> {
        let check = &mut self.check;
        check.own = call.words().to_vec();
        check.all.resize(CHECK_WORDS * self.checks.size, 0);
        // SAFETY: the check keeps both, and they are accessed only when the request is done.
        check.request =
            Some(unsafe { self.checks.gather(bytes(&check.own), bytes_mut(&mut check.all))? });
        Ok(())
    }

    /// Whether all ranks have begun the call.
    fn is_checked(&mut self, names: &[String]) -> std::result::Result<bool, String> {
        let Some(request) = &mut self.check.request else { return Ok(true) };
        if request.test()?.is_none() {
            return Ok(false);
        }
        self.check.request = None;
        let mut calls = self.check.all.chunks(CHECK_WORDS);
        let first = calls.next().unwrap_or_default();
        if let Some(at) = calls.position(|call| call != first) {
            let other = &self.check.all[CHECK_WORDS * (at + 1)..][..CHECK_WORDS];
            let (here, there) = (describe(first), describe(other));
            let (one, two) = (&names[0], &names[at + 1]);
            self.fail(format!("all ranks must make the same calls, but {one} called {here}, and {two} called {there}"));
        }
        Ok(true)
    }

    /// Whether a chunk is done.
    fn is_done(&mut self, slot: usize) -> std::result::Result<bool, String> {
        let Some(request) = &mut self.slots[slot].request else { return Ok(true) };
        let is_done = request.test()?.is_some();
        if is_done {
            self.slots[slot].request = None;
        }
        Ok(is_done)
    }
}

fn bytes(words: &[u64]) -> &[u8] {
    // SAFETY: all bytes of numbers are bytes.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast(), size_of_val(words)) }
}

fn bytes_mut(words: &mut [u64]) -> &mut [u8] {
    // SAFETY: all bytes of numbers are bytes, and all bytes are numbers.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }
}

impl Clock {
    fn start() -> Clock {
        Clock { since: Instant::now(), told: None }
    }

    /// Waits until the next test.
    fn pause(&self) {
        match self.since.elapsed() {
            waited if waited < BUSY => yield_now(),
            waited if waited < LONG => sleep(NAP),
            _ => sleep(LONG_NAP),
        }
    }
}

impl Shared {
    /// Creates the groups. It blocks until every rank has called it.
    pub fn new(
        calls: Comm,
        names: Vec<String>,
        timeout: Duration,
    ) -> std::result::Result<Shared, String> {
        let rank = calls.rank;
        let mut slots = Vec::new();
        slots.resize_with(WINDOW, Slot::default);
        let state = State {
            calls,
            checks: Comm::new()?,
            messages: Messages::new()?,
            slots,
            check: Check::default(),
            peers: vec![Peer::default(); names.len()],
            begun: 0,
            broken: None,
            is_calling: false,
            is_closed: false,
            trouble: None,
        };
        let (events, is_reported) = (OnceLock::new(), AtomicBool::new(false));
        Ok(Shared { rank, names, timeout, events, is_reported, state: Mutex::new(state) })
    }

    /// Sets the events that the loop notices.
    pub fn set_events(&self, events: Arc<Events>) {
        self.events.set(events).ok();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Exchanges a message with each rank. MPI connects two ranks when they first exchange a message, and needs both for it, so
    /// it could not connect them after a failure.
    pub fn connect(&self) -> Result<()> {
        self.lock().messages.send(&Message::Waiting(0));
        let others = |(rank, peer): (usize, &Peer)| rank == self.rank || peer.waits.is_some();
        self.wait("world", &mut Clock::start(), |state| {
            Ok(state.peers.iter().enumerate().all(others))
        })
    }

    /// Makes a call.
    pub fn call(&self, call: Call, work: &mut dyn Work) -> Result<()> {
        let (op, mut clock) = (KINDS[call.kind as usize], Clock::start());
        {
            let mut state = self.lock();
            state.begun += 1;
            self.look_for_remote_end(&mut state, true);
            state.is_calling = true;
            if state.broken.is_none() {
                let started = state.start_check(call);
                self.note(&mut state, started);
            }
        }
        let (chunks, mut started) = (work.chunks(self.names.len()), 0);
        for chunk in 0..chunks {
            while started < chunks.min(chunk + WINDOW) {
                let mut state = self.lock();
                let State { calls, slots, broken, trouble, .. } = &mut *state;
                if broken.is_some() || trouble.is_some() {
                    break;
                }
                let slot = &mut slots[started % WINDOW];
                let request = work.start(calls, started, slot);
                let result = request.map(|request| slot.request = Some(request));
                self.note(&mut state, result);
                started += 1;
            }
            self.wait(op, &mut clock, |state| state.is_done(chunk % WINDOW))?;
            let state = self.lock();
            work.finish(&state.calls, chunk, &state.slots[chunk % WINDOW]);
        }
        self.wait(op, &mut clock, |state| state.is_checked(&self.names))?;
        self.lock().is_calling = false;
        Ok(())
    }

    /// Keeps an error of MPI.
    fn note<T>(&self, state: &mut State, result: std::result::Result<T, String>) -> Option<T> {
        result.map_err(|error| state.trouble.get_or_insert((error, Instant::now()))).ok()
    }

    /// Waits until `is_done`, or until the world breaks.
    fn wait(
        &self,
        op: &str,
        clock: &mut Clock,
        mut is_done: impl FnMut(&mut State) -> std::result::Result<bool, String>,
    ) -> Result<()> {
        loop {
            let mut state = self.lock();
            self.look_for_remote_end(&mut state, false);
            if state.trouble.is_none() && state.broken.is_none() {
                let done = is_done(&mut state);
                if self.note(&mut state, done) == Some(true) && state.broken.is_none() {
                    clock.since = Instant::now();
                    return Ok(());
                }
            }
            self.look(&mut state, clock);
            if let Some(reason) = &state.broken {
                self.is_reported.store(true, Ordering::Release);
                return Err(Error::state(format!("{op}: {reason}")));
            }
            drop(state);
            clock.pause();
        }
    }

    /// Looks for reasons to stop waiting.
    fn look(&self, state: &mut State, clock: &mut Clock) {
        self.look_for_remote_end(state, false);
        state.receive();
        self.look_for_remote_end(state, false);
        if state.broken.is_none() {
            let checked = state.is_checked(&self.names);
            self.note(state, checked);
        }
        if let Some(reason) = self.find_end(&state.peers, state.begun, false) {
            state.fail(reason);
        }
        if let Some((error, time)) = &state.trouble
            && time.elapsed() > PATIENCE
        {
            let reason =
                format!("all ranks must answer, but {} failed: {error}", self.names[self.rank]);
            state.fail(reason);
        }
        let (waited, patience) = (clock.since.elapsed(), PATIENCE.min(self.timeout / 8));
        if waited > self.timeout {
            state.fail(self.find_late(state, patience * 3));
        }
        if waited > patience && clock.told.is_none_or(|told| told.elapsed() > patience) {
            clock.told = Some(Instant::now());
            // Frees the memory of earlier messages.
            state.is_sent();
            let message = Message::Waiting(state.begun);
            state.messages.send(&message);
        }
    }

    /// Breaks the world if a process on another machine has ended. Open MPI notices this, too, and ends this process when it
    /// cannot connect again. This takes at least two calls of MPI. `is_idle` allows one, which may receive the reason.
    fn look_for_remote_end(&self, state: &mut State, is_idle: bool) {
        let Some(seen) = self.events.get().and_then(|events| events.seen()) else { return };
        let ended = seen.ended.iter().find(|rank| state.peers[**rank].left.is_none());
        let Some(rank) = ended.filter(|_| seen.is_remote && !state.is_closed) else { return };
        if let (true, Some((_, Message::Broken(reason)))) = (is_idle, state.messages.receive()) {
            state.broken.get_or_insert(reason);
        }
        state.messages.skip(*rank);
        state.fail(format!(
            "all ranks must answer, but the process of {} has ended",
            self.names[*rank]
        ));
        state.is_closed = true;
    }

    /// Returns the reason if a rank has left or ended, or if this rank must end.
    fn find_end(&self, peers: &[Peer], begun: u64, at_once: bool) -> Option<String> {
        let must = "all ranks must answer, but";
        let has_left = |peer: &Peer| peer.left.is_some_and(|calls| calls < begun);
        if let Some(rank) = peers.iter().position(has_left) {
            return Some(format!("{must} {} has left the world", self.names[rank]));
        }
        let seen = self.events.get()?.seen()?;
        if !at_once && seen.first.is_none_or(|first| first.elapsed() < SETTLE) {
            return None;
        }
        // A rank that left may end.
        let mut ended = seen.ended.iter().filter(|rank| peers[**rank].left.is_none());
        if let Some(rank) = ended.next() {
            return Some(format!("{must} the process of {} has ended", self.names[*rank]));
        }
        let this = &self.names[self.rank];
        let text = "got SIGTERM, which mpirun sends when a rank has ended";
        seen.is_terminated.then(|| format!("{must} {this} {text}"))
    }

    /// Returns the reason after a timeout: ranks that have made fewer calls, or that have sent nothing for long.
    fn find_late(&self, state: &State, recent: Duration) -> String {
        let is_waiting =
            |(calls, time): (u64, Instant)| calls >= state.begun && time.elapsed() < recent;
        let is_late =
            |rank: &usize| *rank != self.rank && !state.peers[*rank].waits.is_some_and(is_waiting);
        let late: Vec<&str> =
            (0..self.names.len()).filter(is_late).map(|rank| self.names[rank].as_str()).collect();
        let within = format!("all ranks must answer within {} s, but", self.timeout.as_secs_f64());
        match &late[..] {
            [] => format!(
                "{within} all ranks wait, because the connection between two of them is broken"
            ),
            late => format!("{within} {} did not", late.join(" and ")),
        }
    }

    /// Announces that this rank has failed.
    pub fn fail(&self, reason: &str) {
        let this = &self.names[self.rank];
        self.lock().fail(format!("all ranks must answer, but {this} failed: {reason}"));
    }

    /// Locks the state, unless this takes longer than `most`. MPI may wait for a rank that has ended.
    fn lock_within(&self, most: Duration) -> Option<MutexGuard<'_, State>> {
        let start = Instant::now();
        loop {
            match self.state.try_lock() {
                Ok(state) => return Some(state),
                Err(TryLockError::Poisoned(error)) => return Some(error.into_inner()),
                Err(TryLockError::WouldBlock) if start.elapsed() > most => return None,
                Err(TryLockError::WouldBlock) => yield_now(),
            }
        }
    }

    /// Breaks the world at once if a process on another machine has ended, before MPI ends this process. Between two calls,
    /// the next call does it. If MPI does not return, it may be too late, so the reason is printed.
    pub fn stop_mpi(&self) {
        match self.lock_within(STOP) {
            Some(mut state) if state.is_calling => self.look_for_remote_end(&mut state, false),
            Some(_) => {}
            None => self.print(self.find_end(&vec![Peer::default(); self.names.len()], 0, true)),
        }
    }

    /// Prints the failure, unless a call has returned it.
    pub fn print_failure(&self) {
        let reason = match self.lock_within(SETTLE) {
            Some(mut state) => {
                self.look_for_remote_end(&mut state, true);
                state.receive();
                if let Some(reason) = self.find_end(&state.peers, state.begun, false) {
                    state.fail(reason);
                }
                state.broken.clone()
            }
            None => self.find_end(&vec![Peer::default(); self.names.len()], 0, false),
        };
        self.print(reason);
    }

    fn print(&self, reason: Option<String>) {
        if let Some(reason) = reason
            && !self.is_reported.swap(true, Ordering::AcqRel)
        {
            // One piece, because `mpirun` mixes the pieces of all ranks.
            std::io::stderr().write_all(format!("world: {reason}\n").as_bytes()).ok();
        }
    }

    /// Leaves the world: waits until all ranks leave. Returns whether MPI can be closed, and otherwise only sends the messages
    /// about the failure.
    pub fn leave(&self) -> bool {
        let start = Instant::now();
        let mut state = self.lock();
        let was_broken = state.broken.is_some();
        self.look_for_remote_end(&mut state, true);
        if state.broken.is_none() {
            let message = Message::Left(state.begun);
            state.messages.send(&message);
        }
        loop {
            self.look_for_remote_end(&mut state, false);
            state.receive();
            let is_sent = state.is_sent();
            if state.broken.is_some() {
                if is_sent || start.elapsed() > FLUSH {
                    break;
                }
            } else if let Some(reason) = self.find_end(&state.peers, state.begun, false) {
                state.fail(reason);
            } else if is_sent && self.has_left(&state) {
                state.messages.close();
                return true;
            }
            drop(state);
            sleep(NAP);
            state = self.lock();
        }
        drop(state);
        if !was_broken {
            self.print_failure();
        }
        false
    }

    /// Whether all other ranks have left.
    fn has_left(&self, state: &State) -> bool {
        let mut peers = state.peers.iter().enumerate();
        peers.all(|(rank, peer)| rank == self.rank || peer.left.is_some())
    }
}
