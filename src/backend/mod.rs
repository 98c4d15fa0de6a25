//! Backends: the interface to machines that run batches. Backends run kernels, and have no names of operations.

mod caches;
mod read;
mod times;

pub use caches::CacheLimits;
pub(crate) use read::read_callback;
pub use read::{ReadRange, Take};
pub use times::{resolution, Clock, RunTimes, RunsTimes, Times};

use crate::error::Result;
use crate::kernel::{Kernel, KernelConfig, Limits, Plan};
use std::any::Any;
use std::future::{ready, Future};
use std::pin::Pin;
use std::sync::Arc;
use web_time::Instant;

#[cfg(feature = "cpu")]
pub mod cpu;
#[cfg(feature = "reference")]
pub mod reference;
#[cfg(feature = "gpu")]
pub mod wgpu;

/// `Send + Sync` natively. In a browser any type, because GPU objects stay on their thread.
#[cfg(not(target_arch = "wasm32"))]
pub trait Shared: Send + Sync {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Send + Sync + ?Sized> Shared for T {}

/// `Send + Sync` natively. In a browser any type, because GPU objects stay on their thread.
#[cfg(target_arch = "wasm32")]
pub trait Shared {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> Shared for T {}

/// A future that a user may await under any executor. Natively it is `Send`.
#[cfg(not(target_arch = "wasm32"))]
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// A future that a user may await under any executor.
#[cfg(target_arch = "wasm32")]
pub type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// The progress of compiling the kernels of a program or of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compiling {
    /// The number of kernels compiled so far.
    pub done: usize,
    /// The number of kernels to compile.
    pub total: usize,
}

/// A listener that is called for each compiled kernel.
#[cfg(not(target_arch = "wasm32"))]
pub type Listener = Arc<dyn Fn(Compiling) + Send + Sync>;
/// A listener that is called for each compiled kernel.
#[cfg(target_arch = "wasm32")]
pub type Listener = Arc<dyn Fn(Compiling)>;

/// The number of a buffer on a machine. Numbers are never reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u64);

/// The description of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The name of the backend: `cpu`, `vulkan`, `metal`, `dx12`, `webgpu`, `cuda`.
    pub backend: &'static str,
    /// The name of the adapter.
    pub name: String,
    /// The vendor, if known.
    pub vendor: String,
    pub kind: DeviceKind,
    /// The driver and its version, if known.
    pub driver: String,
}

/// The kind of a machine, in order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum DeviceKind {
    DiscreteGpu,
    IntegratedGpu,
    /// A GPU of unknown kind. Browsers do not report the kind.
    Gpu,
    Cpu,
    /// A software GPU, which computes on the CPU. Never chosen by default.
    Software,
}

impl DeviceKind {
    /// Returns the kind as a word: `discrete`, `integrated`, `gpu`, `cpu`, `software`.
    pub fn name(self) -> &'static str {
        match self {
            DeviceKind::DiscreteGpu => "discrete",
            DeviceKind::IntegratedGpu => "integrated",
            DeviceKind::Gpu => "gpu",
            DeviceKind::Cpu => "cpu",
            DeviceKind::Software => "software",
        }
    }
}

/// Counters of a backend since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pipelines compiled, or kernels prepared on the CPU.
    pub pipelines: u64,
    /// Pipelines held now.
    pub pipelines_held: u64,
    /// Pipelines evicted because the cache was full.
    pub pipelines_evicted: u64,
    /// Buffers allocated from the system.
    pub buffers: u64,
    /// Bytes of these buffers allocated now.
    pub bytes: u64,
    /// Bytes of other buffers: params, staging for uploads and reads, and times of kernels.
    pub staging_bytes: u64,
    /// Bind groups made.
    pub bind_groups: u64,
    /// Bind groups held now.
    pub bind_groups_held: u64,
    /// Bind groups evicted because the cache was full.
    pub bind_groups_evicted: u64,
    /// Batches submitted.
    pub submits: u64,
    /// Kernels run.
    pub dispatches: u64,
}

