//! The CUDA backend. It runs the same WGSL that wgpu runs: each kernel is scheduled, printed as WGSL, translated to PTX and
//! launched on a stream. [`Stream`] has the calls of the driver, so that tests can run the backend without a GPU.

use super::{ptx, tensor_cores};
use crate::backend::{
    Backend, BufferId, Clock, Counters, Info, Pending, ReadRange, RunTimes, RunsTimes,
};
use crate::error::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;
use warpweft::codegen::{fold, Source, PARAMS_HEAD};
use warpweft::kernel::{Dispatch, Kernel, KernelConfig, Limits, Plan};

/// A CUDA stream on one device: the calls that the backend makes. Work is done in the order of the calls.
pub trait Stream: Send + Sync + 'static {
    /// A loaded kernel. It may be dropped while launches of it run.
    type Function: Send + Sync;
    /// A read that has started. It may be dropped before it is finished.
    type Download: Send + 'static;
    /// Allocates device memory, and returns its address. The contents are undefined.
    ///
    /// # Errors
    /// `Memory` if the device has too little.
    fn allocate(&self, bytes: u64) -> Result<u64>;
    /// Frees device memory after the work submitted so far.
    fn free(&self, address: u64);
    /// Copies bytes to the device. They may be changed after the call.
    ///
    /// # Errors
    /// `Memory` if there is too little for the copy; `DeviceLost` if the device does not work any more.
    fn write(&self, address: u64, data: &[u8]) -> Result<()>;
    /// Starts to copy bytes from the device, after the work submitted so far.
    ///
    /// # Errors
    /// `Memory` if there is too little for the copy; `DeviceLost` if the device does not work any more.
    fn read(&self, address: u64, len: usize) -> Result<Self::Download>;
    /// Waits for the bytes of a read.
    ///
    /// # Errors
    /// As [`Stream::read`].
    fn finish(&self, download: Self::Download) -> Result<Vec<u8>>;
    /// Compiles a kernel for the device.
    ///
    /// # Errors
    /// `InvalidState` with the log of the compiler.
    fn load(&self, kernel: &ptx::Kernel) -> Result<Self::Function>;
    /// Launches a kernel. `arguments` are its 64-bit parameters.
    ///
    /// # Errors
    /// `DeviceLost` if the device does not work any more.
    fn launch(&self, function: &Self::Function, launch: &Launch) -> Result<()>;
    /// Waits until all work is done.
    ///
    /// # Errors
    /// `DeviceLost` if the device does not work any more.
    fn synchronize(&self) -> Result<()>;
    /// Returns the bytes of memory for copies.
    fn staging_bytes(&self) -> u64 {
        0
    }
    /// Whether the stream measures times.
    fn has_timestamps(&self) -> bool {
        false
    }
    /// Records a timestamp after the work submitted so far, and returns its number, from 0. `None` if no more are recorded.
    ///
    /// # Errors
    /// `DeviceLost` if the device does not work any more.
    fn record_timestamp(&self) -> Result<Option<usize>> {
        Ok(None)
    }
    /// Waits for the timestamps since the last call, and returns them in nanoseconds from the first one.
    ///
    /// # Errors
    /// `DeviceLost` if the device does not work any more.
    fn take_timestamps(&self) -> Result<Vec<u64>> {
        Ok(Vec::new())
    }
}

/// The arguments of one launch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Launch {
    /// The number of workgroups (CUDA's blocks) along each dimension.
    pub grid: [u32; 3],
    /// The number of threads of a workgroup along each dimension.
    pub workgroup_size: [u32; 3],
    /// The address and the length in bytes of each binding of the kernel, in order.
    pub bindings: Vec<(u64, u64)>,
}

/// The most workgroups along the second and the third dimension of a grid.
const MAX_GRID: u32 = 65_535;
/// The resolution of CUDA's timestamps in nanoseconds, as documented for `cuEventElapsedTime`.
const TIMESTAMP_RESOLUTION: f64 = 500.0;

