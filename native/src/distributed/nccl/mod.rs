//! NCCL, NVIDIA's library for collectives between its GPUs. Tests run the engine on mocks of NCCL and of the driver
//! (`tests/mock-nccl`); nothing has run on a real GPU.
//!
//! Values pass from host memory through a buffer of the rank's GPU, in pieces of at most [`PIECE_BYTES`]. A piece is copied to
//! the GPU, NCCL replaces it in place, and it is copied back. NCCL's part has no bound in time, because it waits for the other
//! ranks. The engine therefore polls it. Meanwhile it checks NCCL's errors, a timeout, and the other ranks ([`watch`]). After
//! an error, it aborts the communicator.

mod api;
mod communicator;
mod gpu;
mod watch;

use crate::distributed::{Collective, World};
use crate::error::{Error, Result};
use api::Api;
use communicator::{Communicator, ID_BYTES};
use cudarc::nccl::sys::{cudaStream_t, ncclComm_t, ncclDataType_t, ncclRedOp_t};
use gpu::Gpu;
use pollster::block_on;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};
use watch::Watch;

/// The most bytes of device memory that a rank uses.
const PIECE_BYTES: usize = 32 << 20;
/// The bytes to which the parts of a piece are aligned.
const ALIGNMENT: usize = 16;
/// The time for which a rank waits for the others.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The time for which a poll does not sleep, because most calls are short.
const SPIN: Duration = Duration::from_micros(200);
/// The longest sleep of a poll.
const MAX_SLEEP: Duration = Duration::from_millis(1);

/// Connects the GPUs of a world's ranks through NCCL, and returns the world of this engine. `ordinal` is the number of this
/// rank's GPU in the numbering of NVIDIA's driver. Every rank has a different GPU.
///
/// All ranks call it at the same time. `world` carries NCCL's id, and then watches over the ranks. Make no other calls of it
/// until the new world is dropped, which waits until all ranks drop theirs. A rank that waits for others for more than 10
/// minutes returns an error.
///
/// NCCL 2.18 or later is loaded at run time. It sums the same values to the same bits only if it chooses the same algorithm,
/// which the environment variable `NCCL_ALGO` sets, for example to `Ring`. A world of one rank needs no NCCL.
///
/// # Errors
/// `Unsupported` if NCCL or NVIDIA's driver is missing or too old. `NoDevice` if the GPU does not exist. `InvalidState` or
/// `Memory` if a call fails, and `InvalidState` if another rank fails.
pub fn nccl(world: &World, ordinal: usize) -> Result<World> {
    nccl_with_timeout(world, ordinal, TIMEOUT)
}

/// Connects GPUs as [`nccl`] does. A rank that waits for others for longer than `timeout` returns an error.
///
/// # Errors
/// As [`nccl`].
pub fn nccl_with_timeout(world: &World, ordinal: usize, timeout: Duration) -> Result<World> {
    if world.size() == 1 {
        return Ok(World::single());
    }
    let world = world.clone();
    World::new(move || Ok(Arc::new(Nccl::open(world, ordinal, timeout)?)))
}

/// The engine of a rank.
struct Nccl {
    rank: usize,
    size: usize,
    timeout: Duration,
    watch: Watch,
    /// The reason that this rank announced.
    announced: OnceLock<String>,
    link: Mutex<Link>,
}

/// The connection of a rank to the others.
struct Link {
    api: &'static Api,
    gpu: Gpu,
    /// `None` after an error.
    communicator: Option<Communicator>,
    /// The first error.
    broken: Option<Error>,
}

/// A call of an engine: its name, its number, and the connection.
struct Call<'a> {
    name: &'static str,
    number: u64,
    engine: &'a Nccl,
    link: &'a mut Link,
}

impl Nccl {
    /// Connects the ranks of a world.
    fn open(world: World, ordinal: usize, timeout: Duration) -> Result<Nccl> {
        let (rank, size) = (world.rank(), world.size());
        let who = format!("rank {rank} of {size}");
        let prepare = || {
            let api = Api::get()?;
            let gpu = Gpu::open(&api.cuda, ordinal, who.clone())?;
            let id = match rank {
                0 => communicator::new_id(api, &who)?,
                _ => vec![0; ID_BYTES],
            };
            Ok((api, gpu, id))
        };
        // All ranks learn which ranks are not prepared, because NCCL would wait for those.
        let prepared: Result<_> = prepare();
        let text = prepared.as_ref().err().map(|error| error.message().as_bytes().to_vec());
        let texts = block_on(world.all_gather(text.unwrap_or_default()))?;
        let (api, gpu, id) = prepared?;
        if let Some(other) = texts.iter().position(|text| !text.is_empty()) {
            let text = String::from_utf8_lossy(&texts[other]);
            return Err(Error::state(format!("nccl: rank {other} must be prepared, got: {text}")));
        }
        let id = block_on(world.broadcast(0, id))?;
        let id = id.first_chunk().ok_or_else(|| Error::state("nccl: an id must have 128 bytes"))?;
        let watch = Watch::start(world)?;
        let link = Mutex::new(Link { api, gpu, communicator: None, broken: None });
        let nccl = Nccl { rank, size, timeout, watch, announced: OnceLock::new(), link };
        nccl.call("ncclCommInitRankConfig", |call| {
            let started = Communicator::start(api, &call.link.gpu, id, [rank, size], who)?;
            call.link.communicator = Some(started);
            call.wait(|link| link.communicator()?.is_ready("ncclCommInitRankConfig"))
        })?;
        Ok(nccl)
    }

