//! A device: a backend together with its recorded graph, its plan cache and its memory pool.
//!
//! [`Device::new`] opens the best machine, [`Device::with`] the one that a [`Preference`] selects, and [`Device::discover`]
//! lists all of them. [`Device::stats`] counts what the device computed, compiled and holds. [`Device::set_cache_limits`]
//! limits its caches.

mod caches;
mod checks;
mod choose;
mod compute;
mod drivers;
mod eager;
// Only models register evictables.
#[cfg_attr(not(feature = "model"), allow(dead_code))]
mod evict;
mod kernel_config;
mod memory;
mod pool;
mod profiling;
mod read;
mod replay;
mod stages;
mod state;
mod stats;
#[cfg_attr(not(feature = "distributed"), allow(dead_code))]
mod sums;

pub use crate::backend::CacheLimits;
pub(crate) use crate::backend::{read_callback, Take};
pub use crate::kernel::{F16Matmul, KernelConfig, Limits, Plan, Rows, Tile, Transpose};
pub use choose::{Found, Preference};
pub(crate) use compute::BoundPlan;
pub use drivers::{register, Driver, Machine, Opening};
#[cfg(feature = "model")]
pub(crate) use evict::{Evictable, Rank};
pub use memory::{HeldTensor, MemoryReport};
pub(crate) use replay::Replay;

use crate::backend::{Backend, Info, Listener, Pending, Shared};
use crate::debug::{shows, Debug};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::grad::{grad, reached};
use crate::graph::{Capture, NodeId, Pullback, Recorded};
use crate::op::{Op, ShaderCall};
use crate::profile::Phase;
use crate::shape::Shape;
use crate::span::span;
use pool::{Fit, Purpose};
use profiling::Profiling;
pub(crate) use read::ReadRequest;
use rustc_hash::FxHashSet;
use state::State;
pub use stats::Stats;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use web_time::Instant;

/// The most nodes recorded since the last computation before an assignment to a variable submits them.
const MAX_NODES_BEFORE_ASSIGNMENT_RUNS: u64 = 2_000;

/// An open machine that holds tensors. Cloning a device is cheap and returns a handle to the same device.
///
/// Calling an operation only records it. Reading a tensor, [`Device::submit`] or a batch runs everything that is needed, as one
/// submission. The device also submits automatically once 32,768 recorded nodes or 256 MiB of uploads are waiting, so a loop
/// may run without reading.
///
/// The device closes when its last handle and its last tensor are dropped. Closing waits for the work in flight. A process
/// that calls `exit`, or keeps the device in a static, drops neither. Wait for [`Device::synchronize`] before such a process
/// ends, because ending it while the driver works may crash it.
#[derive(Clone)]
pub struct Device {
    inner: Arc<Inner>,
}

/// Opens a backend. Also returns the reason for a fallback to the CPU.
type Opener = Arc<dyn OpenBackend>;

/// A function that opens a backend. Each call opens a new one.
trait OpenBackend: Fn() -> Pending<Result<(Box<dyn Backend>, Option<String>)>> + Shared {}
impl<F: Fn() -> Pending<Result<(Box<dyn Backend>, Option<String>)>> + Shared> OpenBackend for F {}

struct Inner {
    backend: Box<dyn Backend>,
    /// The reason why this is the CPU although a GPU was expected.
    fallback: Option<String>,
    /// Opens another device in the same way. `None` if the device was made from a backend.
    opener: Option<Opener>,
    /// Contents that may be evicted when memory is short.
    evictables: Mutex<evict::Evictables>,
    /// Serializes planning, compiling and running of batches. Locked before `state`.
    run_lock: Mutex<()>,
    /// Locked only for short times.
    state: Mutex<State>,
    /// Whether `State::profile` is set. An atomic copy, so that an unprofiled device does not lock the state to check.
    profiling: AtomicBool,
}

