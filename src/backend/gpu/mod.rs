//! What all GPUs have in common, whatever interface they are reached through: batches checked and
//! packed, buffers by number, late errors carried to reads.

mod batch;
mod choice;
mod doubts;
mod ledger;
mod memory;
mod pipelines;

pub(crate) use batch::Step;
pub use choice::{Choice, Power};
pub(crate) use doubts::Fate;
pub(crate) use ledger::{lock, Ledger};
#[doc(hidden)]
pub use pipelines::fold;

use super::{Backend, BufferId, Counters, Info, Pending, Shared};
use crate::codegen::{self, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Batch, Kernel, Limits, Variants};
use batch::Prepared;
use doubts::Doubts;
use memory::{Buffers, Uniform};
use pipelines::Pipelines;
use std::collections::HashMap;
use std::future::ready;
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// What a buffer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Usage {
    /// Tensors: kernels use it, and bytes are copied in and out.
    Storage,
    /// Params.
    Uniform,
}

/// An open GPU as an interface gives it. What it is called with was checked; what it finds wrong
/// later it tells its ledger, and settles the fate that was passed by it.
pub trait Machine: Shared + Sized + 'static {
    /// Cheap to clone.
    type Buffer: Clone + Shared;
    type Pipeline: Shared;
    /// The steps of a batch as they are kept.
    type Recorded: Default + Shared;

    /// What went wrong so far.
    fn ledger(&self) -> &Ledger;
    /// A buffer; an error where it is known at once that there is no memory.
    fn create(&self, number: u64, usage: Usage, bytes: u64, fate: &Fate) -> Result<Self::Buffer>;
    /// Gives its memory back at once; work already submitted still sees it.
    fn discard(&self, buffer: &Self::Buffer);
    /// Compiles a kernel with these numbers of inputs and outputs. Errors begin with `what`.
    fn compile(
        &self,
        text: &str,
        arity: (usize, usize),
        label: &str,
        what: String,
        fate: &Fate,
    ) -> Self::Pipeline;
    /// Keeps what it needs to run these steps again and again.
    fn record(&self, steps: Vec<Step<Self::Pipeline>>) -> Self::Recorded;
    /// The batch is not run any more.
    fn forget(&self, recorded: &Self::Recorded);
    /// A read follows the batch that comes next: both may go in one submission.
    fn hold(&self) {}
    /// Submits a batch.
    fn submit(&self, run: Run<'_, Self>);
    /// Copies bytes into a buffer, which are not none.
    fn write(&self, buffer: &Self::Buffer, offset: u64, data: &[u8]) -> Result<()>;
    /// Bytes of a buffer, not none, once all earlier errors are known too. None where they could not
    /// be mapped.
    fn read(&self, buffer: &Self::Buffer, range: Range<u64>) -> Result<Pending<Option<Vec<u8>>>>;
    /// Resolves when the work submitted so far is done and its errors are known.
    fn done(&self) -> Pending<()>;
    /// How many bind groups were made.
    fn bind_groups(&self) -> u64;
    /// Loses the device; the ledger knows already.
    fn destroy(&self);
    /// The backend goes. What is awaited still comes.
    fn close(&self);
}

/// A batch to submit.
pub struct Run<'a, M: Machine> {
    pub(crate) recorded: &'a M::Recorded,
    /// The buffer for params, and what is written to it before.
    pub(crate) uniform: &'a M::Buffer,
    pub(crate) params: &'a [u8],
    /// Each slot's buffer.
    pub(crate) slots: &'a [&'a M::Buffer],
    pub(crate) fate: Option<&'a Fate>,
}

/// An open GPU.
pub struct GpuBackend<M: Machine> {
    info: Info,
    limits: Limits,
    machine: Arc<M>,
    /// Apart from the rest: while one thread compiles, others run. Locked before `state` where both
    /// are.
    pipelines: Mutex<Pipelines<M::Pipeline>>,
    state: Mutex<State<M>>,
}