/// A backend on a CUDA stream.
pub struct CudaBackend<S: Stream> {
    info: Info,
    limits: Limits,
    /// The compute capability of the device, such as 90.
    sm: u32,
    stream: Arc<S>,
    state: Mutex<State<S::Function>>,
}

struct State<F> {
    buffers: HashMap<BufferId, Buffer>,
    /// Batches that are ready to run, by address.
    batches: HashMap<usize, Arc<Prepared<F>>>,
    /// Loaded kernels by their WGSL. The batches hold them.
    loaded: HashMap<String, Weak<Loaded<F>>>,
    counters: Counters,
    /// The runs since profiling began, if the backend is profiled.
    profiled: Option<Vec<Timed>>,
}

/// The numbers of the timestamps before and after each dispatch of a run.
type Timed = Vec<Option<(usize, usize)>>;

#[derive(Clone, Copy)]
struct Buffer {
    address: u64,
    bytes: u64,
}

struct Loaded<F> {
    function: F,
    workgroup_size: [u32; 3],
    /// The number of each binding, and the bytes that it must have. Binding 0 has the params. Inputs and outputs follow.
    bindings: Vec<(u32, u64)>,
}

/// A batch with its kernels, and the image of its params.
struct Prepared<F> {
    /// The plan. While a weak reference exists, no other plan gets the same address.
    _batch: Weak<Plan>,
    steps: Vec<Step<F>>,
    /// The params of all kernels. The heads are filled in.
    image: Vec<u8>,
    /// Pairs of a byte offset in the image and the number of the scalar stored there.
    words: Vec<(usize, usize)>,
}

struct Step<F> {
    /// The position of its dispatch in the plan.
    dispatch: usize,
    kernel: Arc<Loaded<F>>,
    grid: [u32; 3],
    /// The offset and the length of its params in the image.
    params: (usize, usize),
    /// The slot of each storage binding.
    slots: Vec<usize>,
}

/// The alignment of each kernel's params in bytes.
const ALIGNMENT: usize = 256;

impl<S: Stream> CudaBackend<S> {
    /// Creates a backend on a stream of a device with the compute capability `sm`, such as 90.
    pub fn new(stream: S, info: Info, limits: Limits, sm: u32) -> CudaBackend<S> {
        let state = State {
            buffers: HashMap::new(),
            batches: HashMap::new(),
            loaded: HashMap::new(),
            counters: Counters::default(),
            profiled: None,
        };
        CudaBackend { info, limits, sm, stream: Arc::new(stream), state: Mutex::new(state) }
    }

    /// The limits of devices with a compute capability of at least 75.
    pub const LIMITS: Limits = Limits {
        buffers_per_kernel: 32,
        binding_bytes: (4 << 30) - 4,
        workgroups: MAX_GRID,
        workgroup_size: 1024,
        workgroup_bytes: 48 << 10,
        f16: true,
        subgroups: true,
        ..Limits::WEBGPU
    };

    /// Returns the limits of a device with the compute capability `sm`, with tensor cores if it has them.
    pub fn limits_of(sm: u32) -> Limits {
        tensor_cores::limits(Self::LIMITS, sm)
    }

    fn state(&self) -> MutexGuard<'_, State<S::Function>> {
        // A panic in another thread leaves the state as it was between two calls.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn text(&self, kernel: &Kernel, config: KernelConfig) -> Source {
        tensor_cores::source(kernel, &self.limits, config)
    }

    fn translate(&self, source: &Source) -> Result<ptx::Kernel> {
        ptx::translate_entry(&source.text, "main", &tensor_cores::options(source, self.sm))
            .map_err(|error| Error::state(error.to_string()))
    }
}

