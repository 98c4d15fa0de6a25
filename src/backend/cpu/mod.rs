//! The CPU backend. It runs the same kernels as a GPU, with an interpreter for blocks of values and the `gemm` crate, on all
//! cores natively. Users get this backend if no GPU is available.

mod exec;
mod lower;
mod math;
mod prepared;
mod routines;

use crate::backend::{
    Backend, BufferId, CacheLimits, Clock, Counters, DeviceKind, Info, ReadRange,
};
use crate::backend::{Pending, RunTimes, RunsTimes};
use crate::error::{Error, Result};
use crate::kernel::{Dispatch, Kernel, KernelConfig, Limits, Plan, SlotStorage};
use crate::lru::Lru;
use crate::span::span;
use exec::inputs::Inputs;
use exec::memory;
use exec::parallel::Pool;
use prepared::{Key, Prepared};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use web_time::Instant;

/// The CPU backend. Work is complete when it is submitted, so reading and waiting are ready at once.
pub struct CpuBackend {
    info: Info,
    limits: Limits,
    pool: Pool,
    state: Mutex<State>,
}

/// The kernels of a batch, in order.
type Ready = Arc<[Arc<Prepared>]>;

/// The state of the backend.
#[derive(Default)]
struct State {
    buffers: HashMap<BufferId, Vec<u32>>,
    /// The buffers that a batch wrote in place before it failed. Their values are lost.
    lost: HashMap<BufferId, Error>,
    next: u64,
    /// The prepared kernels, without duplicates.
    kernels: Lru<Key, Arc<Prepared>>,
    /// The prepared batches by address. The weak reference prevents reuse of the address.
    batches: Lru<usize, (Weak<Plan>, Ready)>,
    limits: CacheLimits,
    counters: Counters,
    /// The times of kernels, during a profile.
    profile: Option<Profile>,
}

/// The times of kernels.
struct Profile {
    since: Instant,
    runs: Vec<RunTimes>,
    /// The number of kernels in the runs. At most [`Profile::MOST`] are timed until the times are read.
    kernels: usize,
}

impl Profile {
    const MOST: usize = 1 << 20;

    fn push(&mut self, mut times: RunTimes) {
        if self.kernels + times.kernels.len() > Profile::MOST {
            times.kernels = Vec::new();
        }
        self.kernels += times.kernels.len();
        self.runs.push(times);
    }
}

impl Default for CpuBackend {
    fn default() -> CpuBackend {
        CpuBackend::new()
    }
}

impl CpuBackend {
    /// Creates a backend with all cores. `RAYON_NUM_THREADS` limits them.
    pub fn new() -> CpuBackend {
        CpuBackend::on(Pool::shared())
    }

    /// Creates a backend with this many threads. A browser always has one. Results do not depend on the number.
    pub fn with_threads(threads: usize) -> CpuBackend {
        CpuBackend::on(Pool::with_threads(threads))
    }

    /// Returns the bytes of the machine's memory, if the system reports them.
    pub fn memory(&self) -> Option<u64> {
        crate::alloc::total_bytes()
    }

