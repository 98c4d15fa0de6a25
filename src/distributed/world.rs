//! `World`: a handle to the ranks, whose calls do not block.

use super::once;
use super::Collective;
use crate::backend::Pending;
use crate::error::{Error, ErrorKind, Result};
use rustc_hash::FxHasher;
use std::future::ready;
use std::hash::{Hash, Hasher};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{channel, Sender};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::thread;

/// A group of ranks, processes that train one model together. Clones are handles to the same group.
///
/// Its calls return at once. They run one after the other on a separate thread, so a reduction runs while the device computes.
/// Every rank must make the same calls in the same order.
///
/// ```
/// # pollster::block_on(async {
/// use warpweft::distributed::World;
///
/// // One rank needs no engine, and its calls return their arguments.
/// let world = World::single();
/// assert_eq!((world.rank(), world.size()), (0, 1));
/// assert_eq!(world.all_reduce(vec![1.0, 2.0]).await?, [1.0, 2.0]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct World {
    ranks: Option<Arc<Ranks>>,
}

/// A call, which runs on the thread of the engine.
type Call = Box<dyn FnOnce(&dyn Collective) + Send>;

/// The ranks of a world with more than one.
struct Ranks {
    name: &'static str,
    rank: usize,
    size: usize,
    /// The thread owns the engine, because MPI must be closed where it was opened.
    engine: Weak<dyn Collective>,
    calls: Mutex<Option<Sender<Call>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    /// The first error. All later calls return it.
    broken: Arc<OnceLock<Error>>,
    /// Whether the batch of this rank does not count now.
    is_idle: AtomicBool,
}

impl World {
    /// Creates a world of one rank. Training with it is the same as without a world.
    pub fn single() -> World {
        World { ranks: None }
    }

    /// Starts a thread for the calls of an engine, opens the engine on it, and returns the world. The engine is also closed on
    /// this thread, when the last handle is dropped. A world of one rank needs no thread.
    ///
    /// # Errors
    /// The errors of `open`. `InvalidState` if no thread can be started.
    pub fn new(
        open: impl FnOnce() -> Result<Arc<dyn Collective>> + Send + 'static,
    ) -> Result<World> {
        let (calls, received) = channel::<Call>();
        let (opened, engine) = channel::<Result<(Weak<dyn Collective>, _)>>();
        let run = move || {
            let engine = match open() {
                Ok(engine) => engine,
                Err(error) => return opened.send(Err(error)).unwrap_or_default(),
            };
            let about = (engine.name(), engine.rank(), engine.size());
            opened.send(Ok((Arc::downgrade(&engine), about))).ok();
            for call in received {
                call(&*engine);
            }
        };
        let started = thread::Builder::new().name("warpweft-world".into()).spawn(run);
        let thread = started.map_err(|error| {
            Error::state(format!("world: a thread must start, got the error {error}"))
        })?;
        let ended = || Error::state("world: the engine must open, got a panic");
        let (engine, (name, rank, size)) = engine.recv().map_err(|_| ended())??;
        if size == 1 {
            return Ok(World::single());
        }
        let (calls, thread) = (Mutex::new(Some(calls)), Mutex::new(Some(thread)));
        let broken = Arc::default();
        Ok(World {
            ranks: Some(Arc::new(Ranks {
                name,
                rank,
                size,
                engine,
                calls,
                thread,
                broken,
                is_idle: AtomicBool::new(false),
            })),
        })
    }