struct State<M: Machine> {
    buffers: Buffers<M::Buffer>,
    uniform: Uniform<M::Buffer>,
    /// By the batch's address.
    batches: HashMap<usize, Prepared<M>>,
    submits: u64,
    dispatches: u64,
}

impl<M: Machine> GpuBackend<M> {
    pub(crate) fn new(info: Info, limits: Limits, machine: M) -> GpuBackend<M> {
        let state = State {
            buffers: Buffers::default(),
            uniform: Uniform::default(),
            batches: HashMap::default(),
            submits: 0,
            dispatches: 0,
        };
        let machine = Arc::new(machine);
        GpuBackend { info, limits, machine, pipelines: Mutex::default(), state: Mutex::new(state) }
    }

    /// Loses the device: everything that is awaited, and every later call, answers `DeviceLost`.
    pub fn destroy(&self) {
        self.machine.ledger().lose("it was destroyed");
        self.machine.destroy();
    }

    /// As [`Backend::run`], with the text of each dispatch given: for tests of this backend.
    #[doc(hidden)]
    pub fn run_sources(
        &self,
        batch: &Arc<Batch>,
        sources: &[Source],
        buffers: &[BufferId],
        scalars: &[u32],
    ) -> Result<()> {
        self.run_text(batch, buffers, scalars, &mut |number| sources[number].clone())
    }

    fn run_text(
        &self,
        batch: &Arc<Batch>,
        ids: &[BufferId],
        scalars: &[u32],
        text: &mut dyn FnMut(usize) -> Source,
    ) -> Result<()> {
        let (machine, ledger) = (&*self.machine, self.machine.ledger());
        ledger.check("run")?;
        self.prepare(batch, text)?;
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let Some(prepared) = state.batches.get_mut(&address(batch)) else {
            return Err(Error::data("run: the batch was forgotten while it was run"));
        };
        let slots = Prepared::<M>::slots(batch, ids, &state.buffers)?;
        if let Some(error) = prepared.record.broken() {
            // Not run at all: what it would have written means nothing, and reading it says so.
            ledger.store(ledger.tick(), error.clone());
            prepared.pass_on(ids, &mut state.buffers, None);
            return Ok(());
        }
        let (dispatches, trial) = (prepared.dispatches, prepared.record.trial());
        prepared.fill(scalars)?;
        if dispatches == 0 {
            return Ok(());
        }
        let (uniform, params) = state.uniform.ready(machine, &prepared.image)?;
        machine.submit(Run {
            recorded: &prepared.recorded,
            uniform,
            params,
            slots: &slots,
            fate: trial.as_ref(),
        });
        prepared.pass_on(ids, &mut state.buffers, trial.as_ref());
        state.submits += 1;
        state.dispatches += dispatches;
        Ok(())
    }

    /// Compiles a batch, unless that was done.
    fn prepare(&self, batch: &Arc<Batch>, text: &mut dyn FnMut(usize) -> Source) -> Result<()> {
        let known = || lock(&self.state).batches.contains_key(&address(batch));
        if known() {
            return Ok(());
        }
        let mut pipelines = lock(&self.pipelines);
        // Another thread may have done it meanwhile.
        if !known() {
            let made = Prepared::new(&*self.machine, &self.limits, &mut pipelines, batch, text)?;
            let batches = &mut lock(&self.state).batches;
            batches.retain(|_, prepared| {
                let dead = prepared.dead();
                if dead {
                    self.machine.forget(&prepared.recorded);
                }
                !dead
            });
            batches.insert(address(batch), made);
        }
        Ok(())
    }

