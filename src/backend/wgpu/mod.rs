//! GPUs through wgpu: Vulkan, Metal, DX12, and the WebGPU of browsers. This module checks and packs batches, numbers buffers,
//! and carries late errors to reads. `web` has the code for browsers, and `native` the code for all other platforms.

mod adapter;
mod adapters;
mod batch;
mod bind_groups;
#[doc(hidden)]
pub mod completion;
#[doc(hidden)] // For tests, like `completion`.
pub mod deferred;
mod dynamic_shapes;
mod error_log;
mod memory;
mod pipeline;
mod pipelines;
mod prepared_dispatch;
mod readbacks;
#[cfg(feature = "wgpu-interop")]
mod sharing;
mod times;

#[cfg(not(target_arch = "wasm32"))]
mod native;
#[cfg(not(target_arch = "wasm32"))]
use native as platform;
#[cfg(target_arch = "wasm32")]
mod web;
#[cfg(target_arch = "wasm32")]
use web as platform;

pub use adapter::{Adapter, AdapterOptions, PowerPreference};
pub use adapters::{adapters, is_available, open};
#[doc(hidden)]
pub use platform::EXPECTED;
#[cfg(all(target_arch = "wasm32", feature = "wgpu-interop"))]
pub use web::sharing as from_javascript;

use super::{
    Backend, BufferId, CacheLimits, Clock, Counters, Info, Listener, Pending, ReadRange, RunsTimes,
};
use crate::codegen::{self, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Kernel, KernelConfig, Limits, Plan};
use crate::lru::Lru;
use crate::schedule::schedule;
use batch::{address, Prepared};
use bind_groups::BindGroupCache;
use deferred::ErrorDependencies;
use error_log::lock;
use memory::{Buffers, Uniform};
use pipelines::Pipelines;
use platform::Gpu;
use readbacks::PendingCopy;
use std::any::Any;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard};
use times::Profiler;
use web_time::Instant;

/// An open GPU.
pub struct WgpuBackend {
    info: Info,
    limits: Limits,
    gpu: Arc<Gpu>,
    /// A separate lock, so that other threads can run batches while one thread compiles. Locked before `state`.
    pipelines: Mutex<Pipelines>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    buffers: Buffers,
    uniform: Uniform,
    groups: BindGroupCache,
    /// Prepared batches, by the address of the plan.
    batches: Lru<usize, Prepared>,
    caches: CacheLimits,
    submits: u64,
    dispatches: u64,
    profiler: Option<Profiler>,
    no_timestamps: bool,
}

impl WgpuBackend {
    fn new(info: Info, limits: Limits, gpu: Arc<Gpu>) -> WgpuBackend {
        let (pipelines, state) = Default::default();
        WgpuBackend { info, limits, gpu, pipelines, state }
    }

    /// Destroys the device. Every pending wait and every later call returns `DeviceLost`.
    pub fn destroy(&self) {
        self.gpu.errors.lose("it was destroyed");
        self.gpu.destroy();
    }

    /// Lets every kernel that is compiled from now on read all its sizes from the params. For tests of this backend.
    #[doc(hidden)]
    pub fn read_sizes(&self) {
        lock(&self.pipelines).shapes.always = true;
    }

    /// Runs a batch like [`Backend::run`], with the given source for each dispatch. For tests of this backend.
    #[doc(hidden)]
    pub fn run_sources(
        &self,
        batch: &Arc<Plan>,
        sources: &[Source],
        buffers: &[BufferId],
        scalars: &[u32],
    ) -> Result<()> {
        self.run_text(batch, buffers, scalars, &mut |number| sources[number].clone())
    }