#[cfg_attr(feature = "js", warpweft_macros::js(only(submit, synchronize)))]
impl Device {
    /// Opens the best device: a discrete GPU, otherwise an integrated one, otherwise the CPU. If it is the CPU,
    /// [`Device::fallback`] returns the reason. In native programs `WARPWEFT_DEVICE` overrides the choice. Its values are
    /// `auto`, `gpu`, `low-power`, `cpu`, `software`, an index into [`Device::discover`], the name of a backend (`vulkan`),
    /// or part of a device name.
    ///
    /// # Errors
    /// `NoDevice` if no device can be opened.
    pub async fn new() -> Result<Device> {
        Device::with(Preference::from_environment()?).await
    }

    /// Opens the device that a [`Preference`] selects.
    ///
    /// # Errors
    /// `NoDevice` if no device matches. The message lists the available devices.
    pub async fn with(preference: Preference) -> Result<Device> {
        Device::opening(Arc::new(move || Box::pin(choose::open(preference.clone())))).await
    }

    /// Opens the device that this build of the browser core supports. `low_power` is the power preference passed to the
    /// browser.
    #[cfg(all(target_arch = "wasm32", feature = "js"))]
    pub(crate) async fn only(low_power: bool, fallback: Option<String>) -> Result<Device> {
        let open = move || {
            let fallback = fallback.clone();
            let opened = async move { Ok((choose::open_only(low_power).await?, fallback)) };
            Box::pin(opened) as Pending<_>
        };
        Device::opening(Arc::new(open)).await
    }

    async fn opening(opener: Opener) -> Result<Device> {
        let (backend, fallback) = opener().await?;
        Ok(Device::opened(backend, fallback, Some(opener)))
    }