    fn start_read(&self, id: BufferId, offset: u64, len: u64) -> Result<Pending<Result<Vec<u8>>>> {
        let machine = self.machine.clone();
        machine.ledger().check("read")?;
        let (source, doubts) = {
            let state = lock(&self.state);
            let memory = state.buffers.range("read", id, offset, len)?;
            (memory.buffer.clone(), memory.written.clone())
        };
        if len == 0 {
            let done = self.sync();
            return Ok(Box::pin(async move { done.await.map(|()| Vec::new()) }));
        }
        let arriving = machine.read(&source, offset..offset + len)?;
        let at = machine.ledger().tick();
        Ok(Box::pin(async move {
            let bytes = arriving.await;
            machine.ledger().finish(at, "read", &doubts)?;
            bytes.ok_or_else(|| {
                let message = "read: the device could not map the memory to read from";
                Error::new(ErrorKind::Memory, message)
            })
        }))
    }
}

impl<M: Machine> Backend for GpuBackend<M> {
    fn info(&self) -> &Info {
        &self.info
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn allocate(&self, bytes: u64) -> Result<BufferId> {
        self.machine.ledger().check("allocate")?;
        lock(&self.state).buffers.allocate(&*self.machine, &self.limits, bytes)
    }

    fn free(&self, buffer: BufferId) {
        let freed = lock(&self.state).buffers.remove(buffer);
        if let Some(buffer) = freed {
            self.machine.discard(&buffer);
        }
    }

    fn write(&self, buffer: BufferId, offset: u64, data: &[u8]) -> Result<()> {
        self.machine.ledger().check("write")?;
        let len = data.len() as u64;
        let target = {
            let mut state = lock(&self.state);
            let target = state.buffers.range("write", buffer, offset, len)?.buffer.clone();
            if offset == 0 {
                // Written anew: what went wrong before does not matter any more.
                state.buffers.depend(buffer, &Doubts::default());
            }
            target
        };
        if data.is_empty() {
            return Ok(());
        }
        self.machine.write(&target, offset, data)
    }

    fn run(&self, batch: &Arc<Batch>, buffers: &[BufferId], scalars: &[u32]) -> Result<()> {
        // Layers of a model share their kernels: each text is written once.
        let mut written: Vec<(&Kernel, Source)> = Vec::new();
        self.run_text(batch, buffers, scalars, &mut |number| {
            let kernel = &*batch.dispatches[number].kernel;
            if let Some((_, source)) = written.iter().find(|(other, _)| *other == kernel) {
                return source.clone();
            }
            let source = codegen::wgsl(kernel, batch.variants);
            written.push((kernel, source.clone()));
            source
        })
    }

    fn hold(&self) {
        self.machine.hold();
    }

    fn read(&self, buffer: BufferId, offset: u64, len: u64) -> Pending<Result<Vec<u8>>> {
        match self.start_read(buffer, offset, len) {
            Ok(pending) => pending,
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn sync(&self) -> Pending<Result<()>> {
        let machine = self.machine.clone();
        if let Err(error) = machine.ledger().check("sync") {
            return Box::pin(ready(Err(error)));
        }
        let done = machine.done();
        let at = machine.ledger().tick();
        Box::pin(async move {
            done.await;
            machine.ledger().finish(at, "sync", &Doubts::default())
        })
    }

    fn forget(&self, batch: &Arc<Batch>) {
        if let Some(prepared) = lock(&self.state).batches.remove(&address(batch)) {
            self.machine.forget(&prepared.recorded);
        }
    }

    fn counters(&self) -> Counters {
        let pipelines = lock(&self.pipelines).made;
        let state = lock(&self.state);
        Counters {
            pipelines,
            buffers: state.buffers.made,
            bytes: state.buffers.bytes,
            bind_groups: self.machine.bind_groups(),
            submits: state.submits,
            dispatches: state.dispatches,
        }
    }

    fn source(&self, kernel: &Kernel, variants: Variants) -> Option<String> {
        Some(codegen::wgsl(kernel, variants).text)
    }
}

impl<M: Machine> Drop for GpuBackend<M> {
    fn drop(&mut self) {
        self.machine.close();
    }
}

/// What a batch is known by.
fn address(batch: &Arc<Batch>) -> usize {
    Arc::as_ptr(batch) as usize
}