impl<F> State<F> {
    fn buffer(&self, id: BufferId) -> Result<Buffer> {
        let missing = || Error::state(format!("cuda: the buffer must exist, got {}", id.0));
        self.buffers.get(&id).copied().ok_or_else(missing)
    }

    /// Returns the address of a range of a buffer.
    fn range(&self, id: BufferId, offset: u64, len: u64) -> Result<u64> {
        let Buffer { address, bytes } = self.buffer(id)?;
        match offset.checked_add(len).is_some_and(|end| end <= bytes) {
            true => Ok(address + offset),
            false => Err(Error::argument(format!(
                "cuda: a range must be in its buffer of {bytes} bytes, got {len} bytes from {offset}"
            ))),
        }
    }
}

impl<S: Stream> CudaBackend<S> {
    fn prepared(
        &self,
        state: &mut State<S::Function>,
        batch: &Arc<Plan>,
    ) -> Result<Arc<Prepared<S::Function>>> {
        let address = Arc::as_ptr(batch) as usize;
        if let Some(known) = state.batches.get(&address) {
            return Ok(known.clone());
        }
        let (steps, image, words) = Default::default();
        let mut prepared = Prepared { _batch: Arc::downgrade(batch), steps, image, words };
        for (number, dispatch) in batch.dispatches.iter().enumerate() {
            let source = self.text(&dispatch.kernel, batch.config);
            let kernel = self.loaded(state, &source)?;
            prepared.add((number, dispatch), &source, kernel, &self.limits)?;
        }
        let prepared = Arc::new(prepared);
        state.batches.insert(address, prepared.clone());
        Ok(prepared)
    }

    fn loaded(
        &self,
        state: &mut State<S::Function>,
        source: &Source,
    ) -> Result<Arc<Loaded<S::Function>>> {
        if let Some(known) = state.loaded.get(&source.text).and_then(Weak::upgrade) {
            return Ok(known);
        }
        let kernel = self.translate(source)?;
        let loaded = Arc::new(Loaded {
            function: self.stream.load(&kernel)?,
            workgroup_size: kernel.workgroup_size,
            bindings: kernel.bindings.iter().map(|it| (it.binding, it.min_bytes)).collect(),
        });
        state.counters.pipelines += 1;
        state.loaded.insert(source.text.clone(), Arc::downgrade(&loaded));
        Ok(loaded)
    }
}

impl<S: Stream> CudaBackend<S> {
    /// Launches a kernel of a batch. `params` is the address of the batch's params. With `timed`, the numbers of its timestamps
    /// are stored there.
    fn launch(
        &self,
        step: &Step<S::Function>,
        params: u64,
        buffers: &[Buffer],
        timed: Option<&mut Timed>,
    ) -> Result<()> {
        let bindings = step.bindings(params, buffers)?;
        let workgroup_size = step.kernel.workgroup_size;
        let launch = Launch { grid: step.grid, workgroup_size, bindings };
        let Some(timed) = timed else {
            return self.stream.launch(&step.kernel.function, &launch);
        };
        let start = self.stream.record_timestamp()?;
        self.stream.launch(&step.kernel.function, &launch)?;
        timed[step.dispatch] = start.zip(self.stream.record_timestamp()?);
        Ok(())
    }
}

impl<S: Stream> Drop for CudaBackend<S> {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        for (_, buffer) in state.buffers.drain() {
            self.stream.free(buffer.address);
        }
    }
}

impl<F> Step<F> {
    /// Returns the address and the length of each binding. `params` is the address of the batch's params.
    fn bindings(&self, params: u64, buffers: &[Buffer]) -> Result<Vec<(u64, u64)>> {
        let bind = |&(number, min_bytes): &(u32, u64)| {
            let slot = number.checked_sub(1).map(|n| self.slots.get(n as usize));
            let (address, bytes) = match slot {
                None => (params + self.params.0 as u64, self.params.1 as u64),
                Some(slot) => {
                    let missing =
                        || Error::state("cuda: a kernel must have its buffers, got fewer");
                    let buffer = slot.and_then(|&slot| buffers.get(slot)).ok_or_else(missing)?;
                    (buffer.address, buffer.bytes)
                }
            };
            match bytes >= min_bytes {
                true => Ok((address, bytes)),
                false => Err(Error::argument(format!(
                    "cuda: binding {number} must have at least {min_bytes} bytes, got {bytes}"
                ))),
            }
        };
        self.kernel.bindings.iter().map(bind).collect()
    }
}

