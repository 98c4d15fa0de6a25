//! A thread that notices the end of other processes, and the signal SIGTERM.
//!
//! When a rank ends, `mpirun` sends SIGTERM to all others, and SIGKILL about a second later. Without this thread, SIGTERM would
//! end them before they can print which rank ended and why.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::{AsRawFd as _, FromRawFd as _, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

/// The time from SIGTERM to the end of the process, unless it ends before. `mpirun` sends SIGKILL after 1 s.
const GRACE: Duration = Duration::from_millis(800);

/// The bytes in the pipe of the thread.
const TERMINATED: u8 = b'T';
const QUIT: u8 = b'Q';

/// The writing end of the pipe, for the signal handler.
static PIPE: AtomicI32 = AtomicI32::new(-1);

/// The thread.
pub struct Guard {
    pub events: Arc<Events>,
    pipe: File,
    thread: Option<JoinHandle<()>>,
    /// The reaction to SIGTERM before, if this thread reacts to it.
    previous: Option<libc::sigaction>,
}

/// A request of the guard thread to the engine.
pub enum Request {
    /// Stop calling MPI, because a process on another machine has ended.
    StopMpi,
    /// Print the failure, because SIGTERM ends this process.
    PrintFailure,
}

/// The events that were noticed.
pub struct Events {
    /// Connections with ranks on other machines.
    links: Vec<(usize, Arc<OwnedFd>)>,
    any: AtomicBool,
    seen: Mutex<Seen>,
}

#[derive(Default, Clone)]
pub struct Seen {
    /// The ranks whose processes ended.
    pub ended: Vec<usize>,
    /// Whether one of them was on another machine. Open MPI then ends this process when it next tries to reach that rank.
    pub is_remote: bool,
    pub is_terminated: bool,
    /// The time of the first event.
    pub first: Option<Instant>,
}

impl Events {
    /// Returns the events, if there are any. Also looks whether connections were closed, because the thread may be late.
    pub fn seen(&self) -> Option<Seen> {
        if !self.any.load(Ordering::Acquire) && !self.links.is_empty() {
            for at in poll(self.links.iter().map(|(_, link)| &**link), 0) {
                self.add_ended(self.links[at].0);
            }
        }
        let lock = || self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        self.any.load(Ordering::Acquire).then(|| lock().clone())
    }

    fn add(&self, add: impl FnOnce(&mut Seen)) {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        add(&mut seen);
        seen.first.get_or_insert_with(Instant::now);
        self.any.store(true, Ordering::Release);
    }

    fn add_ended(&self, rank: usize) {
        let is_remote = self.links.iter().any(|(other, _)| *other == rank);
        self.add(|seen| {
            seen.is_remote |= is_remote;
            seen.ended.push(rank);
        });
    }
}

/// Waits until one of the handles is readable, or for `wait` ms if this is not negative. Returns the numbers of those that are.
fn poll<'a>(handles: impl Iterator<Item = &'a OwnedFd>, wait: i32) -> Vec<usize> {
    let entry =
        |fd: &OwnedFd| libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut entries: Vec<libc::pollfd> = handles.map(entry).collect();
    // SAFETY: the slice has as many entries.
    unsafe { libc::poll(entries.as_mut_ptr(), entries.len() as libc::nfds_t, wait) };
    let entries = entries.iter().enumerate();
    entries.filter(|(_, entry)| entry.revents != 0).map(|(at, _)| at).collect()
}

/// The signal handler. Of the few functions that it may call, it needs only `write`.
extern "C" fn terminated(_: libc::c_int) {
    let (pipe, byte) = (PIPE.load(Ordering::Acquire), TERMINATED);
    // SAFETY: the pipe is open, or the number is -1, which is an error of `write` without effect.
    unsafe { libc::write(pipe, (&raw const byte).cast(), 1) };
}

