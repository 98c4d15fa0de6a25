//! The engine that connects ranks by MPI.
//!
//! Blocking calls of MPI wait forever for a rank that has ended or hangs. So this engine starts operations that do not block,
//! and tests in a loop whether they are done. The loop also receives messages about failures (`messages.rs`), notices processes
//! that ended (`guard.rs`, `links.rs`), and stops after a timeout.
//!
//! Every call begins with a check: all ranks exchange the operation and its length. It runs at the same time as the first
//! chunks (`work.rs`), so it takes no extra time. Without it, ranks that make different calls could get wrong values.
//!
//! A rank that waits for long sends its number of calls to the others. After the timeout, the ranks with fewer calls are the
//! late ones, and also those that have sent nothing.

mod guard;
mod links;
mod messages;
mod raw;
mod shared;
mod work;

use super::Collective;
use crate::error::{Error, Result};
use guard::{Guard, Request};
use links::{Listener, Reserved};
use mpi::environment::Universe;
use mpi::Threading;
use shared::{Call, Shared};
use std::mem::{forget, take};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use work::{Barrier, Broadcast, Gather, Reduce, ReduceScatter};

/// The most bytes that a rank tells the others about itself at the start.
const ABOUT_BYTES: usize = 1024;

/// The ranks that `mpirun` started. MPI is closed when the engine is dropped.
pub struct Mpi {
    shared: Arc<Shared>,
    /// Both are dropped in this order, unless the world is broken.
    open: Mutex<Option<(Guard, Universe)>>,
}

/// A rank as the others see it.
struct About {
    process: u32,
    /// A text that equals that of another rank if the number of its process has the same meaning.
    machine: String,
    host: String,
    /// How other machines connect to rank 0.
    invitation: String,
}

impl About {
    fn this(invitation: String) -> About {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let boot = read("/proc/sys/kernel/random/boot_id").trim().to_string();
        let space = std::fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let host = mpi::environment::processor_name().unwrap_or_default();
        let machine = format!("{boot} {}", space.display());
        About { process: std::process::id(), machine, host, invitation }
    }

    fn bytes(&self) -> Vec<u8> {
        let About { process, machine, host, invitation } = self;
        let mut bytes = format!("{process}\n{machine}\n{host}\n{invitation}\n").into_bytes();
        bytes.resize(ABOUT_BYTES, 0);
        bytes
    }

    fn parse(bytes: &[u8]) -> About {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.lines().map(String::from);
        let process = lines.next().and_then(|line| line.parse().ok()).unwrap_or(0);
        let mut next = || lines.next().unwrap_or_default();
        About { process, machine: next(), host: next(), invitation: next() }
    }
}

/// Returns an error of the start.
fn start(error: impl std::fmt::Display) -> Error {
    Error::state(format!("world: MPI must start, got: {error}"))
}

/// Returns handles of the other ranks on this machine.
fn near_processes(all: &[About], rank: usize) -> Vec<(usize, Arc<OwnedFd>)> {
    let machine = &all[rank].machine;
    let is_near = |other: &usize| *other != rank && all[*other].machine == *machine;
    let near = (0..all.len()).filter(is_near).filter(|_| !machine.trim().is_empty());
    let open = |rank: usize| guard::open_process(all[rank].process).map(Arc::new);
    near.filter_map(|near| Some((near, open(near)?))).collect()
}

impl Mpi {
    /// Opens MPI. It blocks until every rank has called it, which it does at most once.
    ///
    /// # Errors
    /// `InvalidState` if MPI cannot be opened, or a rank does not answer within the timeout.
    pub fn open(timeout: Duration) -> Result<Mpi> {
        let mut reserved = Reserved::new();
        let opened = mpi::initialize_with_threading(Threading::Serialized);
        let (universe, threading) = opened.ok_or_else(|| start("MPI was opened before"))?;
        if threading < Threading::Serialized {
            return Err(start("the MPI library allows calls only from one thread"));
        }
        let world = raw::Comm::new().map_err(start)?;
        let rank = world.rank;
        let listener = if rank == 0 { Listener::open().ok() } else { None };
        let invitation = listener.as_ref().map(Listener::invitation).unwrap_or_default();
        let this = About::this(invitation).bytes();
        let all = world.gather_now(&this).map_err(start)?;
        let all: Vec<About> = all.chunks(ABOUT_BYTES).map(About::parse).collect();
        let name = |(rank, about): (usize, &About)| format!("rank {rank} (host {})", about.host);
        let names = all.iter().enumerate().map(name).collect();
        let near = near_processes(&all, rank);
        let is_far = all[rank].machine != all[0].machine;
        let link = is_far.then(|| links::connect(&all[0].invitation, rank)).flatten();
        let shared = Arc::new(Shared::new(world, names, timeout).map_err(start)?);
        shared.connect()?;
        // All ranks have tried to connect.
        let accepted = listener.as_ref().map(Listener::accept).unwrap_or_default();
        let links = link.map(|link| (0, link)).into_iter().chain(accepted);
        let links = links.map(|(rank, link)| (rank, Arc::new(reserved.take(link)))).collect();
        let asked = shared.clone();
        let answer = move |request: Request| match request {
            Request::StopMpi => asked.stop_mpi(),
            Request::PrintFailure => asked.print_failure(),
        };
        let guard = Guard::start(near, links, answer).map_err(start)?;
        shared.set_events(guard.events.clone());
        Ok(Mpi { shared, open: Mutex::new(Some((guard, universe))) })
    }
}

impl Collective for Mpi {
    fn name(&self) -> &'static str {
        "mpi"
    }

    fn rank(&self) -> usize {
        self.shared.rank
    }

    fn size(&self) -> usize {
        self.shared.names.len()
    }

    fn all_reduce(&self, values: &mut [f32]) -> Result<()> {
        let call = Call { kind: shared::ALL_REDUCE, len: values.len(), root: 0 };
        self.shared.call(call, &mut Reduce(values))
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        let call = Call { kind: shared::BROADCAST, len: bytes.len(), root };
        self.shared.call(call, &mut Broadcast { root, bytes })
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        let call = Call { kind: shared::ALL_GATHER, len: own.len(), root: 0 };
        check_len("all_gather", all.len(), own.len() * self.size())?;
        self.shared.call(call, &mut Gather { own, all })
    }

    fn reduce_scatter(&self, values: &[f32], own: &mut [f32]) -> Result<()> {
        let call = Call { kind: shared::REDUCE_SCATTER, len: values.len(), root: 0 };
        check_len("reduce_scatter", values.len(), own.len() * self.size())?;
        self.shared.call(call, &mut ReduceScatter { values, own })
    }

    fn barrier(&self) -> Result<()> {
        self.shared.call(Call { kind: shared::BARRIER, len: 0, root: 0 }, &mut Barrier)
    }

    fn fail(&self, reason: &str) {
        self.shared.fail(reason);
    }
}

fn check_len(op: &str, got: usize, want: usize) -> Result<()> {
    if got == want {
        return Ok(());
    }
    Err(Error::argument(format!("{op}: all ranks together must have {want} values, got {got}")))
}

impl Drop for Mpi {
    fn drop(&mut self) {
        let open = take(self.open.get_mut().unwrap_or_else(PoisonError::into_inner));
        let Some((guard, universe)) = open else { return };
        if self.shared.leave() {
            drop(guard);
            drop(universe);
        } else {
            // Closing MPI would wait for ranks that have ended, and MPI may still access the memory of operations. The guard
            // delays SIGTERM while the program prints the error.
            forget((guard, universe, self.shared.clone()));
        }
    }
}