    fn on(pool: Pool) -> CpuBackend {
        let (model, vendor) = processor();
        let info = Info {
            backend: "cpu",
            name: format!("{model}, threads: {}", pool.threads()),
            vendor,
            kind: DeviceKind::Cpu,
            driver: String::new(),
        };
        let limits = Limits {
            buffers_per_kernel: 64,
            binding_bytes: 1 << 33,
            workgroups: u32::MAX,
            workgroup_size: 1024,
            workgroup_bytes: 1 << 20,
            f16: true,
            subgroups: false,
            cooperative: false,
            sorts: true,
            // Without language models, pages would download these kernels but not use them.
            packed: cfg!(any(not(target_arch = "wasm32"), feature = "model")),
            int8: cfg!(not(target_arch = "wasm32")),
            timestamps: false,
            // Routines are not split.
            config: KernelConfig {
                split_k_matmul: false,
                split_k_conv: false,
                ..KernelConfig::GPU
            },
        };
        CpuBackend { info, limits, pool, state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // After a panic elsewhere, at most a buffer is missing, which is a separate error.
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl Backend for CpuBackend {
    fn info(&self) -> &Info {
        &self.info
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        let words = usize::try_from(bytes.div_ceil(4).max(1)).unwrap_or(usize::MAX);
        let buffer = memory::zeroed(words)?;
        let mut state = self.state();
        let id = BufferId(state.next);
        state.next += 1;
        state.counters.buffers += 1;
        state.counters.bytes += words as u64 * 4;
        state.buffers.insert(id, buffer);
        Ok(id)
    }

    fn free(&self, buffer: BufferId) {
        let mut state = self.state();
        state.lost.remove(&buffer);
        if let Some(words) = state.buffers.remove(&buffer) {
            state.counters.bytes -= words.len() as u64 * 4;
        }
    }

    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        let mut state = self.state();
        state.lost.remove(&buffer);
        let words = state.buffers.get_mut(&buffer).ok_or_else(|| unknown("write", buffer))?;
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(words);
        let (len, place) = (bytes.len(), range(offset, data.len() as u64));
        let place = place.and_then(|place| bytes.get_mut(place));
        let place = place.ok_or_else(|| outside("write", offset, data.len() as u64, len))?;
        place.copy_from_slice(data);
        Ok(())
    }

    fn compile(&self, batch: &Arc<Plan>) -> Pending<Result<()>> {
        Box::pin(std::future::ready(self.state().prepare(batch).map(drop)))
    }

    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        let mut state = self.state();
        let state = &mut *state;
        state.check(batch, buffers, scalars)?;
        let prepared = state.prepare(batch)?;
        state.counters.submits += 1;
        let since = state.profile.as_ref().map(|profile| profile.since);
        let now = || since.map(|since| since.elapsed().as_nanos() as u64);
        let mut times = RunTimes::default();
        self.pool.enter(batch.dispatches.len(), || {
            for (n, (dispatch, prepared)) in batch.dispatches.iter().zip(&*prepared).enumerate() {
                let begun = now();
                let done = state.dispatch(dispatch, prepared, buffers, scalars);
                done.inspect_err(|error| state.lose(batch, n, buffers, error))?;
                if let Some(begun) = begun {
                    times.kernels.push(now().map(|end| (begun, end)));
                }
                state.counters.dispatches += 1;
            }
            Ok(())
        })?;
        state.profile.iter_mut().for_each(|profile| profile.push(std::mem::take(&mut times)));
        Ok(())
    }

    fn read_parts(&self, parts: Vec<ReadRange>) -> Pending<Result<()>> {
        let read = || {
            let state = self.state();
            let mut places = Vec::with_capacity(parts.len());
            for ReadRange { buffer, offset, len, take } in parts {
                let words = state.buffers.get(&buffer).ok_or_else(|| unknown("read", buffer))?;
                state.there(buffer)?;
                let bytes: &[u8] = bytemuck::cast_slice(words);
                let part = range(offset, len).and_then(|place| bytes.get(place));
                places.push((part.ok_or_else(|| outside("read", offset, len, bytes.len()))?, take));
            }
            places.into_iter().try_for_each(|(bytes, take)| take(bytes))
        };
        Box::pin(std::future::ready(read()))
    }

    fn synchronize(&self) -> Pending<Result<()>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn release(&self, batch: &Arc<Plan>) {
        self.state().batches.remove(&address(batch));
    }

    fn set_cache_limits(&self, limits: &CacheLimits) {
        let mut state = self.state();
        state.limits = *limits;
        state.shrink();
    }

    fn counters(&self) -> Counters {
        let state = self.state();
        Counters {
            pipelines_held: state.kernels.len() as u64,
            pipelines_evicted: state.kernels.evicted(),
            ..state.counters
        }
    }

    fn profile(&self, since: Option<Instant>) -> Clock {
        self.state().profile = since.map(|since| Profile { since, runs: Vec::new(), kernels: 0 });
        since.map_or(Clock::None, |_| Clock::Host)
    }

    fn take_times(&self) -> Pending<Result<RunsTimes>> {
        let mut state = self.state();
        let runs = state.profile.as_mut().map(|profile| {
            profile.kernels = 0;
            std::mem::take(&mut profile.runs)
        });
        // Browsers round the host's clock to 100 us, or to 5 us in isolated pages.
        let resolution = if cfg!(target_arch = "wasm32") { 100_000.0 } else { 1.0 };
        Box::pin(std::future::ready(Ok(RunsTimes { runs: runs.unwrap_or_default(), resolution })))
    }

    fn source(&self, _: &Kernel, _: KernelConfig) -> Option<String> {
        None
    }
}

impl State {
    fn check(&mut self, batch: &Plan, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        if buffers.len() != batch.slots.len() || scalars.len() < batch.scalars {
            return Err(Error::argument(format!(
                "run: there must be {} buffers and {} numbers, got {} and {}",
                batch.slots.len(),
                batch.scalars,
                buffers.len(),
                scalars.len()
            )));
        }
        for (number, (slot, &id)) in batch.slots.iter().zip(buffers).enumerate() {
            let words = self.buffers.get(&id).ok_or_else(|| unknown("run", id))?;
            let bytes = words.len() as u64 * 4;
            if bytes < slot.bytes {
                return Err(Error::argument(format!(
                    "run: the buffer of slot {number} must have {} bytes, got {bytes}",
                    slot.bytes
                )));
            }
            match slot.storage {
                SlotStorage::Input(_) => self.there(id)?,
                _ => drop(self.lost.remove(&id)),
            }
        }
        Ok(())
    }