    /// Makes a call that all ranks make.
    fn call(
        &self,
        name: &'static str,
        work: impl FnOnce(&mut Call<'_>) -> Result<()>,
    ) -> Result<()> {
        self.run(name, self.watch.count(), work)
    }

    /// Makes a call of a number. After an error, aborts the communicator, and announces the error to the other ranks.
    fn run(
        &self,
        name: &'static str,
        number: u64,
        work: impl FnOnce(&mut Call<'_>) -> Result<()>,
    ) -> Result<()> {
        let mut link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(error) = &link.broken {
            return Err(error.clone());
        }
        let mut call = Call { name, number, engine: self, link: &mut link };
        let result = self.check(number).and_then(|()| work(&mut call));
        if let Err(error) = &result {
            link.broken = Some(error.clone());
            link.abort();
            if self.announced.set(error.message().to_string()).is_ok() {
                self.watch.fail(error.message());
            }
        }
        result
    }

    /// Checks that no rank failed.
    fn check(&self, call: u64) -> Result<()> {
        match self.announced.get() {
            None => self.watch.check(call),
            Some(reason) => {
                let must = format!("nccl: rank {} of {} must not fail", self.rank, self.size);
                Err(Error::state(format!("{must}, got: {reason}")))
            }
        }
    }

    /// Returns the most values for each rank in a piece that has a part for each rank.
    fn part(&self, bytes_of_value: usize) -> usize {
        let bytes = PIECE_BYTES / self.size / ALIGNMENT * ALIGNMENT;
        bytes.max(ALIGNMENT) / bytes_of_value
    }
}

impl Link {
    fn communicator(&self) -> Result<&Communicator> {
        let ended = || Error::state("nccl: the communicator must exist, got one that was aborted");
        self.communicator.as_ref().ok_or_else(ended)
    }

    fn abort(&mut self) {
        if let Some(mut communicator) = self.communicator.take() {
            communicator.abort(&self.gpu);
        }
    }
}

impl Call<'_> {
    /// Polls until work is done.
    fn wait(&self, is_done: impl Fn(&Link) -> Result<bool>) -> Result<()> {
        let start = Instant::now();
        while !is_done(self.link)? {
            self.engine.check(self.number)?;
            let (waited, timeout) = (start.elapsed(), self.engine.timeout);
            if waited > timeout {
                let must = format!("nccl: {} must be done after {timeout:?}", self.name);
                let got = self.engine.watch.missing(self.number);
                return Err(Error::state(format!("{must}, got {got}")));
            }
            match waited < SPIN {
                true => thread::yield_now(),
                false => thread::sleep((waited / 8).min(MAX_SLEEP)),
            }
        }
        Ok(())
    }

    /// Calls a collective of NCCL, and waits for its work on the stream.
    fn collective(
        &self,
        name: &str,
        start: impl FnOnce(&api::Nccl, ncclComm_t, cudaStream_t) -> u32,
    ) -> Result<()> {
        let Link { api, gpu, .. } = &*self.link;
        let communicator = self.link.communicator()?;
        let (handle, stream) = (communicator.handle(), gpu.stream().cast());
        let code = gpu.within(|| start(&api.nccl, handle, stream))?;
        communicator.outcome(name, code)?;
        // The work is on the stream only after the communicator is ready.
        self.wait(|link| Ok(link.communicator()?.is_ready(name)? && link.gpu.is_idle()?))
    }

    /// Sums the values over all ranks.
    fn all_reduce(&mut self, values: &mut [f32]) -> Result<()> {
        for piece in values.chunks_mut(PIECE_BYTES / size_of::<f32>()) {
            let buffer = self.link.gpu.buffer(size_of_val(piece))?;
            self.link.gpu.upload(0, piece)?;
            self.collective("ncclAllReduce", |nccl, communicator, stream| {
                let (at, count, float) = (pointer(buffer), piece.len(), ncclDataType_t::ncclFloat);
                let sum = ncclRedOp_t::ncclSum;
                // SAFETY: the buffer has the values, and stays until the stream is idle.
                unsafe { (nccl.ncclAllReduce)(at, at, count, float, sum, communicator, stream) }
            })?;
            self.link.gpu.download(0, piece)?;
        }
        Ok(())
    }

    fn broadcast(&mut self, root: usize, bytes: &mut [u8]) -> Result<()> {
        for piece in bytes.chunks_mut(PIECE_BYTES) {
            let buffer = self.link.gpu.buffer(piece.len())?;
            let is_root = self.engine.rank == root;
            if is_root {
                self.link.gpu.upload(0, piece)?;
            }
            self.collective("ncclBroadcast", |nccl, communicator, stream| {
                let (at, count, byte) = (pointer(buffer), piece.len(), ncclDataType_t::ncclUint8);
                let root = root as i32;
                // SAFETY: as in `all_reduce`.
                unsafe { (nccl.ncclBroadcast)(at, at, count, byte, root, communicator, stream) }
            })?;
            if !is_root {
                self.link.gpu.download(0, piece)?;
            }
        }
        Ok(())
    }

    fn all_gather(&mut self, own: &[u8], all: &mut [u8]) -> Result<()> {
        let (rank, part) = (self.engine.rank, self.engine.part(1));
        for start in (0..own.len()).step_by(part) {
            let count = part.min(own.len() - start);
            let buffer = self.link.gpu.buffer(count * self.engine.size)?;
            // NCCL works in place if each rank's part is at its place among the parts.
            self.link.gpu.upload(rank * count, &own[start..start + count])?;
            self.collective("ncclAllGather", |nccl, communicator, stream| {
                let (from, to) = (pointer(buffer + (rank * count) as u64), pointer(buffer));
                let byte = ncclDataType_t::ncclUint8;
                // SAFETY: the buffer has a part for each rank, and stays until the stream is idle.
                unsafe { (nccl.ncclAllGather)(from, to, count, byte, communicator, stream) }
            })?;
            for (rank, all) in all.chunks_mut(own.len()).enumerate() {
                self.link.gpu.download(rank * count, &mut all[start..start + count])?;
            }
        }
        Ok(())
    }

    fn reduce_scatter(&mut self, values: &[f32], own: &mut [f32]) -> Result<()> {
        let (rank, part) = (self.engine.rank, self.engine.part(size_of::<f32>()));
        let len = own.len();
        for start in (0..len).step_by(part) {
            let count = part.min(len - start);
            let bytes = count * size_of::<f32>();
            let buffer = self.link.gpu.buffer(bytes * self.engine.size)?;
            for (rank, values) in values.chunks(len).enumerate() {
                self.link.gpu.upload(rank * bytes, &values[start..start + count])?;
            }
            self.collective("ncclReduceScatter", |nccl, communicator, stream| {
                let (from, to) = (pointer(buffer), pointer(buffer + (rank * bytes) as u64));
                let (float, sum) = (ncclDataType_t::ncclFloat, ncclRedOp_t::ncclSum);
                // SAFETY: as in `all_gather`.
                unsafe {
                    (nccl.ncclReduceScatter)(from, to, count, float, sum, communicator, stream)
                }
            })?;
            self.link.gpu.download(rank * bytes, &mut own[start..start + count])?;
        }
        Ok(())
    }
}

fn pointer(address: u64) -> *mut c_void {
    address as *mut c_void
}

impl Collective for Nccl {
    fn name(&self) -> &'static str {
        "nccl"
    }