    /// Opens a new device in the way that this one was opened, with the same memory limit. Use it to continue after a device
    /// was lost.
    ///
    /// # Errors
    /// `NoDevice` if no device can be opened; `Unsupported` for a device from [`Device::from_backend`].
    pub async fn reopen(&self) -> Result<Device> {
        let Some(opener) = self.inner.opener.clone() else {
            let message =
                "reopen: the device must be one of `new`, `with` or `from_opener`, got one of `from_backend`";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let device = Device::opening(opener).await?;
        device.set_memory_limit(self.memory_limit());
        Ok(device)
    }

    /// Returns a number that is equal for handles of the same device.
    #[cfg(all(target_arch = "wasm32", feature = "js"))]
    pub(crate) fn address(&self) -> usize {
        Arc::as_ptr(&self.inner) as *const () as usize
    }

    /// Lists every device, the recommended one first. Devices that cannot be used have a reason.
    pub async fn discover() -> Vec<Found> {
        choose::discover().await
    }

    /// Opens a device on a custom backend. `open` is called now, and again by [`Device::reopen`].
    ///
    /// # Errors
    /// The errors of `open`.
    pub async fn from_opener(open: impl Fn() -> Opening + Shared + 'static) -> Result<Device> {
        let opener = move || {
            let opening = open();
            Box::pin(async move { Ok((opening.await?, None)) }) as Pending<_>
        };
        Device::opening(Arc::new(opener)).await
    }

    /// Creates a device on a custom backend. `fallback` is returned by [`Device::fallback`].
    pub fn from_backend(backend: Box<dyn Backend>, fallback: Option<String>) -> Device {
        Device::opened(backend, fallback, None)
    }

    fn opened(
        backend: Box<dyn Backend>,
        fallback: Option<String>,
        opener: Option<Opener>,
    ) -> Device {
        let (evictables, turn, profiling) = Default::default();
        let state = State { eager: shows(Debug::Eager), ..State::default() };
        let state = Mutex::new(state);
        let inner =
            Inner { backend, fallback, opener, evictables, run_lock: turn, state, profiling };
        Device { inner: Arc::new(inner) }
    }

    /// Returns the name, kind and driver of the machine.
    pub fn info(&self) -> &Info {
        self.inner.backend.info()
    }

    /// Returns the limits and features of the machine.
    pub fn limits(&self) -> &Limits {
        self.inner.backend.limits()
    }

    /// Returns the reason why the device is the CPU although a GPU was expected.
    pub fn fallback(&self) -> Option<&str> {
        self.inner.fallback.as_deref()
    }

    /// Submits one batch. It computes the values of variables, and the tensors recorded since the last submission that are
    /// still held and that no other operation uses.
    ///
    /// # Errors
    /// `Limit` and `Memory`, as for reading.
    pub fn submit(&self) -> Result<()> {
        let turn = self.run_guard();
        let mut state = self.state();
        // Older nodes were part of something that was computed then. A handle that is not dropped yet does not make them sinks
        // again.
        let mut sinks = state.graph.sinks();
        // Nodes left over from compiling a program depend on inputs without data, so they cannot be computed.
        if !state.has_data(&sinks) {
            let all = std::mem::take(&mut sinks);
            for sink in all {
                if state.has_data(&[sink]) {
                    sinks.push(sink);
                }
            }
        }
        let submitted = self.evaluate(&turn, state, &sinks);
        let mut state = self.state();
        (state.nodes_at_submit, state.uploaded) = (state.graph.live(), 0);
        submitted
    }

    /// Resolves when all work submitted so far is done.
    ///
    /// # Errors
    /// The first error of that work since the last wait.
    pub fn synchronize(&self) -> Pending<Result<()>> {
        self.recovering(|| "synchronize".into(), self.inner.backend.synchronize())
    }

    /// Compiles the kernels of a batch that are not compiled yet.
    pub(crate) fn compiled(&self, batch: &Arc<Plan>) -> Pending<Result<()>> {
        self.inner.backend.compile(batch)
    }

    /// Waits for `work`. Invalidates the pool if the work ran out of memory.
    fn recovering(
        &self,
        label: impl FnOnce() -> String,
        work: Pending<Result<()>>,
    ) -> Pending<Result<()>> {
        let (work, inner) = (self.noting_wait(label, work), Arc::downgrade(&self.inner));
        Box::pin(async move {
            let result = work.await;
            let short = matches!(&result, Err(error) if error.kind() == ErrorKind::Memory);
            if let Some(inner) = inner.upgrade().filter(|_| short) {
                let device = Device { inner };
                device.state().pool.invalidate(&*device.inner.backend);
            }
            result
        })
    }

    /// Returns the plan of the last submission.
    pub fn last_plan(&self) -> Option<Arc<Plan>> {
        self.state().last_plan.clone()
    }

    /// Whether both handles refer to the same device.
    pub fn is_same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in another thread leaves the state as it was between two calls.
        self.inner.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates a source with data from the host.
    pub(crate) fn upload(&self, shape: Shape, dtype: DType, data: &[u8]) -> Result<NodeId> {
        self.source(shape, dtype, Fit::Class, data)
    }

    /// Creates a source that [`Device::fill`] fills in chunks before anything reads it. Its buffer has the exact size of the
    /// data.
    pub(crate) fn reserve(&self, shape: Shape, dtype: DType) -> Result<NodeId> {
        self.source(shape, dtype, Fit::Exact, &[])
    }

    /// Writes data into a reserved source at an offset in bytes. The offset and the length are multiples of four.
    pub(crate) fn fill(&self, node: NodeId, offset: u64, data: &[u8]) -> Result<()> {
        span!("upload", bytes = data.len());
        let state = self.state();
        let buffer = state.buffers.get(&node).map(|held| held.buffer);
        let buffer = buffer.ok_or_else(|| Error::state("tensor: its memory must be there"))?;
        self.inner.backend.write(buffer, offset, data)
    }

    /// Creates a source with the size of its shape, and writes `data` at its start.
    fn source(&self, shape: Shape, dtype: DType, fit: Fit, data: &[u8]) -> Result<NodeId> {
        self.check("tensor", shape, dtype)?;
        self.evicting(|| self.allocated_source(shape, dtype, fit, data))
    }

    fn allocated_source(
        &self,
        shape: Shape,
        dtype: DType,
        fit: Fit,
        data: &[u8],
    ) -> Result<NodeId> {
        span!("upload", bytes = data.len());
        let mut state = self.state();
        state.graph.check_room("tensor")?;
        let (backend, begun) =
            (&*self.inner.backend, state.profile.as_ref().map(|_| Instant::now()));
        state.pool.called(backend);
        let bytes = shape.numel() as u64 * dtype.size() as u64;
        let bytes = bytes.max(1).next_multiple_of(16);
        let held = state.pool.take(backend, bytes, fit, Purpose::Upload)?;
        state.pool.explain_peak(|| format!("an upload of {dtype} {shape}"));
        // Backends write whole words. The last bytes of narrow elements are padded to a word and written separately.
        let (whole, rest) = data.split_at(data.len() / 4 * 4);
        let mut written = backend.write(held.buffer, 0, whole);
        if written.is_ok() && !rest.is_empty() {
            let mut last = [0; 4];
            last[..rest.len()].copy_from_slice(rest);
            written = backend.write(held.buffer, whole.len() as u64, &last);
        }
        if let Err(error) = written {
            state.pool.give(backend, held);
            return Err(error);
        }
        let node = state.graph.source(shape, dtype);
        state.buffers.insert(node, Arc::new(held));
        state.uploaded += bytes;
        if let (Some(begun), Some(Profiling { recorder, .. })) = (begun, &mut state.profile) {
            recorder.spent(Phase::Upload, begun, || format!("upload {dtype} {shape}"));
        }
        Ok(node)
    }

    /// Checks that the device supports the type, and that a tensor of this shape fits in one buffer.
    pub(crate) fn check(&self, name: &str, shape: Shape, dtype: DType) -> Result<()> {
        if dtype == DType::F16 && !self.limits().f16 {
            let message = format!("{name}: the device must have f16, got {}", self.info().name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let bytes = shape.numel() as u64 * dtype.size() as u64;
        let limit = self.limits().binding_bytes;
        if bytes > limit {
            let message = format!(
                "{name}: a tensor must have at most {limit} bytes on this device, got {bytes} for shape {shape}"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        Ok(())
    }

    /// Records a placeholder for an input of a program.
    pub(crate) fn placeholder(&self, shape: Shape, dtype: DType) -> NodeId {
        self.state().graph.placeholder(shape, dtype)
    }

    /// Whether a node is a placeholder, or is computed from one.
    pub(crate) fn depends_on_placeholder(&self, node: NodeId) -> bool {
        self.state().graph.depends_on_placeholder(node)
    }

    /// Records a number that the user passed.
    pub(crate) fn scalar(&self, dtype: DType, bits: u32) -> NodeId {
        self.state().graph.scalar(dtype, bits)
    }

    pub(crate) fn record(&self, op: Op, inputs: &[NodeId]) -> Result<NodeId> {
        let cast_to_f16 = op == Op::Cast(DType::F16);
        if cast_to_f16 && !self.limits().f16 {
            let message = format!("cast: the device must have f16, got {}", self.info().name);
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let mut state = self.state();
        let begun = state.profile.as_ref().map(|_| Instant::now());
        let node = state.graph.record(op, inputs)?;
        if let (Some(begun), Some(Profiling { recorder, .. })) = (begun, &mut state.profile) {
            recorder.recorded(begun);
        }
        if !state.eager && state.is_full() {
            drop(state);
            // A failure is reported by the read that needs the result, because it fails again there.
            _ = self.submit();
            return Ok(node);
        }
        self.run_early(state, &[node], &[node])?;
        Ok(node)
    }

    /// Records a custom shader, and returns its results. `pullback` is its gradient.
    pub(crate) fn record_shader(
        &self,
        call: &Arc<ShaderCall>,
        inputs: &[NodeId],
        pullback: Option<Arc<Pullback>>,
    ) -> Result<Vec<NodeId>> {
        let mut state = self.state();
        let shader = state.graph.record(Op::Shader(call.clone()), inputs)?;
        if let Some(pullback) = pullback {
            state.graph.set_pullback(shader, pullback);
        }
        let mut outputs = Vec::with_capacity(call.outputs.len());
        for n in 0..call.outputs.len() {
            outputs.push(state.graph.record(Op::Output(call.clone(), n), &[shader])?);
        }
        state.graph.release(shader);
        self.run_early(state, &outputs, &outputs)?;
        Ok(outputs)
    }

    /// Captures the operations that compute `results` from `operands`, so that they can be recorded again on other operands.
    pub(crate) fn pullback(&self, operands: &[NodeId], results: &[NodeId]) -> Result<Pullback> {
        let Capture { trace, sources, scalars, nodes, .. } = self.state().graph.trace(results);
        let mut of = Vec::with_capacity(sources.len());
        for source in sources {
            let at = operands.iter().position(|&operand| operand == source);
            of.push(at.ok_or_else(|| {
                Error::argument(
                    "shader: the gradient must use the operands alone, got another tensor",
                )
            })?);
        }
        let position = |result: &NodeId| nodes.iter().position(|node| node == result);
        let results = results.iter().filter_map(position).collect();
        Ok(Pullback { trace, sources: of, scalars, results })
    }

    /// Records the gradients of a node with respect to other nodes; see [`grad`].
    pub(crate) fn grad(
        &self,
        of: NodeId,
        seed: Option<NodeId>,
        wrt: &[NodeId],
        by_variables: bool,
    ) -> Result<Vec<Option<NodeId>>> {
        let mut state = self.state();
        state.collect_garbage(&*self.inner.backend);
        let since = state.graph.count;
        let found = grad(&mut state.graph, of, seed, wrt, by_variables)?;
        let waiting = if state.eager { state.graph.uncomputed_since(since) } else { Vec::new() };
        self.run_early(state, &waiting, &found.iter().copied().flatten().collect::<Vec<_>>())?;
        Ok(found)
    }

    /// Returns the index of a value in `values` that the node was computed from; see [`reached`].
    pub(crate) fn reached(&self, of: NodeId, values: &[NodeId]) -> Result<Option<usize>> {
        let mut state = self.state();
        state.collect_garbage(&*self.inner.backend);
        reached(&mut state.graph, of, values)
    }

    /// Stops gradients at a node.
    pub(crate) fn detach(&self, node: NodeId) {
        let mut state = self.state();
        state.graph.detach(node);
        state.reclaim(&*self.inner.backend);
    }

    /// Whether so many nodes are pending that an assignment submits them, so that a loop that never waits does not record
    /// without limit.
    pub(crate) fn has_many_waiting(&self) -> bool {
        let state = self.state();
        state.graph.count - state.computed_at > MAX_NODES_BEFORE_ASSIGNMENT_RUNS
    }

    pub(crate) fn describe(&self, node: NodeId) -> (Shape, DType) {
        let state = self.state();
        (state.graph.shape(node), state.graph.dtype(node))
    }

    pub(crate) fn retain(&self, node: NodeId) {
        let mut state = self.state();
        state.graph.retain(node);
        state.reclaim(&*self.inner.backend);
    }

    pub(crate) fn release(&self, node: NodeId) {
        let mut state = self.state();
        state.graph.release(node);
        state.reclaim(&*self.inner.backend);
    }

    /// Computes the nodes in one submission.
    pub(crate) fn run(&self, nodes: &[NodeId]) -> Result<()> {
        self.evicting(|| self.evaluate(&self.run_guard(), self.state(), nodes))
    }

    /// Filters the nodes that are not computed yet, without duplicates.
    pub(crate) fn pending(&self, nodes: &[NodeId]) -> Vec<NodeId> {
        self.state().pending(nodes)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        state.pool.trim(&*self.backend);
        for (_, held) in state.buffers.drain() {
            if let Some(held) = Arc::into_inner(held) {
                self.backend.free(held.buffer);
            }
        }
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}: {})", self.info().backend, self.info().name)
    }
}

impl Device {
    /// Sets a listener that is called whenever a kernel of a batch or a program has been compiled, for example for a progress
    /// bar. The listener gets the number of compiled kernels and their total. `None` removes the listener. Cached kernels are
    /// not compiled again, and the CPU compiles none. The listener may be called from several threads, and must not wait for
    /// the device.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use std::sync::Arc;
    /// # use warpweft::backend::Compiling;
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Auto).await?;
    /// device.on_compile(Some(Arc::new(|Compiling { done, total }| println!("{done} of {total}"))));
    /// device.tensor(&[1.0f32, 2.0], &[2])?.exp().read::<f32>().await?;
    /// device.on_compile(None);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn on_compile(&self, listener: Option<Listener>) {
        self.inner.backend.on_compile(listener);
    }

    /// Checks whether the device compiles a WGSL module. `None` on devices without WGSL.
    pub(crate) fn check_source(&self, text: &str) -> Option<Pending<Result<()>>> {
        self.inner.backend.check(text)
    }

    /// Returns the history of a node, operands first. `None` if it has more than `most` nodes. The nodes that `wanted` picks
    /// are held, and the caller releases them. They are held under the same lock, because an unheld node may be freed, or lose
    /// its history, at any moment.
    pub(crate) fn history(
        &self,
        of: NodeId,
        most: usize,
        leaves: &FxHashSet<NodeId>,
        wanted: impl Fn(&Recorded) -> bool,
    ) -> Option<Vec<(Recorded, Option<NodeId>)>> {
        let mut state = self.state();
        let all = state.graph.history(of, most, leaves)?;
        let pick = |one: Recorded| {
            let held = wanted(&one).then_some(one.id);
            (one, held)
        };
        let all: Vec<(Recorded, Option<NodeId>)> = all.into_iter().map(pick).collect();
        let held: Vec<NodeId> = all.iter().filter_map(|(_, held)| *held).collect();
        state.graph.retain_all(&held);
        state.reclaim(&*self.inner.backend);
        Some(all)
    }

    /// Filters the nodes that are not computed yet.
    pub(crate) fn open(&self, nodes: impl Iterator<Item = NodeId>) -> Vec<NodeId> {
        let state = self.state();
        let open = nodes.filter(|&node| !state.graph.is_materialized(node));
        // Aliases are computed together with their inputs.
        open.flat_map(|node| [vec![node], state.graph.waiting_aliases(node)].concat()).collect()
    }

    /// Keeps the history of nodes that were computed only for inspection, as if they were uncomputed.
    pub(crate) fn keep_open(&self, nodes: &[NodeId]) {
        let mut state = self.state();
        for &node in nodes {
            if !state.graph.is_freed(node) && state.graph.is_materialized(node) {
                state.graph.mark_eager(node);
            }
        }
    }

    /// Returns the number of nodes recorded so far.
    pub(crate) fn recorded(&self) -> u64 {
        self.state().graph.count
    }

    /// Makes a node a checkpoint. Gradients record it again from nodes with sequence numbers below `since`.
    pub(crate) fn set_checkpoint(&self, node: NodeId, since: u64) {
        self.state().graph.set_checkpoint(node, since);
    }
}

#[cfg(feature = "wgpu-interop")]
impl Device {
    /// Returns the backend, if it is a `B`.
    pub(crate) fn backend<B: Backend + 'static>(&self) -> Option<&B> {
        self.inner.backend.as_any()?.downcast_ref()
    }

    /// Records a source in a buffer of the app, which `take` returns. The buffer is released with the source and never reused.
    pub(crate) fn source_in(
        &self,
        name: &str,
        (shape, dtype): (Shape, DType),
        take: impl FnOnce() -> Result<crate::backend::BufferId>,
    ) -> Result<NodeId> {
        self.check(name, shape, dtype)?;
        let held = pool::PooledBuffer::lent(take()?);
        let mut state = self.state();
        let node = state.graph.source(shape, dtype);
        state.buffers.insert(node, Arc::new(held));
        Ok(node)
    }

    /// Computes a node, and returns its buffer, which is valid as long as the node.
    pub(crate) fn buffer_of(&self, node: NodeId) -> Result<crate::backend::BufferId> {
        self.run(&[node])?;
        Ok(self.state().buffers_of(&[node])?[0])
    }
}