impl<F> Prepared<F> {
    fn add(
        &mut self,
        (number, dispatch): (usize, &Dispatch),
        source: &Source,
        kernel: Arc<Loaded<F>>,
        limits: &Limits,
    ) -> Result<()> {
        if source.workgroups == 0 {
            return Ok(());
        }
        let grid = source.grid.or_else(|| fold(source.workgroups, limits.workgroups));
        let grid = grid.ok_or_else(|| {
            let (kind, got) = (dispatch.kernel.kind(), source.workgroups);
            let most = u64::from(limits.workgroups).pow(2);
            let message = format!("{kind}: there must be at most {most} workgroups, got {got}");
            Error::new(ErrorKind::Limit, message)
        })?;
        let (start, head) = (self.image.len(), if source.head { &PARAMS_HEAD[..] } else { &[] });
        let vectors = source.params.max((head.len() + dispatch.params.len()).div_ceil(4)).max(1);
        for word in head {
            self.image.extend_from_slice(&word.to_le_bytes());
        }
        for (n, &scalar) in dispatch.params.iter().enumerate() {
            self.words.push((start + 4 * (head.len() + n), scalar));
        }
        self.image.resize(start + (16 * vectors).next_multiple_of(ALIGNMENT), 0);
        let slots = dispatch.inputs.iter().chain(&dispatch.outputs).copied().collect();
        let params = (start, 16 * vectors);
        self.steps.push(Step { dispatch: number, kernel, grid, params, slots });
        Ok(())
    }

    /// Returns the image with the scalars filled in.
    fn params(&self, scalars: &[u32]) -> Result<Vec<u8>> {
        let mut image = self.image.clone();
        for &(at, scalar) in &self.words {
            let word = scalars.get(scalar).ok_or_else(|| {
                let got = scalars.len();
                Error::argument(format!("cuda: there must be a scalar {scalar}, got {got} scalars"))
            })?;
            image[at..at + 4].copy_from_slice(&word.to_le_bytes());
        }
        Ok(image)
    }
}

impl<S: Stream> Backend for CudaBackend<S> {
    fn info(&self) -> &Info {
        &self.info
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        // Kernels may read whole vectors of 16 bytes.
        let bytes = bytes.next_multiple_of(16);
        let address = self.stream.allocate(bytes)?;
        let mut state = self.state();
        state.counters.buffers += 1;
        state.counters.bytes += bytes;
        let id = BufferId(state.counters.buffers);
        state.buffers.insert(id, Buffer { address, bytes });
        Ok(id)
    }