    fn run_text(
        &self,
        batch: &Arc<Plan>,
        ids: &[BufferId],
        scalars: &[u32],
        text: &mut dyn FnMut(usize) -> Source,
    ) -> Result<()> {
        let (gpu, errors) = (&self.gpu, &self.gpu.errors);
        errors.check("run")?;
        let mut guard = self.prepare(batch, text)?;
        let State {
            buffers, uniform, groups, batches, caches, submits, dispatches, profiler, ..
        } = &mut *guard;
        let Some(prepared) = batches.get(&address(batch)) else {
            unreachable!("it was prepared, and the state is locked since")
        };
        // Whole vectors are bound, so the size is rounded down.
        let most = self.limits.binding_bytes / 16 * 16;
        let slots = Prepared::slots(batch, ids, buffers, most)?;
        if let Some(error) = prepared.history.compile_error() {
            // The batch is not run. Its outputs are undefined, and reading them returns this error.
            errors.store(errors.tick(), error.clone());
            prepared.pass_on(ids, buffers, None);
            profiler.iter_mut().for_each(|profiler| profiler.skipped(batch.dispatches.len()));
            return Ok(());
        }
        prepared.fill(scalars)?;
        if prepared.steps.all.is_empty() {
            profiler.iter_mut().for_each(|profiler| profiler.skipped(batch.dispatches.len()));
            return Ok(());
        }
        if let Some(old) = uniform.make_room(gpu, prepared.image.len())? {
            groups.remove_buffer(old.number);
            gpu.discard(&old.buffer);
        }
        let (uniform, params) = uniform.ready(&prepared.image);
        let trial = prepared.history.first_run();
        let mut timing = match profiler {
            Some(profiler) => {
                let timer = profiler.timer(gpu, &prepared.steps.dispatches())?;
                Some((profiler, timer, Instant::now()))
            }
            None => None,
        };
        gpu.submit((&uniform.buffer, params), trial.as_ref(), |encoder| {
            let groups = (&mut *groups, caches.bind_groups);
            let timer = timing.as_mut().and_then(|(_, timer, _)| Some((timer.as_mut()?, &**batch)));
            prepared.steps.record(gpu, groups, (uniform, &slots), encoder, timer);
        });
        if let Some((profiler, timer, begun)) = timing {
            profiler.ran(gpu, batch.dispatches.len(), timer, begun);
        }
        prepared.pass_on(ids, buffers, trial.as_ref());
        *submits += 1;
        *dispatches += prepared.steps.all.len() as u64;
        Ok(())
    }

    /// Compiles a batch unless that was done, and returns the state with the prepared batch.
    fn prepare(
        &self,
        batch: &Arc<Plan>,
        text: &mut dyn FnMut(usize) -> Source,
    ) -> Result<MutexGuard<'_, State>> {
        let known = || {
            let state = lock(&self.state);
            state.batches.contains(&address(batch)).then_some(state)
        };
        if let Some(state) = known() {
            return Ok(state);
        }
        let mut pipelines = lock(&self.pipelines);
        // Another thread may have compiled it meanwhile.
        if let Some(state) = known() {
            return Ok(state);
        }
        let made = Prepared::new(&self.gpu, &self.limits, &mut pipelines, batch, text)?;
        let mut state = lock(&self.state);
        state.batches.retain(|prepared| !prepared.is_dropped());
        state.batches.insert(address(batch), made, 0);
        let most = state.caches.pipelines;
        pipelines.all.shrink(most, &mut state.batches);
        Ok(state)
    }

    /// Generates the source of a kernel for this configuration.
    fn text(&self, kernel: &Kernel, config: KernelConfig) -> Source {
        codegen::wgsl(kernel, &schedule(kernel, &self.limits, config), platform::DIALECT)
    }

    /// Returns a function that generates the sources of a batch's kernels, by dispatch number.
    fn texts<'a>(&'a self, batch: &'a Plan) -> impl FnMut(usize) -> Source + 'a {
        |number| self.text(&batch.dispatches[number].kernel, batch.config)
    }

    fn start_read(&self, parts: Vec<ReadRange>) -> Result<Pending<Result<()>>> {
        let gpu = self.gpu.clone();
        gpu.errors.check("read")?;
        let (mut wanted, mut unresolved) = (Vec::with_capacity(parts.len()), Vec::new());
        {
            let state = lock(&self.state);
            for ReadRange { buffer, offset, len, take } in parts {
                let memory = state.buffers.range("read", buffer, offset, len)?;
                unresolved.push(memory.written.clone());
                wanted.push(PendingCopy { source: memory.held.buffer.clone(), offset, len, take });
            }
        }
        let (wanted, empty): (Vec<PendingCopy>, Vec<_>) =
            wanted.into_iter().partition(|w| w.len > 0);
        empty.into_iter().try_for_each(|nothing| (nothing.take)(&[]))?;
        if wanted.is_empty() {
            return Ok(self.synchronize());
        }
        let arriving = gpu.read(wanted)?;
        let at = gpu.errors.tick();
        Ok(Box::pin(async move {
            let taken = arriving.await;
            gpu.errors.finish(at, "read", &unresolved)?;
            taken.unwrap_or_else(|| {
                let message =
                    "read: the memory must be mapped to be read, got a failure of the device";
                Err(Error::new(ErrorKind::Memory, message))
            })
        }))
    }
}