    /// Returns the name of the engine, or `single` for one rank.
    pub fn engine(&self) -> &'static str {
        self.ranks.as_ref().map_or("single", |ranks| ranks.name)
    }

    /// Returns the number of this process among the ranks, from 0.
    pub fn rank(&self) -> usize {
        self.ranks.as_ref().map_or(0, |ranks| ranks.rank)
    }

    /// Returns the number of ranks.
    pub fn size(&self) -> usize {
        self.ranks.as_ref().map_or(1, |ranks| ranks.size)
    }

    /// Returns the sums over all ranks. Every rank gets the same bits.
    ///
    /// # Errors
    /// `InvalidState` if a rank failed or did not answer.
    pub fn all_reduce(&self, mut values: Vec<f32>) -> Pending<Result<Vec<f32>>> {
        let Some(ranks) = &self.ranks else { return done(values) };
        ranks.call(move |engine| engine.all_reduce(&mut values).map(|()| values))
    }

    /// Returns the bytes of the rank `root`, for which every rank passes as many bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if the rank does not exist. `InvalidState` if a rank failed or did not answer.
    pub fn broadcast(&self, root: usize, mut bytes: Vec<u8>) -> Pending<Result<Vec<u8>>> {
        let size = self.size();
        if root >= size {
            let message = format!("broadcast: the rank must be less than {size}, got {root}");
            return Box::pin(ready(Err(Error::argument(message))));
        }
        let Some(ranks) = &self.ranks else { return done(bytes) };
        ranks.call(move |engine| engine.broadcast(root, &mut bytes).map(|()| bytes))
    }

    /// Returns the bytes of each rank. The ranks may pass different numbers of bytes.
    ///
    /// # Errors
    /// `InvalidState` if a rank failed or did not answer.
    pub fn all_gather(&self, own: Vec<u8>) -> Pending<Result<Vec<Vec<u8>>>> {
        let Some(ranks) = &self.ranks else { return done(vec![own]) };
        let size = ranks.size;
        ranks.call(move |engine| gather(engine, size, own))
    }

    /// Sums the values over all ranks, and returns this rank's part. The number of values is a multiple of the number of
    /// ranks.
    ///
    /// # Errors
    /// `InvalidArgument` unless it is. `InvalidState` if a rank failed or did not answer.
    pub fn reduce_scatter(&self, values: Vec<f32>) -> Pending<Result<Vec<f32>>> {
        let (count, size) = (values.len(), self.size());
        if count % size != 0 {
            let message =
                format!("reduce_scatter: {size} ranks must divide the values, got {count}");
            return Box::pin(ready(Err(Error::argument(message))));
        }
        let Some(ranks) = &self.ranks else { return done(values) };
        ranks.call(move |engine| {
            let mut own = vec![0.0; count / size];
            engine.reduce_scatter(&values, &mut own).map(|()| own)
        })
    }

    /// Resolves when every rank has called it.
    ///
    /// # Errors
    /// `InvalidState` if a rank failed or did not answer.
    pub fn barrier(&self) -> Pending<Result<()>> {
        let Some(ranks) = &self.ranks else { return done(()) };
        ranks.call(|engine| engine.barrier())
    }

    /// Checks that all ranks pass the same text, which says what they are about to do. If not, the error has two ranks and
    /// their first lines that differ. All later calls of all ranks then return this error.
    pub(crate) fn agree(&self, op: &'static str, text: String) -> Pending<Result<()>> {
        let Some(ranks) = &self.ranks else { return done(()) };
        let size = ranks.size;
        ranks.call(move |engine| {
            // Equal hashes are enough in nearly every case, and are one short message.
            let mut hasher = FxHasher::default();
            text.hash(&mut hasher);
            let mut hashes = vec![0; size * 8];
            engine.all_gather(&hasher.finish().to_le_bytes(), &mut hashes)?;
            if hashes.chunks(8).all(|hash| hash == &hashes[..8]) {
                return Ok(());
            }
            let texts = gather(engine, size, text.into_bytes())?;
            let line = |rank: usize| String::from_utf8_lossy(&texts[rank]).into_owned();
            let first = line(0);
            for rank in 1..size {
                let other = line(rank);
                if let Some((a, b)) = first_difference(&first, &other) {
                    return Err(Error::state(format!(
                        "{op}: all ranks must be alike, got `{a}` on rank 0 and `{b}` on rank {rank}"
                    )));
                }
            }
            Ok(())
        })
    }

    /// Sets whether the batch of this rank does not count, because it repeats another one.
    pub(crate) fn set_idle(&self, is_idle: bool) {
        if let Some(ranks) = &self.ranks {
            ranks.is_idle.store(is_idle, Ordering::Relaxed);
        }
    }

    /// Whether the batch of this rank does not count.
    pub(crate) fn is_idle(&self) -> bool {
        self.ranks.as_ref().is_some_and(|ranks| ranks.is_idle.load(Ordering::Relaxed))
    }

    /// Announces that this rank has failed. All calls of all ranks then return an error with the rank and the reason.
    pub fn fail(&self, reason: &str) {
        if let Some(ranks) = &self.ranks {
            ranks.fail(reason);
        }
    }
}