    fn rank(&self) -> usize {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn all_reduce(&self, values: &mut [f32]) -> Result<()> {
        self.call("all_reduce", |call| call.all_reduce(values))
    }

    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()> {
        self.call("broadcast", |call| call.broadcast(root, bytes))
    }

    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<()> {
        self.call("all_gather", |call| call.all_gather(own, all))
    }

    fn reduce_scatter(&self, values: &[f32], own: &mut [f32]) -> Result<()> {
        self.call("reduce_scatter", |call| call.reduce_scatter(values, own))
    }

    fn barrier(&self) -> Result<()> {
        self.call("barrier", |call| call.all_reduce(&mut [0.0]))
    }

    fn fail(&self, reason: &str) {
        // The thread of the calls notices the reason, and aborts the communicator.
        if self.announced.set(reason.to_string()).is_ok() {
            self.watch.fail(reason);
        }
    }
}

impl Drop for Nccl {
    fn drop(&mut self) {
        // NCCL's ranks must end at the same time. If one has failed, the call aborts the communicator.
        let closed = self.watch.close(self.timeout);
        let finalize = "ncclCommFinalize";
        self.run(finalize, 0, |call| {
            closed?;
            call.link.communicator()?.finalize(&call.link.gpu)?;
            call.wait(|link| link.communicator()?.is_ready(finalize))?;
            if let Some(mut communicator) = call.link.communicator.take() {
                communicator.destroy(&call.link.gpu);
            }
            Ok(())
        })
        .ok();
    }
}