/// A machine that runs batches: the driver interface. All calls return at once. Only the futures of `read`, `read_parts`,
/// `synchronize` and `compile` wait. They also return errors that a machine reports late, such as lack of memory, device loss,
/// or a rejected shader.
///
/// To use a custom backend, pass it to [`Device::from_backend`](crate::device::Device::from_backend). To have it discovered and
/// chosen like the backends of this crate, call [`device::register`](crate::device::register). Turn on the feature `unstable`,
/// because the modules with plans, kernels and code generation are public only with it. A backend must keep these rules:
///
/// - A [`Plan`] contains everything to run: kernels in order, which read and write slots. It names no operations. [`Kernel`]
///   defines the result of each kernel. [`schedule`](crate::schedule::schedule()) plans how a machine with given [`Limits`]
///   runs a kernel, and [`wgsl`](crate::codegen::wgsl) prints the schedule. A backend may run kernels in another way, as the
///   CPU does.
/// - Work is done in the order of the calls. A kernel sees all earlier writes, and a read sees the results of all earlier runs.
///   Calls may come from several threads.
/// - The same batch is run many times, as the same `Arc`. Prepared work for a batch is kept until
///   [`release`](Backend::release). A batch may run with other buffers each time.
/// - The limits are true, because plans rely on them.
pub trait Backend: Shared {
    /// Returns the description of the machine.
    fn info(&self) -> &Info;
    /// Returns the limits and features of the machine.
    fn limits(&self) -> &Limits;
    /// Allocates a buffer of at least `bytes` bytes (a multiple of 4, not 0). Its contents are undefined.
    fn allocate(&self, bytes: u64) -> Result<BufferId>;
    /// Frees a buffer. Work that was already submitted may still use it.
    fn free(&self, buffer: BufferId);
    /// Copies `data` (a multiple of 4 bytes) to `offset`, after the work submitted so far.
    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()>;
    /// Compiles the kernels of a batch that are not compiled yet. Resolves when the outcome is known. A backend that compiles
    /// only when a batch runs need not implement this.
    fn compile(&self, _: &Arc<Plan>) -> Pending<Result<()>> {
        Box::pin(ready(Ok(())))
    }
    /// Checks whether the machine compiles a WGSL module. If not, the `InvalidArgument` error has the line and the column.
    /// `None` if the machine does not use WGSL.
    fn check(&self, _: &str) -> Option<Pending<Result<()>>> {
        None
    }
    /// Sets or removes the listener that is called for each compiled kernel. A backend that compiles nothing need not call it.
    fn on_compile(&self, _: Option<Listener>) {}
    /// Submits a batch. `buffers[i]` is the buffer of slot i. `scalars` has the bits of the user's numbers, followed by the
    /// batch's [`Plan::constants`].
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()>;
    /// Announces that a read follows the next batch, so that both may be submitted together.
    fn defer_submit(&self) {}
    /// Reads parts of buffers as one submission, after the work submitted so far. Each part's callback is called once, in
    /// order. Errors of the machine take precedence over errors of callbacks.
    fn read_parts(&self, parts: Vec<ReadRange>) -> Pending<Result<()>>;
    /// Reads the `len` bytes from `offset`, both multiples of 4. Calls [`read_parts`](Backend::read_parts) with one part.
    fn read(&self, buffer: BufferId, offset: u64, len: u64) -> Pending<Result<Vec<u8>>> {
        read::read(self, buffer, offset, len)
    }
    /// Resolves when the work submitted so far is done.
    fn synchronize(&self) -> Pending<Result<()>>;
    /// Drops everything that was cached for a batch.
    fn release(&self, batch: &Arc<Plan>);
    /// Limits the caches from now on. A backend need not limit what it does not cache.
    fn set_cache_limits(&self, _: &CacheLimits) {}
    /// Returns the counters.
    fn counters(&self) -> Counters;
    /// Starts or stops measuring the times of kernels, and returns the clock for it. Host times are counted from `since`.
    /// Without profiling, nothing is measured.
    fn profile(&self, _since: Option<Instant>) -> Clock {
        Clock::None
    }
    /// Returns the times of the runs since the last call, once they are done. Each accepted run has an entry.
    fn take_times(&self) -> Pending<Result<RunsTimes>> {
        Box::pin(ready(Ok(RunsTimes::default())))
    }
    /// Returns the source of a kernel as this machine compiles it, if the machine compiles text.
    fn source(&self, kernel: &Kernel, config: KernelConfig) -> Option<String>;
    /// Returns the backend as a concrete type, if it shares objects with an app.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}