fn done<T: Send + 'static>(value: T) -> Pending<Result<T>> {
    Box::pin(ready(Ok(value)))
}

/// Returns the first lines that differ.
fn first_difference(a: &str, b: &str) -> Option<(String, String)> {
    let (mut a, mut b) = (a.lines(), b.lines());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return None,
            (a, b) if a != b => {
                let text = |line: Option<&str>| line.unwrap_or("nothing").to_string();
                return Some((text(a), text(b)));
            }
            _ => {}
        }
    }
}

/// The second word of the first message of a gather. The message is longer than that of [`World::agree`], so engines tell the
/// two apart.
const GATHER: u64 = u64::from_le_bytes(*b"gathered");

/// Gathers bytes of different lengths: first the lengths, then as many bytes as the longest.
fn gather(engine: &dyn Collective, size: usize, mut own: Vec<u8>) -> Result<Vec<Vec<u8>>> {
    let first = [own.len() as u64, GATHER].map(u64::to_le_bytes).concat();
    let mut lengths = vec![0; size * first.len()];
    engine.all_gather(&first, &mut lengths)?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
    let words: Vec<u64> = lengths.chunks(8).map(word).collect();
    if words.iter().skip(1).step_by(2).any(|&word| word != GATHER) {
        return Err(Error::state("all_gather: all ranks must make the same calls, got others"));
    }
    let lengths: Vec<usize> = words.iter().step_by(2).map(|&length| length as usize).collect();
    let most = lengths.iter().copied().max().unwrap_or(0);
    if most == 0 {
        return Ok(vec![Vec::new(); size]);
    }
    let mut all = zeros(most.checked_mul(size))?;
    own.resize(most, 0);
    engine.all_gather(&own, &mut all)?;
    Ok(all.chunks(most).zip(lengths).map(|(bytes, length)| bytes[..length].to_vec()).collect())
}

/// Returns zeros, or an error if they do not fit into memory.
fn zeros(count: Option<usize>) -> Result<Vec<u8>> {
    let mut zeros = Vec::new();
    match count.and_then(|count| zeros.try_reserve_exact(count).ok().map(|()| count)) {
        Some(count) => zeros.resize(count, 0),
        None => {
            let message = "all_gather: the bytes of all ranks must fit into memory, got too many";
            return Err(Error::new(ErrorKind::Memory, message));
        }
    }
    Ok(zeros)
}

impl Ranks {
    /// Announces a failure, unless a rank has already failed.
    fn fail(&self, reason: &str) {
        if let (None, Some(engine)) = (self.broken.get(), self.engine.upgrade()) {
            engine.fail(reason);
        }
    }

    /// Appends a call to the queue, and returns its result.
    fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&dyn Collective) -> Result<T> + Send + 'static,
    ) -> Pending<Result<T>> {
        let ended = Error::state("world: the engine must run, got one that ended");
        let (sender, result) = once::channel(Err(ended));
        let broken = self.broken.clone();
        let call: Call = Box::new(move |engine| {
            let result = match broken.get() {
                Some(error) => Err(error.clone()),
                None => call(engine).inspect_err(|error| {
                    broken.set(error.clone()).ok();
                }),
            };
            sender.send(result);
        });
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(calls) = &*calls {
            // If the thread has ended, the call is dropped, and its result is the error above.
            calls.send(call).ok();
        }
        drop(calls);
        result
    }
}

impl Drop for Ranks {
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail("it panicked");
        }
        let calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner).take();
        drop(calls);
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            thread.join().ok();
        }
    }
}