    /// Checks that the value of a buffer was not lost.
    fn there(&self, buffer: BufferId) -> Result<()> {
        self.lost.get(&buffer).map_or(Ok(()), |error| Err(error.clone()))
    }

    /// Marks buffers as lost, because the n-th kernel of a batch failed and kernels so far may have overwritten their inputs.
    fn lose(&mut self, batch: &Plan, n: usize, buffers: &[BufferId], error: &Error) {
        for &slot in batch.dispatches[..=n].iter().flat_map(|dispatch| &dispatch.outputs) {
            if let (SlotStorage::Input(_), Some(&id)) =
                (batch.slots[slot].storage, buffers.get(slot))
            {
                self.lost.insert(id, error.clone());
            }
        }
    }

    fn prepare(&mut self, batch: &Arc<Plan>) -> Result<Ready> {
        let address = address(batch);
        if let Some((_, prepared)) = self.batches.get(&address) {
            return Ok(prepared.clone());
        }
        let mut prepared = Vec::with_capacity(batch.dispatches.len());
        for dispatch in &batch.dispatches {
            let key = Key::new(dispatch);
            let known = self.kernels.get(&key).map(|known| known.clone());
            prepared.push(match known {
                Some(known) => known,
                None => {
                    span!("compile", kernel = dispatch.label.as_str());
                    let made = Arc::new(Prepared::new(dispatch)?);
                    self.counters.pipelines += 1;
                    self.kernels.insert(key, made.clone(), 0);
                    made
                }
            });
        }
        let prepared: Ready = prepared.into();
        self.batches.retain(|(batch, _)| batch.strong_count() > 0);
        self.batches.insert(address, (Arc::downgrade(batch), prepared.clone()), 0);
        self.shrink();
        Ok(prepared)
    }

    /// Evicts entries that exceed the limits.
    fn shrink(&mut self) {
        self.kernels.shrink(self.limits.pipelines, &mut self.batches);
    }

    fn dispatch(
        &mut self,
        dispatch: &Dispatch,
        prepared: &Prepared,
        buffers: &[BufferId],
        scalars: &[u32],
    ) -> Result<()> {
        let label = &dispatch.label;
        let nowhere = || {
            Error::state(format!("run: {label} must use existing slots and numbers, got another"))
        };
        let id = |slot: &usize| buffers.get(*slot).copied().ok_or_else(nowhere);
        let outputs = dispatch.outputs.iter().map(id).collect::<Result<Vec<BufferId>>>()?;
        let params = dispatch.params.iter().map(|&p| scalars.get(p).copied().ok_or_else(nowhere));
        let params = params.collect::<Result<Vec<u32>>>()?;
        // A kernel's outputs are taken out of the map, so that a slot that is also read is reported as missing.
        let mut taken: Vec<(BufferId, Vec<u32>)> = Vec::with_capacity(outputs.len());
        for &id in &outputs {
            taken.extend(self.buffers.remove(&id).map(|words| (id, words)));
        }
        let run = || {
            if taken.len() < outputs.len() {
                return Err(shared(label));
            }
            let find = |slot: &usize| {
                let words = self.buffers.get(&id(slot)?).ok_or_else(|| shared(label))?;
                Ok(&words[..])
            };
            let inputs = dispatch.inputs.iter().map(find).collect::<Result<Vec<&[u32]>>>()?;
            let inputs = Inputs { buffers: inputs, params };
            let mut outputs: Vec<&mut [u32]> = taken.iter_mut().map(|t| &mut t.1[..]).collect();
            prepared.run(&inputs, &mut outputs)
        };
        let result = run();
        self.buffers.extend(taken);
        result
    }
}

fn address(batch: &Arc<Plan>) -> usize {
    Arc::as_ptr(batch) as usize
}

fn range(offset: u64, len: u64) -> Option<std::ops::Range<usize>> {
    let end = usize::try_from(offset.checked_add(len)?).ok()?;
    Some(usize::try_from(offset).ok()?..end)
}

fn unknown(op: &str, buffer: BufferId) -> Error {
    Error::state(format!("{op}: the buffer must exist, got {}", buffer.0))
}

fn outside(op: &str, offset: u64, len: u64, have: usize) -> Error {
    Error::argument(format!(
        "{op}: the range must be inside the buffer of {have} bytes, got {len} at {offset}"
    ))
}

fn shared(label: &str) -> Error {
    Error::argument(format!("run: {label} must not write a buffer that it uses otherwise, got one"))
}

/// Returns the name and the vendor of the processor, if the system reports them.
fn processor() -> (String, String) {
    let text = match cfg!(target_os = "linux") {
        true => std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default(),
        false => String::new(),
    };
    let field = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name))?;
        Some(line.split_once(':')?.1.trim().to_string())
    };
    let name = field("model name").unwrap_or_else(|| std::env::consts::ARCH.to_string());
    (name, field("vendor_id").unwrap_or_default())
}