    fn free(&self, buffer: BufferId) {
        let mut state = self.state();
        if let Some(Buffer { address, bytes }) = state.buffers.remove(&buffer) {
            state.counters.bytes -= bytes;
            self.stream.free(address);
        }
    }

    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        let address = self.state().range(buffer, offset, data.len() as u64)?;
        self.stream.write(address, data)
    }

    fn compile(&self, batch: &Arc<Plan>) -> Pending<Result<()>> {
        let compiled = self.prepared(&mut self.state(), batch).map(drop);
        Box::pin(ready(compiled))
    }

    fn check(&self, text: &str) -> Option<Pending<Result<()>>> {
        let checked = ptx::check_wgsl(text).map_err(|error| Error::argument(error.to_string()));
        Some(Box::pin(ready(checked)))
    }

    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        let mut state = self.state();
        let prepared = self.prepared(&mut state, batch)?;
        let found = buffers.iter().map(|&id| state.buffer(id)).collect::<Result<Vec<Buffer>>>()?;
        let short = batch.slots.iter().zip(&found).any(|(slot, buffer)| buffer.bytes < slot.bytes);
        if short || found.len() != batch.slots.len() {
            return Err(Error::argument("cuda: buffers must be those of the batch, got others"));
        }
        state.counters.submits += 1;
        let mut timed: Timed = vec![None; batch.dispatches.len()];
        if !prepared.steps.is_empty() {
            let image = prepared.params(scalars)?;
            let params = self.stream.allocate(image.len() as u64)?;
            let launched = self.stream.write(params, &image).and_then(|()| {
                prepared.steps.iter().try_for_each(|step| {
                    state.counters.dispatches += 1;
                    let times = state.profiled.is_some().then_some(&mut timed);
                    self.launch(step, params, &found, times)
                })
            });
            self.stream.free(params);
            launched?;
        }
        if let Some(runs) = &mut state.profiled {
            runs.push(timed);
        }
        Ok(())
    }

    fn read_parts(&self, parts: Vec<ReadRange>) -> Pending<Result<()>> {
        let start = |ReadRange { buffer, offset, len, take }| {
            let address = self.state().range(buffer, offset, len)?;
            Ok((self.stream.read(address, len as usize)?, take))
        };
        let started = parts.into_iter().map(start).collect::<Result<Vec<_>>>();
        let stream = self.stream.clone();
        // The copies are in order of the other calls. Waiting for them needs no lock.
        Box::pin(async move {
            let mut taken = Ok(());
            for (download, take) in started? {
                let bytes = stream.finish(download)?;
                taken = taken.and(take(&bytes));
            }
            taken
        })
    }

    fn synchronize(&self) -> Pending<Result<()>> {
        let stream = self.stream.clone();
        Box::pin(async move { stream.synchronize() })
    }

    fn release(&self, batch: &Arc<Plan>) {
        let mut state = self.state();
        state.batches.remove(&(Arc::as_ptr(batch) as usize));
        state.loaded.retain(|_, kernel| kernel.strong_count() > 0);
    }

    fn counters(&self) -> Counters {
        let (state, staging_bytes) = (self.state(), self.stream.staging_bytes());
        let pipelines_held = state.loaded.len() as u64;
        Counters { pipelines_held, staging_bytes, ..state.counters }
    }

    fn profile(&self, since: Option<Instant>) -> Clock {
        let mut state = self.state();
        // Timestamps that nobody has taken are of no use. An error of earlier work is returned by later calls.
        drop(self.stream.take_timestamps());
        state.profiled = since.filter(|_| self.stream.has_timestamps()).map(|_| Vec::new());
        if state.profiled.is_some() {
            Clock::Timestamps
        } else {
            Clock::None
        }
    }

    fn take_times(&self) -> Pending<Result<RunsTimes>> {
        let mut state = self.state();
        let runs = state.profiled.as_mut().map(std::mem::take).unwrap_or_default();
        let taken = self.stream.take_timestamps().map(|stamps| {
            let time = |at: usize| stamps.get(at).copied();
            let times = |pair: Option<(usize, usize)>| {
                let (start, end) = pair?;
                time(start).zip(time(end))
            };
            let run = |timed: Timed| {
                let kernels = timed.into_iter().map(times).collect();
                RunTimes { kernels, whole: None }
            };
            let runs = runs.into_iter().map(run).collect();
            RunsTimes { runs, resolution: TIMESTAMP_RESOLUTION }
        });
        Box::pin(ready(taken))
    }

    fn source(&self, kernel: &Kernel, config: KernelConfig) -> Option<String> {
        let source = self.text(kernel, config);
        Some(self.translate(&source).map_or(source.text, |kernel| kernel.ptx))
    }
}