impl Guard {
    /// Starts the thread. `near` and `links` have ranks on this and on other machines, with handles that become readable when
    /// their processes end.
    pub fn start(
        near: Vec<(usize, Arc<OwnedFd>)>,
        links: Vec<(usize, Arc<OwnedFd>)>,
        ask: impl Fn(Request) + Send + 'static,
    ) -> std::io::Result<Guard> {
        let (reader, writer) = std::io::pipe()?;
        let all = near.into_iter().chain(links.iter().cloned()).collect();
        let events = Events { links, any: AtomicBool::new(false), seen: Mutex::default() };
        let events = Arc::new(events);
        let noticed = events.clone();
        let work = move || watch(OwnedFd::from(reader), all, &noticed, ask);
        let thread = Builder::new().name("warpweft-guard".into()).spawn(work)?;
        let pipe = File::from(OwnedFd::from(writer));
        PIPE.store(pipe.as_raw_fd(), Ordering::Release);
        Ok(Guard { events, pipe, thread: Some(thread), previous: handle_signal() })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(previous) = self.previous.take() {
            // SAFETY: the reaction is the one that `sigaction` returned.
            unsafe { libc::sigaction(libc::SIGTERM, &previous, std::ptr::null_mut()) };
        }
        PIPE.store(-1, Ordering::Release);
        self.pipe.write_all(&[QUIT]).ok();
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

/// Reacts to SIGTERM, unless the program has its own reaction. Returns the previous reaction.
fn handle_signal() -> Option<libc::sigaction> {
    // SAFETY: zeros are a valid action. The handler calls only functions that handlers may call.
    unsafe {
        let (mut previous, mut action): (libc::sigaction, libc::sigaction) = std::mem::zeroed();
        libc::sigaction(libc::SIGTERM, std::ptr::null(), &mut previous);
        if previous.sa_sigaction != libc::SIG_DFL {
            return None;
        }
        action.sa_sigaction = terminated as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        (libc::sigaction(libc::SIGTERM, &action, std::ptr::null_mut()) == 0).then_some(previous)
    }
}

/// Returns a handle of a process on this machine, which becomes readable when the process ends.
#[cfg(target_os = "linux")]
pub fn open_process(id: u32) -> Option<OwnedFd> {
    // SAFETY: the call has two numbers as arguments, and returns a new handle or -1.
    unsafe {
        let handle = libc::syscall(libc::SYS_pidfd_open, id as libc::pid_t, 0);
        (handle >= 0).then(|| OwnedFd::from_raw_fd(handle as i32))
    }
}

/// Other systems have no such handles. There, `mpirun` and the timeout end the calls.
#[cfg(not(target_os = "linux"))]
pub fn open_process(_: u32) -> Option<OwnedFd> {
    None
}

fn watch(
    pipe: OwnedFd,
    mut processes: Vec<(usize, Arc<OwnedFd>)>,
    events: &Events,
    ask: impl Fn(Request),
) {
    let Ok(mut reader) = pipe.try_clone().map(File::from) else { return };
    let mut deadline: Option<Instant> = None;
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let wait = left.map_or(-1, |left| left.as_millis() as i32 + 1);
        let handles = processes.iter().map(|(_, handle)| &**handle).chain([&pipe]);
        let readable = poll(handles, wait);
        let has_signal = readable.last() == Some(&processes.len());
        // From the last, so that the numbers of the others stay right.
        for at in readable.into_iter().rev().skip(usize::from(has_signal)) {
            events.add_ended(processes.remove(at).0);
            if events.seen().is_some_and(|seen| seen.is_remote) {
                ask(Request::StopMpi);
            }
        }
        let mut byte = [QUIT];
        if has_signal && reader.read(&mut byte).is_ok() {
            if byte[0] == QUIT {
                return;
            }
            events.add(|seen| seen.is_terminated = true);
            deadline.get_or_insert_with(|| Instant::now() + GRACE);
        }
        if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            break;
        }
    }
    ask(Request::PrintFailure);
    // SAFETY: this is the usual reaction to SIGTERM.
    unsafe {
        libc::signal(libc::SIGTERM, libc::SIG_DFL);
        libc::raise(libc::SIGTERM);
    }
}