impl Backend for WgpuBackend {
    fn info(&self) -> &Info {
        &self.info
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        self.gpu.errors.check("allocate")?;
        lock(&self.state).buffers.allocate(&self.gpu, &self.limits, bytes)
    }

    fn free(&self, buffer: BufferId) {
        let freed = {
            let mut state = lock(&self.state);
            let Some(freed) = state.buffers.remove(buffer) else { return };
            state.groups.remove_buffer(buffer.0);
            freed
        };
        if let Some(own) = freed.own() {
            self.gpu.discard(own);
        }
    }

    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        self.gpu.errors.check("write")?;
        let len = data.len() as u64;
        let target = {
            let mut state = lock(&self.state);
            let target = state.buffers.range("write", buffer, offset, len)?.held.buffer.clone();
            if offset == 0 {
                // The write replaces the contents, so earlier errors no longer matter.
                state.buffers.depend(buffer, &ErrorDependencies::default());
            }
            target
        };
        if data.is_empty() {
            return Ok(());
        }
        self.gpu.write(&target, offset, data)
    }

    fn compile(&self, batch: &Arc<Plan>) -> Pending<Result<()>> {
        let compiled = self.gpu.errors.check("compile").and_then(|()| {
            let mut state = self.prepare(batch, &mut self.texts(batch))?;
            let prepared = state.batches.get(&address(batch));
            Ok(prepared
                .map(|prepared| prepared.history.dependencies(None, [], []))
                .unwrap_or_default())
        });
        let (gpu, known) = (self.gpu.clone(), self.gpu.outcomes_known());
        Box::pin(async move {
            let unresolved = compiled?;
            known.await;
            gpu.errors.check("compile")?;
            unresolved.error().cloned().map_or(Ok(()), Err)
        })
    }

    fn check(&self, text: &str) -> Option<Pending<Result<()>>> {
        Some(self.gpu.check(text))
    }

    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        self.run_text(batch, buffers, scalars, &mut self.texts(batch))
    }

    fn defer_submit(&self) {
        self.gpu.defer_submit();
    }

    fn read_parts(&self, parts: Vec<ReadRange>) -> Pending<Result<()>> {
        match self.start_read(parts) {
            Ok(pending) => pending,
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn synchronize(&self) -> Pending<Result<()>> {
        let gpu = self.gpu.clone();
        if let Err(error) = gpu.errors.check("sync") {
            return Box::pin(ready(Err(error)));
        }
        let done = gpu.done();
        let at = gpu.errors.tick();
        Box::pin(async move {
            done.await;
            gpu.errors.finish(at, "sync", &[])
        })
    }

    fn release(&self, batch: &Arc<Plan>) {
        lock(&self.state).batches.remove(&address(batch));
    }

    fn on_compile(&self, listener: Option<Listener>) {
        lock(&self.pipelines).listener = listener;
    }

    fn set_cache_limits(&self, limits: &CacheLimits) {
        let mut pipelines = lock(&self.pipelines);
        let mut state = lock(&self.state);
        state.caches = *limits;
        pipelines.all.shrink(limits.pipelines, &mut state.batches);
        state.groups.shrink(limits.bind_groups);
    }

    fn counters(&self) -> Counters {
        let pipelines = lock(&self.pipelines);
        let state = lock(&self.state);
        Counters {
            pipelines: pipelines.made,
            pipelines_held: pipelines.all.len() as u64,
            pipelines_evicted: pipelines.all.evicted(),
            buffers: state.buffers.made,
            bytes: state.buffers.bytes,
            staging_bytes: state.uniform.bytes()
                + self.gpu.staging_bytes()
                + state.profiler.as_ref().map_or(0, Profiler::bytes),
            bind_groups: state.groups.made,
            bind_groups_held: state.groups.all.len() as u64,
            bind_groups_evicted: state.groups.all.evicted(),
            submits: state.submits,
            dispatches: state.dispatches,
        }
    }

    fn profile(&self, since: Option<Instant>) -> Clock {
        self.set_profile(since)
    }

    fn take_times(&self) -> Pending<Result<RunsTimes>> {
        self.times()
    }

    fn source(&self, kernel: &Kernel, config: KernelConfig) -> Option<String> {
        Some(self.text(kernel, config).text)
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl Drop for WgpuBackend {
    /// Frees the buffers of this backend. A device that belongs to an app stays open.
    fn drop(&mut self) {
        let State { buffers, uniform, .. } = &*lock(&self.state);
        for buffer in buffers.own().chain(uniform.buffer()) {
            self.gpu.discard(buffer);
        }
    }
}
