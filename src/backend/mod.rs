//! Machines: what one must be able to do to run batches. No operation's name appears here.

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

/// `Send + Sync` natively; nothing in a browser, where GPU objects stay on their thread.
#[cfg(not(target_arch = "wasm32"))]
pub trait Shared: Send + Sync {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Send + Sync + ?Sized> Shared for T {}

/// `Send + Sync` natively; nothing in a browser, where GPU objects stay on their thread.
#[cfg(target_arch = "wasm32")]
pub trait Shared {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> Shared for T {}

/// A future that a user may await under any executor: `Send` natively.
#[cfg(not(target_arch = "wasm32"))]
pub type Pending<T> = Pin<Box<dyn Future<Output = T> + Send>>;
/// A future that a user may await under any executor.
#[cfg(target_arch = "wasm32")]
pub type Pending<T> = Pin<Box<dyn Future<Output = T>>>;

/// Kernels of a program or of operations are being compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compiling {
    /// How many are.
    pub done: usize,
    /// How many have to be.
    pub total: usize,
}

/// Hears of kernels that were compiled.
#[cfg(not(target_arch = "wasm32"))]
pub type Listener = Arc<dyn Fn(Compiling) + Send + Sync>;
/// Hears of kernels that were compiled.
#[cfg(target_arch = "wasm32")]
pub type Listener = Arc<dyn Fn(Compiling)>;

/// A buffer on a machine, by number. Numbers are not used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufferId(pub u64);

/// What a machine is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// The backend's word: `cpu`, `vulkan`, `metal`, `dx12`, `webgpu`, `cuda`.
    pub backend: &'static str,
    /// The adapter's own name.
    pub name: String,
    /// Who made it, where that is known.
    pub vendor: String,
    pub kind: DeviceKind,
    /// The driver and its version, where known.
    pub driver: String,
}

/// What kind of machine it is; also the order in which machines are preferred.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DeviceKind {
    DiscreteGpu,
    IntegratedGpu,
    /// A GPU of which nothing more is known (browsers do not tell).
    Gpu,
    Cpu,
    /// A software GPU, which computes on the CPU; never chosen unasked.
    Software,
}

impl DeviceKind {
    /// The word for it: `discrete`, `integrated`, `gpu`, `cpu`, `software`.
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

/// Counts of what a backend made since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pipelines compiled (kernels prepared, on the CPU).
    pub pipelines: u64,
    /// Those of them that are held now.
    pub pipelines_held: u64,
    /// Those that had to go because there were too many.
    pub pipelines_evicted: u64,
    /// Buffers allocated from the system.
    pub buffers: u64,
    /// Bytes of them that are allocated now.
    pub bytes: u64,
    /// Bytes of what the backend has beside them: params, what is uploaded and read through, and times of kernels.
    pub staging_bytes: u64,
    /// Bind groups made.
    pub bind_groups: u64,
    /// Those of them that are held now.
    pub bind_groups_held: u64,
    /// Those that had to go because there were too many.
    pub bind_groups_evicted: u64,
    /// Batches submitted.
    pub submits: u64,
    /// Kernels run.
    pub dispatches: u64,
}

/// A machine: the driver interface. All calls return at once; only `read` and `sync` wait, and errors that a machine reports
/// late (memory, device loss, a shader it refuses) arrive there.
///
/// Whoever implements it for a machine of one's own makes a device of it by
/// [`Device::from_backend`](crate::device::Device::from_backend), or has it found and chosen like this crate's own by
/// [`device::register`](crate::device::register). What is asked of it:
///
/// - A [`Plan`] is all there is to run: kernels in order, each reading slots and writing others. No operation is named there.
///   What a kernel computes says [`Kernel`]; how it is best run on a machine with such [`Limits`] says
///   [`schedule`](crate::schedule::schedule()), and [`wgsl`](crate::codegen::wgsl) prints that. A backend is free to run it
///   otherwise, as the CPU does.
/// - Work is done in the order of the calls: a kernel sees what was written before it, a read what ran before it. Calls may
///   come from several threads.
/// - The same batch comes again and again, as the same `Arc`: what is prepared for it is kept until
///   [`forget`](Backend::forget). One batch may come with other buffers each time.
/// - Limits are true: planning keeps to them.
pub trait Backend: Shared {
    /// What it is.
    fn info(&self) -> &Info;
    /// What it can do.
    fn limits(&self) -> &Limits;
    /// A buffer of at least `bytes` bytes (a multiple of 4, not 0). Its contents are anything.
    fn allocate(&self, bytes: u64) -> Result<BufferId>;
    /// Gives a buffer back; work already submitted still sees it.
    fn free(&self, buffer: BufferId);
    /// Copies `data` (a multiple of 4 bytes) to `offset`, after the work submitted so far.
    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()>;
    /// Compiles what a batch needs, unless that was done; resolves when it is known how that went. What a machine compiles
    /// only when it runs a batch it need not compile here.
    fn compile(&self, _: &Arc<Plan>) -> Pending<Result<()>> {
        Box::pin(ready(Ok(())))
    }
    /// Whether it compiles a module of WGSL, and what is wrong with that if not: a `Data` error that says line and column.
    /// None of a machine that takes no WGSL.
    fn check(&self, _: &str) -> Option<Pending<Result<()>>> {
        None
    }
    /// Has a listener called for each kernel that is compiled, or nobody; what a machine need not compile it need not tell.
    fn on_compile(&self, _: Option<Listener>) {}
    /// Submits a batch: `buffers[i]` is slot i's buffer, `scalars` the bits of the user's numbers and, behind them, the
    /// batch's own ([`Plan::constants`]).
    fn run(&self, batch: &Arc<Plan>, buffers: &[BufferId], scalars: &[u32]) -> Result<()>;
    /// A read follows the batch that is run next: both may be submitted together.
    fn defer_submit(&self) {}
    /// Reads parts of buffers, after the work submitted so far, as one submission: each part is taken once, in order. Of
    /// the errors there are, those of the machine come before those of who takes.
    fn read_parts(&self, parts: Vec<ReadRange>) -> Pending<Result<()>>;
    /// The `len` bytes from `offset` (multiples of 4): [`read_parts`](Backend::read_parts) with one part.
    fn read(&self, buffer: BufferId, offset: u64, len: u64) -> Pending<Result<Vec<u8>>> {
        read::read(self, buffer, offset, len)
    }
    /// Resolves when the work submitted so far is done.
    fn sync(&self) -> Pending<Result<()>>;
    /// Whatever was cached for a batch is not needed any more.
    fn forget(&self, batch: &Arc<Plan>);
    /// Holds no more than this from now on. What a machine does not keep it need not limit.
    fn set_cache_limits(&self, _: &CacheLimits) {}
    /// What was made so far.
    fn counters(&self) -> Counters;
    /// Takes the times of the kernels of each run from now on, or no more; what there is to take them by. Times by the host's
    /// clock are counted from `since`. Whoever does not profile pays nothing.
    fn profile(&self, _since: Option<Instant>) -> Clock {
        Clock::None
    }
    /// The times of the runs since this was asked last, an entry for each that was accepted, once they are done.
    fn take_times(&self) -> Pending<Result<RunsTimes>> {
        Box::pin(ready(Ok(RunsTimes::default())))
    }
    /// The text of a kernel as this machine compiles it, where there is one.
    fn source(&self, kernel: &Kernel, config: KernelConfig) -> Option<String>;
    /// The backend by its own type, where it has something to share with others.
    fn as_any(&self) -> Option<&dyn Any> {
        None
    }
}
